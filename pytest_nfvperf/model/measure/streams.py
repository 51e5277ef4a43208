"""Streams, requests and connections between namespaces: what a test requests, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pytest_nfvperf.model.arguments import Name, checked, number, refuse, whole
from pytest_nfvperf.model.disturbance.trial import InvalidReason
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.measure.ledger import CounterDelta, CounterSnapshot, deltas
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.trial import total_known

CONNECTS = (10, 25_000)
"""Enough for a percentile; fewer than a client's ports (28,232 by the kernel's default), so none is used twice."""

MESSAGE_BYTES = (14, 65_000)
"""sockperf's header alone, and what fits its buffer."""

Protocol = Literal["tcp", "udp"]
StreamDirection = Literal["forward", "reverse"]
"""``forward``: the client sends to the server; ``reverse``: the server to the client."""

MAX_STREAMS = 128
"""iperf3(1): ``MAX_STREAMS``."""
MIN_DURATION_S = 0.1
"""The shortest interval that iperf3 reports."""
MAX_RUN_S = 86_400
"""iperf3(1): ``-t`` takes at most a day."""
_MAX_WINDOW_BYTES = 512 << 20
_MSS_BYTES = (88, 9216)
"""Linux refuses less (TCP_MIN_MSS), iperf3 more (MAX_MSS)."""
_BUFFER_BYTES = {"tcp": (1, 1 << 20), "udp": (16, 65507)}
"""iperf3(1), ``-l``: 16 bytes of a datagram are its own header, 65507 is the largest UDP payload of IPv4."""


@checked()
@dataclass(frozen=True, slots=True)
class ConnectSpec:
    """TCP connections that are opened and closed without data. Raises ValueError for those that cannot be measured.

    Attributes:
        connects: how many, where the engine can count them.
        duration_s: whole seconds, for engines that cannot.
        client_cpus, server_cpus: CPUs that the two ends may run on; empty: any.
    """

    connects: Annotated[int, whole(*CONNECTS)] = 5000
    duration_s: Annotated[int, whole(1, unit="seconds")] = 1
    client_cpus: tuple[int, ...] = ()
    server_cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectResult:
    """Results of connects.

    Attributes:
        times, mean_ns: of successful ones, from the call of connect() to its return, by the client's clock.
        failed: refused, or timed out.
        accepted: by the server.
        elapsed_ns: from the first that the server accepted to the last.
    """

    spec: ConnectSpec
    times: Histogram
    mean_ns: float
    failed: int
    accepted: int
    elapsed_ns: int
    engine: str

    @property
    def connects_per_s(self) -> float | None:
        return (self.accepted - 1) * 1e9 / self.elapsed_ns if self.elapsed_ns > 0 else None


@checked()
@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Requests over one TCP connection. Raises ValueError for those that cannot be measured.

    Attributes:
        duration_s: whole seconds.
        load_per_s: requests a second, without waiting for responses; None: each after the response to the last.
        client_cpus, server_cpus: CPUs that the two processes may run on; empty: any.
    """

    message_bytes: Annotated[int, whole(*MESSAGE_BYTES)] = 64
    duration_s: Annotated[int, whole(1, unit="seconds")] = 1
    load_per_s: Annotated[int, whole(1)] | None = None
    client_cpus: tuple[int, ...] = ()
    server_cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestResult:
    """Results of requests.

    Attributes:
        times: from the sending of a request to the arrival of its response, by the client's clock.
        elapsed_ns: from the first request to the last.
    """

    spec: RequestSpec
    times: Histogram
    unanswered: int
    elapsed_ns: int
    engine: str

    @property
    def responses_per_s(self) -> float | None:
        return self.times.total * 1e9 / self.elapsed_ns if self.elapsed_ns > 0 else None


@dataclass(frozen=True, slots=True)
class Reconnection:
    """A restart of the DUT, and how long it interrupted datagrams between two namespaces.

    Attributes:
        outage_ns: the longest time without an arrival, from the beginning of the restart.
        restart_ns: until the DUT was configured again.
        interval_ns: between sent datagrams; shorter outages do not show.
    """

    outage_ns: int
    restart_ns: int
    interval_ns: int
    sent: int
    arrived: int


def longest_gap_ns(arrived_ns: Sequence[int], begin_ns: int, end_ns: int) -> int:
    """The longest time without an arrival that reaches into the time from begin to end."""
    times = sorted(arrived_ns)
    before = max((time for time in times if time <= begin_ns), default=begin_ns)
    within = [before, *(time for time in times if begin_ns < time <= end_ns), end_ns]
    return max(later - earlier for earlier, later in pairwise(within))


# Streams are no trials (RFC 2544): TCP adapts its load to loss, so there is no intended load, and a lost segment is a
# retransmit. The figure is *goodput* (RFC 2647 section 3.7): payload bits/s that the receiver's application read.
# Rates are computed from integer counts, never stored.


@checked()
@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Parameters of a stream measurement. Raises ValueError for those that cannot be measured.

    Args:
        protocol: "tcp" or "udp".
        streams: parallel streams in each direction.
        duration_s: measured time in seconds, in steps of 0.1.
        omit_s: warm-up before it, not measured: slow start and the learning of bridges. iperf3 runs whole seconds, so
            ``omit_s + duration_s`` is rounded up. What comes after the measured time is not counted.
        direction: "forward" (the client sends), "reverse" (the server sends), "both" (at once).
        window_bytes: socket buffers (SO_SNDBUF, SO_RCVBUF), which bound TCP's window; None: the kernel tunes them.
        mss_bytes: TCP's maximum segment size; None: from the MTU.
        buffer_bytes: length of one read or write; for UDP the payload of one datagram. None: 128 KiB for TCP; for
            UDP what fits the path's MTU.
        bitrate_bps: UDP only: payload bits/s **of each stream**, as iperf3's ``-b`` counts; None: no limit.
        congestion: TCP's congestion control by the kernel's name ("cubic"); None: the namespace's default.
        client_cpus, server_cpus: CPUs that the two processes may run on; empty: any.
    """

    protocol: Protocol = "tcp"
    streams: Annotated[int, whole(1, MAX_STREAMS)] = 1
    duration_s: Annotated[float, number(MIN_DURATION_S)] = 1.0
    omit_s: Annotated[float, number(0)] = 0.0
    direction: Literal["forward", "reverse", "both"] = "forward"
    window_bytes: Annotated[int, whole(1, _MAX_WINDOW_BYTES)] | None = None
    mss_bytes: Annotated[int, whole(*_MSS_BYTES)] | None = None
    buffer_bytes: int | None = None
    bitrate_bps: Annotated[int, whole(1)] | None = None
    congestion: Name | None = None
    client_cpus: tuple[Annotated[int, whole(0)], ...] = ()
    server_cpus: tuple[Annotated[int, whole(0)], ...] = ()

    def __post_init__(self) -> None:
        if self.run_s > MAX_RUN_S:
            raise ArgumentError(f"omit_s + duration_s must be at most {MAX_RUN_S} s, not {self.run_s}")
        if self.buffer_bytes is not None:
            refuse("StreamSpec", "buffer_bytes", self.buffer_bytes, whole(*_BUFFER_BYTES[self.protocol]))
        if self.protocol == "tcp" and self.bitrate_bps is not None:
            raise ArgumentError("bitrate_bps is for udp: TCP finds its own rate; leave it out, or measure udp")
        for name, value in (("mss_bytes", self.mss_bytes), ("congestion", self.congestion)):
            if self.protocol == "udp" and value is not None:
                raise ArgumentError(f"{name} is TCP's: leave it out for udp")

    @property
    def run_s(self) -> int:
        """Whole seconds that the streams flow, warm-up included."""
        return math.ceil(round(self.omit_s + self.duration_s, 6))

    @property
    def directions(self) -> tuple[StreamDirection, ...]:
        return ("forward", "reverse") if self.direction == "both" else (self.direction,)


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """One stream over the measured time. None: the engine, the kernel or the protocol does not count it.

    Attributes:
        received_bytes, sent_bytes: payload that the applications read and wrote, each by its own clock.
        retransmits: TCP segments.
        datagrams, lost_datagrams: UDP: expected by the highest number seen; missing among them.
    """

    received_bytes: int
    sent_bytes: int | None = None
    retransmits: int | None = None
    datagrams: int | None = None
    lost_datagrams: int | None = None


@dataclass(frozen=True, slots=True)
class StreamDirectionCounts:
    """All streams of one direction, "forward" or "reverse".

    Attributes:
        elapsed_ns: the measured time by the receiver's clock.
        sender_elapsed_ns: by the sender's; None if it did not report it.
    """

    direction: StreamDirection
    elapsed_ns: int
    streams: tuple[StreamCounts, ...]
    sender_elapsed_ns: int | None = None

    @property
    def received_bytes(self) -> int:
        return sum(stream.received_bytes for stream in self.streams)

    @property
    def goodput_bps(self) -> float | None:
        return self.received_bytes * 8e9 / self.elapsed_ns if self.elapsed_ns > 0 else None

    @property
    def retransmits(self) -> int | None:
        return total_known(stream.retransmits for stream in self.streams)

    @property
    def lost_datagrams(self) -> int | None:
        return total_known(stream.lost_datagrams for stream in self.streams)

    @property
    def datagrams(self) -> int | None:
        return total_known(stream.datagrams for stream in self.streams)


@dataclass(frozen=True, slots=True)
class SideCpu:
    """CPU time that one end's process used over the **whole** run, warm-up included (wait4(2), all threads).

    It contains the softirqs of its own system calls (a veth delivers in the sender's context), but not the work of
    ksoftirqd and of a datapath's threads: see the evidence ``cpu``. ``iperf3_percent``: of one CPU, as iperf3 reports:
    user + system time over wall-clock time.
    """

    user_ns: int
    system_ns: int
    elapsed_ns: int
    iperf3_percent: float | None = None

    @property
    def seconds(self) -> float:
        return (self.user_ns + self.system_ns) / 1e9

    @property
    def cores(self) -> float | None:
        """CPUs used on average, by our own measurement; None if no time passed."""
        return (self.user_ns + self.system_ns) / self.elapsed_ns if self.elapsed_ns > 0 else None


@dataclass(frozen=True, slots=True)
class StreamEvidence:
    """Counters of one source before and after the run.

    Sources: ``client:NAMESPACE`` and ``server:NAMESPACE`` (interface, TCP and UDP counters), ``softirq`` (NET_RX,
    NET_TX and backlog drops by CPU) and ``cpu`` (clock ticks of the whole machine by kind).
    """

    before: CounterSnapshot
    after: CounterSnapshot

    @property
    def source(self) -> str:
        return self.before.source

    @property
    def deltas(self) -> tuple[CounterDelta, ...]:
        return deltas(self.before, self.after)


@dataclass(frozen=True, slots=True)
class StreamResult:
    """What the streams did. An invalid result says nothing about the DUT, and may hold no counts at all.

    Attributes:
        directions: one entry each, in the order of ``spec.directions``.
        client_cpu, server_cpu: None if nobody saw the process end.
        facts: real congestion control, MSS, socket buffers.
        evidence: counters around the run.
    """

    spec: StreamSpec
    directions: tuple[StreamDirectionCounts, ...]
    client_cpu: SideCpu | None = None
    server_cpu: SideCpu | None = None
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[StreamEvidence, ...] = ()
    invalid: tuple[InvalidReason, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.invalid

    @property
    def received_bytes(self) -> int | None:
        return total_known(each.received_bytes for each in self.directions)

    @property
    def goodput_bps(self) -> float | None:
        """Payload bits/s at the receivers, the sum of all directions; None if nothing could be read."""
        return total_known(each.goodput_bps for each in self.directions)

    @property
    def retransmits(self) -> int | None:
        return total_known(each.retransmits for each in self.directions)

    @property
    def cores(self) -> float | None:
        """CPUs used by both ends on average (S2: 1.8 for one thread); None if an end is unknown."""
        return total_known(side.cores if side is not None else None for side in (self.client_cpu, self.server_cpu))
