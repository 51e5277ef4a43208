"""Where records, samples and progress go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from pytest_nfvperf.model.evidence.records import Record


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

    def trial_started(self, purpose: str, load_fps: int, duration_s: float, remaining_s: float | None) -> None:
        """A trial begins. ``remaining_s`` is an estimate for the whole search, None if unknown."""

    def soaking(self, line: str) -> None:
        """A soak runs: its progress, rate, loss and sessions in one line."""

    def trial_finished(self, loss_ratio: float | None, valid: bool) -> None: ...
