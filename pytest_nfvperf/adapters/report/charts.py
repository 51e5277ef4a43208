"""The charts of a report: inline for the page, PNG files beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.evidence.reader import TestEvidence
from pytest_nfvperf.adapters.report.curve_charts import latency_chart, loss_chart
from pytest_nfvperf.adapters.report.drawing import to_png, to_svg
from pytest_nfvperf.adapters.report.live.curves import live_latency, live_loss
from pytest_nfvperf.adapters.report.live.search import live_search
from pytest_nfvperf.adapters.report.live.spec import Live
from pytest_nfvperf.adapters.report.search_chart import search_chart
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.text import visible
from pytest_nfvperf.model.traffic.histogram import Histogram

NoteFault = Callable[[str, Exception], None]
"""Takes what went wrong in a part of a report, in words, and the error."""

NO_CHART, NO_FILES = "a chart of the report cannot be drawn", "charts cannot be written as files"


def raise_fault(what: str, error: Exception) -> None:  # noqa: ARG001 - a NoteFault
    """End the report by its first fault."""
    raise error


_DRAW = "`nfvperf report`, with this run's directory, draws all charts."


class ChartFolder:
    """Renders figures: SVG to embed in the page, and PNG files in ``directory`` (None: no files).

    ``time_left``: False once nobody waits for more: what is missing is then said in its place.
    ``pictures``: False where there are so many charts that the browser alone draws those it can.
    ``note``: told of each picture that cannot be made; the page says so in its place. By default it raises.
    """

    def __init__(
        self,
        directory: Path | None,
        time_left: Callable[[], bool] = lambda: True,
        *,
        pictures: bool = True,
        note: NoteFault = raise_fault,
    ) -> None:
        self._directory = directory
        self._time_left = time_left
        self._pictures = pictures
        self._note = note
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                note(NO_FILES, error)
                self._directory = None

    def add(self, draw: Callable[[], Figure], name: str, title: str, live: Live | None = None) -> Markup:
        """A chart, drawn as inline SVG; with ``live`` the browser puts an interactive one in its place.

        ``name`` becomes the file's, ``title`` what a screen reader says.
        """
        if live is not None and not self._pictures:
            return _chart(live, title, Markup(""))
        if not self._time_left():
            return Markup('<p class="soft small">{} was not drawn: the run was stopped. {}</p>').format(title, _DRAW)
        try:
            still = self._still(draw(), name, title)
        except Exception as error:  # noqa: BLE001 - a chart that cannot be drawn costs the page that chart
            self._note(NO_CHART, error)
            why = type(error).__name__
            still = Markup('<p class="soft small">{} cannot be drawn: {}</p>').format(visible(title), why)
        return still if live is None else _chart(live, title, still)

    def add_of_test(
        self, draw: Callable[[], Figure | None], name: str, title: str, live: Live | None = None
    ) -> Markup | None:
        """A chart of a single test; None where nothing is to be drawn."""
        if not self._pictures:
            return None if live is None else _chart(live, title, Markup(""))
        try:
            figure = draw()
        except Exception as error:  # noqa: BLE001 - as above
            self._note(NO_CHART, error)
            return None
        return None if figure is None else self.add(lambda: figure, name, title, live)

    def _still(self, figure: Figure, name: str, title: str) -> Markup:
        if self._directory is not None:
            try:
                (self._directory / f"{file_name(name)}.png").write_bytes(to_png(figure))
            except OSError as error:
                self._note(NO_FILES, error)
        return Markup(to_svg(figure, title))  # noqa: S704 - made by matplotlib, which escapes texts


def _chart(live: Live, title: str, still: Markup) -> Markup:
    """What report.js draws a chart of. ``htmlsafe_json_dumps`` leaves no quote that would end the attribute."""
    data = htmlsafe_json_dumps(live.data(), separators=(",", ":"))
    start = Markup('<div class="chart" role="group" aria-label="{}" data-chart=\'{}\'>').format(title, data)
    return start + Markup('<div class="still">{}</div></div>').format(still)


def file_name(text: str) -> str:
    """A text as a file name without an ending."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


def outcome_trials(outcome: Outcome, trials: dict[str, TrialData]) -> list[tuple[str, TrialData]]:
    """The trials of an outcome that are on record, in order."""
    return [(trial_id, trials[trial_id]) for trial_id in outcome.trials if trial_id in trials]


Drawing = tuple[Callable[[], Figure], Live]
"""What draws a picture, and the same for the browser."""


def search_drawing(outcome: Outcome, trials: dict[str, TrialData]) -> Drawing | None:
    """The search; None when nothing was searched or no trial is on record."""
    own = outcome_trials(outcome, trials)
    if not (outcome.goals and own):
        return None
    return lambda: search_chart([trial for _, trial in own], outcome), live_search(own, outcome)


def latency_drawing(outcome: Outcome, trials: dict[str, TrialData]) -> Drawing | None:
    """The percentile curves of the outcome's latency points; None without samples."""
    curves: list[tuple[str, Histogram]] = []
    for point in outcome.latency:
        # Thinned counts are within 1 %, which no eye sees in a chart; decoding exact ones takes 40 ms each.
        measured = point.trial_id in trials and not point.spoiled
        histogram = trials[point.trial_id].result.latency if measured else None
        if histogram is not None and histogram.total:
            curves.append((point.at, histogram))
    return (lambda: latency_chart(curves), live_latency(curves)) if curves else None


def loss_drawing(outcome: Outcome) -> Drawing | None:
    """The loss curve; None when none was measured."""
    points = tuple(point for point in outcome.loss_curve if not point.short)
    return (lambda: loss_chart(points), live_loss(points)) if points else None


def aborted_drawing(test: TestEvidence) -> Drawing | None:
    """The trials of a test that ended without an outcome."""
    if len(test.trials) < 2 or test.outcomes:
        return None
    return lambda: search_chart(list(test.trials.values()), None), live_search(list(test.trials.items()), None)
