"""From evidence to ``comparison.json``: of a run that compared, and of two existing runs.

Two runs do not alternate, so their ratio contains what the machine did in only one of them. Only differences above
UNPAIRED_FLOOR are reported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.comparison import (
    DOCUMENT_SCHEMA,
    ComparedRun,
    TestComparison,
    document,
    side_differences,
    unlike,
    words,
)
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult
from pytest_nfvperf.model.evidence.records import plain
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.compare import (
    UNPAIRED_FLOOR,
    ComparisonData,
    ComparisonSettings,
    ReadingMethod,
    Side,
    SideFigures,
    compare_metric,
)
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.verdict import subject_of
from pytest_nfvperf.model.statistics import Bound, Samples, relative
from pytest_nfvperf.model.testbed.testbed import DatapathInfo

COMPARISON_FILE = "comparison.json"

_WEAKER = (
    "These are two runs: nothing alternated, so the statistics are weaker. What the machine did in one of them is in "
    f"the ratio, and only more than {UNPAIRED_FLOOR:.0%} is reported as a difference. "
    "`nfvperf compare A B -- TESTS` sees 1 to 2 %."
)
_CONFIDENCE = 0.95


def compared_run(run: RunEvidence, conclusion: RunConclusion) -> ComparedRun | None:
    """What a run compared; None for a run that does not compare."""
    if run.run is None or run.run.compare is None:
        return None
    comparing = run.run.compare
    duts: dict[str, DatapathInfo] = {}  # what each side was when it was first deployed
    for test in run.tests.values():
        for deployed in test.topologies.values():
            if deployed.info is not None and deployed.dut.version is not None:
                duts.setdefault(deployed.dut.version, deployed.info)
    tests = [TestComparison(test.node_id, data) for test in run.tests.values() for data in test.comparisons.values()]
    made = {test.test for test in tests}
    return ComparedRun(
        run=run.run_id,
        comparing=comparing,
        tests=tuple(tests),
        left_out=tuple(
            {"test": test.node_id, "result": str(test.result), "reason": test.reason}
            for test in conclusion.tests
            if test.node_id not in made
        ),
        duts=tuple(duts.items()),
        result=str(conclusion.result),
        exit_status=conclusion.exit_status,
        differences=side_differences(comparing, tuple(duts.items())),
    )


def write_comparison(compared: ComparedRun, directory: Path, name: str = COMPARISON_FILE) -> Path:
    path = directory / name
    write_whole(path, json.dumps(document(compared), indent=2, ensure_ascii=False) + "\n")
    return path


def read_comparison_document(path: Path) -> dict[str, Any]:
    """The document of a file; TestbedError if it is of another version."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    version: Any = document.get("schema")
    if version != DOCUMENT_SCHEMA:
        raise TestbedError(f"{path} is of schema {version}, and only {DOCUMENT_SCHEMA} can be read")
    return document


def compared_runs(first: RunEvidence, second: RunEvidence, margin: float) -> ComparedRun:
    """Compare the second run with the first.

    ConfigError for one run twice, machines or rigs that differ, or no figure that both have.
    """
    if first.run_id == second.run_id:
        raise ConfigError(f"{first.path} and {second.path} are one run, {first.run_id}: nothing can differ")
    names = first.run_id, second.run_id
    one, other = _facts(first), _facts(second)
    # Where machines or rigs differ, the ratio is theirs, not that of what was tested.
    if wrong := [f"{name} ({then} and {now})" for name, then, now in unlike(one, other)]:
        raise ConfigError(
            f"runs {names[0]} and {names[1]} cannot be compared: they differ in {', '.join(wrong)}. Compare "
            "runs of one machine and rig, or better both versions in one run: `nfvperf compare A B -- TESTS`"
        )
    tests = list(_tests(first, second, margin))
    if not tests:
        raise ConfigError(f"runs {names[0]} and {names[1]} have no rate, time or cost of the same test in common")
    compared_tests = {test.test for test in tests}
    measured = dict.fromkeys(test.node_id for run in (first, second) for test in run.tests.values() if test.outcomes)
    decided = set(words(test.data for test in tests))
    result = RunResult.INCONCLUSIVE if "cannot tell" in decided else RunResult.PASSED
    if "slower" in decided:
        result = RunResult.FAILED
    return ComparedRun(
        run=" ".join(names),
        comparing=ComparisonSettings((Side(names[0], str(first.path)), Side(names[1], str(second.path))), margin),
        tests=tuple(tests),
        left_out=tuple(
            {"test": name, "result": "not in both runs", "reason": ""}
            for name in measured
            if name not in compared_tests
        ),
        duts=tuple((run.run_id, run.run.dut) for run in (first, second) if run.run is not None and run.run.dut),
        result=str(result),
        exit_status=result.exit_status,
        differences=tuple(
            (name, ((names[0], _text(one.get(name))), (names[1], _text(other.get(name)))))
            for name in sorted({*one, *other})
            if one.get(name) != other.get(name)
        ),
        warnings=(_WEAKER,),
    )


def _facts(run: RunEvidence) -> Mapping[str, Any]:
    if run.run is None:
        raise ConfigError(
            "the run record is missing: nothing says on which machine it was measured", file=str(run.path)
        )
    return {**run.run.fingerprint, "profile": run.run.profile}


def _text(value: object) -> str:
    return "-" if value is None else str(plain(value))


def _tests(first: RunEvidence, second: RunEvidence, margin: float) -> Iterator[TestComparison]:
    theirs = [outcome for test in second.tests.values() for outcome in test.outcomes.values()]
    others = {(subject_of(outcome.label), outcome.algorithm): outcome for outcome in theirs}
    for test in first.tests.values():
        for outcome in test.outcomes.values():
            other = others.get((subject_of(outcome.label), outcome.algorithm))
            if other is not None and (side := _side(outcome, other, second.run_id, margin)).metrics:
                data = ComparisonData(outcome.labels, outcome.algorithm, ReadingMethod.RUNS, first.run_id, (side,))
                yield TestComparison(test.node_id, data)


def _side(baseline: Outcome, own: Outcome, name: str, margin: float) -> SideFigures:
    theirs = {samples.metric: samples for samples in _samples(baseline)}
    noise = (1 / (1 + UNPAIRED_FLOOR), 1 + UNPAIRED_FLOOR)
    both = [samples for samples in _samples(own) if samples.metric in theirs]
    return SideFigures(
        name,
        metrics=tuple(
            compare_metric(
                samples,
                relative(samples, theirs[samples.metric], (("run", "first"),), _CONFIDENCE),
                noise,
                margin,
                decides=number == 0,
            )
            for number, samples in enumerate(both)
        ),
    )


def _samples(outcome: Outcome) -> list[Samples]:
    """Readings of comparable metrics. For a search: what each repeat reported."""
    readings = [samples for samples in outcome.samples if metric_of(samples.metric).compared]
    for goal in outcome.goals:
        values = [fps for fps in goal.repeated_fps or (goal.reported_fps,) if fps]
        figure = outcome.figure(goal.goal.name, "pps")
        if metric_of(goal.goal.name).compared and values and figure is not None:
            readings.append(_bounded(figure, tuple(map(float, values))))
    for figure in outcome.figures:
        is_read = figure.of_class or any(figure.metric == samples.metric for samples in readings)
        if metric_of(figure.metric).compared and not is_read:
            readings.append(_bounded(figure, (figure.value,)))
    return [samples for samples in readings if all(math.isfinite(value) for value in samples.values)]


def _bounded(seen: Figure, values: tuple[float, ...]) -> Samples:
    """Values that are bounds where the figure is one."""
    bound = Bound.of(low=seen.low is None, high=seen.high is None)
    return Samples(seen.metric, seen.unit, values, bound=bound, why=seen.detail if bound else "")
