"""Signals while something long runs: Ctrl-C and SIGTERM ask it to end in good order, a terminal that closes does not.

Signal dispositions belong to the process (signal(7)); they are put back afterwards. In a thread other than the main
one Python sets no handlers: there nothing is asked, and signals do what they did.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_ASKING = (signal.SIGINT, signal.SIGTERM)
_HELD = (*_ASKING, signal.SIGALRM)


@contextmanager
def held() -> Iterator[None]:
    """Signals that may interrupt wait until its end: for what is short, and would be lost half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _HELD}
    try:
        yield
    finally:
        for held_one, handler in before.items():
            signal.signal(held_one, handler if handler is not None else signal.SIG_DFL)
        for number in came:
            signal.raise_signal(number)


class Interrupts:
    """A context within which signals are noted instead of ending the process.

    Args:
        terminal_log: where output goes once the terminal is gone.
        tell: told the name of each signal that asks to end, at once.

    Attributes:
        asked: name of the first signal that asked to end ("SIGTERM"), or "".
        hung_up: the terminal was closed.
        stop: called by the first signal, wherever the main thread is: ends what it waits for.

    A second Ctrl-C raises KeyboardInterrupt at once: somebody is in a hurry.
    """

    def __init__(self, terminal_log: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self.asked = ""
        self._tell = tell
        self.hung_up = False
        self.stop: Callable[[], None] = lambda: None
        self._terminal_log = terminal_log
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Take the signals."""
        if threading.current_thread() is threading.main_thread():
            for number in _ASKING:
                self._before[number] = signal.signal(number, self._ask)
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give them back. A terminal that is gone stays gone: its signal is ignored from now on."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if number is signal.SIGHUP and self.hung_up else handler)
        self._before.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is signal()'s
        first, self.asked = not self.asked, self.asked or signal.Signals(number).name
        self._tell(signal.Signals(number).name)
        if first:
            self.stop()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    def _hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is signal()'s
        self.hung_up = True
        leave_terminal(self._terminal_log)


def leave_terminal(log: Path) -> None:
    """Let every descriptor of a terminal write into a file from now on: a terminal that is gone answers with EIO.

    All of them, because a capturing pytest has duplicates.
    """
    target = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        for entry in list(Path("/proc/self/fd").iterdir()):
            with suppress(OSError):  # the directory's own descriptor is closed by now
                if _is_terminal(str(entry.readlink())):
                    os.dup2(target, int(entry.name), inheritable=int(entry.name) < 3)
    finally:
        os.close(target)


def _is_terminal(link: str) -> bool:
    """By name: a terminal that hung up no longer says that it is one."""
    return link.startswith(("/dev/pts/", "/dev/tty"))
