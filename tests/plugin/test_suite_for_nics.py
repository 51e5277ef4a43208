"""``suites/nic`` without a NIC: a plan and a run skip every test, with the reason, before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_project import CONFTEST, records

SUITE = Path(__file__).parents[2] / "suites/nic"
NO_NIC = "the testbed has no NIC: name NICs in a testbed file, by dut.ports[].pci or .interface"
LEFT_OUT = "not for this testbed"
LAB = """
schema: 1
name: lab
dut:
  ovs: {{instance: private, datapath: dpdk}}
  ports:
    - {{name: dpdk0, {first}, rxq: {rxq}, line_rate: 10 Gbps}}
    - {{name: dpdk1, {second}, rxq: {rxq}, line_rate: 10 Gbps}}
generator: {{engine: embedded, ports: [0, 1], devices: ["0000:5e:00.0", "0000:5e:00.1"]}}
links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]
"""
ABSENT = {"first": 'pci: "0000:fe:00.0"', "second": 'pci: "0000:fe:00.1"'}
SIMULATED = """
from pytest_nfvperf.testing import SimulatedBackend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]


def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project with the suite as ``nfvperf suites --copy`` gives it."""
    pytester.makeconftest(CONFTEST)
    folder = pytester.path / "nic"
    folder.mkdir()
    for file in SUITE.iterdir():
        if file.suffix in {".py", ".yaml"}:
            (folder / file.name).write_text(file.read_text())
    return pytester


def planned(project: pytest.Pytester, *arguments: str, **lab: object) -> dict[str, str]:
    """What the plan says of each test, by its name, and of those that are not selected (LEFT_OUT)."""
    (project.path / "lab.yaml").write_text(LAB.format(**{"rxq": 1, **ABSENT, **lab}))
    plan = project.runpytest("nic", "--nfv-plan", "--nfv-testbed=lab.yaml", "--nfv-profile=gate", *arguments)
    assert plan.ret == 0, plan.stdout.str()
    lines = (line.rpartition("::")[2] for line in plan.outlines if "::" in line or line.startswith(LEFT_OUT))
    return {name: said for name, _, said in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("profile", ["quick", "gate", "full"])
def test_a_plan_on_the_embedded_testbed_skips_every_test_with_the_reason(project, profile):
    plan = project.runpytest("nic", "--nfv-plan", f"--nfv-profile={profile}")
    assert plan.ret == 0
    tests = [line for line in plan.outlines if "::" in line]
    assert len(tests) > 20
    assert [line for line in tests if f": skipped: {NO_NIC}" not in line] == []
    plan.stdout.fnmatch_lines([f"0 tests ({len(tests)} more are skipped), 0 trials, *"])


def test_a_run_without_a_nic_skips_every_test_and_measures_nothing(project):
    project.makeconftest(SIMULATED)
    run = project.runpytest("nic", "-rs")
    counts = run.parseoutcomes()
    assert run.ret == 0
    assert counts["skipped"] > 20
    assert counts.keys() <= {"skipped", "deselected"}
    assert NO_NIC in run.stdout.str()
    assert records(project.path, "trial") == records(project.path, "topology") == []


def test_a_veth_is_no_nic(project):
    said = planned(project, "-k", "test_mac_filter", first="interface: lo", second="interface: lo0")
    assert set(said.values()) == {"skipped: port 'dpdk0' is no NIC: its interface 'lo' is virtual (no device)"}


def test_a_plan_on_a_lab_says_what_is_sent_and_what_its_nics_lack(project):
    said = planned(project)
    measured = {name for name, text in said.items() if text.startswith("about ")}
    assert {
        "test_line_rate[64]",
        "test_line_rate_one_way[1518]",
        "test_jumbo_line_rate[9018]",
        "test_longest_frame[9000-True]",
        "test_bursts[256]",
        "test_mac_filter[foreign]",
        "test_vlan[insert]",
        "test_vlan[strip]",
        "test_vlan[keep]",
        "test_checksums[udp-wrong]",
        "test_pause_frames",
        "test_link_flap",
    } <= measured
    lacking = {name: text for name, text in said.items() if name not in measured}
    one_queue = "4 tests: port 'dpdk0' has 1 receive queue: write 'rxq: 2' or more in dut.ports of the testbed file"
    assert lacking.pop("test_vf_against_pf[function_pf_vf]").startswith("skipped: 0 of the testbed's ports are")
    assert lacking.pop("test_number_of_vfs").startswith("skipped: the NIC of port 'dpdk0' is not in this machine")
    assert lacking == {LEFT_OUT: one_queue}


def test_several_queues_are_measured(project):
    said = planned(project, "-k", "test_spread or test_flows_stay", rxq=4)
    assert all(text.startswith("about ") for text in said.values())
    assert said.keys() == {"test_spread[100]", "test_spread[1000]", "test_spread[10000]", "test_flows_stay"}
