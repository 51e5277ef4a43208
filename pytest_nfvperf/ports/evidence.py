"""Where records, samples and progress go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pytest_nfvperf.model.evidence.records import Record


class Sink(Protocol):
    """Takes records in order."""

    def emit(self, record: Record) -> None:
        """Take one record; it is on disk, or wherever it goes, when this returns."""

    def close(self) -> None:
        """Finish. Can be called twice."""


class SamplesSink(Protocol):
    """Takes the rows of one soak. A row that it cannot take does not end the soak: see ``failed``."""

    @property
    def name(self) -> str:
        """The file, relative to the directory of the evidence."""

    @property
    def written(self) -> int:
        """How many rows it took."""

    @property
    def failed(self) -> tuple[str, int] | None:
        """The first refusal, and how many rows were refused so far; None as long as there was none."""

    def add(self, row: Mapping[str, float]) -> None:
        """Take a row; columns that it lacks are absent in it."""

    def close(self) -> None:
        """No more rows come. Can be called twice."""


OpenSamples = Callable[[str, Sequence[str], int, Mapping[str, object]], SamplesSink]
"""Opens the sink of one soak, which has room for all rows; TestbedError where there is no room.

The name of the file, relative to the directory of the evidence; the columns of every row, without ``t``; how many rows
will come; and what is put before them, plain JSON."""


class Progress(Protocol):
    """Follows each trial; shows it on a terminal, or does nothing."""

    def begin(self, subject: str) -> None:
        """A test begins; ``subject`` names it."""

    def clear(self) -> None:
        """The test ended: remove what is shown."""

    def trial_started(self, purpose: str, load_fps: int, duration_s: float, remaining_s: float | None) -> None:
        """A trial begins. ``remaining_s`` is an estimate for the whole search, None if unknown."""

    def soaking(self, line: str) -> None:
        """A soak runs: its progress, rate, loss and sessions in one line."""

    def trial_finished(self, loss_ratio: float | None, valid: bool) -> None: ...
