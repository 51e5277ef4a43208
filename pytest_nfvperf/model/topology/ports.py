"""What frames start from, cross and end at: ports of bridges, and namespaces with their interfaces."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pytest_nfvperf.model.arguments import MAC, NAME, TEXT, Allowed, Mtu, Name, checked, several, whole, word
from pytest_nfvperf.model.display import WordChoice

LONGEST_KERNEL_NAME = 15
"""IFNAMSIZ less its final zero, linux/if.h."""

DEFAULT_MTU = 1500


GENERATOR = "generator"
"""Owner of the generator's own ports."""


class VnfMode(WordChoice):
    """What a VNF does with a frame, in the words of testpmd's forwarding modes."""

    IO = "io"
    MAC = "mac"
    MACSWAP = "macswap"


class VnfKind(WordChoice):
    """What runs a VNF.

    TESTBED is what the testbed says, or what suits the number of cores. LOOP is the generator's own polling
    loop, TESTPMD a dpdk-testpmd process on virtio-user ports, QEMU a guest with vhost-user interfaces.
    """

    TESTBED = "testbed"
    LOOP = "loop"
    TESTPMD = "testpmd"
    QEMU = "qemu"


class PortRole(StrEnum):
    """What the generator does on a port.

    HOST: behind an endpoint, for a namespace that shares its ring. UPLINK: nothing; the port is an underlay's end, and
    its owner is the node at the other end (``topology.node_topology``).
    """

    ENDPOINT = "endpoint"
    FORWARDER = "forwarder"
    MONITOR = "monitor"
    HOST = "host"
    UPLINK = "uplink"


class PortKind(WordChoice):
    """What a port is on the DUT.

    TESTBED is what the testbed has for the generator: a cabled NIC of a lab, vhost-user with DPDK, a
    veth pair without. The others are said when a suite is about that very kind.
    """

    TESTBED = "testbed"
    VHOST_USER = "vhost-user"
    AF_PACKET = "af_packet"
    AF_XDP = "af_xdp"
    TAP = "tap"


class NicKind(WordChoice):
    """How a namespace is joined to a bridge.

    By a veth pair; by a bridge's internal port, or a tap, moved in; by a veth pair that OVS reads by AF_XDP; by a
    virtio device of the kernel's that OVS serves (VDUSE).
    """

    VETH = "veth"
    INTERNAL = "internal"
    TAP = "tap"
    AF_XDP = "af_xdp"
    VDUSE = "vduse"


def nic_kind(word: str) -> str:
    """One of NicKind, or a third party's: that has a colon in it, such as "acme:macvtap"."""
    return word if ":" in word else NicKind(word)


@checked()
@dataclass(frozen=True, slots=True)
class Offloads:
    """What an interface leaves to its driver (ethtool(8) -K). None: as the kernel has it."""

    tso: bool | None = None
    gso: bool | None = None
    gro: bool | None = None
    tx_checksum: bool | None = None
    rx_checksum: bool | None = None


AS_IT_IS = Offloads()
"""No offload is changed."""


@checked()
@dataclass(frozen=True, slots=True)
class Vlan:
    """VLANs of a bridge's port (ovs-vswitchd.conf.db(5), Port): an access port has a tag, a trunk a list.

    ``tag``: 1..4094, None for none. ``trunks``: VLANs carried; empty for all.
    """

    tag: int | None = None
    trunks: tuple[int, ...] = ()


def vlan_of(given: Vlan | int | None) -> Vlan | None:
    """VLANs of a port, of which an author may have given the number alone."""
    return Vlan(given) if isinstance(given, int) else given


OpenMac = Annotated[str, Allowed(MAC.write, TEXT.accepts)]
"""Which one it can be the topology checks."""
Queues = Annotated[int, whole(1, 1024)]
PortVlan = Vlan | Annotated[int, whole(1, 4094)] | None
"""Of a port: the number alone makes it an access port."""
BondMode = Annotated[str, word("active-backup", "balance-slb", "balance-tcp")]
Lacp = Annotated[str, word("off", "active", "passive")]
PortPair = tuple[Name, Name]
Routes = Annotated[
    tuple[tuple[str, str], ...],
    Allowed(
        "pairs of destination and gateway, such as (('10.2.0.0/24', '10.1.0.254'),)",
        several(several(NAME, 2, 2)).accepts,
    ),
]


@checked()
@dataclass(frozen=True, slots=True)
class Port:
    """A port of a bridge. ``owner`` is who is at the other end: the generator or a VNF.

    ``peer`` is the other port of the VNF for a FORWARDER, or itself where the VNF has one port; None otherwise.
    ``mac`` is the address of the far end (the generator's or the VNF's interface).
    ``mtu``: bytes without Ethernet header and FCS.
    ``eth_peer``: for a VNF in mode MAC, to which MAC address frames go on that came in by this port; for an
    ENDPOINT, to which it sends, None for that of the receiving port.
    ``unread``: of a MONITOR that stopped reading.
    ``members``: of a bond, its interfaces on the DUT, each with a far end of its own; ``bond_mode`` and ``lacp`` as in
    ovs-vswitchd.conf.db(5), Port.
    """

    name: Name
    bridge: Name
    role: PortRole
    mac: OpenMac
    owner: Name = GENERATOR
    peer: Name | None = None
    vnf_mode: VnfMode = VnfMode.IO
    queues: Queues = 1
    mtu: Mtu = DEFAULT_MTU
    kind: PortKind = PortKind.TESTBED
    vlan: Vlan | None = None
    eth_peer: OpenMac | None = None
    vnf_kind: VnfKind = VnfKind.TESTBED
    unread: bool = False
    members: tuple[Name, ...] = ()
    bond_mode: BondMode = "active-backup"
    lacp: Lacp = "off"


@checked()
@dataclass(frozen=True, slots=True)
class Namespace:
    """A network namespace: a host of its own. ``routing``: it forwards IPv4 and IPv6 between its interfaces.

    ``routes``: (destination, gateway) pairs such as ("10.2.0.0/24", "10.1.0.254").
    """

    name: Name
    routing: bool = False
    routes: Routes = ()


@checked()
@dataclass(frozen=True, slots=True)
class Nic:
    """An interface of a namespace that is a port of a bridge.

    Attributes:
        namespace: whose interface it is.
        name: inside the namespace.
        bridge: which bridge it is joined to.
        port: its name on the bridge. An INTERNAL port is one and the same interface, and has one name.
        kind: one of NicKind; or one that another maker makes, with a colon in it.
        addresses: with prefix length, such as "10.1.0.1/24".
        mac: None for one that the kernel makes up.
        mtu: bytes without Ethernet header and FCS, of both ends.
        offloads: of the end inside the namespace.
        queues: transmit and receive queues of a veth pair.
    """

    namespace: Name
    name: Name
    bridge: Name
    port: Name
    kind: str = NicKind.VETH
    addresses: tuple[Name, ...] = ()
    mac: OpenMac | None = None
    mtu: Mtu = DEFAULT_MTU
    offloads: Offloads = AS_IT_IS
    vlan: Vlan | None = None
    queues: Queues = 1


@checked()
@dataclass(frozen=True, slots=True)
class HostNic:
    """An interface of a namespace at the far end of a generator's port.

    What it sends queues on the DUT's port, and so on its receive queue, with the generator's own frames: a routing
    daemon there suffers from load as it would on the wire.

    Attributes:
        namespace: whose interface it is.
        name: inside the namespace.
        port: the endpoint that it is behind.
        vlan: its frames carry this tag on the port, and none inside; None for untagged.
        addresses: with prefix length, such as "12.12.12.2/30".
        mac: None for one that the kernel makes up.
        mtu: bytes without Ethernet header, tag and FCS.
    """

    namespace: Name
    name: Name
    port: Name
    vlan: int | None = None
    addresses: tuple[Name, ...] = ()
    mac: OpenMac | None = None
    mtu: Mtu = DEFAULT_MTU

    @property
    def label(self) -> str:
        """What the generator knows it by."""
        return f"{self.namespace}-{self.name}"
