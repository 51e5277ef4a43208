"""The figures of many runs as series: one a subject, metric, load and machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.evidence.comparable import differences, unlike
from pytest_nfvperf.model.history.entry import Figure, HistoryEntry

_NAMED = ("suite", "test", "topology", "frame_size")
_USUAL = {"flows": "1", "direction": "bidirectional"}
_AGAIN = {"bps": "pps", "line_ratio": "pps"}
"""Units in which a figure is told once more, and the unit that a series of it has."""

_Key = tuple[tuple[tuple[str, str], ...], str, str, str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """A figure of one run."""

    run: HistoryEntry
    figure: Figure


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of one subject and metric on machines alike, the oldest first.

    Attributes:
        name: of the subject, without what all subjects have in common.
        full_name: of the subject, with all its labels.
        at: the load, or empty.
        machine: number of the machine, counted from 1 in the order of the runs.
    """

    name: str
    full_name: str
    metric: str
    unit: str
    at: str
    machine: int
    points: tuple[Point, ...]

    @property
    def values(self) -> list[float]:
        """In ``unit``."""
        return [point.figure.value for point in self.points]

    @property
    def what(self) -> str:
        """The metric with its load: ``latency_p99 at 50 % of pdr``."""
        return f"{self.metric} at {self.at}" if self.at else self.metric

    def is_about(self, test: str, metric: str = "") -> bool:
        """True where ``test`` is part of the name, and ``metric`` is the metric or empty."""
        return (test in self.name or test in self.full_name) and metric in ("", self.metric)


@dataclass(frozen=True, slots=True)
class Machine:
    """Runs on machines alike. ``differs``: in what they differ from those of the machine before."""

    number: int
    testbed: str
    first: HistoryEntry
    differs: tuple[str, ...] = ()


def in_order(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """By the time of their start."""
    return sorted(entries, key=lambda entry: (entry.started_ns, entry.run))


def machines(entries: Sequence[HistoryEntry]) -> list[Machine]:
    """The machines of a history, in the order of their first runs."""
    found: list[Machine] = []
    for entry in in_order(entries):
        if _machine_of(entry, found) is None:
            differs = differences(found[-1].first.fingerprint, entry.fingerprint) if found else ()
            found.append(Machine(len(found) + 1, entry.testbed, entry, differs))
    return found


def _machine_of(entry: HistoryEntry, known: Sequence[Machine]) -> int | None:
    return next(
        (each.number for each in known if not unlike(each.first.fingerprint, entry.fingerprint)),
        None,
    )


def series_of(entries: Sequence[HistoryEntry]) -> list[Series]:
    """All series of a history, by name."""
    known = machines(entries)
    collected: dict[_Key, list[Point]] = {}
    for entry in in_order(entries):
        number = _machine_of(entry, known) or 0
        for labels, figure in _figures(entry):
            key = (labels, figure.metric, figure.at or "", figure.unit, number)
            collected.setdefault(key, []).append(Point(entry, figure))
    shared = set.intersection(*(set(key[0]) for key in collected)) if collected else set()
    found = []
    for (labels, metric, at, unit, number), points in collected.items():
        own = tuple(label for label in labels if label not in shared or label[0] in _NAMED)
        found.append(Series(_name(own), _name(labels), metric, unit, at, number, tuple(points)))
    return sorted(found, key=lambda each: (each.full_name, each.metric, each.at, each.machine))


def _figures(entry: HistoryEntry) -> Iterator[tuple[tuple[tuple[str, str], ...], Figure]]:
    """Each figure once: a rate in frames is not told again in bits."""
    for one in entry.measured:
        units = {(figure.metric, figure.unit) for figure in one.figures}
        for figure in one.figures:
            if (figure.metric, _AGAIN.get(figure.unit, "")) not in units:
                yield tuple(sorted(one.labels.items())), figure


def _name(labels: tuple[tuple[str, str], ...]) -> str:
    """``throughput/test_ndr_pdr phy2phy 64 profile=gate``."""
    known = dict(labels)
    test = "/".join(known[name] for name in ("suite", "test") if name in known)
    named = [known[name] for name in ("topology", "frame_size") if name in known]
    rest = [f"{name}={value}" for name, value in labels if name not in _NAMED and _USUAL.get(name) != value]
    return " ".join(filter(None, [test, *named, *rest])) or "-"
