"""The record of requests and responses between two namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.request_response import RequestResult


@dataclass(frozen=True, slots=True)
class RequestData:
    """A run of requests and responses.

    Attributes:
        result: response times.
        wall_s: from call to times, s.
        cpu: who used the machine's CPUs; None where nobody accounts for them.
    """

    result: RequestResult
    wall_s: float
    cpu: CpuAccount | None = None
