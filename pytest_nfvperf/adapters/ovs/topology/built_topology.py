"""A topology built on an instance: one OVSDB transaction, flows, and their teardown."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ovs.db.idl

from pytest_nfvperf.adapters.net.firewall import active_in
from pytest_nfvperf.adapters.ovs.instance.ovsdb import one
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.instance.unixctl import UnixctlError
from pytest_nfvperf.adapters.ovs.instance.vhost_connector import OURS, VhostConnector
from pytest_nfvperf.adapters.ovs.openflow.crossings import add_crossings
from pytest_nfvperf.adapters.ovs.openflow.ofctl import OpenFlow
from pytest_nfvperf.adapters.ovs.openflow.pipeline import pipeline, without_access_list
from pytest_nfvperf.adapters.ovs.topology.learned_macs import learned_ports
from pytest_nfvperf.adapters.ovs.topology.mirror_rows import flow_outputs, mirror_counts, replace_mirrors
from pytest_nfvperf.adapters.ovs.topology.neighbours import tell_neighbour
from pytest_nfvperf.adapters.ovs.topology.offload import offload_share, offloaded_flows
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort, refuse_flows_on_bonds
from pytest_nfvperf.adapters.ovs.topology.patch_depth import refuse_too_deep
from pytest_nfvperf.adapters.ovs.topology.port_maker import PortMaker
from pytest_nfvperf.adapters.ovs.topology.removal import remove_from_ovs
from pytest_nfvperf.adapters.ovs.topology.rows import insert, interface_error, mirror_text, port_text
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorCounts, MirrorMethod
from pytest_nfvperf.model.topology.topology import Topology, all_ports
from pytest_nfvperf.ports.datapath import Attachment

_OF_KERNEL = ("system", "tap", "afxdp")
"""Types of OVS's interfaces that the kernel has one of that name for."""

_APPLY_DEADLINE_S = 20.0
_APPLY_DEADLINE_EACH_S = 0.2
"""For each bridge and port: closing one takes the kernel 20 ms, one after the other."""


class BuiltOvsTopology:
    """A live topology on an OVS, ours or the system's. Owns its teardown."""

    def __init__(self, instance: RunningOvs, port_maker: PortMaker, topology: Topology) -> None:
        """Build it.

        Raises:
            ConfigError: a port that this datapath cannot have, or a name already in use.
            TestbedError: an interface that OVS could not make, with the text of its error column.
        """
        self.topology = topology
        self._instance = instance
        self._port_maker = port_maker
        self._openflow = OpenFlow(instance.ofctl, instance.sockets)
        self._wired: dict[str, OvsPort] = {}
        self._connector: VhostConnector | None = None
        self.closed = False
        refuse_too_deep(topology)
        self._refuse_names_in_use()
        try:
            self._wired = port_maker.wire(topology)
            refuse_flows_on_bonds(topology, self._wired.values())
            instance.note_bridges(topology.bridges)
            instance.db.transact(self._insert, f"topology {topology.name}", self._apply_deadline_s)
            self._check_interfaces()
            port_maker.finish(topology)
            self._replace_flows()
            self._start_connector()
        except BaseException as error:
            try:
                self.close()
            except TestbedError as removal_error:
                error.add_note(f"and then the topology could not be removed: {removal_error.message}")
            raise

    @property
    def instance(self) -> RunningOvs:
        return self._instance

    def _refuse_names_in_use(self) -> None:
        """Teardown goes by these names, so check before anything is made: it must not take another's."""
        db = self._instance.db
        db.refresh()
        wanted = {*self.topology.bridges, *(name for _, name in all_ports(self.topology))}
        taken = sorted(wanted & (db.rows("Bridge").keys() | db.rows("Interface").keys()))
        if taken:
            owner = "another topology" if self._instance.owned else "somebody else, or by another run of ours,"
            raise TestbedError(
                f"topology {self.topology.name!r} cannot be built: {', '.join(taken)} is in use by {owner} "
                "on this OVS; close that first, or use other names"
            )

    @property
    def _apply_deadline_s(self) -> float:
        parts = len(self.topology.bridges) + len(all_ports(self.topology))
        return _APPLY_DEADLINE_S + _APPLY_DEADLINE_EACH_S * parts

    def attachments(self) -> tuple[Attachment, ...]:
        ports = [Attachment(port.name, self._wired[port.name].device) for port in self.topology.ports]
        return (*ports, *self._port_maker.hosts())

    def interface_names(self) -> dict[str, str]:
        return {one.interface: name for name, wired in self._wired.items() for one in wired.interfaces}

    def kernel_interfaces(self) -> dict[str, str]:
        """Names of the topology's ports by the interfaces that the kernel has for them: veth pairs, a lab's."""
        named = ((one, name) for name, wired in self._wired.items() for one in wired.interfaces)
        return {one.kernel or one.interface: name for one, name in named if one.kernel or one.type in _OF_KERNEL}

    def netns(self, namespace: str) -> str:
        if namespace not in {spec.name for spec in self.topology.namespaces}:
            raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")
        return self._port_maker.namespace(namespace).name

    def firewall(self) -> dict[str, list[str]]:
        home = self._instance.home
        names = [self.netns(spec.name) for spec in self.topology.namespaces]
        return active_in(names if home.journaled else [*names, home.name])

    def mac_of(self, bridge: str) -> str:
        db = self._instance.db
        db.refresh()
        mac = one(db.rows("Interface")[bridge].mac_in_use)
        if not mac:
            raise TestbedError(f"bridge {bridge!r} has no MAC address that tunnels could be told of")
        return str(mac)

    def tell_neighbour(self, bridge: str, address: str, mac: str) -> None:
        tell_neighbour(self._instance, bridge, address, mac)

    def ofports(self) -> dict[str, int]:
        """OpenFlow port numbers by the names of the topology's ports, links' ends included; of a bond the first."""
        rows = self._instance.db.rows("Interface")
        return {name: int(one(rows[wired.interfaces[0].interface].ofport) or -1) for name, wired in self._wired.items()}

    def port_names(self, bridge: str) -> dict[int, str]:
        """Names of the topology's ports by their OpenFlow port numbers; a bond has several."""
        rows = self._instance.db.rows("Interface")
        return {
            int(one(rows[each.interface].ofport) or -1): name
            for name, wired in self._wired.items()
            if wired.bridge == bridge
            for each in wired.interfaces
        }

    def learned(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for bridge in self.topology.bridges:
            names = self.port_names(bridge)
            for mac, number in learned_ports(self._appctl("fdb/show", bridge)).items():
                found[mac] = names.get(number, f"{bridge} port {number}")
        return found

    def set_mirrors(self, mirrors: Sequence[Mirror]) -> None:
        """Replace the mirrors by OVSDB while the topology is deployed.

        Raises:
            ValueError: the mirrors cannot be, or mirrors by flows would change.
            DeadlineError: vswitchd did not take them.
        """
        changed = replace(self.topology, mirrors=tuple(mirrors))
        by_flows = [{m for m in of if m.by is MirrorMethod.FLOW} for of in (self.topology.mirrors, changed.mirrors)]
        if by_flows[0] != by_flows[1]:
            raise ValueError(
                f"topology {changed.name!r}: mirrors by flows do not change while it is deployed: build it anew"
            )
        interfaces = {name: wired.interface for name, wired in self._wired.items()}
        replace_mirrors(self._instance.db, self._instance.ctl, changed, interfaces)
        self.topology = changed

    def mirror_counts(self) -> dict[str, MirrorCounts]:
        """What OVS counted of each mirror's copies since it was made, by name; takes up to a second."""
        return mirror_counts(self._instance.db, self._instance.ctl, self.topology.mirrors)

    def not_offloaded(self) -> str | None:
        if self._instance.db.root.other_config.get("hw-offload") != "true":
            return "other_config:hw-offload is not true"
        state = offloaded_flows(self._instance.ctl)
        return None if state.full.count else f"hw-offload is on, but {state}"

    def management_socket(self, bridge: str) -> Path:
        return self._openflow.socket(bridge)

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        self._openflow.replace_flows(bridge, flows)

    def offload_share(self) -> OffloadShare:
        """Where flows are handled now, and what OVS has logged about those that are not in hardware."""
        return offload_share(offloaded_flows(self._instance.ctl), self._instance.problems())

    def check(self) -> None:
        self._port_maker.check()

    def restarted(self) -> None:
        """After a restart of OVS: restore the flows and neighbours that no database keeps."""
        self._replace_flows()
        self._port_maker.tell_neighbours()

    def losses(self) -> dict[str, int]:
        return self._port_maker.losses()

    def _replace_flows(self) -> None:
        """Install our flows. Bridges without flows of ours keep OVS's own MAC learning."""
        ofports = self.ofports()
        bonded = self._bonded()
        for bridge in self.topology.bridges:
            flows = list(flow_outputs(self.topology, bridge, ofports)) if bridge not in bonded else []
            if flows:
                add_crossings(self._openflow.socket(bridge), flows)
            tables = pipeline(self.topology, bridge, ofports)
            if tables:
                self._openflow.replace_flows(bridge, tables)

    def _bonded(self) -> set[str]:
        """Bridges with a bond. They do MAC learning, because a flow bypasses a bond."""
        return {wired.bridge for wired in self._wired.values() if wired.members}

    def _start_connector(self) -> None:
        sockets = {wired.interface: wired.socket for wired in self._wired.values() if wired.socket is not None}
        tables = {wired.socket_table or OURS for wired in self._wired.values() if wired.socket is not None}
        self._connector = VhostConnector(self._instance.database, sockets, tables=tables)
        self._connector.start()

    def _insert(self, transaction: ovs.db.idl.Transaction) -> None:
        insert(
            transaction,
            self._instance.db.root,
            self.topology,
            self._wired.values(),
            datapath_type=self._instance.options.datapath_type,
            crossed={crossing.bridge for crossing in self.topology.crossings} - self._bonded(),
            tag=self._instance.tag,
        )

    def _check_interfaces(self) -> None:
        rows = self._instance.db.rows("Interface")
        for name in [*self.topology.bridges, *self.interface_names()]:
            error = interface_error(rows.get(name))
            if error is not None:
                raise TestbedError(
                    f"interface {name!r} of topology {self.topology.name!r}: {error}{_advice(error)}",
                    evidence={"ovs-vswitchd.log (warnings)": self._instance.problems()},
                )

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every port has link; its far end must be attached by now."""
        self._instance.db.wait(
            lambda: not self._without_link(),
            f"link on the ports of topology {self.topology.name!r}",
            deadline_s,
            lambda: "no link on " + ", ".join(self._without_link()),
        )
        wait_until(
            lambda: not self._port_maker.not_running(),
            f"the kernel to send on the veth pairs of topology {self.topology.name!r}",
            deadline_s,
            last_seen=lambda: "not yet on " + ", ".join(self._port_maker.not_running()),
        )
        self._instance.check_alive()

    def _without_link(self) -> list[str]:
        if self._connector is not None:
            self._connector.check()
        self._check_interfaces()
        rows = self._instance.db.rows("Interface")
        up = {name for name, row in rows.items() if one(row.link_state) == "up"}
        return [
            name if wired.interface == name else f"{name} ({wired.interface})"  # as the testbed file calls it, too
            for name, wired in self._wired.items()
            # a bond carries frames while one of its members does
            if wired.has_link and not any(each.interface in up for each in wired.interfaces)
        ]

    def configuration(self) -> str:
        db = self._instance.db
        db.refresh()
        root = db.root
        parts = ["# Open_vSwitch other_config"]
        parts += [f"{key}={value}" for key, value in sorted(root.other_config.items())]
        for bridge in self.topology.bridges:
            parts += ["", *self._bridge_text(bridge)]
        parts += ["", *self._port_maker.offload_lines()]
        userspace = self._instance.options.datapath_type == "netdev"
        for command in ("dpif-netdev/pmd-rxq-show", "dpctl/show") if userspace else ("dpctl/show",):
            parts += ["", f"# ovs-appctl {command}", self._appctl(command)]
        return "\n".join(parts) + "\n"

    def _bridge_text(self, bridge: str) -> list[str]:
        row = self._instance.db.rows("Bridge")[bridge]
        lines = [f"# bridge {bridge}: datapath_type={row.datapath_type or 'system'} fail_mode={one(row.fail_mode)}"]
        lines += [line for port in row.ports for line in port_text(port)]
        lines += [mirror_text(mirror) for mirror in getattr(row, "mirrors", ())]
        tables = pipeline(self.topology, bridge, self.ofports())
        return [*lines, without_access_list(tables) if tables else self._appctl("bridge/dump-flows", bridge)]

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
            interfaces = self.kernel_interfaces()
            if self._instance.running():
                self._instance.thaw()  # one that somebody stopped would take nothing away, and be waited for
                self._port_maker.release()
            remove_from_ovs(self._instance, self._port_maker, self.topology, interfaces, self._apply_deadline_s)
        except Exception:
            raise
        except BaseException:
            self.closed = False  # a signal's handler broke it off: the next close goes on
            raise
        finally:
            self._port_maker.close()


def _advice(error: str) -> str:
    if os.strerror(errno.EMFILE) not in error:
        return ""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"; the hard limit of open files here is {most} (ulimit -Hn): raise it, or build fewer bridges and ports"
