"""Response times between two namespaces, as a figure that a study compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.model.evidence.record import RecordKind
from pytest_nfvperf.model.evidence.request_record import RequestData
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.measure.request_response import RequestResult, RequestSpec
from pytest_nfvperf.ports.cpu_accounting import CpuAccounting
from pytest_nfvperf.ports.request_engine import RequestEngine
from pytest_nfvperf.runs.ends import Ends, stream_ends
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.trials import Context

UNITS = {
    "response_time_p50": "ns",
    "response_time_p99": "ns",
    "response_time_p999": "ns",
    "responses": "times/s",
    "datapath_cores": "cores",
}
"""What a reading holds, in which unit."""

_PERCENTILES = {"response_time_p50": 50.0, "response_time_p99": 99.0, "response_time_p999": 99.9}
_RUN_OVERHEAD_S = 0.8
"""Beside the requests' own time: warming up, processes, the log."""


@dataclass(frozen=True, slots=True)
class Requester:
    """Sends requests on live topologies, with evidence of all.

    ``accounting``: of the machine's CPU time, where somebody does. ``cpus``: that client and server may run on.
    """

    engine: RequestEngine
    context: Context
    accounting: CpuAccounting | None = None
    cpus: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def run(
        self, live: LiveTopology, spec: RequestSpec, ends: Ends | None, remaining_s: float | None = None
    ) -> tuple[str, RequestData]:
        """One run: its record's id, and what it holds. ``remaining_s``: of what it is part of.

        Raises:
            ConfigError: the topology has no such ends.
            TestbedError: no response was to be had.
        """
        between = stream_ends(live, ends)
        client, server = self.cpus
        spec = replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)
        self.context.progress.trial_started("requests", 0, spec.duration_s, remaining_s)
        started = self.context.clock.monotonic()
        if self.accounting is not None:
            self.accounting.begin(live.deployment.processes())
        result = self.engine.run(spec, *between)
        cpu = self.accounting.end(()) if self.accounting is not None else None
        live.deployment.check_alive()
        run_id = self.context.recorder.next_id(RecordKind.REQUESTS)
        data = RequestData(result, self.context.clock.monotonic() - started, cpu)
        self.context.recorder.emit(data, run_id)
        self.context.others.append(run_id)
        self.context.places.ran(run_id, (live.topology, live.dut))
        self.context.progress.trial_finished(None, True)
        return run_id, data


@dataclass(frozen=True, slots=True)
class ResponseTime:
    """Reads response times between two namespaces of any topology."""

    requester: Requester
    spec: RequestSpec
    ends: Ends | None = None

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        return "requests"

    @property
    def units(self) -> Mapping[str, str]:
        """Base units of the metrics."""
        return UNITS

    @property
    def reading_s(self) -> float:
        """Whole seconds of requests, and what surrounds them."""
        return self.spec.duration_s + _RUN_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading."""
        run_id, data = self.requester.run(live, self.spec, self.ends, remaining_s)
        values = {**response_values(data.result), "datapath_cores": cores_throughout(data.cpu, live.datapath_kind)}
        return Reading({name: value for name, value in values.items() if value is not None}, run_id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured."""
        return {"topology": live.name, "datapath": live.datapath_kind}

    def facts(self) -> dict[str, Any]:
        """Requests have no frame size."""
        return {"mean_frame_size": 0.0, "directions": 1}


def response_values(result: RequestResult) -> dict[str, float | None]:
    """Percentiles of the response time in ns, and responses a second."""
    return {
        **{name: result.times.percentile_ns(percentile) for name, percentile in _PERCENTILES.items()},
        "responses": result.responses_per_s,
    }


def cores_throughout(cpu: CpuAccount | None, datapath: str) -> float | None:
    """Of the datapath over the whole time: requests were too few to fill it, or went on for all of it."""
    if cpu is None:
        return None
    return cpu.datapath_cores(cpu.elapsed_ns, in_kernel=datapath in {"system", "linux-bridge"})
