"""The section of the HTML page on a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from pytest_nfvperf.adapters.report.charts import ChartFolder
from pytest_nfvperf.adapters.report.comparison_chart import comparison_chart
from pytest_nfvperf.adapters.report.comparison_table import LEGEND, ComparisonRow, comparison_rows, heading, noted
from pytest_nfvperf.model.compare.record import SideState, Word
from pytest_nfvperf.model.evidence.comparison import ComparedRun, LeftOut

_STYLES = {
    str(Word.SLOWER): "fail",
    str(Word.FASTER): "pass",
    str(Word.SAME): "pass",
    str(Word.CANNOT_TELL): "inconclusive",
    str(SideState.FAILED): "fail",
    str(SideState.BROKEN): "broken",
    str(SideState.UNAVAILABLE): "broken",
}


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """What the template shows; ``styles``: the style sheet's class of each word."""

    baseline: str
    heading: list[str]
    sides: list[str]
    rows: list[ComparisonRow]
    chart: Markup | None
    differences: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    left_out: tuple[LeftOut, ...]
    notes: list[str]
    warnings: tuple[str, ...]
    legend: str = LEGEND
    styles: dict[str, str] = field(default_factory=lambda: dict(_STYLES))


def comparison_page(compared: ComparedRun, charts: ChartFolder) -> ComparisonPage:
    """The section of a run that compares."""
    figure = comparison_chart(compared)
    return ComparisonPage(
        baseline=compared.comparing.baseline.name,
        heading=heading(compared),
        sides=[side.name for side in compared.comparing.sides],
        rows=comparison_rows(compared),
        chart=None
        if figure is None
        else charts.add(lambda: figure, "comparison", "ratio of each side to the baseline"),
        differences=compared.differences,
        left_out=compared.left_out,
        notes=noted(compared),
        warnings=compared.warnings,
    )
