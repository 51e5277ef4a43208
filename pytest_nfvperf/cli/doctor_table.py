"""What ``nfvperf doctor`` prints."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from pytest_nfvperf.adapters.doctor.check import Check, State

_MARKS = {State.OK: "[green]ok[/]", State.WARN: "[yellow]note[/]", State.MISSING: "[red]missing[/]"}


def doctor_text(checks: Sequence[Check], *, color: bool = False, width: int = 120) -> str:
    """A table of what was checked, what was seen and what to do about it."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False)
    for title in ("", "what", "seen", "what to do"):
        table.add_column(title, overflow="fold")
    for check in checks:
        table.add_row(_MARKS[check.state], check.name, check.seen, check.advice)
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=color, highlight=False).print(table)
    return out.getvalue().rstrip()


def is_usable(checks: Sequence[Check]) -> bool:
    """True when nothing is missing that the embedded testbed needs."""
    return all(check.state is not State.MISSING or not check.needed for check in checks)
