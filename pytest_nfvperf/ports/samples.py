"""Where the samples of a soak go, row by row, while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class SamplesSink(Protocol):
    """Takes the rows of one soak. A row that it cannot take does not end the soak: see ``failed``."""

    @property
    def name(self) -> str:
        """The file, relative to the directory of the evidence."""
        ...

    @property
    def written(self) -> int:
        """How many rows it took."""
        ...

    @property
    def failed(self) -> tuple[str, int] | None:
        """The first refusal, and how many rows were refused so far; None as long as there was none."""
        ...

    def add(self, row: Mapping[str, float]) -> None:
        """Take a row; columns that it lacks are absent in it."""
        ...

    def close(self) -> None:
        """No more rows come. Can be called twice."""
        ...


class OpenSamples(Protocol):
    """Opens the sink of one soak."""

    def __call__(self, name: str, columns: Sequence[str], rows: int, about: Mapping[str, object]) -> SamplesSink:
        """A sink that has room for all rows.

        Args:
            name: of the file, relative to the directory of the evidence.
            columns: of every row, without ``t``.
            rows: how many will come.
            about: put before the rows, plain JSON.

        Raises:
            TestbedError: there is no room.
        """
        ...
