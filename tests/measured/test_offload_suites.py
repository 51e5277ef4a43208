"""S4's mirrors and S3's overlays with offload, as a user runs the suites, on the double of a NIC that offloads flows.

They show what OVS and nfvperf say of such a NIC; no rate of theirs is one of a NIC. OVS offloads neither to nor from
vhost-user ports and taps, and the double knows no tunnels: so the cases that can be in hardware are those between ports
of the NIC, without a mirror or with one, and in a VLAN.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.features.versions.registry import Registry
from tests.functional.lab_support import veth_cables
from tests.functional.offload_support import build_nic, complaints, prefix_with_nic
from tests.functional.ovs_support import needs_hugepages, needs_root, run_base
from tests.user_project import make_project, needs_a_verdict, records

pytestmark = [needs_root, needs_hugepages]

SUITES = Path(__file__).parents[2] / "suites"
MIRRORS, OVERLAYS = SUITES / "mirror/test_mirrors.py", SUITES / "overlay/test_overlays.py"
CACHE = default_cache_dir().parent
"""Found before a test changes HOME."""

KEPT = [version for version in Registry().all() if version.datapath == "ovs"]
NEWER = {version.name: version.place for version in KEPT if (version.dpdk_version or "") >= "24"}
REFUSED = {
    "3a": ("vm3", "dpdk0: Output to port 'vm3' cannot be offloaded."),
    "3b": ("dpdk1", "dpdk0: Output to port 'vm1' cannot be offloaded."),
    "3c": ("tap0", "dpdk0: Cannot find netdev for odp port"),
}
"""The port that gets the copies, and what OVS says of the flow that enters by the NIC."""
WANTED = {"vxlan": "set vxlan ip-version ipv4 vni 42", "gre": "set raw_encap"}
"""What OVS asked the NIC of the sending node for, in the words of its log."""
FLOWS_OF_NODES = {"left", "up1", "up2", "right"}
WITHOUT_RATES = """
schema: 1
rules:
  - where: {suite: mirror, test: test_offloaded_between_ports, case: port, load: "10 %"}
    require: {mirror_completeness: [">= 100 %", "<= 100 %"], mirror_unexplained: "<= 0.1 %"}
"""
"""The SLA of the suite without its forwarding rate. The double forwards in software, so its rate is no NIC's."""


@dataclass(frozen=True)
class Run:
    """A user's run of a suite: its status, its terminal, and where its evidence is."""

    status: int
    terminal: str
    folder: Path

    def skips(self) -> list[str]:
        return [line for line in self.terminal.splitlines() if line.startswith("SKIPPED")]

    def outcomes(self, label: str) -> dict[str, dict[str, Any]]:
        """Data of the outcomes by the value of a label."""
        found = [record["data"] for record in records(self.folder, "outcome")]
        return {dict(map(tuple, data["labels"]))[label]: data for data in found}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nic(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nic(tmp_path_factory.mktemp("sanitized"), sanitized=True)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """Run a suite on a lab of veth cables whose DUT's ends belong to the double."""
    make_project(pytester)
    with run_base() as base:
        monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
        monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))  # the built generator

        def once(lab: dict[str, Any], library: Path, behaviour: str, version: str | None, *arguments: str) -> Run:
            prefix = prefix_with_nic(pytester.path, library, behaviour, version, [base])
            lab["dut"]["ovs"] = {
                "instance": "private", "datapath": "dpdk", "hw_offload": True, "prefix": str(prefix)
            }  # fmt: skip
            file = pytester.path / "lab.yaml"
            file.write_text(json.dumps({"schema": 1, "name": "a double of a NIC", **lab}))
            given = [f"--nfv-testbed={file}", "--nfv-report=none", "-rs", "-p", "no:cacheprovider"]
            done = pytester.runpytest_subprocess(*arguments, *given, timeout=150)
            needs_a_verdict(int(done.ret), done.stdout.str())
            return Run(int(done.ret), done.stdout.str(), pytester.path)

        yield once


def cabled_lab(cables: list[tuple[str, str]]) -> dict[str, Any]:
    """One DUT, with a port of the generator behind each of its own."""
    ports = [{"name": f"dpdk{n}", "interface": own, "line_rate": "100 Mbps"} for n, (own, _) in enumerate(cables)]
    numbers = list(range(len(cables)))
    return {
        "dut": {"ports": ports},
        "generator": {"engine": "embedded", "ports": numbers, "devices": [peer for _, peer in cables]},
        "links": [[f"generator.{n}", f"dut.dpdk{n}"] for n in numbers],
    }


def lab_of_nodes(cables: list[tuple[str, str]]) -> dict[str, Any]:
    """Two nodes that the first cable joins; the others lead to the generator."""
    (up1, up2), (left, local), (right, peer) = cables
    owners = {"up1": (up1, "node1"), "up2": (up2, "node2"), "left": (left, "node1"), "right": (right, "node2")}
    # A frame of 64 bytes fits with its tunnel; DPDK's af_packet takes no larger MTU.
    further = {"up1": {"mtu": 1500}, "up2": {"mtu": 1500}}
    ports = [
        {"name": name, "interface": own, "node": node, **further.get(name, {"line_rate": "100 Mbps"})}
        for name, (own, node) in owners.items()
    ]
    return {
        "dut": {"ports": ports},
        "nodes": {"node1": {"underlay": "up1"}, "node2": {"underlay": "up2"}},
        "generator": {"engine": "embedded", "ports": [0, 1], "devices": [local, peer]},
        "links": [["generator.0", "dut.left"], ["generator.1", "dut.right"]],
    }


def assert_skipped(line: str, case: str) -> None:
    """The skip of one of S4's cases names each flow of its own chain, and why that flow is not in hardware."""
    output, refused = REFUSED[case]
    assert "flows are not offloaded: hw-offload is on, but 0 of 3 flows offloaded, 1 partially; " in line
    for port, outputs in (("vm1", f"{output},vm2"), ("vm2", f"{output},dpdk0")):
        (flow,) = [part for part in line.split("; ") if f"in_port({port})" in part]
        assert flow.startswith("not in hardware: ")
        assert f"actions:{outputs} (OVS says: {port}: No suitable flow API found.)" in flow
    (flow,) = [part for part in line.split("; ") if "in_port(dpdk0)" in part]
    assert flow.startswith("matched in hardware, acted on in software: ")
    assert f"actions:{output},vm1 (OVS says: {refused}" in flow


@pytest.mark.thorough("a suite's run; test_hw_offload.py has the double in make test")
def test_mirrors_between_ports_run_in_hardware_and_those_of_vms_are_skipped(
    pytester: pytest.Pytester, run: Callable[..., Run], sanitized: Path
) -> None:
    """With ASan and UBSan in the double. Verify: by counts, no copy is missing; and no flow left the hardware."""
    file = pytester.path / "counts.yaml"
    file.write_text(WITHOUT_RATES)
    with veth_cables(3) as cables:
        given = (str(MIRRORS), "-k", "test_offloaded", f"--nfv-sla={file}")
        done = run(cabled_lab(cables), sanitized, "full", None, *given)
    assert complaints(sanitized) == ""
    assert done.status == 0, done.terminal
    assert "1 passed, 3 skipped" in done.terminal
    for line, case in zip(done.skips(), REFUSED, strict=True):
        assert_skipped(line, case)
    for outcome in done.outcomes("case").values():
        assert (outcome["offload"]["full"], outcome["offload"]["software"], outcome["offload"]["partial"]) == (2, 0, 0)
        for trial in outcome["offload"]["frames"]:
            assert trial["software"] < trial["sent"] / 10
    (flow,) = [each for each in done.outcomes("case")["port"]["offload"]["flows"] if "in_port(dpdk0)" in each["text"]]
    assert flow["text"].endswith("actions:dpdk2,dpdk1")
    verdicts = [record["data"] for record in records(done.folder, "verdict")]
    complete = [one["judgement"] for one in verdicts if one["metric"] == "mirror_completeness"]
    assert complete == ["PASS", "PASS"], "at least and at most 100 %: a copy of each frame"
    counted = [record["data"]["result"] for record in records(done.folder, "trial")]
    copies = [
        (one["monitors"][0]["received"], one["counts"][0]["sent"])
        for one in counted
        if one["spec"]["purpose"] == "mirror completeness"
    ]
    assert any(received == sent > 1_000 for received, sent in copies), copies


@pytest.mark.thorough("another run of the suite")
def test_a_mirror_between_ports_is_skipped_where_its_own_flow_is_refused(run: Callable[..., Run], plain: Path) -> None:
    """The same test and cables, and a NIC without a flow engine."""
    with veth_cables(3) as cables:
        given = (str(MIRRORS), "-k", "test_offloaded_between_ports")
        done = run(cabled_lab(cables), plain, "none", None, *given)
    assert done.status == 0, done.terminal
    (line,) = done.skips()
    assert "hw-offload is on, but 0 of 2 flows offloaded, 0 partially; not in hardware: " in line
    assert "in_port(dpdk0)" in line
    assert "actions:dpdk2,dpdk1 (OVS says: dpdk0: rte_flow creation failed: 1 (this NIC has no flow engine)." in line


@pytest.mark.thorough("another run of the suite")
def test_a_mirror_between_ports_needs_three_cables(run: Callable[..., Run], plain: Path) -> None:
    with veth_cables(2) as cables:
        given = (str(MIRRORS), "-k", "test_offloaded_between_ports", "--nfv-plan")
        done = run(cabled_lab(cables), plain, "full", None, *given)
    assert "has 2 cabled ports (dpdk0, dpdk1), and 3 are needed: name more in dut.ports" in done.terminal


@pytest.mark.daily("every OVS version")
@pytest.mark.parametrize("version", NEWER)
def test_a_newer_ovs_gives_its_reasons_too(version: str, run: Callable[..., Run], plain: Path) -> None:
    with veth_cables(2) as cables:
        given = (str(MIRRORS), "-k", "test_offloaded_to_vm")
        done = run(cabled_lab(cables), plain, "full", NEWER[version], *given)
    (line,) = done.skips()
    assert_skipped(line, "3a")


def forwarded(done: Run, outcome: dict[str, Any]) -> list[tuple[int, dict[str, int]]]:
    """Frames sent, and counters that moved, of each reading of an outcome."""
    trials = {record["id"]: record["data"] for record in records(done.folder, "trial")}
    readings = [
        trials[name] for name in outcome["trials"] if trials[name]["result"]["spec"]["purpose"] == "forwarding rate"
    ]
    assert readings
    return [
        (trial["result"]["counts"][0]["sent"], {one["name"]: one["delta"] for one in trial["ledger"]["deltas"]})
        for trial in readings
    ]


@pytest.mark.thorough("another run of the suite")
def test_a_vlan_between_nodes_is_in_hardware_and_tunnels_fail_with_the_reason(
    run: Callable[..., Run], sanitized: Path
) -> None:
    """S3 with offload on, ASan and UBSan in the double. Tunnels pass in software, and their flows fail the requirement.

    Verify: in a VLAN no poll-mode thread gets a tenth of the frames, and each is 4 bytes longer on the underlay.
    """
    with veth_cables(3) as cables:
        done = run(lab_of_nodes(cables), sanitized, "full", None, str(OVERLAYS), "--nfv-profile=smoke")
    assert complaints(sanitized) == ""
    assert done.status == 1, done.terminal
    outcomes = done.outcomes("overlay")
    assert list(outcomes) == ["none", *WANTED]
    share = outcomes["none"]["offload"]
    assert (share["full"], share["partial"], share["software"]) == (4, 0, 0)
    assert {flow["text"].partition("in_port(")[2].partition(")")[0] for flow in share["flows"]} == FLOWS_OF_NODES
    for sent, moved in forwarded(done, outcomes["none"]):
        assert max(moved.get(f"node{node}.pmd.packets_received", 0) for node in (1, 2)) < sent / 10
        assert moved["up1.tx_bytes"] == 64 * moved["up1.tx_packets"] > 0, "without FCS, and with a tag"
    for overlay, wanted in WANTED.items():
        share = outcomes[overlay]["offload"]
        assert share["full"] == 0, overlay
        for sent, moved in forwarded(done, outcomes[overlay]):
            assert moved["node1.pmd.packets_received"] > sent / 2
        flows = {flow["text"].partition("in_port(")[2].partition(")")[0]: flow for flow in share["flows"]}
        assert flows["left"]["place"] == flows["up2"]["place"] == "partial"
        (*_, why) = flows["left"]["reasons"]
        assert why.startswith("left: rte_flow creation failed: 16 (action not supported). Failed flow: ")
        assert wanted in why
    # No rate is judged here: the double forwards in software.
    verdicts = [record["data"] for record in records(done.folder, "verdict")]
    flows_judged = [verdict["judgement"] for verdict in verdicts if verdict["metric"] == "offloaded_flows"]
    assert sorted(flows_judged) == ["FAIL"] * len(WANTED) + ["PASS"] * (len(flows_judged) - len(WANTED))
    assert len(flows_judged) > len(WANTED)
