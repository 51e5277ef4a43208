"""Which of a soak's lost frames are the DUT's own: its windows, told at its end, by the intervals that they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.measure.soak_table import TIME, SoakTable
from pytest_nfvperf.model.traffic.cpu_placement import Placed
from pytest_nfvperf.model.traffic.trial import TrialResult
from pytest_nfvperf.model.traffic.windows import LEAST_SHARE, State, lost_by_window, reaching


@dataclass(frozen=True, slots=True)
class DatedInterval:
    """An interval of a soak by its windows.

    ``lost``: in undisturbed windows: the DUT's own; ``disturbed_lost``: in the others. ``spoiled``: why nothing can be
    said of its loss; empty where nothing was lost, or enough of it was undisturbed.
    """

    lost: int
    disturbed_lost: int
    spoiled: str = ""


def dated_intervals(table: SoakTable, result: TrialResult) -> dict[int, DatedInterval]:
    """Those rows of the table that the trial's windows cover, by number; none where it has no windows."""
    windows, moved = result.windows, _moved(result.placement)
    if windows is None:
        return {}
    states = reaching(windows.states(result.due_s))
    losses = lost_by_window(windows, result.due_s, result.lost)
    length_s, found = windows.length_ns / 1e9, {}
    for row, end_s in enumerate(table.column(TIME)):
        first, last = round((end_s - table.span_s(row)) / length_s), round(end_s / length_s)
        if first < last <= len(states):
            dated = _dated(states[first:last], losses[first:last])
            found[row] = _of_nobody(dated, moved) if moved else dated
    return found


def _moved(placed: Placed | None) -> str:
    """Where the CPUs were near before the soak and far after it, or the other way round: in words; else ""."""
    if placed is None or not placed.moved:
        return ""
    return (
        f"the host moved a CPU during the soak (a cache line's round trip took {placed.before_ns} ns before it and "
        f"{placed.after_ns} ns after), so nobody can tell whose loss it was"
    )


def _of_nobody(dated: DatedInterval, why: str) -> DatedInterval:
    """Loss that may be that of CPUs which were far apart by then."""
    return DatedInterval(0, dated.lost + dated.disturbed_lost, why) if dated.lost else dated


def _dated(states: Sequence[State], losses: Sequence[int]) -> DatedInterval:
    alone = [state is State.ALONE for state in states]
    own = sum(lost for lost, undisturbed in zip(losses, alone, strict=True) if undisturbed)
    elsewhere = sum(losses) - own
    if not sum(losses) or sum(alone) >= LEAST_SHARE * len(states):
        return DatedInterval(own, elsewhere)
    (usual, _), *_ = Counter(state for state in states if state is not State.ALONE).most_common(1)
    share = sum(alone) / len(states)
    why = f"{share:.0%} of it was undisturbed ({usual}), too little to tell whose loss it was"
    return DatedInterval(own, elsewhere, why)
