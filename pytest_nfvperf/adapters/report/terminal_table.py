"""Tables on a terminal, by rich: what matters less is left out of a narrow one, and no figure is cut."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text


def fitted(make: Callable[..., Table], optional: Sequence[str], width: int | None) -> tuple[Table, Sequence[str]]:
    """The first table that fits, or the smallest one, and the columns it lacks.

    Tried are the whole one, a compact one, then compact ones with fewer and fewer columns.

    Args:
        make: makes the table without the given columns; ``compact``: with no more blanks than necessary.
        optional: columns that can be left out, in this order.
        width: of the terminal in columns; None: anything fits.
    """
    table = make((), compact=False)
    if width is None or least_width(table) <= width:
        return table, ()
    for count in range(len(optional) + 1):
        table = make(optional[:count], compact=True)
        if least_width(table) <= width:
            break
    return table, optional[:count]


def least_width(table: Table) -> int:
    """Columns of a terminal that it needs without cutting a word, or a cell that must not wrap."""
    padding = table.padding[1] + table.padding[3]
    columns = len(table.columns)
    edges = columns + 1 if table.show_edge else columns - 1
    least = 0
    for column in table.columns:
        texts = [text.plain if isinstance(text, Text) else str(text) for text in (column.header, *column.cells)]
        parts = [part for text in texts for part in (text.split("\n") if column.no_wrap else text.split())]
        least += max(map(cell_len, parts), default=0)
    return least + edges + padding * (columns if table.pad_edge else columns - 1)


def no_room(left_out: Sequence[str]) -> list[str]:
    return [f"This terminal is too narrow for: {', '.join(left_out)}."] if left_out else []


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
