"""A run as Markdown, for the summary page of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_nfvperf.adapters.evidence.comparison import compared_run
from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.comparison import comparison_rows, heading
from pytest_nfvperf.adapters.report.run_facts import not_for_testbed_lines, simulated_lines, versions_text
from pytest_nfvperf.adapters.report.texts import figures_text, short_node_id, since_lines
from pytest_nfvperf.model.display import MISSING, visible
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult, TestConclusion, TestResult
from pytest_nfvperf.model.evidence.rig_condition import Grade
from pytest_nfvperf.model.measure.compare import Word

MOST_BYTES = 1_000_000
"""GitHub shows no summary of a step that is longer than 1 MiB."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_MARKS = {
    TestResult.PASSED: "✅",
    TestResult.FAILED: "❌",
    TestResult.BROKEN: "⛔",
    TestResult.ERROR: "⛔",
    TestResult.USAGE: "⛔",
    TestResult.INTERNAL: "⛔",
    TestResult.INCONCLUSIVE: "⚠️",
}
_RUN_MARKS = {RunResult.ACCEPTED: "✅", RunResult.PASSED: "☑️", RunResult.FAILED: "❌", RunResult.INCONCLUSIVE: "⚠️"}
_RIG_MARKS: dict[str, str] = {Grade.QUIET: "✅", Grade.DISTURBED: "⚠️", Grade.UNTRUSTED: "⛔"}
_WORD_MARKS: dict[str, str] = {Word.FASTER: "✅", Word.SAME: "✅", Word.SLOWER: "❌", Word.CANNOT_TELL: "⚠️"}
_COMPARED = "| | test | side | metric | baseline | ratio | visible | |\n|---|---|---|---|---|---|---|---|"
_HEAD = "| | test | figures | result |\n|---|---|---|---|"


def markdown(run: RunEvidence, conclusion: RunConclusion, most_bytes: int = MOST_BYTES) -> str:
    """The result of the run, its rig, and a line a test, the gravest first.

    ``most_bytes``: length at which the table ends, with the number of tests that are left out.
    """
    mark = "⚠️" if conclusion.is_untrusted else _RUN_MARKS.get(conclusion.result, "⛔")
    top = [f"## {mark} {escaped(conclusion.headline)}", ""]
    if conclusion.rig:
        top += [f"{_RIG_MARKS[conclusion.rig]} **Rig: {conclusion.rig}**", ""]
    for line in filter(None, [*simulated_lines(run), conclusion.reason]):
        top += [escaped(line), ""]
    if conclusion.advice:
        top += [f"*{escaped(conclusion.advice)}.*", ""]
    top += [*_facts(run), "", *_comparison(run, conclusion)]
    rows = [_row(run, test) for test in conclusion.tests]
    return "\n".join([*top, *_fitting(rows, most_bytes - _size(top))]) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def _facts(run: RunEvidence) -> list[str]:
    data = run.run
    if data is None:
        return []
    dut = [("DUT", f"{versions_text(data.dut)}, {data.dut.kind} datapath")] if data.dut is not None else []
    cpu = data.fingerprint.get("cpu_model")
    machine = [("machine", f"{cpu}, kernel {data.fingerprint.get('kernel', 'unknown')}")] if cpu else []
    did = run.machine.did
    rig = [f"- {escaped(str(did))}"] if did is not None else []
    left = [("not selected", line.partition(": ")[2]) for line in not_for_testbed_lines(run.not_for_testbed)]
    listed = [("profile", data.profile), ("testbed", data.testbed.name), *dut, *machine, *left]
    since = [f"- {escaped(line)}" for line in since_lines(run)]
    return [*(f"- {escaped(name)}: {escaped(value)}" for name, value in listed), *rig, *since]


def _comparison(run: RunEvidence, conclusion: RunConclusion) -> list[str]:
    """Of a run that compares versions or settings: what each side is, and the figures that decide."""
    compared = compared_run(run, conclusion)
    if compared is None:
        return []
    lines = [f"- {escaped(line)}" for line in heading(compared)]
    rows = [row for row in comparison_rows(compared) if row.decides]
    if rows:
        lines += ["", _COMPARED]
    for row in rows:
        ratio = row.ratio if row.ratio == MISSING else f"{row.ratio} ({row.interval})"
        cells = (row.test, row.side, row.metric, row.baseline, ratio, row.visible)
        mark = _WORD_MARKS.get(row.word, "⛔")
        lines.append(f"| {mark} | {' | '.join(map(escaped, cells))} | **{escaped(row.word)}** |")
    return [*lines, ""]


def _row(run: RunEvidence, test: TestConclusion) -> str:
    evidence = run.tests.get(test.node_id)
    figures = "" if evidence is None else figures_text([*evidence.outcomes.values()], evidence.comparisons.values())
    reason = test.full_reason or test.reason
    became = f"**{escaped(test.badge)}**" + (f": {escaped(reason)}" if reason else "")
    return (
        f"| {_MARKS.get(test.result, '▫️')} | {escaped(short_node_id(test.node_id))} | {escaped(figures)} | {became} |"
    )


def _fitting(rows: Sequence[str], room: int) -> Iterable[str]:
    """As many rows as there is room for, then where to find the others."""
    if not rows:
        return
    yield _HEAD
    room -= _size([_HEAD]) + 100
    for number, row in enumerate(rows):
        room -= _size([row])
        if room < 0:
            yield f"\n{len(rows) - number} more tests are in report.html of the run."
            return
        yield row


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
