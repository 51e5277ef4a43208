"""What an overlay between two nodes costs as it grows (S3): inner flows, VNIs, conntrack, rules, queues, new flows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    Deployer,
    Dut,
    Search,
    SlaCheck,
    Study,
    Subject,
    Traffic,
    Tuning,
    compares,
    sweep,
    vm_to_vm,
)

OVERLAYS = ("none", "vxlan", "geneve")
SMALL_FRAMES = (64, 128, 256)
LINE_RATE_BPS = 100e6
FEW_CACHED = Tuning(other_config=(("flow-limit", "1000"),))
"""OVS caches no more flows than that, its least (ovs-vswitchd.conf.db(5)): frames of all others are upcalls."""

ZONES: dict[str, dict[str, int]] = {"off": {}, "on": {"zone": 7}}


def one_way(flows: int = 1) -> Traffic:
    """From one VM to the other, 64 bytes."""
    return Traffic(frame_size=64, flows=flows, bidirectional=False)


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64")
@sweep("flows", (1, 100, 10_000, 100_000))
@compares("overlay", OVERLAYS)
def test_inner_flows(overlay: Sequence[str], flows: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by the number of inner flows.

    Steps: for each overlay in turn build two nodes with an underlay between; learn; warm up; offer more than it
    forwards.
    Verify: the SLA for each overlay; its rate as a ratio to none is told.
    """
    subjects = [Subject(name, vm_to_vm(name)) for name in overlay]
    sla.check_each(study.forwarding_rate("overlay", subjects, one_way(flows)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan", flows="1")
@compares("frame_size", SMALL_FRAMES)
def test_small_frames(frame_size: Sequence[int], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by frame size, where a frame costs the same whatever its bytes (S3: flat over small sizes).

    Steps: as above, over VXLAN; each pair of nodes is sent frames of one size.
    Verify: the SLA for each size; its rate as a ratio to 64 bytes' is told.
    """
    subjects = [
        Subject(str(size), vm_to_vm("vxlan"), traffic=Traffic(frame_size=size, bidirectional=False))
        for size in frame_size
    ]
    sla.check_each(study.forwarding_rate("frame_size", subjects, one_way()))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64", overlay="vxlan", flows="10000")
@compares("vnis", (1, 10, 100, 1000))
def test_vnis(vnis: Sequence[int], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by the number of VNIs that the inner flows are in.

    Steps: as above, with 10,000 inner flows, each in one of the VNIs.
    Verify: the SLA for each number; its rate as a ratio to one VNI is told.
    """
    subjects = [Subject(str(number), vm_to_vm("vxlan", vnis=number)) for number in vnis]
    sla.check_each(study.forwarding_rate("vnis", subjects, one_way(10_000)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64", overlay="vxlan")
@sweep("flows", (1, 10_000))
@compares("conntrack", tuple(ZONES))
def test_conntrack(conntrack: Sequence[str], flows: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate with connection tracking on both nodes, and without.

    Steps: as above; each frame is looked up in a conntrack zone before and after the overlay.
    Verify: the SLA for both; the ratio of on to off is told.
    """
    subjects = [Subject(name, vm_to_vm("vxlan", **ZONES[name])) for name in conntrack]
    sla.check_each(study.forwarding_rate("conntrack", subjects, one_way(flows)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64", overlay="vxlan", flows="1000")
@compares("rules", (1, 1_000, 10_000, 100_000))
def test_rules(rules: Sequence[int], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by the number of OpenFlow rules that each frame is looked up among, on both nodes.

    Steps: as above; the VMs' bridges have an access list of which no frame matches a rule.
    Verify: the SLA for each number; its rate as a ratio to one rule is told.
    """
    subjects = [Subject(str(number), vm_to_vm("vxlan", acl=number)) for number in rules]
    sla.check_each(study.forwarding_rate("rules", subjects, one_way(1_000)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64", overlay="vxlan", flows="1000")
@compares("queues", (1, 2, 4))
def test_queues(queues: Sequence[int], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by the receive queues of each port, the underlay's too. A node's PMDs share them.

    Steps: as above, with so many queues.
    Verify: the SLA for each number; its rate as a ratio to one queue is told.
    """
    subjects = [Subject(str(number), vm_to_vm("vxlan"), Dut(tuning=Tuning(rxq=number))) for number in queues]
    sla.check_each(study.forwarding_rate("queues", subjects, one_way(1_000)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", frame_size="64", flows="4194304")
@compares("overlay", ("vxlan", "geneve"))
def test_new_flows(overlay: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """New flows a second that pass at overload: what upcalls leave of the forwarding rate of the node that sends.

    Steps: as above; each frame is of another of 4 million flows, of which OVS shall cache 1000. A flow's VNI is chosen
    by its addresses and ports, so none is forwarded by what another one left in the caches. Of frames that passed 72
    to 98 % were seen to be upcalls, the others found what an earlier reading had left; the ledger's note tells it.
    Verify: the SLA for each overlay; its rate as a ratio to VXLAN's is told.
    """
    dut = Dut(tuning=FEW_CACHED)
    subjects = [Subject(name, vm_to_vm(name, vnis=2), dut) for name in overlay]
    sla.check_each(study.forwarding_rate("overlay", subjects, one_way(1 << 22)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan", flows="1")
@sweep("frame_size", RFC2544_FRAME_SIZES)
def test_line_rate(frame_size: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Throughput by frame size where the underlay is slower than the nodes: 100 Mbps, so that it is full.

    Steps: build two nodes; learn; search, up to what the underlay carries of VXLAN frames.
    Verify: the SLA, as a share of line rate.
    """
    live = deploy(vm_to_vm("vxlan", line_rate_bps=LINE_RATE_BPS))
    sla.check(search.throughput(live, Traffic(frame_size=frame_size, bidirectional=False)))
