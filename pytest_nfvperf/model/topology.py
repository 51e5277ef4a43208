"""A topology as data: nodes, links and how frames cross the bridges.

Pure: builds nothing. A Datapath builds it and returns handles that own their teardown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.trial import Direction


class VnfMode(StrEnum):
    """What a VNF does with a frame, in the words of testpmd's forwarding modes."""

    IO = "io"
    MAC = "mac"
    MACSWAP = "macswap"


class PortRole(StrEnum):
    """What the generator does on a port."""

    ENDPOINT = "endpoint"
    FORWARDER = "forwarder"
    MONITOR = "monitor"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a bridge. ``owner`` is who is at the other end: the generator or a VNF.

    ``peer`` is the other port of the VNF for a FORWARDER, None otherwise.
    ``mac`` is the address of the far end (the generator's or the VNF's interface).
    ``mtu``: bytes without Ethernet header and FCS.
    """

    name: str
    bridge: str
    role: PortRole
    mac: str
    owner: str = "generator"
    peer: str | None = None
    vnf_mode: VnfMode = VnfMode.IO
    queues: int = 1
    mtu: int = 1500


@dataclass(frozen=True, slots=True)
class Crossing:
    """Frames entering ``bridge`` by ``in_port`` leave it by ``out_port`` (an OpenFlow flow)."""

    bridge: str
    in_port: str
    out_port: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch-port pair between two bridges, by the ports' names."""

    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str


@dataclass(frozen=True, slots=True)
class Topology:
    """Bridges, their ports and how frames cross. ``directions``: who of the endpoints sends to whom.

    A bridge without crossings does MAC learning (the NORMAL action).
    """

    name: str
    bridges: tuple[str, ...]
    ports: tuple[Port, ...]
    crossings: tuple[Crossing, ...]
    directions: tuple[Direction, ...]
    patches: tuple[Patch, ...] = ()

    def __post_init__(self) -> None:
        self._check_unique()
        self._check_references()

    def _check_unique(self) -> None:
        names = [p.name for p in self.ports] + [n for p in self.patches for n in (p.port_a, p.port_b)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"topology {self.name!r}: port {twice[0]!r} is used twice")

    def _check_references(self) -> None:
        known = {(p.bridge, p.name) for p in self.ports}
        for patch in self.patches:
            known |= {(patch.bridge_a, patch.port_a), (patch.bridge_b, patch.port_b)}
        for bridge, name in sorted(known):
            if bridge not in self.bridges:
                raise ValueError(f"topology {self.name!r}: port {name!r} is on unknown bridge {bridge!r}")
        for crossing in self.crossings:
            for end in (crossing.in_port, crossing.out_port):
                if (crossing.bridge, end) not in known:
                    raise ValueError(
                        f"topology {self.name!r}: crossing uses {end!r}, which is not a port of {crossing.bridge!r}"
                    )
        endpoints = {p.name for p in self.ports if p.role is PortRole.ENDPOINT}
        for direction in self.directions:
            for end in (direction.tx, direction.rx):
                if end not in endpoints:
                    raise ValueError(f"topology {self.name!r}: direction {direction} uses {end!r}, not an endpoint")

    def port(self, name: str) -> Port:
        """The port of this name; KeyError for an unknown one."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(f"topology {self.name!r} has no port {name!r}")
