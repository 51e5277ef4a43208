"""Requests and connects between pods of a node (S5): what does each kind of interface add, and what does sleep cost?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    Dut,
    LoadCost,
    Profile,
    SlaCheck,
    Study,
    Subject,
    Traffic,
    Tuning,
    compares,
    sweep,
)
from pytest_nfvperf.parts import pod_node

KINDS = ("veth", "tap", "internal")
ENDS = ("pod1", "pod2")
SLEEPS = (Tuning(pmd_sleep_max_us=0), Tuning(pmd_sleep_max_us=200))
LOADS = (1000, 20_000, 1_000_000)
"""Frames/s per direction: idle, low, and one at which a PMD has little time to sleep."""


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod")
@sweep("message", (64, 1460, 16_384))
@compares("interface", KINDS)
def test_response_time(interface: Sequence[str], message: int, study: Study, sla: SlaCheck) -> None:
    """Time from a request to its response from pod to pod, by the kind of their interfaces.

    Steps: in interleaved rounds build the node anew with pods of each kind; send requests one after the other.
    Verify: measured and reported, as ratios to veth.
    """
    nodes = [Subject(kind, pod_node(kind=kind), Dut("netdev")) for kind in interface]
    sla.check_each(study.response_time("interface", nodes, ends=ENDS, message_bytes=message))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@compares("datapath", ("system", "netdev"))
def test_kernel_against_userspace(datapath: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """The same, by the kernel's datapath and by the one in userspace.

    Steps: as above.
    Verify: measured and reported, as a ratio to the kernel's datapath.
    """
    subjects = [Subject(each, pod_node(), Dut(each)) for each in datapath]
    sla.check_each(study.response_time("datapath", subjects, ends=ENDS))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod")
@compares("interface", KINDS)
def test_connects(interface: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """New TCP connections from pod to pod, one after the other, by the kind of their interfaces.

    Steps: in interleaved rounds build the node anew with pods of each kind; open and close connections without data.
    Verify: the SLA: none fails. Rate and times are measured and reported, as ratios to veth.
    """
    nodes = [Subject(kind, pod_node(kind=kind), Dut("netdev")) for kind in interface]
    sla.check_each(study.connect_rate("interface", nodes, ends=ENDS))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@compares("datapath", ("system", "netdev"))
def test_connects_by_datapath(datapath: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """The same, by the kernel's datapath and by the one in userspace.

    Steps: as above.
    Verify: as above, as a ratio to the kernel's datapath.
    """
    subjects = [Subject(each, pod_node(), Dut(each)) for each in datapath]
    sla.check_each(study.connect_rate("datapath", subjects, ends=ENDS))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="vhost-user")
@sweep("load", LOADS)
@compares("tuning", SLEEPS)
def test_sleeping_pmd(tuning: Sequence[Tuning], load: int, study: Study, profile: Profile, sla: SlaCheck) -> None:
    """PMD threads that may sleep when idle (pmd-sleep-max), off and on: CPU saved, and latency added.

    Steps: in interleaved rounds start OVS so tuned; build the node with two pods that bring DPDK; send a fixed load
    between them.
    Verify: the SLA: sleep saves CPU and adds latency where there is little to do.
    """
    subjects = [Subject(str(each), pod_node(kind="vhost-user"), Dut("dpdk", tuning=each)) for each in tuning]
    sla.check_each(study.compare("tuning", subjects, LoadCost(Traffic(), profile, load)))
