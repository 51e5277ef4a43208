"""A private OVN over a deployed topology: two databases, northd, and a controller on the topology's OVS.

One chassis. Logical ports are bound to ports of the topology's integration bridge, whose flows are OVN's from then on.
OVN makes br-int's pipeline from what the northbound database says; nothing of it needs a kernel module where the
datapath is the userspace one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovn.chassis import Chassis
from pytest_nfvperf.adapters.ovn.northbound import add_switch, remove_port
from pytest_nfvperf.adapters.ovn.ovn_binaries import OvnBinaries, locate_ovn
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries
from pytest_nfvperf.adapters.ovs.instance.ovsdb_server import Starter, serve_database
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, wait_until
from pytest_nfvperf.adapters.routing.speakers.daemons import Daemon, Daemons
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.routing.logical_network import INTEGRATION_BRIDGE, LogicalSwitch

_COMMAND_S = 10
_UP_DEADLINE_S = 20.0
_LOOK_S = 0.05


class PrivateOvn:
    """OVN for one topology; ``close`` ends it and takes back what it wrote into OVS.

    Raises:
        ConfigError: the topology has no integration bridge.
        TestbedError: OVN is not installed, or a daemon ended, with the end of its log.
    """

    def __init__(
        self,
        journal: Journal,
        built: BuiltOvsTopology,
        binaries: OvsBinaries,
        *,
        mappings: Mapping[str, str] | None = None,
        role: str = "ovn",
    ) -> None:
        """Start it.

        Args:
            journal: of this run.
            built: the topology.
            binaries: whose ovsdb-server serves the two databases.
            mappings: bridges of the topology by the physical networks that they are here.
            role: names its directory, and the chassis.
        """
        self.binaries: OvnBinaries = locate_ovn()
        self.chassis = Chassis(built, role, mappings or {})
        instance = built.instance
        self._daemons = Daemons(
            journal,
            instance.home.name,
            role,
            cpus=instance.options.housekeeping_cpus,
            nice=None,
            env=_environment(journal.directory / role, instance),
        )
        self.directory: Path = self._daemons.directory
        try:
            self._serve(binaries)
            self._start_northd()
            self._start_controller(instance)
        except BaseException:
            self.close()
            raise

    @property
    def northbound(self) -> str:
        """How the northbound database is connected to (ovsdb(7))."""
        return f"unix:{self.directory / 'nb.sock'}"

    @property
    def southbound(self) -> str:
        """How the southbound database is connected to."""
        return f"unix:{self.directory / 'sb.sock'}"

    def _serve(self, binaries: OvsBinaries) -> None:
        for name, schema in (("nb", self.binaries.nb_schema), ("sb", self.binaries.sb_schema)):
            socket = self.directory / f"{name}.sock"
            serve_database(
                binaries,
                schema,
                self.directory / f"{name}.db",
                socket,
                self.directory / f"{name}.ctl",
                self._starter(f"ovsdb-server-{name}", socket.name),
            )
        self.nbctl("init")
        self.sbctl("init")

    def _starter(self, name: str, socket: str | None = None) -> Starter:
        log = self.directory / f"{name}.log"

        def start(argv: list[str | Path]) -> ManagedProcess:
            words = (*map(str, argv), f"--log-file={log}", "-vconsole:off")
            return self._daemons.start(Daemon(name, words, socket))

        return start

    def _start_northd(self) -> None:
        databases = [f"--ovnnb-db={self.northbound}", f"--ovnsb-db={self.southbound}"]
        start = self._starter("ovn-northd", "northd.ctl")
        start([self.binaries.northd, *databases, f"--unixctl={self.directory / 'northd.ctl'}"])

    def _start_controller(self, instance: RunningOvs) -> None:
        self.chassis.register(self.southbound)
        # It takes no --unixctl before OVN 24: its control socket is named by its process id
        self._starter("ovn-controller")([self.binaries.controller, f"unix:{instance.database}"])

    def nbctl(self, *arguments: str) -> str:
        """ovn-nbctl(8) on the northbound database; its output. TestbedError with its own words."""
        return self._ctl(self.binaries.nbctl, self.northbound, arguments)

    def sbctl(self, *arguments: str) -> str:
        """ovn-sbctl(8) on the southbound database; its output. TestbedError with its own words."""
        return self._ctl(self.binaries.sbctl, self.southbound, arguments)

    def _ctl(self, program: Path, database: str, arguments: Sequence[str]) -> str:
        try:
            return run([program, f"--db={database}", f"--timeout={_COMMAND_S}", *arguments], deadline_s=2 * _COMMAND_S)
        except TestbedError as error:
            self.check()  # that a daemon died says more
            error.evidence.update(self.logs())
            raise

    def add(self, switch: LogicalSwitch, deadline_s: float = _UP_DEADLINE_S) -> None:
        """Make a switch, bind its ports, and wait until br-int has flows for them.

        Raises:
            ConfigError: a port that is bound to none of br-int's.
            DeadlineError: names the ports that are not up, and shows OVN's logs.
        """
        self.chassis.bind(switch.ports)
        self.nbctl(*add_switch(switch))
        self.await_up([port.name for port in switch.ports], deadline_s)
        self.nbctl("--wait=hv", "sync")

    def await_up(self, ports: Sequence[str], deadline_s: float = _UP_DEADLINE_S) -> None:
        """Wait until logical ports are up: bound, and their flows on br-int."""
        states: dict[str, str] = {}

        def all_up() -> bool:
            self.check()
            states.update({port: self.nbctl("lsp-get-up", port).strip() for port in ports})
            return set(states.values()) <= {"up"}

        try:
            wait_until(
                all_up,
                f"logical ports {', '.join(ports)} to be up",
                deadline_s,
                interval_s=_LOOK_S,
                last_seen=lambda: ", ".join(f"{port} {state}" for port, state in states.items() if state != "up"),
            )
        except DeadlineError as error:
            error.evidence.update(self.logs())
            raise

    def remove_port(self, name: str) -> None:
        """Take a logical port away; returns when br-int has no flow for it."""
        self.nbctl("--wait=hv", *remove_port(name))

    def flows(self) -> str:
        """The flows of br-int as text, with their counters."""
        return self.chassis.flows(INTEGRATION_BRIDGE)

    def check(self) -> None:
        """TestbedError, with the ends of the logs, when a daemon has ended or is stopped."""
        self._daemons.check()

    def pids(self) -> Mapping[str, int]:
        """Process ids by name, of those that run."""
        return self._daemons.pids()

    def logs(self) -> Mapping[str, str]:
        """The ends of the daemons' logs."""
        return self._daemons.logs()

    def close(self) -> None:
        """End the daemons; br-int keeps their flows until it goes. Can be called twice."""
        self._daemons.close()
        self.chassis.forget()


def _environment(directory: Path, instance: RunningOvs) -> dict[str, str]:
    """Where OVN's programs put what they are not told of, and find br-int's management socket."""
    names = ("OVN_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR")
    return {name: str(directory) for name in names} | {"OVS_RUNDIR": str(instance.sockets)}
