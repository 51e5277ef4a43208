"""Established connections beside new ones, a flood of SYNs, commands that read the table; new ones for minutes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from pytest_nfvperf import (
    Conversation,
    Deployer,
    Event,
    Floods,
    LiveTopology,
    Outages,
    Search,
    SlaCheck,
    Soaker,
    Topology,
    Traffic,
    TrafficMix,
    Vary,
    compose,
    sweep,
)
from pytest_nfvperf.parts import connections, endpoint, path

pytestmark = pytest.mark.nfv_not_quick

BETWEEN: Any = {"client": "p0", "server": "p1"}
ZONE = 1
CHURN = Conversation.tcp(clients=16)


def _client_frames(flags: str, *vary: Vary, first: str) -> Traffic:
    packet = Ether() / IP(src=first, dst="198.19.0.1") / TCP(sport=1024, dport=80, flags=flags)
    return Traffic(packet=packet, frame_size=128, bidirectional=False, vary=vary, together=False)


def established(number: int) -> Traffic:
    """Frames of the client in so many connections: conntrack takes up those whose opening it has not seen."""
    return _client_frames("A", Vary("TCP.sport", number), first="198.18.255.1")


SYNS = _client_frames("S", Vary("IP.src", 4093, order="random"), Vary("TCP.sport", 4099, step=15), first="198.20.0.1")
"""16,777,207 connections, since the two numbers of values have no divisor in common."""
VICTIM_FPS = 100_000


def tracked(**settings: Any) -> Topology:
    part = connections("br0", **BETWEEN, zone=ZONE, **settings)
    return compose("tracked", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), part)


@pytest.mark.nfv(topology="tracked", frame_size="128")
@sweep("churn_kcps", (0, 1, 10, 50))
def test_forwarding(churn_kcps: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Frames a second of 1,000 established connections, beside so many new ones a second.

    Steps: build port - bridge - port, with a zone; search the load of the established ones, by their loss alone.
    Verify: the SLA on NDR.
    """
    churn = {"churn": (CHURN, f"{churn_kcps} kconn/s")} if churn_kcps else {}
    mix = TrafficMix(established=(established(1000), "100 %"), **churn)
    sla.check(search.ndr_pdr(deploy(tracked()), mix, raise_only="established", judge_only="established"))


@pytest.mark.nfv(topology="tracked")
@sweep("attacker_kpps", (1, 10, 50))
@sweep("limit", ("none", 10_000))
def test_syn_flood(attacker_kpps: int, limit: Any, deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """What established connections lose beside SYNs that each open another one, with a zone's limit and without.

    Steps: build port - bridge - port, with a zone; watch the victim alone; flood; flood again and watch it recover.
    Verify: the SLA on the victim's loss and on its recovery.
    """
    live = deploy(tracked() if limit == "none" else tracked(limit=limit))
    sla.check(flood.run(live, established(1000), SYNS, victim_fps=VICTIM_FPS, attacker_fps=attacker_kpps * 1000))


@pytest.mark.nfv(topology="tracked")
@sweep("attacker_kpps", (0, 1, 10, 50))
def test_opening(attacker_kpps: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Which share of 1,000 new connections a second fails beside SYNs that each open another one.

    Steps: build port - bridge - port, with a zone; offer both for five seconds.
    Verify: the SLA on failed connections.
    """
    flood = {"attacker": (SYNS, f"{attacker_kpps} kpps")} if attacker_kpps else {}
    mix = TrafficMix(victim=(CHURN, "100 %"), **flood)
    sla.check(search.loss_at(deploy(tracked()), mix, 1000 * (1 + attacker_kpps), 5.0))


@pytest.mark.nfv(topology="tracked", frame_size="128")
@sweep("command", ("ct-get-nconns", "ct-stats-show", "dump-conntrack"))
def test_statistics(command: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long a command that reads the table of 50,000 connections blocks frames of them.

    Steps: build port - bridge - port, with a zone; send 100 kpps of 50,000 connections; read; repeat.
    Verify: the SLA's ``outage``.
    """

    def read(live: LiveTopology) -> Event:
        return Event(command, 1.0, partial(live.deployment.built.ovs, "appctl", f"dpctl/{command}"))

    sla.check(outage(deploy(tracked()), established(50_000), VICTIM_FPS, read))


@pytest.mark.nfv(topology="tracked", churn_kcps="10")
def test_soak(deploy: Deployer, soak: Soaker, sla: SlaCheck) -> None:
    """10,000 connections a second for two minutes, in which OVS removes those that have ended 30 s ago.

    Steps: build port - bridge - port, with a zone; open connections, sampling their number, memory, PMDs and ports.
    Verify: the SLA on failed connections.
    """
    sla.check(soak.run(deploy(tracked()), CHURN, load_fps=10_000, duration_s=120.0))
