"""The port that accounts for the machine's CPU time: looked at before and after, never during a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole


class CpuAccounting(Protocol):
    """Accounts for the CPU time of one stretch of time at a time."""

    def begin(self, known: Mapping[int, CpuRole]) -> None:
        """Look at all threads now. ``known``: roles of processes by their ids; OVS's is VSWITCHD."""
        ...

    def end(self, ended: Iterable[CpuPart]) -> CpuAccount:
        """Look again, and say who used what since ``begin``.

        ``ended``: processes that ran in between and are gone, such as the streams' ends.
        """
        ...


@runtime_checkable
class HasProcesses(Protocol):
    """A DUT, or VNFs, that run as processes of this machine."""

    def processes(self) -> Mapping[int, CpuRole]:
        """Their ids, and what they are."""
        ...
