"""``--nfv-baseline``: a run that is judged against an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

SLA = """
schema: 1
rules:
  - require: {pdr: ">= 97 % of baseline"}
"""


def set_up(pytester: pytest.Pytester) -> None:
    project(pytester, SEARCH)
    (pytester.path / "mine/sla.yaml").write_text(SLA)


def run(pytester: pytest.Pytester, *arguments: str, mpps: float = 4) -> pytest.RunResult:
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("FakeGenerator(4e6)", f"FakeGenerator({mpps}e6)"))
    return pytester.runpytest_subprocess("--nfv-report", "none", *arguments)


def test_the_first_run_lacks_a_baseline_and_the_next_are_judged_by_it(pytester: pytest.Pytester) -> None:
    set_up(pytester)
    first = run(pytester, "--nfv-results", "old")
    assert first.ret == 10
    first.stdout.fnmatch_lines(["*no baseline was given: --nfv-baseline DIR names the results of an earlier run*"])

    same = run(pytester, "--nfv-baseline", "old/latest")
    assert same.ret == 0
    slower = run(pytester, "--nfv-baseline", "old/latest", mpps=3.8)
    assert slower.ret == 1
    slower.stdout.fnmatch_lines(["*FAIL*pdr >= 97 % of baseline*", "*3.80 Mpps against 3.99 Mpps*"])


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("nowhere", "*nowhere: no evidence here: expected a results directory with evidence*.jsonl or one such file*"),
        ("empty", "*no evidence here*"),
        ("damaged/evidence.jsonl", "*damaged/evidence.jsonl*line 1*"),
    ],
)
def test_a_baseline_that_is_none_is_a_usage_error_before_anything_is_measured(
    pytester: pytest.Pytester, given: str, answer: str
) -> None:
    set_up(pytester)
    for folder in ("empty", "damaged"):
        Path(pytester.path / folder).mkdir()
    Path(pytester.path / "damaged/evidence.jsonl").write_text("no evidence\n")
    result = run(pytester, "--nfv-baseline", given)
    assert result.ret == 4
    result.stderr.fnmatch_lines([answer])


def test_a_run_that_measured_nothing_is_no_baseline(pytester: pytest.Pytester) -> None:
    set_up(pytester)
    (pytester.path / "mine/test_mine.py").write_text("def test_none(phy2phy, sla):\n    raise ValueError('first')\n")
    (pytester.path / "mine/sla.yaml").unlink()
    run(pytester, "--nfv-results", "old")
    set_again = run(pytester, "--nfv-baseline", "old/latest")
    assert set_again.ret == 4
    set_again.stderr.fnmatch_lines(["*nothing was measured in this run, so it is no baseline*"])
