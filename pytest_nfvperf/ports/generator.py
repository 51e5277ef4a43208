"""What is at the DUT's ports: the generator of frames and its limits, receivers of copies, VNFs, and ends of streams.

Adapters inherit ``Generator``. Each passes tests/measured/test_generator_contract.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.model.disturbance.cpu_distance import Distance, Poller
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.streams import (
    ConnectResult,
    ConnectSpec,
    RequestResult,
    RequestSpec,
    StreamResult,
    StreamSpec,
)
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, PortRole, VnfKind, VnfMode
from pytest_nfvperf.model.traffic.histogram import IntervalCounts
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, VnfCounts

VIRTIO_RING = "queue_size=1024,packed_vq=1,vectorized=1"
"""Devargs of every virtqueue on the embedded testbed (virtio 1.1, section 2.7; QEMU's ``packed=on``).

A packed ring has one place for what a split ring keeps in three, so fewer cache lines travel between the two
cores: in one run with OVS 3.1 a 64-byte frame cost the PMD 197 cycles, on a split ring 226. Where the CPU has AVX-512
or NEON, DPDK's driver writes a line of four descriptors at once: to send a frame took 15 ns of the generator, before
20 to 28."""
OWN_RING = "own ring"
"""Of a vhost-user port whose rings the engine drives itself, without DPDK."""
SENDING = "vhost-user rings driven by the engine itself; bursts end with a line of descriptors"
"""How the embedded generator sends, as far as figures of a DUT depend on it: part of the fingerprint, so that nobody
takes another way for a change of the DUT. Figures of versions that sent by DPDK's virtio-user are refused by it."""
RX_DESCRIPTORS = 1024
"""Frames that wait in a port's receive ring while nobody polls it."""
MOST_ADDRESSES = 16
"""Addresses that a monitor can tell apart (native/sizes.h)."""


@dataclass(frozen=True, slots=True)
class GeneratorPort:
    """A port to attach.

    Attributes:
        name: as in the topology.
        device: what the engine needs to find it: for the embedded engine DPDK devargs without
            the unique device name, e.g. ``net_virtio_user,path=/run/.../p0.sock,server=1``.
        mac: address of the port.
        peer: for a FORWARDER the name of the port that frames leave by.
        tx_descriptors / rx_descriptors: ring sizes. On vhost-user the transmit ring is capped to
            half the receive ring, so that frames in flight fit while nobody polls.
        queue_depth: frames that may wait while the ring is full, in the order they are due and with the time they
            are due at, as in the receive ring of a NIC; beyond it they are refused. 4096 is the largest
            n_rxq_desc of OVS (ovs-vswitchd.conf.db(5)); in flight there are never more than
            tx_descriptors.
        vlan: of a HOST's frames on its peer; None for untagged.
        eth_peer: for VnfMode.MAC, the destination MAC written into forwarded frames; for an ENDPOINT that of the
            frames that it sends, None for the receiving port's.
        addresses: for a MONITOR, destination MACs that it tells copies of one frame apart by: a frame that crosses a
            bridge several times, and is copied each time, goes to another one each time.
        unread: a MONITOR that stopped reading: nothing is taken from its ring.
        members: of a bond; ``device`` has theirs, with a space between them.
        learns: a bond sends by the member at which frames last arrived; else by one that has link.
        lacp: LACP tells each member once a second that its partner is there.
    """

    name: str
    device: str
    mac: str
    role: PortRole = PortRole.ENDPOINT
    peer: str | None = None
    vnf_mode: VnfMode = VnfMode.IO
    eth_peer: str | None = None
    queues: int = 1
    tx_descriptors: int = 512
    rx_descriptors: int = RX_DESCRIPTORS
    queue_depth: int = 4096
    mtu: int = 1500
    vlan: int | None = None
    addresses: tuple[str, ...] = ()
    unread: bool = False
    members: tuple[str, ...] = ()
    learns: bool = False
    lacp: bool = False


class Generator(ABC):
    """Sends and receives frames; knows nothing of searches or SLAs.

    Every method raises TestbedError with the engine's own message and the
    end of its log when the engine refuses, dies or stops answering.

    What a generator cannot do keeps its default.

    Attributes:
        instruction_ns: virtual time of one instruction, in ns; 0: its clock does not count instructions.
    """

    instruction_ns: int = 0

    @abstractmethod
    def info(self) -> GeneratorInfo: ...

    @abstractmethod
    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        """Take the ports. ConfigError for a name attached twice or an MTU the engine cannot do."""

    @abstractmethod
    def detach(self, names: Sequence[str]) -> None:
        """Let go of ports; unknown names are ignored."""

    @abstractmethod
    def wait_links_up(self, deadline_s: float) -> None:
        """Wait until every attached port has link; DeadlineError names those that do not."""

    @abstractmethod
    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        """Send a few learning frames from every endpoint, so that bridges know the MACs."""

    @abstractmethod
    def run_trial(self, spec: TrialSpec) -> TrialResult:
        """Run one trial and return counts read after the traffic settled.

        Blocks for duration + residual wait. The result carries the engine's own reasons for
        invalidity. Raises ConfigError for a spec the engine cannot do (unknown port).
        """

    @abstractmethod
    def close(self) -> None:
        """Stop traffic, release ports, end the engine. Can be called twice."""

    def start_trial(self, spec: TrialSpec, interval_s: float) -> RunningTrial:
        """Begin a trial that reports counts while it runs; ConfigError for a spec the engine cannot do."""
        raise UnavailableError(
            f"generator {self.info().engine} reports no counts during a trial, which a soak needs: use another one"
        )

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        """Run a trial, and say what each burst of it cost.

        Args:
            spec: what to send; the load does not matter, the number of frames does.
            forwarding_ns: virtual time that the DUT's own thread has run so far, in ns. None: it has none, the kernel
                forwards as part of sending, and the time of sending is what counts.
        """
        raise UnavailableError(f"generator {self.info().engine} counts no instructions: use --nfv-virtual-time")

    def sending(self) -> Mapping[str, str]:
        """How each attached vhost-user port sends, by name: ``OWN_RING``, or by which driver and why."""
        return {}

    def watch(self, pollers: Sequence[Poller]) -> None:
        """Watch these polling threads of the DUT from the next trial on, in place of those of before.

        For a generator on the DUT's machine, which timestamps what happens to them there.
        """

    def set_link(self, port: str, *, up: bool) -> None:
        """Let the far end of a port go, or come back, in a running trial that lists gaps; from another thread."""
        raise UnavailableError(f"generator {self.info().engine} cannot take the link of its port {port!r} down")

    def distances(self, cpus: Sequence[int]) -> tuple[Distance, ...]:
        """From each of its polling threads to each of the CPUs that is not its own; takes about a millisecond a pair.

        Only between trials. Empty for a generator that shares no rings with the DUT, or cannot measure it.
        """
        return ()

    def move_cpus_closer(self, cpu: int, other: int) -> None:
        """Make two CPUs wake each other, so that the host places them together: one that has ``distances`` can.

        ``cpu`` is of one of its polling threads. Whoever polls on ``other`` rests. Takes 0.2 s, between trials.
        """


class RunningTrial(ABC):
    """A running trial. Read it to its end: call ``next_interval`` until it returns None.

    ``most_skipped``: largest share of an interval's frames that the generator may skip in a valid interval.
    """

    most_skipped: float

    @abstractmethod
    def next_interval(self) -> IntervalCounts | None:
        """Wait for the end of the next interval; None once the trial has ended and its result is available.

        Raises GeneratorError when the engine died or stopped answering.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop sending. The trial still receives and counts frames in flight.

        Can be called twice, and from a signal handler while ``next_interval`` waits.
        """

    def watch(self, pollers: Sequence[Poller]) -> None:
        """From now on watch these polling threads: the DUT was started again. From another thread, too."""

    @abstractmethod
    def result(self) -> TrialResult:
        """The whole trial; GeneratorError before its end."""

    def abandon(self) -> None:
        """Stop, and read it to its end, after something else has failed: that is the error to report."""
        with suppress(TestbedError):
            self.stop()
            while self.next_interval() is not None:
                pass


@dataclass(frozen=True, slots=True)
class Burst:
    """Frames that were sent at once, and forwarded before the next were.

    Attributes:
        frames: of the burst.
        busy_ns: virtual time that was spent on them, in ns.
    """

    frames: int
    busy_ns: int


class Ceilings(ABC):
    """The generator's own limits, frames/s per direction, without the DUT."""

    @abstractmethod
    def cached(self, traffic: AnyTraffic, directions: int) -> float | None:
        """The cached ceiling; None if it is not known yet."""

    def measure(self, traffic: AnyTraffic, directions: int) -> float | None:
        """Measure and cache it; None if it cannot be measured. Needs the PMD's CPU."""
        return None


@dataclass(frozen=True, slots=True)
class Captured:
    """What was received between start and stop.

    Attributes:
        frames: how many.
        lost: counted as lost by the receiver itself; None where it does not count them.
        samples: whole frames, without FCS; the first ones, where not all were kept.
    """

    frames: int
    lost: int | None
    samples: tuple[bytes, ...]


class Capture(Protocol):
    """A receiver. TestbedError when it cannot receive."""

    def start(self) -> None:
        """Receive from now on."""

    def stop(self) -> Captured:
        """Take what has arrived, and end; to be called once for each start."""

    def close(self) -> None:
        """End, whatever has arrived. Can be called twice."""


# VNFs: network functions that run as processes of their own, not in the generator's loop.


@dataclass(frozen=True, slots=True)
class VnfSpec:
    """What a VNF shall be.

    ``ports``: two, or one by which frames leave again; each with ``eth_peer`` for VnfMode.MAC, as testpmd has it: the
    destination of frames that *leave* by it. ``mtu``: bytes without Ethernet header and FCS. ``kind``: what
    runs it.
    """

    name: str
    ports: tuple[GeneratorPort, ...]
    mode: VnfMode = VnfMode.IO
    queues: int = 1
    mtu: int = DEFAULT_MTU
    kind: VnfKind = VnfKind.TESTBED


class Vnf(ABC):
    """A VNF that runs. Owns its end."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Wait until it forwards, for as long as one of its kind may take; TestbedError when it does not come up."""

    @abstractmethod
    def counts(self) -> tuple[VnfCounts, ...]:
        """What it forwarded since its start, one for each port that frames come in by.

        Raises:
            TestbedError: it died, does not answer in time, or answers what is not understood; never 0 for that.
        """

    @abstractmethod
    def check_alive(self) -> None:
        """TestbedError with how it ended and the end of its log when it died."""

    @abstractmethod
    def close(self) -> None:
        """End it, also if it died or hangs. Can be called twice."""

    def processes(self) -> Mapping[int, CpuRole]:
        """Process ids and roles of its processes on this machine."""
        return {}


class VnfMaker:
    """Starts VNFs on a testbed. By itself for testbeds that have only the generator's loop."""

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        """What runs a VNF that names no kind, in a topology of ``vnfs`` VNFs. Never TESTBED."""
        return VnfKind.LOOP

    def start(self, spec: VnfSpec, index: int) -> Vnf:
        """Start one; it need not be ready yet. ``index``: its place among the topology's VNFs, for its CPU.

        Raises:
            ConfigError: it cannot be of this kind on this testbed.
            TestbedError: what it needs is missing, or it could not be started.
        """
        raise TestbedError(f"VNF {spec.name!r} asks for kind {spec.kind}, and this testbed has only the loop")


# What runs between two namespaces: TCP and UDP streams, requests, connects, and datagrams that show reachability.


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """One end of the streams.

    Attributes:
        namespace: name of the network namespace (ip-netns(8)).
        address: IP address on the interface, that the engine binds to.
        interface: its name in the namespace; the engine reads its counters and notices if it goes away.
    """

    namespace: str
    address: str
    interface: str


class StreamEngine(ABC):
    """Runs streams from one end to the other; knows nothing of topologies or SLAs."""

    @abstractmethod
    def info(self) -> GeneratorInfo:
        """Engine, version, threading."""

    @abstractmethod
    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        """Run the streams and return what was counted. Blocks for ``spec.run_s`` and a little.

        The result is invalid, with reasons, when an end's process died, an interface went away or the time
        was not kept. Raises GeneratorError (a TestbedError) with the engine's own words when the streams cannot
        run at all: the engine is not installed, a namespace or an address does not exist, the other end
        cannot be reached, no port is free; and TestbedError when a namespace was deleted meanwhile.
        """

    def close(self) -> None:
        """End what still runs. Can be called twice."""


SendRequests = Callable[[RequestSpec, StreamEnd, StreamEnd], RequestResult]
"""Sends requests from a client's end to a server's, and times the responses. Blocks for ``spec.duration_s`` and a
little; leaves nothing behind. Raises GeneratorError with the engine's own words if no responses arrive."""

MakeConnects = Callable[[ConnectSpec, StreamEnd, StreamEnd], ConnectResult]
"""Connects from a client's end to a server's, and times each connect. Blocks until all are done; leaves nothing behind.
Raises GeneratorError with the engine's own words if no connection can be made, or if the server's end limited them and
not the datapath."""


class Watch(ABC):
    """Datagrams on their way, from the context's begin to its end.

    Attributes:
        interval_ns: between the datagrams that are sent.
        sent: datagrams so far, also those that the kernel refused to send.
    """

    interval_ns: int
    sent: int

    @abstractmethod
    def arrived(self) -> Sequence[int]:
        """When each that arrived so far did, in ns of the machine's monotonic clock."""

    @abstractmethod
    def await_one(self, deadline_s: float) -> bool:
        """Wait for one that is sent from now on; False when none arrives in time."""


WatchPath = Callable[[StreamEnd, StreamEnd], AbstractContextManager[Watch]]
"""Sends datagrams from one end to the other at a steady pace while the context lasts. TestbedError where a namespace or
an address is not there."""
