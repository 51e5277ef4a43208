"""A private OVN over a private OVS: databases, northd, a chassis, and the logical network in them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.ovs.openflow import OpenFlow
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs, Starter, serve_database
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, wait_until
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.features.ovn.model import INTEGRATION_BRIDGE, LogicalPort, LogicalSwitch
from pytest_nfvperf.features.routing.daemons import RoutingDaemons
from pytest_nfvperf.measure.rig import Service
from pytest_nfvperf.model.errors import ConfigError, TestbedError, why_refused

_PROGRAMS = ("ovn-northd", "ovn-controller")
_SHARES = (Path("/usr/share/ovn"), Path("/usr/local/share/ovn"))
_VERSION = re.compile(r"ovn-northd (\S+)")
_PROTOCOL = "OpenFlow15"  # what ovn-controller speaks
_IFACE_ID = "iface-id"
_LOCALNET = "ovn-localnet-port"  # in external_ids of the patch ports that ovn-controller makes
_DEADLINE_S = 10.0
_COMMAND_S = 10
_UP_DEADLINE_S = 20.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class OvnBinaries:
    """One installation of OVN. ``nb_schema``, ``sb_schema``: of the northbound and southbound databases."""

    northd: Path
    controller: Path
    nbctl: Path
    sbctl: Path
    nb_schema: Path
    sb_schema: Path
    version: str


def locate_ovn() -> OvnBinaries:
    """Find the distribution's packages, or an installation under /usr/local, and its version.

    Raises:
        TestbedError: OVN is not installed: what is missing, and the packages to install.
    """

    def need(name: str, path: str | Path | None, where: str = "on PATH") -> Path:
        if path is None:
            raise TestbedError(f"OVN is not installed: no {name} {where}: {install_hint(*_PROGRAMS)}")
        return Path(path)

    def program(name: str) -> Path:
        return need(name, shutil.which(name))

    def schema(name: str) -> Path:
        found = (share / name for share in _SHARES if (share / name).is_file())
        return need(name, next(found, None), f"in {', '.join(map(str, _SHARES))}")

    northd = program("ovn-northd")
    version = _VERSION.search(run([northd, "--version"]))
    return OvnBinaries(
        northd=northd,
        controller=program("ovn-controller"),
        nbctl=program("ovn-nbctl"),
        sbctl=program("ovn-sbctl"),
        nb_schema=schema("ovn-nb.ovsschema"),
        sb_schema=schema("ovn-sb.ovsschema"),
        version=version.group(1) if version else "unknown",
    )


def lacks_ovn() -> str | None:
    """What this machine lacks for a private OVN, and what to do about it; None if it has all."""
    return why_refused(locate_ovn)


def add_switch(switch: LogicalSwitch) -> list[str]:
    """Arguments of ovn-nbctl(8) that add a switch with its ports in one transaction."""
    commands: list[Sequence[str]] = [("ls-add", switch.name)]
    if (localnet := switch.localnet) is not None:
        commands += [
            ("lsp-add", switch.name, localnet.name),
            ("lsp-set-type", localnet.name, "localnet"),
            ("lsp-set-addresses", localnet.name, "unknown"),
            ("lsp-set-options", localnet.name, f"network_name={localnet.network}"),
        ]
    for port in switch.ports:
        commands.append(("lsp-add", switch.name, port.name))
        commands.append(("lsp-set-addresses", port.name, " ".join((port.mac, *port.addresses))))
        for column, values in (("external_ids", port.external_ids), ("options", port.options)):
            # Quoted as in JSON (ovs-vsctl(8), "Database Values"), because Neutron's keys have colons.
            settings = [f"{column}:{json.dumps(key)}={json.dumps(value)}" for key, value in values.items()]
            if settings:
                commands.append(("set", "Logical_Switch_Port", port.name, *settings))
    for virtual, backends in switch.balancers.items():
        for protocol in ("tcp", "udp"):
            balancer = f"{switch.name}-{virtual}-{protocol}"
            commands.append(("lb-add", balancer, virtual, ",".join(backends), protocol))
            commands.append(("ls-lb-add", switch.name, balancer))
    acls = [("1001", match, "allow-related") for match in switch.allowed]
    acls += [("1000", "ip", "drop")] if acls else []
    commands += [("acl-add", switch.name, "to-lport", *acl) for acl in acls]
    return [word for number, command in enumerate(commands) for word in (("--",) if number else ()) + tuple(command)]


def ovs_clients(
    journal: Journal, instance: RunningOvs, role: str, env: Mapping[str, str] = MappingProxyType({})
) -> RoutingDaemons:
    """For daemons in the namespace of a private OVS, on its housekeeping CPUs, that find its management sockets."""
    return RoutingDaemons(
        journal,
        instance.home.name,
        role,
        cpus=instance.options.housekeeping_cpus,
        nice=None,
        env={"OVS_RUNDIR": str(instance.sockets), **env},
    )


class LogicalNetwork(Service):
    """OVN's northbound database, as a test uses it. By itself for plans, which start nothing."""

    owns_flows = True  # its controller adds and removes them as it likes

    def add(self, switch: LogicalSwitch) -> None:
        """Create a logical switch, bind its ports, and wait until br-int has flows for them.

        Raises:
            ConfigError: br-int does not have the port that a logical port is bound to.
            DeadlineError: names the ports that are not up, and shows OVN's logs.
        """

    def remove_port(self, name: str) -> None: ...

    def flows(self) -> str:
        """The flows of br-int as text."""
        return ""

    def close(self) -> None: ...


class PrivateOvn(LogicalNetwork):
    """OVN for one topology: two databases, northd, and a controller. ``close`` ends it and removes its data from OVS.

    The topology's OVS is OVN's one chassis. Logical ports are bound to ports of the topology's integration bridge; from
    then on OVN owns its flows. With the userspace datapath OVN needs no kernel module.

    ``binaries``: their ovsdb-server serves the two databases. ``mappings``: the topology's bridges by physical network.

    Raises:
        ConfigError: the topology has no integration bridge, or lacks a bridge of a physical network.
        TestbedError: OVN is not installed, or a daemon ended, with the end of its log.
    """

    chassis = "ovn"

    def __init__(
        self,
        journal: Journal,
        built: BuiltOvsTopology,
        binaries: OvsBinaries,
        mappings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._binaries = locate_ovn()
        self._built = built
        self._db = built.instance.db
        self._mappings = mappings
        for bridge in (INTEGRATION_BRIDGE, *mappings.values()):
            if bridge not in built.topology.bridges:
                raise ConfigError(
                    f"topology {built.topology.name!r} has no bridge {bridge!r}, which OVN needs; "
                    f"it has {', '.join(built.topology.bridges)}: add one by bridge({bridge!r})"
                )
        directories = dict.fromkeys(("OVN_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR"), str(journal.directory / "ovn"))
        self._daemons = ovs_clients(journal, built.instance, "ovn", directories)
        self.pids, self.check, self.logs = self._daemons.pids, self._daemons.check, self._daemons.logs
        self._directory = self._daemons.directory
        self.northbound = f"unix:{self._directory / 'nb.sock'}"
        self._southbound = f"unix:{self._directory / 'sb.sock'}"
        with ExitStack() as undo:
            undo.callback(self.close)
            self._start(binaries)
            undo.pop_all()

    def _start(self, binaries: OvsBinaries) -> None:
        directory = self._directory
        for name, schema in (("nb", self._binaries.nb_schema), ("sb", self._binaries.sb_schema)):
            start = self._starter(f"ovsdb-server-{name}", f"{name}.sock")
            database, socket, control = (directory / f"{name}.{suffix}" for suffix in ("db", "sock", "ctl"))
            serve_database(binaries, schema, database, socket, control, start)
        self.nbctl("init")
        self._run_ctl(self._binaries.sbctl, self._southbound, "init")
        databases = [f"--ovnnb-db={self.northbound}", f"--ovnsb-db={self._southbound}"]
        start = self._starter("ovn-northd", "northd.ctl")
        start([self._binaries.northd, *databases, f"--unixctl={directory / 'northd.ctl'}"])
        self._register_chassis()
        # Before OVN 24 it has no --unixctl: its control socket is named by its process id.
        self._starter("ovn-controller")([self._binaries.controller, f"unix:{self._built.instance.database}"])

    def _starter(self, name: str, socket: str | None = None) -> Starter:
        log = self._directory / f"{name}.log"

        def start(argv: list[str | Path]) -> ManagedProcess:
            words = (*map(str, argv), f"--log-file={log}", "-vconsole:off")
            return self._daemons.run_daemon(name, words, socket)

        return start

    def _run_ctl(self, program: Path, database: str, *arguments: str) -> str:
        with self._daemons.explaining():
            return run([program, f"--db={database}", f"--timeout={_COMMAND_S}", *arguments], deadline_s=2 * _COMMAND_S)

    def nbctl(self, *arguments: str) -> str:
        """What ovn-nbctl(8) answers; with ``--wait=hv`` once br-int has the flows. TestbedError where it refuses."""
        return self._run_ctl(self._binaries.nbctl, self.northbound, *arguments)

    def _register_chassis(self) -> None:
        """Configure ovn-controller(8) by Open_vSwitch's external_ids: its name, and the southbound database."""
        ids = {
            "system-id": self.chassis,
            "hostname": self.chassis,
            "ovn-remote": self._southbound,
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

        self._db.transact(change, f"chassis {self.chassis}", _DEADLINE_S)

    def add(self, switch: LogicalSwitch) -> None:
        self._bind(switch.ports)
        self.nbctl(*add_switch(switch))
        self._await_up([port.name for port in switch.ports])
        if switch.balancers or switch.allowed:
            self._built.zones.track(self._zones(switch))

    def _zones(self, switch: LogicalSwitch) -> list[int]:
        """The zones that ovn-controller chose for the switch's ports; it notes them on br-int."""
        self._db.refresh()
        noted = self._db.rows("Bridge")[INTEGRATION_BRIDGE].external_ids
        names = (f"ct-zone-{port.name}" for port in switch.ports)
        return [int(noted[name]) for name in names if name in noted]

    def _await_up(self, ports: Sequence[str]) -> None:
        states: dict[str, str] = {}

        def all_up() -> bool:
            self.check()
            states.update({port: self.nbctl("lsp-get-up", port).strip() for port in ports})
            return set(states.values()) <= {"up"}

        with self._daemons.explaining():
            wait_until(
                all_up,
                f"logical ports {', '.join(ports)} to be up",
                _UP_DEADLINE_S,
                interval_s=_POLL_S,
                last_seen=lambda: ", ".join(f"{port} {state}" for port, state in states.items() if state != "up"),
            )
        self.nbctl("--wait=hv", "sync")

    def _bind(self, ports: Sequence[LogicalPort]) -> None:
        """Assign each logical port to its interface."""
        on_bridge = set(self._built.topology.bridge_ports(INTEGRATION_BRIDGE))
        interfaces = {name: row for row, name in self._built.interface_names().items() if name in on_bridge}
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

    def remove_port(self, name: str) -> None:
        self.nbctl("--wait=hv", "lsp-del", name)

    def restart_controller(self, *, release: bool = False) -> None:
        """Ask ovn-controller to exit, and start it again; returns when its ports are up and br-int has its flows.

        ``release``: it gives its ports up as it exits, as at the stop of a service; else it keeps them.
        """
        ports = self.nbctl("--bare", "--columns=name", "find", "Logical_Switch_Port", "up=true").split()
        control = self._directory / f"ovn-controller.{self.pids()['ovn-controller']}.ctl"
        with self._daemons.explaining(), closing(Unixctl(control, "ovn-controller")) as ctl:
            ctl.call("exit", *([] if release else ["--restart"]))
        wait_until(self._daemons.start_missing, "ovn-controller to exit", _DEADLINE_S)
        self.nbctl("--wait=sb", "sync")  # northd has seen which ports were released
        self._await_up(ports)

    def flows(self) -> str:
        instance = self._built.instance
        return OpenFlow(instance.ofctl, instance.sockets).command("dump-flows", INTEGRATION_BRIDGE)

    def close(self) -> None:
        """End the daemons; br-int keeps their flows. Can be called twice."""
        self._daemons.close()
        if not self._built.closed and self._built.instance.running():
            self._db.refresh()
            self._db.transact(self._unregister_chassis, "removal of OVN", _DEADLINE_S)

    def _unregister_chassis(self, _: ovs.db.idl.Transaction) -> None:
        """Remove what OVS's database has for OVN."""
        root = self._db.root
        ours = {"system-id", "hostname"}
        root.external_ids = {
            key: value for key, value in root.external_ids.items() if not key.startswith("ovn-") and key not in ours
        }
        for row in self._db.rows("Interface").values():
            if _IFACE_ID in row.external_ids:
                row.external_ids = {key: value for key, value in row.external_ids.items() if key != _IFACE_ID}
        for name in self._built.topology.bridges:
            bridge = self._db.rows("Bridge").get(name)
            if bridge is not None:
                bridge.ports = [port for port in bridge.ports if _LOCALNET not in port.external_ids]
