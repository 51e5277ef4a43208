"""An error that our own code did not mean to raise is told as ours, and never as the DUT's."""

from __future__ import annotations

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

OWN_NAMESPACE = """
import json
import pytest

from pytest_nfvperf.model.traffic.traffic import Traffic


@pytest.mark.parametrize("number", [1, 2])
def test_library(phy2phy, search, number):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_limits_of", json.loads)
        search.ndr_pdr(phy2phy, Traffic(frame_size=64))


def test_users_own(phy2phy, search):
    json.loads(5)


def test_users_callback(phy2phy, search):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_limits_of", lambda live, traffic: {}[0])
        search.ndr_pdr(phy2phy, Traffic(frame_size=64))


def test_assertion(phy2phy):
    assert phy2phy is None


@pytest.fixture
def users_fixture():
    return {}[0]


def test_fixture(users_fixture, phy2phy):
    pass
"""


def test_whose_fault_it_is(pytester: pytest.Pytester) -> None:
    make_project(pytester, OWN_NAMESPACE, CONFTEST + SIMULATED)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--junitxml", "junit.xml")
    assert result.ret == 3
    lines = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*internal error of nfvperf, which says nothing about the DUT*",
            "INTERNAL*/test_library?1?: TypeError: *",
            "INTERNAL*/test_library?2?: TypeError: *",
            "BROKEN*/test_fixture: KeyError: 0",
            "FAIL*/test_assertion: *",
            "ERROR*/test_users_own: TypeError: *",
            "ERROR*/test_users_callback: KeyError: 0",
        ]
    )
    last = next(line for line in lines.splitlines() if line.startswith("nfvperf: Internal error"))
    assert (
        "Internal error: of 6 selected tests 2 internal errors, 1 testbed broken, 1 failed, 2 errors of tests." in last
    )
    assert "says nothing about the DUT: report it with the traceback, the run's evidence.jsonl" in last
    assert "change the DUT" not in last
    assert 'name="nfvperf.result" value="internal error"' in (pytester.path / "junit.xml").read_text()
