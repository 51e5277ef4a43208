"""Parts of a topology, with the fields filled in that seldom matter.

Each returns data of ``model.topology.ports`` and ``model.topology.links``, which ``compose`` puts together.
MAC addresses left open are filled in there, too.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict, Unpack

from pytest_nfvperf.model.arguments import MAC, NAME, UNICAST_MAC, Allowed, Ip, Mtu, Name, checked, several
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.links import Patch, Tunnel, TunnelKind, Underlay, VethLink, encapsulation_bytes
from pytest_nfvperf.model.topology.ports import (
    AS_IT_IS,
    DEFAULT_MTU,
    GENERATOR,
    LONGEST_KERNEL_NAME,
    BondMode,
    HostNic,
    Lacp,
    Namespace,
    Nic,
    NicKind,
    Offloads,
    OpenMac,
    Port,
    PortKind,
    PortPair,
    PortRole,
    PortVlan,
    Queues,
    Routes,
    VnfKind,
    VnfMode,
    nic_kind,
    vlan_of,
)

MAC_TO_FILL = ""
"""Stands in a part until ``compose`` numbers the ports."""

BENCHMARK_NETWORK = "198.18.0.0/24"
"""Of the range that RFC 2544 (appendix C.2.2) and RFC 6890 keep for benchmarks."""

_MEMBERS = several(NAME, 2)
_ADDRESSES = Allowed(
    "addresses by their bridges, such as {'brA': '10.1.0.254/24'}",
    lambda value: isinstance(value, Mapping) and all(map(NAME.accepts, (*value, *value.values()))),
)
_DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}


@dataclass(frozen=True, slots=True)
class Path:
    """Frames pass these stops one after the other, and back: ``path`` explains them."""

    stops: tuple[str, ...]


def kernel_name(text: str) -> str:
    """The text, shortened to what the kernel allows: its beginning and a checksum of all of it."""
    if len(text.encode()) <= LONGEST_KERNEL_NAME:
        return text
    checksum = f"-{zlib.crc32(text.encode()) & 0xFFFF:04x}"
    return text.encode()[: LONGEST_KERNEL_NAME - len(checksum)].decode(errors="ignore") + checksum


@checked()
def bridge(name: Name) -> str:
    """A bridge. Parts name their bridges, so this is needed only for the order, or for one without parts."""
    return name


@checked()
def endpoint(
    name: Name,
    bridge: Name,
    *,
    mac: OpenMac = MAC_TO_FILL,
    mtu: Mtu = DEFAULT_MTU,
    queues: Queues = 1,
    kind: PortKind | str = PortKind.TESTBED,
    vlan: PortVlan = None,
    eth_peer: OpenMac | None = None,
) -> Port:
    """A port on which the generator sends and receives.

    Args:
        name: of the port.
        bridge: of the port.
        mac: of the generator's end; left out, ``compose`` gives one.
        mtu: bytes without Ethernet header and FCS.
        queues: of the port.
        kind: of the port; TESTBED is what the testbed has for a generator.
        vlan: the number of an access port's VLAN, or a ``Vlan``.
        eth_peer: destination MAC of the frames that it sends; None: the MAC of the port that receives them.
    """
    return Port(
        name,
        bridge,
        PortRole.ENDPOINT,
        mac,
        mtu=mtu,
        queues=queues,
        kind=PortKind(kind),
        vlan=vlan_of(vlan),
        eth_peer=eth_peer,
    )


@checked()
def bond(
    name: Name,
    bridge: Name,
    members: Annotated[tuple[str, ...], _MEMBERS],
    mode: BondMode = "active-backup",
    *,
    lacp: Lacp = "off",
    mtu: Mtu = DEFAULT_MTU,
    vlan: PortVlan = None,
) -> Port:
    """An endpoint that is a bond of several ports, on a bridge that learns MAC addresses.

    A direction names the bond. What it receives came by any member; it sends by one that has link, in mode
    active-backup by the one at which frames last arrived, as a switch that learns.

    ``members``: names of its ports. ``mode``: "active-backup", "balance-slb" (by source MAC) or "balance-tcp" (by flow;
    with LACP only). ``lacp``: "off", "active" or "passive"; the generator is each member's partner. The rest as of
    ``endpoint``.
    """
    if mode == "balance-tcp" and lacp == "off":
        raise ArgumentError(
            f"bond({name!r}): OVS drops all frames of a balance-tcp bond without LACP: give lacp='active'"
        )
    made = endpoint(name, bridge, mtu=mtu, vlan=vlan)
    return replace(made, members=tuple(members), bond_mode=mode, lacp=lacp)


@checked()
def monitor(
    name: Name,
    bridge: Name,
    *,
    mac: OpenMac = MAC_TO_FILL,
    mtu: Mtu = DEFAULT_MTU,
    kind: PortKind | str = PortKind.TESTBED,
    vm: bool = False,
    unread: bool = False,
) -> Port:
    """A port on which the generator only counts what comes.

    Args:
        name: of the port.
        bridge: of the port.
        mac: of its far end.
        mtu: bytes without Ethernet header and FCS.
        kind: what it is on the DUT; a tap for the host.
        vm: it is that of a monitor VM, called as the port; on a lab no cabled port is taken for it.
        unread: it stopped reading, to see what that costs.
    """
    owner = name if vm else GENERATOR
    return Port(name, bridge, PortRole.MONITOR, mac, owner, mtu=mtu, kind=PortKind(kind), unread=unread)


class MirrorSettings(TypedDict, total=False):
    """What a mirror copies, and how; fields of ``Mirror``."""

    output_vlan: int | None
    select_all: bool
    select_src: tuple[Name, ...]
    select_dst: tuple[Name, ...]
    select_vlan: tuple[int, ...]
    snaplen: int | None
    by: MirrorMethod | str


@checked()
def mirror(name: Name, bridge: Name, output: Name | None = None, **settings: Unpack[MirrorSettings]) -> Mirror:
    """A mirror of a bridge: of every frame that crosses it, unless something else is selected.

    Args:
        name: of the mirror.
        bridge: whose frames are copied.
        output: port that copies leave by; or say ``output_vlan``.
        settings: ``select_all``, ``select_src``, ``select_dst``, ``select_vlan``, ``snaplen`` (bytes), ``output_vlan``,
            ``by`` ("ovsdb" or "flow").
    """
    chosen = any(settings.get(key) for key in ("select_src", "select_dst", "select_vlan"))
    given: dict[str, Any] = {"select_all": not chosen, **settings}
    given["by"] = MirrorMethod(given.get("by", MirrorMethod.OVSDB))
    return Mirror(name, bridge, output, **given)


@checked()
def vnf(
    name: Name,
    bridge: Name,
    far_bridge: Name | None = None,
    *,
    mode: VnfMode | str = VnfMode.IO,
    eth_peers: tuple[Annotated[str, MAC], Annotated[str, MAC]] | None = None,
    mtu: Mtu = DEFAULT_MTU,
    queues: Queues = 1,
    kind: VnfKind | str = VnfKind.TESTBED,
) -> tuple[Port, Port]:
    """A VNF between two ports, called by its name with a and b behind it.

    Args:
        name: of the VNF.
        bridge: of port a.
        far_bridge: of port b; None for the same bridge.
        mode: io, mac or macswap, as testpmd's.
        eth_peers: for mode mac the MAC addresses behind port a and behind port b, as testpmd's --eth-peer;
            None for those of the stops before and after it on its ``path``.
        mtu: bytes without Ethernet header and FCS.
        queues: of each port.
        kind: what runs it: "loop", "testpmd" or "qemu"; "testbed" for what the testbed says.
    """
    left, right = f"{name}a", f"{name}b"
    behind_a, behind_b = eth_peers or (None, None)
    given: dict[str, Any] = {"vnf_mode": VnfMode(mode), "queues": queues, "mtu": mtu, "vnf_kind": VnfKind(kind)}
    a = Port(left, bridge, PortRole.FORWARDER, MAC_TO_FILL, name, right, eth_peer=behind_b, **given)
    b = Port(right, far_bridge or bridge, PortRole.FORWARDER, MAC_TO_FILL, name, left, eth_peer=behind_a, **given)
    return a, b


@checked()
def one_armed(
    name: Name,
    bridge: Name,
    *,
    eth_peer: Annotated[str, MAC],
    mac: OpenMac = MAC_TO_FILL,
    mtu: Mtu = DEFAULT_MTU,
    kind: VnfKind | str = VnfKind.TESTBED,
) -> Port:
    """A VNF with one port, called as the VNF, by which frames leave again, as testpmd's ``--port-topology=loop``.

    It is for bridges that learn MAC addresses: OpenFlow never sends a frame back to where it came from, and the VNF
    (in mode mac) gives it another destination.

    Args:
        name: of the VNF and of its port.
        bridge: of its port.
        eth_peer: to which MAC address its frames go on, as testpmd's --eth-peer.
        mac: of its port, from which they go on.
        mtu: bytes without Ethernet header and FCS.
        kind: as ``vnf``'s.
    """
    role, mode = PortRole.FORWARDER, VnfMode.MAC
    return Port(name, bridge, role, mac, name, name, mode, mtu=mtu, eth_peer=eth_peer, vnf_kind=VnfKind(kind))


@checked()
def patch(bridge_a: Name, bridge_b: Name, *, ports: PortPair | None = None, vlan: PortVlan = None) -> Patch:
    """Patch ports between two bridges; without ``ports`` they are called after the bridges: A-B on A, B-A on B."""
    port_a, port_b = ports or (f"{bridge_a}-{bridge_b}", f"{bridge_b}-{bridge_a}")
    return Patch(bridge_a, port_a, bridge_b, port_b, vlan_of(vlan))


@checked()
def veth(
    bridge_a: Name,
    bridge_b: Name,
    *,
    ports: PortPair | None = None,
    mtu: Mtu = DEFAULT_MTU,
    offloads: Offloads = AS_IT_IS,
    vlan: PortVlan = None,
) -> VethLink:
    """A veth pair between two bridges; without ``ports`` its ends are called A-B and B-A, shortened if need be."""
    port_a, port_b = ports or (kernel_name(f"{bridge_a}-{bridge_b}"), kernel_name(f"{bridge_b}-{bridge_a}"))
    return VethLink(bridge_a, port_a, bridge_b, port_b, mtu, offloads, vlan_of(vlan))


@checked()
def tunnel(
    bridge: Name,
    *,
    local: Ip,
    remote: str,
    kind: TunnelKind | str = TunnelKind.VXLAN,
    key: int = 0,
    port: Name | None = None,
    underlay_mtu: Mtu = DEFAULT_MTU,
    keys: int = 1,
) -> Tunnel:
    """A tunnel port; it carries what the underlay's MTU leaves.

    ``keys``: VNIs from ``key`` on, of which each flow of frames is in one.
    """
    encapsulation = TunnelKind(kind)
    name = port or f"{bridge}-{encapsulation}{key}"
    mtu = underlay_mtu - encapsulation_bytes(encapsulation, local)
    return Tunnel(bridge, name, encapsulation, local, remote, key, mtu, underlay_mtu, keys)


@checked()
def underlay(
    bridge_a: Name,
    bridge_b: Name,
    *,
    ports: PortPair | None = None,
    mtu: Mtu = DEFAULT_MTU,
    line_rate_bps: float | None = None,
) -> Underlay:
    """The link between two nodes, from a bridge of one to a bridge of the other.

    Without ``ports`` its ends are called A-B and B-A, shortened if need be. ``mtu``: bytes without Ethernet header
    and FCS. ``line_rate_bps``: layer-1 bit/s each way: the generator offers no more than it carries; None for the
    testbed's, or none.
    """
    port_a, port_b = ports or (kernel_name(f"{bridge_a}-{bridge_b}"), kernel_name(f"{bridge_b}-{bridge_a}"))
    return Underlay(bridge_a, port_a, bridge_b, port_b, mtu, line_rate_bps)


class NicSettings(TypedDict, total=False):
    """What may be said of an interface beside names and addresses; fields of ``Nic``."""

    kind: str
    mac: OpenMac | None
    mtu: Mtu
    offloads: Offloads
    vlan: PortVlan
    queues: Queues


@checked()
def nic(
    namespace: Name,
    bridge: Name,
    *addresses: Name,
    name: Name = "eth0",
    port: Name | None = None,
    **settings: Unpack[NicSettings],
) -> Nic:
    """An interface of a namespace on a bridge, its port there called NAMESPACE-NAME, shortened if need be.

    An internal port is one and the same interface, so both have the port's name.
    """
    kind = nic_kind(settings.get("kind", NicKind.VETH))
    on_bridge = port or kernel_name(f"{namespace}-{name}")
    inside = on_bridge if kind == NicKind.INTERNAL else name
    given: dict[str, Any] = {**settings, "kind": kind, "vlan": vlan_of(settings.get("vlan"))}
    return Nic(namespace, inside, bridge, on_bridge, addresses=addresses, **given)


@checked()
def namespace(
    name: Name,
    bridge: Name,
    *addresses: Name,
    gateway: Ip | None = None,
    routes: Routes = (),
    **settings: Unpack[NicSettings],
) -> tuple[Namespace, Nic]:
    """A namespace with one interface, eth0, on a bridge.

    Args:
        name: of the namespace.
        bridge: which eth0 is joined to.
        addresses: of eth0, with prefix length, such as "198.18.0.1/24".
        gateway: of its default route; None for none.
        routes: further (destination, gateway) pairs.
        settings: of eth0: ``kind`` ("veth", "internal", "tap", "af_xdp", "vduse"), ``mac``, ``mtu``, ``offloads``,
            ``vlan``, ``queues``.
    """
    return Namespace(name, routes=(*_default_route(gateway), *routes)), nic(name, bridge, *addresses, **settings)


@checked()
def behind(
    port: Name,
    name: Name,
    *addresses: Name,
    vlan: int | None = None,
    mac: Annotated[str, UNICAST_MAC] | None = None,
    gateway: Ip | None = None,
    routes: Routes = (),
) -> tuple[Namespace, HostNic]:
    """A namespace whose eth0 shares a generator's port, and so the DUT's queue, with the generator's frames.

    Args:
        port: the endpoint.
        name: of the namespace.
        addresses: of eth0, with prefix length.
        vlan: tag of its frames on the port; None for none.
        mac: of eth0; None for one that the kernel makes up.
        gateway: of its default route; None for none.
        routes: further (destination, gateway) pairs.
    """
    interface = HostNic(name, "eth0", port, vlan, addresses, mac)
    return Namespace(name, routes=(*_default_route(gateway), *routes)), interface


def _default_route(gateway: str | None) -> tuple[tuple[str, str], ...]:
    if gateway is None:
        return ()
    return ((_DEFAULT_ROUTES[ipaddress.ip_address(gateway).version], gateway),)


@checked()
def namespaces(
    *names: Name, bridge: Name, network: str = BENCHMARK_NETWORK, **settings: Unpack[NicSettings]
) -> tuple[tuple[Namespace, Nic], ...]:
    """Namespaces on one bridge, with the first addresses of a network in the order of their names.

    Raises:
        ValueError: no network, or one that is too small.
    """
    try:
        hosts = ipaddress.ip_network(network).hosts()
    except ValueError as error:
        raise ArgumentError(f"namespaces(): network is {network!r}: {error}; write e.g. '198.18.0.0/24'") from error
    prefix = network.partition("/")[2]
    made = []
    for name in names:
        address = next(hosts, None)
        if address is None:
            raise ArgumentError(f"network {network} has no address left for namespace {name!r}")
        made.append(namespace(name, bridge, f"{address}/{prefix}", **settings))
    return tuple(made)


@checked()
def router(
    name: Name,
    addresses: Annotated[Mapping[str, str], _ADDRESSES],
    *,
    routes: Routes = (),
    **settings: Unpack[NicSettings],
) -> tuple[Namespace | Nic, ...]:
    """A namespace that forwards between bridges: eth0, eth1, ... in the order of ``addresses``.

    Args:
        name: of the namespace.
        addresses: its address, with prefix length, on each bridge.
        routes: (destination, gateway) pairs.
        settings: of all its interfaces, as in ``namespace``.
    """
    interfaces = [
        nic(name, on, address, name=f"eth{number}", **settings)
        for number, (on, address) in enumerate(addresses.items())
    ]
    return (Namespace(name, routing=True, routes=routes), *interfaces)


@checked()
def path(*stops: Name) -> Path:
    """OpenFlow flows that lead frames from node to node over the fewest links, and back by the same path.

    Stops are names of ports; or of VNFs, which are entered by port a and left by port b; or of
    namespaces, routers being entered by their first interface and left by their last. Bridges on no
    path learn MAC addresses.
    """
    return Path(stops)
