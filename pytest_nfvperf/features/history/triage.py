"""What happened in a history, a line for each cause: the changes of all series at one step of versions together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from pytest_nfvperf.adapters.report.run_facts import flattened
from pytest_nfvperf.features.history.series import (
    STEP_NOISE_RUNS,
    ChangeMeaning,
    FigureSeries,
    HistoryChange,
    HistoryEntry,
    MachinePeriod,
    Watched,
    in_order,
    machines,
)
from pytest_nfvperf.model.metrics import METRICS

_SURPRISE = 7.0
"""A run where no version changed must explain the figures by so many deviations better than one where some did."""

_MOST_DEVIATIONS = 6.0
"""One run that strays counts no more than this."""

_LEAST_DEVIATION = 0.001
_FEW = 0.05
"""Share of the series of a line that does not make it worse."""

_LAST = ("dut_cpu_seconds", "generator_cpu_seconds", "test_process_cpu_seconds")
"""Costs, which matter less than a figure of the DUT."""

_Moved = tuple[FigureSeries, HistoryChange]


@dataclass(frozen=True, slots=True)
class TriageLine:
    """One cause, and what it moved.

    Attributes:
        before, first: the last run before it, the first after it.
        differs: (what, before, after) for each version in which these two differ, and each fact of a port's NIC.
        moved: the series that changed, with their change; the most important metric first, then the largest change.
    """

    machine: int
    before: HistoryEntry
    first: HistoryEntry
    differs: tuple[tuple[str, str, str], ...]
    moved: tuple[_Moved, ...]

    @property
    def size(self) -> float:
        """The change of the first series, as a share of the level before."""
        return self.moved[0][1].step.ratio - 1

    @property
    def state(self) -> str:
        """``worse``, ``acknowledged``, ``recovered``, ``better`` or ``changed``.

        It is worse if the first series is, or some of all: a few of hundreds that got better can be worse by chance.
        """
        changes = [change for _, change in self.moved]
        if changes[0].counts or sum(change.counts for change in changes) > _FEW * len(changes):
            return str(ChangeMeaning.WORSE)
        if any(change.acknowledged for change in changes) and changes[0].direction is ChangeMeaning.WORSE:
            return "acknowledged"
        if changes[0].recovered:
            return "recovered"
        return str(changes[0].direction)


def importance(metric: str) -> tuple[int, int]:
    """Sorts metrics: rates, other figures of the DUT, metrics of a user, costs in CPU time."""
    if metric not in METRICS:
        return 2, 0
    group = 3 if metric in _LAST else 0 if "pps" in (METRICS[metric].unit, *METRICS[metric].also) else 1
    return group, list(METRICS).index(metric)


def triage(entries: Sequence[HistoryEntry], watched: Sequence[Watched]) -> list[TriageLine]:
    """The newest first."""
    lines = []
    for machine in machines(entries):
        indices = {run.run: index for index, run in enumerate(machine.runs)}
        own = [of_series for of_series in watched if of_series.series.machine == machine.number]
        open_changes = [(of_series.series, change) for of_series in own for change in of_series.changes]
        while open_changes:
            group = _of_one_cause(open_changes, indices)
            grouped = {id(change) for _, change in group}
            open_changes = [moved for moved in open_changes if id(moved[1]) not in grouped]
            lines.append(_line(machine, indices, group))
    order = {run.run: index for index, run in enumerate(in_order(entries))}
    return sorted(lines, key=lambda line: -order[line.first.run])


def _span(moved: _Moved, indices: Mapping[str, int]) -> tuple[int, int]:
    """Indices, among the machine's runs, of the first and last run that can be the first after the change."""
    series, change = moved
    last_before = series.points[change.step.earliest - 1].run
    return indices[last_before.run] + 1, indices[series.points[change.step.at].run.run]


def _of_one_cause(moved: Sequence[_Moved], indices: Mapping[str, int]) -> list[_Moved]:
    """The clearest change and those of other series beside it."""
    clearest = min(moved, key=lambda each: (each[1].step.p_value, -abs(math.log(each[1].step.ratio))))
    low, high = _span(clearest, indices)
    nearest: dict[int, tuple[int, _Moved]] = {}
    for each in moved:
        start, end = _span(each, indices)
        gap = max(0, start - high, low - end)
        if gap <= STEP_NOISE_RUNS and gap < nearest.get(id(each[0]), (STEP_NOISE_RUNS + 1, each))[0]:
            nearest[id(each[0])] = (gap, each)
    return [each for _, each in nearest.values()]


def _line(machine: MachinePeriod, indices: Mapping[str, int], moved: Sequence[_Moved]) -> TriageLine:
    """Put the change where it explains the figures of all these series best, at a change of versions if it can be."""
    runs = machine.runs
    spans = [_span(each, indices) for each in moved]
    low = max(1, min(start for start, _ in spans) - STEP_NOISE_RUNS)
    high = min(len(runs) - 1, max(end for _, end in spans) + STEP_NOISE_RUNS)
    by_series = [_deviations(each, indices, range(low, high + 1)) for each in moved]
    deviations = {index: fmean(each[index] for each in by_series) for index in range(low, high + 1)}

    def unexplained(index: int) -> float:
        return deviations[index] + (0.0 if _differences(runs[index - 1], runs[index]) else _SURPRISE)

    best = min(deviations, key=unexplained)
    # Without a figure in between, all these indices are the same.
    same = [index for index, value in deviations.items() if value == deviations[best]]
    before, first = runs[min(same) - 1], runs[max(same)]
    by_importance = sorted(
        moved, key=lambda each: (importance(each[0].metric), -abs(math.log(each[1].step.ratio)), each[0].full_name)
    )
    return TriageLine(machine.number, before, first, _differences(before, first), tuple(by_importance))


def _deviations(moved: _Moved, indices: Mapping[str, int], candidates: range) -> dict[int, float]:
    """By index of the change: how far a series' figures around the candidates are from its levels, in deviations."""
    series, change = moved
    logs = [math.log(value) for value in series.values]
    usual = max(_LEAST_DEVIATION, median(abs(later - earlier) for earlier, later in pairwise(logs)))
    levels = math.log(change.step.before), math.log(change.step.after)
    around = []
    for point, value in zip(series.points, logs, strict=True):
        at = indices[point.run.run]
        if candidates.start - 1 <= at < candidates.stop:
            around.append((at, [min(_MOST_DEVIATIONS, abs(value - level) / usual) for level in levels]))
    return {index: sum(deviation[at >= index] for at, deviation in around) for index in candidates}


def _differences(before: HistoryEntry, after: HistoryEntry) -> tuple[tuple[str, str, str], ...]:
    then, now = ({**entry.versions, **_port_facts(entry)} for entry in (before, after))
    facts = [(name, then.get(name, "unknown"), now.get(name, "unknown")) for name in sorted({*then, *now})]
    return tuple(fact for fact in facts if fact[1] != fact[2])


def _port_facts(entry: HistoryEntry) -> dict[str, str]:
    """``port p0 firmware``: what may change on a machine that stays the same one."""
    ports = entry.fingerprint.get("ports") or {}
    return {f"port {name.replace('.', ' ')}": text for name, text in flattened(ports)}
