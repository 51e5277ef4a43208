"""What a terminal shows: tables and texts in rich's colours, and the live progress of a search.

The progress is one line, rewritten at trial boundaries only. No thread refreshes it: during a trial the measuring
process does nothing (How we measure, rule 12).
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from pytest_nfvperf.model.display import (
    TableColumn,
    TableRow,
    cut,
    fold_table,
    format_elapsed,
    format_ratio,
    format_seconds,
)
from pytest_nfvperf.ports.machine import Progress


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


class TerminalProgress(Progress):
    """Shows the running trial on the line below pytest's own, and puts the cursor back.

    ``column``: where pytest's cursor is, e.g. ``lambda: terminal_writer.width_of_current_line``. ``uncaptured``: a
    context in which writing reaches the terminal, e.g. the capture manager's ``global_and_fixture_disabled``. ``run``:
    how far the whole run is, such as "3/7, 2.5 min left of 4.0 min".
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        column: Callable[[], int] = lambda: 0,
        uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext,
        width: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
        run: Callable[[], str] = lambda: "",
    ) -> None:
        self._stream = stream
        self._column = column
        self._uncaptured = uncaptured
        self._width = width
        self._run = run
        self.begin("")

    def begin(self, subject: str) -> None:
        """``subject``: names the test in the line, such as "phy2phy 64 B"."""
        self._subject = subject
        self._trial = 0
        self._expected_s = 0.0
        self._last = ""
        self._shown = False

    def trial_started(self, purpose: str, load: str, duration_s: float, remaining_s: float | None) -> None:
        self._trial += 1
        sent = " for ".join(filter(None, (load, format_seconds(duration_s))))
        self._show(
            self._run(), self._subject, self._left(remaining_s), f"trial {self._trial}", purpose, sent, self._last
        )

    def _left(self, remaining_s: float | None) -> str:
        """``about 23 s left of 31 s``: of the test, as its search expects now."""
        if remaining_s is None:
            return ""
        remaining_s = max(1, round(remaining_s))
        self._expected_s = max(self._expected_s, remaining_s)
        return f"about {format_elapsed(remaining_s)} left of {format_elapsed(self._expected_s)}"

    def soaking(self, line: str) -> None:
        """Costs a write each interval."""
        self._show(self._run(), self._subject, line)

    def trial_finished(self, loss_ratio: float | None, valid: bool) -> None:
        """Keep the result for the next line: rewriting now would only flicker."""
        self._last = f"last: loss {format_ratio(loss_ratio)}" if valid else "last: invalid, repeated"

    def clear(self) -> None:
        if self._shown:
            self._show()
            self._shown = False

    def _show(self, *parts: str) -> None:
        """Write below the current line, then return: relative moves survive scrolling, saved positions do not."""
        # Only now is the width the terminal's. A terminal that was closed refuses, and nobody looks.
        with self._uncaptured(), suppress(OSError):
            width = max(20, self._width())
            column = self._column() % width
            back = f"\x1b[A\r\x1b[{column}C" if column else "\x1b[A\r"
            self._stream.write(f"\n\r\x1b[K{_joined(parts, width - 1)}{back}")
            self._stream.flush()
        self._shown = True


def progress_for(
    stream: TextIO,
    *,
    column: Callable[[], int] = lambda: 0,
    uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext,
    run: Callable[[], str] = lambda: "",
) -> Progress:
    with uncaptured():  # under pytest's capture the same stream is a file
        terminal = stream.isatty()
    return TerminalProgress(stream, column=column, uncaptured=uncaptured, run=run) if terminal else Progress()


def _joined(parts: Sequence[str], width: int) -> str:
    """As many parts as fit, the first ones; the first alone is cut if need be."""
    line = ""
    for part in filter(None, parts):
        longer = f"{line} · {part}" if line else cut(part, width)
        if len(longer) > width:
            break
        line = longer
    return line
