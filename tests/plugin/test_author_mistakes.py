"""Mistakes of the author of a test: usage errors with the line of the test, before a frame is sent."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from user_project import CONFTEST

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""

CALLS = {
    "frame_above_the_mtu": (
        "phy2phy, search",
        "search.ndr_pdr(phy2phy, Traffic(frame_size=9000))",
        (
            "search.ndr_pdr(): port 'p0' of topology 'phy2phy': frame size 9000 needs an MTU of 8982, but the port has "
            "1500: send "
            "at most 1518 bytes (with FCS) or raise the port's mtu"
        ),
    ),
    "tagged_frames_on_an_access_port": (
        "search, deploy",
        (
            "search.ndr_pdr(deploy(nfv.compose('vlan', *(parts.endpoint(p, 'br0', vlan=7) for p in ('p0', 'p1')))), "
            "Traffic(vlan=5))"
        ),
        (
            "search.ndr_pdr(): port 'p0' of topology 'vlan' is an access port, where OVS drops frames that come in "
            "with a tag, as those of tagged IPv4 do: leave its vlan out, give it trunks, or add a path(...)"
        ),
    ),
    "frame_above_the_mtu_of_a_study": (
        "study",
        "study.forwarding_rate('n', [Subject('1', nfv.phy2phy())], Traffic(frame_size=9000))",
        (
            "study(): port 'p0' of topology 'phy2phy': frame size 9000 needs an MTU of 8982, but the port "
            "has 1500: send at most 1518 bytes (with FCS) or raise the port's mtu"
        ),
    ),
    "frame_above_the_mtu_of_copies": (
        "phy2phy, copies",
        "copies(phy2phy, Traffic(frame_size=9000))",
        (
            "copies(): port 'p0' of topology 'phy2phy': frame size 9000 needs an MTU of 8982, but the port has "
            "1500: send "
            "at most 1518 bytes (with FCS) or raise the port's mtu"
        ),
    ),
    "frame_above_the_mtu_of_a_soak": (
        "phy2phy, soak",
        "soak.run(phy2phy, Traffic(frame_size=9000), 1e6, 1.0)",
        (
            "soak.run(): port 'p0' of topology 'phy2phy': frame size 9000 needs an MTU of 8982, but the port has "
            "1500: send "
            "at most 1518 bytes (with FCS) or raise the port's mtu"
        ),
    ),
    "frame_above_the_mtu_of_convergence": (
        "phy2phy, convergence",
        "convergence.read(phy2phy, Traffic(frame_size=9000), [], 1.0)",
        (
            "convergence.read(): port 'p0' of topology 'phy2phy': frame size 9000 needs an MTU of 8982, but the "
            "port has "
            "1500: send at most 1518 bytes (with FCS) or raise the port's mtu"
        ),
    ),
    "half_a_mac": (
        "search",
        "Traffic(src_mac='02:00')",
        (
            "Traffic(): src_mac is '02:00': write a MAC address of one sender, whose first byte is even, such as "
            "'02:00:00:00:00:01', or None"
        ),
    ),
    "float_flows": (
        "search",
        "Traffic(flows=1e6)",
        "Traffic(): flows is 1000000.0: write 1_000_000, a whole number, instead of a decimal one",
    ),
    "swapped": (
        "phy2phy, search",
        "search.ndr_pdr(Traffic(), phy2phy)",
        "search.ndr_pdr(): live is Traffic(...): that is the traffic; the live topology comes first, then the traffic",
    ),
    "a_function": (
        "search",
        "search.ndr_pdr(nfv.phy2phy, Traffic())",
        (
            "search.ndr_pdr(): live is the function phy2phy: call it, if it deploys a topology; else take a "
            "fixture that "
            "deploys one, as in `def test_it(phy2phy, search)`, or write deploy(phy2phy())"
        ),
    ),
    "a_fixtures_function": (
        "vm_chain, search",
        "search.ndr_pdr(vm_chain, Traffic())",
        (
            "search.ndr_pdr(): live is the function chain: call it, if it deploys a topology; else take a "
            "fixture that "
            "deploys one, as in `def test_it(phy2phy, search)`, or write deploy(phy2phy())"
        ),
    ),
    "a_topology": (
        "search",
        "search.throughput(nfv.phy2phy(), Traffic())",
        (
            "search.throughput(): live is Topology(...): that is a topology as data; write deploy(...) around "
            "it, or take a "
            "fixture that deploys one, as in `def test_it(phy2phy, search)`, or write deploy(phy2phy())"
        ),
    ),
    "no_traffic": (
        "phy2phy, search",
        "search.ndr_pdr(phy2phy, 64)",
        "search.ndr_pdr(): traffic is 64: write Traffic(frame_size=64)",
    ),
    "one_endpoint": (
        "endpoint, deploy, search",
        "endpoint('p0', 'brA'); search.ndr_pdr(deploy(name='lonely'), Traffic())",
        (
            "search.ndr_pdr(): topology 'lonely' has no two endpoints that send to each other, only p0: add an "
            "endpoint(...), or "
            "say who sends to whom, such as Direction('p0', 'p0')"
        ),
    ),
    "two_topologies_at_once": (
        "deploy, search",
        "first, second = deploy(nfv.phy2phy()), deploy(nfv.pvp()); search.ndr_pdr(first, Traffic())",
        (
            "topology 'phy2phy' is not deployed any more: 'pvp' was deployed after it, and a testbed has one at "
            "a time. "
            "Measure on the first before you deploy the second; let a test have one fixture that deploys; or "
            "compare both "
            "by study.forwarding_rate(...)"
        ),
    ),
    "an_argument_that_is_none": (
        "phy2phy, search",
        "search.ndr_pdr(phy2phy, Traffic(), latencies=True)",
        (
            "search.ndr_pdr() has no argument 'latencies', did you mean 'latency'? It has live, traffic, latency, "
            "sessions, raise_only, judge_only"
        ),
    ),
    "a_method_that_is_none": (
        "phy2phy, search",
        "search.ndr(phy2phy, Traffic())",
        (
            "Search has no 'ndr', did you mean 'ndr_pdr'? It has back_to_back, ceiling_fps, concurrent, "
            "connection_rate, labels, limits, loss_at, loss_curve, loss_of, "
            "ndr_pdr, profile, throughput"
        ),
    ),
    "a_duration_that_is_none": (
        "phy2phy, search",
        "search.loss_at(phy2phy, Traffic(), 1e6, float('nan'))",
        "search.loss_at(): duration_s is nan: write a number above 0 seconds",
    ),
    "a_subject_that_is_live": (
        "phy2phy, study",
        "study.forwarding_rate('n', [Subject('1', phy2phy)], Traffic())",
        "Subject(): topology is LiveTopology(...): that is deployed already: give the topology as data",
    ),
    "a_number_as_value_of_a_subject": (
        "study",
        "study.forwarding_rate('n', [Subject(4, nfv.phy2phy())], Traffic())",
        "Subject(): value is 4: write '4', a text",
    ),
    "an_outcome_that_is_no_list": (
        "phy2phy, search, sla",
        "sla.check_each(search.loss_at(phy2phy, Traffic(), 1e6, 0.1))",
        "sla.check_each() judges a list of outcomes: write sla.check(outcome) for one",
    ),
}

HEAD = """import pytest_nfvperf as nfv
from pytest_nfvperf import Subject, Traffic, parts

"""


def project(pytester: pytest.Pytester, text: str) -> None:
    pytester.makeconftest(CONFTEST + SIMULATED)
    (pytester.path / "mine").mkdir()
    (pytester.path / "mine/test_mine.py").write_text(HEAD + text)


def calls() -> str:
    return "\n".join(f"def test_{name}({given}):\n    {call}\n" for name, (given, call, _) in CALLS.items())


def trials(path: Path) -> list[str]:
    lines = (path / "reports/latest/evidence.jsonl").read_text().splitlines()
    return [record["test"] for record in map(json.loads, lines) if record["kind"] == "trial"]


@pytest.fixture(scope="module")
def lines_of() -> dict[str, int]:
    """Where each call stands in the file."""
    text = (HEAD + calls()).splitlines()
    return {name: text.index(f"    {call}") + 1 for name, (_, call, _) in CALLS.items()}


def test_each_is_a_usage_error_with_its_line(pytester, lines_of):
    project(pytester, calls())

    result = pytester.runpytest_subprocess("--nfv-report", "none", "-q")

    text = result.stdout.str()
    for name, (_, _, answer) in CALLS.items():
        shown = f"usage error: {answer}\n  in mine/test_mine.py:{lines_of[name]}\n"
        assert shown in text, f"{name}: {shown}"
    assert result.ret == 4
    assert "Traceback" not in text
    assert not re.search(r"\b(BROKEN|testbed error)\b", text)
    result.stdout.fnmatch_lines([f"nfvperf: Usage error: of {len(CALLS)} selected tests {len(CALLS)} usage errors.*"])
    measured = [test for test in trials(pytester.path) if "outcome_that_is_no_list" not in test]
    assert measured == []


def test_a_plan_says_it_as_well(pytester):
    project(pytester, calls())

    result = pytester.runpytest_subprocess("--nfv-plan", "-q")

    for name, (_, _, answer) in CALLS.items():
        assert f"test_mine.py::test_{name}: cannot be planned: usage error: {answer}" in result.stdout.str()
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {len(CALLS)} tests of {len(CALLS)} cannot be run as written, see above"])


def test_two_fixtures_that_deploy_are_refused_before_anything_runs(pytester):
    project(pytester, "def test_both(phy2phy, pvp, search):\n    search.ndr_pdr(phy2phy, Traffic())\n")

    result = pytester.runpytest_subprocess("--nfv-report", "none")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: mine/test_mine.py::test_both takes the fixtures phy2phy, pvp, which*"])


def test_an_authors_own_error_stays_what_it_is(pytester):
    project(
        pytester,
        "def helper(one):\n    return one\n\n"
        "def test_call(search):\n    helper(two=2)\n\n"
        "def test_name(search):\n    'text'.nothing\n",
    )

    result = pytester.runpytest_subprocess("--nfv-report", "none", "-q")

    result.assert_outcomes(failed=2)
    assert "usage error" not in result.stdout.str()


def test_the_number_of_an_access_ports_vlan_is_enough(pytester):
    project(
        pytester,
        "def test_vlan(endpoint, deploy):\n"
        "    endpoint('p0', 'brA', vlan=100)\n    endpoint('p1', 'brA', vlan=nfv.parts.Vlan(100))\n"
        "    live = deploy(name='tagged')\n"
        "    assert [port.vlan.tag for port in live.topology.ports] == [100, 100]\n",
    )
    test = pytester.path / "mine/test_mine.py"
    test.write_text("import pytest_nfvperf.parts\n" + test.read_text())

    pytester.runpytest_subprocess("--nfv-report", "none").assert_outcomes(passed=1)


@pytest.mark.parametrize("merged", [True, False], ids=["one stream", "two streams"])
def test_a_usage_error_prints_once_and_counts_what_was_selected(pytester, merged):
    project(pytester, "def test_one(phy2phy):\n    pass\n\ndef test_two(phy2phy):\n    pass\n")
    (pytester.path / "mine/sla.yaml").write_text('schema: 1\nrules:\n  - require: {ndr: ">= 40"}\n')
    command = [sys.executable, "-m", "pytest", "--nfv-report", "none", "mine"]

    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.PIPE, text=True, check=False
    )

    told = "'40' has no unit: write '40 Mpps' for ndr"
    assert run.returncode == 4
    assert (run.stdout + (run.stderr or "")).count(told) == (1 if merged else 2)
    counted = "nfvperf: Usage error: of 2 selected tests 2 not run. "
    assert counted + ("Correct" if merged else "") in run.stdout
    assert f"ERROR: {pytester.path}/mine/sla.yaml:3: rules[0].require.ndr: {told}" in (run.stderr or run.stdout)
