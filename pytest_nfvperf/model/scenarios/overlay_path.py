"""S3: a VM on each of two nodes, one interface that sends and one that receives, and an overlay between the nodes."""

from __future__ import annotations

from typing import Unpack

from pytest_nfvperf.model.arguments import FIGURE, FLAG, INTEGER, MTU, TEXT, checked, optional
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridge_rules import RuleSettings, rules
from pytest_nfvperf.model.topology.compose import Part, compose, node
from pytest_nfvperf.model.topology.links import TunnelKind, encapsulation_bytes
from pytest_nfvperf.model.topology.nodes import DEFAULT_MTU, Vlan
from pytest_nfvperf.model.topology.parts import endpoint, patch, tunnel, underlay
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

NO_OVERLAY = "none"
"""The nodes' bridges are joined, and the VMs' frames cross the underlay as they are, in a VLAN."""

OVERLAYS = (NO_OVERLAY, *(str(kind) for kind in TunnelKind))
"""What ``vm_to_vm`` can have between the nodes."""

NODES = ("node1", "node2")
OVERLAY_VLAN = 100

_ADDRESSES = {4: ("198.19.0.1", "198.19.0.2"), 6: ("2001:2:0:13::1", "2001:2:0:13::2")}
"""Of the nodes, in the underlay: of the networks for benchmarks (RFC 2544, 5180)."""


@checked(
    overlay=TEXT,
    ip=INTEGER,
    key=INTEGER,
    mtu=MTU,
    bidirectional=FLAG,
    line_rate_bps=optional(FIGURE),
    vnis=INTEGER,
    acl=INTEGER,
    zone=optional(INTEGER),
)
def vm_to_vm(
    overlay: str = NO_OVERLAY,
    *,
    ip: int = 4,
    key: int = 42,
    mtu: int = DEFAULT_MTU,
    bidirectional: bool = False,
    line_rate_bps: float | None = None,
    vnis: int = 1,
    **tables: Unpack[RuleSettings],
) -> Topology:
    """vm1 on node1 sends to vm2 on node2: by br-int, the overlay, br-phy and the underlay.

    Each VM has the interface vmN-tx, which only sends, and vmN-rx, which only receives: ports of the generator. All
    bridges learn MAC addresses.

    Args:
        overlay: "none" for a VLAN on the underlay, or "vxlan", "geneve", "gre".
        ip: version of the outer header, 4 or 6.
        key: VNI, or GRE key.
        mtu: of the VMs, bytes without Ethernet header and FCS; the underlay carries that and the encapsulation.
        bidirectional: vm2 sends to vm1, too.
        line_rate_bps: of the underlay, layer-1 bit/s each way; None for the testbed's, or none.
        vnis: how many VNIs, or GRE keys, from ``key`` on: each inner flow is in one of them.
        tables: of the VMs' bridges, which every frame passes on both nodes: ``acl``, rules of an access list of which
            no frame matches one, and ``zone``, of connection tracking.

    Raises:
        ValueError: an unknown overlay or version of IP, or VNIs without an overlay.
    """
    if overlay not in OVERLAYS:
        raise ArgumentError(f"{overlay!r} is no overlay: write one of {', '.join(OVERLAYS)}")
    if ip not in _ADDRESSES:
        raise ArgumentError(f"IP has no version {ip!r}: write 4 or 6")
    if overlay == NO_OVERLAY and vnis != 1:
        raise ArgumentError(f"without an overlay there are no VNIs, and {vnis} are asked for")
    outer = mtu if overlay == NO_OVERLAY else mtu + encapsulation_bytes(TunnelKind(overlay), _ADDRESSES[ip][0])
    ways = [Direction("vm1-tx", "vm2-rx"), Direction("vm2-tx", "vm1-rx")][: 1 + bidirectional]
    used = {end for way in ways for end in (way.tx, way.rx)}
    nodes = [
        node(
            name,
            *_vm(number, used, mtu, overlay),
            _joint(number, overlay, ip, (key, vnis), outer),
            *([rules(f"br-int{number}", **tables)] if tables else []),
            f"br-phy{number}",
        )
        for number, name in enumerate(NODES, 1)
    ]
    said = [f"vm-to-vm {overlay}", *(["over IPv6"] if ip == 6 and overlay != NO_OVERLAY else [])]
    said += [f"{vnis} VNIs"] * (vnis > 1) + [str(rules("", **tables))] * bool(tables)
    name = " ".join(said)
    wire = underlay("br-phy1", "br-phy2", ports=("up1", "up2"), mtu=outer, line_rate_bps=line_rate_bps)
    return compose(name, *nodes, wire, *ways)


def _vm(number: int, used: set[str], mtu: int, overlay: str) -> list[Part]:
    """The interfaces that are used; access ports of the VLAN where frames are not encapsulated."""
    vlan = Vlan(OVERLAY_VLAN) if overlay == NO_OVERLAY else None
    names = [name for name in (f"vm{number}-tx", f"vm{number}-rx") if name in used]
    return [endpoint(name, f"br-int{number}", mtu=mtu, vlan=vlan) for name in names]


def _joint(number: int, overlay: str, ip: int, vnis: tuple[int, int], outer: int) -> Part:
    """What leads from a node's br-int to the other node. ``vnis``: the first, and how many."""
    if overlay == NO_OVERLAY:
        return patch(f"br-int{number}", f"br-phy{number}")
    local, remote = _ADDRESSES[ip] if number == 1 else _ADDRESSES[ip][::-1]
    where, (key, keys) = f"br-int{number}", vnis
    ends = {"local": local, "remote": remote, "port": f"tun{number}"}
    return tunnel(where, **ends, kind=overlay, key=key, keys=keys, underlay_mtu=outer)
