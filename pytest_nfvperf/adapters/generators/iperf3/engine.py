"""The iperf3 engine: real iperf3 between two namespaces, behind the StreamEngine port.

It makes a StreamResult of two iperf3 reports and the counters around them, with the reasons that invalidate it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.end_counters import EndState, read_cpu, read_end, read_softirq
from pytest_nfvperf.adapters.generators.iperf3.session import (
    Ended,
    Iperf3Session,
    Job,
    Report,
    StreamPart,
    bytes_within,
    interval_s,
    stream_options,
    unaccounted,
    window,
)
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.threads import namespace_id
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.streams import (
    SideCpu,
    StreamCounts,
    StreamEvidence,
    StreamResult,
    StreamSpec,
    Way,
    WayCounts,
)
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo, StreamsSpec
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.streams import StreamEnd

_STRETCH_RATIO = 0.05
_STRETCH_S = 0.1
_HIDDEN_RATIO = 0.02
_THREADS_SINCE = (3, 16)
"""iperf3's release notes: since 3.16 each stream has a thread of its own; before, one thread serves all."""


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


@dataclass(frozen=True, slots=True)
class Iperf3Options:
    """What seldom needs to be set.

    Attributes:
        binary: name or path of iperf3.
        ports: of which each server takes the first that is free in its namespace.
        margin_s: how much longer than the run may be waited for its end.
    """

    binary: str = "iperf3"
    ports: Sequence[int] = field(default_factory=lambda: range(5201, 5265))
    margin_s: float = 8.0


def iperf3_options(streams: StreamsSpec) -> Iperf3Options:
    """What a testbed file says of it."""
    plain = Iperf3Options()
    return replace(plain, binary=streams.path or plain.binary, ports=streams.ports or plain.ports)


@dataclass(frozen=True, slots=True)
class Iperf3:
    """An iperf3 of this machine."""

    binary: Path
    version: str

    @property
    def threads(self) -> str:
        """How it serves parallel streams: what the CPU figures mean depends on it."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        return "one thread a stream" if numbers >= _THREADS_SINCE else "one thread for all streams"

    @property
    def info(self) -> GeneratorInfo:
        return GeneratorInfo(engine="iperf3", version=self.version, detail=self.threads, cpus=())


def find_iperf3(name: str = "iperf3") -> Iperf3:
    """The iperf3 of this name or path, asked for its version.

    Raises:
        GeneratorError: it is not installed; names the package.
    """
    path = shutil.which(name)
    if path is None:
        here = f"no program {name}" if "/" in name else not_installed(name)
        raise GeneratorError(here)
    words = run([path, "--version"]).split()
    if words[:1] != ["iperf"] or len(words) < 2 or not words[1].startswith("3."):
        raise GeneratorError(f"{path} is not iperf3: it says {' '.join(words[:3])!r}")
    return Iperf3(Path(path), words[1])


def check_iperf3(streams: StreamsSpec) -> None:
    """ConfigError when a testbed file names another program; where it names none, a missing one is no mistake."""
    if streams.path is None:
        return
    try:
        find_iperf3(streams.path)
    except TestbedError as error:
        advice = "write the path of an iperf3, or leave it out for the installed one"
        raise ConfigError(f"{error.message}; {advice}", key="streams.path") from error


@dataclass(frozen=True, slots=True)
class _Look:
    """What was there at one moment."""

    ids: Mapping[str, int | None]
    states: Mapping[str, EndState]
    softirq: CounterSnapshot
    cpu: CounterSnapshot


class Iperf3Engine:
    """Fulfils ports.streams.StreamEngine.

    Call it from the main thread: its processes are killed when the thread that started them ends.
    """

    def __init__(self, journal: Journal, options: Iperf3Options | None = None) -> None:
        """Find iperf3.

        Args:
            journal: of the run; its directory takes the reports, for as long as they are needed.
            options: the rest.

        Raises:
            GeneratorError: iperf3 is not installed.
        """
        self._journal = journal
        self._options = options or Iperf3Options()
        self._iperf3 = find_iperf3(self._options.binary)
        self._runs = 0
        self._closed = False
        self.session: Iperf3Session | None = None

    def info(self) -> GeneratorInfo:
        return self._iperf3.info

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        if self._closed:
            raise GeneratorError("the iperf3 engine is closed")
        ends = {"client": client, "server": server}
        before = _look(ends)
        _check_interfaces(ends, before)
        self._runs += 1
        self.session = Iperf3Session(
            self._journal, self._iperf3.binary, self._job(spec, client, server), f"iperf3-{self._runs}"
        )
        try:
            self.session.listen()
            self.session.start()
            ended = dict(zip(ends, self.session.finish(spec.run_s + self._options.margin_s), strict=True))
        finally:
            self.session.stop()
        _check_namespaces(ends, before)
        return self._result(spec, ends, ended, before, _look(ends))

    def close(self) -> None:
        self._closed = True
        if self.session is not None:
            self.session.stop()

    def _job(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> Job:
        return Job(
            client=client,
            server=server,
            options=stream_options(spec),
            interval_s=interval_s(spec),
            client_cpus=spec.client_cpus,
            server_cpus=spec.server_cpus,
            ports=self._options.ports,
        )

    def _result(
        self,
        spec: StreamSpec,
        ends: Mapping[str, StreamEnd],
        ended: Mapping[str, Ended],
        before: _Look,
        after: _Look,
    ) -> StreamResult:
        reasons = [
            reason
            for role, end in ends.items()
            for reason in interface_reasons(end, before.states[role], after.states[role])
        ]
        reasons += process_reasons(ended)
        if not reasons:
            _check_ends(spec, ends, ended, self._options.margin_s)
        sent, received = ended["client"].report, ended["server"].report
        pairs = sides(spec, sent, received) if sent is not None and received is not None else []
        ways = [way for pair in pairs if (way := count_way(spec, pair)) is not None]
        evidence = _evidence(ends, before, after)
        reasons += [*_unread(spec, ways), *time_reasons(spec, ways), *account_reasons(pairs, ways)]
        reasons += [*path_reasons(pairs, ends, before.states, after.states), *counter_reasons(evidence)]
        return StreamResult(
            spec=spec,
            ways=tuple(ways) if len(ways) == len(spec.ways) else (),
            client_cpu=side_cpu(ended["client"]),
            server_cpu=side_cpu(ended["server"]),
            facts=self._facts(ended["client"]),
            evidence=evidence,
            invalid=tuple(reasons),
        )

    def _facts(self, client: Ended) -> tuple[tuple[str, str], ...]:
        found = dict(client.report.facts) if client.report is not None else {}
        return tuple(sorted({**found, "iperf3": self._iperf3.version, "threads": self._iperf3.threads}.items()))


def _look(ends: Mapping[str, StreamEnd]) -> _Look:
    return _Look(
        ids={role: namespace_id(end.namespace) for role, end in ends.items()},
        states={role: read_end(end.namespace) for role, end in ends.items()},
        softirq=read_softirq(),
        cpu=read_cpu(),
    )


def _check_interfaces(ends: Mapping[str, StreamEnd], look: _Look) -> None:
    for role, end in ends.items():
        there = look.states[role].interfaces
        if end.interface not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise GeneratorError(
                f"the {role}'s interface {end.interface!r} is not in namespace {end.namespace} (there: {listed})"
            )
        if not there[end.interface].up:
            raise GeneratorError(f"the {role}'s interface {end.interface} in namespace {end.namespace} is down")


def _check_namespaces(ends: Mapping[str, StreamEnd], before: _Look) -> None:
    """A process keeps its namespace alive though its name was removed: the run went on, but where, nobody can say."""
    for role, end in ends.items():
        if namespace_id(end.namespace) != before.ids[role]:
            raise TestbedError(f"the {role}'s network namespace {end.namespace} was deleted during the run")


def _check_ends(spec: StreamSpec, ends: Mapping[str, StreamEnd], ended: Mapping[str, Ended], margin_s: float) -> None:
    """GeneratorError when the streams could not be had, for a reason that nothing we saw explains."""
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


def _unread(spec: StreamSpec, ways: Sequence[WayCounts]) -> Iterable[InvalidReason]:
    if len(ways) < len(spec.ways):
        detail = f"the streams did not flow for {spec.omit_s:g} s of warm-up and {spec.duration_s:g} s of measuring"
        yield InvalidReason(Reason.STRETCHED_TIME, detail)


def _evidence(ends: Mapping[str, StreamEnd], before: _Look, after: _Look) -> tuple[StreamEvidence, ...]:
    found = [
        StreamEvidence(
            *(look.states[role].snapshot(f"{role}:{end.namespace}", end.interface) for look in (before, after))
        )
        for role, end in ends.items()
    ]
    return (*found, StreamEvidence(before.softirq, after.softirq), StreamEvidence(before.cpu, after.cpu))
