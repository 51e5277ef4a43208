"""Tables and texts on a terminal, in rich's colours."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from pytest_nfvperf.model.display import TableColumn, TableRow, fold_table


def table(
    columns: Sequence[TableColumn], rows: Iterable[TableRow], width: int | None, *, once: bool = False
) -> list[RenderableType]:
    """The lines of a table (``fold_table``), and a note on the columns that it lacks."""
    lines, lacking = fold_table(columns, rows, width, once=once)
    note = [Text(f"This terminal is too narrow for: {', '.join(lacking)}.", style="dim")] if lacking else []
    return [*(Text.assemble(*line) for line in lines), *note]


def rendered(parts: Iterable[RenderableType], *, width: int | None = None, color: bool = False) -> str:
    """Tables and texts below one another, without blanks at the ends of lines. ``width``: None: as wide as needed."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or 10_000,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
