"""``--nfv-repeat``: searches several times, and what it answers to a number that is none."""

from __future__ import annotations

import pytest

from tests.plugin.test_mistakes import project

SEARCH = """
from pytest_nfvperf import Traffic

def test_pdr(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
"""

SLA = """
schema: 1
rules:
  - require: {pdr: {repeats: 3, limit: ">= 3.5 Mpps"}}
"""


def test_a_search_is_repeated_and_judged_by_its_interval(pytester):
    project(pytester, SEARCH)
    (pytester.path / "mine/sla.yaml").write_text(SLA.replace("3.5", "4.5"))

    result = pytester.runpytest_subprocess("--nfv-report", "none", "--nfv-repeat", "3")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*FAIL*pdr >= 4.5 Mpps over 3 repeats*", "*the middle of 3*"])


def test_an_sla_that_asks_for_more_says_which_option_is_missing(pytester):
    project(pytester, SEARCH)
    (pytester.path / "mine/sla.yaml").write_text(SLA)

    result = pytester.runpytest_subprocess("--nfv-report", "none")

    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*over 3 repeats can never be judged: asks for 3 repeats, and this run makes one search: add --nfv-repeat 3"]
    )


@pytest.mark.parametrize("given", ["0", "-1", "2.5", "many"])
def test_a_number_of_repeats_that_is_none_is_a_usage_error(pytester, given):
    project(pytester, SEARCH)

    result = pytester.runpytest_subprocess(f"--nfv-repeat={given}")

    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*--nfv-repeat: '{given}' is no number of repeats: write a whole number from 1*"])
