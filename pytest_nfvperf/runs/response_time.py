"""Response times between two namespaces, as a figure that a study compares."""

from __future__ import annotations

from pytest_nfvperf.model.evidence.records import RequestData
from pytest_nfvperf.model.measure.request_response import RequestResult, RequestSpec
from pytest_nfvperf.runs.end_times import EndRunner, EndTimes
from pytest_nfvperf.runs.ends import Ends

REQUESTS = "requests"
"""The outcome's algorithm."""

_RESPONSE_UNITS = {
    "response_time_p50": "ns",
    "response_time_p99": "ns",
    "response_time_p999": "ns",
    "responses": "times/s",
    "datapath_cores": "cores",
}
"""What a reading holds, in which unit."""

_RESPONSE_PERCENTILES = {"response_time_p50": 50.0, "response_time_p99": 99.0, "response_time_p999": 99.9}
_RESPONSE_OVERHEAD_S = 0.8
"""Beside the requests' own time: warming up, processes, the log."""

Requester = EndRunner[RequestSpec, RequestResult, RequestData]
ResponseTime = EndTimes[RequestSpec, RequestResult, RequestData]


def response_time(requester: Requester, spec: RequestSpec, ends: Ends | None = None) -> ResponseTime:
    """Reads response times between two namespaces of any topology."""
    return EndTimes(
        requester, spec, ends, _RESPONSE_UNITS, _RESPONSE_OVERHEAD_S, lambda data: response_values(data.result)
    )


def response_values(result: RequestResult) -> dict[str, float | None]:
    """Percentiles of the response time in ns, and responses a second."""
    return {
        **{name: result.times.percentile_ns(percentile) for name, percentile in _RESPONSE_PERCENTILES.items()},
        "responses": result.responses_per_s,
    }
