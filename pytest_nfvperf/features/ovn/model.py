"""A path with OVN as data: its logical network, and a VM whose address is announced."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_nfvperf.features.routing.model import BgpPathPlan, SpeakerConfig
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import namespace
from pytest_nfvperf.model.topology.topology import Topology

# OVN's logical network, in the terms of ovn-nb(5).

INTEGRATION_BRIDGE = "br-int"
"""The bridge that ovn-controller writes its flows to (ovn-architecture(7))."""

PROVIDER, UPLINK = "br-ex", "br-bgp"
VM, BIRD = "vm", "bird"
VM_PORT = "vm"
"""The VM's logical port."""

_NETWORK = "physnet1"
_SWITCH = "provider"
_LOCALNET = "provnet-provider"  # the agent looks for patch ports called patch-provnet-...
_VM_MAC = "02:4e:46:b9:00:10"


@dataclass(frozen=True, slots=True)
class LogicalPort:
    """A port of a logical switch.

    Attributes:
        name: in OVN.
        at: the port of the topology's br-int that it is bound to.
        mac: the MAC address behind it.
        addresses: without prefix length.
        external_ids: notes of the management system, such as OpenStack's Neutron.
        options: of ovn-nb(5), such as "requested-chassis".
    """

    name: str
    at: str
    mac: str
    addresses: tuple[str, ...] = ()
    external_ids: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for address in self.addresses:
            ipaddress.ip_address(address)


@dataclass(frozen=True, slots=True)
class Localnet:
    """The port that connects a logical switch to a physical network, which is a bridge (ovn-bridge-mappings)."""

    name: str
    network: str
    bridge: str


@dataclass(frozen=True, slots=True)
class LogicalSwitch:
    """A logical switch with its ports.

    Attributes:
        localnet: None for one without a physical network.
        balancers: load balancers of TCP and UDP: backends by virtual address, ``{"10.1.0.100:80": ("10.1.0.2:80",)}``.
        allowed: matches of ovn-nb(5) whose connections may be opened (allow-related), such as "tcp.dst == 80"; other
            IP to the switch's ports is dropped. None: everything may.

    Raises:
        ValueError: two ports have the same name.
    """

    name: str
    ports: tuple[LogicalPort, ...]
    localnet: Localnet | None = None
    balancers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [port.name for port in self.ports] + ([self.localnet.name] if self.localnet else [])
        if len(set(names)) < len(names):
            raise ArgumentError(f"logical switch {self.name!r} has a port twice: {', '.join(names)}")


# S1 as OpenStack has it: ovn-bgp-agent makes FRR announce the address of a VM on an OVN provider network::
#
#     BIRD -- br-bgp -- FRR and the kernel's routes -- br-ex -- br-int -- VM
#                       (the namespace of the private OVS)


@dataclass(frozen=True, slots=True)
class OvnPathPlan:
    """The parameters of the path.

    Attributes:
        bgp: addresses, AS numbers and timers. By default BIRD announces a default route, so that br-ex answers for the
            VM's gateway (proxy ARP).
        gateway: of the VM; unused.
    """

    bgp: BgpPathPlan = field(default_factory=lambda: BgpPathPlan(clients="0.0.0.0/0"))
    gateway: str = "172.16.101.1"

    @property
    def mappings(self) -> dict[str, str]:
        """Bridges by physical network."""
        return {_NETWORK: PROVIDER}

    def topology(self) -> Topology:
        """The three bridges, the VM on br-int, BIRD on br-bgp. FRR is in the namespace of the OVS."""
        length = self.bgp.provider.partition("/")[2]
        to_vm = ((self.bgp.provider, self.bgp.frr_address),)  # BIRD's routes stay in BIRD
        return compose(
            "ovn-path",
            PROVIDER,
            UPLINK,
            INTEGRATION_BRIDGE,
            namespace(VM, INTEGRATION_BRIDGE, f"{self.bgp.vm}/{length}", gateway=self.gateway, mac=_VM_MAC),
            namespace(BIRD, UPLINK, self.bgp.bird, routes=to_vm),
        )

    def switch(self, chassis: str) -> LogicalSwitch:
        """The provider network. The VM's port has Neutron's external_ids, which the agent reads."""
        length = self.bgp.provider.partition("/")[2]
        external_ids = {
            "neutron:network_name": _SWITCH,
            "neutron:cidrs": f"{self.bgp.vm}/{length}",
            "neutron:host_id": chassis,
        }
        options = {"requested-chassis": chassis}
        port = LogicalPort(VM_PORT, f"{VM}-eth0", _VM_MAC, (self.bgp.vm,), external_ids, options)
        return LogicalSwitch(_SWITCH, (port,), Localnet(_LOCALNET, _NETWORK, PROVIDER))

    def frr_config(self) -> SpeakerConfig:
        """FRR announces nothing by itself: the agent makes it."""
        return self.bgp.frr_config().announcing(())
