"""The machine and the process that measures: time, CPU time, what earlier runs found out, signals, what is recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the plugin imports this module in every pytest run
    from pytest_nfvperf.model.evidence.records import Record
    from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole
    from pytest_nfvperf.model.measure.cpu_profile import CpuProfile


class Clock(Protocol):
    """A monotonic clock and a way to wait."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def time_ns(self) -> int:
        """Wall clock, ns since the epoch."""

    def sleep(self, seconds: float) -> None: ...


class CpuAccounting(ABC):
    """Accounts for the CPU time of one period at a time."""

    @abstractmethod
    def begin(self, known: Mapping[int, CpuRole]) -> None:
        """Look at all threads now. ``known``: roles of processes by their ids; OVS's is VSWITCHD."""

    @abstractmethod
    def end(self, ended: Iterable[CpuPart]) -> CpuAccount:
        """Look again, and say who used what since ``begin``.

        ``ended``: processes that ran in between and are gone, such as the streams' ends.
        """


Profiler = Callable[[Callable[[], object]], "CpuProfile"]
"""Samples call stacks on the testbed's CPUs while the given work goes on. It slows what runs there: nothing is measured
meanwhile. Raises UnavailableError, with the reason, where profiling is not possible or not permitted, and whatever the
work raises."""


class StoredValue:
    """A cached value of plain JSON. It may be gone at any time, and nothing depends on it. By itself it stores none."""

    def read(self) -> object:
        """The stored value; None if there is none, or it cannot be read."""
        return None

    def write(self, value: object) -> None:
        """Replace the value. A failure to store it is ignored."""


class Signals:
    """The signals of the process while a soak handles them.

    Attributes:
        stop: called at the first signal that asks to end. It must end whatever the main thread waits for.
        asked: name of the first signal that asked to end ("SIGTERM"), or "".
    """

    def __init__(self) -> None:
        self.stop: Callable[[], None] = lambda: None
        self.asked = ""


TakeSignals = Callable[[], AbstractContextManager[Signals]]
"""Handles the signals of the process until the end of the context."""


class RunEnd:
    """The end of this process. It is notified of signals that others took, and says what may still take time.

    By itself for runs that measure nothing: everything may take its time.
    """

    def ask_soak(self, name: str) -> None:
        """A running soak took the signal of this name, and ends; the run shall end after it."""

    def long_close(self) -> AbstractContextManager[None]:
        """Around what may take long to close: in a run that was asked to stop it is broken off after a moment."""
        return nullcontext()

    def undisturbed(self) -> AbstractContextManager[None]:
        """Around what must come to its end, because nobody else would do it."""
        return nullcontext()


# Where records, samples and progress go.


class Sink(ABC):
    """Takes records in order."""

    @abstractmethod
    def emit(self, record: Record) -> None:
        """Take one record; it is on disk, or wherever it goes, when this returns."""

    def close(self) -> None:
        """Finish. Can be called twice."""


class SamplesSink:
    """Takes the rows of one soak. A row that it cannot take does not end the soak: see ``failed``. By itself: nowhere.

    Attributes:
        name: the file, relative to the directory of the evidence; "" for none.
        written: how many rows it took.
        failed: the first refusal, and how many rows were refused so far; None as long as there was none.
    """

    name: str = ""
    written: int = 0
    failed: tuple[str, int] | None = None

    def add(self, row: Mapping[str, float]) -> None:
        """Take a row; columns that it lacks are absent in it."""

    def close(self) -> None:
        """No more rows come. Can be called twice."""


OpenSamples = Callable[[str, Sequence[str], int, Mapping[str, object]], SamplesSink]
"""Opens the sink of one soak, which has room for all rows; TestbedError where there is no room.

The name of the file, relative to the directory of the evidence; the columns of every row, without ``t``; how many rows
will come; and what is put before them, plain JSON."""


class Progress:
    """Follows each trial; shows it on a terminal. By itself it shows nothing."""

    def begin(self, subject: str) -> None:
        """A test begins; ``subject`` names it."""

    def clear(self) -> None:
        """The test ended: remove what is shown."""

    def trial_started(self, purpose: str, load: str, duration_s: float, remaining_s: float | None) -> None:
        """A trial begins. ``load``: as text. ``remaining_s``: an estimate for the whole search, None if unknown."""

    def soaking(self, line: str) -> None:
        """A soak runs: its progress, rate, loss and sessions in one line."""

    def trial_finished(self, loss_ratio: float | None, valid: bool) -> None: ...
