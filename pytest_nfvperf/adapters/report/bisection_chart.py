"""A bisection in a chart: the versions in order with what was measured of each, and below them the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import BLUE, MUTED, ORANGE, VERMILION, dress, finish, new_figure
from pytest_nfvperf.model.bisect.bisection import Standing
from pytest_nfvperf.model.bisect.levels import Levels
from pytest_nfvperf.model.bisect.seen import Estimate, Event, Question, runs, unusable

_MOST_NAMES = 24


def bisection_chart(question: Question, events: Sequence[Event], now: Standing) -> Figure:
    """Two panels, one above the other; ``now.subject`` is known."""
    figure = new_figure(10.4, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    if isinstance(now.evidence, Levels):
        _draw_ratios(above, question, now.evidence)
    else:
        _draw_failures(above, events, now)
    _mark_skipped(above, unusable(events))
    candidates = range(1, len(question.versions))
    below.bar(candidates, [chance * 100 for chance in now.chances], color=ORANGE, width=0.8)
    dress(below, title="The change came in with this version", y="probability, %")
    below.set_ylim(0, 105)
    step = 1 + (len(question.versions) - 1) // _MOST_NAMES
    places = list(range(0, len(question.versions), step))
    below.set_xticks(places, [question.versions[place] for place in places], rotation=40, ha="right", fontsize=8)
    below.set_xlim(-0.7, len(question.versions) - 0.3)
    finish(figure, (above, below), bottom_in=0.8)
    figure.subplots_adjust(hspace=0.28)
    return figure


def _draw_ratios(panel: Axes, question: Question, evidence: Levels) -> None:
    seen: Mapping[int, Estimate] = {**evidence.seen, question.bad: evidence.change}
    places = sorted(seen)
    found = [seen[place].interval() for place in places]
    middle = [ratio * 100 for ratio, _, _ in found]
    bars = ([(ratio - low) * 100 for ratio, low, _ in found], [(high - ratio) * 100 for ratio, _, high in found])
    panel.axhline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    panel.axhline(evidence.change.interval()[0] * 100, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    panel.errorbar(
        places, middle, yerr=bars, fmt="o", color=BLUE, capsize=3, markersize=5, label="measured, with interval at 95 %"
    )
    panel.plot([0], [100], "s", color=BLUE, markersize=6, label="good end")
    dress(panel, title="Each version against the good end", y=f"% of {question.versions[0]}")


def _draw_failures(panel: Axes, events: Sequence[Event], now: Standing) -> None:
    test = now.subject.test if now.subject else ""
    ran = runs(events, test)
    places = sorted(ran)
    panel.plot(
        places,
        [100 * ran[place].failed / ran[place].count for place in places],
        "o",
        color=BLUE,
        label="runs that failed",
    )
    for place in places:
        panel.annotate(
            f"{ran[place].failed}/{ran[place].count}",
            (place, 100 * ran[place].failed / ran[place].count),
            (5, 5),
            textcoords="offset points",
            fontsize=8,
        )
    panel.set_ylim(-8, 115)
    dress(panel, title=f"{test} on each version", y="failed runs, %")


def _mark_skipped(panel: Axes, cannot: Mapping[int, str]) -> None:
    if cannot:
        height = sum(panel.get_ylim()) / 2
        panel.plot(
            sorted(cannot), [height] * len(cannot), "x", color=VERMILION, markersize=8, label="skipped: cannot be used"
        )
