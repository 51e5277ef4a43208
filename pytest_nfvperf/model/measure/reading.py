"""A reading: one measurement of one subject of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nfvperf.model.traffic.windows import Paced


@dataclass(frozen=True, slots=True)
class Reading:
    """What one measurement of one subject gave.

    Attributes:
        values: metric to value, in the metric's base unit.
        evidence: id of the trial.
        at_least: metric to the reason why the value is only a lower bound.
        at_most: metric to the reason why it is only an upper bound.
        paced: metric to its values by window, each with how slow the cores were meanwhile
            (model/traffic/windows.py): those of two subjects are compared at the same speed of the cores.
        whole: metric to its value over the whole trial, disturbed or not: what a reading without windows, or one whose
            windows tell nothing, is compared with.
        missing: metrics that this reading should have told and could not, each with the reason.
    """

    values: Mapping[str, float]
    evidence: str
    at_least: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, str] = field(default_factory=dict)
    paced: Mapping[str, Sequence[Paced]] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def on_rig(self, rig: int | None) -> Reading:
        """The same, with its windows knowing which of the rigs side by side measured them."""
        told = {metric: tuple(replace(each, rig=rig) for each in windows) for metric, windows in self.paced.items()}
        return replace(self, paced=told)

    def of_whole_trial(self, metrics: Sequence[str]) -> Reading:
        """The same, with the values of these metrics over the whole trial, where they are told apart."""
        whole = {metric: self.whole[metric] for metric in metrics if metric in self.whole}
        missing = {metric: reason for metric, reason in self.missing.items() if metric not in whole}
        return replace(self, values={**self.values, **whole}, missing=missing)

    def over_all(self, metric: str) -> float | None:
        """The value over the whole trial, where it is told apart; else the value; None without one."""
        return self.whole.get(metric, self.values.get(metric))
