"""Streams, request times and connection rates between two namespaces of a topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Generic, Literal, TypedDict, TypeVar

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.clocks import suspended_ns
from pytest_nfvperf.measure.measurements import Measurement
from pytest_nfvperf.measure.rig import LiveTopology, RigParts
from pytest_nfvperf.measure.trials import Context, repeat_until_valid, timed
from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.disturbance.validity import suspend_reasons
from pytest_nfvperf.model.errors import ConfigError, DutFailure, TestbedError
from pytest_nfvperf.model.evidence.records import ConnectData, RecordKind, RequestData, Span, StreamData
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole, with_pmd_split
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.streams import (
    ConnectResult,
    ConnectSpec,
    Reconnection,
    RequestResult,
    RequestSpec,
    SideCpu,
    StreamResult,
    StreamSpec,
    longest_gap_ns,
)
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.ports import Nic
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import StreamEnd, StreamEngine
from pytest_nfvperf.ports.machine import CpuAccounting

Ends = tuple[str, str]
"""Names of two namespaces of a topology: the client's, the server's."""

Cpus = tuple[int, ...]

Spec = TypeVar("Spec", RequestSpec, ConnectSpec, StreamSpec)
Result = TypeVar("Result")

CONNECTS, REQUESTS = "connects", "requests"
"""Algorithms of the outcomes."""

_CONNECT_UNITS = units_of("connect_*", "failed_connects", "datapath_cores")
"""Metrics of a reading of connects, and their units."""

_CONNECT_OVERHEAD_S = 0.3
"""The process and its report, on top of the connects' own time."""

_RESPONSE_UNITS = units_of("response*", "datapath_cores")

_RESPONSE_OVERHEAD_S = 0.8
"""Warming up, processes and the log, on top of the requests' own time."""

_STREAM_UNITS = units_of(
    *("tcp_throughput", "cpu_per_gigabit", "sender_cores", "receiver_cores", "datapath_cores", "softirq_cores"),
    *("context_switches", "retransmits"),
)

_STREAM_OVERHEAD_S = 0.5
"""Processes, reports and counters, on top of the streams' own time."""

_IN_KERNEL = frozenset({"system", "linux-bridge"})
"""Datapaths that forward frames in softirq."""


def stream_ends(live: LiveTopology, ends: Ends | None = None) -> tuple[StreamEnd, StreamEnd]:
    """The first interface with an address of each of two namespaces; without names, of the first one and the last.

    ConfigError lists the namespaces with addresses; TestbedError if the topology has fewer than two of them.
    """
    nics = [nic for nic in live.topology.nics if nic.addresses]
    if ends is not None:
        client, server = (_nic_of(live, nics, name) for name in ends)
    elif len({nic.namespace for nic in nics}) < 2:
        raise TestbedError(f"topology {live.name!r} has no two namespaces with addresses to send streams between")
    else:
        client, server = nics[0], nics[-1]
    first, last = (
        StreamEnd(live.netns(nic.namespace), nic.addresses[0].split("/")[0], nic.name) for nic in (client, server)
    )
    return first, last


def _nic_of(live: LiveTopology, nics: Sequence[Nic], namespace: str) -> Nic:
    named = next((nic for nic in nics if nic.namespace == namespace), None)
    if named is None:
        namespaces = dict.fromkeys(nic.namespace for nic in nics)
        hint = did_you_mean(namespace, list(namespaces))
        raise ConfigError(
            f"ends: topology {live.name!r} has no namespace {namespace!r} with an address{hint or '.'} There are "
            f"{listed(namespaces) or 'none'}"
        )
    return named


@dataclass(frozen=True, slots=True)
class EndTimes(Measurement, Generic[Spec, Result]):
    """Reads the figures of a tool that runs at both ends, for a study to compare. Every run is in the evidence.

    Attributes:
        name: the outcome's algorithm.
        work: runs the tool, from the client's end to the server's.
        record: makes the record of its result, its duration in s, and the CPU account.
        values: the metrics of a result; None for those without a figure.
        overhead_s: processes and their reports, on top of the spec's whole seconds.
        ends: None for the topology's own.
        accounting: None if the testbed has none.
    """

    name: str
    work: Callable[[Spec, StreamEnd, StreamEnd], Result]
    record: Callable[[Result, float, CpuAccount | None], object]
    values: Callable[[Result], dict[str, float | None]]
    units: Mapping[str, str]
    overhead_s: float
    spec: Spec
    ends: Ends | None
    context: Context
    accounting: CpuAccounting | None

    @property
    def reading_s(self) -> float:
        return self.spec.duration_s + self.overhead_s

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """ConfigError for unknown ends; TestbedError if the tool gave no figures."""
        between, context = stream_ends(live, self.ends), self.context
        context.time_limit.check(self.spec.duration_s)
        context.progress.trial_started(self.name, "", self.spec.duration_s, remaining_s)
        started = context.clock.monotonic()
        if self.accounting is not None:
            self.accounting.begin(live.deployment.processes())
        with context.recorder.stopwatch.of(Span.TRIALS):
            result = self.work(self.spec, *between)
        cpu = self.accounting.end(()) if self.accounting is not None else None
        live.deployment.check_alive()
        record = self.record(result, context.clock.monotonic() - started, cpu)
        run_id = context.finish_run(record, (live.topology, live.dut))
        values = self.values(result)
        if cpu is not None:
            # Over the whole time: requests were too few to fill the datapath, or went on for all of it.
            in_kernel = live.datapath_kind in _IN_KERNEL
            values["datapath_cores"] = cpu.datapath_cores(cpu.elapsed_ns, in_kernel=in_kernel)
        return Reading({name: value for name, value in values.items() if value is not None}, run_id)


def connect_values(result: ConnectResult) -> dict[str, float | None]:
    return {
        "connect_rate": result.connects_per_s,
        "connect_time_mean": result.mean_ns,
        **result.times.percentiles_ns(_CONNECT_UNITS),
        "failed_connects": float(result.failed),
    }


def response_values(result: RequestResult) -> dict[str, float | None]:
    return {**result.times.percentiles_ns(_RESPONSE_UNITS), "responses": result.responses_per_s}


# TCP and UDP streams. A chain that ends in namespaces is measured by the goodput of TCP, and by its cost at both ends
# (S2: 1.0 core for the sender, 0.8 for the receiver).


@dataclass(frozen=True, slots=True)
class StreamRun:
    """A finished run with its record.

    Attributes:
        datapath_cores: CPUs that the datapath used, with softirq if it is in the kernel; None if nobody counted.
        wall_s: from call to counts, s.
    """

    id: str
    result: StreamResult
    datapath_cores: float | None
    cpu: CpuAccount | None = None
    wall_s: float = 0.0

    def cost_values(self) -> dict[str, float | None]:
        """``cpu_per_gigabit``, ``softirq_cores`` and ``context_switches`` a second; empty without account."""
        cpu, goodput, flowed = self.cpu, self.result.goodput_bps, _flowed_ns(self.result, self.wall_s)
        if cpu is None or flowed <= 0:
            return {}
        switches = cpu.switches
        return {
            "cpu_per_gigabit": cpu.cost_cores(flowed) * 1e9 / goodput if goodput else None,
            "softirq_cores": cpu.softirq_ns / flowed,
            "context_switches": None if switches is None else switches / (cpu.elapsed_ns / 1e9),
        }


def _sides(result: StreamResult) -> tuple[SideCpu | None, SideCpu | None]:
    """CPU of the sender and of the receiver; if both ends do both, of the client and of the server."""
    client, server = result.client_cpu, result.server_cpu
    return (server, client) if result.spec.direction == "reverse" else (client, server)


def _flowed_ns(result: StreamResult, wall_s: float) -> float:
    """How long streams flowed, warm-up included; as the ends' own cores are counted."""
    return result.client_cpu.elapsed_ns if result.client_cpu is not None else wall_s * 1e9


@dataclass(slots=True, eq=False)
class StreamRunner:
    """The fixture ``streams``: runs streams between two namespaces of a live topology.

    Attributes:
        repeats: how often an invalid run is repeated.
        cpus: that client and server may run on, if a spec has none; empty: any.
        parts: of the rig: what sends requests, and makes connects.
        accounting: None if the testbed has none.
    """

    engine: StreamEngine
    context: Context
    repeats: int
    parts: RigParts
    cpus: tuple[Cpus, Cpus] = ((), ())
    accounting: CpuAccounting | None = None
    _profiled: list[tuple[Topology, Dut, StreamSpec]] = field(default_factory=list, init=False)

    def response_time(self, spec: RequestSpec, ends: Ends | None = None) -> EndTimes[RequestSpec, RequestResult]:
        """Make what reads response times on any topology; UnavailableError if the testbed sends no requests."""
        return EndTimes(
            name=REQUESTS,
            work=self.parts.make_requests(),
            record=RequestData,
            values=response_values,
            units=_RESPONSE_UNITS,
            overhead_s=_RESPONSE_OVERHEAD_S,
            spec=self._with_cpus(spec),
            ends=ends,
            context=self.context,
            accounting=self.accounting,
        )

    def connect_rate(self, spec: ConnectSpec, ends: Ends | None = None) -> EndTimes[ConnectSpec, ConnectResult]:
        """Make what reads the rate and times of TCP connects; UnavailableError if the testbed measures none."""
        return EndTimes(
            name=CONNECTS,
            work=self.parts.make_connects(),
            record=ConnectData,
            values=connect_values,
            units=_CONNECT_UNITS,
            overhead_s=_CONNECT_OVERHEAD_S,
            spec=self._with_cpus(spec),
            ends=ends,
            context=self.context,
            accounting=self.accounting,
        )

    def _with_cpus(self, spec: Spec) -> Spec:
        client, server = self.cpus
        return replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)

    @checked("streams.run")
    def run(
        self, live: Live, spec: StreamSpec, remaining_s: float | None = None, *, ends: Ends | None = None
    ) -> StreamRun:
        """Run until one is valid; InvalidTrialsError if none was within the budget.

        ``remaining_s``: for the progress line. ``ends``: the client's and the server's namespace; None: the first one
        with an address and the last. ConfigError and TestbedError as from ``stream_ends``; TestbedError also if the
        streams could not be sent.
        """
        spec = self._with_cpus(spec)
        between = stream_ends(live, ends)
        run = repeat_until_valid(
            partial(self._once, live, spec, between, remaining_s), self.repeats, self.context.time_limit
        )
        # Once a kind of run: the same streams again under the profiler, without their counts.
        kind = (live.topology, live.dut, spec)
        if self.context.profiling is not None and kind not in self._profiled:
            self._profiled.append(kind)
            self.context.profiling(
                run.id, f"{live.name} on {live.datapath_kind}", lambda: self.engine.run(spec, *between)
            )
        return run

    @timed
    def _once(
        self,
        live: LiveTopology,
        spec: StreamSpec,
        between: tuple[StreamEnd, StreamEnd],
        remaining_s: float | None,
        repeat_of: str | None,
    ) -> StreamRun:
        self.context.time_limit.check(spec.run_s)
        purpose = f"{spec.streams} {spec.protocol.upper()} stream{'s' if spec.streams > 1 else ''}"
        self.context.progress.trial_started(purpose, "", spec.duration_s, remaining_s)
        started, before, asleep_ns = self.context.clock.monotonic(), live.counters(), suspended_ns()
        if self.accounting is not None:
            self.accounting.begin(live.deployment.processes())
        result = self.engine.run(spec, *between)
        result = replace(result, invalid=(*result.invalid, *suspend_reasons(suspended_ns() - asleep_ns)))
        wall_s = self.context.clock.monotonic() - started
        # The processes at the streams' ends are gone by now.
        ends = zip((CpuRole.SENDER, CpuRole.RECEIVER), _sides(result), strict=True)
        ended = [CpuPart(role, str(role), side.user_ns + side.system_ns) for role, side in ends if side is not None]
        cpu = self.accounting.end(ended) if self.accounting is not None else None
        live.deployment.check_alive()
        changes = {c.name: c.delta for b, a in zip(before, live.counters(), strict=True) for c in deltas(b, a)}
        busy, idle = changes.get("pmd.cycles_busy"), changes.get("pmd.cycles_idle")
        if cpu is not None and busy is not None and idle is not None and busy + idle > 0:
            cpu = with_pmd_split(cpu, busy / (busy + idle))
        cores = _datapath_cores(cpu, changes.get("vswitchd.cpu_ns"), live.datapath_kind, _flowed_ns(result, wall_s))
        run_id = self.context.recorder.next_id(RecordKind.STREAM)
        run = StreamRun(run_id, result, cores, cpu, wall_s)
        self.context.streams[run_id] = result
        self.context.locations.ran(run_id, (live.topology, live.dut))
        self.context.recorder.emit(StreamData(result, wall_s, cores, repeat_of, cpu), run_id)
        self.context.progress.trial_finished(None, result.valid)
        return run


def _datapath_cores(cpu: CpuAccount | None, vswitchd_ns: int | None, datapath: str, flowed_ns: float) -> float | None:
    """CPUs that the datapath used; None if nobody counted.

    ``vswitchd_ns``: CPU time of the DUT's process, used without an account.
    """
    if flowed_ns <= 0:
        return None
    if cpu is not None:
        return cpu.datapath_cores(flowed_ns, in_kernel=datapath in _IN_KERNEL)
    return None if vswitchd_ns is None else vswitchd_ns / flowed_ns


@dataclass(frozen=True, slots=True)
class TcpThroughput(Measurement):
    """Reads the goodput of TCP streams, and their cost, on any topology with two namespaces.

    ``ends``: the client's namespace first; None for the topology's first namespace and its last.
    """

    runner: StreamRunner
    spec: StreamSpec
    ends: Ends | None = None
    name = "tcp"
    units = _STREAM_UNITS

    @property
    def reading_s(self) -> float:
        return self.spec.run_s + _STREAM_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        run = self.runner.run(live, self.spec, remaining_s, ends=self.ends)
        sender, receiver = _sides(run.result)
        retransmits = run.result.retransmits
        values = {
            "tcp_throughput": run.result.goodput_bps,
            "sender_cores": None if sender is None else sender.cores,
            "receiver_cores": None if receiver is None else receiver.cores,
            "datapath_cores": run.datapath_cores,
            "retransmits": None if retransmits is None else float(retransmits),
            **run.cost_values(),
        }
        return Reading({name: value for name, value in values.items() if value is not None}, run.id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return {**Measurement.labels(self, live), "streams": str(self.spec.streams)}


class StreamSettings(TypedDict, total=False):
    """What can be set for streams besides their number; fields of ``StreamSpec``."""

    direction: Literal["forward", "reverse", "both"]
    buffer_bytes: int | None
    window_bytes: int | None
    mss_bytes: int | None
    congestion: str | None


# Measures how long a restart of the DUT interrupts what two namespaces send to each other.

_BEFORE_S, _AGAIN_S = 10.0, 30.0
_LOOK_ON_S = 0.5
"""Wait after the first datagram arrived again: the DUT may still replace the flows that it remembered."""


@dataclass(frozen=True, slots=True)
class ReconnectTime(Measurement):
    """Restarts the DUT under a topology with two namespaces.

    Attributes:
        ends: the sender's namespace first; None: the topology's first one and its last.
        killed: by SIGKILL, as in a crash.
    """

    context: Context
    ends: Ends | None = None
    killed: bool = False
    name = "reconnect"
    units = units_of("reconnect_time", "restart_time")
    reading_s: ClassVar[float] = 3.0

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """UnavailableError if the DUT cannot be restarted; DutFailure if no datagram arrives again."""
        between = stream_ends(live, self.ends)
        self.context.time_limit.check(self.reading_s)
        self.context.progress.trial_started("a restart", "", self.reading_s, remaining_s)
        found = self._restart_and_watch(live, between)
        live.deployment.check_alive()
        run_id = self.context.finish_run(found, (live.topology, live.dut))
        return Reading({"reconnect_time": found.outage_ns / 1e9, "restart_time": found.restart_ns / 1e9}, run_id)

    def _restart_and_watch(self, live: LiveTopology, ends: tuple[StreamEnd, StreamEnd]) -> Reconnection:
        clock, (client, server) = self.context.clock, ends

        def now_ns() -> int:
            return int(clock.monotonic() * 1e9)

        def unreached(deadline_s: float, when: str) -> str:
            return (
                f"no datagram from {client.address} ({client.namespace}) arrived at {server.address} "
                f"({server.namespace}) within {deadline_s:g} s {when}; topology {live.name!r}"
            )

        with live.deployment.watch_path(client, server) as watch:
            if not watch.await_one(_BEFORE_S):
                raise TestbedError(unreached(_BEFORE_S, "before a restart of the DUT"))
            began_ns = now_ns()
            live.deployment.restart(killed=self.killed)
            live.apply_configure(self.context.recorder)
            restarted_ns = now_ns()
            if not watch.await_one(_AGAIN_S):
                raise DutFailure(unreached(_AGAIN_S, "after a restart of the DUT"))
            clock.sleep(_LOOK_ON_S)
            end_ns, arrived = now_ns(), watch.arrived()
            return Reconnection(
                outage_ns=longest_gap_ns(arrived, began_ns, end_ns),
                restart_ns=restarted_ns - began_ns,
                interval_ns=watch.interval_ns,
                sent=watch.sent,
                arrived=len(arrived),
            )
