"""Numbers of connections: the DUT has each one that was opened, a limit lets no more in, and a timeout removes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_nfvperf import (
    Conversation,
    Deployer,
    DutFailure,
    InconclusiveError,
    LiveTopology,
    Search,
    SlaCheck,
    Topology,
    Traffic,
    compose,
    sweep,
)
from pytest_nfvperf.parts import connections, dnat, endpoint, load_balancer, path, snat
from pytest_nfvperf.results import Outcome

OPENED = 2000
BETWEEN: Any = {"client": "p0", "server": "p1"}
SNAT, DNAT = snat("198.51.100.1-198.51.100.8"), dnat("198.19.1.1")
OPEN = Conversation.tcp(close="none")

STATEFUL: Mapping[str, tuple[Any, Traffic]] = {
    "ct": (connections("br0", **BETWEEN), OPEN),
    "zones": (connections("br0", **BETWEEN, second_zone=2), OPEN),
    "snat": (connections("br0", **BETWEEN, nat=SNAT), Conversation.tcp(close="none", nat="source")),
    "dnat": (connections("br0", **BETWEEN, nat=DNAT), Conversation.tcp(close="none", nat="destination")),
    "backends": (load_balancer("br0", **BETWEEN, backends=4), Conversation.tcp(close="none", nat="destination")),
    "both": (
        connections("br0", **BETWEEN, nat=(SNAT, DNAT), second_zone=2),
        Conversation.tcp(close="none", nat="both"),
    ),
}

ENDS: Mapping[str, Traffic] = {
    "tcp_established": OPEN,
    "tcp_close": Conversation.tcp(close="rst"),
    "udp_multiple": Conversation.udp(),
    "icmp_reply": Conversation.icmp(),
}
"""Conversations by the timeout of the state that each connection of them ends in."""

TIMEOUT_S, SWEPT_S = 1, 60.0
"""OVS counts what has timed out until it comes round to remove it: 3.1 reads all connections in up to 40 s."""


def tracked(part: Any) -> Topology:
    return compose("tracked", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), part)


@pytest.mark.nfv_not_quick
@pytest.mark.nfv_functional
@sweep("stateful", list(STATEFUL))
def test_count(stateful: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """The DUT has as many connections as were opened, in each zone.

    Steps: build port - bridge - port, with zones and NAT; open 2,000 connections or more, which stay open; count them.
    Verify: the SLA on failed ones; each zone has all.
    """
    part, opened = STATEFUL[stateful]
    live = deploy(tracked(part))
    outcome = search.loss_of(live, opened, OPENED)
    sla.check(outcome)
    offered = outcome.loss_curve[0].offered_frames
    for zone, number in live.connections().items():
        if number != offered:
            raise DutFailure(f"zone {zone} has {number:,} connections, and {offered:,} were opened")


@pytest.mark.nfv_functional
@sweep("limit", (1, 1000), quick={1000})
def test_zone_limit(limit: int, deploy: Deployer, search: Search) -> None:
    """A zone with a limit takes as many connections as that, and the rest fail.

    Steps: build port - bridge - port, with a zone and its limit; open more connections, which stay open; count them.
    Verify: the zone has as many as its limit, and as many came to their end.
    """
    live = deploy(tracked(connections("br0", **BETWEEN, limit=limit)))
    _limited(live, search.loss_of(live, OPEN, OPENED), limit)


@pytest.mark.nfv_not_quick
@pytest.mark.nfv_functional
@sweep("most", (1, 1000))
def test_full(most: int, deploy: Deployer, search: Search) -> None:
    """A datapath whose table is full (``ct-set-maxconns``) takes no more connections.

    Steps: build port - bridge - port, with a zone, and a table of that size; then as test_zone_limit.
    Verify: as test_zone_limit.
    """
    live = deploy(tracked(connections("br0", **BETWEEN, most_connections=most)))
    _limited(live, search.loss_of(live, OPEN, OPENED), most)


def _limited(live: LiveTopology, outcome: Outcome, limit: int) -> None:
    number = sum(live.connections().values())
    point = outcome.loss_curve[0]
    completed = point.offered_frames - point.lost_frames
    if number != limit or completed > limit:
        raise DutFailure(
            f"the DUT has {number:,} connections, and {completed:,} of {point.offered_frames:,} came to their end, "
            f"where {limit:,} may"
        )
    if completed < limit:
        raise InconclusiveError(f"{completed:,} connections came to their end, and the DUT has {number:,}: repeat it")


@pytest.mark.nfv_not_quick
@pytest.mark.nfv_functional
@sweep("timeout", list(ENDS))
def test_timeout(timeout: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Connections of a state whose timeout is a second are removed.

    Steps: build port - bridge - port, with a zone and the timeout; open connections that end in that state; wait.
    Verify: the SLA on failed ones; the DUT has none after a minute.
    """
    live = deploy(tracked(connections("br0", **BETWEEN, timeouts={timeout: TIMEOUT_S})))
    sla.check(search.loss_of(live, ENDS[timeout], OPENED))
    deadline = time.monotonic() + TIMEOUT_S + SWEPT_S
    while left := sum(live.connections().values()):
        if time.monotonic() > deadline:
            raise DutFailure(
                f"the DUT has {left:,} connections whose timeout of {TIMEOUT_S} s is over for {SWEPT_S:g} s"
            )
        time.sleep(0.5)
