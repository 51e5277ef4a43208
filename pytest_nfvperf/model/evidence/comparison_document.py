"""``comparison.json``: a run that compared, as one document for scripts. Pure; the shape is in docs/comparing.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.model.compare.record import ComparisonData, How, SideState, Word
from pytest_nfvperf.model.compare.sides import Comparing
from pytest_nfvperf.model.evidence.record import plain
from pytest_nfvperf.model.testbed.equipment import DatapathInfo

DOCUMENT_SCHEMA = 1
"""A reader refuses another. Keys are only ever added."""

GRAVITY = (Word.SLOWER, Word.CANNOT_TELL, Word.FASTER, Word.SAME)
"""Which of several words counts for all: a slower side anywhere is what a gate asks about."""


@dataclass(frozen=True, slots=True)
class TestComparison:
    """A comparison and the test that made it; one that compares several topologies makes several."""

    __test__ = False

    test: str
    data: ComparisonData


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A selected test without a comparison: what became of it, and why."""

    test: str
    result: str
    reason: str


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """All that a run compared.

    Attributes:
        run: id of the run, or of both.
        comparing: the sides.
        tests: every comparison, in order.
        left_out: selected tests that made none.
        duts: of each side what it was, as far as it ran.
        result, exit_status: of the run (docs/exit-status.md).
        differences: (what, value by side) in which the sides' Open vSwitch or the runs' machines differ.
        warnings: why the statistics are weaker than they could be.
    """

    run: str
    comparing: Comparing
    tests: tuple[TestComparison, ...]
    left_out: tuple[LeftOut, ...] = ()
    duts: tuple[tuple[str, DatapathInfo], ...] = ()
    result: str = ""
    exit_status: int = 0
    differences: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Deciding words and troubles of sides, the gravest first, with how often."""
        return counted(test.data for test in self.tests)

    @property
    def paired(self) -> bool:
        """False for two runs of their own: nothing alternated."""
        return all(test.data.how is not How.RUNS for test in self.tests)


def words(comparisons: Iterable[ComparisonData]) -> list[str]:
    """What decides of each side of each comparison: its word, or its state where it was not measured."""
    found: list[str] = []
    for comparison in comparisons:
        for side in comparison.sides:
            if side.state is not SideState.MEASURED:
                found.append(str(side.state))
            else:
                found.append(str(side.deciding.word if side.deciding else Word.CANNOT_TELL))
    return found


def counted(comparisons: Iterable[ComparisonData]) -> dict[str, int]:
    """How often each word, in the order of gravity."""
    seen = Counter(words(comparisons))
    order = [*map(str, (SideState.BROKEN, SideState.UNAVAILABLE, SideState.FAILED)), *map(str, GRAVITY)]
    return {word: seen[word] for word in order if seen[word]}


def differences(
    comparing: Comparing, duts: Sequence[tuple[str, DatapathInfo]]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """In what the sides differ: versions, where they are from, how they were built, and settings; "-" for nothing."""
    known = dict(duts)
    facts = {side.name: _facts(known.get(side.name)) | dict(side.settings) for side in comparing.sides}
    names = dict.fromkeys(name for of in facts.values() for name in of)
    rows = ((name, tuple((side, of.get(name, "-")) for side, of in facts.items())) for name in names)
    return tuple((name, row) for name, row in rows if len({value for _, value in row}) > 1)


def _facts(info: DatapathInfo | None) -> dict[str, str]:
    if info is None:
        return {}
    facts = {
        "OVS": info.version,
        "DPDK": info.dpdk_version or "-",
        "datapath": info.kind,
        "from": info.origin,
        "program": info.installation,
    }
    return {name: text for name, text in (*facts.items(), *info.build) if text}


def document(compared: ComparedRun) -> dict[str, Any]:
    """The document as plain JSON."""
    duts = dict(compared.duts)
    return {
        "schema": DOCUMENT_SCHEMA,
        "kind": "nfvperf comparison",
        "run": compared.run,
        "paired": compared.paired,
        "margin": compared.comparing.margin,
        "baseline": compared.comparing.baseline.name,
        "sides": [
            {
                "name": side.name,
                "where": side.where,
                "settings": dict(side.settings),
                "dut": plain(duts[side.name]) if side.name in duts else None,
            }
            for side in compared.comparing.sides
        ],
        "differences": [{"what": what, "values": dict(values)} for what, values in compared.differences],
        "comparisons": [_comparison(test) for test in compared.tests],
        "left_out": plain(compared.left_out),
        "counts": compared.counts,
        "warnings": list(compared.warnings),
        "result": compared.result,
        "exit_status": compared.exit_status,
    }


def _comparison(test: TestComparison) -> Mapping[str, Any]:
    """The record, with pairs as objects."""
    made = plain(test.data)
    made["labels"] = dict(test.data.labels)
    for side in made["sides"]:
        for metric in side["metrics"]:
            metric["dropped"] = dict(metric["dropped"])
    return {"test": test.test, **made}
