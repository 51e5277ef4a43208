"""``--nfv-plan -v`` draws the packets of a suite, and finds those that cannot be sent and tests that cannot run."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project

TEST = """
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf import Traffic, Vary

GTPU = Ether() / IP() / UDP() / GTP_U_Header(teid=5) / IP() / UDP()


def test_gtpu(search, phy2phy, sla):
    vary = [Vary("GTP_U_Header.teid", 1000), Vary("IP[2].dst", 7, order="random")]
    sla.check(search.ndr_pdr(phy2phy, Traffic(packet=GTPU, frame_size=128, vary=vary)))


def test_small(search, phy2phy, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(packet=GTPU)))
"""


def test_a_packet_is_drawn_before_it_is_sent(pytester):
    make_project(pytester, TEST, CONFTEST)
    plan = pytester.runpytest_subprocess("mine", "--nfv-plan", "-v", "-k", "gtpu")
    plan.stdout.fnmatch_lines(
        [
            "*│ Ether │ IP │ UDP │ GTP_U_Header │ IP │ UDP │ signature │ pattern │",
            "*GTP_U_Header.teid: 1,000 values",
            "*IP[[]2].dst: 7 values, in a fixed random order",
            "*counted jointly: 7,000 different headers",
            "*one frame, of 128 bytes with FCS, without the pattern at its end:",
            "*0000  02 00 00 00 00 02 02 00 00 00 00 01 08 00 45 00",
        ]
    )


def test_a_packet_that_does_not_fit_is_a_usage_error(pytester):
    make_project(pytester, TEST, CONFTEST)
    plan = pytester.runpytest_subprocess("mine", "--nfv-plan", "-k", "small")
    text = plan.stdout.str() + plan.stderr.str()
    assert (
        "Ether / IP / UDP / GTP_U_Header / IP / UDP needs at least 96 bytes (with FCS), and the traffic has frames "
        "of 64: headers 78, signature 14, FCS 4"
    ) in " ".join(text.split())


ERRORS = """
import pytest
from pytest_nfvperf import Traffic


@pytest.fixture
def setting():
    raise ValueError("no such setting")


def test_key(phy2phy, search):
    {"a": 1}["b"]


def test_fixture(setting, phy2phy, search):
    search.ndr_pdr(phy2phy)


def test_before(phy2phy, search):
    assert 1 == 2, "own words"
    search.ndr_pdr(phy2phy)


def test_of_figures(phy2phy, search):
    assert search.ndr_pdr(phy2phy, Traffic()).goal("ndr").load_fps > 1e12


def test_fails(phy2phy, search):
    if search.ndr_pdr(phy2phy, Traffic()).goal("ndr").load_fps < 1e12:
        pytest.fail("too slow")
"""


def test_an_error_in_a_tests_own_code_is_named_and_no_plan(pytester):
    """What a test asserts of figures is no error: a plan has none."""
    plan = make_project(pytester, ERRORS, CONFTEST).runpytest_subprocess("mine", "--nfv-plan")
    lines = [line for line in plan.outlines if "::" in line]
    assert [line.removeprefix("mine/test_mine.py::") for line in lines[:3]] == [
        "test_key: cannot be planned: KeyError: 'b' (test_mine.py:12)",
        "test_fixture: cannot be planned: ValueError: no such setting (test_mine.py:8)",
        "test_before: cannot be planned: AssertionError: own words (test_mine.py:20)",
    ]
    assert lines[3].startswith("mine/test_mine.py::test_of_figures: about ")
    assert lines[4].startswith("mine/test_mine.py::test_fails: about ")
    assert plan.ret == pytest.ExitCode.TESTS_FAILED
