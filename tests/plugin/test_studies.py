"""Comparisons as a suite writes them, on a simulated DUT."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

STUDY = '''
import pytest
from pytest_nfvperf.model.catalogue import bridge_chain
from pytest_nfvperf.model.traffic import Traffic
from pytest_nfvperf.runs.study import Subject
from pytest_nfvperf.sweep import compares, sweep

@pytest.mark.nfv(topology="chain")
@sweep("tso", [True, False], quick={True})
@compares("bridges", range(1, 5), quick=(1, 4))
def test_chain(tso, bridges, study, sla):
    """Steps: compare. Verify: the SLA."""
    chains = [Subject(str(number), bridge_chain(number)) for number in bridges]
    sla.check_each(study.forwarding_rate("bridges", chains, Traffic(frame_size=64)))
'''

SIMULATED = """
from pytest_nfvperf.simulation import SimulatedWiring
from pytest_nfvperf.adapters.generators.fake import FakeGenerator

def pytest_nfvperf_make_wiring(config, testbed):
    return SimulatedWiring(testbed, lambda: FakeGenerator(4e6, noise=0.002, ceiling_fps=9.1e6))
"""


@pytest.fixture
def chain(pytester):
    """A project with one comparison; runs it with an SLA beside the suite."""
    make_project(pytester, STUDY, CONFTEST + SIMULATED)

    def run(rule: str, *args: str) -> pytest.RunResult:
        (pytester.path / "mine" / "sla.yaml").write_text(f"schema: 1\nrules: [{{{rule}}}]\n")
        return pytester.runpytest_subprocess("mine", "--nfv-report", "none", *args)

    return run


def test_each_subject_is_judged_and_has_a_row(chain, pytester):
    result = chain("where: {bridges: 4, tso: on}, require: {forwarding_rate: '>= 95 % of {bridges: 1}'}")

    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["* 1 *Mpps * no SLA", "* 4 *Mpps * % *.. * % * PASS"])
    first, last = records(pytester.path, "outcome")
    assert (dict(first["data"]["labels"])["bridges"], dict(last["data"]["labels"])["bridges"]) == ("1", "4")
    assert len(last["data"]["samples"][0]["values"]) >= 5
    (verdict,) = records(pytester.path, "verdict")
    assert "interleaved rounds" in verdict["data"]["confidence"]


def test_other_profiles_compare_all(chain):
    result = chain("require: {forwarding_rate: '>= 1 Mpps'}", "--nfv-profile", "gate", "--collect-only", "-q")

    result.stdout.fnmatch_lines(["*bridges_1_to_4*", "2/4 tests collected (2 deselected)*"])
    result.stdout.no_fnmatch_line("*bridges_1_4*")


def test_a_plan_counts_every_reading(chain):
    result = chain("require: {forwarding_rate: '>= 1 Mpps'}", "--nfv-plan")

    result.stdout.fnmatch_lines(["*test_chain*about * s: *10 x warm-up 150 ms, 10 x forwarding rate 300 ms*"])


def test_a_label_that_no_test_has_ends_the_run_before_it_begins(chain):
    result = chain("where: {tsoo: on}, require: {forwarding_rate: '>= 1 Mpps'}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*sla.yaml:2: rules[[]0]: unknown selector 'tsoo', did you mean 'tso'*"])


def test_a_rule_on_a_subject_that_no_test_compares_matches_nothing(chain, pytester):
    pytester.makefile(
        ".yaml", given="schema: 1\nrules: [{where: {bridges: 7}, require: {forwarding_rate: '>= 1 Mpps'}}]"
    )

    result = chain("require: {forwarding_rate: '>= 1 Mpps'}", "--nfv-sla", "given.yaml")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no test matches {bridges: 7}*"])


TCP = """
from pytest_nfvperf.model.catalogue import bridge_chain
from pytest_nfvperf.runs.study import Subject
from pytest_nfvperf.sweep import compares

@compares("bridges", (1, 2, 4), quick=(1, 2, 4))
def test_tcp(bridges, study, sla):
    chains = [Subject(str(number), bridge_chain(number, ends="namespace")) for number in bridges]
    sla.check_each(study.tcp_throughput("bridges", chains, streams=2))
"""


def test_streams_are_planned_and_their_engine_may_be_missing(pytester):
    missing = "    wiring.lacks_streams = lambda: 'iperf3 is not installed: apt install iperf3'\n    return wiring\n"
    without = SIMULATED.replace("    return Sim", "    wiring = Sim").rstrip() + "\n" + missing
    make_project(pytester, TCP, CONFTEST + without)

    plan = pytester.runpytest_subprocess("mine", "--nfv-plan")
    plan.stdout.fnmatch_lines(["*test_tcp*: about * s: 15 x 2 TCP streams 1.00 s"])

    result = pytester.runpytest_subprocess("mine", "--nfv-report", "none", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*1 test skipped: iperf3 is not installed: apt install iperf3"])
