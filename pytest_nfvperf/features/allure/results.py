"""Allure: the status of a test's result, results that nobody wrote, and the files beside them.

Allure's "failed" is a FAIL (an SLA or an assertion); "broken" says nothing about the DUT. Allure itself decides by the
exception's class, and calls an assertion of a fixture a failure.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import allure
import allure_commons
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Label, Parameter, Status, StatusDetails, TestStepResult
from allure_commons.model2 import TestResult as AllureResult
from allure_commons.types import LabelType
from allure_commons.utils import md5, now

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.junit import module_of, split_node_id
from pytest_nfvperf.adapters.report.run_facts import flattened, versions_text
from pytest_nfvperf.model.display import storable
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion, TestResult
from pytest_nfvperf.model.evidence.records import RunData, TestData

# allure-python-commons says py.typed, but these have no annotations.
_make_logger: Callable[[Path], Any] = AllureFileLogger
_md5: Callable[..., str] = md5
_now_ms: Callable[[], int] = now

_CATEGORIES = Path(__file__).with_name("categories.json")
_RESULT = "nfvperf.result"
_HISTORY = "allure-history.jsonl"
"""Allure 3 reads and extends it where it is called: a trend needs no option."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")
"""In Python's text of an object, it differs from run to run, and Allure tells tests apart by their parameters."""
_STATUS = {
    TestResult.FAILED: Status.FAILED,
    TestResult.INCONCLUSIVE: Status.BROKEN,
    TestResult.BROKEN: Status.BROKEN,
    TestResult.ERROR: Status.BROKEN,
    TestResult.USAGE: Status.BROKEN,
    TestResult.INTERNAL: Status.BROKEN,
    TestResult.UNFINISHED: Status.BROKEN,
    TestResult.NOT_RUN: Status.SKIPPED,
}
"""For what Allure by itself would call something else; it knows what passed and what was skipped."""


def set_allure_result(became: TestConclusion) -> None:
    """Set label and status of the running test; does nothing without ``--alluredir``."""
    dynamic: Any = allure.dynamic
    result = _running_result()
    if result is not None:
        # An earlier attempt of a test that another plugin repeats has set the label, too.
        result.labels = [label for label in result.labels if label.name != _RESULT]
        for parameter in result.parameters:
            parameter.value = _ADDRESS.sub("", parameter.value)
    dynamic.label(_RESULT, str(became.result))
    status = _STATUS.get(became.result)
    if result is None or status is None or became.tolerated:
        return
    result.status = status
    details = result.statusDetails or StatusDetails()
    details.message = details.message or became.reason
    result.statusDetails = details


def set_allure_parameters(data: TestData) -> None:
    """Add the test's labels as parameters of the running test, unless pytest has a parameter of that name."""
    result = _running_result()
    if result is not None:
        known = {parameter.name for parameter in result.parameters} | set(data.parameters)
        added = {name: value for name, value in label_parameters(data).items() if name not in known}
        result.parameters.extend(Parameter(name=name, value=value) for name, value in added.items())


def label_parameters(data: TestData) -> dict[str, str]:
    """The labels that Allure shows as parameters: not suite and test, which it has as the test's place and name."""
    return {name: value for name, value in data.labels if name not in {"suite", "test"}}


@contextmanager
def result_step(
    title: str, *, end_ns: int, seconds: float = 0.0, status: str = Status.PASSED, message: str = ""
) -> Iterator[Any]:
    """Add a step that took ``seconds`` and ended at ``end_ns`` (ns since the epoch); steps made inside are its own.

    allure-pytest's public steps last as long as their block, which begins when the measurement is over. Gives the step,
    or None without ``--alluredir``.
    """
    logger = _reporter()
    if logger is None:
        yield None
        return
    uuid, end_ms = str(uuid4()), end_ns // 1_000_000
    step = TestStepResult(name=title, start=end_ms - round(seconds * 1000))
    logger.start_step(None, uuid, step)
    try:
        yield step
    finally:
        details = StatusDetails(message=message) if message else None
        logger.stop_step(uuid, stop=end_ms, status=status, statusDetails=details)


def move_steps(steps: list[Any], into: Any) -> None:
    """Move steps of what runs now into a later step of it, in front of that step's own."""
    logger = _reporter()
    if logger is None or into is None:
        return
    moved = {id(step) for step in steps}
    result = _running_result()
    for parent in _with_steps_below(result) if result is not None else ():
        if parent is not into:
            parent.steps = [step for step in parent.steps if id(step) not in moved]
    into.steps[:0] = steps


def _with_steps_below(item: Any) -> Iterator[Any]:
    yield item
    for step in item.steps:
        yield from _with_steps_below(step)


def _reporter() -> Any:
    """What collects results for allure-pytest, whose public API sets neither status nor time; None without it."""
    plugins = allure_commons.plugin_manager.get_plugins()
    return next((plugin.allure_logger for plugin in plugins if hasattr(plugin, "allure_logger")), None)


def _running_result() -> Any:
    """The result that allure-pytest will write at the end of the running test."""
    logger = _reporter()
    return None if logger is None else logger.get_test(None)


def write_missing_results(directory: Path, run: RunEvidence, conclusion: RunConclusion) -> None:
    """Write a result for each test that no process ran to its end, so that allure-pytest wrote none.

    A worker of pytest-xdist died with the test, the test never began, or its module could not be collected. The result
    of the run and its rig stand in environment.properties. ``directory``: the ``--alluredir``; made if missing.
    """
    logger = _make_logger(directory)
    with (directory / "environment.properties").open("a", encoding="utf-8") as opened:
        opened.writelines(_property_lines({"run": conclusion.headline, "rig": conclusion.rig or "nobody looked"}))
    for became in conclusion.tests:
        if _has_none(became, run):
            test = run.tests.get(became.node_id)
            logger.report_result(_result_of(became, None if test is None else test.data))


def storable_texts(item: Any) -> Any:
    """Escape what no file can hold in a text, or in all texts of an Allure result, which is changed in place."""
    if isinstance(item, str):
        return storable(item)
    if isinstance(item, list):
        return [storable_texts(one) for one in item]
    for name in vars(item) if hasattr(type(item), "__attrs_attrs__") else ():
        setattr(item, name, storable_texts(getattr(item, name)))
    return item


def _has_none(became: TestConclusion, run: RunEvidence) -> bool:
    """True if no process wrote a result. If an unfinished test was interrupted, its own process did."""
    if became.result in {TestResult.NOT_RUN, TestResult.UNFINISHED}:
        return became.result is TestResult.NOT_RUN
    _, _, name = split_node_id(became.node_id)
    return not name or run.tests[became.node_id].end is None


def _result_of(became: TestConclusion, data: TestData | None) -> AllureResult:
    """Named as by allure-pytest, so that Allure finds the test in other runs. ``data``: None if it never began."""
    path, classes, name = split_node_id(became.node_id)
    module = module_of(path)
    full_name = f"{'.'.join([module, *classes])}#{name.partition('[')[0]}"
    time_ms = _now_ms()
    result = AllureResult(
        uuid=str(uuid4()),
        name=name or path,
        fullName=full_name,
        titlePath=[*path.split("/"), *classes],
        testCaseId=_md5(full_name),
        status=_STATUS[became.result],
        statusDetails=StatusDetails(message=became.reason),
        start=time_ms,
        stop=time_ms,
    )
    result.labels = _labels(became, module, classes, dict(data.labels) if data else {})
    if data is not None:
        shown = {name: _ADDRESS.sub("", value) for name, value in (label_parameters(data) | data.parameters).items()}
        result.parameters = [Parameter(name=key, value=value) for key, value in shown.items()]
        result.historyId = _md5(full_name, *(shown[key] for key in sorted(shown)))
    return result


def _labels(became: TestConclusion, module: str, classes: list[str], own: dict[str, str]) -> list[Label]:
    """``own``: the labels by which SLA selectors know the test."""
    package, _, file = module.rpartition(".")
    labels = {
        _RESULT: str(became.result),
        LabelType.PARENT_SUITE: package,
        LabelType.SUITE: own.get("suite", file),
        LabelType.SUB_SUITE: " > ".join(classes),
        LabelType.FEATURE: own.get("topology", ""),
        LabelType.FRAMEWORK: "pytest",
        "package": module,
    }
    return [Label(name=str(key), value=value) for key, value in labels.items() if value]


def write_allure_files(directory: Path, run: RunData, environ: Mapping[str, str]) -> None:
    """Write environment.properties, categories.json, allurerc.json and executor.json into an ``--alluredir``.

    Allure 2 takes categories from categories.json among the results. Allure 3 takes them from its configuration only:
    ``allure generate --config DIR/allurerc.json DIR``. ``environ``: the process environment, which names the CI job.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "environment.properties").write_text("".join(_property_lines(environment(run))), encoding="utf-8")
    (directory / "executor.json").write_text(json.dumps(executor(environ), indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(_CATEGORIES, directory / "categories.json")
    categories = json.loads(_CATEGORIES.read_text(encoding="utf-8"))
    name = f"Datapath acceptance: {run.testbed.name}"
    allurerc = {"name": name, "categories": categories, "historyPath": _HISTORY}
    (directory / "allurerc.json").write_text(json.dumps(allurerc, indent=2) + "\n", encoding="utf-8")


def _property_lines(facts: Mapping[str, str]) -> Iterator[str]:
    for name, text in facts.items():  # Java properties end a key at the first space, ``=`` or ``:``
        value = text.replace(chr(92), 2 * chr(92)).replace(chr(10), " ")
        yield f"{re.sub('[ =:]', '_', name)}={value}\n"


def environment(run: RunData) -> dict[str, str]:
    shown = {"testbed": run.testbed.name, "profile": run.profile, "nfvperf": run.tool_version, "python": run.python}
    if run.dut is not None:
        what = versions_text(replace(run.dut, dpdk_version=None))
        shown |= {"dut": f"{what} ({run.dut.kind})", "dut.dpdk": run.dut.dpdk_version or "none"}
    if run.generator is not None:
        shown["generator"] = f"{run.generator.engine} {run.generator.version}"
    return shown | dict(flattened(run.fingerprint))


def executor(environ: Mapping[str, str]) -> dict[str, str]:
    """The CI job, named by its environment variables, or a person's machine."""
    if "GITHUB_RUN_ID" in environ:
        url = f"{environ.get('GITHUB_SERVER_URL', '')}/{environ.get('GITHUB_REPOSITORY', '')}"
        run = environ["GITHUB_RUN_ID"]
        return {"name": "GitHub Actions", "type": "github", "buildName": run, "buildUrl": f"{url}/actions/runs/{run}"}
    for known, name, kind, build, url in (
        ("GITLAB_CI", "GitLab CI", "gitlab", "CI_JOB_NAME", "CI_PIPELINE_URL"),
        ("JENKINS_URL", "Jenkins", "jenkins", "BUILD_TAG", "BUILD_URL"),
    ):
        if known in environ:
            named = {"buildName": environ.get(build, ""), "buildUrl": environ.get(url, "")}
            return {"name": name, "type": kind, **named}
    return {"name": "local", "type": "local", "buildName": "pytest"}
