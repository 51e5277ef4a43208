"""Two nodes on this machine that a cable joins, as in a lab: ports of their own, checked, and given back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.functional.lab_support import pytest_in, veth_cables
from tests.functional.ovs_support import needs_root
from tests.functional.two_hosts import SLA, SUITE
from tests.user_project import CONFTEST, needs_a_verdict, records

pytestmark = [
    needs_root,
    pytest.mark.thorough("make test has nodes, and cables, each without the other"),
]


def lab_file(folder: Path, cables: list[tuple[str, str]], *, crossed: bool = False) -> Path:
    """The first cable joins the nodes, the others lead to the generator."""
    (up1, up2), (left, local), (right, peer) = cables
    names = {"up1": (up1, "node1"), "up2": (up2, "node2"), "left": (left, "node1"), "right": (right, "node2")}
    text = {
        "schema": 1,
        "name": "two nodes and their cables",
        "dut": {
            "ovs": {"datapath": "netdev"},
            "ports": [{"name": name, "interface": own, "node": node} for name, (own, node) in names.items()],
        },
        "nodes": {"node1": {"underlay": "up1"}, "node2": {"underlay": "up2"}},
        "generator": {"ports": [0, 1], "devices": [peer, local] if crossed else [local, peer]},
        "links": [["generator.0", "dut.left"], ["generator.1", "dut.right"]],
    }
    file = folder / "lab.yaml"
    file.write_text(json.dumps(text))
    return file


def test_frames_pass_by_the_nodes_cable_and_crossed_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "vendor.yaml").write_text(SLA)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/test_mine.py").write_text(SUITE + "\ndef test_one_dut(phy2phy):\n    pass\n")
    given = ["mine", "--nfv-sla=vendor.yaml", "--nfv-report=none", "--nfv-wait=1 min", "-rs"]
    with veth_cables(3) as cables:
        done = pytest_in(tmp_path, *given, f"--nfv-testbed={lab_file(tmp_path, cables)}")
        needs_a_verdict(done.returncode, done.stdout)
        (trial, *_) = [record["data"] for record in records(tmp_path, "trial")][::-1]
        crossed = pytest_in(tmp_path, *given, f"--nfv-testbed={lab_file(tmp_path, cables, crossed=True)}")
    assert "1 passed, 1 skipped" in done.stdout, done.stdout
    assert "the ports of this testbed are on its nodes, node1, node2: deploy a topology with these nodes" in done.stdout
    moved = {change["name"]: change["delta"] for change in trial["ledger"]["deltas"]}
    assert moved["up1.tx_packets"] == moved["up2.rx_packets"] == trial["ledger"]["received"] > 100
    assert trial["ledger"]["unexplained"] == 0
    assert crossed.returncode == 11, crossed.stdout
    assert "port 0 of the generator is not connected to left but to right" in crossed.stdout
