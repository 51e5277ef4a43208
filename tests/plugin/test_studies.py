"""Comparisons as a suite writes them, on a simulated DUT."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

STUDY = '''
import pytest
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.plugin.labels import compares, sweep

@pytest.mark.nfv(topology="chain")
@sweep("tso", [True, False], quick={True})
@compares("bridges", range(1, 5), quick=(1, 4))
def test_chain(tso, bridges, study, sla):
    """Steps: compare. Verify: the SLA."""
    chains = [Subject(str(number), bridge_chain(number)) for number in bridges]
    sla.check_each(study.forwarding_rate("bridges", chains, Traffic(frame_size=64)))
'''

SIMULATED = """
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.adapters.generators.fake import FakeGenerator

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6, noise=0.002, ceiling_fps=9.1e6))
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
    result.stdout.fnmatch_lines(["* 1 *Mpps * no SLA", "* 4 *Mpps * % *.. * % PASS"])
    first, last = records(pytester.path, "outcome")
    assert (dict(first["data"]["labels"])["bridges"], dict(last["data"]["labels"])["bridges"]) == ("1", "4")
    assert len(last["data"]["samples"][0]["values"]) >= 5
    (verdict,) = records(pytester.path, "verdict")
    assert "interleaved rounds" in verdict["data"]["confidence"]


def test_a_failure_shows_the_topology_of_the_subject_that_failed(chain, pytester):
    """The chain of one bridge fails, the chain of four is the one that is deployed last."""
    result = chain("where: {bridges: 1}, require: {forwarding_rate: '>= 90 Mpps'}")

    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(["SLA of *, 1", "  bridge, tso on: 1 FAIL", "*- topology chain-1 · dpdk datapath -*"])
    result.stdout.fnmatch_lines(["*p0 <-> p1"])
    result.stdout.no_fnmatch_line("*ovs-4*")
    names = [record["data"]["name"] for record in records(pytester.path, "attachment")]
    assert names == [f"OVS configuration: {chain} · dpdk datapath" for chain in ("chain-1", "chain-4-patch")]


def test_a_failure_of_many_subjects_draws_two_and_names_the_others(chain):
    result = chain("require: {forwarding_rate: '>= 90 Mpps'}", "--nfv-profile", "gate", "-k", "on and bridges_1_to_4")

    assert result.ret == 1
    drawn = [line.strip("- ") for line in result.outlines if line.startswith("---") and " topolog" in line]
    assert drawn == ["topology chain-1 · dpdk datapath", "topology chain-2-patch · dpdk datapath", "topologies"]
    result.stdout.fnmatch_lines(["*too, which the report draws: chain-3-patch · dpdk datapath; chain-4-patch · dpdk*"])


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
    result.stderr.fnmatch_lines(["*sla.yaml:2: rules[[]0].where.tsoo: unknown selector 'tsoo', did you mean 'tso'*"])


def test_a_rule_on_a_subject_that_no_test_compares_matches_nothing(chain, pytester):
    pytester.makefile(
        ".yaml", given="schema: 1\nrules: [{where: {bridges: 7}, require: {forwarding_rate: '>= 1 Mpps'}}]"
    )

    result = chain("require: {forwarding_rate: '>= 1 Mpps'}", "--nfv-sla", "given.yaml")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no test matches {bridges: 7}*"])


MIRROR = """
from pytest_nfvperf.model.topology.parts import mirror, monitor
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.topology.workloads import vm_chain
from pytest_nfvperf.measure.mirror_cost import MirrorLoad
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.plugin.labels import compares

CASES = {"none": vm_chain(2), "all": vm_chain(2, monitor("m0", "br0"), mirror("all", "br0", "m0"))}

@compares("case", CASES, quick=CASES)
def test_mirror(case, study):
    load = MirrorLoad(share=0.5, share_of="ndr")
    without, mirrored = study.mirror_cost(
        "case", [Subject(name, CASES[name]) for name in case], Traffic(frame_size=64, bidirectional=False), load
    )
"""


def test_a_mirrors_load_is_a_share_of_an_ndr_that_is_searched_for_once(pytester):
    """By the plan, which runs the very test: of the simulated 4 Mpps one search, and half of what it found."""
    make_project(pytester, MIRROR)

    plan = pytester.runpytest_subprocess("mine", "--nfv-plan", "-v")

    assert plan.ret == 0
    lines = plan.outlines
    assert sum(line.endswith("confirmation of ndr") for line in lines) == 1
    (calm,) = {line.split(" at ")[1].split("Mpps")[0].strip() for line in lines if line.endswith("mirror completeness")}
    assert 1.5 < float(calm) < 2.1


TCP = """
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.plugin.labels import compares

@compares("bridges", (1, 2, 4), quick=(1, 2, 4))
def test_tcp(bridges, study, sla):
    chains = [Subject(str(number), bridge_chain(number, ends="namespace")) for number in bridges]
    sla.check_each(study.tcp_throughput("bridges", chains, streams=2))
"""


def test_streams_are_planned_and_their_engine_may_be_missing(pytester):
    missing = (
        "    backend.lacks_streams = lambda: 'iperf3 is not installed: apt-get install iperf3'\n    return backend\n"
    )
    without = SIMULATED.replace("    return Sim", "    backend = Sim").rstrip() + "\n" + missing
    make_project(pytester, TCP, CONFTEST + without)

    plan = pytester.runpytest_subprocess("mine", "--nfv-plan")
    plan.stdout.fnmatch_lines(["*test_tcp*: about * s: 15 x 2 TCP streams 1.00 s"])

    result = pytester.runpytest_subprocess("mine", "--nfv-report", "none", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*1 test skipped: iperf3 is not installed: apt-get install iperf3"])
