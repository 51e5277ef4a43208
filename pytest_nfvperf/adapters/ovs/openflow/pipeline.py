"""The tables of a bridge that learns, and looks at frames before: access list, connection tracking, VNIs by flow.

=====  ======================================================================================================
table  what
=====  ======================================================================================================
0      the access list
1, 2   connection tracking: the lookup, and what becomes of it
3      of a tunnel with many keys: takes those that are its own, drops others; deals what leaves to the keys
4      sets the key
=====  ======================================================================================================

In the words of ovs-ofctl(8). NORMAL does the forwarding at the end.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from pytest_nfvperf.model.topology.bridges import BridgeRules
from pytest_nfvperf.model.topology.links import Tunnel
from pytest_nfvperf.model.topology.topology import Topology

_NOWHERE = int(ipaddress.IPv4Address("100.64.0.0"))
"""RFC 6598: shared address space, to which neither the generator nor a namespace of ours sends."""


def pipeline(topology: Topology, bridge: str, ofports: Mapping[str, int]) -> list[str]:
    """The bridge's flows; empty for a bridge that only learns, or forwards by crossings."""
    rules = next((one for one in topology.rules if one.bridge == bridge), None)
    spread = [tunnel for tunnel in topology.tunnels if tunnel.bridge == bridge and tunnel.keys > 1]
    if rules is None and not spread:
        return []
    rules = rules or BridgeRules(bridge)
    return [*access_list(rules.acl), *_tracking(rules.zone), *_keys(spread, ofports)]


def without_access_list(flows: list[str]) -> str:
    """The flows as text, for evidence: the access list as one line."""
    others = [flow for flow in flows if not flow.startswith(_ACL)]
    dropped = len(flows) - len(others)
    said = [f"{_ACL}...,actions=drop  ({dropped} rules of the access list)"] if dropped else []
    return "\n".join([*said, *others])


_ACL = "table=0,priority=100,udp,nw_dst="


def access_list(rules: int) -> Iterator[str]:
    """Each rule drops UDP to an address; what is left goes on."""
    for number in range(rules):
        yield f"{_ACL}{ipaddress.IPv4Address(_NOWHERE + number)},actions=drop"
    yield "table=0,priority=0,actions=goto_table:1"


def _tracking(zone: int | None) -> Iterator[str]:
    """What is new is committed; what is invalid is dropped; what is no IP is not tracked."""
    if zone is not None:
        for version in ("ip", "ipv6"):
            yield f"table=1,priority=10,{version},actions=ct(zone={zone},table=2)"
            yield f"table=2,priority=10,ct_state=+trk+new,{version},actions=ct(commit,zone={zone}),goto_table:3"
        yield "table=2,priority=20,ct_state=+trk+inv,actions=drop"
        yield "table=2,priority=0,actions=goto_table:3"
    yield "table=1,priority=0,actions=goto_table:3"


def _keys(tunnels: list[Tunnel], ofports: Mapping[str, int]) -> Iterator[str]:
    """A flow's addresses and ports choose its key (a VNI), which the other end knows, too."""
    for tunnel in tunnels:
        port = ofports[tunnel.port]
        for key in range(tunnel.key, tunnel.key + tunnel.keys):
            yield f"table=3,priority=10,in_port={port},tun_id={key},actions=NORMAL"
        yield f"table=3,priority=5,in_port={port},actions=drop"
    if not tunnels:
        yield "table=3,priority=0,actions=NORMAL"
        return
    first = tunnels[0]
    yield (
        f"table=3,priority=0,actions=multipath(symmetric_l4,1024,modulo_n,{first.keys},0,NXM_NX_REG0[]),goto_table:4"
    )
    for number in range(first.keys):
        yield f"table=4,priority=0,reg0={number},actions=set_field:{first.key + number}->tun_id,NORMAL"
