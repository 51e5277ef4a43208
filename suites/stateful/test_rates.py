"""Connections a second: without connection tracking, with it, and with each kind of NAT; by protocol.

Addresses and ports of connections are new ones until 1,032,192 have been opened, and each trial begins without any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_nfvperf import (
    Conversation,
    Deployer,
    Dut,
    Search,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    Tuning,
    UnavailableError,
    compares,
    compose,
    sweep,
)
from pytest_nfvperf.parts import connections, dnat, endpoint, load_balancer, path, snat

CLIENTS = 16
BETWEEN: Any = {"client": "p0", "server": "p1"}
TRANSLATED = snat("198.51.100.1-198.51.100.32")
"""Twice as many addresses as clients: OVS searches longer for a free port the fewer there are."""

LASTING: Any = {
    "timeouts": dict.fromkeys(("tcp_close", "tcp_established", "udp_multiple", "icmp_reply"), 1),
    "most_connections": 10_000_000,
}
"""By default OVS keeps closed connections for 30 s and longer, and 3,000,000 in all: 50,000 a second fill its table."""

CONVERSATIONS: dict[str, Traffic] = {
    "tcp": Conversation.tcp(clients=CLIENTS),
    "tcp-rst": Conversation.tcp(clients=CLIENTS, close="rst"),
    "tcp-open": Conversation.tcp(clients=CLIENTS, close="none"),
    "tcp-empty": Conversation.tcp(clients=CLIENTS, request=0, response=0),
    "tcp-segments": Conversation.tcp(clients=CLIENTS, response=14_000),
    "tcp-ipv6": Conversation.tcp(clients=CLIENTS, client_ip="2001:2::1", server_ip="2001:2:0:8000::1"),
    "udp": Conversation.udp(clients=CLIENTS),
    "icmp": Conversation.icmp(clients=CLIENTS),
}


def wired(name: str, *parts: Any) -> Topology:
    """Port - bridge - port, and what tracks connections between them."""
    return compose(name, endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), *parts)


def tracked(**settings: Any) -> Topology:
    return wired("tracked", connections("br0", **BETWEEN, **LASTING, **settings))


STATEFUL: dict[str, tuple[Topology, Traffic]] = {
    "ct": (tracked(), CONVERSATIONS["tcp"]),
    "none": (wired("untracked"), CONVERSATIONS["tcp"]),
    "zones": (tracked(second_zone=2), CONVERSATIONS["tcp"]),
    "snat": (tracked(nat=TRANSLATED), Conversation.tcp(clients=CLIENTS, nat="source")),
    "dnat": (tracked(nat=dnat("198.19.1.1")), Conversation.tcp(clients=CLIENTS, nat="destination")),
    "backends": (
        wired("balanced", load_balancer("br0", **BETWEEN, **LASTING, backends=4)),
        Conversation.tcp(clients=CLIENTS, nat="destination"),
    ),
    "snat-dnat": (
        tracked(nat=(TRANSLATED, dnat("198.19.1.1")), second_zone=2),
        Conversation.tcp(clients=CLIENTS, nat="both"),
    ),
}


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="tracked")
@sweep("conversation", list(CONVERSATIONS), quick={"tcp"})
def test_connection_rate(conversation: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Connections a second of which none fails, by protocol and by how they end.

    Steps: build port - bridge - port, with a zone; search with MLRsearch, with the zone flushed before each trial;
        confirm.
    Verify: the SLA on connections a second.
    """
    sla.check(search.connection_rate(deploy(tracked()), CONVERSATIONS[conversation]))


@compares("stateful", list(STATEFUL), quick=("ct", "none"))
def test_cost(stateful: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """What connection tracking costs a TCP connection, and each kind of NAT: rates at overload, and PMD cycles a frame.

    The others are compared with connection tracking: without it a DUT may be faster than the generator.

    Steps: build all side by side; flush; open more connections than each takes, in turns.
    Verify: the SLA on connections a second, and on ratios to connection tracking without NAT.
    """
    subjects = [Subject(each, STATEFUL[each][0], traffic=STATEFUL[each][1]) for each in stateful]
    sla.check_each(study.connection_rate("stateful", subjects, CONVERSATIONS["tcp"]))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="tracked")
@sweep("pmds", (1, 2, 4))
def test_pmds(pmds: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Connections a second by the number of polling threads, which share one table.

    Steps: as test_connection_rate, with the ports' receive queues on so many of the DUT's CPUs.
    Verify: the SLA on connections a second. Skipped, with the reason, where the DUT polls on fewer CPUs.
    """
    shown = deploy(tracked()).deployment.built.ovs("appctl", "dpif-netdev/pmd-rxq-show")
    cpus = re.findall(r"core_id (\d+):", shown)[:pmds]
    if len(cpus) < pmds:
        raise UnavailableError(f"the DUT polls on {len(cpus)} CPUs, not {pmds} (cpus.pmd of a testbed file)")
    queues = max(1, pmds // 2)
    on = (cpus * 2)[: 2 * queues]
    affinity = tuple(
        (port, ",".join(f"{queue}:{cpu}" for queue, cpu in enumerate(on[at::2])))
        for at, port in enumerate(("p0", "p1"))
    )
    live = deploy(tracked(), dut=Dut(tuning=Tuning(rxq=queues, rxq_affinity=affinity)))
    sla.check(search.connection_rate(live, CONVERSATIONS["tcp"]))
