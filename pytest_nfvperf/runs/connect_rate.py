"""Rate and times of TCP connects between two namespaces, as figures that a study compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.model.evidence.connect_record import ConnectData
from pytest_nfvperf.model.evidence.record import RecordKind
from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.ports.connect_engine import ConnectEngine
from pytest_nfvperf.ports.cpu_accounting import CpuAccounting
from pytest_nfvperf.runs.ends import Ends, stream_ends
from pytest_nfvperf.runs.response_time import cores_throughout
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.trials import Context

UNITS = {
    "connect_rate": "times/s",
    "connect_time_mean": "ns",
    "connect_time_p50": "ns",
    "connect_time_p99": "ns",
    "connect_time_p999": "ns",
    "failed_connects": "times",
    "datapath_cores": "cores",
}
"""What a reading holds, in which unit."""

_PERCENTILES = {"connect_time_p50": 50.0, "connect_time_p99": 99.0, "connect_time_p999": 99.9}
_RUN_OVERHEAD_S = 0.3
"""Beside the connects' own time: the process, its report."""


@dataclass(frozen=True, slots=True)
class Connector:
    """Connects on live topologies, with evidence of all.

    ``accounting``: of the machine's CPU time, where somebody does. ``cpus``: that client and server may run on.
    """

    engine: ConnectEngine
    context: Context
    accounting: CpuAccounting | None = None
    cpus: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def run(
        self, live: LiveTopology, spec: ConnectSpec, ends: Ends | None, remaining_s: float | None = None
    ) -> tuple[str, ConnectData]:
        """One run: its record's id, and what it holds. ``remaining_s``: of what it is part of.

        Raises:
            ConfigError: the topology has no such ends.
            TestbedError: no connection was to be had.
        """
        between = stream_ends(live, ends)
        client, server = self.cpus
        spec = replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)
        self.context.progress.trial_started("connects", 0, spec.duration_s, remaining_s)
        started = self.context.clock.monotonic()
        if self.accounting is not None:
            self.accounting.begin(live.deployment.processes())
        result = self.engine.run(spec, *between)
        cpu = self.accounting.end(()) if self.accounting is not None else None
        live.deployment.check_alive()
        run_id = self.context.recorder.next_id(RecordKind.CONNECTS)
        data = ConnectData(result, self.context.clock.monotonic() - started, cpu)
        self.context.recorder.emit(data, run_id)
        self.context.others.append(run_id)
        self.context.places.ran(run_id, (live.topology, live.dut))
        self.context.progress.trial_finished(None, True)
        return run_id, data


@dataclass(frozen=True, slots=True)
class ConnectRate:
    """Reads the rate and the times of TCP connects between two namespaces of any topology."""

    connector: Connector
    spec: ConnectSpec
    ends: Ends | None = None

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        return "connects"

    @property
    def units(self) -> Mapping[str, str]:
        """Base units of the metrics."""
        return UNITS

    @property
    def reading_s(self) -> float:
        """About as long as the connects take, and what surrounds them."""
        return self.spec.duration_s + _RUN_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading."""
        run_id, data = self.connector.run(live, self.spec, self.ends, remaining_s)
        values = {**connect_values(data.result), "datapath_cores": cores_throughout(data.cpu, live.datapath_kind)}
        return Reading({name: value for name, value in values.items() if value is not None}, run_id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured."""
        return {"topology": live.name, "datapath": live.datapath_kind}

    def facts(self) -> dict[str, Any]:
        """Connects have no frame size."""
        return {"mean_frame_size": 0.0, "directions": 1}


def connect_values(result: ConnectResult) -> dict[str, float | None]:
    """Connects a second, mean and percentiles of their time in ns, and how many failed."""
    return {
        "connect_rate": result.connects_per_s,
        "connect_time_mean": result.mean_ns,
        **{name: result.times.percentile_ns(percentile) for name, percentile in _PERCENTILES.items()},
        "failed_connects": float(result.failed),
    }
