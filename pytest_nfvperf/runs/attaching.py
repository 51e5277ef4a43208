"""What the generator is told of a deployed topology: which ports there are, and where to send learning frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.generator import MOST_ADDRESSES, GeneratorPort

_NO_MAC = "00:00:00:00:00:00"
"""For a host whose kernel chose the address: the generator passes its frames on unchanged."""


def generator_ports(topology: Topology, built: BuiltTopology, others: Collection[str] = ()) -> list[GeneratorPort]:
    """The topology's ports as the generator attaches them.

    Without those of ``others`` (VNFs that are processes) and cabled ones, which have no device of ours.
    """
    devices = {found.port: found.device for found in built.attachments() if found.port not in others}
    ports = [
        GeneratorPort(
            name=port.name,
            device=device,
            mac=port.mac,
            role=port.role,
            peer=port.peer,
            vnf_mode=port.vnf_mode,
            queues=port.queues,
            mtu=port.mtu,
            eth_peer=port.eth_peer,
            unread=port.unread,
            addresses=_told_apart(topology) if port.role is PortRole.MONITOR else (),
        )
        for port in topology.ports
        if (device := devices.get(port.name)) is not None
    ]
    return [*ports, *_hosts(topology, devices)]


def _hosts(topology: Topology, devices: Mapping[str, str | None]) -> list[GeneratorPort]:
    """Hosts behind endpoints. They can be attached once the endpoints are."""
    return [
        GeneratorPort(
            name=one.label,
            device=device,
            mac=one.mac or _NO_MAC,
            role=PortRole.HOST,
            peer=one.port,
            mtu=one.mtu,
            vlan=one.vlan,
        )
        for one in topology.behind
        if (device := devices.get(one.label)) is not None
    ]


def generator_port_names(topology: Topology) -> list[str]:
    """Names of all that ``generator_ports`` may have attached, hosts first, because they use the rings of others."""
    return [*(one.label for one in topology.behind), *(port.name for port in topology.ports)]


def learning_directions(topology: Topology) -> tuple[Direction, ...]:
    """The topology's directions, and the way back from receivers that send nothing, where a bridge must learn them.

    RFC 2544 section 23: a bridge that never heard of a receiver floods its frames to all ports.
    """
    crossed = {crossing.bridge for crossing in topology.crossings}
    silent = {direction.rx: direction for direction in topology.directions}
    for direction in topology.directions:
        silent.pop(direction.tx, None)
    back = [Direction(way.rx, way.tx) for way in silent.values() if topology.port(way.rx).bridge not in crossed]
    return (*topology.directions, *back)


def _told_apart(topology: Topology) -> tuple[str, ...]:
    """Destinations, by which a monitor tells apart the copies of a frame that crosses a bridge several times."""
    macs = [port.mac for port in topology.ports if port.role is not PortRole.MONITOR]
    return tuple(dict.fromkeys(macs))[:MOST_ADDRESSES]
