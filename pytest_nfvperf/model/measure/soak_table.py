"""The samples of a soak: one row an interval, one column a figure, in bounded memory.

Counts are differences within the interval. What a source did not report is absent (NaN), never 0; its next row covers
the time since its last.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

ABSENT = math.nan

TIME = "t"
"""The column of each row's end, s since the first frame was due."""

MOST_BYTES = 50_000_000
"""The rows of one soak on disk, however long: beyond it intervals are longer."""

_VALUE_BYTES = 10
"""A figure with its comma, on the safe side: most counts of a second have 7 digits or fewer."""


class SoakTable:
    """Columns of equal length; the first one is ``t``. 12 hours of 1 s in 100 columns take 35 MB."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = (TIME, *columns)
        self._values = {name: array("d") for name in self.columns}
        self._matching: dict[str, tuple[str, ...]] = {}
        if len(self._values) != len(self.columns):
            raise ValueError(f"columns must differ: {', '.join(self.columns)}")

    def __len__(self) -> int:
        return len(self._values[TIME])

    def add(self, row: Mapping[str, float]) -> None:
        """Append a row; columns that it lacks are absent in it, ``t`` must be there and rise."""
        if len(self) and row[TIME] <= self._values[TIME][-1]:
            raise ValueError(f"time does not rise: {row[TIME]} s after {self._values[TIME][-1]} s")
        for name, values in self._values.items():
            values.append(row.get(name, ABSENT))

    def head(self, rows: int) -> SoakTable:
        shorter = SoakTable(self.columns[1:])
        shorter._values = {name: values[:rows] for name, values in self._values.items()}
        return shorter

    def column(self, name: str) -> Sequence[float]:
        """All values of a column, NaN where absent; KeyError for one that is not there."""
        return self._values[name]

    def matching(self, suffix: str) -> tuple[str, ...]:
        """Columns whose names end so: ``.lost`` of every direction."""
        if suffix not in self._matching:
            self._matching[suffix] = tuple(name for name in self.columns if name.endswith(suffix))
        return self._matching[suffix]

    def total(self, suffix: str, rows: Iterable[int] | None = None) -> float:
        """Sum of all columns that end so, over some rows or all; absent values add nothing."""
        chosen = range(len(self)) if rows is None else list(rows)
        values = (self._values[name][row] for name in self.matching(suffix) for row in chosen)
        return math.fsum(value for value in values if not math.isnan(value))

    def span_s(self, row: int) -> float:
        """How long a row's interval was, s."""
        times = self._values[TIME]
        return times[row] - (times[row - 1] if row else 0.0)


def thinned(times: Sequence[float], values: Sequence[float], most: int) -> tuple[tuple[float, float], ...]:
    """At most so many points, each the median of equally many neighbours, at the middle of their times; without NaN."""
    if most < 1:
        raise ValueError(f"at least one point, not {most}")
    present = [(t, value) for t, value in zip(times, values, strict=True) if not math.isnan(value)]
    size = max(1, -(-len(present) // most))
    groups = (present[first : first + size] for first in range(0, len(present), size))
    return tuple((median(t for t, _ in group), median(value for _, value in group)) for group in groups)


def row_bytes(columns: int) -> int:
    """How long a row of so many columns is at most on disk, as far as can be known."""
    return (columns + 1) * _VALUE_BYTES + 2


def fitting_interval_s(duration_s: float, wanted_s: float, columns: int) -> float:
    """The wanted interval, or the shortest multiple of it whose rows stay below MOST_BYTES."""
    factor = max(1, math.ceil(duration_s / wanted_s * row_bytes(columns) / MOST_BYTES))
    return wanted_s * factor
