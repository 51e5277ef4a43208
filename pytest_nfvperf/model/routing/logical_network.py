"""OVN's logical network as data, in the words of ovn-nb(5). Pure: makes nothing."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_nfvperf.model.errors import ArgumentError

INTEGRATION_BRIDGE = "br-int"
"""The bridge that ovn-controller writes its flows to (ovn-architecture(7))."""


@dataclass(frozen=True, slots=True)
class LogicalPort:
    """A port of a logical switch.

    Attributes:
        name: its name in OVN.
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
    """The port by which a logical switch reaches a physical network: a bridge of the topology.

    ``name``: of the port. ``network``: of the physical network. ``bridge``: what that network is here
    (ovn-bridge-mappings).
    """

    name: str
    network: str
    bridge: str


@dataclass(frozen=True, slots=True)
class LogicalSwitch:
    """A logical switch with its ports. ``localnet``: None for one without a physical network.

    Raises:
        ValueError: a name of a port is there twice.
    """

    name: str
    ports: tuple[LogicalPort, ...]
    localnet: Localnet | None = None

    def __post_init__(self) -> None:
        names = [port.name for port in self.ports] + ([self.localnet.name] if self.localnet else [])
        if len(set(names)) < len(names):
            raise ArgumentError(f"logical switch {self.name!r} has a port twice: {', '.join(names)}")
