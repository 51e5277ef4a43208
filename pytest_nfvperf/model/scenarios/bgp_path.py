"""Scenario S1 as data: a bridge whose flows BGP decides, a VM behind it, and a neighbour behind the generator's port.

Data is untagged on the generator's port (the flat provider network), BGP and BFD are in a VLAN of the same port::

    generator and BIRD -- dpdk2 -- br-ex -- vm0 -- VM
                                     |
                                  vlan177 -- FRR
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_nfvperf.model.arguments import FLAG, INTEGER, IP, TEXT, Allowed, checked, one, optional, whole
from pytest_nfvperf.model.routing.bgp import BfdTimers, BgpTimers, Neighbor, SpeakerConfig
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import behind, endpoint, namespace, nic
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic

BRIDGE, OUTSIDE = "br-ex", "dpdk2"
VM = "vm0"
"""The port of S1's VM."""

FRR, BIRD = "frr", "bird"
FRR_PORT = "vlan177"
FRR_MAC = "02:4e:46:b9:00:01"
_PROVIDER_VLAN = 101
"""Inside the bridge only: keeps what is flooded in the control VLAN away from the VM's port."""


_PREFIX = Allowed("a text such as '12.12.12.1/30'", lambda value: isinstance(value, str) and "/" in value)


@checked(
    vlan=whole(1, 4094),
    neighbor_vlan=optional(whole(1, 4094)),
    frr=_PREFIX,
    bird=_PREFIX,
    frr_asn=INTEGER,
    bird_asn=INTEGER,
    frr_expects=optional(INTEGER),
    timers=one(BgpTimers, "BgpTimers"),
    bfd=optional(one(BfdTimers, "BfdTimers")),
    graceful_restart=FLAG,
    password=optional(TEXT),
    frr_password=optional(TEXT),
    provider=_PREFIX,
    vm=IP,
    clients=_PREFIX,
    client=IP,
)
@dataclass(frozen=True, slots=True)
class BgpPathPlan:
    """The parameters of S1's path; change those that a test needs.

    Attributes:
        vlan: of BGP on the generator's port; ``neighbor_vlan``: what the neighbour uses, None for the same.
        frr, bird: addresses with prefix length.
        frr_asn, bird_asn: AS numbers; ``frr_expects``: the AS number that FRR expects, None for ``bird_asn``.
        timers, bfd, graceful_restart: of both sides; ``bfd`` None for none.
        password, frr_password: TCP MD5; ``frr_password``: what FRR has, None for the same.
        provider: network of the VM, that FRR announces; ``vm``: the VM's address in it.
        clients: network behind the neighbour, that it announces; ``client``: the generator's address in it.
    """

    vlan: int = 177
    neighbor_vlan: int | None = None
    frr: str = "12.12.12.1/30"
    bird: str = "12.12.12.2/30"
    frr_asn: int = 64999
    bird_asn: int = 65000
    frr_expects: int | None = None
    timers: BgpTimers = field(default_factory=BgpTimers)
    bfd: BfdTimers | None = field(default_factory=BfdTimers)
    graceful_restart: bool = False
    password: str | None = "nfvperf"  # noqa: S105 - of a session inside one machine
    frr_password: str | None = None
    provider: str = "172.16.101.0/24"
    vm: str = "172.16.101.10"
    clients: str = "198.18.0.0/15"
    client: str = "198.18.0.1"

    @property
    def frr_address(self) -> str:
        """Without the prefix length."""
        return self.frr.partition("/")[0]

    @property
    def bird_address(self) -> str:
        """Without the prefix length."""
        return self.bird.partition("/")[0]

    def topology(self) -> Topology:
        """The bridge, its ports, FRR's namespace on it and BIRD's behind the generator's port."""
        speaker = nic(FRR, BRIDGE, self.frr, port=FRR_PORT, kind="internal", vlan=Vlan(self.vlan), mac=FRR_MAC)
        return compose(
            "bgp-path",
            endpoint(OUTSIDE, BRIDGE),
            endpoint(VM, BRIDGE, vlan=Vlan(_PROVIDER_VLAN)),
            namespace(FRR, BRIDGE)[0],
            speaker,
            behind(OUTSIDE, BIRD, self.bird, vlan=self.neighbor_vlan or self.vlan),
        )

    def traffic(self, frame_size: int | Imix = 64, **changes: Any) -> Traffic:
        """Traffic from a client to the VM, and back. BGP's routes forward each direction."""
        return Traffic(frame_size=frame_size, **{"src_ip": self.client, "dst_ip": self.vm, **changes})

    def frr_config(self) -> SpeakerConfig:
        """The DUT's side, which announces the provider network."""
        neighbor = self._neighbor(self.bird_address, self.frr_expects or self.bird_asn)
        if self.frr_password is not None:
            neighbor = self._neighbor(self.bird_address, neighbor.asn, self.frr_password)
        return SpeakerConfig(
            self.frr_asn, self.frr_address, (neighbor,), (self.provider,), graceful_restart=self.graceful_restart
        )

    def bird_config(self) -> SpeakerConfig:
        """The neighbour's side, which announces the clients' network."""
        neighbor = self._neighbor(self.frr_address, self.frr_asn)
        return SpeakerConfig(
            self.bird_asn, self.bird_address, (neighbor,), (self.clients,), graceful_restart=self.graceful_restart
        )

    def _neighbor(self, address: str, asn: int, password: str | None = None) -> Neighbor:
        return Neighbor(address, asn, password or self.password, self.timers, self.bfd)
