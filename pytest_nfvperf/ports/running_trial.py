"""Generators that tell what a trial has counted while it runs: what a soak needs of them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.traffic.interval_counts import IntervalCounts
from pytest_nfvperf.model.traffic.trial import TrialResult, TrialSpec


class RunningTrial(Protocol):
    """A running trial. Read it to its end: call ``next_interval`` until it returns None."""

    @property
    def most_skipped(self) -> float:
        """Share of an interval's frames that the generator may skip before the interval says nothing."""
        ...

    def next_interval(self) -> IntervalCounts | None:
        """Wait for the end of the next interval; None once the trial has ended and its result is available.

        Raises GeneratorError when the engine died or stopped answering.
        """
        ...

    def stop(self) -> None:
        """Stop sending. The trial still receives and counts frames in flight.

        Can be called twice, and from a signal handler while ``next_interval`` waits.
        """
        ...

    def result(self) -> TrialResult:
        """The whole trial; GeneratorError before its end."""
        ...


@runtime_checkable
class TellsIntervals(Protocol):
    """A Generator that can do so."""

    def start_trial(self, spec: TrialSpec, interval_s: float) -> RunningTrial:
        """Begin a trial; ConfigError for a spec the engine cannot do."""
        ...
