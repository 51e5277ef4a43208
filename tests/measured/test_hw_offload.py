"""Hardware offload without hardware: a double of a NIC that offloads flows (tests/native), and what a run says of it.

It shows how OVS and nfvperf deal with such a NIC. It says nothing about the speed of one.
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
from tests.functional.offload_support import build_nic, prefix_with_nic
from tests.functional.ovs_support import needs_hugepages, needs_root, run_base
from tests.measured.test_lab_run import lab_file
from tests.user_project import make_project, needs_a_verdict, records

CACHE = default_cache_dir().parent
"""Found before a test changes HOME."""

SUITE = '''
from pytest_nfvperf import Traffic

def test_light_load(phy2phy, search, sla):
    """Steps: trials at a light load. Verify: the SLA."""
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=256), 4000, 0.5))
'''
_LEAST_DPDK = (21, 11)  # that the double knows


def _versions() -> dict[str, str | None]:
    """The installed version, and the cached ones that the double can run with: prefix or root by name."""
    cached = (version for version in Registry().all() if version.dpdk_version and version.datapath == "ovs")
    fitting = (one for one in cached if tuple(map(int, str(one.dpdk_version).split(".")[:2])) >= _LEAST_DPDK)
    return {"installed": None, **{version.name: version.place for version in fitting}}


VERSIONS = _versions()
TIERED = [
    name if place is None else pytest.param(name, marks=pytest.mark.daily("every OVS version"))
    for name, place in VERSIONS.items()
]
pytestmark = [needs_root, needs_hugepages, pytest.mark.parametrize("version", TIERED, scope="module")]


@dataclass(frozen=True)
class Run:
    """A user's run on the double: its terminal, and the offload of its one outcome."""

    status: int
    terminal: str
    offload: dict[str, Any]

    def states(self) -> dict[str, str]:
        """Who handles the flow that enters by each port."""
        return {
            flow["text"].partition("in_port(")[2].partition(")")[0]: flow["place"] for flow in self.offload["flows"]
        }

    def reasons(self, port: str) -> str:
        flows = [flow for flow in self.offload["flows"] if f"in_port({port})" in flow["text"]]
        return "\n".join(reason for flow in flows for reason in flow["reasons"])

    def frames(self) -> dict[str, int]:
        return dict(self.offload["frames"][-1])  # those before it were short of their load


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nic(tmp_path_factory.mktemp("nic"))


@pytest.fixture
def run(
    version: str, library: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Run]]:
    """Run the suite once on veth cables whose DUT's ends belong to the double, which behaves as the words say."""
    make_project(pytester, SUITE)
    with run_base() as base, veth_cables(2) as cables:
        monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
        monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))  # the built generator
        lab = lab_file(pytester.path, cables, offload=True)

        def once(behaviour: str, *options: str) -> Run:
            prefix = prefix_with_nic(pytester.path, library, behaviour, VERSIONS[version], [base])
            testbed = json.loads(lab.read_text())
            testbed["dut"]["ovs"]["prefix"] = str(prefix)
            lab.write_text(json.dumps(testbed))
            done = pytester.runpytest_subprocess(f"--nfv-testbed={lab}", "--nfv-report=none", *options, timeout=60)
            needs_a_verdict(int(done.ret), done.stdout.str())
            (outcome,) = records(pytester.path, "outcome")
            return Run(int(done.ret), done.stdout.str(), outcome["data"]["offload"])

        yield once


def verdicts(run: Run) -> dict[str, str]:
    """The verdict on each figure of offload, from the table of a failure."""
    lines = (line.split() for line in run.terminal.splitlines())
    return {words[1]: words[0] for words in lines if len(words) > 1 and words[1] in ALL_MET}


ALL_MET = {"offloaded_flows": "PASS", "offloaded_frames": "PASS", "flow_counter_error": "PASS"}


def test_all_flows_in_hardware_pass(run: Callable[..., Run]) -> None:
    done = run("full")
    assert done.status == 0, done.terminal
    assert "Accepted: all 3 requirements met" in done.terminal
    assert done.states() == {"dpdk0": "hardware", "dpdk1": "hardware"}
    frames = done.frames()
    assert frames["software"] < frames["sent"] / 10
    assert frames["counted"] == frames["sent"] == frames["received"] > 0


@pytest.mark.thorough("another word of the double's")
def test_flows_that_are_only_matched_in_hardware_fail(run: Callable[..., Run]) -> None:
    done = run("partial")
    assert done.status == 1, done.terminal
    assert done.states() == {"dpdk0": "partial", "dpdk1": "partial"}
    assert verdicts(done) == ALL_MET | {"offloaded_flows": "FAIL", "offloaded_frames": "FAIL"}
    assert "0 of 2 flows in hardware, 2 matched there only, 0 in software" in done.terminal
    assert "matched in hardware, acted on in software: recirc_id(0),in_port(dpdk0)" in done.terminal
    assert "action not supported" in done.reasons("dpdk0")


@pytest.mark.thorough("another word of the double's")
def test_a_nic_without_offload_fails_and_ovs_says_why(run: Callable[..., Run]) -> None:
    done = run("none")
    assert done.status == 1, done.terminal
    assert done.states() == {"dpdk0": "software", "dpdk1": "software"}
    assert verdicts(done) == ALL_MET | {"offloaded_flows": "FAIL", "offloaded_frames": "FAIL"}
    for port in ("dpdk0", "dpdk1"):
        assert "this NIC has no flow engine" in done.reasons(port)
    frames = done.frames()
    assert frames["software"] == frames["sent"] > 0


@pytest.mark.thorough("another word of the double's")
def test_a_full_table_leaves_one_flow_in_software(run: Callable[..., Run]) -> None:
    done = run("full,flows=1")
    assert done.status == 1, done.terminal
    assert sorted(done.states().values()) == ["hardware", "software"]
    (left,) = [port for port, state in done.states().items() if state == "software"]
    assert "table is full" in done.reasons(left)
    assert f"not in hardware: recirc_id(0),in_port({left})" in done.terminal
    assert "FAIL     offloaded_flows >= 100 %   50 %" in done.terminal


def test_a_flow_that_falls_back_unseen_by_ovs_shows_in_the_frames(run: Callable[..., Run]) -> None:
    """OVS goes on to say that both flows are in hardware; its PMD threads received the rest of the frames."""
    done = run("full,falls_after=2600")
    assert done.status == 1, done.terminal
    assert done.states() == {"dpdk0": "hardware", "dpdk1": "hardware"}
    assert verdicts(done) == ALL_MET | {"offloaded_frames": "FAIL"}
    frames = done.frames()
    assert frames["sent"] / 10 < frames["software"] < frames["sent"]
    assert f"of the frames stayed in hardware: {frames['trial_id']}" in done.terminal


@pytest.mark.thorough("another word of the double's")
def test_counters_that_lie_show_against_the_frames_sent(run: Callable[..., Run]) -> None:
    done = run("full,counts=2")
    assert done.status == 1, done.terminal
    assert verdicts(done) == ALL_MET | {"flow_counter_error": "FAIL"}
    frames = done.frames()
    assert frames["counted"] == 2 * frames["sent"] - frames["software"]
    assert f"the NIC's flow counters are wrong by 100 %: {frames['trial_id']}" in done.terminal


@pytest.mark.thorough("another word of the double's")
def test_a_port_that_offloads_one_direction_is_named(run: Callable[..., Run]) -> None:
    done = run("full,refuses=dpdk1")
    assert done.status == 1, done.terminal
    assert done.states() == {"dpdk0": "hardware", "dpdk1": "software"}
    assert "this port offloads nothing" in done.reasons("dpdk1")
    assert done.reasons("dpdk0") == ""
    frames = done.frames()
    assert frames["sent"] / 4 < frames["software"] < frames["sent"] * 3 / 4
