"""``--nfv-virtual-time`` outside a guest: what it cannot be combined with, and what the tests of virtual time say."""

from __future__ import annotations

import shutil

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.guest import tools

SUITE = """
from pytest_nfvperf import Subject, Traffic, phy2phy

def test_cost(study, sla):
    sla.check_each(study.instructions_per_packet("side", [Subject("a", phy2phy()), Subject("b", phy2phy())], Traffic()))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    make_project(pytester, SUITE, CONFTEST)
    return pytester


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--nfv-plan", "a plan tells how long trials take by the clock"),
        ("--nfv-record=there", "its generator has no conversation to record"),
        ("--nfv-resume=there", "what was counted in another guest is counted anew"),
        ("--nfv-testbed=lab.yaml", "the testbed is the guest's own: a private OVS without DPDK"),
        ("-n2", "instructions are counted on one CPU, by one process"),
    ],
)
def test_what_has_no_meaning_there_is_a_usage_error(project: pytest.Pytester, option: str, told: str) -> None:
    result = project.runpytest("--nfv-virtual-time", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0].rstrip("2")
    result.stderr.fnmatch_lines([f"*{name} cannot be combined with --nfv-virtual-time: {told}; leave it out"])


def test_a_machine_without_a_guests_programs_is_told_what_to_install(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "apt-get" else which(name))
    result = project.runpytest_inprocess("--nfv-virtual-time")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nfv-virtual-time: the guest needs apt-get*"])


def test_by_the_clock_its_tests_are_skipped_with_what_to_do(project: pytest.Pytester) -> None:
    result = project.runpytest("-rs", "--nfv-plan")
    result.stdout.fnmatch_lines(["*instructions_per_packet is counted in virtual time only: add --nfv-virtual-time*"])
