"""Rate and times of TCP connects between two namespaces, as figures that a study compares."""

from __future__ import annotations

from pytest_nfvperf.model.evidence.records import ConnectData
from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.runs.end_times import EndRunner, EndTimes
from pytest_nfvperf.runs.ends import Ends

CONNECTS = "connects"
"""The outcome's algorithm."""

_CONNECT_UNITS = {
    "connect_rate": "times/s",
    "connect_time_mean": "ns",
    "connect_time_p50": "ns",
    "connect_time_p99": "ns",
    "connect_time_p999": "ns",
    "failed_connects": "times",
    "datapath_cores": "cores",
}
"""What a reading holds, in which unit."""

_CONNECT_PERCENTILES = {"connect_time_p50": 50.0, "connect_time_p99": 99.0, "connect_time_p999": 99.9}
_CONNECT_OVERHEAD_S = 0.3
"""Beside the connects' own time: the process, its report."""

Connector = EndRunner[ConnectSpec, ConnectResult, ConnectData]
ConnectRate = EndTimes[ConnectSpec, ConnectResult, ConnectData]


def connect_rate(connector: Connector, spec: ConnectSpec, ends: Ends | None = None) -> ConnectRate:
    """Reads the rate and the times of TCP connects between two namespaces of any topology."""
    return EndTimes(
        connector, spec, ends, _CONNECT_UNITS, _CONNECT_OVERHEAD_S, lambda data: connect_values(data.result)
    )


def connect_values(result: ConnectResult) -> dict[str, float | None]:
    """Connects a second, mean and percentiles of their time in ns, and how many failed."""
    return {
        "connect_rate": result.connects_per_s,
        "connect_time_mean": result.mean_ns,
        **{name: result.times.percentile_ns(percentile) for name, percentile in _CONNECT_PERCENTILES.items()},
        "failed_connects": float(result.failed),
    }
