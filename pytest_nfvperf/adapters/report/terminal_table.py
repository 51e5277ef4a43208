"""Tables on a terminal, by rich: what matters less is left out of a narrow one, and no figure is cut."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text


def fitted(make: Callable[..., Table], optional: Sequence[str], width: int | None) -> tuple[Table, Sequence[str]]:
    """The first that fits: all of it, then compact, then without more and more columns.

    Args:
        make: makes it without the columns that it is given; ``compact``: with no more blanks than it needs.
        optional: columns that can be left out, in this order.
        width: of the terminal in columns; None: anything fits.

    Returns:
        The table, the last one where none fits, and what it leaves out.
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
    return sum(map(_least, table.columns)) + edges + padding * (columns if table.pad_edge else columns - 1)


def _least(column: Column) -> int:
    texts = [text.plain if isinstance(text, Text) else str(text) for text in (column.header, *column.cells)]
    parts = [part for text in texts for part in (text.split("\n") if column.no_wrap else text.split())]
    return max(map(cell_len, parts), default=0)


def no_room(left_out: Sequence[str]) -> list[str]:
    return [f"This terminal is too narrow for: {', '.join(left_out)}."] if left_out else []


def rendered(parts: Iterable[RenderableType], *, width: int | None = None, color: bool = False) -> str:
    """Tables and texts, one below the other, without blanks at the ends of lines.

    Args:
        parts: what is drawn.
        width: columns; None: as many as it needs.
        color: with ANSI colours.
    """
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
