"""S4: mirrors of every frame through two VMs, to a VM, to another port of the generator and to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    Deployer,
    LiveTopology,
    MirrorLoad,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    compares,
    compose,
    mirror_output,
    sweep,
    vm_chain,
)
from pytest_nfvperf.parts import endpoint, mirror, monitor, path

BASELINE = "vm-to-vm"
"""No mirror: the baseline that S4's author found missing."""

SOFTWARE = (BASELINE, "2a", "2b")
TO_HOST = (BASELINE, "2c", "2c-af_packet", "2c-af_xdp")
OUTPUTS = {"a": "virtual", "b": "physical", "c": "host", "c-af_packet": "af_packet", "c-af_xdp": "af_xdp"}
"""By the letters of S4's cases, and other ways to the host than a tap."""

LOADS = {
    "10 %": MirrorLoad(share=0.1),
    "50 %": MirrorLoad(share=0.5),
    "50 % of ndr": MirrorLoad(share=0.5, share_of="ndr"),
    "6 Mpps": MirrorLoad(fps=6e6),
}
"""At which completeness is read: of the forwarding rate, or the NDR, without a mirror; and S4's own."""


def _chain(case: str, by: str = "ovsdb") -> Topology:
    """The two VMs, with the case's mirror and its output."""
    if case == BASELINE:
        return vm_chain(2)
    output = mirror_output(OUTPUTS[case[1:]])
    return vm_chain(2, output, mirror("all", output.bridge, output.name, by=by))


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("by", ("ovsdb", "flow"), quick={"ovsdb"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", SOFTWARE, quick=SOFTWARE)
def test_software(case: Sequence[str], frame_size: int, by: str, load: str, study: Study, sla: SlaCheck) -> None:
    """Mirrors in software of all that crosses the bridge, three times each frame: complete, and at what cost?

    2a to a monitor VM, 2b to another port of the generator; by OVSDB's Mirror table, or by an output action more in
    each flow.

    Steps: in interleaved rounds build generator - VM1 - VM2 - generator without and with each mirror; learn; warm up;
    offer more than it forwards; send at the load.
    Verify: the SLA: at the load every copy arrives; and the forwarding rate, as a ratio to the one without mirror.
    """
    chains = [Subject(name, _chain(name, by)) for name in case]
    sent = Traffic(frame_size=frame_size, bidirectional=False)
    sla.check_each(study.mirror_cost("case", chains, sent, LOADS[load]))


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("by", ("ovsdb", "flow"), quick={"ovsdb"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", TO_HOST, quick=TO_HOST[:2])
def test_software_to_host(
    case: Sequence[str], frame_size: int, by: str, load: str, study: Study, sla: SlaCheck
) -> None:
    """As the other mirrors in software, to the host: apart, because reading it takes the kernel's time.

    2c to a tap; beside it a veth pair with a packet socket, and one with AF_XDP at both ends.

    Steps: in interleaved rounds build the chain without and with the mirror; learn; warm up; offer more than it
    forwards; send at the load.
    Verify: the SLA for the forwarding rate, as a ratio to the one without mirror.
    """
    chains = [Subject(name, _chain(name, by)) for name in case]
    sent = Traffic(frame_size=frame_size, bidirectional=False)
    sla.check_each(study.mirror_cost("case", chains, sent, LOADS[load]))


CheckInHardware = Callable[[Sequence[Subject], int, str], None]
"""Arguments: the subjects, the frame size, and the name of the load."""


@pytest.fixture
def check_in_hardware(
    deploy: Deployer, offloaded: Callable[[LiveTopology], None], study: Study, sla: SlaCheck
) -> CheckInHardware:
    """Check a mirror as those in software are, where the NIC has its flows."""

    def check(subjects: Sequence[Subject], frame_size: int, load: str) -> None:
        offloaded(deploy(subjects[-1].topology))  # skips where none of its flows is in hardware
        sent = Traffic(frame_size=frame_size, bidirectional=False)
        sla.check_each(study.mirror_cost("case", subjects, sent, LOADS[load]))

    return check


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", (BASELINE, "3a"))
def test_offloaded_to_vm(case: Sequence[str], frame_size: int, load: str, check_in_hardware: CheckInHardware) -> None:
    """A mirror to a monitor VM where the NIC has the flows: S4's 3a.

    Steps: send a little and see where the flows are; then as the mirrors in software.
    Verify: as the mirrors in software; skipped, with OVS's reason for each flow, where no flow is in hardware.
    """
    check_in_hardware([Subject(name, _chain(name)) for name in case], frame_size, load)


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", (BASELINE, "3b"))
def test_offloaded_to_port(case: Sequence[str], frame_size: int, load: str, check_in_hardware: CheckInHardware) -> None:
    """A mirror to another port of the generator where the NIC has the flows: S4's 3b.

    Steps and verification: as test_offloaded_to_vm.
    """
    check_in_hardware([Subject(name, _chain(name)) for name in case], frame_size, load)


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", (BASELINE, "3c"))
def test_offloaded_to_host(case: Sequence[str], frame_size: int, load: str, check_in_hardware: CheckInHardware) -> None:
    """A mirror to a tap of the host where the NIC has the flows: S4's 3c.

    Steps and verification: as test_offloaded_to_vm.
    """
    check_in_hardware([Subject(name, _chain(name)) for name in case], frame_size, load)


@pytest.mark.nfv(topology="ports")
@sweep("load", LOADS, quick={"10 %"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@pytest.mark.nfv_needs(cabled=3)
@compares("case", ("no mirror", "port"))
def test_offloaded_between_ports(
    case: Sequence[str], frame_size: int, load: str, check_in_hardware: CheckInHardware
) -> None:
    """A mirror where the NIC has the flows and there is no VM: from p0 to p1, copies to p2.

    It needs no VM in hardware (SR-IOV, vDPA), so it shows what a NIC does by itself.

    Steps: send a little and see where the flows are; then as the mirrors in software, in place of the two VMs a wire.
    Verify: as test_offloaded_to_vm.
    """
    ends = (endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"))
    topologies = {
        "no mirror": compose("ports", *ends),
        "port": compose("ports mirrored", *ends, monitor("p2", "br0"), mirror("all", "br0", "p2", select_src=("p0",))),
    }
    check_in_hardware([Subject(name, topologies[name]) for name in case], frame_size, load)


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-chain-2")
@sweep("frame_size", RFC2544_FRAME_SIZES)
@compares("reader", ("no mirror", "reads", "does not read"))
def test_slow_output(reader: Sequence[str], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """A mirror whose output nobody reads: what does its full ring cost those who forward?

    Steps: in interleaved rounds build the chain without a mirror, with one to a monitor VM that reads, and with one to
    a monitor VM that stopped reading; learn; warm up; offer more than it forwards; send at a tenth of that.
    Verify: the SLA on how much forwarding goes on, and on copies that neither arrived nor were counted as drops.
    """
    chains = {
        "no mirror": vm_chain(2),
        "reads": vm_chain(2, monitor("vm3", "br0", vm=True), mirror("all", "br0", "vm3")),
        "does not read": vm_chain(2, monitor("vm3", "br0", vm=True, unread=True), mirror("all", "br0", "vm3")),
    }
    subjects = [Subject(name, chains[name]) for name in reader]
    sent = Traffic(frame_size=frame_size, bidirectional=False)
    sla.check_each(study.mirror_cost("reader", subjects, sent, LOADS["10 %"]))
