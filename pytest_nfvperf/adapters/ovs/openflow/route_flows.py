"""Routes as OpenFlow 1.4 flows: frames to a prefix get new MAC addresses and one hop less, and leave by a port.

The longest prefix wins, because a flow's priority is its length above a base.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.ovs.openflow.connection import (
    BARRIER_REPLY,
    BARRIER_REQUEST,
    FLOW_MOD,
    OpenFlowConnection,
    connected,
)
from pytest_nfvperf.adapters.ovs.openflow.flow_mod import ADD, DELETE_STRICT, apply_actions, flow_mod_head, output

ROUTE_COOKIE = 0x4E465650
"""Of every flow made here, so that they can be counted and told from others."""

_BASE_PRIORITY = 1000
_DEADLINE_S = 10.0
_AT_ONCE = 2000
_MATCH_HEAD = struct.Struct("!HH")
_ETH_TYPE = struct.Struct("!IH")  # OXM header, value
_DEC_TTL = struct.pack("!HH4x", 24, 8)
_SET_FIELD = struct.Struct("!HHI6s2x")  # type, length, OXM header, address
_OXM_ETH_TYPE, _OXM_ETH_DST, _OXM_ETH_SRC = 0x80000A02, 0x80000606, 0x80000806
_OXM_DST = {4: 0x80001908, 6: 0x80003720}  # ipv4_dst and ipv6_dst, with mask
_ETHERTYPE = {4: 0x0800, 6: 0x86DD}


@dataclass(frozen=True, slots=True)
class Hop:
    """Where frames to a prefix go: an OpenFlow port, and the addresses that they get."""

    ofport: int
    destination: str
    source: str


class RouteFlows:
    """Flows for routes on one bridge. A connection each time: vswitchd hangs up on one that was silent for long."""

    def __init__(self, management_socket: Path) -> None:
        self._socket = management_socket

    def change(self, added: Iterable[tuple[str, Hop]], removed: Iterable[str]) -> None:
        """Add or replace flows, and remove others; done on the bridge when this returns (a barrier).

        Raises:
            DeadlineError: vswitchd did not answer in time.
            TestbedError: it refused, or nobody listens.
        """
        bodies = [_body(prefix, DELETE_STRICT, b"") for prefix in removed]
        bodies += [_body(prefix, ADD, _instructions(hop)) for prefix, hop in added]
        with connected(self._socket, "answers about routes' flows", _DEADLINE_S) as bridge:
            for start in range(0, len(bodies), _AT_ONCE):
                _send(bridge, bodies[start : start + _AT_ONCE])


def _send(bridge: OpenFlowConnection, bodies: list[bytes]) -> None:
    bridge.send(*((FLOW_MOD, body) for body in bodies), (BARRIER_REQUEST, b""))
    for kind, _ in bridge.answers("a route's flow"):
        if kind == BARRIER_REPLY:
            return


def _body(prefix: str, command: int, instructions: bytes) -> bytes:
    network = ipaddress.ip_network(prefix)
    priority = _BASE_PRIORITY + network.prefixlen
    return flow_mod_head(command, priority, ROUTE_COOKIE) + _match(network) + instructions


def _match(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bytes:
    fields = _ETH_TYPE.pack(_OXM_ETH_TYPE, _ETHERTYPE[network.version])
    if network.prefixlen:
        fields += struct.pack("!I", _OXM_DST[network.version]) + network.network_address.packed + network.netmask.packed
    length = _MATCH_HEAD.size + len(fields)
    return _MATCH_HEAD.pack(1, length) + fields + bytes(-length % 8)


def _instructions(hop: Hop) -> bytes:
    actions = _set(_OXM_ETH_SRC, hop.source) + _set(_OXM_ETH_DST, hop.destination)
    return apply_actions(actions + _DEC_TTL + output(hop.ofport))


def _set(field: int, mac: str) -> bytes:
    packed = _SET_FIELD.pack(25, 16, field, bytes.fromhex(mac.replace(":", "")))
    return packed + bytes(-len(packed) % 8)
