"""TCP between pods of a node (S5): what does each kind of interface carry, and what CPU does a gigabit cost?

In OVS's userspace datapath a pod's veth end is an af_packet port, which vswitchd reads by system calls; a tap and an
internal port are read likewise. The kernel datapath, which S5 took as its baseline, passes frames in softirq.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, compares, sweep
from pytest_nfvperf.parts import Offloads, pod_node

KINDS = ("veth", "tap", "internal")
BUFFERS = (64, 512, 1460, 8192, 65_536, 1 << 20)
"""Bytes of one write: small, medium, large."""

POD, OTHER, OUTSIDE = "pod1", "pod2", "outside"
TSO = Offloads(tso=True, gso=True, tx_checksum=True)


def nodes(kinds: Sequence[str], dut: Dut) -> list[Subject]:
    """A node for each kind of the pods' interfaces."""
    return [Subject(kind, pod_node(kind=kind), dut) for kind in kinds]


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="pods", to="pod")
@sweep("buffer", BUFFERS, quick={1460})
@compares("interface", KINDS, quick=KINDS[:2])
def test_buffers(interface: Sequence[str], buffer: int, study: Study, sla: SlaCheck) -> None:
    """Goodput of TCP from pod to pod on br-int by the kind of their interfaces, and its CPU, by the size of a write.

    Steps: in interleaved rounds build the node anew with pods of each kind; send TCP from pod1 to pod2.
    Verify: measured and reported, as ratios to veth; a machine's own SLA can set limits.
    """
    found = study.tcp_throughput("interface", nodes(interface, Dut("netdev")), ends=(POD, OTHER), buffer_bytes=buffer)
    sla.check_each(found)


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod")
@sweep("streams", (1, 4, 8))
@pytest.mark.parametrize("direction", ["forward", "both"])
@compares("interface", KINDS, quick=KINDS)
def test_parallel_streams(interface: Sequence[str], streams: int, direction: str, study: Study, sla: SlaCheck) -> None:
    """Goodput of parallel streams from pod to pod, one way and both ways at once.

    Steps: as above, with 128 KiB a write.
    Verify: measured and reported, as ratios to veth.
    """
    subjects = nodes(interface, Dut("netdev"))
    sla.check_each(study.tcp_throughput("interface", subjects, streams, ends=(POD, OTHER), direction=direction))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="outside")
@compares("interface", KINDS, quick=KINDS)
def test_to_the_outside(interface: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """Goodput from a pod over br-int, the patch port and br-ex to the outside.

    Steps: as above, from pod1 to what is behind br-ex's physical port.
    Verify: measured and reported, as ratios to veth.
    """
    sla.check_each(study.tcp_throughput("interface", nodes(interface, Dut("netdev")), ends=(POD, OUTSIDE)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@sweep("buffer", (1460, 65_536))
@compares("ip", (4, 6))
def test_ip_versions(ip: Sequence[int], buffer: int, study: Study, sla: SlaCheck) -> None:
    """Goodput from pod to pod with IPv4 addresses and with IPv6 ones.

    Steps: in interleaved rounds build the node anew with pods of each; send TCP from pod1 to pod2.
    Verify: measured and reported, as a ratio to IPv4.
    """
    subjects = [Subject(str(version), pod_node(ip=version), Dut("netdev")) for version in ip]
    sla.check_each(study.tcp_throughput("ip", subjects, ends=(POD, OTHER), buffer_bytes=buffer))


@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@sweep("buffer", BUFFERS, quick={1460})
@compares("datapath", ("system", "netdev"))
def test_kernel_against_userspace(datapath: Sequence[str], buffer: int, study: Study, sla: SlaCheck) -> None:
    """S5's question: pods on veth, by the kernel's datapath and by the one in userspace.

    Steps: in interleaved rounds build the node anew on each datapath; send TCP from pod1 to pod2.
    Verify: measured and reported, as a ratio to the kernel's datapath.
    """
    subjects = [Subject(each, pod_node(), Dut(each)) for each in datapath]
    sla.check_each(study.tcp_throughput("datapath", subjects, ends=(POD, OTHER), buffer_bytes=buffer))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv_needs("system")
@pytest.mark.nfv(topology="pods", to="pod")
@sweep("buffer", BUFFERS)
@pytest.mark.parametrize("userspace_tso", ["off", "on"])
@compares("interface", ("veth", "vduse"))
def test_vduse(interface: Sequence[str], userspace_tso: str, buffer: int, study: Study, sla: SlaCheck) -> None:
    """S5's finding: pods on veth by the kernel's datapath, against pods on VDUSE by the one in userspace.

    Steps: as above; OVS in userspace without and with TSO. The kernel has it either way.
    Verify: measured and reported, as a ratio to veth; published:S5 has what S5 found.
    """
    duts = {"veth": Dut("system"), "vduse": Dut("dpdk", userspace_tso=userspace_tso == "on")}
    subjects = [Subject(kind, pod_node(kind=kind), duts[kind]) for kind in interface]
    sla.check_each(study.tcp_throughput("interface", subjects, ends=(POD, OTHER), buffer_bytes=buffer))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@sweep("buffer", BUFFERS)
@compares("tso", ("off", "on"))
def test_userspace_tso(tso: Sequence[str], buffer: int, study: Study, sla: SlaCheck) -> None:
    """Segmentation left to OVS (userspace-tso-enable), off and on.

    Steps: in interleaved rounds start OVS either way; build the node; send TCP from pod1 to pod2.
    Verify: the SLA: large writes gain by it.
    """
    offloads = {"off": Offloads(), "on": TSO}
    subjects = [
        Subject(each, pod_node(offloads=offloads[each]), Dut("netdev", userspace_tso=each == "on")) for each in tso
    ]
    sla.check_each(study.tcp_throughput("tso", subjects, ends=(POD, OTHER), buffer_bytes=buffer))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod")
@sweep("buffer", BUFFERS)
@compares("interface", ("veth", "af_xdp"))
def test_af_xdp(interface: Sequence[str], buffer: int, study: Study, sla: SlaCheck) -> None:
    """Pods' veth ends read by AF_XDP on a PMD, which S5's authors considered, against af_packet.

    Steps: as above, on OVS with DPDK.
    Verify: measured and reported, as a ratio to af_packet.
    """
    found = study.tcp_throughput("interface", nodes(interface, Dut("dpdk")), ends=(POD, OTHER), buffer_bytes=buffer)
    sla.check_each(found)
