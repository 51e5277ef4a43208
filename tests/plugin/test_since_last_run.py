"""Each figure beside the last run in which its test passed, and ``--nfv-fail-below``: the same as a gate."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.report.texts import since_lines
from pytest_nfvperf.session.last_run import FAIL_BELOW, NOT_YET
from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

BACKEND = """
import json
from pathlib import Path

RIG = json.loads(Path(__file__).with_name("rig.json").read_text())

class Backend(SimulatedBackend):
    def fingerprint(self):
        return {"kernel": RIG["kernel"], "cpu_model": "EPYC"}

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed, lambda: FakeGenerator(RIG["mpps"] * 1e6))
"""
SLA = "schema: 1\nrules:\n  - require: {pdr: '>= 3 Mpps'}\n"
SUBJECT = ("pdr", "")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    project(pytester, SEARCH)
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + BACKEND)
    (pytester.path / "rig.json").write_text('{"mpps": 4, "kernel": "6.1"}')
    (pytester.path / "mine/sla.yaml").write_text(SLA)
    return pytester


def run(
    suite: pytest.Pytester, *arguments: str, mpps: float = 4, kernel: str = "6.1", report: str = "none"
) -> tuple[pytest.RunResult, RunEvidence]:
    (suite.path / "rig.json").write_text(json.dumps({"mpps": mpps, "kernel": kernel}))
    result = suite.runpytest_subprocess("--nfv-report", report, *arguments)
    return result, read_run((suite.path / "reports/latest").resolve())


def changes(evidence: RunEvidence) -> dict[tuple[str, str], tuple[str, str]]:
    """Of each metric and load: the word, and the run that it is compared with."""
    return {
        (metric.metric, metric.at): (str(metric.word), one.baseline)
        for one in evidence.comparisons.values()
        for side in one.sides
        for metric in side.metrics
    }


def test_runs_in_a_row_say_same_worse_and_that_the_rig_differs(suite):
    first, one = run(suite)
    assert (first.ret, changes(one), since_lines(one)) == (0, {}, []), "there is nothing to compare with"

    same, two = run(suite, "--junitxml", "junit.xml")
    assert changes(two)[SUBJECT] == ("same", one.run_id)
    same.stdout.fnmatch_lines(["*PDR 3.99 Mpps (+0.0 %, same)*", "*since the*", f"since {one.run_id}: * same"])
    assert "PDR 3.99 Mpps (+0.0 %, same)" in (suite.path / "junit.xml").read_text()

    worse, three = run(suite, mpps=3.6, report="html")
    assert (worse.ret, changes(three)[SUBJECT]) == (0, ("slower", two.run_id)), "it informs, and fails nothing"
    worse.stdout.fnmatch_lines(["*PDR 3.61 Mpps (-9.6 %, worse)*", "*-10.5 %, worse PASS*"])
    assert "PDR 3.61 Mpps (-9.6 %, worse)" in (three.path / "report.html").read_text()

    other, four = run(suite, kernel="6.18")
    assert (other.ret, changes(four)) == (0, {})
    other.stdout.fnmatch_lines([f"not compared with {three.run_id}: rig differs: kernel 6.1 -> 6.18 (1 subject)"])

    _, five = run(suite, mpps=3.6)
    assert changes(five)[SUBJECT] == ("same", three.run_id), "a run on another rig in between does not hide the last"


def test_afterwards_all_is_shown_as_it_was_though_the_last_run_is_gone(suite):
    _, one = run(suite)
    shown, two = run(suite, mpps=3.6)
    shutil.rmtree(one.path)
    nfvperf = (sys.executable, "-m", "pytest_nfvperf", "show")
    again = suite.run(*nfvperf, str(two.path))
    at_the_time = [line for line in shown.stdout.lines if line.startswith(("ndr_pdr", "pdr", "since"))]
    assert len(at_the_time) == 2
    assert [line for line in again.stdout.lines if line in at_the_time] == at_the_time
    markdown = suite.run(*nfvperf, "--markdown", str(two.path)).stdout.str()
    assert "-9.6 %, worse" in markdown
    assert f"since {one.run_id}" in markdown


def test_what_failed_is_no_last_run_and_what_was_killed_is_as_far_as_it_came(suite):
    _, one = run(suite)
    run(suite, mpps=2.9)
    _, two = run(suite, mpps=3.9)
    assert changes(two)[SUBJECT][1] == one.run_id
    file = two.path / "evidence.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if json.loads(line)["kind"] != "run_end"))
    assert changes(run(suite)[1])[SUBJECT][1] == two.run_id


def test_neither_damaged_results_nor_another_profile_or_test_are_a_last_run(suite):
    _, one = run(suite)
    _, gate = run(suite, "--nfv-profile", "gate")
    assert not changes(gate)
    _, two = run(suite)
    assert changes(two)[SUBJECT][1] == one.run_id
    (two.path / "evidence.jsonl").write_text('{"schema": 99}\n')
    _, three = run(suite, "-n", "1")
    assert changes(three)[SUBJECT][1] == one.run_id
    test = suite.path / "mine/test_mine.py"
    test.write_text(test.read_text().replace("test_pdr", "test_renamed"))
    assert not changes(run(suite)[1])


def test_the_gate_judges_from_the_second_run_on_without_an_sla(suite):
    (suite.path / "mine/sla.yaml").unlink()
    below = (FAIL_BELOW, "97 % of last")
    first, one = run(suite, *below)
    assert (first.ret, one.verdicts) == (0, {})
    first.stdout.fnmatch_lines([f"{NOT_YET} (1 subject)"])
    same, two = run(suite, *below)
    assert same.ret == 0
    assert {(one.requirement, one.judgement) for one in two.verdicts.values()} == {
        ("ndr >= 97 % of last", "PASS"),
        ("pdr >= 97 % of last", "PASS"),
    }
    slower, _ = run(suite, *below, mpps=3.6)
    assert slower.ret == 1
    slower.stdout.fnmatch_lines(["FAIL *pdr >= 97 % of last*", "*rule: --nfv-fail-below '97 % of last'"])
    again, four = run(suite, *below, mpps=3.6)
    assert again.ret == 1, "what failed is no limit for the next"
    assert {one.baseline for one in four.comparisons.values()} == {two.run_id}
    named, _ = run(suite, FAIL_BELOW, f"97 % of reports/{one.run_id}", mpps=3.6, kernel="6.18")
    assert named.ret == 1, "of a run that is named, versions may differ"
    first_on_it, _ = run(suite, *below, mpps=3.6, kernel="6.18")
    assert first_on_it.ret == 0
    first_on_it.stdout.fnmatch_lines(["not compared with *: rig differs: kernel 6.1 -> 6.18*", f"{NOT_YET}*"])


def test_a_test_that_asks_for_no_verdict_is_told_of_the_gate(suite):
    (suite.path / "mine/sla.yaml").unlink()
    test = suite.path / "mine/test_mine.py"
    test.write_text(test.read_text().replace("sla.check(", "(").replace(", sla", ""))
    run(suite, FAIL_BELOW, "97 % of last")
    result, _ = run(suite, FAIL_BELOW, "97 % of last", mpps=3.6)
    result.stdout.fnmatch_lines(["*--nfv-fail-below '97 % of last' would apply, and nothing called sla.check()*"])


def test_a_figure_that_the_rig_bounds_is_inconclusive(suite):
    conftest = suite.path / "conftest.py"
    run(suite)
    conftest.write_text(conftest.read_text().replace("* 1e6)", "* 1e6, ceiling_fps=3e6)"))
    result, evidence = run(suite, FAIL_BELOW, "97 % of last")
    assert result.ret == 10
    assert {str(one.judgement) for one in evidence.verdicts.values() if "last" in one.requirement} == {"INCONCLUSIVE"}
    assert changes(evidence)[SUBJECT][0] == "cannot tell"


def test_a_resumed_run_is_judged_by_a_gate_that_it_did_not_have(suite):
    run(suite)
    _, two = run(suite, mpps=3.6)
    file: Path = two.path / "evidence.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if json.loads(line)["kind"] != "run_end"))
    result, evidence = run(suite, "--nfv-resume", "reports/latest", FAIL_BELOW, "97 % of last", mpps=3.6)
    assert result.ret == 1
    assert evidence.run_id == two.run_id
    assert len(evidence.trials) == len(two.trials), "its figures suffice"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["97"], "'97' is no share of a run, up to 100 %: write '97 % of last', or '97 % of DIR'"),
        (["97 of last"], "'97 of' needs a per cent sign: write '97 % of'"),
        (["120 % of last"], "'120 % of last' is no share of a run, up to 100 %*"),
        (
            ["97 % of nowhere"],
            "'nowhere' is no run: write 'last', the results of an earlier run, or --nfv-baseline DIR",
        ),
        (["97 % of baseline"], "'baseline' is no run: *--nfv-baseline DIR"),
        (["97 % of mine", "--nfv-baseline", "x"], "the baseline is x: write '97 % of baseline'"),
    ],
)
def test_nonsense_is_a_usage_error_before_anything_is_measured(suite, arguments, answer):
    result = suite.runpytest_subprocess(FAIL_BELOW, *arguments)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*--nfv-fail-below: {answer}"])
