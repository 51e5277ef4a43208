"""Ctrl-C, SIGTERM and SIGHUP while a run measures: say so at once, end soon, write the report, leave nothing behind.

The first signal kills what the run has started on the machine, and interrupts the main thread. The usual end follows,
but no step of it may take long. A running soak is asked to end instead, because its verdict counts. A second Ctrl-C
ends the process at once; the next run removes what is left.

Signal handlers belong to the process (signal(7)): a run takes them when it is about to measure, and restores them.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.plugin.output import is_left_to_host, protect_end, terminal_of
from pytest_nfvperf.ports.machine import RunEnd

if TYPE_CHECKING:
    from pytest_nfvperf.session.run import NfvSession

SOAK_END_S = 5.0
"""Time for a soak's verdict once it was asked to end. On an idle machine it takes a fraction of a second."""
CLOSE_S = 0.5
"""A close that takes longer is interrupted: its processes are dead by then, and the journal has the rest."""
GIVE_UP_S = 3.0
"""A test that goes on this long, although interrupted again and again, ends with the process, without a report."""
_FIRST_REMINDER_S, _REMINDER_S = 0.5, 0.2
_HYPOTHESIS = "hypothesispytest"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
STOPPING_KEY = pytest.StashKey["Stopping"]()


def watch(config: pytest.Config, nfv: NfvSession) -> None:
    """From now on signals end the run as this module says."""
    nfv.stopping = stopping = Stopping(config, nfv.abandon)
    _install(config, stopping)


def watch_workers(config: pytest.Config, workers: Callable[[], Sequence[int]]) -> None:
    """The same in a controller of workers. ``workers``: process ids of those on this machine. Can be called again."""
    if STOPPING_KEY not in config.stash:
        _install(config, Stopping(config, lambda: None, workers))


def _install(config: pytest.Config, stopping: Stopping) -> None:
    protect_end(config)
    config.stash[STOPPING_KEY] = stopping
    config.pluginmanager.register(stopping, "nfvperf-stopping")
    stopping.install()
    # Import now what the end needs: it takes a second or two, which the end of a stopped run does not have. Not in a
    # guest: its host stops it, and there the imports would take half a minute.
    if not (hasattr(config, "workerinput") or is_left_to_host()):
        from pytest_nfvperf.plugin import run_result  # noqa: F401, PLC0415

        if config.pluginmanager.hasplugin(_HYPOTHESIS):
            importlib.import_module("hypothesis.internal.observability")  # its plugin does so in every run's summary
        if config.getoption("--nfv-report") == "html":
            from pytest_nfvperf.session import run_report  # noqa: F401, PLC0415
    # What is imported stays until the end. Collecting garbage among it took 0.5 s of CPU of a run with one short test.
    gc.freeze()


def unwatch(config: pytest.Config) -> None:
    """Restore the signal handlers."""
    if STOPPING_KEY in config.stash:
        config.stash[STOPPING_KEY].uninstall()
        if config.stash[STOPPING_KEY].signal_name:
            gc.freeze()  # pytest and the interpreter collect several times at their end, which takes half a second


def ending(config: pytest.Config) -> Stopping:
    """How this run ends. A run that handles no signals gets one that was never asked to stop."""
    return config.stash.get(STOPPING_KEY, None) or Stopping(config, lambda: None)


class RunStopped(KeyboardInterrupt):
    """Raised in the main thread, wherever it is: the run shall end."""


class Stopping(RunEnd):
    """How one pytest process ends after a signal; a plugin of pytest. All times are since the first signal.

    Args:
        config: of the run.
        abandon: ends at once what the run has started; called from a signal handler.
        others: process ids of xdist's workers on this machine, which shall stop, too.

    Attributes:
        signal_name: of the first signal; "" before one.
        problems: what went wrong while the run was being ended, a line each.
    """

    def __init__(
        self, config: pytest.Config, abandon: Callable[[], None], others: Callable[[], Sequence[int]] = tuple
    ) -> None:
        self.signal_name = ""
        self.problems: list[str] = []
        self._config = config
        self._abandon = abandon
        self._others = others
        self._since = 0.0
        self._finishing_since = 0.0
        self._soaking = False
        self._finishing: pytest.Session | None = None
        self._unwound = False
        self._may_break_off = False
        self._terminal: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Take the signals, unless they are taken. Only the main thread can. An ignored SIGHUP stays so: nohup(1)."""
        if self._before:
            return
        with suppress(ValueError):  # in another thread: signals do what they did
            for number in _SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    handler = self._on_alarm if number == signal.SIGALRM else self._on_signal
                    self._before[number] = signal.signal(number, handler)
        self._terminal = _terminal(self._config)

    def uninstall(self) -> None:
        """Restore the handlers. After a signal Ctrl-C still ends the run at once; another SIGHUP changes nothing."""
        for number, handler in self._before.items():
            if number == signal.SIGALRM:
                signal.setitimer(signal.ITIMER_REAL, 0)
            ignored = signal.getsignal(number) is signal.SIG_IGN  # by a soak whose terminal is gone
            if not (ignored or (self.signal_name and number in {signal.SIGINT, signal.SIGHUP})):
                signal.signal(number, handler)
        self._before.clear()

    def ask_soak(self, name: str) -> None:
        """Note that a running soak, which has its own handlers, was asked to end."""
        if self.signal_name:
            self._on_second_signal(signal.Signals[name])
            return
        self._soaking = True
        self._begin(name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that the interruption has reached pytest, so that it need not be repeated."""
        self._unwound = True
        if self.signal_name and not self._config.option.fulltrace:
            excinfo.traceback = excinfo.traceback[-1:]  # pytest shows no more of it, and formatting all takes 0.3 s

    @contextmanager
    def finishing(self, session: pytest.Session) -> Iterator[None]:
        """Around the end of a session: a signal interrupts nothing more, and errors are noted."""
        self._finishing = session
        self._finishing_since = time.monotonic()
        if self.signal_name:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            self._remind()
            self._abandon()
        try:
            with self.long_close():
                yield
        except (RunStopped, Exception) as error:
            if not self.signal_name:
                raise
            self._note(error)

    @contextmanager
    def long_close(self) -> Iterator[None]:
        """Around a close that may take long. In a run that was asked to stop it is broken off after ``CLOSE_S``."""
        was, self._may_break_off = self._may_break_off, True
        try:
            yield
        except (RunStopped, Exception) as error:
            if not self.signal_name:
                raise
            self._note(error)
        finally:
            self._may_break_off = was

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Around what must run to its end, because nobody else would do it."""
        was, self._may_break_off = self._may_break_off, False
        try:
            yield
        finally:
            self._may_break_off = was

    def _note(self, error: BaseException) -> None:
        """Report leftovers and unexpected errors. Our own processes ending is expected."""
        if isinstance(error, NfvperfError):
            self.problems += [str(error)] if "nfvperf clean" in str(error) else []
        elif not isinstance(error, RunStopped):
            self.problems.append(f"while the run was being stopped: {type(error).__name__}: {error}")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal.signal calls it
        if self.signal_name:
            self._on_second_signal(signal.Signals(number))
            return
        self._begin(signal.Signals(number).name)
        self._abandon()
        if self._finishing is None:
            raise RunStopped(f"stopped by {self.signal_name}")

    def _begin(self, name: str) -> None:
        self.signal_name = name
        self._since = time.monotonic()
        who = "Ctrl-C" if name == "SIGINT" else name
        doing = "the soak's verdict and the report are" if self._soaking else "the report is"
        self._say(f"stopping: {who}; what was started is taken down, {doing} being written (Ctrl-C: end at once)")
        if self._finishing is not None:
            self._finishing.exitstatus = pytest.ExitCode.INTERRUPTED
        for pid in self._others():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self._remind()

    def _remind(self) -> None:
        """Have SIGALRM repeat the interruption. pytest-timeout takes that signal for each test, and resets it."""
        if signal.SIGALRM in self._before:
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, _FIRST_REMINDER_S, _REMINDER_S)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal.signal calls it
        """Interrupt again whoever caught the interruption, or waits for something."""
        if self._finishing is None and not self._unwound:
            elapsed_s = time.monotonic() - self._since if self.signal_name else 0.0
            over_s = elapsed_s - (SOAK_END_S if self._soaking else 0.0)
            if over_s < 0:
                return
            if over_s > GIVE_UP_S:
                self._end_at_once("the running test does not end")
            self._abandon()
            raise RunStopped(f"stopped by {self.signal_name}")
        if self._may_break_off and time.monotonic() - max(self._since, self._finishing_since) > CLOSE_S:
            self._abandon()
            raise RunStopped(f"stopped by {self.signal_name}")

    def _on_second_signal(self, number: signal.Signals) -> None:
        """End at once after a second Ctrl-C. SIGTERM may come twice: from make, and to make's process group."""
        if number != signal.SIGINT:
            return
        for pid in self._others():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._end_at_once("Ctrl-C again")

    def _end_at_once(self, why: str) -> NoReturn:
        self._say(f"stopped at once: {why}; the next run, or `nfvperf clean`, removes what is left")
        os._exit(pytest.ExitCode.INTERRUPTED)  # what we started dies with us (PR_SET_PDEATHSIG)

    def _say(self, line: str) -> None:
        """Write past every buffer and capture: a signal may come in the middle of either."""
        if self._terminal is not None:
            with suppress(OSError):
                os.write(self._terminal, f"\n{line}\n".encode())


def _terminal(config: pytest.Config) -> int | None:
    """A file descriptor of our own for pytest's terminal; None in a worker."""
    terminal = terminal_of(config)
    if terminal is None or hasattr(config, "workerinput"):
        return None
    try:
        return os.dup(terminal.file.fileno())
    except (OSError, ValueError):  # not a file: pytest in pytest
        return os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else None
