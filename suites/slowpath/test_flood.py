"""A flood beside established flows: the victim's loss, latency and blocked time, and how long the DUT recovers.

The victim has 1,000 established flows. The attacker sends in the same direction, on the same port.
"""

from __future__ import annotations

import pytest
from scapy.layers.igmp import IGMP
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, IPv6
from scapy.layers.l2 import ARP, Ether

from pytest_nfvperf import (
    Deployer,
    Dut,
    Floods,
    LiveTopology,
    SlaCheck,
    Topology,
    Traffic,
    Tuning,
    Vary,
    chosen,
    compose,
    sweep,
)
from pytest_nfvperf.parts import endpoint, path, rules
from pytest_nfvperf.results import Outcome

VICTIM = Traffic(frame_size=128, flows=1000, bidirectional=False)
VICTIM_FPS = 100_000

WATCHED_S = 15.0
"""Idle megaflows live for 10 s."""

GROUP, EVERYBODY, ALL_NODES = "01:00:5e:00:00:16", "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"


def _of_new_stations(packet: object) -> Traffic:
    """Each frame comes from another MAC address, so that the bridge learns it, and has a megaflow of its own."""
    return Traffic(packet=packet, frame_size=128, vary=[Vary("Ether.src", 1 << 24, first="02:aa:00:00:00:00")])


def _five_tuples(dport: int | None = None, *, apart: int = 1) -> Traffic:
    """Addresses in random order, and ports; 16,777,207 five-tuples, since the two numbers of values have no divisor.

    ``apart``: from one address to the next.
    """
    vary = [
        Vary("IP.src", 4093, step=apart, order="random"),
        Vary("IP.dst", 4099, step=apart, order="random"),
        Vary("UDP.sport", 4093, step=15),
        *([Vary("UDP.dport", 4099, step=15)] if dport is None else []),
    ]
    first = "10.0.0.1" if apart == 1 else "0.0.0.1"
    packet = Ether() / IP(src=first, dst=first) / UDP(sport=1, dport=dport or 1, chksum=0)
    return Traffic(packet=packet, frame_size=128, vary=vary, together=False)


ATTACKS = {
    "five-tuples": _five_tuples(),
    "arp": _of_new_stations(Ether(dst=EVERYBODY) / ARP(psrc="10.0.0.1", pdst="10.0.0.2")),
    "nd": _of_new_stations(Ether(dst=ALL_NODES) / IPv6(src="fe80::1", dst="ff02::1") / ICMPv6ND_NS(tgt="fe80::2")),
    "igmp": _of_new_stations(Ether(dst=GROUP) / IP(dst="224.0.0.22", ttl=1) / IGMP(type=0x16, gaddr="239.1.2.3")),
}

MASKS = (
    "priority=213,udp,nw_src=10.85.85.85,actions=drop",
    "priority=212,udp,nw_dst=10.170.170.170,actions=drop",
    "priority=211,udp,tp_src=21845,actions=drop",
    "priority=210,udp,tp_dst=43690,actions=drop",
    "priority=0,actions=NORMAL",
)
"""A megaflow must tell a frame from each of these flows, so its masks are as long as what the two have in common: up to
32 x 32 x 16 x 16 subtables, which a lookup visits one after the other (tuple space explosion)."""


def learning(*flows: str, zone: int | None = None) -> Topology:
    """Port - bridge - port, where the bridge learns MAC addresses and each pair of IP addresses has a megaflow."""
    own = rules("br0", flows=flows) if flows else rules("br0", by_address=True, zone=zone)
    return compose("learning", endpoint("p0", "br0"), endpoint("p1", "br0"), own)


@pytest.mark.nfv_not_quick  # on a machine that takes CPU time away, the load of so rare frames is not reached
@pytest.mark.nfv(topology="learning", attack="five-tuples")
@sweep("attacker_kpps", (1, 10, 20, 50, 100, 200, 500, 1000))
def test_attacker_rate(attacker_kpps: int, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """What a victim loses against the attacker's rate: each of its frames has addresses and ports of its own.

    Steps: build port - bridge - port; watch the victim alone; flood; flood again and watch the victim recover.
    Verify: the SLA on the victim's loss and on its recovery, at this rate.
    """
    live = deploy(learning())
    sla.check(_flood(flood, live, ATTACKS["five-tuples"], attacker_kpps))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="learning")
@chosen("attack, attacker_kpps", [(attack, kpps) for attack in ("arp", "nd", "igmp") for kpps in (10, 100)])
def test_storm(attack: str, attacker_kpps: int, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """The same beside a storm of ARP requests, neighbour solicitations or IGMP reports, each of a new station.

    Steps, Verify: as above.
    """
    sla.check(_flood(flood, deploy(learning()), ATTACKS[attack], attacker_kpps))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="learning", attack="masks")
@sweep("attacker_kpps", (1, 10, 100))
def test_masks(attacker_kpps: int, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """The same beside five-tuples that each hit another subtable of the datapath's classifier.

    Steps, Verify: as above.
    """
    everywhere = _five_tuples(apart=1 << 19)
    sla.check(_flood(flood, deploy(learning(*MASKS)), everywhere, attacker_kpps))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="punting", attack="packet-in")
@sweep("attacker_kpps", (1, 10, 100))
def test_packet_in(attacker_kpps: int, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """The same beside frames that a flow sends to a controller of the run's, and to the other port.

    Steps: build port - bridge - port, with a controller; then as above.
    Verify: as above.
    """
    topology = compose("punting", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"))
    live = deploy(topology, configure=_controlled)
    sla.check(_flood(flood, live, _five_tuples(dport=9), attacker_kpps))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(attacker_kpps="100", attack="five-tuples")
@sweep("limit", ("none", "flow-limit", "grown", "ct"))
def test_limits(limit: str, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """What a limit protects, with connection tracking: 2,000 megaflows, 200,000 of them, 2,000 connections in the zone.

    Steps: build port - bridge - port, with a zone and the limit; then as above.
    Verify: as above; megaflows, memory and the full zone are in the notes.
    """
    tuning = Tuning(other_config=(("flow-limit", "2000"),)) if limit == "flow-limit" else Tuning()
    configure = _limit_connections if limit == "ct" else None
    live = deploy(learning(zone=7), dut=Dut(tuning=tuning), configure=configure)
    limits = {"flow-limit": 2000, "grown": 200_000}
    sla.check(_flood(flood, live, ATTACKS["five-tuples"], 100, limits.get(limit, 10_000)))


def _flood(flood: Floods, live: LiveTopology, attacker: Traffic, kpps: int, flow_limit: int = 10_000) -> Outcome:
    return flood.run(
        live,
        VICTIM,
        attacker,
        victim_fps=VICTIM_FPS,
        attacker_fps=kpps * 1000,
        recovery_s=WATCHED_S,
        flow_limit=flow_limit,
    )


def _limit_connections(live: LiveTopology) -> None:
    live.deployment.built.ovs("appctl", "dpctl/ct-set-limits", "zone=7,limit=2000")


def _controlled(live: LiveTopology) -> None:
    """Connect the bridge to the run's own controller, which reads what it is sent, and add a flow that sends to it."""
    if live.deployment.dut is None:
        pytest.skip("a controller of the run's needs an Open vSwitch of this machine")
    live.deployment.dut.operation("give a controller to", fail_mode="secure").act()
    punting = "priority=300,in_port=p0,udp,tp_dst=9,actions=CONTROLLER:65535,output:p1"
    live.deployment.built.ovs("ofctl", "add-flow", "br0", punting)
