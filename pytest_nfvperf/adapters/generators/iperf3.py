"""The iperf3 engine: iperf3 between two namespaces, behind the StreamEngine port.

From two iperf3 reports and the counters around them it makes a StreamResult, with the reasons that invalidate it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.generators.end_counters import EndState, read_cpu, read_end, read_softirq
from pytest_nfvperf.adapters.generators.iperf3_session import (
    Ended,
    Iperf3Session,
    Report,
    StreamPart,
    bytes_within,
    unaccounted,
    window,
)
from pytest_nfvperf.adapters.net.threads import namespace_id
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.streams import (
    SideCpu,
    StreamCounts,
    StreamDirection,
    StreamDirectionCounts,
    StreamEvidence,
    StreamResult,
    StreamSpec,
)
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo, StreamsSpec
from pytest_nfvperf.ports.generator import StreamEnd, StreamEngine

_PORTS = range(5201, 5265)
_STRETCH_RATIO = 0.05
_STRETCH_S = 0.1
_HIDDEN_RATIO = 0.02
_THREADS_SINCE = (3, 16)
"""iperf3's release notes: since 3.16 each stream has a thread of its own; before, one thread served all."""
_MAY_FALL = {"Tcp.CurrEstab", "Tcp.MaxConn", "iowait", "idle"}
"""Not counters: the present connections; a limit; time that the kernel estimates (proc_stat(5))."""


@dataclass(frozen=True, slots=True)
class Sides:
    direction: StreamDirection
    sender: Report
    receiver: Report


def sides(spec: StreamSpec, client: Report, server: Report) -> list[Sides]:
    both = {"forward": Sides("forward", client, server), "reverse": Sides("reverse", server, client)}
    return [both[direction] for direction in spec.directions]


def count_direction(spec: StreamSpec, pair: Sides) -> StreamDirectionCounts | None:
    """Counts of one direction in the measured time; None if the receiver's report ends before it."""
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
        streams.append(
            StreamCounts(
                received_bytes=bytes_within(pair.receiver, key, received),
                sent_bytes=bytes_within(pair.sender, key, sent) if sent else None,
                retransmits=_sum([part.retransmits for part in sent]),
                datagrams=_sum([part.packets for part in received]),
                lost_datagrams=_sum([part.lost_packets for part in received]),
            )
        )
    if len(streams) != spec.streams:
        return None
    sender_ns = _mean_ns(sent_spans) if len(sent_spans) == len(spans) else None
    return StreamDirectionCounts(pair.direction, _mean_ns(spans), tuple(streams), sender_ns)


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present and len(present) == len(values) else None


def _mean_ns(spans: Sequence[Sequence[StreamPart]]) -> int:
    """One timer counts all streams, microseconds apart."""
    return round(sum(span[-1].end_s - span[0].start_s for span in spans) / len(spans) * 1e9)


def side_cpu(ended: Ended) -> SideCpu | None:
    """CPU that one process used; None if its end was not observed, or nothing flowed."""
    if ended.cpu_ns is None or ended.report is None or ended.report.elapsed_s <= 0:
        return None
    elapsed_ns = round(ended.report.elapsed_s * 1e9)
    return SideCpu(*ended.cpu_ns, elapsed_ns, ended.report.cpu_percent)


def interface_reasons(end: StreamEnd, before: EndState, after: EndState) -> Iterator[InvalidReason]:
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
    for role, one in ended.items():
        if one.killed:
            yield InvalidReason(Reason.GENERATOR_DIED, f"the iperf3 {role} {one.error}")


def time_reasons(spec: StreamSpec, directions: Sequence[StreamDirectionCounts]) -> Iterator[InvalidReason]:
    """A measured time other than requested: the machine or the VM paused."""
    allowed_s = max(_STRETCH_S, _STRETCH_RATIO * spec.duration_s)
    for one in directions:
        elapsed_s = one.elapsed_ns / 1e9
        if abs(elapsed_s - spec.duration_s) > allowed_s:
            detail = f"{one.direction}: measured for {elapsed_s:.3f} s, not {spec.duration_s:g} s"
            yield InvalidReason(Reason.STRETCHED_TIME, f"{detail}, limit {allowed_s:g} s more or less")


def counter_reasons(evidence: Sequence[StreamEvidence]) -> Iterator[InvalidReason]:
    """A counter that fell: something was reset or replaced meanwhile."""
    for one in evidence:
        back = [delta.name for delta in one.deltas if delta.went_back and delta.name not in _MAY_FALL]
        if back:
            yield InvalidReason(Reason.COUNTER_WENT_BACK, f"{one.source}: {', '.join(back)}")


def account_reasons(pairs: Sequence[Sides], directions: Sequence[StreamDirectionCounts]) -> Iterator[InvalidReason]:
    """Intervals that lack so much of the total that it would show in the measured time."""
    for pair, counts in zip(pairs, directions, strict=False):
        hidden = sum(abs(unaccounted(pair.receiver, key)) for key in pair.receiver.keys(sender=False))
        # Intervals matter only if the run was longer than the measured time.
        longer = pair.receiver.elapsed_s - counts.elapsed_ns / 1e9 > _STRETCH_S / 2
        if longer and hidden > _HIDDEN_RATIO * counts.received_bytes:
            detail = (
                f"{pair.direction}: {hidden} bytes received are in no interval, of {counts.received_bytes} measured"
            )
            yield InvalidReason(Reason.COUNTER_WENT_BACK, f"{detail}, limit {_HIDDEN_RATIO:.0%}: leave omit_s at 0")


def path_reasons(
    pairs: Sequence[Sides], ends: Mapping[str, StreamEnd], before: Mapping[str, EndState], after: Mapping[str, EndState]
) -> Iterator[InvalidReason]:
    """Unless the named interface counts at least the streams' payload, they took another path."""
    for pair in pairs:
        role = "server" if pair.direction == "forward" else "client"
        name = ends[role].interface
        old, new = (states[role].interfaces.get(name) for states in (before, after))
        if old is None or new is None or "rx_bytes" not in old.counters:
            continue
        passed = new.counters["rx_bytes"] - old.counters["rx_bytes"]
        received = sum(part.bytes for key in pair.receiver.keys(sender=False) for part in pair.receiver.streams[key])
        if received > passed:
            detail = (
                f"{pair.direction}: {received} bytes of payload received, but only {passed} bytes came in by {name}"
            )
            yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, f"{detail}: the streams took another way")


@dataclass(frozen=True, slots=True)
class Iperf3:
    binary: Path
    version: str

    @property
    def threads(self) -> str:
        """How it serves parallel streams; the meaning of CPU figures depends on it."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        return "one thread a stream" if numbers >= _THREADS_SINCE else "one thread for all streams"


def find_iperf3(streams: StreamsSpec) -> Iperf3:
    """Find the iperf3 of a testbed, by its path if the file has one; GeneratorError with the package without it."""
    name = streams.path or "iperf3"
    path = shutil.which(name)
    if path is None:
        raise GeneratorError(f"no program {name}" if "/" in name else not_installed(name))
    words = run([path, "--version"]).split()
    if words[:1] != ["iperf"] or len(words) < 2 or not words[1].startswith("3."):
        raise GeneratorError(f"{path} is not iperf3: it says {' '.join(words[:3])!r}")
    return Iperf3(Path(path), words[1])


def check_iperf3(streams: StreamsSpec) -> None:
    """ConfigError if a testbed file names another program. Without a name a missing iperf3 is no mistake."""
    if streams.path is None:
        return
    try:
        find_iperf3(streams)
    except TestbedError as error:
        advice = "write the path of an iperf3, or leave it out for the installed one"
        raise ConfigError(f"{error.message}; {advice}", key="streams.path") from error


@dataclass(frozen=True, slots=True)
class _Snapshot:
    ids: Mapping[str, int | None]
    states: Mapping[str, EndState]
    softirq: CounterSnapshot
    cpu: CounterSnapshot

    @staticmethod
    def of(ends: Mapping[str, StreamEnd]) -> _Snapshot:
        return _Snapshot(
            ids={role: namespace_id(end.namespace) for role, end in ends.items()},
            states={role: read_end(end.namespace) for role, end in ends.items()},
            softirq=read_softirq(),
            cpu=read_cpu(),
        )


class Iperf3Engine(StreamEngine):
    """iperf3 as a StreamEngine.

    Call it from the main thread: its processes are killed when the thread that started them ends.
    """

    def __init__(self, journal: Journal, streams: StreamsSpec, margin_s: float = 8.0) -> None:
        """The journal's directory takes the reports. GeneratorError if iperf3 is not installed.

        ``streams``: which program, and the ports of which each server takes the first that is free in its namespace.
        ``margin_s``: how long to wait for the end after the run's time.
        """
        self._journal = journal
        self._ports: Sequence[int] = streams.ports or _PORTS
        self._margin_s = margin_s
        self._iperf3 = find_iperf3(streams)
        self._runs = 0
        self._closed = False
        self.session: Iperf3Session | None = None

    def info(self) -> GeneratorInfo:
        iperf3 = self._iperf3
        return GeneratorInfo(engine="iperf3", version=iperf3.version, detail=iperf3.threads, cpus=())

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        if self._closed:
            raise GeneratorError("the iperf3 engine is closed")
        ends = {"client": client, "server": server}
        before = _Snapshot.of(ends)
        _check_interfaces(ends, before)
        self._runs += 1
        name = f"iperf3-{self._runs}"
        self.session = Iperf3Session(self._journal, self._iperf3.binary, spec, ends, self._ports, name)
        try:
            self.session.listen()
            self.session.start()
            ended = dict(zip(ends, self.session.finish(spec.run_s + self._margin_s), strict=True))
        finally:
            self.session.stop()
        # A process keeps its namespace alive though its name was removed: nobody knows where the run went on.
        for role, end in ends.items():
            if namespace_id(end.namespace) != before.ids[role]:
                raise TestbedError(f"the {role}'s network namespace {end.namespace} was deleted during the run")
        return self._result(spec, ends, ended, before, _Snapshot.of(ends))

    def close(self) -> None:
        self._closed = True
        if self.session is not None:
            self.session.stop()

    def _result(
        self,
        spec: StreamSpec,
        ends: Mapping[str, StreamEnd],
        ended: Mapping[str, Ended],
        before: _Snapshot,
        after: _Snapshot,
    ) -> StreamResult:
        reasons = [
            reason
            for role, end in ends.items()
            for reason in interface_reasons(end, before.states[role], after.states[role])
        ]
        reasons += process_reasons(ended)
        if not reasons:
            _check_ends(spec, ends, ended, self._margin_s)
        client, server = ended["client"].report, ended["server"].report
        pairs = sides(spec, client, server) if client is not None and server is not None else []
        directions = [counts for pair in pairs if (counts := count_direction(spec, pair)) is not None]
        evidence = _evidence(ends, before, after)
        if len(directions) < len(spec.directions):
            detail = f"the streams did not flow for {spec.omit_s:g} s of warm-up and {spec.duration_s:g} s of measuring"
            reasons.append(InvalidReason(Reason.STRETCHED_TIME, detail))
        reasons += [*time_reasons(spec, directions), *account_reasons(pairs, directions)]
        reasons += [*path_reasons(pairs, ends, before.states, after.states), *counter_reasons(evidence)]
        facts = {**(client.facts if client else {}), "iperf3": self._iperf3.version, "threads": self._iperf3.threads}
        return StreamResult(
            spec=spec,
            directions=tuple(directions) if len(directions) == len(spec.directions) else (),
            client_cpu=side_cpu(ended["client"]),
            server_cpu=side_cpu(ended["server"]),
            facts=tuple(sorted(facts.items())),
            evidence=evidence,
            invalid=tuple(reasons),
        )


def _check_interfaces(ends: Mapping[str, StreamEnd], before: _Snapshot) -> None:
    for role, end in ends.items():
        there = before.states[role].interfaces
        if end.interface not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise GeneratorError(
                f"the {role}'s interface {end.interface!r} is not in namespace {end.namespace} (there: {listed})"
            )
        if not there[end.interface].up:
            raise GeneratorError(f"the {role}'s interface {end.interface} in namespace {end.namespace} is down")


def _check_ends(spec: StreamSpec, ends: Mapping[str, StreamEnd], ended: Mapping[str, Ended], margin_s: float) -> None:
    """GeneratorError if streams failed for a reason that no observation of ours explains."""
    logs = {f"iperf3 {role}": "\n".join(filter(None, (one.error, one.log))) for role, one in ended.items()}
    between = f"from {ends['client'].namespace} to {ends['server'].address} in {ends['server'].namespace}"
    if not ended["client"].in_time:
        raise GeneratorError(
            f"iperf3 {between} did not end within {spec.run_s + margin_s:g} s, though it was to run for {spec.run_s} s",
            evidence=logs,
        )
    for role in ("client", "server"):
        if ended[role].error is not None:
            raise GeneratorError(f"iperf3 {between} failed: its {role} says: {ended[role].error}", evidence=logs)


def _evidence(ends: Mapping[str, StreamEnd], before: _Snapshot, after: _Snapshot) -> tuple[StreamEvidence, ...]:
    of_ends = [
        StreamEvidence(
            *(snapshot.states[role].snapshot(f"{role}:{end.namespace}", end.interface) for snapshot in (before, after))
        )
        for role, end in ends.items()
    ]
    return (*of_ends, StreamEvidence(before.softirq, after.softirq), StreamEvidence(before.cpu, after.cpu))
