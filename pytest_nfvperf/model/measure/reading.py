"""A reading: one measurement of one subject of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nfvperf.model.traffic.windows import Paced


@dataclass(frozen=True, slots=True)
class Reading:
    """What one measurement of one subject gave; each field is by metric, values in its base unit.

    ``evidence``: id of the trial. ``at_least``, ``at_most``: why the value is only a bound. ``paced``: values by
    window, each with how slow the cores were meanwhile (model/traffic/windows.py): subjects are compared at the same
    speed of the cores. ``whole``: the value over the whole trial, disturbed or not, for comparisons without windows.
    ``missing``: why the reading lacks a metric.
    """

    values: Mapping[str, float]
    evidence: str
    at_least: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, str] = field(default_factory=dict)
    paced: Mapping[str, Sequence[Paced]] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def on_rig(self, rig: int | None) -> Reading:
        """The same, with its windows knowing the rig that measured them."""
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
