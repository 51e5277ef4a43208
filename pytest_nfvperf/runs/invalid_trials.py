"""How often a trial that the rig disturbed is run again, and the error when none was valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from pytest_nfvperf.model.errors import InconclusiveError
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason

MOVED_S = 60.0
"""How long repeats may take that only a host needs that moves CPUs, the waiting for its near band with them, s."""


class _Judged(Protocol):
    @property
    def invalid(self) -> tuple[InvalidReason, ...]: ...


class Spoiled(Protocol):
    """A trial, or a run of streams, with its place in the evidence."""

    @property
    def id(self) -> str:
        """Its record."""
        ...

    @property
    def result(self) -> _Judged:
        """With the reasons why it says nothing."""
        ...


class Timed(Spoiled, Protocol):
    """One that says what it took."""

    @property
    def wall_s(self) -> float:
        """From call to counts, s: waiting for the host is in it."""
        ...


class InvalidTrialsError(InconclusiveError):
    """No valid trial within the budget: the rig is too disturbed to say anything about the DUT."""

    def __init__(self, trials: Sequence[Spoiled]) -> None:
        self.trials = tuple(trials)
        codes = Counter(str(reason.code) for trial in trials for reason in trial.result.invalid)
        self.codes = tuple(codes)
        self.counted = ", ".join(f"{code} {count}x" for code, count in codes.most_common())
        last = trials[-1]
        super().__init__(
            f"{_in_a_row(len(trials))} invalid ({self.counted}); "
            f"the last, {last.id}: {'; '.join(map(str, last.result.invalid))}"
        )


def _in_a_row(trials: int) -> str:
    return "the only trial was" if trials == 1 else f"{trials} trials in a row were"


class RepeatBudget:
    """Repeats of one trial, beside those for a host that moves CPUs, which have a time instead of a number.

    A disturbance by the DUT or the rig comes again in each repeat. A host that moves CPUs lets them stay for seconds or
    minutes, and then a trial is as good as any.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self._spoiled: list[Timed] = []
        self._moved = 0
        self._moved_s = 0.0

    @property
    def last(self) -> str | None:
        """Id of the trial that the next one repeats; None before the first was spoiled."""
        return self._spoiled[-1].id if self._spoiled else None

    def spend(self, trial: Timed, borne: frozenset[Reason] = frozenset()) -> None:
        """Count a disturbed trial; InvalidTrialsError where it was the last that the budget allows.

        ``borne``: reasons that would not have made it invalid by themselves.
        """
        self._spoiled.append(trial)
        codes = {reason.code for reason in trial.result.invalid} - borne
        if codes == {Reason.CPU_MOVED} and self._moved_s < MOVED_S:
            self._moved += 1
            self._moved_s += trial.wall_s
        if len(self._spoiled) - self._moved > self._repeats:
            raise InvalidTrialsError(self._spoiled)
