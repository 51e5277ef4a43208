"""A topology's OVS as an OVN chassis: what ovn-controller(8) reads from and writes into OVS's own database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.instance.ovsdb import Row
from pytest_nfvperf.adapters.ovs.openflow.ofctl import OpenFlow
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.routing.logical_network import INTEGRATION_BRIDGE, LogicalPort

_PROTOCOL = "OpenFlow15"  # what ovn-controller speaks
_IFACE_ID = "iface-id"
_LOCALNET = "ovn-localnet-port"
"""In external_ids of the patch ports that ovn-controller makes."""

_DEADLINE_S = 10.0


class Chassis:
    """The one chassis of a private OVN.

    Raises:
        ConfigError: the topology has no integration bridge, or lacks a bridge of a physical network.
    """

    def __init__(self, built: BuiltOvsTopology, name: str, mappings: Mapping[str, str]) -> None:
        self.name = name
        self._built = built
        self._db = built.instance.db
        self._mappings = mappings
        for bridge in (INTEGRATION_BRIDGE, *mappings.values()):
            if bridge not in built.topology.bridges:
                raise ConfigError(
                    f"topology {built.topology.name!r} has no bridge {bridge!r}, which OVN needs; "
                    f"it has {', '.join(built.topology.bridges)}: add one by bridge({bridge!r})"
                )

    def register(self, southbound: str) -> None:
        """Tell ovn-controller, by Open_vSwitch's external_ids, who it is and where the southbound database is."""
        ids = {
            "system-id": self.name,
            "hostname": self.name,
            "ovn-remote": southbound,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": "127.0.0.1",  # of tunnels to other chassis; there are none
            "ovn-bridge": INTEGRATION_BRIDGE,
            "ovn-bridge-datapath-type": self._built.instance.options.datapath_type,
            "ovn-bridge-mappings": ",".join(f"{network}:{bridge}" for network, bridge in self._mappings.items()),
        }

        def change(_: ovs.db.idl.Transaction) -> None:
            self._db.root.external_ids = {**self._db.root.external_ids, **{k: v for k, v in ids.items() if v}}
            bridge = self._db.rows("Bridge")[INTEGRATION_BRIDGE]
            bridge.protocols = sorted({*bridge.protocols, _PROTOCOL})

        self._db.transact(change, f"chassis {self.name}", _DEADLINE_S)

    def bind(self, ports: Sequence[LogicalPort]) -> None:
        """Say which interface each logical port is.

        Raises:
            ConfigError: no such port on br-int.
        """
        interfaces = self._interfaces()
        for port in ports:
            if port.at not in interfaces:
                raise ConfigError(
                    f"logical port {port.name!r} is at {port.at!r}, which {INTEGRATION_BRIDGE} does not have; "
                    f"it has {', '.join(sorted(interfaces)) or 'none'}"
                )

        def change(_: ovs.db.idl.Transaction) -> None:
            rows = self._db.rows("Interface")
            for port in ports:
                row = rows[interfaces[port.at]]
                row.external_ids = {**row.external_ids, _IFACE_ID: port.name}

        self._db.transact(change, "bindings of logical ports", _DEADLINE_S)

    def _interfaces(self) -> dict[str, str]:
        """OVS's interfaces on br-int by the topology's names of ports."""
        on_bridge = set(self._built.topology.bridge_ports(INTEGRATION_BRIDGE))
        return {name: row for row, name in self._built.interface_names().items() if name in on_bridge}

    def flows(self, bridge: str) -> str:
        """The flows of a bridge as text, with their counters."""
        instance = self._built.instance
        return OpenFlow(instance.ofctl, instance.sockets).dump_flows(bridge)

    def forget(self) -> None:
        """Take out of OVS's database what is there for OVN. Nothing where the topology, or OVS, is gone."""
        if self._built.closed or not self._built.instance.running():
            return
        self._db.refresh()
        self._db.transact(self._without_ovn, "removal of OVN", _DEADLINE_S)

    def _without_ovn(self, _: ovs.db.idl.Transaction) -> None:
        root = self._db.root
        ours = {"system-id", "hostname"}
        root.external_ids = {
            key: value for key, value in root.external_ids.items() if not key.startswith("ovn-") and key not in ours
        }
        for row in self._db.rows("Interface").values():
            if _IFACE_ID in row.external_ids:
                row.external_ids = {key: value for key, value in row.external_ids.items() if key != _IFACE_ID}
        for name in self._built.topology.bridges:
            _remove_patch_ports(self._db.rows("Bridge").get(name))


def _remove_patch_ports(bridge: Row | None) -> None:
    if bridge is not None:
        bridge.ports = [port for port in bridge.ports if _LOCALNET not in port.external_ids]
