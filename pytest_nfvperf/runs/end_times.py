"""Times between two namespaces of any topology, by a tool that runs at both ends, as figures that a study compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pytest_nfvperf.model.evidence.records import ConnectData, RequestData
from pytest_nfvperf.model.measure.connect_rate import ConnectSpec
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.measure.request_response import RequestSpec
from pytest_nfvperf.ports.machine import CpuAccounting
from pytest_nfvperf.ports.streams import StreamEnd
from pytest_nfvperf.runs.ends import Ends, stream_ends
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.trials import Context

Spec = TypeVar("Spec", RequestSpec, ConnectSpec)
Data = TypeVar("Data", RequestData, ConnectData)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EndRunner(Generic[Spec, Result, Data]):
    """Runs the tool on live topologies, with evidence of all.

    ``name``: the outcome's algorithm. ``work``: the tool, from the client's end to the server's. ``record``: makes the
    record of its result, duration (s) and CPU account. ``accounting``: None where nobody does. ``cpus``: for client and
    server, where a spec does not say; empty: any.
    """

    name: str
    work: Callable[[Spec, StreamEnd, StreamEnd], Result]
    record: Callable[[Result, float, CpuAccount | None], Data]
    context: Context
    accounting: CpuAccounting | None = None
    cpus: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def run(
        self, live: LiveTopology, spec: Spec, ends: Ends | None, remaining_s: float | None = None
    ) -> tuple[str, Data]:
        """One run: its record's id and data. ConfigError for unknown ends; TestbedError for no figures."""
        between = stream_ends(live, ends)
        client, server = self.cpus
        spec = replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)
        self.context.progress.trial_started(self.name, 0, spec.duration_s, remaining_s)
        started = self.context.clock.monotonic()
        if self.accounting is not None:
            self.accounting.begin(live.deployment.processes())
        result = self.work(spec, *between)
        cpu = self.accounting.end(()) if self.accounting is not None else None
        live.deployment.check_alive()
        data = self.record(result, self.context.clock.monotonic() - started, cpu)
        run_id = self.context.recorder.emit(data)
        self.context.others.append(run_id)
        self.context.places.ran(run_id, (live.topology, live.dut))
        self.context.progress.trial_finished(None, True)
        return run_id, data


@dataclass(frozen=True, slots=True)
class EndTimes(Generic[Spec, Result, Data]):
    """Reads the tool's figures between two namespaces.

    ``ends``: None for the topology's own. ``overhead_s``: beside the spec's whole seconds: processes, their reports.
    ``values``: the metrics of a result; None of those that have no figure.
    """

    runner: EndRunner[Spec, Result, Data]
    spec: Spec
    ends: Ends | None
    units: Mapping[str, str]
    overhead_s: float
    values: Callable[[Data], Mapping[str, float | None]]

    @property
    def name(self) -> str:
        return self.runner.name

    @property
    def reading_s(self) -> float:
        return self.spec.duration_s + self.overhead_s

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        run_id, data = self.runner.run(live, self.spec, self.ends, remaining_s)
        values = {**self.values(data), "datapath_cores": cores_throughout(data.cpu, live.datapath_kind)}
        return Reading({name: value for name, value in values.items() if value is not None}, run_id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return {"topology": live.name, "datapath": live.datapath_kind}

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": 0.0, "directions": 1}


def cores_throughout(cpu: CpuAccount | None, datapath: str) -> float | None:
    """Of the datapath over the whole time: requests were too few to fill it, or went on for all of it."""
    if cpu is None:
        return None
    return cpu.datapath_cores(cpu.elapsed_ns, in_kernel=datapath in {"system", "linux-bridge"})
