"""From two iperf3 reports and the counters around them to a StreamResult, and what makes it invalid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.generators.iperf3.end_counters import EndState
from pytest_nfvperf.adapters.generators.iperf3.report_json import Report, StreamPart, bytes_within, unaccounted, window
from pytest_nfvperf.adapters.generators.iperf3.session import Ended
from pytest_nfvperf.model.measure.stream_measurement import (
    SideCpu,
    StreamCounts,
    StreamEvidence,
    StreamSpec,
    Way,
    WayCounts,
)
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.streams import StreamEnd

_STRETCH_RATIO = 0.05
_STRETCH_S = 0.1
_HIDDEN_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class Sides:
    """Who sends and who receives in one direction."""

    way: Way
    sender: Report
    receiver: Report


def sides(spec: StreamSpec, client: Report, server: Report) -> list[Sides]:
    """One entry a direction."""
    both = {"forward": Sides("forward", client, server), "reverse": Sides("reverse", server, client)}
    return [both[way] for way in spec.ways]


def count_way(spec: StreamSpec, pair: Sides) -> WayCounts | None:
    """What one direction did in the measured time; None when the receiver's report does not reach that far."""
    streams: list[StreamCounts] = []
    spans: list[tuple[StreamPart, ...]] = []
    sent_spans: list[tuple[StreamPart, ...]] = []
    for key in pair.receiver.keys(sender=False):
        received = window(pair.receiver.streams[key], spec.omit_s, spec.duration_s)
        sent = window(pair.sender.streams.get(key, ()), spec.omit_s, spec.duration_s)
        if not received:
            return None
        spans.append(received)
        sent_spans += [sent] if sent else []
        streams.append(_stream(pair, key, received, sent))
    if len(streams) != spec.streams:
        return None
    sender_ns = _mean_ns(sent_spans) if len(sent_spans) == len(spans) else None
    return WayCounts(pair.way, _mean_ns(spans), tuple(streams), sender_ns)


def _stream(pair: Sides, key: str, received: Sequence[StreamPart], sent: Sequence[StreamPart]) -> StreamCounts:
    return StreamCounts(
        received_bytes=bytes_within(pair.receiver, key, received),
        sent_bytes=bytes_within(pair.sender, key, sent) if sent else None,
        retransmits=_sum([part.retransmits for part in sent]),
        datagrams=_sum([part.packets for part in received]),
        lost_datagrams=_sum([part.lost_packets for part in received]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present and len(present) == len(values) else None


def _mean_ns(spans: Sequence[Sequence[StreamPart]]) -> int:
    """All streams are counted by one timer, microseconds apart."""
    return round(sum(span[-1].end_s - span[0].start_s for span in spans) / len(spans) * 1e9)


def side_cpu(ended: Ended) -> SideCpu | None:
    """What one process used; None when its end was not seen or nothing flowed."""
    if ended.cpu_ns is None or ended.report is None or ended.report.elapsed_s <= 0:
        return None
    elapsed_ns = round(ended.report.elapsed_s * 1e9)
    return SideCpu(*ended.cpu_ns, elapsed_ns, ended.report.cpu_percent)


def interface_reasons(end: StreamEnd, before: EndState, after: EndState) -> Iterator[InvalidReason]:
    """An interface that is not what it was."""
    old, new = before.interfaces[end.interface], after.interfaces.get(end.interface)
    where = f"interface {end.interface} in namespace {end.namespace}"
    if new is None:
        yield InvalidReason(Reason.LINK_DOWN, f"{where} went away")
    elif new.index != old.index:
        yield InvalidReason(Reason.LINK_DOWN, f"{where} was replaced: its index was {old.index} and is {new.index}")
    elif not new.up:
        yield InvalidReason(Reason.LINK_DOWN, f"{where} went down")
    elif old.changes is not None and new.changes is not None and new.changes != old.changes:
        yield InvalidReason(
            Reason.LINK_DOWN, f"{where} lost its carrier or got it, {new.changes - old.changes} changes in all"
        )


def process_reasons(ended: Mapping[str, Ended]) -> Iterator[InvalidReason]:
    """A process that somebody killed, or that ended before the other."""
    for role, one in ended.items():
        if one.killed:
            yield InvalidReason(Reason.GENERATOR_DIED, f"the iperf3 {role} {one.error}")


def time_reasons(spec: StreamSpec, ways: Sequence[WayCounts]) -> Iterator[InvalidReason]:
    """A measured time that is not what was asked for: the machine, or the VM, paused."""
    allowed_s = max(_STRETCH_S, _STRETCH_RATIO * spec.duration_s)
    for way in ways:
        elapsed_s = way.elapsed_ns / 1e9
        if abs(elapsed_s - spec.duration_s) > allowed_s:
            detail = f"{way.way}: measured for {elapsed_s:.3f} s, not {spec.duration_s:g} s, limit {allowed_s:g} s more"
            yield InvalidReason(Reason.STRETCHED_TIME, f"{detail} or less")


def counter_reasons(evidence: Sequence[StreamEvidence]) -> Iterator[InvalidReason]:
    """A counter that fell: something was reset or replaced meanwhile."""
    for one in evidence:
        back = [delta.name for delta in one.deltas if delta.went_back and not _may_fall(delta.name)]
        if back:
            yield InvalidReason(Reason.COUNTER_WENT_BACK, f"{one.source}: {', '.join(back)}")


def _may_fall(name: str) -> bool:
    """Not counters: how many connections there are now; a limit; time that the kernel estimates (proc_stat(5))."""
    return name in {"Tcp.CurrEstab", "Tcp.MaxConn", "iowait", "idle"}


def account_reasons(pairs: Sequence[Sides], ways: Sequence[WayCounts]) -> Iterator[InvalidReason]:
    """Intervals that hide more of the total than would go unnoticed in the measured time."""
    for pair, way in zip(pairs, ways, strict=False):
        hidden = sum(abs(unaccounted(pair.receiver, key)) for key in pair.receiver.keys(sender=False))
        beyond = _beyond(pair, way)
        if beyond and hidden > _HIDDEN_RATIO * way.received_bytes:
            detail = f"{pair.way}: {hidden} bytes received are in no interval, of {way.received_bytes} measured"
            yield InvalidReason(Reason.COUNTER_WENT_BACK, f"{detail}, limit {_HIDDEN_RATIO:.0%}: leave omit_s at 0")


def _beyond(pair: Sides, way: WayCounts) -> bool:
    """True when the run was longer than the measured time: only then do intervals matter."""
    return pair.receiver.elapsed_s - way.elapsed_ns / 1e9 > _STRETCH_S / 2


def path_reasons(
    pairs: Sequence[Sides], ends: Mapping[str, StreamEnd], before: Mapping[str, EndState], after: Mapping[str, EndState]
) -> Iterator[InvalidReason]:
    """Streams that took another way than the interface that was named: it counts at least their payload."""
    for pair in pairs:
        role = "server" if pair.way == "forward" else "client"
        name = ends[role].interface
        old, new = (states[role].interfaces.get(name) for states in (before, after))
        if old is None or new is None or "rx_bytes" not in old.counters:
            continue
        passed = new.counters["rx_bytes"] - old.counters["rx_bytes"]
        received = sum(part.bytes for key in pair.receiver.keys(sender=False) for part in pair.receiver.streams[key])
        if received > passed:
            detail = f"{pair.way}: {received} bytes of payload received, but only {passed} bytes came in by {name}"
            yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, f"{detail}: the streams took another way")
