"""The question of a bisection, its measurements so far (events), and their log, from which a later process continues.

Versions have numbers: 0 is the good end, the last one the bad end.

The log is JSON lines: the question, then all events. Each line is on the disk before the next measurement begins. The
next process removes a line that a kill truncated.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pytest_nfvperf.adapters.evidence.writer import sync
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, TestResult
from pytest_nfvperf.model.metrics import metric_of

_VSWITCHD_DIED = re.compile(r"\bovs-vswitchd \(pid \d+\) ")
LOG = "bisection.jsonl"
_SCHEMA = 1


class By(StrEnum):
    """What distinguishes good from bad.

    EITHER: outcomes, if the bad end fails and the good one does not; else instructions a packet, if they differ and can
    be counted; else rates.
    """

    EITHER = "either"
    INSTRUCTIONS = "instructions"
    RATES = "rates"
    OUTCOMES = "outcomes"


@dataclass(frozen=True, slots=True)
class Question:
    """What a bisection has to answer.

    Attributes:
        versions: names in order, the good end first and the bad one last.
        confidence: probability that one version, or one range, must reach.
        metric: only figures of this metric count; None: all.
        by: what distinguishes good from bad.
        most_blocks: of one version; after that it stays undecided.
        smallest: the ends must differ in a rate by at least this part: 0.005 for 0.5 %.
        counts_instructions: they can be counted here, and are compared before rates.
    """

    versions: tuple[str, ...]
    confidence: float = 0.95
    metric: str | None = None
    by: By = By.EITHER
    most_blocks: int = 32
    smallest: float = 0.005
    counts_instructions: bool = False

    @property
    def bad(self) -> int:
        return len(self.versions) - 1


@dataclass(frozen=True, slots=True)
class BisectionSubject:
    """What a bisection compares: a metric of a test, or (``metric`` is None) whether the test passes."""

    test: str
    metric: str | None = None

    @property
    def virtual(self) -> bool:
        return metric_of(self.metric or "").virtual


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """How two versions differ in a metric of a test.

    Attributes:
        test: pytest's node id.
        metric: "forwarding_rate".
        log_ratio: natural logarithm of version over base.
        standard_error: of ``log_ratio``; includes the uncertainty of an estimate from few blocks.
        more_is_better: False for costs and latencies.
    """

    test: str
    metric: str
    log_ratio: float
    standard_error: float
    more_is_better: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.log_ratio) and math.isfinite(self.standard_error) and self.standard_error > 0):
            raise ValueError(f"no figure: log-ratio {self.log_ratio}, standard error {self.standard_error}")

    @property
    def subject(self) -> BisectionSubject:
        return BisectionSubject(self.test, self.metric)


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """A version was measured against a base.

    Attributes:
        base, version: by number.
        blocks: of fresh builds.
        figures: those with an interval.
        again: to confirm the culprit.
        note: why there is no figure.
        virtual: instructions were counted; no rate was measured.
    """

    base: int
    version: int
    blocks: int
    figures: tuple[MetricDifference, ...]
    again: bool = False
    note: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """The tests ran once on a version. ``failed``: (test, reason) of each. ``again``: to confirm the culprit."""

    version: int
    passed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Unusable:
    """A version can be neither good nor bad: it does not build or start. It stays a candidate."""

    version: int
    why: str


Event = VersionComparison | Ran | Unusable


@dataclass(frozen=True, slots=True)
class Estimate:
    """The log-ratio of a version to the good end, from all its blocks."""

    value: float
    variance: float
    blocks: int

    @property
    def error(self) -> float:
        return math.sqrt(self.variance)

    def interval(self) -> tuple[float, float, float]:
        """Ratio, and the ends of its interval at 95 %."""
        reach = 1.96 * self.error
        return math.exp(self.value), math.exp(self.value - reach), math.exp(self.value + reach)


def pooled(parts: Sequence[Estimate]) -> Estimate:
    """Several measurements of one version as one, each weighted by its precision."""
    weight = sum(1 / part.variance for part in parts)
    value = sum(part.value / part.variance for part in parts) / weight
    return Estimate(value, 1 / weight, sum(part.blocks for part in parts))


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one test on one version."""

    failed: int = 0
    passed: int = 0

    def __add__(self, other: Runs) -> Runs:
        return Runs(self.failed + other.failed, self.passed + other.passed)

    @property
    def count(self) -> int:
        return self.failed + self.passed


def estimates(events: Sequence[Event], subject: BisectionSubject, *, again: bool = False) -> dict[int, Estimate]:
    """The estimate of the subject by version."""
    parts: dict[int, list[Estimate]] = {}
    for event in events:
        if isinstance(event, VersionComparison) and event.again is again:
            for figure in event.figures:
                if figure.subject == subject:
                    estimate = Estimate(figure.log_ratio, figure.standard_error**2, event.blocks)
                    parts.setdefault(event.version, []).append(estimate)
    return {version: pooled(measured) for version, measured in parts.items()}


def runs(events: Sequence[Event], test: str, *, again: bool = False) -> dict[int, Runs]:
    """How often the test failed and passed, by version."""
    counts: dict[int, Runs] = {}
    for event in events:
        if isinstance(event, Ran) and event.again is again:
            failed, passed = test in dict(event.failed), test in event.passed
            if failed or passed:
                counts[event.version] = counts.get(event.version, Runs()) + Runs(int(failed), int(passed))
    return counts


def unusable(events: Sequence[Event]) -> dict[int, str]:
    """Unusable versions, each with its reason."""
    return {event.version: event.why for event in events if isinstance(event, Unusable)}


def failed(test: TestConclusion) -> bool:
    """True for a failed test, and for one in which the DUT's own daemon died."""
    return test.result is TestResult.FAILED or (
        test.result is TestResult.BROKEN and bool(_VSWITCHD_DIED.search(test.reason))
    )


def passed(test: TestConclusion) -> bool:
    """True for a test that passed and could have failed."""
    return test.result is TestResult.PASSED and not test.tolerated


_KINDS: dict[str, type[Event]] = {"compared": VersionComparison, "ran": Ran, "unusable": Unusable}


class EventLog:
    """The log in a directory, locked by one process at a time.

    ``question``: what the bisection is about, as plain JSON.

    Raises:
        ConfigError: another process has the log, or it belongs to another question; says how they differ.
        TestbedError: it cannot be written.
    """

    def __init__(self, directory: Path, question: Mapping[str, Any]) -> None:
        self.path = directory / LOG
        self.events: list[Event] = []
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._broken(error) from error
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    "another bisection writes here: wait for it to end, or name another directory by --log",
                    file=str(self.path),
                ) from error
            as_read_back = json.loads(json.dumps(dict(question)))  # lists for tuples
            self._read({"kind": "bisection", "schema": _SCHEMA, **as_read_back})
            undo.pop_all()

    def append(self, event: Event) -> None:
        kind = next(name for name, made in _KINDS.items() if made is type(event))
        self._write({"kind": kind, **asdict(event)})
        self.events.append(event)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, question: Mapping[str, Any]) -> None:
        *lines, rest = self.path.read_bytes().split(b"\n")
        if rest:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - len(rest))
        if not lines:
            self._write(question)
            return
        there = self._parsed(lines[0], 1)
        for key in {**there, **question}:
            if there.get(key) != question.get(key):
                its, yours = _shown(there.get(key)), _shown(question.get(key))
                raise ConfigError(
                    f"this log is of another bisection: its {key} is {its}, yours is {yours}. Use the same arguments "
                    "to continue it, or name another directory by --log",
                    file=str(self.path),
                )
        self.events = [self._event(self._parsed(line, number), number) for number, line in enumerate(lines[1:], 2)]

    def _event(self, data: Mapping[str, Any], number: int) -> Event:
        kind = _KINDS.get(str(data.get("kind")))
        if kind is None:
            raise self._unreadable(number, f"kind {data.get('kind')!r} is unknown")
        try:
            return TypeAdapter(kind).validate_python({key: value for key, value in data.items() if key != "kind"})
        except ValidationError as error:
            raise self._unreadable(number, str(error.errors(include_url=False)[0]["msg"])) from error

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            data = json.loads(line)
        except ValueError as error:
            raise self._unreadable(number, str(error)) from error
        if not isinstance(data, dict):
            raise self._unreadable(number, "it is no object")
        return data

    def _unreadable(self, number: int, why: str) -> ConfigError:
        return ConfigError(
            f"this is no line of a bisection's log: {why}. Name another directory by --log, or remove this one",
            file=str(self.path),
            line=number,
        )

    def _write(self, data: Mapping[str, Any]) -> None:
        line = (json.dumps(data, allow_nan=False, ensure_ascii=False) + "\n").encode()
        end = os.fstat(self._fd).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._fd, line[written:])
            sync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, end)
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> TestbedError:
        return TestbedError(
            f"the log {self.path} cannot be written: {error.strerror}. Free space, or name another directory by --log"
        )


def _shown(value: object) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"a list of {len(value)} from {value[0]!r} to {value[-1]!r}"
    return repr(value)
