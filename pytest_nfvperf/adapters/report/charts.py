"""The charts of a report: inline for the page, PNG files beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.evidence.reader import TestEvidence
from pytest_nfvperf.adapters.report.curve_charts import latency_chart, loss_chart
from pytest_nfvperf.adapters.report.drawing import to_png, to_svg
from pytest_nfvperf.adapters.report.search_chart import search_chart
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.traffic.histogram import Histogram

_DRAW = "`nfvperf report`, with this run's directory, draws all charts."


class ChartFolder:
    """Renders figures: SVG to embed in the page, and PNG files in ``directory`` (None: no files).

    ``time_left``: False once nobody waits for more: what is missing is then said in its place.
    """

    def __init__(self, directory: Path | None, time_left: Callable[[], bool] = lambda: True) -> None:
        self._directory = directory
        self._time_left = time_left
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def add(self, figure: Figure, name: str, title: str) -> Markup:
        """The figure as inline SVG; ``name`` becomes the file's, ``title`` what a screen reader says."""
        if not self._time_left():
            return Markup('<p class="soft small">{} was not drawn: the run was stopped. {}</p>').format(title, _DRAW)
        if self._directory is not None:
            (self._directory / f"{file_name(name)}.png").write_bytes(to_png(figure))
        return Markup(to_svg(figure, title))  # noqa: S704 - made by matplotlib, which escapes texts


def file_name(text: str) -> str:
    """A text as a file name without an ending."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


def outcome_trials(outcome: Outcome, trials: dict[str, TrialData]) -> list[tuple[str, TrialData]]:
    """The trials of an outcome that are on record, in order."""
    return [(trial_id, trials[trial_id]) for trial_id in outcome.trials if trial_id in trials]


def search_figure(outcome: Outcome, trials: dict[str, TrialData]) -> Figure | None:
    """The search picture; None when nothing was searched or no trial is on record."""
    own = outcome_trials(outcome, trials)
    return search_chart([trial for _, trial in own], outcome) if outcome.goals and own else None


def latency_figure(outcome: Outcome, trials: dict[str, TrialData]) -> Figure | None:
    """The percentile curves of the outcome's latency points; None without samples."""
    curves: list[tuple[str, Histogram]] = []
    for point in outcome.latency:
        # Thinned counts are within 1 %, which no eye sees in a chart; decoding exact ones takes 40 ms each.
        histogram = trials[point.trial_id].result.latency if point.trial_id in trials else None
        if histogram is not None and histogram.total:
            curves.append((point.at, histogram))
    return latency_chart(curves) if curves else None


def loss_figure(outcome: Outcome) -> Figure | None:
    """The loss curve; None when none was measured."""
    return loss_chart(outcome.loss_curve) if outcome.loss_curve else None


def aborted_figure(test: TestEvidence) -> Figure | None:
    """The trials of a test that ended without an outcome."""
    return search_chart(list(test.trials.values()), None) if len(test.trials) > 1 and not test.outcomes else None
