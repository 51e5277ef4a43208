"""From a run's evidence to ``comparison.json``, which stands beside it."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.model.evidence.comparison_document import (
    ComparedRun,
    LeftOut,
    TestComparison,
    differences,
    document,
)
from pytest_nfvperf.model.evidence.run_conclusion import RunConclusion
from pytest_nfvperf.model.testbed.equipment import DatapathInfo

COMPARISON_FILE = "comparison.json"


def compared_run(run: RunEvidence, conclusion: RunConclusion) -> ComparedRun | None:
    """What a run compared; None of a run that does not compare."""
    if run.run is None or run.run.compare is None:
        return None
    comparing, duts = run.run.compare, _duts(run)
    tests = [TestComparison(test.node_id, data) for test in run.tests.values() for data in test.comparisons.values()]
    made = {test.test for test in tests}
    left_out = [
        LeftOut(test.node_id, str(test.fate), test.reason) for test in conclusion.tests if test.node_id not in made
    ]
    return ComparedRun(
        run=run.run_id,
        comparing=comparing,
        tests=tuple(tests),
        left_out=tuple(left_out),
        duts=duts,
        result=str(conclusion.fate),
        exit_status=conclusion.exit_status,
        differences=differences(comparing, duts),
    )


def _duts(run: RunEvidence) -> tuple[tuple[str, DatapathInfo], ...]:
    """What each side was when it was first deployed."""
    found: dict[str, DatapathInfo] = {}
    for test in run.tests.values():
        for deployed in test.topologies.values():
            if deployed.info is not None and deployed.dut.version is not None:
                found.setdefault(deployed.dut.version, deployed.info)
    return tuple(found.items())


def write_comparison(compared: ComparedRun, directory: Path, name: str = COMPARISON_FILE) -> Path:
    """Write the document into a directory; returns its path."""
    path = directory / name
    write_whole(path, json.dumps(document(compared), indent=2, ensure_ascii=False) + "\n")
    return path
