"""What a benchmark found, beside what it should reach."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``reached`` is None where there is no target."""

    what: str
    observed: str
    target: str = ""
    reached: bool | None = None
    detail: str = ""


def last_line(told: str) -> str:
    """Of what a command printed."""
    return (told.strip().splitlines() or ["it printed nothing"])[-1]


def show(figures: list[Figure], path: Path) -> None:
    """Print the table and write the figures as JSON."""
    table = Table(title="benchmarks: one run, on this machine, as it is now")
    for title in ("what", "observed", "target", "", "detail"):
        table.add_column(title, overflow="fold")
    marks = {True: "[green]reached[/]", False: "[red]not reached[/]", None: ""}
    for figure in figures:
        table.add_row(figure.what, figure.observed, figure.target, marks[figure.reached], figure.detail)
    Console(width=140).print(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    print(f"figures: {path}")
