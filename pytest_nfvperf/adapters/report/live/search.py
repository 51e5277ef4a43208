"""A search as it went, in the browser: each point is a trial, and leads to its line in the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.drawing import GREEN, MUTED, SERIES
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, Trace, dots, level
from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome

_SYMBOLS = {"confirmation": "diamond", "latency": "triangle-down", "warm-up": "square", "ceiling": "square"}
_BANDS = (
    ("no loss", 0.0, GREEN),
    ("lost up to 0.01 %", 1e-4, "#e8b030"),
    ("lost up to 1 %", 1e-2, "#d55e00"),
    ("lost more", 1.0, "#a3004f"),
)
_INVALID = "invalid: repeated"

Numbered = tuple[int, str, TrialData]


def live_search(trials: Sequence[tuple[str, TrialData]], outcome: Outcome | None) -> Live:
    """Load against trial number; circles search, other symbols confirm, time or warm up."""
    numbered = [(number, trial_id, trial) for number, (trial_id, trial) in enumerate(trials, 1)]
    ends = (0.5, len(trials) + 0.5)
    goals = outcome.goals if outcome else ()
    levels = [trace for goal, color in zip(goals, SERIES, strict=False) for trace in _levels(goal, ends, color)]
    groups: dict[str, list[Numbered]] = {}
    for one in numbered:
        groups.setdefault(_band(one[2]), []).append(one)
    colors = {name: color for name, _, color in _BANDS}
    points = [_points(name, groups[name], colors.get(name, MUTED)) for name in (*colors, _INVALID) if name in groups]
    yaxis = {"rangemode": "tozero"}
    return Live((Panel("Every trial", "trial", "Mpps per direction", (*levels, *points), {}, yaxis),))


def _band(trial: TrialData) -> str:
    if not trial.result.valid or trial.own_loss_ratio is None:
        return _INVALID
    loss = trial.own_loss_ratio
    return next(name for name, most, _ in _BANDS if loss <= most or most == 1.0)


def _points(name: str, members: Sequence[Numbered], color: str) -> Trace:
    purposes = [trial.result.spec.purpose for _, _, trial in members]
    symbols = [next((_SYMBOLS[word] for word in _SYMBOLS if word in purpose), "circle") for purpose in purposes]
    return dots(
        name,
        [number for number, _, _ in members],
        [trial.result.spec.load_fps / 1e6 for _, _, trial in members],
        color,
        marker={"symbol": ["x-thin-open"] * len(members) if name == _INVALID else symbols},
        text=[_hover(trial_id, trial) for _, trial_id, trial in members],
        customdata=[trial_id for _, trial_id, _ in members],
        hoverinfo="text",
    )


def _hover(trial_id: str, trial: TrialData) -> str:
    result = trial.result
    what = f"{trial_id}, {result.spec.purpose}<br>{format_fps(result.spec.load_fps)} for {format_seconds(result.due_s)}"
    if not result.valid:
        return f"{what}<br>spoiled by the rig: {'; '.join(map(str, result.invalid))}"
    return f"{what}<br>{trial.own_lost:,} of {trial.own_offered:,} lost ({format_ratio(trial.own_loss_ratio)})"


def _levels(goal: GoalOutcome, ends: tuple[float, float], color: str) -> list[Trace]:
    """The load found, the one confirmed, and the one that no longer met the goal."""
    if goal.load_fps is None:
        return []
    name = goal.goal.name.upper()
    found = goal.load_fps / 1e6
    levels = [level(f"{name} found {found:.2f} Mpps", ends, found, color)]
    if goal.confirmation is not None:
        confirmed = goal.confirmation.load_fps / 1e6
        how = "confirmed" if goal.confirmation.passed else "not confirmed at"
        levels.append(level(f"{name} {how} {confirmed:.2f} Mpps", ends, confirmed, color, "dash"))
    if goal.upper_fps is not None:
        levels.append(
            level(f"{name} not met at {goal.upper_fps / 1e6:.2f} Mpps", ends, goal.upper_fps / 1e6, color, "dot")
        )
    return levels
