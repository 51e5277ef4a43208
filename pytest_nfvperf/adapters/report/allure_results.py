"""Results for Allure of tests that allure-pytest wrote none for, because no process ran them to their end.

A worker of pytest-xdist died with the test, the test never began, or its module could not be collected.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Label, Parameter, StatusDetails, TestResult
from allure_commons.types import LabelType
from allure_commons.utils import md5, now, represent

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.allure_status import RESULT, STATUS
from pytest_nfvperf.adapters.report.node_ids import module_of, split_node_id
from pytest_nfvperf.model.evidence.conclusion import Fate, RunConclusion, TestConclusion
from pytest_nfvperf.model.evidence.records import TestData
from pytest_nfvperf.model.text import storable

# allure-python-commons says py.typed, but these have no annotations.
_make_logger: Callable[[Path], Any] = AllureFileLogger
_md5: Callable[..., str] = md5
_now_ms: Callable[[], int] = now
_represent: Callable[[object], str] = represent


def write_missing_results(directory: Path, run: RunEvidence, conclusion: RunConclusion) -> None:
    """Write a result for each such test.

    Args:
        directory: the ``--alluredir``; made when missing.
        run: the evidence of the run, which has ended.
        conclusion: what became of it.
    """
    logger = _make_logger(directory)
    for became in conclusion.tests:
        if _has_none(became, run):
            test = run.tests.get(became.node_id)
            logger.report_result(_result_of(became, None if test is None else test.data))


def storable_texts(item: Any) -> Any:
    """A result of Allure, or a text, whose texts are such that a file can hold them; results are changed in place."""
    if isinstance(item, str):
        return storable(item)
    if isinstance(item, list):
        return [storable_texts(one) for one in item]
    for name in vars(item) if hasattr(type(item), "__attrs_attrs__") else ():
        setattr(item, name, storable_texts(getattr(item, name)))
    return item


def _has_none(became: TestConclusion, run: RunEvidence) -> bool:
    """True where no process wrote one. Of an unfinished test its own process did, when it was interrupted."""
    if became.fate in {Fate.NOT_RUN, Fate.UNFINISHED}:
        return became.fate is Fate.NOT_RUN
    _, _, name = split_node_id(became.node_id)
    return not name or run.tests[became.node_id].end is None


def _result_of(became: TestConclusion, data: TestData | None) -> TestResult:
    """As allure-pytest names it, so that Allure finds the same test in other runs. ``data``: None if it never began."""
    path, classes, name = split_node_id(became.node_id)
    module = module_of(path)
    full_name = f"{'.'.join([module, *classes])}#{name.partition('[')[0]}"
    time_ms = _now_ms()
    result = TestResult(
        uuid=str(uuid4()),
        name=name or path,
        fullName=full_name,
        titlePath=[*path.split("/"), *classes],
        testCaseId=_md5(full_name),
        status=STATUS[became.fate],
        statusDetails=StatusDetails(message=became.reason),
        start=time_ms,
        stop=time_ms,
    )
    result.labels = _labels(became, module, classes, dict(data.labels) if data else {})
    if data is not None:
        shown = dict(data.parameters)
        shown |= {key: _represent(value) for key, value in data.labels if key not in shown and key != "suite"}
        result.parameters = [Parameter(name=key, value=value) for key, value in shown.items()]
        result.historyId = _md5(full_name, *(shown[key] for key in sorted(shown)))
    return result


def _labels(became: TestConclusion, module: str, classes: list[str], own: dict[str, str]) -> list[Label]:
    """Where the test stands in the report, and its result. ``own``: the labels that SLA selectors know it by."""
    package, _, file = module.rpartition(".")
    labels = {
        RESULT: str(became.fate),
        LabelType.PARENT_SUITE: package,
        LabelType.SUITE: own.get("suite", file),
        LabelType.SUB_SUITE: " > ".join(classes),
        LabelType.FEATURE: own.get("topology", ""),
        LabelType.FRAMEWORK: "pytest",
        "package": module,
    }
    return [Label(name=str(key), value=value) for key, value in labels.items() if value]
