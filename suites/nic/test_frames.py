"""What a NIC does to frames: destinations that are not its own, VLAN tags, checksums, pause frames.

So many frames each, at a calm load. The receiver compares every frame with what was sent, from the IP header on.
"""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from pytest_nfvperf import Deployer, Search, SlaCheck, Traffic, TrafficMix, Vary, compose, phy2phy, sweep
from pytest_nfvperf.parts import Vlan, endpoint

pytestmark = pytest.mark.usefixtures("nics")

FRAMES = 1000
VLAN = 100
FLOWS = 100

DESTINATIONS = {
    "own": None,
    "foreign": "02:00:00:00:be:ef",
    "multicast": "01:00:5e:00:00:05",
    "broadcast": "ff:ff:ff:ff:ff:ff",
}
"""To whom frames are sent: to the port at the DUT's far end, a station that is nowhere, a group, everybody."""

CHECKSUMS = {
    "udp": Traffic(packet=Ether() / IP() / UDP(), frame_size=128, vary=[Vary("IP.src", FLOWS)]),
    "tcp": Traffic(packet=Ether() / IP() / TCP(dport=80), frame_size=128, vary=[Vary("IP.src", FLOWS)]),
    "udp-none": Traffic(packet=Ether() / IP() / UDP(chksum=0), frame_size=128),
    "udp-wrong": Traffic(packet=Ether() / IP() / UDP(chksum=0xBAD), frame_size=128, checksums="as given"),
    "tcp-wrong": Traffic(packet=Ether() / IP() / TCP(dport=80, chksum=0xBAD), frame_size=128, checksums="as given"),
}
"""A switch forwards a frame with a wrong checksum as it is: to judge it is the receiver's business."""

PAUSE = Ether(dst="01:80:c2:00:00:01", type=0x8808) / Raw(b"\x00\x01\xff\xff")
"""IEEE 802.3 annex 31B: be silent for 65,535 times 512 bit times, which is 33 ms at 1 Gbps."""


@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize("destination", list(DESTINATIONS))
def test_mac_filter(destination: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """A NIC of a switch takes every frame, whomever it is for: its MAC filter must be off (promiscuous mode).

    Steps: build NIC - bridge - NIC; one trial to this destination at a calm load, in both directions.
    Verify: the SLA's ``loss_ratio``. A NIC that filters loses all frames to other addresses.
    """
    address = DESTINATIONS[destination]
    packet = (Ether() if address is None else Ether(dst=address)) / IP() / UDP(chksum=0)
    sla.check(search.loss_of(deploy(phy2phy()), Traffic(packet=packet), FRAMES))


@pytest.mark.nfv(direction="unidirectional")
@pytest.mark.parametrize("tag", ["insert", "strip", "keep"])
def test_vlan(tag: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """VLAN tags: put on frames from an access port, taken off towards one, left alone between two trunks.

    Steps: build NIC - bridge - NIC, the ports an access port or a trunk that carries this VLAN only; one trial at a
    calm load from the first port to the second, with a tag where it is a trunk.
    Verify: the SLA's ``loss_ratio``. A NIC that takes a tag off without a word to the driver loses all frames at a
    trunk, which carries none without a tag.
    """
    access, trunk = Vlan(VLAN), Vlan(trunks=(VLAN,))
    first, second = {"insert": (access, trunk), "strip": (trunk, access), "keep": (trunk, trunk)}[tag]
    live = deploy(compose(f"vlan-{tag}", endpoint("p0", "br0", vlan=first), endpoint("p1", "br0", vlan=second)))
    packet = Ether() / IP() / UDP(chksum=0) if first is access else Ether() / Dot1Q(vlan=VLAN) / IP() / UDP(chksum=0)
    traffic = Traffic(packet=packet, bidirectional=False)
    sla.check(search.loss_of(live, traffic, FRAMES))


@pytest.mark.nfv(topology="phy2phy")
@sweep("checksum", list(CHECKSUMS), quick=set(CHECKSUMS))
def test_checksums(checksum: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Right and wrong checksums pass unchanged, whatever the NIC computes or checks by itself.

    Steps: build NIC - bridge - NIC; one trial at a calm load, in both directions.
    Verify: the SLA's ``loss_ratio``, and ``corrupted_ratio``, which fails for a changed checksum without a rule.
    """
    sla.check(search.loss_of(deploy(phy2phy()), CHECKSUMS[checksum], FRAMES))


@pytest.mark.nfv(topology="phy2phy")
def test_pause_frames(deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Pause frames do not slow the NIC's sending: flow control is off, as OVS sets it.

    Steps: build NIC - bridge - NIC; one trial: data from the first port to the second at a calm load, meanwhile pause
    frames to the second port, each for the longest time.
    Verify: the SLA's ``loss_ratio`` of class data. A NIC that obeys sends nothing, and loses what its ring cannot hold.
    What becomes of the pause frames is not judged: most NICs take them, others hand them to the bridge. Pause frames
    that the DUT sends are not seen, since the generator's NIC takes them.
    """
    data = Traffic(frame_size=128)
    traffic = TrafficMix(data=(data, "100 %", "forward"), pause=(Traffic(packet=PAUSE), "100 %", "reverse"))
    sla.check(search.loss_of(deploy(phy2phy()), traffic, FRAMES))
