"""Ctrl-C and SIGTERM while a run measures: a line at once, the end soon, the report written, nothing left.

The first signal kills what the run has started on the machine, and interrupts the main thread. The usual end follows,
but no step of it may take long. A running soak is asked to end instead, because its verdict counts. A second Ctrl-C
ends the process at once; the next run removes what is left.

Signal dispositions belong to the process (signal(7)): they are taken when a run is about to measure, and given back
after it.
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
from pytest_nfvperf.plugin.output import protect_end, terminal_of
from pytest_nfvperf.plugin.report_later import is_left_to_host

SOAK_END_S = 5.0
"""Time that a soak has for its verdict once it was asked to end. On an idle machine it takes a fraction of a second."""
CLOSE_S = 0.5
"""A close that takes longer is interrupted: its processes are dead by then, and the journal has the rest."""
CHARTS_S = 1.2
"""Once so much time has passed since the signal, the report is written without the charts that are still missing."""
GIVE_UP_S = 3.0
"""A test that goes on although it was interrupted again and again is ended with the process, without a report."""
_FIRST_REMINDER_S, _REMINDER_S = 0.5, 0.2
_HYPOTHESIS = "hypothesispytest"
_TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


if TYPE_CHECKING:
    from pytest_nfvperf.session.run import NfvSession

STOPPING_KEY = pytest.StashKey["Stopping"]()


def watch(config: pytest.Config, nfv: NfvSession) -> None:
    """From now on signals end the run as this module says."""
    nfv.stopping = _installed(config, Stopping(config, nfv.abandon))
    _import_now(config)


def watch_workers(config: pytest.Config, workers: Callable[[], Sequence[int]]) -> None:
    """The same for the controller of workers; ``workers``: pids of those on this machine. Can be called again."""
    if STOPPING_KEY not in config.stash:
        _installed(config, Stopping(config, lambda: None, workers))
        _import_now(config)


def _import_now(config: pytest.Config) -> None:
    """What the end needs: it takes a second or two, which the end of a stopped run has not.

    A guest is stopped by its host, and in it this would take half a minute.
    """
    if hasattr(config, "workerinput") or is_left_to_host():
        return
    from pytest_nfvperf.plugin import run_result  # noqa: F401, PLC0415

    if config.pluginmanager.hasplugin(_HYPOTHESIS):
        importlib.import_module("hypothesis.internal.observability")  # its plugin does, in every run's summary
    if config.getoption("--nfv-report") == "html":
        from pytest_nfvperf.session import run_report  # noqa: F401, PLC0415


def _installed(config: pytest.Config, stopping: Stopping) -> Stopping:
    protect_end(config)
    config.stash[STOPPING_KEY] = stopping
    config.pluginmanager.register(stopping, "nfvperf-stopping")
    stopping.install()
    return stopping


def unwatch(config: pytest.Config) -> None:
    """Give the signals back."""
    if STOPPING_KEY in config.stash:
        config.stash[STOPPING_KEY].uninstall()
        if config.stash[STOPPING_KEY].asked:
            gc.freeze()  # pytest and the interpreter collect several times at their end, which takes half a second


def ending(config: pytest.Config) -> Stopping:
    """How this run ends; of a run that takes no signals, one that was asked nothing."""
    return config.stash.get(STOPPING_KEY, None) or Stopping(config, lambda: None)


class RunStopped(KeyboardInterrupt):
    """Raised in the main thread, wherever it is: the run shall end."""


class Stopping:
    """Of one pytest process, and a plugin of it. All times are since the first signal.

    Args:
        config: of the run.
        abandon: ends at once what the run has started; called from a signal handler.
        others: pids of the processes that do the run's work and shall stop, too (xdist's workers on this machine).

    Attributes:
        asked: name of the first signal, or "".
        problems: what went wrong while the run was being ended, a line each.
    """

    def __init__(
        self, config: pytest.Config, abandon: Callable[[], None], others: Callable[[], Sequence[int]] = tuple
    ) -> None:
        self.asked = ""
        self.problems: list[str] = []
        self._config = config
        self._abandon = abandon
        self._others = others
        self._since = 0.0
        self._finishing_since = 0.0
        self._soaking = False
        self._finishing: pytest.Session | None = None
        self._unwound = False
        self._patient = False
        self._terminal: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Take the signals, unless they were taken; only the main thread can."""
        if self._before:
            return
        with suppress(ValueError):  # in another thread: signals do what they did
            for number, handler in zip(_TAKEN, (self._on_signal, self._on_signal, self._on_alarm), strict=True):
                self._before[number] = signal.signal(number, handler)
        self._terminal = _terminal(self._config)

    def uninstall(self) -> None:
        """Give the signals back. A run that was asked to stop is about to end: Ctrl-C goes on ending it at once."""
        for number, handler in self._before.items():
            if number == signal.SIGALRM:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if not (self.asked and number == signal.SIGINT):
                signal.signal(number, handler)
        self._before.clear()

    def ask_soak(self, name: str) -> None:
        """A running soak was asked to end: it has its own handlers, and tells us."""
        if self.asked:
            self._once_more(signal.Signals[name])
            return
        self._soaking = True
        self._begin(name)

    def time_for_charts(self) -> bool:
        """False once the report has to do without more of them."""
        return self._elapsed_s() < CHARTS_S

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._since if self.asked else 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The interruption has arrived where pytest takes it: it need not be repeated."""
        self._unwound = True
        if self.asked and not self._config.option.fulltrace:
            excinfo.traceback = excinfo.traceback[-1:]  # pytest shows no more of it, and formatting all takes 0.3 s

    @contextmanager
    def finishing(self, session: pytest.Session) -> Iterator[None]:
        """Around the end of a session: a signal that comes only now interrupts nothing, and errors are noted."""
        self._finishing = session
        self._finishing_since = time.monotonic()
        if self.asked:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            self._remind()
            self._abandon()
        try:
            with self.patience():
                yield
        except (RunStopped, Exception) as error:
            if not self.asked:
                raise
            self._note(error)

    @contextmanager
    def patience(self) -> Iterator[None]:
        """Around what may take long to close: in a run that was asked to stop it is broken off after ``CLOSE_S``."""
        was, self._patient = self._patient, True
        try:
            yield
        except (RunStopped, Exception) as error:
            if not self.asked:
                raise
            self._note(error)
        finally:
            self._patient = was

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Around what must come to its end, because nobody else would do it."""
        was, self._patient = self._patient, False
        try:
            yield
        finally:
            self._patient = was

    def _note(self, error: BaseException) -> None:
        """That our own processes are gone is no news; what is left on the machine is, and what nobody foresaw."""
        if isinstance(error, NfvperfError):
            self.problems += [str(error)] if "nfvperf clean" in str(error) else []
        elif not isinstance(error, RunStopped):
            self.problems.append(f"while the run was being stopped: {type(error).__name__}: {error}")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal.signal calls it
        if self.asked:
            self._once_more(signal.Signals(number))
            return
        self._begin(signal.Signals(number).name)
        self._abandon()
        if self._finishing is None:
            raise RunStopped(f"stopped by {self.asked}")

    def _begin(self, name: str) -> None:
        self.asked = name
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
        """Have SIGALRM repeat the interruption: pytest-timeout takes it for each test, and leaves the default."""
        if signal.SIGALRM in self._before:
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, _FIRST_REMINDER_S, _REMINDER_S)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal.signal calls it
        """Whoever caught the interruption, or waits for something, is interrupted again."""
        if self._finishing is None and not self._unwound:
            over_s = self._elapsed_s() - (SOAK_END_S if self._soaking else 0.0)
            if over_s < 0:
                return
            if over_s > GIVE_UP_S:
                self._end_at_once("the running test does not end")
            self._abandon()
            raise RunStopped(f"stopped by {self.asked}")
        if self._patient and time.monotonic() - max(self._since, self._finishing_since) > CLOSE_S:
            self._abandon()
            raise RunStopped(f"stopped by {self.asked}")

    def _once_more(self, number: signal.Signals) -> None:
        """Ctrl-C again: end at once. SIGTERM may come twice, from make and from who sent it to make's group."""
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
        """Past every buffer and capture: a signal may come in the middle of either."""
        if self._terminal is not None:
            with suppress(OSError):
                os.write(self._terminal, f"\n{line}\n".encode())


def _terminal(config: pytest.Config) -> int | None:
    """A descriptor of pytest's terminal of our own; None in a worker, which has none."""
    terminal = terminal_of(config)
    if terminal is None or hasattr(config, "workerinput"):
        return None
    try:
        return os.dup(terminal.file.fileno())
    except (OSError, ValueError):  # not a file: pytest in pytest
        return os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else None
