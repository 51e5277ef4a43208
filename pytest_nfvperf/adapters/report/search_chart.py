"""A search as it went: the load of every trial, what it lost, and the bounds that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import GREEN, INK, MUTED, SERIES, dress, finish, new_figure
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.outcome import Confirmation, Outcome

LOSS_COLORS = LinearSegmentedColormap.from_list("loss", ["#e8b030", "#d55e00", "#a3004f"])
LOSS_NORM = LogNorm(1e-6, 1, clip=True)
_MARKERS = {"confirmation": "D", "latency": "v", "warm-up": "s", "ceiling": "s"}


@dataclass(frozen=True, slots=True)
class _Point:
    number: int
    mpps: float
    loss: float | None
    valid: bool
    phase: str


def search_chart(trials: Sequence[TrialData], outcome: Outcome | None) -> Figure:
    """Load against trial number: all trials at left, those close to the result at right."""
    points = [_point(number, trial) for number, trial in enumerate(trials, 1)]
    figure = new_figure(10.4, 4.1)
    close = _close_range(outcome)
    near = [point for point in points if close and close[0] <= point.mpps <= close[1]]
    panels = figure.subplots(1, 2) if near else [figure.subplots()]
    for panel, title in zip(panels, ("Every trial", "Close to the result"), strict=False):
        dress(panel, title=title, x="trial", y="Mpps per direction")
        _draw_goals(panel, outcome)
        _draw_trials(panel, points)
        panel.set_xlim(0, len(points) + 1)
    panels[0].set_ylim(bottom=0)
    if close and near:
        panels[1].set_ylim(*close)
    lossy = any(point.loss for point in points)
    finish(figure, panels, right_in=1.15 if lossy else 0.12)
    if lossy:
        dated = any(trial.dated is not None for trial in trials)
        _loss_bar(figure, panels[-1], "lost frames, undisturbed windows" if dated else "lost frames")
    return figure


def _point(number: int, trial: TrialData) -> _Point:
    result = trial.result
    phase = next((name for name in _MARKERS if name in result.spec.purpose), "search")
    return _Point(number, result.spec.load_fps / 1e6, trial.own_loss_ratio, result.valid, phase)


def _close_range(outcome: Outcome | None) -> tuple[float, float] | None:
    """2 % around the bounds that were found, in Mpps."""
    goals = outcome.goals if outcome else ()
    bounds = [load / 1e6 for goal in goals for load in (goal.load_fps, goal.upper_fps) if load]
    return (min(bounds) * 0.98, max(bounds) * 1.02) if bounds else None


def _draw_goals(panel: Axes, outcome: Outcome | None) -> None:
    """The interval each goal was narrowed to: solid where it is met, dotted where it is not; dashed what was confirmed.

    The load found and the load confirmed are two figures: tables show the one that was confirmed.
    """
    for goal, color in zip(outcome.goals if outcome else (), SERIES, strict=False):
        if goal.load_fps is None:
            continue
        lower = goal.load_fps / 1e6
        panel.axhline(lower, color=color, linewidth=1.4, label=f"{goal.goal.name.upper()} found {lower:.2f} Mpps")
        if goal.confirmation is not None:
            confirmed = goal.confirmation.load_fps / 1e6
            name = f"{goal.goal.name.upper()} {_confirmed_text(goal.confirmation)}"
            panel.axhline(confirmed, color=color, linewidth=1.4, linestyle=(0, (5, 3)), label=name)
        if goal.upper_fps is not None:
            panel.axhspan(lower, goal.upper_fps / 1e6, color=color, alpha=0.13, linewidth=0)
            panel.axhline(goal.upper_fps / 1e6, color=color, linewidth=0.9, linestyle=(0, (1, 2)))


def _confirmed_text(confirmation: Confirmation) -> str:
    """``confirmed 4.11 Mpps``, or what a trial of full length did not bear."""
    load = f"{confirmation.load_fps / 1e6:.2f} Mpps"
    return f"confirmed {load}" if confirmation.passed else f"not confirmed at {load}"


def _draw_trials(panel: Axes, points: Sequence[_Point]) -> None:
    for phase in dict.fromkeys(point.phase for point in points):
        marker = _MARKERS.get(phase, "o")
        here = [point for point in points if point.phase == phase and point.valid]
        clean = [point for point in here if point.loss is not None and point.loss <= 0]
        lossy = [point for point in here if point.loss is not None and point.loss > 0]
        panel.scatter([p.number for p in clean], [p.mpps for p in clean], s=30, marker=marker, color=GREEN, zorder=3)
        panel.scatter(
            [p.number for p in lossy],
            [p.mpps for p in lossy],
            s=30,
            marker=marker,
            c=[p.loss or 0 for p in lossy],
            cmap=LOSS_COLORS,
            norm=LOSS_NORM,
            zorder=3,
        )
        panel.scatter([], [], s=30, marker=marker, color=MUTED, label=phase)
    panel.scatter([], [], s=30, marker="o", color=GREEN, label="no loss")
    spoiled = [point for point in points if not point.valid]
    if spoiled:
        x, y = [p.number for p in spoiled], [p.mpps for p in spoiled]
        panel.scatter(x, y, s=34, marker="x", color=MUTED, linewidth=1.4, label="invalid: repeated", zorder=3)


def _loss_bar(figure: Figure, panel: Axes, what: str) -> None:
    """The scale of the loss colours, at the right of the last panel."""
    place = panel.get_position()
    axes = figure.add_axes((place.x1 + 0.015, place.y0, 0.012, place.height))
    bar = figure.colorbar(ScalarMappable(LOSS_NORM, LOSS_COLORS), cax=axes)
    bar.set_label(what, color=INK, fontsize=8.5)
    powers = range(-6, 1)
    bar.set_ticks([10.0**power for power in powers], labels=[f"{10.0 ** (power + 2):g} %" for power in powers])
    bar.minorticks_off()
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)
