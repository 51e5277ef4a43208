"""The topologies of scenarios S3 to S5: chains of VMs, VMs and pods on two nodes, a node with pods."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Unpack

from pytest_nfvperf.model.arguments import IpVersion, Mtu, Name, checked, whole, word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import RuleSettings, rules
from pytest_nfvperf.model.topology.compose import BRIDGE, Part, compose, node, vnf_mac
from pytest_nfvperf.model.topology.links import Crossing, TunnelKind, encapsulation_bytes
from pytest_nfvperf.model.topology.parts import endpoint, monitor, namespace, one_armed, patch, tunnel, underlay
from pytest_nfvperf.model.topology.ports import (
    AS_IT_IS,
    DEFAULT_MTU,
    NicKind,
    Offloads,
    Port,
    PortKind,
    Vlan,
    VnfKind,
    nic_kind,
)
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

GENERATOR_MAC = vnf_mac(0, 0x10)
"""S4's :10."""

OUTPUTS = ("virtual", "physical", "host", "af_packet", "af_xdp")
_OF_HOST = {
    "host": ("tap0", PortKind.TAP),
    "af_packet": ("afp0", PortKind.AF_PACKET),
    "af_xdp": ("xdp0", PortKind.AF_XDP),
}

NO_OVERLAY = "none"
"""The nodes' bridges are joined, and the VMs' frames cross the underlay as they are, in a VLAN."""

OVERLAYS = (NO_OVERLAY, *(str(kind) for kind in TunnelKind))

NODES = ("node1", "node2")
OVERLAY_VLAN = 100

_ADDRESSES = {4: ("198.19.0.1", "198.19.0.2"), 6: ("2001:2:0:13::1", "2001:2:0:13::2")}
"""Of the nodes, in the underlay: of the networks for benchmarks (RFC 2544, 5180)."""

BR_EX, BR_INT = "br-ex", "br-int"
OUTSIDE, HOST, MANAGEMENT = "outside", "host", "mgmt"
_NETWORKS = {4: "198.18.%d.%d/16", 6: "2001:2::%d:%d/64"}
"""Addresses by block and place. Of the ranges kept for benchmarks: 198.18.0.0/15 (RFC 2544, appendix C.2.2), and
2001:2::/48 (RFC 5180, section 8)."""
_ENDS = {4: "", 6: "-ipv6"}
"""Of a topology's name, by IP version."""
_OF_THE_HOST, _FIRST_OF_PODS = 0, 1
_PODS_A_BLOCK = 250
MOST_PODS = 5000
_OFFLOADS_OF_OVS = frozenset({NicKind.INTERNAL, NicKind.TAP, NicKind.VDUSE})

_KEY = 42


def vm_mac(number: int) -> str:
    """Of the VM with this number, counted from 1: S4's :01 and :02."""
    return vnf_mac(0, number)


@checked()
def vm_chain(
    vms: Annotated[int, whole(1, 15)] = 2,
    *parts: Part,
    kind: VnfKind | str = VnfKind.TESTBED,
    mtu: Mtu = DEFAULT_MTU,
    name: Name | None = None,
) -> Topology:
    """The generator's port p0 sends to vm1, that to vm2, and so on, the last to p0, over a bridge that learns.

    Each has one port, as in S4: a frame crosses the bridge once more than there are VMs.
    With one VM it is S4's forwarding baseline (1b); with two and no mirror the VM-to-VM baseline.

    Args:
        vms: how many, 1 to 15: S4 has MAC addresses for those.
        parts: further parts, such as a monitor and a mirror; the bridge is br0.
        kind: what runs the VMs: "loop", "testpmd" or "qemu"; "testbed" for what the testbed says.
        mtu: bytes without Ethernet header and FCS.
        name: of the topology; None for ``vm-chain-2`` and the like.

    Raises:
        ValueError: the parts do not fit.
    """
    stops = [vm_mac(number) for number in range(1, vms + 1)]
    chain = [
        one_armed(f"vm{number}", BRIDGE, mac=mac, eth_peer=behind, mtu=mtu, kind=kind)
        for number, (mac, behind) in enumerate(zip(stops, [*stops[1:], GENERATOR_MAC], strict=True), start=1)
    ]
    generator = endpoint("p0", BRIDGE, mac=GENERATOR_MAC, mtu=mtu, eth_peer=stops[0])
    return compose(name or f"vm-chain-{vms}", generator, *chain, Direction("p0", "p0"), *parts)


@checked()
def vm_receiving(*parts: Part, mtu: Mtu = DEFAULT_MTU, name: Name = "vm-receiving") -> Topology:
    """S4's receive-only baseline of a VM (1a): p0 sends to vm1, which receives and never forwards.

    The receiver is the generator's own, so that sequence numbers tell loss from duplicates.

    Args:
        parts: further parts; the bridge is br0.
        mtu: bytes without Ethernet header and FCS.
        name: of the topology.
    """
    ends = (endpoint("p0", BRIDGE, mac=GENERATOR_MAC, mtu=mtu), endpoint("vm1", BRIDGE, mac=vm_mac(1), mtu=mtu))
    return compose(name, *ends, Direction("p0", "vm1"), *parts)


# Outputs of a mirror, in S4's words: a VM, another port of the generator, or the host.


@checked()
def mirror_output(output: Annotated[str, word(*OUTPUTS)], bridge: Name = BRIDGE, *, mtu: Mtu = DEFAULT_MTU) -> Port:
    """The output port of a mirror, on which the generator counts copies.

    Args:
        output: ``virtual`` (vm3, a monitor VM's), ``physical`` (p1, the generator's second port; on the embedded
            testbed a virtual one, too); or the host's, by ``host`` (tap0, a tap), ``af_packet`` (afp0) or ``af_xdp``
            (xdp0), a veth pair with a socket of that sort at its far end.
        bridge: of the port.
        mtu: bytes without Ethernet header and FCS.
    """
    if output == "virtual":
        return monitor("vm3", bridge, mac=vm_mac(3), mtu=mtu, vm=True)
    if output == "physical":
        return monitor("p1", bridge, mtu=mtu)
    name, kind = _OF_HOST[output]
    return monitor(name, bridge, mtu=mtu, kind=kind)


# S3: a VM on each of two nodes, which sends by one interface and receives by another, and an overlay between them.


@checked()
def vm_to_vm(
    overlay: Annotated[str, word(*OVERLAYS)] = NO_OVERLAY,
    *,
    ip: IpVersion = 4,
    key: int = 42,
    mtu: Mtu = DEFAULT_MTU,
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
        ValueError: VNIs without an overlay.
    """
    if overlay == NO_OVERLAY and vnis != 1:
        raise ArgumentError(f"without an overlay there are no VNIs, and {vnis} are asked for")
    outer = mtu if overlay == NO_OVERLAY else mtu + encapsulation_bytes(TunnelKind(overlay), _ADDRESSES[ip][0])
    directions = [Direction("vm1-tx", "vm2-rx"), Direction("vm2-tx", "vm1-rx")][: 1 + bidirectional]
    used = {end for one in directions for end in (one.tx, one.rx)}
    # Frames that are not encapsulated cross the underlay in a VLAN: the VMs have access ports of it.
    vlan = Vlan(OVERLAY_VLAN) if overlay == NO_OVERLAY else None
    nodes = [
        node(
            name,
            *(
                endpoint(end, f"br-int{number}", mtu=mtu, vlan=vlan)
                for end in (f"vm{number}-tx", f"vm{number}-rx")
                if end in used
            ),
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
    return compose(name, *nodes, wire, *directions)


def _joint(number: int, overlay: str, ip: int, vnis: tuple[int, int], outer: int) -> Part:
    """What leads from a node's br-int to the other node. ``vnis``: the first, and how many."""
    if overlay == NO_OVERLAY:
        return patch(f"br-int{number}", f"br-phy{number}")
    local, remote = _ADDRESSES[ip] if number == 1 else _ADDRESSES[ip][::-1]
    where, (key, keys) = f"br-int{number}", vnis
    ends = {"local": local, "remote": remote, "port": f"tun{number}"}
    return tunnel(where, **ends, kind=overlay, key=key, keys=keys, underlay_mtu=outer)


# A node with pods, as OVN-Kubernetes lays one out (scenario S5): br-ex to the outside, br-int for the pods.


@checked()
def pod_node(
    pods: Annotated[int, whole(1, MOST_PODS)] = 2,
    *,
    kind: str = "veth",
    offloads: Offloads = AS_IT_IS,
    mtu: Mtu = DEFAULT_MTU,
    ip: IpVersion = 4,
) -> Topology:
    """A node with pods pod1, pod2, ... on br-int, and what is beside them.

    br-ex has the physical port, behind which the namespace ``outside`` stands, an internal port (the namespace
    ``host``) and a patch to br-int. br-int has that, a management port (``mgmt``), and a port a pod. Both learn MAC
    addresses. All namespaces are on 198.18.0.0/16, pod1 has 198.18.1.1; or on 2001:2::/64, pod1 has 2001:2::1:1.

    Args:
        pods: how many.
        kind: of their interfaces: "veth", "internal", "tap", "af_xdp", "vduse", or a third party's. "vhost-user": the
            pods bring DPDK; their far ends are the generator's, and the first two send to each other.
        offloads: of ``outside``'s interface, and of the pods' where they are veth ends.
        mtu: bytes without Ethernet header and FCS, of all interfaces.
        ip: version of all addresses, 4 or 6.

    Raises:
        ConfigError: an unknown kind.
    """
    outside, host, management = (benchmark_address(ip, _OF_THE_HOST, index) for index in (1, 2, 3))
    return compose(
        f"node-{pods}-{kind}{_ENDS[ip]}",
        BR_EX,
        BR_INT,
        namespace(OUTSIDE, BR_EX, outside, offloads=offloads, mtu=mtu),
        namespace(HOST, BR_EX, host, kind="internal", mtu=mtu),
        patch(BR_EX, BR_INT),
        namespace(MANAGEMENT, BR_INT, management, kind="internal", mtu=mtu),
        *(_pod(number, kind, offloads, mtu, ip) for number in range(1, pods + 1)),
        *((Direction("pod1", "pod2"), Direction("pod2", "pod1")) if kind == PortKind.VHOST_USER and pods > 1 else ()),
    )


def benchmark_address(ip: int, block: int, index: int) -> str:
    """With prefix length. Written as decimal numbers in either version, so that they are read as the IPv4 ones are."""
    return str(ipaddress.ip_interface(_NETWORKS[ip] % (block, index)))


def _pod(number: int, kind: str, offloads: Offloads, mtu: int, ip: int) -> Part:
    name = f"pod{number}"
    if kind == PortKind.VHOST_USER:
        return endpoint(name, BR_INT, kind=kind, mtu=mtu)
    block, index = divmod(number - 1, _PODS_A_BLOCK)
    address = benchmark_address(ip, _FIRST_OF_PODS + block, index + 1)
    return namespace(name, BR_INT, address, kind=kind, offloads=offloads_of(kind, offloads), mtu=mtu)


def offloads_of(kind: str, offloads: Offloads) -> Offloads:
    """What can be set on an interface of a kind: OVS itself says what its own leave to it."""
    return AS_IT_IS if nic_kind(kind) in _OFFLOADS_OF_OVS else offloads


# A pod on each of two nodes, as OVN-Kubernetes joins them (scenario S5): br-int, a tunnel, br-ex, the underlay.


@checked()
def pod_nodes(
    overlay: Annotated[str, word(*OVERLAYS)] = "geneve",
    *,
    kind: str = "veth",
    offloads: Offloads = AS_IT_IS,
    mtu: Mtu = DEFAULT_MTU,
    ip: IpVersion = 4,
) -> Topology:
    """pod1 on node1 and pod2 on node2: by br-int, the overlay, br-ex and the underlay; they have 198.18.1.1 and .2.

    br-int forwards by flows, from its pod to what leads to the other node and back, as OVN's do. A bridge that learns
    would flood a frame for an unknown address into both, tunnel and underlay, and get it back from there. br-ex learns.

    Args:
        overlay: "geneve", "vxlan", "gre", or "none" for a patch port, by which frames cross the underlay as they are.
        kind: of the pods' interfaces; see ``pod_node``.
        offloads: of the pods' where they are veth ends.
        mtu: of the pods, bytes without Ethernet header and FCS; the underlay carries that and the encapsulation.
        ip: version of the pods' addresses, 4 or 6: 2001:2::1:1 and 2001:2::1:2. The underlay has IPv4 either way.

    Raises:
        ConfigError: an unknown kind.
    """
    outer = mtu if overlay == NO_OVERLAY else mtu + encapsulation_bytes(TunnelKind(overlay), _ADDRESSES[4][0])
    nodes = [
        node(
            name,
            namespace(
                f"pod{number}",
                f"br-int{number}",
                benchmark_address(ip, 1, number),
                kind=kind,
                offloads=offloads_of(kind, offloads),
                mtu=mtu,
            ),
            *_leading_out(number, overlay, outer),
            f"br-ex{number}",
        )
        for number, name in enumerate(NODES, 1)
    ]
    return compose(
        f"pods-{overlay}-{kind}{_ENDS[ip]}", *nodes, underlay("br-ex1", "br-ex2", ports=("up1", "up2"), mtu=outer)
    )


def _leading_out(number: int, overlay: str, outer: int) -> tuple[Part, ...]:
    """What leads from a node's pod to the other node, both ways."""
    where, pod, out = f"br-int{number}", f"pod{number}-eth0", f"out{number}"
    flows = (Crossing(where, pod, out), Crossing(where, out, pod))
    if overlay == NO_OVERLAY:
        return (patch(where, f"br-ex{number}", ports=(out, f"in{number}")), *flows)
    local, remote = _ADDRESSES[4] if number == 1 else _ADDRESSES[4][::-1]
    return (tunnel(where, local=local, remote=remote, kind=overlay, key=_KEY, port=out, underlay_mtu=outer), *flows)
