"""Studies on a terminal: a line a subject, with its median, its ratio to the baseline, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.report.studies import (
    Comparison,
    completeness_text,
    cores_text,
    find_comparisons,
    interval_text,
    median_text,
    metric_name,
    notes_below,
    ratio_text,
    slope_line,
)
from pytest_nfvperf.model.display import MISSING
from pytest_nfvperf.model.measure.outcome import Outcome

_COLUMNS = ("median", "ratio", "interval", "cycles/packet", "cores", "copies", "mirror complete")


_CORES = "Cores: sender + receiver + datapath (vswitchd; softirq, too, where the datapath is in the kernel)."


def study_tables(verdicts: Sequence[tuple[Outcome, Text]]) -> list[RenderableType]:
    """One table a study, and what a reader must know. ``verdicts``: each outcome with its verdict."""
    comparisons = find_comparisons([outcome for outcome, _ in verdicts])
    by_labels = {outcome.labels: verdict for outcome, verdict in verdicts}
    shown: list[RenderableType] = []
    for comparison in comparisons:
        shown += [_study_table(comparison, by_labels), *(Text(line, style="dim") for line in _lines(comparison))]
    if any(comparison.main == "tcp_throughput" for comparison in comparisons):
        shown.append(Text(_CORES, style="dim"))
    return [*shown, *(Text(note, style="dim") for note in notes_below(comparisons))]


def _study_table(comparison: Comparison, verdicts: Mapping[tuple[tuple[str, str], ...], Text]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        title=f"{comparison.name}: {metric_name(comparison.main)}",
        title_justify="left",
        title_style="bold",
    )
    table.add_column(comparison.per, justify="right", no_wrap=True)
    cells = [_cells(outcome, comparison) for outcome in comparison.outcomes]
    filled = [name for name in _COLUMNS if any(cell[name] != MISSING for cell in cells)]
    for name in filled:
        table.add_column(_heading(name, comparison), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for outcome, cell in zip(comparison.outcomes, cells, strict=True):
        verdict = verdicts.get(outcome.labels, Text(MISSING))
        table.add_row(outcome.label[comparison.per], *(cell[name] for name in filled), verdict)
    return table


def _heading(column: str, comparison: Comparison) -> str:
    baseline = comparison.outcomes[0].label[comparison.per]
    return f"of {comparison.per} {baseline}" if column == "ratio" else column


def _cells(outcome: Outcome, comparison: Comparison) -> dict[str, str]:
    main, cycles = outcome.sampled(comparison.main), outcome.sampled("cycles_per_packet")
    ratio, copies = outcome.relative(comparison.main), outcome.sampled("mirror_rate")
    return {
        "median": MISSING if main is None else median_text(main),
        "ratio": ratio_text(ratio),
        "interval": interval_text(ratio),
        "cycles/packet": MISSING if cycles is None else f"{cycles.median:.0f}",
        "cores": cores_text(outcome),
        "copies": MISSING if copies is None else median_text(copies),
        "mirror complete": completeness_text(outcome),
    }


def _lines(comparison: Comparison) -> list[str]:
    notes = [f"{comparison.per} {o.label[comparison.per]}: {note}" for o in comparison.outcomes for note in o.notes]
    return [line for line in (slope_line(comparison), *notes) if line]
