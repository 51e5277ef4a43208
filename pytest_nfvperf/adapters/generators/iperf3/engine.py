"""The iperf3 engine: real iperf3 between two namespaces, behind the StreamEngine port."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.iperf3.command import interval_s, stream_options
from pytest_nfvperf.adapters.generators.iperf3.end_counters import EndState, read_cpu, read_end, read_softirq
from pytest_nfvperf.adapters.generators.iperf3.session import Ended, Job, Session
from pytest_nfvperf.adapters.generators.iperf3.stream_results import (
    Sides,
    account_reasons,
    count_way,
    counter_reasons,
    interface_reasons,
    path_reasons,
    process_reasons,
    side_cpu,
    sides,
    time_reasons,
)
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.inside import namespace_id
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.stream_measurement import StreamEvidence, StreamResult, StreamSpec, WayCounts
from pytest_nfvperf.model.testbed.equipment import GeneratorInfo
from pytest_nfvperf.model.testbed.testbed import StreamsSpec
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.streams import StreamEnd

_THREADS_SINCE = (3, 16)
"""iperf3's release notes: since 3.16 each stream has a thread of its own; before, one thread serves all."""


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
        """For headers, evidence and the fingerprint."""
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
        self.session: Session | None = None

    def info(self) -> GeneratorInfo:
        """Engine, version, how it serves parallel streams."""
        return self._iperf3.info

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        """Run the streams between two ends; see the port."""
        if self._closed:
            raise GeneratorError("the iperf3 engine is closed")
        ends = {"client": client, "server": server}
        before = _look(ends)
        _check_interfaces(ends, before)
        self._runs += 1
        self.session = Session(
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
        pairs = _pairs(spec, ended)
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


def _pairs(spec: StreamSpec, ended: Mapping[str, Ended]) -> list[Sides]:
    client, server = ended["client"].report, ended["server"].report
    return sides(spec, client, server) if client is not None and server is not None else []


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
