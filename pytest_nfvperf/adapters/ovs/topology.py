"""A topology built on an instance: one OVSDB transaction, flows, and their teardown."""

from __future__ import annotations

from collections.abc import Sequence

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.idl import Row, one
from pytest_nfvperf.adapters.ovs.instance import OvsInstance
from pytest_nfvperf.adapters.ovs.openflow import OpenFlow, flows_of
from pytest_nfvperf.adapters.ovs.unixctl import UnixctlError
from pytest_nfvperf.adapters.ovs.vhost_connector import VhostConnector
from pytest_nfvperf.adapters.ovs.wiring import Wired, Wiring
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology import Topology
from pytest_nfvperf.ports.datapath import Attachment

_APPLY_DEADLINE_S = 10.0


class BuiltOvsTopology:
    """A live topology on a private OVS. Owns its teardown."""

    def __init__(self, instance: OvsInstance, wiring: Wiring, topology: Topology) -> None:
        """Build it.

        Raises:
            ConfigError: a port that this datapath cannot have, or a name already in use.
            TestbedError: an interface that OVS could not make, with the text of its error column.
        """
        self.topology = topology
        self._instance = instance
        self._wiring = wiring
        self._openflow = OpenFlow(instance.binaries.ofctl, instance.directory)
        self._wired: dict[str, Wired] = {}
        self._connector: VhostConnector | None = None
        self.closed = False
        self._refuse_names_in_use()
        try:
            for port in topology.ports:
                self._wired[port.name] = wiring.wire(port)
            instance.db.transact(self._insert, f"topology {topology.name}", _APPLY_DEADLINE_S)
            self._check_interfaces()
            for bridge in topology.bridges:
                crossings = [crossing for crossing in topology.crossings if crossing.bridge == bridge]
                self._openflow.replace_flows(bridge, flows_of(crossings, self.ofports()))
            self._connector = self._start_connector()
        except BaseException:
            self.close()
            raise

    def _refuse_names_in_use(self) -> None:
        """Before anything is made: teardown goes by these names, and must not take another's."""
        db = self._instance.db
        db.refresh()
        wanted = {*self.topology.bridges, *(port.name for port in self.topology.ports)}
        wanted |= {name for patch in self.topology.patches for name in (patch.port_a, patch.port_b)}
        taken = sorted(wanted & (db.rows("Bridge").keys() | db.rows("Interface").keys()))
        if taken:
            raise TestbedError(
                f"topology {self.topology.name!r} cannot be built: {', '.join(taken)} is in use by another topology "
                "on this OVS; close that first, or use other names"
            )

    def attachments(self) -> tuple[Attachment, ...]:
        """The far ends of the ports, in the topology's order."""
        return tuple(Attachment(name, wired.device) for name, wired in self._wired.items())

    def interface_names(self) -> dict[str, str]:
        """Names of the topology's ports by the names of OVS's interfaces."""
        return {wired.interface: name for name, wired in self._wired.items()}

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of a namespace of the topology; KeyError for an unknown one."""
        raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")

    def ofports(self) -> dict[str, int]:
        """OpenFlow port numbers by the names of the topology's ports, patch ports included."""
        rows = self._instance.db.rows("Interface")
        return {name: int(one(rows[self._interface(name)].ofport) or -1) for name in self._port_names()}

    def _interface(self, port: str) -> str:
        return self._wired[port].interface if port in self._wired else port

    def _port_names(self) -> list[str]:
        patches = [name for patch in self.topology.patches for name in (patch.port_a, patch.port_b)]
        return [*self._wired, *patches]

    def _start_connector(self) -> VhostConnector:
        sockets = {wired.interface: wired.socket for wired in self._wired.values() if wired.socket is not None}
        connector = VhostConnector(self._instance.directory / "db.sock", sockets)
        connector.start()
        return connector

    def _insert(self, transaction: ovs.db.idl.Transaction) -> None:
        bridges = {name: self._new_bridge(transaction, name) for name in self.topology.bridges}
        for port in self.topology.ports:
            _add_wired(transaction, bridges[port.bridge], self._wired[port.name])
        for patch in self.topology.patches:
            _add_patch(transaction, bridges[patch.bridge_a], patch.port_a, patch.port_b)
            _add_patch(transaction, bridges[patch.bridge_b], patch.port_b, patch.port_a)
        root = self._instance.db.root
        for bridge in bridges.values():
            root.addvalue("bridges", bridge)

    def _new_bridge(self, transaction: ovs.db.idl.Transaction, name: str) -> Row:
        bridge = transaction.insert(transaction.idl.tables["Bridge"])
        bridge.name = name
        bridge.datapath_type = "netdev"
        # Nothing passes but by our flows, so nothing does before they are there.
        bridge.fail_mode = "secure"
        bridge.protocols = ["OpenFlow10", "OpenFlow13", "OpenFlow14"]
        local = transaction.insert(transaction.idl.tables["Interface"])
        local.name, local.type = name, "internal"
        bridge.addvalue("ports", _new_port(transaction, name, local))
        return bridge

    def _check_interfaces(self) -> None:
        rows = self._instance.db.rows("Interface")
        for name in [*self.topology.bridges, *(self._interface(port) for port in self._port_names())]:
            error = _interface_error(rows.get(name))
            if error is not None:
                raise TestbedError(
                    f"interface {name!r} of topology {self.topology.name!r}: {error}",
                    evidence={"ovs-vswitchd.log (warnings)": self._instance.problems()},
                )

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every port has link; its far end must be attached by now.

        Raises:
            TestbedError: an interface reports an error, with the text of its error column.
            DeadlineError: names the ports without link.
        """
        self._instance.db.wait(
            lambda: not self._without_link(),
            f"link on the ports of topology {self.topology.name!r}",
            deadline_s,
            lambda: "no link on " + ", ".join(self._without_link()),
        )
        self._instance.check_alive()

    def _without_link(self) -> list[str]:
        if self._connector is not None:
            self._connector.check()
        self._check_interfaces()
        rows = self._instance.db.rows("Interface")
        return [name for name, wired in self._wired.items() if one(rows[wired.interface].link_state) != "up"]

    def configuration(self) -> str:
        """Bridges, ports, flows, queues and other_config as text, for evidence."""
        db = self._instance.db
        db.refresh()
        root = db.root
        parts = ["# Open_vSwitch other_config"]
        parts += [f"{key}={value}" for key, value in sorted(root.other_config.items())]
        for bridge in self.topology.bridges:
            parts += ["", *self._bridge_text(bridge)]
        for command in (("dpif-netdev/pmd-rxq-show",), ("dpctl/show",)):
            parts += ["", f"# ovs-appctl {' '.join(command)}", self._appctl(*command)]
        return "\n".join(parts) + "\n"

    def _bridge_text(self, bridge: str) -> list[str]:
        rows = self._instance.db.rows("Interface")
        lines = [f"# bridge {bridge}: datapath_type=netdev fail_mode=secure"]
        for row in self._instance.db.rows("Bridge")[bridge].ports:
            lines += [_interface_text(rows[interface.name]) for interface in row.interfaces]
        return [*lines, self._openflow.dump_flows(bridge).rstrip()]

    def _appctl(self, *command: str) -> str:
        try:
            return self._instance.ctl.call(*command).rstrip()
        except UnixctlError as error:
            return f"({error.message})"

    def close(self) -> None:
        """Remove bridges, ports and links. Can be called twice; a dead OVS is no hindrance."""
        if self.closed:
            return
        self.closed = True
        if self._connector is not None:
            self._connector.close()
        try:
            present = self._present_bridges()
            if present:
                self._instance.db.transact(
                    lambda _: self._delete(present), f"removal of topology {self.topology.name}", _APPLY_DEADLINE_S
                )
        finally:
            for wired in self._wired.values():
                self._wiring.unwire(wired)

    def _present_bridges(self) -> Sequence[Row]:
        if not self._instance.running():
            return []
        self._instance.db.refresh()
        rows = self._instance.db.rows("Bridge")
        return [rows[name] for name in self.topology.bridges if name in rows]

    def _delete(self, bridges: Sequence[Row]) -> None:
        for row in bridges:
            self._instance.db.root.delvalue("bridges", row)


def _new_port(transaction: ovs.db.idl.Transaction, name: str, interface: Row) -> Row:
    port = transaction.insert(transaction.idl.tables["Port"])
    port.name = name
    port.interfaces = [interface]
    return port


def _add_wired(transaction: ovs.db.idl.Transaction, bridge: Row, wired: Wired) -> None:
    interface = transaction.insert(transaction.idl.tables["Interface"])
    interface.name, interface.type = wired.interface, wired.type
    interface.options = dict(wired.options)
    if wired.mtu_request is not None:
        interface.mtu_request = wired.mtu_request
    bridge.addvalue("ports", _new_port(transaction, wired.interface, interface))


def _add_patch(transaction: ovs.db.idl.Transaction, bridge: Row, name: str, peer: str) -> None:
    interface = transaction.insert(transaction.idl.tables["Interface"])
    interface.name, interface.type = name, "patch"
    interface.options = {"peer": peer}
    bridge.addvalue("ports", _new_port(transaction, name, interface))


def _interface_error(row: Row | None) -> str | None:
    if row is None:
        return "not in the database"
    error = one(row.error)
    if error:
        return str(error)
    return "OVS gave it no port number (ofport -1)" if one(row.ofport) in {None, -1} else None


def _interface_text(row: Row) -> str:
    options = " ".join(f"{key}={value}" for key, value in sorted(row.options.items()))
    return (
        f"port {row.name}: type={row.type or 'system'} ofport={one(row.ofport)} mtu={one(row.mtu)} "
        f"link={one(row.link_state)} {options}".rstrip()
    )
