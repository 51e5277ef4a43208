"""What the plugin writes to pytest's terminal, from whichever process it comes and whoever shows it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any, TextIO, cast

import pytest

from pytest_nfvperf.model.text import encodable, visible
from pytest_nfvperf.plugin.link import link_of

_WIDTH = 80


class Terminal:
    """pytest's terminal reporter, or what another plugin has put in its place, which may lack parts of it.

    Texts are shown as they are: control characters and what the encoding lacks are escaped.

    Args:
        reporter: the plugin "terminalreporter" (pytest-tldr's has no ``isatty``).
    """

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    @property
    def writer(self) -> Any:
        """The terminal writer of pytest; None where the reporter has none."""
        return getattr(self._reporter, "_tw", None)

    @property
    def file(self) -> TextIO:
        """Where it writes to."""
        own = getattr(self.writer, "_file", None) or getattr(self._reporter, "file", None)
        return cast("TextIO", own or sys.stdout)

    @property
    def verbosity(self) -> int:
        """As ``-v`` and ``-q`` count."""
        return int(getattr(self._reporter, "verbosity", 0))

    @property
    def hasmarkup(self) -> bool:
        """True where colours are shown."""
        return bool(getattr(self._reporter, "hasmarkup", False))

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe."""
        isatty = getattr(self._reporter, "isatty", None)
        terminal = isatty() if callable(isatty) else False
        return getattr(self.writer, "fullwidth", _WIDTH) if terminal else None

    @property
    def column(self) -> int:
        """Where the cursor is."""
        return int(getattr(self.writer, "width_of_current_line", 0))

    def section(self, title: str, sep: str = "=") -> None:
        """A line across, with a title."""
        if hasattr(self._reporter, "section"):
            self._reporter.section(self._shown(title), sep=sep)
        else:
            self.write_line(f" {title} ".center(_WIDTH, sep))

    def write_line(self, text: str, **markup: bool) -> None:
        """Whole lines; the text may have colours of our own in it."""
        self.begin_line()
        for line in text.split("\n"):
            self.write(line, **markup)
            self.write("\n")

    def write(self, text: str, **markup: bool) -> None:
        """A piece of a line."""
        if hasattr(self._reporter, "write"):
            self._reporter.write(self._shown(text), **markup)
        else:
            self.file.write(self._shown(text))

    def begin_line(self) -> None:
        """End pytest's line of dots if one is open; under xdist it has no path before it."""
        if hasattr(self._reporter, "currentfspath"):  # others begin a line anyway
            self._reporter.ensure_newline()
        if self.column:
            self.write("\n")

    def flush(self) -> None:
        """Hand over what was written."""
        (self._reporter if hasattr(self._reporter, "flush") else self.file).flush()

    def outlive_output(self) -> None:
        """From now on no line of pytest ends the run, should nobody read it any more or its disk be full."""
        from pytest_nfvperf.adapters.process.outputs import SteadyOutput  # noqa: PLC0415 - only in runs that measure

        if self.file is getattr(self.writer, "_file", None) and not hasattr(self.file, "failed"):
            self.writer._file = SteadyOutput(self.file)

    def lost(self) -> str:
        """Why the output takes no more; "" as long as it does."""
        self.flush()
        failed = getattr(self.file, "failed", None)
        return "" if failed is None else str(getattr(failed, "strerror", None) or failed)

    def _shown(self, text: str) -> str:
        return encodable(visible(text, colors=self.hasmarkup), getattr(self.file, "encoding", None) or "utf-8")


def terminal_of(config: pytest.Config) -> Terminal | None:
    """The terminal of this process; None in one that has none."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return None if reporter is None else Terminal(reporter)


def say(config: pytest.Config, line: str) -> None:
    """Write a line for the user while a run goes on; a worker of pytest-xdist has its controller write it."""
    link = link_of(config)
    if link is not None:
        link.say(line)
        return
    terminal = terminal_of(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None:
        return
    # The controller of workers captures nothing: it runs no test.
    controls = config.pluginmanager.hasplugin("dsession")
    with nullcontext() if controls or capture is None else capture.global_and_fixture_disabled():
        terminal.begin_line()
        terminal.write_line(f"nfvperf: {line}", yellow=True)
        terminal.flush()
