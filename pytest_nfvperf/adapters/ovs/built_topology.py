"""A topology on one OVS, from its first row to its removal."""

from __future__ import annotations

import errno
import os
import re
import resource
import threading
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import ovs.db.idl

from pytest_nfvperf.adapters.net.ends import read_links, set_admin_state
from pytest_nfvperf.adapters.net.interface_counters import LinkName, LinkReading, LinkWatch
from pytest_nfvperf.adapters.net.packet_sockets import held_sockets
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.conntrack import TrackedZones
from pytest_nfvperf.adapters.ovs.nics import OvsPort, refuse_flows_on_bonds, set_neighbour
from pytest_nfvperf.adapters.ovs.offload import log_time, not_offloaded, read_share
from pytest_nfvperf.adapters.ovs.openflow import (
    OpenFlow,
    add_crossings,
    connected,
    links_up,
    pipeline,
    with_numbers,
    without_access_list,
)
from pytest_nfvperf.adapters.ovs.ovsdb import JsonRpc, RefusedError, value_of
from pytest_nfvperf.adapters.ovs.ports import PortMaker
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.rows import (
    delete_qos,
    flow_outputs,
    insert_bridges,
    interface_error,
    mirror_text,
    not_granted,
    ofport_of,
    port_text,
    refuse_powerless,
    replace_mirrors,
)
from pytest_nfvperf.adapters.ovs.slow_path import read_slow_path
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.model.errors import (
    ArgumentError,
    ConfigError,
    DeadlineError,
    TestbedError,
    UnavailableError,
    run_all,
)
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.connections import connection_rules
from pytest_nfvperf.model.topology.limiters import meter_rules
from pytest_nfvperf.model.topology.topology import Topology, all_ports, bridge_of
from pytest_nfvperf.ports.datapath import BuiltTopology

_MOST_PATCHES = 64
"""MAX_DEPTH of ofproto/ofproto-dpif-xlate.c, OVS 2.5 to 4.0: a frame that crosses more is dropped silently."""

_UNIX_SOCKETS = Path("/proc/net/unix")
_SET_PATH_DEADLINE_S = 30.0
"""On two busy CPUs ovsdb-server was seen to take more than 5 s. The wait for links has a deadline of its own."""

_LISTENING = 0x00010000  # __SO_ACCEPTCON in the flags of /proc/net/unix
_SOON_S, _SOON_INTERVAL_S, _LATER_INTERVAL_S = 10.0, 0.005, 0.1
_NOTE_SOURCE = "table=0,dl_src={mac},actions=learn(table=1,NXM_OF_ETH_SRC[],NXM_OF_IN_PORT[])"
"""Add a flow to table 1 for each port at which frames of this address arrive, and output nothing."""

_NOTED_SOURCE = re.compile(r"table=1,.*\bin_port=(?P<port>\d+),dl_src=(?P<mac>(?:[0-9a-f]{2}:){5}[0-9a-f]{2})\b")

_NOISY = ("netdev_linux", "bridge", "netdev", "dpif_netdev")
"""Modules of vswitchd (ovs-appctl vlog/list) that complain of an interface that is gone."""

_KERNEL_TYPES = ("system", "tap", "afxdp")
"""Types of OVS's interfaces for which the kernel has an interface of the same name."""

_LOGGED_WITHIN_S = 1.0
"""vswitchd writes its log asynchronously (lib/async-append-aio.c)."""

_APPLY_DEADLINE_S = 20.0
_APPLY_DEADLINE_EACH_S = 0.2
"""For each bridge and port: closing one takes the kernel 20 ms, one after the other."""


class BuiltNode(BuiltTopology):
    """A topology on one OVS, or one node's part of it, on this machine or another."""

    @abstractmethod
    def offload_share(self) -> OffloadShare:
        """The flows of the datapath now; TestbedError when it does not answer."""

    @abstractmethod
    def mac_of(self, bridge: str) -> str:
        """The MAC address of a bridge's local port, which tunnels' frames pass; TestbedError if it has none."""

    @abstractmethod
    def set_neighbour(self, bridge: str, address: str, mac: str) -> None: ...

    @abstractmethod
    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Replace a bridge's flows, all at once, by these in ovs-ofctl(8)'s words; TestbedError with its message."""


def noted_sources(dump_flows: str) -> Iterator[tuple[str, int]]:
    """Yield each source address with the OpenFlow number of each port at which its frames arrived."""
    for row in _NOTED_SOURCE.finditer(dump_flows):
        yield row["mac"], int(row["port"])


def refuse_too_deep(topology: Topology) -> None:
    """Raise ConfigError for a chain of patch ports that OVS would build, and on which it would drop every frame."""
    neighbours: dict[str, set[str]] = defaultdict(set)
    for patch in topology.patches:
        neighbours[patch.bridge_a].add(patch.bridge_b)
        neighbours[patch.bridge_b].add(patch.bridge_a)
    # The longest path in patches: exact for trees, as chains are, by walking to the farthest bridge twice.
    longest, reached = 0, set[str]()
    for bridge in neighbours:
        if bridge not in reached:
            layers = _layers(neighbours, bridge)
            reached.update(*layers)
            longest = max(longest, len(_layers(neighbours, layers[-1].pop())) - 1)
    if longest > _MOST_PATCHES:
        raise ConfigError(
            f"topology {topology.name!r} has {longest} patch ports in a row ({longest + 1} bridges), and OVS drops "
            f"frames after {_MOST_PATCHES}: use fewer bridges, or join some by veth"
        )


def _layers(neighbours: Mapping[str, Set[str]], start: str) -> list[set[str]]:
    """The bridges that are no, one, two, ... patches from ``start``."""
    layers, reached = [{start}], {start}
    while farther := set[str]().union(*(neighbours[bridge] for bridge in layers[-1])) - reached:
        layers.append(farther)
        reached |= farther
    return layers


def listening_sockets(table: Path = _UNIX_SOCKETS) -> set[str]:
    """Paths of listening Unix sockets in a list of proc_pid_net(5); none if its process ended."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    rows = (line.split(maxsplit=7) for line in lines)
    return {fields[7] for fields in rows if len(fields) == 8 and int(fields[3], 16) & _LISTENING}


class VhostConnector:
    """Lets OVS connect to vhost-user sockets as soon as somebody listens there.

    DPDK's virtio-user as a server blocks in its probe until OVS has connected. After a failed attempt OVS tries again
    only a second later (DPDK's vhost reconnect thread), so attaching two ports one after the other would take two
    seconds. OVS connects at once if it gets the path while somebody listens there. So ports are made without a path,
    and a thread sets each path in time.

    It reads the kernel's lists of Unix sockets, one for each network namespace: the far end would take a trial
    connection for OVS's. It watches from ``start`` until all are connected, or ``close``.
    """

    THREAD_NAME = "vhost-connector"

    def __init__(
        self,
        database: Path,
        sockets: Mapping[str, Path],
        deadline_s: float = _SET_PATH_DEADLINE_S,
        tables: Collection[Path] = (_UNIX_SOCKETS,),
    ) -> None:
        """``sockets``: path of each interface's far end. ``tables``: lists of Unix sockets of their namespaces."""
        self._tables = frozenset(tables)
        self._rpc = JsonRpc(database, "ovsdb-server")
        self._waiting = dict(sockets)
        self._deadline_s = deadline_s
        self._stop = threading.Event()
        self._failure: TestbedError | None = None
        self._thread = threading.Thread(target=self._watch, name=self.THREAD_NAME, daemon=True)

    def start(self) -> None:
        if self._waiting:
            self._thread.start()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        began = time.monotonic()
        try:
            while self._waiting and not self._stop.is_set():
                listening = set[str]().union(*map(listening_sockets, self._tables))
                for interface in [name for name, path in self._waiting.items() if str(path) in listening]:
                    self._set_path(interface, self._waiting.pop(interface))
                soon = time.monotonic() - began < _SOON_S
                self._stop.wait(_SOON_INTERVAL_S if soon else _LATER_INTERVAL_S)
        except TestbedError as error:
            self._failure = error
        finally:
            self._rpc.close()

    def _set_path(self, interface: str, path: Path) -> None:
        operation = {
            "op": "update",
            "table": "Interface",
            "where": [["name", "==", interface]],
            "row": {"options": ["map", [["vhost-server-path", str(path)]]]},
        }
        try:
            answer = self._rpc.request("transact", ["Open_vSwitch", operation], self._deadline_s)
        except DeadlineError as error:
            raise DeadlineError(
                f"waited {self._deadline_s:g} s for ovsdb-server to take where interface {interface!r} connects, "
                f"{path}: it does not answer, and OVS does not connect meanwhile"
            ) from error
        (result,) = answer[:1]
        if result.get("count") != 1:
            raise TestbedError(f"the database did not take where interface {interface!r} connects: {result}")

    def close(self) -> None:
        """Stop watching without waiting for an answer. Can be called twice."""
        self._stop.set()
        self._rpc.abort()
        if self._thread.is_alive():
            self._thread.join()


class BuiltOvsTopology(BuiltNode):
    """A live topology on an OVS, ours or the system's. It is one OVSDB transaction, flows, and their teardown."""

    def __init__(self, instance: RunningOvs, port_maker: PortMaker, topology: Topology) -> None:
        """Build it.

        Raises:
            ConfigError: this datapath cannot have a port.
            TestbedError: a name is already in use, or OVS could not make an interface; with its error column.
        """
        self.topology = topology
        self.instance = instance
        self._port_maker = port_maker
        self._openflow = OpenFlow(instance.ofctl, instance.sockets)
        self.zones = TrackedZones(instance, topology)
        self._wired: dict[str, OvsPort] = {}
        self._connector: VhostConnector | None = None
        self.link_watch: LinkWatch | None = None
        self._links_can_be_set: set[str] = set()
        self._built_at = log_time()
        self.closed = False
        refuse_too_deep(topology)
        self._refuse_names_in_use()
        try:
            self._wired = port_maker.wire(topology)
            refuse_flows_on_bonds(topology, self._wired.values())
            refuse_powerless(topology.limiters, self._wired, instance.options.datapath_type)
            instance.note_bridges(topology.bridges)
            crossed = {crossing.bridge for crossing in topology.crossings} - self._bonded()
            instance.db.transact(
                lambda transaction: insert_bridges(transaction, instance, topology, self._wired.values(), crossed),
                f"topology {topology.name}",
                self._apply_deadline_s,
            )
            self._check_interfaces()
            port_maker.finish(topology)
            self.zones.apply()
            self._replace_flows()
            vhost = [one for wired in self._wired.values() for one in wired.interfaces if one.socket is not None]
            sockets = {wired.interface: wired.socket for wired in vhost if wired.socket is not None}
            tables = {wired.socket_table or _UNIX_SOCKETS for wired in vhost}
            self._connector = VhostConnector(instance.database, sockets, tables=tables)
            self._connector.start()
        except BaseException as error:
            try:
                self.close()
            except TestbedError as removal_error:
                error.add_note(f"and then the topology could not be removed: {removal_error.message}")
            raise

    def _refuse_names_in_use(self) -> None:
        # Before anything is made: teardown goes by name, and must not remove another's.
        db = self.instance.db
        db.refresh()
        wanted = {*self.topology.bridges, *(name for _, name in all_ports(self.topology))}
        in_use = sorted(wanted & (db.rows("Bridge").keys() | db.rows("Interface").keys()))
        if in_use:
            owner = "another topology" if self.instance.owned else "somebody else, or by another run of ours,"
            raise TestbedError(
                f"topology {self.topology.name!r} cannot be built: {', '.join(in_use)} is in use by {owner} "
                "on this OVS; close that first, or use other names"
            )

    @property
    def _apply_deadline_s(self) -> float:
        parts = len(self.topology.bridges) + len(all_ports(self.topology))
        return _APPLY_DEADLINE_S + _APPLY_DEADLINE_EACH_S * parts

    def attachments(self) -> Mapping[str, str | None]:
        return {port.name: self._wired[port.name].device for port in self.topology.ports} | self._port_maker.hosts

    def interface_names(self) -> dict[str, str]:
        return {one.interface: name for name, wired in self._wired.items() for one in wired.interfaces}

    def kernel_interfaces(self) -> dict[str, str]:
        """Names of the topology's ports by their kernel interfaces: veth pairs, a lab's."""
        named = ((one, name) for name, wired in self._wired.items() for one in wired.interfaces)
        return {one.kernel or one.interface: name for one, name in named if one.kernel or one.type in _KERNEL_TYPES}

    def made_namespace(self, namespace: str) -> str:
        return self._port_maker.cabling.namespace(namespace).name

    def firewall(self) -> dict[str, list[str]]:
        return self._port_maker.cabling.firewall()

    def mac_of(self, bridge: str) -> str:
        db = self.instance.db
        db.refresh()
        mac = value_of(db.rows("Interface")[bridge].mac_in_use)
        if not mac:
            raise TestbedError(f"bridge {bridge!r} has no MAC address, which tunnels need")
        return str(mac)

    def set_neighbour(self, bridge: str, address: str, mac: str) -> None:
        set_neighbour(self.instance, bridge, address, mac)

    def ofports(self) -> dict[str, int]:
        """OpenFlow port numbers by port of the topology, including ends of links; of a bond the first."""
        rows = self.instance.db.rows("Interface")
        return {name: ofport_of(rows[wired.interfaces[0].interface]) for name, wired in self._wired.items()}

    def port_names(self, bridge: str) -> dict[int, str]:
        rows = self.instance.db.rows("Interface")
        return {
            ofport_of(rows[each.interface]): name
            for name, wired in self._wired.items()
            if wired.bridge == bridge
            for each in wired.interfaces  # a bond has several numbers
        }

    def note_sources(self, macs: Sequence[str]) -> bool:
        flows = [_NOTE_SOURCE.format(mac=mac) for mac in macs]
        for bridge in self.topology.bridges:
            self._openflow.replace_flows(bridge, flows)
        return True

    def sources(self) -> dict[str, tuple[str, ...]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for bridge in self.topology.bridges:
            names = self.port_names(bridge)
            for mac, number in noted_sources(self._openflow.command("dump-flows", bridge)):
                found[mac].add(names.get(number, f"{bridge} port {number}"))
        return {mac: tuple(sorted(ports)) for mac, ports in found.items()}

    def set_mirrors(self, mirrors: Sequence[Mirror]) -> None:
        """Replace the mirrors by OVSDB while the topology is deployed.

        Raises:
            ValueError: the mirrors are invalid, or mirrors by flows would change.
            DeadlineError: vswitchd did not apply them.
        """
        changed = replace(self.topology, mirrors=tuple(mirrors))
        by_flows = [{m for m in of if m.by is MirrorMethod.FLOW} for of in (self.topology.mirrors, changed.mirrors)]
        if by_flows[0] != by_flows[1]:
            raise ValueError(
                f"topology {changed.name!r}: mirrors by flows do not change while it is deployed: build it again"
            )
        interfaces = {name: wired.interface for name, wired in self._wired.items()}
        replace_mirrors(self.instance.db, self.instance.ctl, changed, interfaces)
        self.topology = changed

    def not_offloaded(self) -> str | None:
        return not_offloaded(self.instance, self._built_at)

    def management_socket(self, bridge: str) -> Path:
        return self._openflow.socket(bridge)

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        self._openflow.replace_flows(bridge, flows)

    def offload_share(self) -> OffloadShare:
        return read_share(self.instance, self._built_at)

    def check(self) -> None:
        self._port_maker.cabling.check()

    def restarted(self, *, flows: bool = True) -> None:
        """Restore neighbours and flows after a restart of OVS, perhaps to another version: its database has none."""
        self._openflow = OpenFlow(self.instance.ofctl, self.instance.sockets)
        self._port_maker.set_neighbours()
        self.zones.apply()
        if flows:
            self._replace_flows()

    def losses(self) -> dict[str, int]:
        return self._port_maker.cabling.losses()

    def _replace_flows(self) -> None:
        # Bridges without any flows of ours keep OVS's MAC learning.
        ofports = self.ofports()
        bonded = self._bonded()
        for bridge in self.topology.bridges:
            flows = list(flow_outputs(self.topology, bridge, ofports)) if bridge not in bonded else []
            if flows:
                add_crossings(self._openflow.socket(bridge), flows)
            tables = pipeline(self.topology, bridge, ofports)
            if tables:
                self._openflow.replace_flows(bridge, tables)
        own = (*meter_rules(self.topology.limiters), *connection_rules(self.topology.connections), *self.topology.rules)
        for one in own:
            self._openflow.add_own(one, ofports)

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:
        try:
            if program == "ofctl":
                numbers = self.ofports()  # of the topology's names of ports
                words = (with_numbers(one, numbers) for one in arguments)
                return self._openflow.command(*words, lines=lines, ports=numbers)
            if program == "appctl":
                return self.instance.ctl.call(*arguments)
            return run([f"ovs-{program}", f"--db=unix:{self.instance.database}", *arguments])
        except (TestbedError, TypeError) as error:
            self.instance.check_alive()
            raise ArgumentError(f"ovs{(program, *arguments)}: {error}") from error

    def slow_path(self) -> Mapping[str, float]:
        return read_slow_path(self.instance.ctl, self.instance.pid)

    def connections(self) -> dict[int, int]:
        return self.zones.counts()

    def flush_connections(self) -> None:
        self.zones.flush()

    def _bonded(self) -> set[str]:
        """Return the bridges with a bond; they learn MAC addresses, because a flow bypasses a bond."""
        return {wired.bridge for wired in self._wired.values() if wired.members}

    def _check_interfaces(self) -> None:
        rows = self.instance.db.rows("Interface")
        for name in [*self.topology.bridges, *self.interface_names()]:
            error = interface_error(rows.get(name))
            if error is not None:
                if os.strerror(errno.EMFILE) in error:
                    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
                    error += f"; the hard limit of open files here is {most} (ulimit -Hn): raise it, or build less"
                raise TestbedError(
                    f"interface {name!r} of topology {self.topology.name!r}: {error}",
                    evidence={"ovs-vswitchd.log (warnings)": self.instance.problems()},
                )

    def wait_ready(self, deadline_s: float) -> None:
        self.instance.db.wait(
            lambda: not self._without_link(),
            f"link on the ports of topology {self.topology.name!r}",
            deadline_s,
            lambda: "no link on " + ", ".join(self._without_link()),
        )
        self._port_maker.cabling.wait_running(self.topology.name, deadline_s)
        self.instance.check_alive()
        if self.link_watch is None and self._port_maker.cabled:
            self._check_granted()
            self.link_watch = LinkWatch(self._read_links(), self.instance.home.path)
            self.link_watch.start()

    def _physical(self) -> list[OvsPort]:
        """What the lab's ports are on: interfaces of OVS, of a bond each member."""
        cabled = [self._wired[name] for name in self._port_maker.cabled if name in self._wired]
        return [one for wired in cabled for one in wired.interfaces]

    def _check_granted(self) -> None:
        """TestbedError if a NIC has other queues or rings than were asked for."""
        nics = [one for one in self._physical() if one.type == "dpdk"]
        if not nics:
            return
        rows, listing = self.instance.db.rows("Interface"), self._appctl("dpif/show")
        problems = [problem for one in nics for problem in not_granted(one, rows[one.interface], listing)]
        if problems:
            raise TestbedError("; ".join(problems), evidence={"ovs-appctl dpif/show": listing})

    def _read_links(self) -> Callable[[], dict[LinkName, LinkReading]]:
        """Return a reader of the links of the lab's ports, which may run in another thread.

        The kernel knows those of its interfaces, also where DPDK reads them (its af_packet calls every link up). OVS
        knows those of NICs that DPDK drives.
        """
        rows = self.instance.db.rows("Interface")
        by_kernel: dict[str, LinkName] = {}
        by_ovs: defaultdict[Path, dict[int, LinkName]] = defaultdict(dict)
        for member in self._physical():
            name = (member.port, member.interface)
            if member.kernel or member.type == "system":
                by_kernel[member.kernel or member.interface] = name
            else:
                by_ovs[self.management_socket(member.bridge)][ofport_of(rows[member.interface])] = name

        def read() -> dict[LinkName, LinkReading]:
            links = read_links() if by_kernel else {}
            kernel_links = ((by_kernel[name], link) for name, link in links.items() if name in by_kernel)
            readings = {name: LinkReading(link.carrier, link.losses) for name, link in kernel_links}
            for bridge, names in by_ovs.items():
                with connected(bridge, "links") as connection:
                    readings |= {names[number]: LinkReading(up) for number, up in links_up(connection, names).items()}
            return readings

        return read

    def _without_link(self) -> list[str]:
        if self._connector is not None:
            self._connector.check()
        self._check_interfaces()
        rows = self.instance.db.rows("Interface")
        up = {name for name, row in rows.items() if value_of(row.link_state) == "up"}
        return [
            name if wired.interface == name else f"{name} ({wired.interface})"  # the testbed file's name, too
            for name, wired in self._wired.items()
            # a bond carries frames as long as one of its members does
            if wired.has_link and not any(each.interface in up for each in wired.interfaces)
        ]

    def set_link(self, port: str, *, up: bool) -> None:
        """Take the link of a port down, of a bond those of its members or of one, or up again.

        The first time it takes a second longer for a NIC, to see whether the driver can.

        Raises:
            UnavailableError: the port is no NIC and no veth pair, its driver cannot, or OVS is the system's.
        """
        members = {one.interface: (one,) for wired in self._wired.values() for one in wired.members}
        for each in members.get(port) or self._wired[port].interfaces:
            kernel = each.kernel or (each.interface if each.type in _KERNEL_TYPES and each.type != "tap" else None)
            if not self.instance.owned or (kernel is None and each.type != "dpdk"):
                raise UnavailableError(
                    f"the link of port {port!r} cannot be taken down: it is no NIC and no veth pair of a private OVS"
                )
            if kernel is not None:
                inside(self.instance.home.path, partial(set_admin_state, kernel, up=up))
                continue
            self.instance.ctl.call("netdev-dpdk/set-admin-state", each.interface, "up" if up else "down")
            if each.interface not in self._links_can_be_set:
                self._check_link_was_set(port, each.interface)
                self._links_can_be_set.add(each.interface)

    def _check_link_was_set(self, port: str, interface: str) -> None:
        """UnavailableError if the driver left the link as it was: OVS only drops what it would send, and logs why."""
        line, logs = f"Interface {interface} does not support link state configuration", self.instance.logs
        with suppress(DeadlineError):
            wait_until(lambda: any(line in log for log in logs().values()), f"OVS to log {line!r}", _LOGGED_WITHIN_S)
            self.instance.ctl.call("netdev-dpdk/set-admin-state", interface, "up")
            self.instance.db.refresh()
            driver = self.instance.db.rows("Interface")[interface].status.get("driver_name", "of its NIC")
            raise UnavailableError(f"the driver {driver} cannot take the link of port {port!r} down")

    def configuration(self) -> str:
        db = self.instance.db
        db.refresh()
        parts = ["# Open_vSwitch other_config"]
        parts += [f"{key}={value}" for key, value in sorted(db.root.other_config.items())]
        for bridge in self.topology.bridges:
            row = db.rows("Bridge")[bridge]
            kind = f"datapath_type={row.datapath_type or 'system'} fail_mode={value_of(row.fail_mode)}"
            parts += ["", f"# bridge {bridge}: {kind}"]
            parts += [line for port in row.ports for line in port_text(port)]
            parts += [mirror_text(mirror) for mirror in getattr(row, "mirrors", ())]
            tables = pipeline(self.topology, bridge, self.ofports())
            parts.append(without_access_list(tables) if tables else self._appctl("bridge/dump-flows", bridge))
            parts += [line for one in self.topology.rules if one.bridge == bridge for line in one.flows]
            parts += [str(one) for one in self.topology.limiters if bridge_of(self.topology, one) == bridge]
            parts += [str(one) for one in self.topology.connections if one.bridge == bridge]
        parts += ["", *self._port_maker.cabling.offload_lines(), *self.zones.lines()]
        userspace = self.instance.options.datapath_type == "netdev"
        for command in ("dpif-netdev/pmd-rxq-show", "dpctl/show") if userspace else ("dpctl/show",):
            parts += ["", f"# ovs-appctl {command}", self._appctl(command)]
        return "\n".join(parts) + "\n"

    def _appctl(self, *command: str) -> str:
        try:
            return self.instance.ctl.call(*command).rstrip()
        except RefusedError as error:
            return f"({error.message})"

    def close(self) -> None:
        # Can be called twice, and after OVS has died.
        if self.closed:
            return
        self.closed = True
        if self._connector is not None:
            self._connector.close()
        if self.link_watch is not None:
            self.link_watch.close()
        try:
            if self.instance.running():
                self.instance.thaw()  # a stopped vswitchd would remove nothing until the deadline
                run_all((self.zones.close, self._port_maker.release, self._remove_bridges))
        except BaseException as error:
            # A removal that a signal's handler interrupted goes on in the next close. A failed one is not tried again.
            self.closed = isinstance(error, Exception)
            raise
        finally:
            self._port_maker.close()

    def _remove_bridges(self) -> None:
        """Remove the bridges with all their ports from OVS, in one transaction. Does nothing if OVS has died.

        The kernel takes 10 to 20 ms for each removed tap or packet socket, and vswitchd removes them one after the
        other. So meanwhile the bridges' taps are removed together, and its packet sockets are held until it has closed
        them (see ``held_sockets``).

        Raises:
            TestbedError: OVS did not apply it, or not in time.
        """
        if not self.instance.running():
            return
        db, bridges = self.instance.db, self.topology.bridges
        db.refresh()
        rows = db.rows("Bridge")
        present = [rows[name] for name in bridges if name in rows]
        if not present:
            return
        userspace = self.instance.owned and self.instance.options.datapath_type == "netdev"

        # Not before OVS begins: it would look for missing taps bridge by bridge.
        remove_taps = partial(self._port_maker.cabling.remove, bridges) if userspace else lambda: None

        def delete(_: ovs.db.idl.Transaction) -> None:
            delete_qos(present, self.instance.tag)
            for row in present:
                db.root.delvalue("bridges", row)

        self._set_log_level("off")
        with held_sockets(self.instance.pid, self.kernel_interfaces() if userspace else ()):
            what = f"removal of topology {self.topology.name}"
            db.transact(delete, what, self._apply_deadline_s, meanwhile=remove_taps)
        self._set_log_level("info")
        self.instance.forget_bridges(bridges)

    def _set_log_level(self, level: str) -> None:
        # What OVS logs while its taps go is no evidence, and must not appear in a later error.
        with suppress(TestbedError):  # the removal goes on even if vswitchd does not answer this
            for module in _NOISY if self.instance.owned else ():
                self.instance.ctl.call("vlog/set", f"{module}:file:{level}", deadline_s=1.0)
