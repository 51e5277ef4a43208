"""What a testbed cannot run is not selected, and said once a reason; tests that the user names are skipped instead."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from user_project import CONFTEST, make_project, records

from pytest_nfvperf.adapters.evidence.reader import read_run
from tests.plugin.test_suite_for_nics import ABSENT, LAB

NO_MODULE = "no openvswitch module in this kernel"
SIMULATED = f"""
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Backend(SimulatedBackend):
    def lacks(self, dut):
        return {NO_MODULE!r} if dut.kind == "system" else None

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed, lambda: FakeGenerator(4e6))
"""
SUITE = """
import pytest
from pytest_nfvperf import Dut, Traffic, compares, phy2phy

def judge(live, search, sla):
    sla.check(search.loss_at(live, Traffic(frame_size=64), 1000.0, 1.0))

@pytest.mark.parametrize("datapath", ["netdev", "system"])
def test_datapath(datapath, deploy, search, sla):
    judge(deploy(phy2phy(), dut=Dut(datapath)), search, sla)

@compares("datapath", ["system", "netdev"])
def test_datapaths(datapath, study):
    raise AssertionError("it was begun")

@pytest.mark.nfv_needs("system")
def test_kernel(nfv_session):
    raise AssertionError("it was begun")

@pytest.fixture
def hardware(offloaded):
    return offloaded

def test_hardware(hardware):
    raise AssertionError("it was begun")

def test_card(capture_interface):
    raise AssertionError("it was begun")

def test_lab(lab_speakers):
    raise AssertionError("it was begun")

@pytest.mark.nfv_needs(rxq=2)
class TestNics:
    @pytest.mark.parametrize("end", [1, 2])
    def test_nic(self, end, nics):
        raise AssertionError("it was begun")

@pytest.mark.nfv_needs(cabled=3)
def test_cables(phy2phy, search, sla):
    judge(phy2phy, search, sla)
"""
SLA = """
schema: 1
rules:
  - {where: {test: [test_datapath, test_cables]}, require: {loss_ratio: "<= 0"}}
  - {where: {test: test_nic}, require: {loss_ratio: "<= 0"}}
"""
LEFT_OUT = {
    NO_MODULE: ["test_datapath[system]", "test_datapaths[datapath_system_netdev]", "test_kernel"],
    "no flows are offloaded: set dut.ovs.hw_offload": ["test_hardware"],
    "no capture interface: ": ["test_card"],
    "the testbed file names no speakers": ["test_lab"],
    "the testbed has no NIC: ": ["TestNics::test_nic[1]", "TestNics::test_nic[2]"],
}
"""By how their reason begins."""
HERE = Path(__file__).parents[2]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    made = make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (made.path / "mine/sla.yaml").write_text(SLA)
    return made


def left_out(directory: Path) -> dict[str, list[str]]:
    """What the evidence says was not selected, by how the reason begins, for reasons of LEFT_OUT."""
    found = read_run(directory / "reports/latest").not_for_testbed
    begins = {reason: next(filter(reason.startswith, LEFT_OUT), reason) for reason in found}
    return {begins[reason]: [test.partition("::")[2] for test in tests] for reason, tests in found.items()}


def test_what_the_testbed_cannot_run_is_not_selected_and_the_rest_is_accepted(project: pytest.Pytester) -> None:
    """A rule that selects only such tests is no error. The report and ``nfvperf show`` say what the terminal says."""
    run = project.runpytest("--junitxml=junit.xml")
    run.assert_outcomes(passed=2, deselected=8)
    assert run.ret == 0
    assert run.outlines[-1].startswith("nfvperf: Accepted: all 2 requirements met, all 2 selected tests passed.")
    assert left_out(project.path) == LEFT_OUT
    shown = project.run(sys.executable, "-m", "pytest_nfvperf.cli.main", "show", "reports/latest")
    page = (project.path / "reports/latest/report.html").read_text()
    for reason, tests in LEFT_OUT.items():
        line = f"{len(tests)} test{'s' if len(tests) > 1 else ''}: {reason}"
        for output in (run, shown):
            assert f"not for this testbed: {line}" in " ".join(output.stdout.str().split()), output.stdout.str()
        assert line in page


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [
        (["mine/test_mine.py::test_datapath", "mine/test_mine.py::test_card"], {"passed": 1, "skipped": 2}),
        (["mine/test_mine.py::TestNics::test_nic[2]", "mine"], {"passed": 2, "skipped": 1, "deselected": 7}),
        (["-k", "TestNics or test_lab"], {"skipped": 3, "deselected": 7}),
    ],
    ids=["by node id", "beside others", "nothing else selected"],
)
def test_what_is_named_is_skipped_with_the_reason(
    project: pytest.Pytester, arguments: list[str], outcomes: dict[str, int]
) -> None:
    run = project.runpytest(*arguments, "--nfv-report=none")
    run.assert_outcomes(**outcomes)
    ends = [record["data"] for record in records(project.path, "test_end")]
    reasons = [end["reason"] for end in ends if end["status"] == "skipped"]
    assert all(reason.startswith(tuple(LEFT_OUT)) for reason in reasons)
    assert run.outlines[-1].startswith("nfvperf: Accepted") is False


def test_a_plan_leaves_out_what_the_testbed_file_does_not_have(project: pytest.Pytester) -> None:
    """A plan may be made on another machine than the run, so it does not ask for this one's kernel."""
    (project.path / "lab.yaml").write_text(LAB.format(**ABSENT, rxq=2))
    plan = project.runpytest("--nfv-plan", "--nfv-testbed=lab.yaml")
    planned = {line.partition("::")[2].partition(":  ")[0] for line in plan.outlines if line.startswith("mine/test")}
    assert {name.partition("[")[0].partition(":")[0] for name in planned} == {
        "test_datapath", "test_datapaths", "test_kernel", "TestNics"
    }  # fmt: skip
    plan.stdout.fnmatch_lines(
        ["not for this testbed: 1 test: testbed 'lab' has 2 cabled ports (dpdk0, dpdk1), and 3 are needed: *"]
    )


@pytest.mark.parametrize(
    ("marker", "told"),
    [('"nic"', "nfv_needs('nic')"), ("rxd=2", "nfv_needs(rxd=2)"), ('rxq="two"', "nfv_needs(rxq='two')")],
)
def test_a_need_that_does_not_exist_is_a_mistake(pytester: pytest.Pytester, marker: str, told: str) -> None:
    suite = f"import pytest\n\n@pytest.mark.nfv_needs({marker})\ndef test_it(phy2phy):\n    pass\n"
    run = make_project(pytester, suite, CONFTEST + SIMULATED).runpytest()
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines([f"*::test_it: {told} is no need of a test: write one of 'nics', *"])


def test_workers_on_one_testbed_leave_out_the_same(project: pytest.Pytester) -> None:
    run = project.runpytest_subprocess("-n2", "--nfv-report=none")
    run.assert_outcomes(passed=2)
    assert run.outlines[-1].startswith("nfvperf: Accepted")
    assert left_out(project.path) == LEFT_OUT


def test_workers_on_several_testbeds_skip(project: pytest.Pytester) -> None:
    """What the testbed of one worker lacks, that of another may have."""
    for name in ("a", "b"):
        text = f"schema: 1\nname: {name}\ndut: {{ovs: {{datapath: netdev}}}}\ngenerator: {{engine: embedded}}\n"
        (project.path / f"{name}.yaml").write_text(text)
    beds = ("--nfv-testbed=a.yaml", "--nfv-testbed=b.yaml")
    project.runpytest_subprocess("-n2", *beds, "--nfv-report=none").assert_outcomes(passed=2, skipped=8)
    assert left_out(project.path) == {}


def test_a_resumed_run_says_what_no_process_selected(project: pytest.Pytester) -> None:
    """Steps: a run; remove the end of its evidence; resume it where the kernel has the module."""
    project.runpytest("--nfv-report=none")
    latest = project.path / "reports/latest/evidence.jsonl"
    kept = [line for line in latest.read_text().splitlines(keepends=True) if json.loads(line)["kind"] != "run_end"]
    latest.write_text("".join(kept))
    project.makeconftest(CONFTEST + SIMULATED.replace('== "system"', '== "none"'))
    suite = project.path / "mine/test_mine.py"
    suite.write_text(SUITE.replace('raise AssertionError("it was begun")', "pass"))
    run = project.runpytest("--nfv-resume=reports/latest", "--nfv-report=none")
    run.assert_outcomes(passed=5, deselected=5)
    assert left_out(project.path) == {NO_MODULE: [], **{one: LEFT_OUT[one] for one in list(LEFT_OUT)[1:]}}
