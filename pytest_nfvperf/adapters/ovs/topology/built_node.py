"""What stands on one node of a topology, on this machine or on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_nfvperf.ports.datapath import BuiltTopology


class BuiltNode(BuiltTopology, Protocol):
    """The part of a topology that one node has. It owns its teardown."""

    def interface_names(self) -> Mapping[str, str]:
        """Names of the topology's ports by the names of OVS's interfaces."""
        ...

    def learned(self) -> Mapping[str, str]:
        """Which port each MAC address was learned on, by its name in the topology."""
        ...

    def mac_of(self, bridge: str) -> str:
        """Of a bridge's local port, by which tunnels' frames leave and enter; TestbedError where it has none."""
        ...

    def tell_neighbour(self, bridge: str, address: str, mac: str) -> None: ...

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Make these the flows of a bridge, in ovs-ofctl(8)'s words, all at once; TestbedError with its own words."""
        ...
