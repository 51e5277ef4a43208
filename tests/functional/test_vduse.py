"""Pods whose interfaces OVS serves by VDUSE: made, used, removed, and what a restart of OVS does to them.

Needs a kernel with VDUSE and an OVS whose DPDK is 23.11 or newer: tests/kernel/test_vduse_guest.py runs this in a
guest with Debian 13's kernel and OVS. ``NFV_VDUSE_OVS`` names the installation where it is not the machine's own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.reaper import remove_entries
from pytest_nfvperf.adapters.net.ends import read_links
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.net.vduse import DEVICES, lacks_vduse
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import OvsInstance
from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.workloads import pod_node
from tests.functional.ovs_support import clean_run, needs_root, send_tcp, until

OVS_VARIABLE = "NFV_VDUSE_OVS"
LACKING = lacks_vduse()
pytestmark = [needs_root, pytest.mark.skipif(LACKING is not None, reason=str(LACKING))]

TEXT = bytes(range(256)) * 2000
READY_S, AGAIN_S = 30, 30  # emulated, in the guest


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    with clean_run() as made:
        yield made
        assert devices() == []


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    bed = discover_testbed()
    bed = dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, prefix=os.environ.get(OVS_VARIABLE)))
    # A PMD that sleeps leaves an emulated machine's CPU to others.
    datapath = OvsDatapath.start(bed, journal, Dut("dpdk", tuning=Tuning(pmd_sleep_max_us=200)))
    yield datapath
    datapath.close()


@pytest.fixture
def node(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    built = ovs.build(pod_node(2, kind="vduse"))
    built.wait_ready(READY_S)
    yield built
    built.close()
    assert devices() == []
    assert [path.name for path in Path("/sys/bus/vdpa/devices").iterdir()] == []


def devices() -> list[str]:
    return sorted(path.name for path in DEVICES.iterdir() if path.name != "control")


def passes(built: BuiltOvsTopology) -> bool:
    """TCP from pod to pod, and to what is behind br-ex."""
    ends = {"pod2": "198.18.1.2", "outside": "198.18.0.1"}
    found = [send_tcp(built.netns("pod1"), built.netns(name), address, TEXT) for name, address in ends.items()]
    return found == [TEXT, TEXT]


def passes_again(built: BuiltOvsTopology) -> bool:
    """Once OVS has learned where its pods are."""

    def now() -> bool:
        try:
            return passes(built)
        except OSError:
            return False

    return until(now, AGAIN_S)


def test_pods_pass_tcp_by_a_driver_of_the_kernels(node: BuiltOvsTopology) -> None:
    assert passes(node)
    links = inside_netns(node.netns("pod1"), read_links)
    assert links["eth0"].mtu == 1500
    assert len(devices()) == 2
    rows = node.instance.db.rows("Interface")
    assert rows["pod1-eth0"].type == "dpdkvhostuserclient"
    assert node.instance.tag in rows["pod1-eth0"].options["vhost-server-path"]


def test_pods_reach_each_other_after_ovs_was_restarted(node: BuiltOvsTopology) -> None:
    """Steps: OVS is asked to exit, and started; then killed, and started. Verify: the same devices, and TCP, each time.

    One test for both: under emulation a node takes as long to build as OVS to start.
    """
    assert passes(node)
    served = devices()
    instance = node.instance
    assert isinstance(instance, OvsInstance)
    for killed in (False, True):
        instance.stop_vswitchd(killed=killed)
        instance.start_vswitchd()
        assert devices() == served
        assert passes_again(node), f"killed: {killed}\n{instance.problems()}"


def test_what_a_dead_ovs_served_is_removed(ovs: OvsDatapath, journal: Journal) -> None:
    """Steps: kill vswitchd, for good: the last test. Verify: what the journal says removes device and interface."""
    built = ovs.build(pod_node(1, kind="vduse"))
    noted = [entry for entry in journal.entries if entry.kind is Kind.VDUSE]
    assert [entry.name for entry in noted] == devices()
    instance = ovs.instance
    assert isinstance(instance, OvsInstance)
    instance.vswitchd.popen.kill()
    instance.vswitchd.popen.wait()
    with pytest.raises(TestbedError, match=r"ovs-vswitchd .* was killed by SIGKILL"):
        ovs.check_alive()
    removed: list[str] = []
    assert remove_entries(noted, removed) == []
    assert removed == [f"vduse {noted[0].name}"]
    assert devices() == []
    built.close()
