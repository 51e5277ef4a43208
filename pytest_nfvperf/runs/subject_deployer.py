"""What a study deploys its subjects with: one after the other, or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.runs.rig import LiveTopology


class Beside(Protocol):
    """All subjects side by side: one works, the others are frozen (runs/side_by_side.py)."""

    def begin_block(self, subjects: Sequence[tuple[Topology, Dut]], number: int) -> None:
        """Remove what the last block deployed."""
        ...

    def run(self, subject: int) -> LiveTopology:
        """Let this one work, alone; it is built at its first call in a block."""
        ...

    def rig_of(self, subject: int) -> int | None:
        """Which rig carries it in this block; None where a rig begins anew too often to know it again."""
        ...


class SubjectDeployer(Protocol):
    """Deploys the subjects of a study."""

    def check(self, topology: Topology, dut: Dut) -> None:
        """Whatever ends the test where a subject cannot be measured here; called for all before the first reading."""
        ...

    def __call__(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:
        """Build it anew. ``quiet``: leave its configuration out of the evidence, which has it already."""
        ...

    def side_by_side(self, subjects: Sequence[tuple[Topology, Dut]]) -> AbstractContextManager[Beside] | None:
        """All of them at once; None where that cannot be."""
        ...
