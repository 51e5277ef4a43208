"""When a comparison reads which subject: in blocks of turns, on rigs side by side, with planned looks at the data."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.trials import DeployedOn, InvalidTrialsError, add_evidence
from pytest_nfvperf.measure.vnf_processes import all_in_the_loop
from pytest_nfvperf.model.errors import TestbedError, run_all
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.statistics import CONFIDENCE
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology

# A *turn* reads every subject once. A *block* holds the turns that share one build of each subject.
#
# Where all subjects can be deployed at once, a block has several short turns, and the readings of one turn are pairs.
# Elsewhere each reading needs a build of its own: then a block is a *round* of one turn (How we measure, rule 7).
#
# Looking at the data after every block, and stopping at will, finds differences that are not there. So there are few
# looks, planned beforehand, and each takes its share of the error probability.

LOOKS = (1, 2, 3, 4)
"""When interim looks at the data happen, as multiples of the fewest blocks: after 5, 10, 15 and 20 rounds, say."""

LOOK_CONFIDENCE = 0.984
"""Of each interval, so that all looks together err in less than 5 % of the cases. A look sees again what the one before
it saw, so less than a quarter of 5 % each is needed. Four looks, evenly spaced, need 98.18 % where readings are many
(Pocock 1977, table 1); where they are 5 or 8, with the intervals used here, simulations then err in all of 5 %."""

MAX_DISTURBED_READINGS = 4
"""Of a comparison in rounds, whose readings have been repeated already where the rig disturbed them."""

FEWEST_BLOCKS = 8
"""Blocks of turns with a pair for every subject, at the first look. Seven bound a ratio at the confidence of a look."""

LATER_TURNS = 2
"""Where the first look is inconclusive, the machine causes most of the spread, not the builds: on a host that shared
its cores all the time, two turns of one block differed by more than two blocks did. A turn takes 0.1 s, a build 0.5."""

LATEST_LOOK = 0.75
"""Of the budget: a first look that comes later could save little time. Then the only look is at the end, and the
interval needs 95 % only: with nine blocks it is a quarter narrower than that of four looks."""

FEWEST_PAIRED = 4
"""Blocks of turns with a pair for each subject, without which there is no figure."""

Turn = Sequence[Reading | None]
"""A reading of each subject; None where the rig disturbed it."""

Pairs = Sequence[Sequence[tuple[Reading, Reading]]]
"""Readings of baseline and subject in the same turn, by block."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often to measure, and in which order.

    Attributes:
        fewest: blocks up to the first look, whatever time they take.
        budget_s: after it no further block begins.
        turns: of each block up to the first look, an even number; later blocks have LATER_TURNS times as many. None:
            rounds, blocks of one turn whose readings are no pairs.
    """

    fewest: int
    budget_s: float
    turns: int | None = None

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of blocks after which an interim look happens."""
        return tuple(self.fewest * factor for factor in LOOKS)

    def orders(self, subjects: int, block: int, turns: int, shuffle: random.Random) -> Iterator[list[int]]:
        """Order of each turn of a block, every second one the opposite: what drifts evenly meets all alike."""
        order = list(range(subjects))
        if self.turns is None:  # A B C, C B A, A B C, ...
            yield order if block % 2 == 0 else order[::-1]
            return
        for turn in range(turns):
            if turn % 2 == 0:
                shuffle.shuffle(order)
            yield order[:] if turn % 2 == 0 else order[::-1]


@dataclass(slots=True)
class BlockReadings:
    """What was read of all subjects.

    Attributes:
        blocks: the turns of each block. Where they alternated, the last place of a turn is a second build of the
            baseline.
        paired: readings of one turn are pairs; False of rounds.
        errors: of disturbed readings.
        looks: False: the data is looked at once.
    """

    blocks: list[list[Turn]] = field(default_factory=list)
    paired: bool = True
    errors: list[InvalidTrialsError] = field(default_factory=list)
    looks: bool = True

    @property
    def confidence(self) -> float:
        """Level of each interval, 0..1, that makes 95 % of all looks together."""
        return LOOK_CONFIDENCE if self.looks else CONFIDENCE

    @property
    def dropped(self) -> Counter[str]:
        """Disturbed readings by reason."""
        return Counter(code for error in self.errors for code in set(error.codes))

    @property
    def count(self) -> int:
        """Blocks that count towards a look: all rounds; of turns those with a pair, of the subject with the fewest."""
        if not self.paired or not self.blocks:
            return len(self.blocks)
        return min(sum(map(bool, self.pairs(subject))) for subject in range(1, len(self.blocks[0][0])))

    def readings(self, subject: int) -> list[list[Reading]]:
        """Of one subject, by block."""
        return [[reading for turn in block if (reading := turn[subject]) is not None] for block in self.blocks]

    def pairs(self, subject: int) -> Pairs:
        """Of the baseline and this subject."""
        return [
            [(a, b) for turn in block if (a := turn[0]) is not None and (b := turn[subject]) is not None]
            for block in self.blocks
        ]

    @property
    def noise_pairs(self) -> Pairs:
        """Of the baseline and its second build."""
        return self.pairs(-1)


BeginBlock = Callable[[int], None]
"""Removes what was deployed; the argument is the block's number."""

Take = Callable[[int, int, int], Reading]
"""Reads a subject. Arguments: its number, the block's, how many readings are still to come at least."""


def read_blocks(
    subjects: int,
    begin_block: BeginBlock,
    take: Take,
    schedule: Schedule,
    *,
    enough: Callable[[BlockReadings], bool],
    elapsed_s: Callable[[], float],
    give_up: Callable[[BlockReadings], bool] = lambda _: False,
) -> BlockReadings:
    """Read all subjects, block by block, until ``enough`` at a look, or the budget is spent.

    ``give_up``: of turns, asked after each block once FEWEST_PAIRED have a pair; True ends it. Raises the last
    disturbed reading's InvalidTrialsError where the rig disturbed too many: of rounds more than MAX_DISTURBED_READINGS
    before each subject has the fewest, of turns so many that fewer than FEWEST_PAIRED blocks have a pair.
    """
    found = BlockReadings(paired=schedule.turns is not None)
    shuffle = random.Random(1)  # noqa: S311 - an order, no secret
    for look in schedule.looks:
        turns = (schedule.turns or 1) * (1 if look == schedule.fewest or not found.paired else LATER_TURNS)
        while found.count < look and (len(found.blocks) < schedule.fewest or elapsed_s() < schedule.budget_s):
            number = len(found.blocks)
            begin_block(number)  # its errors end the comparison, whatever was read so far
            try:
                orders = schedule.orders(subjects, number, turns, shuffle)
                _read_block(found, orders, take, max(1, look - number) * turns * subjects)
            except InvalidTrialsError:
                if min(sum(map(len, found.readings(subject))) for subject in range(subjects)) < schedule.fewest:
                    raise
                return found  # enough for a figure, if not for every verdict
            if found.paired and found.count >= FEWEST_PAIRED and give_up(found):
                return found
        if found.paired and look == schedule.fewest:
            found.looks = elapsed_s() < LATEST_LOOK * schedule.budget_s
        over = elapsed_s() >= schedule.budget_s
        if over and found.errors and found.paired and found.count < FEWEST_PAIRED:
            raise found.errors[-1]
        # Once the time is over, no verdict can make the comparison longer.
        if over or (found.looks and enough(found)):
            break
    return found


def _read_block(found: BlockReadings, orders: Iterable[Sequence[int]], take: Take, left: int) -> None:
    """Add a block. Raises InvalidTrialsError at once where the rig has disturbed too many readings of rounds.

    ``left``: readings still to come at least, this block's included.
    """
    number = len(found.blocks)
    block: list[Turn] = []
    found.blocks.append(block)
    for order in orders:
        turn: list[Reading | None] = [None] * len(order)
        block.append(turn)
        for subject in order:
            try:
                turn[subject] = take(subject, number, left)
            except InvalidTrialsError as error:
                found.errors.append(error)
                if not found.paired and len(found.errors) > MAX_DISTURBED_READINGS:
                    raise
            left -= 1


# Several topologies deployed side by side, one active at a time.

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
            dut.kind != "system" and ":" not in (dut.kind or "") and all_in_the_loop(topology, own.parts.vnfs)
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
