"""Interleaved rounds: A B C, C B A, A B C, ... (How we measure, rule 7).

Looking at the data after every round, and stopping at will, finds differences that are not there. So there are few
looks, planned beforehand, and each takes its share of the error probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError

LOOKS = (1, 2, 3, 4)
"""When interim looks at the data happen, as multiples of the fewest repeats: after 5, 10, 15 and 20 rounds."""

LOOK_CONFIDENCE = 0.984
"""Of each interval, so that all looks together err in less than 5 % of the cases. A look sees again what the one before
it saw, so less than a quarter of 5 % each is needed. Four looks, evenly spaced, need 98.18 % where readings are many
(Pocock 1977, table 1); where they are 5 or 8, with the intervals used here, simulations then err in all of 5 %."""

MAX_SPOILED_READINGS = 4


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often to measure: ``fewest`` repeats a side, whatever they take; no further round after ``budget_s``."""

    fewest: int
    budget_s: float

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of rounds after which an interim look happens."""
        return tuple(self.fewest * factor for factor in LOOKS)


Read = Callable[[int, int, int], Reading]
"""Measures a subject. Arguments: its number, the round's number, how many readings are still to come at least."""


def interleaved(
    subjects: int,
    read: Read,
    rounds: Rounds,
    *,
    enough: Callable[[Sequence[Sequence[Reading]]], bool],
    elapsed_s: Callable[[], float],
) -> list[list[Reading]]:
    """Read every subject in turn, forward and backward, until ``enough`` at a look, or the budget is spent.

    InvalidTrialsError where the rig disturbed too many readings before there were ``fewest`` of each.
    """
    readings: list[list[Reading]] = [[] for _ in range(subjects)]
    spoiled = 0
    number = 0
    for look in rounds.looks:
        while number < look:
            if number >= rounds.fewest and elapsed_s() >= rounds.budget_s:
                return readings
            order = range(subjects) if number % 2 == 0 else range(subjects - 1, -1, -1)
            for place, subject in enumerate(order):
                left = (look - number) * subjects - place
                try:
                    readings[subject].append(read(subject, number, left))
                except InvalidTrialsError:
                    spoiled += 1
                    if spoiled > MAX_SPOILED_READINGS:
                        if min(map(len, readings)) >= rounds.fewest:
                            return readings  # enough for a figure, if not for every verdict
                        raise
            number += 1
        if enough(readings):
            break
    return readings
