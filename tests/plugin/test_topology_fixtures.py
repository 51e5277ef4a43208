"""Topologies made of fixtures, and datapaths that a machine lacks, as a suite's author meets them."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

REASON = "no openvswitch module in this kernel; boot one that has it, or run `make test-kernel`"
SIMULATED = f"""
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Backend(SimulatedBackend):
    def lacks(self, dut):
        return {REASON!r} if dut.kind == "system" else None

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed, lambda: FakeGenerator(4e6))
"""

DUTS = """
import pytest
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.traffic.traffic import Traffic

@pytest.mark.parametrize("kind", ["netdev", "system"])
@pytest.mark.parametrize("bridges", [1, 2])
def test_chain(bridges, kind, bridge_chain, search):
    live = bridge_chain(bridges, dut=Dut(kind))
    assert live.dut == Dut(kind)
    assert live.name == ("chain-1" if bridges == 1 else "chain-2-patch")
    search.loss_at(live, Traffic(frame_size=64), 1000.0, 1.0)
"""


def project(pytester: pytest.Pytester, suite: str) -> pytest.Pytester:
    return make_project(pytester, suite, CONFTEST + SIMULATED)


def test_a_datapath_that_the_machine_lacks_is_a_skip_that_says_why(pytester):
    result = project(pytester, DUTS).runpytest_subprocess("-rs", "--nfv-report", "none")

    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines([f"SKIPPED [[]2[]] *: {REASON}"])
    ends = [record["data"] for record in records(pytester.path, "test_end")]
    assert [end["reason"] for end in ends if end["status"] == "skipped"] == [REASON, REASON]


def test_the_reason_is_in_the_summary_even_when_nothing_was_measured(pytester):
    result = project(pytester, DUTS).runpytest_subprocess("-k", "system", "--nfv-report", "none")

    result.assert_outcomes(skipped=2, deselected=2)
    result.stdout.fnmatch_lines([f"nfvperf: 2 tests skipped: {REASON}"])


def test_a_plan_needs_nothing_of_the_machine(pytester):
    result = project(pytester, DUTS).runpytest_subprocess("--nfv-plan")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["4 tests, 8 trials, about *"])


def test_a_verbose_plan_draws_what_would_stand(pytester):
    result = project(pytester, DUTS).runpytest_subprocess("--nfv-plan", "-v", "-k", "netdev-2 or 2-netdev")

    result.stdout.fnmatch_lines(
        [
            "*test_chain*2*: about *",
            "    chain-2-patch · netdev datapath · p0 and p1 send to each other",
            "      ovs-1",
            "      ├─ p0         veth   generator",
            "      └─ patch-1-2  patch  to ovs-2 patch-2-1",
        ]
    )


def test_a_failure_shows_the_topology_that_stood(pytester):
    result = project(pytester, "def test_x(phy2phy): assert not phy2phy").runpytest_subprocess("--nfv-report", "none")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- topology phy2phy · dpdk datapath -*",
            "phy2phy · dpdk datapath · p0 and p1 send to each other",
            "     p0 <-> p1",
        ]
    )


COMPOSED = """
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint as make_endpoint
from pytest_nfvperf.model.topology.parts import patch as make_patch
from pytest_nfvperf.model.topology.parts import path as make_path
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_two_bridges(bridge, endpoint, patch, path, deploy):
    a, b = bridge("brA"), bridge("brB")
    endpoint("p0", a)
    endpoint("p1", b)
    patch(a, b)
    path("p0", "p1")
    live = deploy()
    parts = [a, b, make_endpoint("p0", a), make_endpoint("p1", b), make_patch(a, b), make_path("p0", "p1")]
    assert live.topology == compose("two_bridges", *parts)
    assert deploy() is live

def test_name(bridge, deploy):
    bridge("brA")
    assert deploy(name="one").name == "one"

def test_everything(endpoint, vnf, veth, namespaces, namespace, router, tunnel, deploy):
    endpoint("p0", "brA"), endpoint("p1", "brB")
    vnf("v1", "brA", "brB")
    veth("brA", "brB")
    namespaces("left", "right", bridge="brA", mtu=1450)
    namespace("far", "brB", "10.0.0.1/24", gateway="10.0.0.254")
    router("r", {"brA": "198.18.0.254/24", "brB": "10.0.0.254/24"}, mtu=1450)
    tunnel("brA", local="192.0.2.1", remote="192.0.2.2", key=7)
    live = deploy()
    assert [n.name for n in live.topology.namespaces] == ["left", "right", "far", "r"]
    assert live.netns("left") == "simulated-left"
"""


def test_topologies_of_parts(pytester):
    result = project(pytester, COMPOSED).runpytest_subprocess("--nfv-report", "none")

    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("def test_x(deploy): deploy()", "topology 'x' has no parts: give a topology, or make parts first"),
        ("def test_x(deploy, patch): deploy()", "topology 'x' has no parts: give a topology, or make parts first"),
        (
            "def test_x(deploy, endpoint):\n    endpoint('p0', 'a-bridge-too-long')\n    deploy()",
            "topology 'x': 'a-bridge-too-long' is longer than the 15 bytes that the kernel allows; shorten it",
        ),
        (
            "def test_x(bridge_chain): bridge_chain(0)",
            "bridge_chain(): bridges is 0: write a whole number from 1 to 1000",
        ),
    ],
)
def test_what_is_wrong_with_the_parts_is_said(pytester, suite, message):
    result = project(pytester, suite).runpytest_subprocess("--nfv-report", "none")

    result.assert_outcomes(failed=1)
    assert result.ret == 4
    result.stdout.fnmatch_lines([f"usage error: {message}", "  in mine/test_mine.py:*"])


CONFIGURED = """
import pytest
from pytest_nfvperf import Subject, Traffic, phy2phy

calls = []

def set_up(live):
    live.deployment.built.ovs("vsctl", "set", "bridge", "br0", "other_config:mac-aging-time=9")
    calls.append(live.name)

def test_set_up(deploy, search, study):
    search.loss_at(deploy(phy2phy(), configure=set_up), Traffic(frame_size=64), 1000.0, 1.0)
    assert calls == ["phy2phy"] * 2, "once built, once built again for a ceiling"
    study.forwarding_rate("kind", [Subject("one", phy2phy()), Subject("two", phy2phy())], Traffic(frame_size=64))
    assert len(calls) > 4, "each subject, in each round"

def test_not_set_up(deploy):
    calls.clear()
    deploy(phy2phy())
    assert not calls, "another test's function"

def test_fails(deploy):
    deploy(phy2phy(), configure=lambda live: {}["vlan"])

def test_no_function(deploy):
    deploy(phy2phy(), configure="set_up")
"""


def test_a_tests_own_function_sets_up_each_build(pytester):
    result = project(pytester, CONFIGURED).runpytest_subprocess("--nfv-report", "none")

    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*KeyError: 'vlan'*", "*deploy(): configure is 'set_up': write a function, or None*"])
    causes = {
        record["test"].partition("::")[2]: record["data"]["cause"] for record in records(pytester.path, "test_end")
    }
    assert (causes["test_fails"], causes["test_no_function"]) == ("test", "usage")
    names = [record["data"]["name"] for record in records(pytester.path, "attachment")]
    assert names.count("configured: phy2phy") > 4


def test_a_plan_sets_up_nothing(pytester):
    result = project(pytester, CONFIGURED).runpytest_subprocess("--nfv-plan", "-k", "test_fails")

    assert result.ret == 0
