"""The topologies that the suites share, as data.

Names are the field's (VSPERF, CSIT): *phy2phy* is port - bridge - port, *pvp* passes one
VNF, *pvvp* two. On the embedded testbed "phy" is the generator's vhost-user port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_nfvperf.model.arguments import FLAG, INTEGER, MTU, TEXT, checked, one, whole
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.links import Crossing, Patch, VethLink
from pytest_nfvperf.model.topology.nodes import AS_IT_IS, Namespace, Nic, Offloads, Port, PortRole, VnfMode
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

BRIDGE = "br0"

CHAIN_NETWORK = "198.18.0"
CHAIN_NETWORK_6 = "2001:2:"
"""Of the prefix for benchmarks, RFC 5180."""
"""Addresses of the namespaces at a chain's ends: RFC 2544's, appendix C.2.2, meant for benchmarks."""


def generator_mac(port: int) -> str:
    """MAC of the generator's port with this number, counted from 0."""
    # VNFs have 02:4e:46:00:VNF:SIDE with VNF from 1
    number = 0x10 + port if port < 0xF0 else 0x10000 + port
    return "02:4e:46:" + number.to_bytes(3, "big").hex(":")


GENERATOR_MACS = (generator_mac(0), generator_mac(1))


def vnf_mac(vnf: int, side: int) -> str:
    """MAC of side 0 or 1 of the VNF with this number, counted from 1."""
    return f"02:4e:46:00:{vnf:02x}:{side:02x}"


_CHAIN = {"vnfs": whole(0, 100), "bidirectional": FLAG, "mtu": MTU}


@checked(**_CHAIN)
def phy2phy(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """Port - bridge - port: the shortest path through the datapath."""
    return vnf_chain(0, bidirectional=bidirectional, mtu=mtu)


@checked(**_CHAIN)
def pvp(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """Port - bridge - VNF - bridge - port, all on one bridge."""
    return vnf_chain(1, bidirectional=bidirectional, mtu=mtu)


@checked(**_CHAIN)
def pvvp(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """As pvp, through two VNFs one after the other."""
    return vnf_chain(2, bidirectional=bidirectional, mtu=mtu)


@checked(**_CHAIN)
def vnf_chain(vnfs: int, *, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """A bridge that frames cross ``vnfs`` + 1 times, through so many VNFs in turn.

    VNFs forward as testpmd's io mode does, so the frames' MACs stay those of the generator.
    ``mtu``: bytes without Ethernet header and FCS.
    """
    ends = [_endpoint(side, mtu) for side in (0, 1)]
    stops = [_vnf_ports(number, mtu) for number in range(1, vnfs + 1)]
    passed = [ends[0].name, *(port.name for stop in stops for port in stop), ends[1].name]
    pairs = list(zip(passed[::2], passed[1::2], strict=True))
    crossings = [Crossing(BRIDGE, a, b) for pair in pairs for a, b in (pair, pair[::-1])]
    directions = [Direction("p0", "p1"), Direction("p1", "p0")]
    return Topology(
        name={0: "phy2phy", 1: "pvp", 2: "pvvp"}.get(vnfs, f"pv{vnfs}p"),
        bridges=(BRIDGE,),
        ports=(*ends, *(port for stop in stops for port in stop)),
        crossings=tuple(crossings),
        directions=tuple(directions if bidirectional else directions[:1]),
    )


def _endpoint(side: int, mtu: int) -> Port:
    return Port(f"p{side}", BRIDGE, PortRole.ENDPOINT, GENERATOR_MACS[side], mtu=mtu)


def _vnf_ports(number: int, mtu: int) -> tuple[Port, Port]:
    left, right = f"v{number}a", f"v{number}b"
    owner = f"vnf{number}"
    return (
        Port(left, BRIDGE, PortRole.FORWARDER, vnf_mac(number, 0), owner, right, VnfMode.IO, mtu=mtu),
        Port(right, BRIDGE, PortRole.FORWARDER, vnf_mac(number, 1), owner, left, VnfMode.IO, mtu=mtu),
    )


MOST_BRIDGES = 1000
"""Of a chain. OVS follows at most 64 patch ports; veth pairs have no such limit."""


@checked(
    bridges=INTEGER,
    link=TEXT,
    ends=TEXT,
    bidirectional=FLAG,
    mtu=MTU,
    offloads=one(Offloads, "Offloads, such as Offloads(tso=False)"),
    ip=INTEGER,
)
def bridge_chain(
    bridges: int,
    *,
    link: str = "patch",
    ends: str = "generator",
    bidirectional: bool = True,
    mtu: int = 1500,
    offloads: Offloads = AS_IT_IS,
    ip: int = 4,
) -> Topology:
    """Bridges one behind the other, as in S2: ovs-1 - ovs-2 - ... - ovs-N.

    Args:
        bridges: how many, 1 to MOST_BRIDGES.
        link: what joins neighbours: ``patch`` ports or ``veth`` pairs.
        ends: at both ends of the chain: ``generator`` ports p0 and p1, or ``namespace`` with eth0.
        bidirectional: both ends send; for generator ports.
        mtu: bytes without Ethernet header and FCS.
        offloads: of the namespaces' interfaces and of veth pairs between bridges.
        ip: version of the namespaces' addresses, 4 or 6.

    Raises:
        ValueError: no bridge, or an unknown kind of link or end, or version of IP.
    """
    if not 1 <= bridges <= MOST_BRIDGES:
        bound = "at least 1" if bridges < 1 else f"at most {MOST_BRIDGES}"
        raise ArgumentError(f"a chain of {bridges} bridges is not possible: give {bound}")
    names = [f"ovs-{number}" for number in range(1, bridges + 1)]
    joints = [_joint(link, number, mtu, offloads) for number in range(1, bridges)]
    return Topology(
        name=f"chain-{bridges}-{link}" if bridges > 1 else "chain-1",
        bridges=tuple(names),
        crossings=_through(joints, names) if ends == "generator" else (),
        patches=tuple(joint for joint in joints if isinstance(joint, Patch)),
        veths=tuple(joint for joint in joints if isinstance(joint, VethLink)),
        **(
            _generators(names, bidirectional=bidirectional, mtu=mtu)
            if ends == "generator"
            else _namespaces(ends, names, ip, mtu=mtu, offloads=offloads)
        ),
    )


def _joint(link: str, number: int, mtu: int, offloads: Offloads) -> Patch | VethLink:
    """Between bridge ``number`` and the next; S2's names, patch-CONNECT-IK and ovschain-IK, shortened."""
    left, right = f"ovs-{number}", f"ovs-{number + 1}"
    if link == "patch":
        return Patch(left, f"patch-{number}-{number + 1}", right, f"patch-{number + 1}-{number}")
    if link == "veth":
        near, far = f"chain-{number}-{number + 1}", f"chain-{number + 1}-{number}"
        return VethLink(left, near, right, far, mtu=mtu, offloads=offloads)
    raise ArgumentError(f"bridges cannot be chained by {link!r}: write patch or veth")


def _through(joints: Sequence[Patch | VethLink], bridges: Sequence[str]) -> tuple[Crossing, ...]:
    entries = ["p0", *(joint.port_b for joint in joints)]
    exits = [*(joint.port_a for joint in joints), "p1"]
    hops = zip(bridges, entries, exits, strict=True)
    return tuple(crossing for name, a, b in hops for crossing in (Crossing(name, a, b), Crossing(name, b, a)))


def _generators(bridges: Sequence[str], *, bidirectional: bool, mtu: int) -> dict[str, Any]:
    directions = (Direction("p0", "p1"), Direction("p1", "p0"))
    ports = tuple(
        Port(f"p{n}", name, PortRole.ENDPOINT, GENERATOR_MACS[n], mtu=mtu)
        for n, name in enumerate((bridges[0], bridges[-1]))
    )
    return {"ports": ports, "directions": directions if bidirectional else directions[:1]}


def _namespaces(ends: str, bridges: Sequence[str], ip: int, *, mtu: int, offloads: Offloads) -> dict[str, Any]:
    if ends != "namespace":
        raise ArgumentError(f"a chain cannot end in {ends!r}: write generator or namespace")
    addresses = {4: f"{CHAIN_NETWORK}.%d/24", 6: f"{CHAIN_NETWORK_6}:%d/64"}
    if ip not in addresses:
        raise ArgumentError(f"there is no IP version {ip}: write 4 or 6")
    nics = tuple(
        Nic(f"end{n}", "eth0", name, f"end{n}", addresses=(addresses[ip] % (n + 1),), mtu=mtu, offloads=offloads)
        for n, name in enumerate((bridges[0], bridges[-1]))
    )
    names = tuple(Namespace(nic.namespace) for nic in nics)
    return {"ports": (), "directions": (), "namespaces": names, "nics": nics}
