"""JUnit: an outcome as properties of a test, and the results of all tests in the file that pytest wrote.

pytest knows two kinds: a failure is what a test raises, an error what its fixtures raise. Here a failure is a FAIL (an
SLA or an assertion). Whatever says nothing about the DUT is an error.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.figures import class_figures, plateau, typical_latency, whole_figures
from pytest_nfvperf.adapters.report.subjects import subject_of
from pytest_nfvperf.adapters.report.texts import figures_text
from pytest_nfvperf.model.display import format_against, format_margin, visible
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion, TestResult
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.compare import ComparisonData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.statistics import Bound

RESULT, REASON = "nfvperf.result", "nfvperf.reason"
ATTEMPT = "nfvperf.attempt"
"""Which attempt it was, from 2 on, if another plugin repeated the test."""

_KINDS = {
    TestResult.FAILED: "failure",
    TestResult.ERROR: "failure",
    TestResult.INCONCLUSIVE: "error",
    TestResult.BROKEN: "error",
    TestResult.USAGE: "error",
    TestResult.INTERNAL: "error",
    TestResult.UNFINISHED: "error",
    TestResult.NOT_RUN: "skipped",
}
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
_WRONG = ("failure", "error")


def split_node_id(node_id: str) -> tuple[str, list[str], str]:
    """Path, classes and name of ``a/test_b.py::TestC::test_d[fd00::1]``; no name where it is a file's alone.

    The name keeps its parameters, which may have colons of their own.
    """
    path, _, inside = node_id.partition("::")
    names, bracket, parameters = inside.partition("[")
    *classes, name = names.split("::")
    return path, classes, name + bracket + parameters


def module_of(path: str) -> str:
    """``a.test_b`` of ``a/test_b.py``."""
    return path.removesuffix(".py").replace("/", ".")


def junit_properties(
    outcomes: Sequence[Outcome], verdicts: Sequence[Verdict] = (), since: Sequence[ComparisonData] = ()
) -> list[tuple[str, str]]:
    """(name, value) pairs of a test: its figures as the terminal and the page show them, then in base units.

    Those are labels, frames/s per direction, latency in ns. Verdicts have the text that a table shows. Unmeasured
    figures are absent.
    """
    pairs: list[tuple[str, object]] = [("figures", figures_text(outcomes, since) or None)]
    for outcome in outcomes:
        pairs += _of_outcome(outcome)
    for verdict in verdicts:
        about = subject_of(verdict, verdicts)
        name = f"{verdict.requirement} ({about})" if about else verdict.requirement
        pairs += [(f"verdict.{name}", verdict.judgement.value)]
        if verdict.observed is not None:
            pairs += [(f"observed.{name}", format_against(verdict.observed, verdict.limit, verdict.unit))]
        if verdict.margin is not None:
            pairs += [(f"margin.{name}", format_margin(verdict.margin, verdict.times_limit))]
    return [(visible(f"nfvperf.{name}"), visible(str(value))) for name, value in pairs if value is not None]


def _of_outcome(outcome: Outcome) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [(f"label.{name}", value) for name, value in outcome.labels]
    pairs += [("algorithm", outcome.algorithm), ("dut_counted", "; ".join(outcome.dut_counted) or None)]
    for goal in outcome.goals:
        pairs.append((f"{goal.goal.name}.status", goal.status.value))
        if goal.load_fps is not None:
            pairs += _bounded(f"{goal.goal.name}.load_fps", outcome.figure(goal.goal.name, "pps"))
    pairs += _bounded("forwarding_rate.fps", plateau(outcome))
    point = typical_latency(outcome)
    if point is not None:
        pairs += [("latency.at", point.at), ("latency.p50_ns", point.p50_ns), ("latency.p99_ns", point.p99_ns)]
    for figure in whole_figures(outcome):
        pairs += _bounded(figure.metric, figure)
    for row in class_figures(outcome):
        prefix = f"class.{row.name}.at {row.at}"
        pairs += [(f"{prefix}.rate", row.rate), (f"{prefix}.lost", row.lost), (f"{prefix}.p99", row.p99)]
    return pairs


def result_properties(became: TestConclusion) -> list[tuple[str, str]]:
    reason = [(REASON, visible(became.reason))] if became.reason else []
    return [(RESULT, str(became.result)), *reason]


def _bounded(name: str, seen: Figure | None) -> list[tuple[str, object]]:
    """The value, what kind of bound it is, and its interval if that has two ends."""
    if seen is None:
        return []
    metric, of_rate = seen.metric, "_fps" if seen.unit == "pps" else ""
    pairs: list[tuple[str, object]] = [(name, round(seen.value) if of_rate else seen.value)]
    pairs += [(f"{metric}.bound", str(seen.bound) or None), (f"{metric}.why", seen.detail or None)]
    if seen.bound is Bound.BETWEEN:
        ends = zip(("low", "high"), seen.interval, strict=True)
        pairs += [(f"{metric}.{end}{of_rate}", round(value) if of_rate else value) for end, value in ends]
    return pairs


def write_junit(path: Path, conclusion: RunConclusion) -> None:
    """Rewrite a JUnit file, whole or not at all. It can be rewritten again for another conclusion.

    Each test that ended has its result as property ``nfvperf.result``. If there is no file, nothing is done. OSError
    if it cannot be written; xml.etree.ElementTree.ParseError if another plugin wrote what is no XML.
    """
    if not path.is_file():
        return
    tree = ET.parse(path)  # noqa: S314 - pytest wrote it
    known = {_name(case): case for case in (_case_of(test) for test in conclusion.tests if test.result in _KINDS)}
    for suite in tree.iter("testsuite"):
        for nameless in [case for case in suite.iter("testcase") if case.get("name") is None]:
            suite.remove(nameless)  # pytest's, of a test that was interrupted
        _keep_last_attempts(suite)
        cases = list(suite.iter("testcase"))
        with_result = {_name(case) for case in cases if _property(case, RESULT)}
        for case in cases:
            if (name := _name(case)) in known and name not in with_result:  # its process died: xdist has the crash only
                case.extend(known[name].findall("properties"))
                with_result.add(name)
            _write_kind(case, cases)
        written = {_name(case) for case in cases}
        made = [
            _case_of(test) for test in conclusion.tests if test.result in {TestResult.NOT_RUN, TestResult.UNFINISHED}
        ]
        suite.extend(case for case in made if _name(case) not in written)
        _write_run(suite, conclusion)
        kinds = Counter(child.tag for case in suite.iter("testcase") for child in case)
        for attribute, kind in _COUNTED.items():
            suite.set(attribute, str(kinds[kind]))
        suite.set("tests", str(len({_name(case) for case in suite.iter("testcase")})))
    content = io.BytesIO()
    tree.write(content, encoding="utf-8", xml_declaration=True)
    write_whole(path, content.getvalue())


def _keep_last_attempts(suite: ET.Element) -> None:
    """Pytest writes a testcase for each attempt of a test that another plugin repeated. Keep the last one."""
    cases = list(suite.iter("testcase"))
    last = {_name(case): index for index, case in enumerate(cases) if _property(case, ATTEMPT)}
    for index, case in enumerate(cases):
        if index < last.get(_name(case), 0):
            suite.remove(case)


def _write_kind(case: ET.Element, cases: list[ET.Element]) -> None:
    """Make the testcase a failure or an error. If a teardown fails, pytest writes two; the second has the result."""
    found = _property(case, RESULT) or next(
        (value for other in cases if _name(other) == _name(case) and (value := _property(other, RESULT))), None
    )
    kind = _KINDS.get(TestResult(found)) if found else None
    wrong = [child for child in case if child.tag in _WRONG]
    tolerated = found == TestResult.INCONCLUSIVE and not wrong
    if kind is None or tolerated:
        return
    for child in wrong or [ET.SubElement(case, kind, message=_property(case, REASON) or "")]:
        child.tag = kind
        child.set("type", f"nfvperf.{found}")


def _case_of(test: TestConclusion) -> ET.Element:
    path, classes, name = split_node_id(visible(test.node_id))
    case = ET.Element("testcase", classname=".".join([module_of(path), *classes]), name=name, time="0")
    properties = ET.SubElement(case, "properties")
    for key, value in ((RESULT, str(test.result)), (REASON, visible(test.reason))):
        ET.SubElement(properties, "property", name=key, value=value)
    kind = _KINDS[test.result]
    ET.SubElement(case, kind, type=f"nfvperf.{test.result}", message=visible(test.reason))
    return case


def _write_run(suite: ET.Element, conclusion: RunConclusion) -> None:
    properties = suite.find("properties")
    if properties is None:
        properties = ET.Element("properties")
        suite.insert(0, properties)
    for earlier in [each for each in properties if each.get("name", "").startswith("nfvperf.")]:
        properties.remove(earlier)
    facts = {"run": str(conclusion.result), "exit_status": str(conclusion.exit_status), "headline": conclusion.headline}
    facts |= {name: text for name in ("rig", "reason", "advice") if (text := getattr(conclusion, name))}
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=f"nfvperf.{name}", value=visible(value))


def _name(case: ET.Element) -> tuple[str | None, str | None]:
    return case.get("classname"), case.get("name")


def _property(case: ET.Element, name: str) -> str | None:
    return next((each.get("value") for each in case.iter("property") if each.get("name") == name), None)
