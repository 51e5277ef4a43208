"""``--nfv-plan`` for what runs between two namespaces: requests and connects (streams: test_studies)."""

from __future__ import annotations

from user_project import CONFTEST, make_project

TEST = """
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.measure.measurements import Subject

CHAINS = [Subject(str(number), bridge_chain(number, ends="namespace")) for number in (1, 2)]

def test_responses(study, sla):
    sla.check_each(study.response_time("bridges", CHAINS, message_bytes=1000))

def test_connects(study, sla):
    sla.check_each(study.connect_rate("bridges", CHAINS, connects=2000))
"""


def test_requests_and_connects_are_planned(pytester):
    make_project(pytester, TEST, CONFTEST)
    plan = pytester.runpytest_subprocess("mine", "--nfv-plan")
    plan.stdout.fnmatch_lines(
        [
            "*test_responses: about * s: 10 x requests of 1000 bytes 1.00 s",
            "*test_connects: about * s: 10 x 2,000 connects",
            "2 tests, 20 trials, about *",
        ]
    )
