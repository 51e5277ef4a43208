"""The record of TCP connects between two namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.measure.connect_rate import ConnectResult
from pytest_nfvperf.model.measure.cpu_account import CpuAccount


@dataclass(frozen=True, slots=True)
class ConnectData:
    """A run of connects.

    Attributes:
        result: their rate and times.
        wall_s: from call to times, s.
        cpu: who used the machine's CPUs; None where nobody accounts for them.
    """

    result: ConnectResult
    wall_s: float
    cpu: CpuAccount | None = None
