"""Studies on a terminal: a line a subject, with its median, its ratio to the baseline, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.report.fitting import fitted, no_room
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
    subject_notes,
)
from pytest_nfvperf.model.display import MISSING
from pytest_nfvperf.model.measure.outcome import Outcome

BLANK = Text("")
"""A line between tables."""

_COLUMNS = ("median", "ratio", "interval", "cycles/packet", "cores", "copies", "mirror complete")


_CORES = "Cores: sender + receiver + datapath (vswitchd; softirq, too, where the datapath is in the kernel)."


_OPTIONAL = ("copies", "cores", "cycles/packet")


def study_tables(verdicts: Sequence[tuple[Outcome, Text]], width: int | None = None) -> list[RenderableType]:
    """One table a study, and what a reader must know.

    ``verdicts``: each outcome with its verdict; ``width``: of the terminal in columns, None: as wide as they need.
    """
    comparisons = find_comparisons([outcome for outcome, _ in verdicts])
    by_labels = {outcome.labels: verdict for outcome, verdict in verdicts}
    shown: list[RenderableType] = []
    for comparison in comparisons:
        optional = [name for name in _OPTIONAL if name in _filled(comparison)]
        table, left_out = fitted(partial(_study_table, comparison, by_labels), optional, width)
        notes = (Text(line, style="dim") for line in (*no_room(left_out), *_lines(comparison)))
        shown += [*([BLANK] if shown else []), table, *notes]
    below = [_CORES] if any(comparison.main == "tcp_throughput" for comparison in comparisons) else []
    below += notes_below(comparisons)
    return [*shown, *([BLANK] if below else []), *(Text(note, style="dim") for note in below)]


def _study_table(
    comparison: Comparison,
    verdicts: Mapping[tuple[tuple[str, str], ...], Text],
    left_out: Sequence[str],
    *,
    compact: bool,
) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0 if compact else (0, 1),
        title=f"{comparison.name}: {metric_name(comparison.main)}",
        title_justify="left",
        title_style="bold",
    )
    above = "\n" if compact else ""
    table.add_column(above + comparison.per, justify="right", no_wrap=True)
    shown = [name for name in _filled(comparison) if name not in left_out]
    for name in shown:
        table.add_column(_heading(name, comparison, compact=compact), justify="right", no_wrap=True)
    table.add_column(f"{above}verdict", no_wrap=True)
    for outcome in comparison.outcomes:
        verdict, cells = verdicts.get(outcome.labels, Text(MISSING)), _cells(outcome, comparison)
        table.add_row(outcome.label[comparison.per], *(cells[name] for name in shown), verdict)
    return table


def _filled(comparison: Comparison) -> list[str]:
    """Columns in which something stands."""
    cells = [_cells(outcome, comparison) for outcome in comparison.outcomes]
    return [name for name in _COLUMNS if any(cell[name] != MISSING for cell in cells)]


def _heading(column: str, comparison: Comparison, *, compact: bool) -> str:
    """``compact``: in two lines."""
    baseline = comparison.outcomes[0].label[comparison.per]
    if column == "ratio":
        return f"of {comparison.per}" + ("\n" if compact else " ") + baseline
    if not compact:
        return column
    two = {"cycles/packet": "cycles/\npacket", "mirror complete": "mirror\ncomplete"}
    return two.get(column, f"\n{column}")


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
    return [line for line in (slope_line(comparison), *subject_notes(comparison)) if line]
