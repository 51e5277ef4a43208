"""TCP and UDP streams on live topologies: validity first, repeats of invalid runs, evidence of all.

The figure of a chain that ends in namespaces is the goodput of TCP, and its cost at both ends (S2: 1.0 core for the
sender, 0.8 for the receiver).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypedDict

from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.evidence.records import ConnectData, RecordKind, RequestData, StreamData
from pytest_nfvperf.model.ledger.ledger import deltas
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, with_pmd_split
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.measure.stream_measurement import StreamResult, StreamSpec
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.machine import CpuAccounting
from pytest_nfvperf.ports.streams import ConnectEngine, RequestEngine, StreamEnd, StreamEngine
from pytest_nfvperf.runs.call_arguments import ENDS, LIVE, STREAMS
from pytest_nfvperf.runs.clocks import SuspendWatch
from pytest_nfvperf.runs.connect_rate import CONNECTS, Connector
from pytest_nfvperf.runs.end_times import EndRunner
from pytest_nfvperf.runs.ends import Ends, stream_ends
from pytest_nfvperf.runs.invalid_trials import RepeatBudget
from pytest_nfvperf.runs.response_time import REQUESTS, Requester
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.stream_cpu import cost_values, datapath_cores, ended_parts, pmd_busy, sides
from pytest_nfvperf.runs.trials import Context

_STREAM_UNITS = {
    "tcp_throughput": "bps",
    "cpu_per_gigabit": "cpu-s/Gbit",
    "sender_cores": "cores",
    "receiver_cores": "cores",
    "datapath_cores": "cores",
    "softirq_cores": "cores",
    "context_switches": "times/s",
    "retransmits": "segments",
}
"""What a reading holds, in which unit."""

_STREAM_OVERHEAD_S = 0.5
"""Beside the streams' own time: processes, reports, counters."""


Cpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StreamRun:
    """A finished run with its record. ``wall_s``: from call to counts, s.

    ``datapath_cores``: CPUs that the datapath used, with softirq where it is in the kernel; None where nobody counted.
    """

    id: str
    result: StreamResult
    datapath_cores: float | None
    cpu: CpuAccount | None = None
    wall_s: float = 0.0

    @property
    def cpu_per_gigabit(self) -> float | None:
        """CPU seconds a gigabit of payload, of all that served it; None where nobody accounts for CPUs."""
        return cost_values(self.cpu, self.result, self.wall_s).get("cpu_per_gigabit")


def _requester(
    make: Callable[[], RequestEngine] | None,
    context: Context,
    accounting: CpuAccounting | None,
    cpus: tuple[Cpus, Cpus],
) -> Requester:
    if make is None:
        raise UnavailableError("this testbed has nothing that sends requests between namespaces")
    return EndRunner(REQUESTS, make().run, RequestData, context, accounting, cpus)


def _connector(
    make: Callable[[], ConnectEngine] | None,
    context: Context,
    accounting: CpuAccounting | None,
    cpus: tuple[Cpus, Cpus],
) -> Connector:
    if make is None:
        raise UnavailableError("this testbed has nothing that measures TCP connects between namespaces")
    return EndRunner(CONNECTS, make().run, ConnectData, context, accounting, cpus)


class Profiling(Protocol):
    """Profiles runs by doing them once more."""

    def __call__(self, name: str, what: str, work: Callable[[], object]) -> None:
        """``name``: the record of the run; ``what``: was measured, for a person; ``work``: does the same again."""
        ...

    def compare(self, per: str, outcomes: Sequence[Outcome]) -> None: ...


class StreamRunner:
    """The fixture ``streams``: runs streams between two namespaces of a live topology.

    ``repeats``: of an invalid run. ``cpus``: that client and server may run on, where a spec does not say; empty: any.
    ``accounting``, ``make_requests``, ``make_connects``: None where the testbed has none. ``profile``: repeats a run
    under a profiler, and compares the profiles; None: nobody asks.
    """

    def __init__(
        self,
        engine: StreamEngine,
        context: Context,
        repeats: int,
        cpus: tuple[Cpus, Cpus] = ((), ()),
        accounting: CpuAccounting | None = None,
        make_requests: Callable[[], RequestEngine] | None = None,
        profile: Profiling | None = None,
        make_connects: Callable[[], ConnectEngine] | None = None,
    ) -> None:
        self._engine = engine
        self._context = context
        self._repeats = repeats
        self._cpus = cpus
        self._accounting = accounting
        self.requester = partial(_requester, make_requests, context, accounting, cpus)
        """What sends requests between the same namespaces; raises UnavailableError where nothing does."""
        self.connector = partial(_connector, make_connects, context, accounting, cpus)
        """What measures TCP connects between them; raises UnavailableError where nothing does."""
        self._profile = profile
        self._profiled: list[tuple[Topology, Dut, StreamSpec]] = []

    @checked("streams.run", live=LIVE, spec=STREAMS, ends=ENDS)
    def run(
        self, live: LiveTopology, spec: StreamSpec, remaining_s: float | None = None, *, ends: Ends | None = None
    ) -> StreamRun:
        """Run until one is valid; InvalidTrialsError where none was within the budget.

        ``remaining_s``: for the progress line. ``ends``: the client's and the server's namespace; None: the first one
        with an address and the last. ConfigError and TestbedError as of ``stream_ends``, or the streams could not be
        had.
        """
        client, server = self._cpus
        spec = replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)
        between = stream_ends(live, ends)
        budget = RepeatBudget(self._repeats)
        while True:
            run = self._once(live, spec, between, remaining_s, budget.last)
            if run.result.valid:
                # Once a kind of run: the same streams again under the profiler, without their counts.
                sort = (live.topology, live.dut, spec)
                if self._profile is not None and sort not in self._profiled:
                    self._profiled.append(sort)
                    what = f"{live.name} on {live.datapath_kind}"
                    self._profile(run.id, what, lambda: self._engine.run(spec, *between))
                return run
            budget.spend(run)

    def compare_profiles(self, per: str, outcomes: Sequence[Outcome]) -> None:
        if self._profile is not None:
            self._profile.compare(per, outcomes)

    def _once(
        self,
        live: LiveTopology,
        spec: StreamSpec,
        between: tuple[StreamEnd, StreamEnd],
        remaining_s: float | None,
        repeat_of: str | None,
    ) -> StreamRun:
        purpose = f"{spec.streams} {spec.protocol.upper()} stream{'s' if spec.streams > 1 else ''}"
        self._context.progress.trial_started(purpose, 0, spec.duration_s, remaining_s)
        started, before, suspends = self._context.clock.monotonic(), live.counters(), SuspendWatch()
        if self._accounting is not None:
            self._accounting.begin(live.deployment.processes())
        result = self._engine.run(spec, *between)
        result = replace(result, invalid=(*result.invalid, *suspends.reasons()))
        wall_s = self._context.clock.monotonic() - started
        cpu = self._accounting.end(ended_parts(result)) if self._accounting is not None else None
        live.deployment.check_alive()
        changes = {c.name: c.delta for b, a in zip(before, live.counters(), strict=True) for c in deltas(b, a)}
        cpu = with_pmd_split(cpu, pmd_busy(changes)) if cpu is not None else None
        cores = datapath_cores(cpu, changes.get("vswitchd.cpu_ns"), live.datapath_kind, result, wall_s)
        run_id = self._context.recorder.next_id(RecordKind.STREAM)
        run = StreamRun(run_id, result, cores, cpu, wall_s)
        self._context.streams[run_id] = result
        self._context.places.ran(run_id, (live.topology, live.dut))
        self._context.recorder.emit(StreamData(result, wall_s, cores, repeat_of, cpu), run_id)
        self._context.progress.trial_finished(None, result.valid)
        return run


@dataclass(frozen=True, slots=True)
class TcpThroughput:
    """Reads the goodput of TCP streams, and their cost, on any topology with two namespaces.

    ``ends``: the client's namespace first; None for the topology's first one and its last.
    """

    runner: StreamRunner
    profile: Profile
    spec: StreamSpec
    ends: Ends | None = None

    @property
    def name(self) -> str:
        return "tcp"

    @property
    def units(self) -> Mapping[str, str]:
        return _STREAM_UNITS

    @property
    def reading_s(self) -> float:
        return self.spec.run_s + _STREAM_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        run = self.runner.run(live, self.spec, remaining_s, ends=self.ends)
        values = {name: value for name, value in _values(run).items() if value is not None}
        return Reading(values, run.id)

    def conclude(self, per: str, outcomes: Sequence[Outcome]) -> None:
        self.runner.compare_profiles(per, outcomes)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return {"topology": live.name, "datapath": live.datapath_kind, "streams": str(self.spec.streams)}

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": 0.0, "directions": 1}


def _values(run: StreamRun) -> dict[str, float | None]:
    sender, receiver = sides(run.result)
    retransmits = run.result.retransmits
    return {
        "tcp_throughput": run.result.goodput_bps,
        "sender_cores": None if sender is None else sender.cores,
        "receiver_cores": None if receiver is None else receiver.cores,
        "datapath_cores": run.datapath_cores,
        "retransmits": None if retransmits is None else float(retransmits),
        **cost_values(run.cpu, run.result, run.wall_s),
    }


class StreamSettings(TypedDict, total=False):
    """What may be said of streams beside their number; fields of ``StreamSpec``."""

    direction: Literal["forward", "reverse", "both"]
    buffer_bytes: int | None
    window_bytes: int | None
    mss_bytes: int | None
    congestion: str | None


def tcp_spec(profile: Profile, streams: int, settings: StreamSettings | None = None) -> StreamSpec:
    """TCP streams for as long as the profile says, after slow start and the bridges' learning."""
    return StreamSpec(
        streams=streams,
        duration_s=profile.comparison_stream_s,
        omit_s=profile.comparison_omit_s,
        **(settings or {}),
    )
