"""The first day in a lab: a testbed file, `doctor`, and a suite that runs on its cables with real packets."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.functional.lab_support import pytest_in, run_in, system_ovs, veth_cables
from tests.functional.ovs_support import clean_run, needs_hugepages, needs_root
from tests.user_project import CONFTEST, needs_a_verdict

pytestmark = [needs_root, needs_hugepages]

SUITE = '''
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_light_load(phy2phy, search, sla):
    """Steps: one trial at a light load. Verify: the SLA."""
    outcome = search.loss_at(phy2phy, Traffic(frame_size=256), 2000, 0.5)
    assert outcome.label["nic"] == "veth pair"
    sla.check(outcome)
'''
STUDY = """
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.measure.measurements import Subject, TrafficMeasurement

SENT = Traffic(frame_size=256)

class LightLoad(TrafficMeasurement):
    name, units, reading_s, traffic = "light load", {"forwarding_rate": "pps"}, 0.2, SENT

    def read(self, live, remaining_s):
        live.learn(SENT)
        spec = TrialSpec(SENT, 1000, 0.1, live.topology.directions, latency=False, residual_s=0.1)
        trial = live.runner.run_once(spec, remaining_s)
        return Reading({"forwarding_rate": trial.result.received_fps}, trial.id)

def test_study(study, sla):
    chains = [Subject(str(number), bridge_chain(number)) for number in (1, 2)]
    sla.check_each(study.compare("bridges", chains, LightLoad()))
"""
SLA = """
schema: 1
rules:
  - {where: {nic: veth pair, driver: veth}, require: {loss_ratio: {at: 2 kpps, limit: "<= 1 %"}}}
  - {where: {nic: ConnectX-6 Dx, firmware: 22.*}, require: {loss_ratio: {at: 2 kpps, limit: "<= 0"}}}
"""


def lab_file(folder: Path, cables: list[tuple[str, str]], *, crossed: bool = False, offload: bool = False) -> Path:
    """A lab on veth pairs, as its owner would write it."""
    (local0, peer0), (local1, peer1) = cables
    peer = [peer1, peer0] if crossed else [peer0, peer1]
    file = folder / "lab.yaml"
    ovs = {"instance": "private", "datapath": "dpdk"} | ({"hw_offload": True} if offload else {})
    ports = [
        {"name": f"dpdk{n}", "interface": local, "line_rate": "100 Mbps", "model": "veth pair"}
        for n, local in enumerate((local0, local1))
    ]
    text = {
        "schema": 1,
        "name": "veth lab",
        "dut": {"ovs": ovs, "ports": ports},
        "generator": {"engine": "embedded", "ports": [0, 1], "devices": peer},
        "links": [["generator.0", "dut.dpdk0"], ["generator.1", "dut.dpdk1"]],
    }
    file.write_text(json.dumps(text))
    return file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/test_mine.py").write_text(SUITE)
    (tmp_path / "vendor.yaml").write_text(SLA)
    return tmp_path


def pytest_on(project: Path, lab: Path) -> subprocess.CompletedProcess[str]:
    return pytest_in(project, "mine", "--nfv-testbed", str(lab), "--nfv-sla", "vendor.yaml", "--nfv-report=none")


def test_a_suite_on_cables(project: Path) -> None:
    with veth_cables(2) as cables:
        lab = lab_file(project, cables)
        looked = run_in(project, "pytest_nfvperf.cli.main", "doctor", "--testbed", str(lab))
        assert "port dpdk0" in looked.stdout
        assert "generator port 1" in looked.stdout
        done = pytest_on(project, lab)
    needs_a_verdict(done.returncode, done.stdout)
    assert done.returncode == 0, done.stdout
    assert f"cable:     generator.0 ({cables[0][1]}) - dpdk0 ({cables[0][0]})" in done.stdout
    assert "1 passed" in done.stdout
    evidence = [json.loads(line) for line in (project / "reports/latest/evidence.jsonl").read_text().splitlines()]
    (run,) = [record["data"] for record in evidence if record["kind"] == "run"][-1:]
    assert run["fingerprint"]["ports"]["dpdk0"]["driver"] == "veth"
    (trial,) = [record for record in evidence if record["kind"] == "trial"][-1:]
    assert all(counts["received"] > 0 for counts in trial["data"]["result"]["counts"])


def test_crossed_cables_are_named(project: Path) -> None:
    with veth_cables(2) as cables:
        crossed = pytest_on(project, lab_file(project, cables, crossed=True))
    assert crossed.returncode == 11, crossed.stdout  # the testbed is broken: docs/reference/exit-status.md
    assert "port 0 of the generator is not connected to dpdk0 but to dpdk1" in crossed.stdout
    assert "1 error" in crossed.stdout or "1 failed" in crossed.stdout


@pytest.mark.thorough("a NIC without offload; test_hw_offload.py has a double of one with offload")
def test_offload_that_is_none(project: Path) -> None:
    with veth_cables(2) as cables:
        (project / "mine/test_study.py").write_text(STUDY)
        soft = pytest_on(project, lab_file(project, cables, offload=True))
    assert soft.returncode == 1, soft.stdout
    assert "offloaded_flows >= 100 %" in soft.stdout
    assert "Hardware offload:\n" in soft.stdout
    assert "OVS logs no reason: the ports have no offload" in soft.stdout or "OVS says:" in soft.stdout
    assert "2 failed" in soft.stdout
    for bridges in ("1 bridge:", "2 bridges:"):
        assert f", {bridges}" in " ".join(soft.stdout.split())  # the table folds its first line


@pytest.mark.thorough("tests/functional has the system's OVS")
def test_the_systems_ovs_without_a_named_cpu_measures(tmp_path: Path) -> None:
    """Seen: IndexError where the generator's ceiling is measured, told as "Failed: change the DUT"."""
    suite = tmp_path / "mine"
    suite.mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (suite / "test_mine.py").write_text(SUITE.replace('    assert outcome.label["nic"] == "veth pair"\n', ""))
    (suite / "sla.yaml").write_text("schema: 1\nrules:\n  - {require: {loss_ratio: {at: 2 kpps, limit: '<= 1 %'}}}\n")
    with clean_run() as host, system_ovs(host) as directory:
        testbed = tmp_path / "system.yaml"
        ovs = f"{{instance: system, run_dir: {directory}, datapath: netdev}}"
        testbed.write_text(f"schema: 1\nname: system\ndut: {{ovs: {ovs}}}\ngenerator: {{engine: embedded}}\n")
        done = pytest_in(tmp_path, "mine", f"--nfv-testbed={testbed}", "-p", "no:cacheprovider")
    assert done.returncode in {0, 10}, done.stdout + done.stderr
    assert "IndexError" not in done.stdout
