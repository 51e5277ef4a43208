"""The topologies that the suites share, as data.

Names are the field's (VSPERF, CSIT): *phy2phy* is port - bridge - port, *pvp* passes one
VNF, *pvvp* two. On the embedded testbed "phy" is the generator's vhost-user port.
"""

from __future__ import annotations

from pytest_nfvperf.model.topology import Crossing, Port, PortRole, Topology, VnfMode
from pytest_nfvperf.model.trial import Direction

BRIDGE = "br0"
GENERATOR_MACS = ("02:4e:46:00:00:10", "02:4e:46:00:00:11")


def vnf_mac(vnf: int, side: int) -> str:
    """MAC of side 0 or 1 of the VNF with this number, counted from 1."""
    return f"02:4e:46:00:{vnf:02x}:{side:02x}"


def phy2phy(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """Port - bridge - port: the shortest way through the datapath."""
    return vnf_chain(0, bidirectional=bidirectional, mtu=mtu)


def pvp(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """Port - bridge - VNF - bridge - port, all on one bridge."""
    return vnf_chain(1, bidirectional=bidirectional, mtu=mtu)


def pvvp(*, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """As pvp, through two VNFs one after the other."""
    return vnf_chain(2, bidirectional=bidirectional, mtu=mtu)


def vnf_chain(vnfs: int, *, bidirectional: bool = True, mtu: int = 1500) -> Topology:
    """A bridge that frames cross ``vnfs`` + 1 times, through so many VNFs in turn.

    VNFs forward as testpmd's io mode does, so the frames' MACs stay those of the generator.
    ``mtu``: bytes without Ethernet header and FCS.
    """
    ends = [_endpoint(side, mtu) for side in (0, 1)]
    stops = [_vnf_ports(number, mtu) for number in range(1, vnfs + 1)]
    way = [ends[0].name, *(port.name for stop in stops for port in stop), ends[1].name]
    hops = list(zip(way[::2], way[1::2], strict=True))
    crossings = [Crossing(BRIDGE, a, b) for hop in hops for a, b in (hop, hop[::-1])]
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
