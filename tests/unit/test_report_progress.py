"""The live line: what it says, where it leaves the cursor, and that it is silent elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.report.terminal import TerminalProgress, progress_for
from pytest_nfvperf.ports.machine import Progress


class Screen:
    """As much of a terminal as the line needs: newline, return, erase to the end, up, right."""

    def __init__(self, before: str) -> None:
        self.rows = [before]
        self.row, self.column = 0, len(before)

    def write(self, text: str) -> None:
        """Interpret ``text``."""
        while text:
            text = self._take(text)

    def _take(self, text: str) -> str:
        if text.startswith("\x1b["):
            end = next(i for i, char in enumerate(text[2:], 2) if char.isalpha())
            self._control(text[end], int(text[2:end] or 1))
            return text[end + 1 :]
        if text[0] == "\n":
            self.row += 1
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif text[0] == "\r":
            self.column = 0
        else:
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + text[0] + row[self.column + 1 :]
            self.column += 1
        return text[1:]

    def _control(self, letter: str, number: int) -> None:
        if letter == "K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif letter == "A":
            self.row -= number
        else:
            assert letter == "C"
            self.column += number


BEFORE = "suites/test_x.py ."


@pytest.fixture
def stream() -> io.StringIO:
    """What was written."""
    return io.StringIO()


@pytest.fixture
def progress(stream: io.StringIO) -> TerminalProgress:
    """A progress line below ``BEFORE`` on a terminal of 90 columns."""
    return TerminalProgress(stream, column=lambda: len(BEFORE), width=lambda: 90)


def shown(stream: io.StringIO) -> Screen:
    """The screen after all that was written."""
    screen = Screen(BEFORE)
    screen.write(stream.getvalue())
    return screen


def test_shows_the_running_trial_and_leaves_the_cursor_where_it_was(
    progress: TerminalProgress, stream: io.StringIO
) -> None:
    progress.begin("phy2phy 64 B")
    progress.trial_started("search", "4.02 Mpps", 1.0, 22.6)
    screen = shown(stream)
    assert screen.rows == [BEFORE, "phy2phy 64 B · about 23 s left of 23 s · trial 1 · search · 4.02 Mpps for 1.00 s"]
    assert (screen.row, screen.column) == (0, len(BEFORE))


def test_the_next_trial_tells_how_the_last_one_ended(progress: TerminalProgress, stream: io.StringIO) -> None:
    progress.trial_started("search", "4.02 Mpps", 1.0, None)
    progress.trial_finished(0.015, True)
    progress.trial_started("search", "2.00 Mpps", 1.0, None)
    assert shown(stream).rows[1] == "trial 2 · search · 2.00 Mpps for 1.00 s · last: loss 1.5 %"
    progress.trial_finished(0.5, False)
    progress.trial_started("search", "2.00 Mpps", 1.0, None)
    assert shown(stream).rows[1].endswith("last: invalid, repeated")


def test_nothing_is_written_while_a_trial_runs_or_when_it_ends(progress: TerminalProgress, stream: io.StringIO) -> None:
    progress.trial_started("search", "4.02 Mpps", 1.0, None)
    written = stream.getvalue()
    progress.trial_finished(0.0, True)
    assert stream.getvalue() == written


def test_clear_takes_the_line_away(progress: TerminalProgress, stream: io.StringIO) -> None:
    progress.trial_started("search", "4.02 Mpps", 1.0, 10.0)
    progress.clear()
    progress.clear()
    screen = shown(stream)
    assert screen.rows == [BEFORE, ""]
    assert (screen.row, screen.column) == (0, len(BEFORE))


def test_a_long_line_is_cut_so_that_it_does_not_wrap(stream: io.StringIO) -> None:
    progress = TerminalProgress(stream, width=lambda: 40)
    progress.begin("a topology with a long name " * 3)
    progress.trial_started("search", "4.02 Mpps", 1.0, 10.0)
    screen = Screen("")
    screen.write(stream.getvalue())
    assert screen.rows[1] == "a topology with a long name a…"
    assert (screen.row, screen.column) == (0, 0)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "3/7, 2.5 min left of 4 min · phy2phy 64 B · about 8.0 s left of 20 s · trial 2"),
        (100, "3/7, 2.5 min left of 4 min · phy2phy 64 B · about 8.0 s left of 20 s · trial 2 · search"),
        (60, "3/7, 2.5 min left of 4 min · phy2phy 64 B"),
    ],
)
def test_a_narrow_line_keeps_how_long_it_takes_and_no_half_words(width: int, line: str) -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream, width=lambda: width, run=lambda: "3/7, 2.5 min left of 4 min")
    progress.begin("phy2phy 64 B")
    progress.trial_started("search", "4.02 Mpps", 1.0, 20.0)
    progress.trial_started("search", "4.02 Mpps", 1.0, 8.2)
    screen = Screen("")
    screen.write(stream.getvalue())
    assert screen.rows[1] == line


def test_writes_outside_of_captured_output(stream: io.StringIO) -> None:
    inside = []

    @contextmanager
    def uncaptured() -> Iterator[None]:
        assert stream.getvalue() == ""
        yield
        inside.append(stream.getvalue())

    TerminalProgress(stream, uncaptured=uncaptured).trial_started("search", "1.00 pps", 1.0, None)
    assert len(inside) == 1
    assert "search" in inside[0]


def test_silent_unless_on_a_terminal(stream: io.StringIO) -> None:
    silent = progress_for(stream)
    assert type(silent) is Progress
    silent.begin("x")
    silent.trial_started("search", "1.00 pps", 1.0, None)
    silent.trial_finished(None, False)
    silent.clear()
    assert stream.getvalue() == ""


PYTEST_FILE = """
import pytest
from pytest_nfvperf.adapters.report.terminal import TerminalProgress, progress_for

@pytest.fixture
def progress(request):
    writer = request.config.pluginmanager.get_plugin("terminalreporter")._tw
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    made = progress_for(
        writer._file, column=lambda: writer.width_of_current_line, uncaptured=capture.global_and_fixture_disabled
    )
    assert isinstance(made, TerminalProgress)
    yield made
    made.clear()

@pytest.mark.parametrize("number", range(3))
def test_it(progress, number, capfd):
    print("captured")
    progress.begin(f"subject {number}")
    for load in ("1.00 Mpps", "2.00 Mpps"):
        progress.trial_started("search", load, 1.0, 3.0)
        progress.trial_finished(0.0, True)
    assert capfd.readouterr().out == "captured\\n"
"""


def test_lives_with_pytest_on_a_real_terminal(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST_FILE)
    arguments = ["-p", "no:cacheprovider", "-p", "no:nfvperf", "--color=no", "--no-header", "-vv", "test_it.py"]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 140))
    command = [sys.executable, "-m", "pytest", *arguments]
    # Without a size: readline, which pytest loads, puts COLUMNS and LINES into the environment behind Python's back, so
    # that workers of xdist find them in theirs, and a size given so goes before the terminal's own.
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as child:
        os.close(theirs)
        written = b""
        with suppress(OSError):  # how a terminal's other end says that all have closed it
            while chunk := os.read(ours, 65536):
                written += chunk
    os.close(ours)
    text = written.decode()
    assert child.returncode == 0, text
    assert "subject 2 · about 3.0 s left of 3.0 s · trial 2 · search · 2.00 Mpps for 1.00 s · last: loss 0 %" in text
    screen = Screen("")
    screen.write(text)
    assert not [row for row in screen.rows if "Mpps" in row]
    assert len([row for row in screen.rows if re.search(r"^test_it\.py::test_it\[\d\] PASSED", row)]) == 3
