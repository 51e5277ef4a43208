"""What rich draws, as text."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType

_AS_NEEDED = 10_000


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
        width=width or _AS_NEEDED,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
