"""Several topologies deployed side by side, one active at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Protocol, Self

from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.trials import DeployedOn, add_evidence
from pytest_nfvperf.model.errors import TestbedError, run_all
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology

BLOCKS_OF_A_START = 2
"""Where DUTs differ. A start differs from the next by about a percent, which would pass for a difference of sides: in
simulations of equal sides one in six comparisons found one where all blocks were of one start."""


class SubjectDeployer(Protocol):
    """Deploys the subjects of a study."""

    def refuse_lacking(self, topology: Topology, dut: Dut) -> None:
        """Raise where a subject cannot be measured here; called for all before the first reading."""
        ...

    def redeploy(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:
        """Build it, even if it is deployed. ``quiet``: its configuration is in the evidence already."""
        ...

    def side_by_side(self, subjects: Sequence[DeployedOn]) -> SideBySide | None:
        """Deploy all at once; None where that is impossible."""
        ...


class SideBySide:
    """The run's own rig and companions; one works at a time, so that readings can alternate between subjects.

    Each has a DUT and a generator of its own on the same CPUs. While one is measured the others' DUTs are frozen
    (SIGSTOP), and cost nothing. A change takes milliseconds, so two readings see the same state of the machine.
    ``deploy``: builds a topology on a rig.
    """

    def __init__(self, own: Rig, deploy: Callable[[Rig, Topology, Dut], LiveTopology]) -> None:
        self._rigs = [own]
        self._deploy = deploy
        self._subjects: list[DeployedOn] = []
        self._lives: list[LiveTopology | None] = []
        self._order: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the rigs in any case. An error of the comparison wins over one of closing."""
        with nullcontext() if error is None else suppress(TestbedError):
            self.close()

    @staticmethod
    def possible(own: Rig, subjects: Sequence[DeployedOn]) -> bool:
        """True where that many DUTs can run at once, and freezing stops all of them.

        Freezing does not stop the kernel's OVS, nor perhaps a third party's; VNFs that are processes poll on.
        """
        freeze = all(
            dut.kind != "system" and ":" not in (dut.kind or "") and own.loops_vnfs(topology)
            for topology, dut in subjects
        )
        duts = sum(max(1, len(topology.nodes)) for topology, _ in subjects)
        return freeze and duts <= 1 + own.room_for_companions()

    def begin_block(self, subjects: Sequence[DeployedOn], number: int) -> None:
        """Remove what the last block deployed; each subject's next ``run`` builds it again.

        Subjects change rigs from block to block where they have the same DUT, else every BLOCKS_OF_A_START, because a
        change then restarts the DUTs. So the peculiarities of a rig or a start, such as memory layout, affect all
        subjects alike.
        """
        for count in range(len(self._rigs), len(subjects)):
            self._rigs.append(self._rigs[0].beside(str(count)))
        for rig in self._rigs:
            self._wake(rig)
            rig.remove_topology()
        self._subjects = list(subjects)
        turned = number if self._one_dut else number // BLOCKS_OF_A_START
        self._order = [(at + turned) % len(subjects) for at in range(len(subjects))]
        self._lives = [None] * len(subjects)

    def run(self, subject: int) -> LiveTopology:
        """Let only this one work; its first call in a block builds it. TestbedError where it died."""
        rig = self._rigs[self._order[subject]]
        self._wake(rig)
        live = self._lives[subject]
        if live is None:
            try:
                live = self._deploy(rig, *self._subjects[subject])
            except TestbedError as error:
                add_evidence(error, rig.logs())
                raise
            self._lives[subject] = live
        return live

    def rig_of(self, subject: int) -> int | None:
        """The rig that carries it in this block; None where rigs restart every few blocks."""
        return self._order[subject] if self._one_dut else None

    @property
    def _one_dut(self) -> bool:
        return len({dut for _, dut in self._subjects}) == 1

    def close(self) -> None:
        """Close the companions, and resume the run's own rig. TestbedError, after all are closed."""
        for rig in self._rigs:
            rig.thaw()
        run_all(self._rigs.pop().close for _ in self._rigs[1:])

    def _wake(self, rig: Rig) -> None:
        for other in self._rigs:
            if other is not rig:
                # A dead DUT takes no CPU either: whoever reads it next gets the error.
                try:
                    other.freeze()
                except TestbedError:
                    if not other.died():
                        raise
        rig.thaw()
