"""A private OVS of the run: its database, its daemons, from the first process to the last file."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import ovs.db.idl

from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.host.polling_threads import PollingThreads
from pytest_nfvperf.adapters.net.namespaces import Home, LiveNamespace
from pytest_nfvperf.adapters.ovs.event_log import PROBLEM, events_since
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.ovs.ovsdb import Ovsdb, RefusedError, Unixctl
from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import (
    ManagedProcess,
    completed,
    run,
    set_session_priority,
    spawn,
    wait_until,
)
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.measure.outage import LogLine
from pytest_nfvperf.model.testbed.ovs_settings import (
    DPDK_EXTRA,
    OVS_DEFAULT,
    Tuning,
    append_dpdk_arguments,
    why_setting_refused,
)

_SERVER, _VSWITCHD = "ovsdb-server", "ovs-vswitchd"
_SERVER_DEADLINE_S = 30.0  # a healthy start takes 20 ms; in a guest without KVM, next to others, some seconds

Starter = Callable[[list[str | Path]], ManagedProcess]
"""Starts a command; the caller chooses its log, CPUs and environment."""

_SOCKET_PATH_BYTES = 107  # sun_path less its NUL, unix(7)
_LONGEST_SOCKET_NAME = 24

OWN_FILES = 64
"""Open files of vswitchd with a bridge of two ports and without DPDK (seen: 40), and a reserve."""

RAISE_OPEN_FILES = (
    "raise the hard limit (ulimit -Hn 4096; LimitNOFILE=4096 in a unit of systemd; --ulimit nofile=4096 of a container)"
)
_STATS_INTERVAL_MS = 60_000
_EXIT_DEADLINE_S = 10.0
_START_DEADLINE_S = 60.0  # taking many hugepages on a cold machine; a healthy start takes half a second
_SHORT_STOP_S = 2.0  # a soak reports a DUT that hangs for a second as a gap

_VSWITCHD_NICE = -20
"""Of vswitchd's session, so that nothing else takes the PMDs' CPUs. The embedded generator has -10. So the kernel puts
its own threads and all others on the generator's CPU, which weighs less. There their time shows as skipped frames; on
the PMD's CPU it would be loss (seen on two cores, in 12 s: waits for the PMD's CPU of 33 ms when both had -20, of
0.5 ms with -20 and -10)."""

_OFFLOAD_MODULES = (
    *("netdev_offload_dpdk", "netdev_offload_tc", "dpif_netlink"),
    *("dpif_offload_dpdk_netdev", "dpif_offload_tc"),
)
"""Those that log at level DBG why a flow is not in hardware: of OVS 2.15 to 3.x, and of 4.0. At most 600 lines a minute
each, all when a flow is made."""

_STEADY_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.tcache_max=8192:glibc.malloc.tcache_count=256"}
"""Used while instructions are counted. A packet's buffer is larger than malloc's cache takes (1032 bytes), so glibc
splits and joins chunks of its heap for each packet: 1400 of 2400 instructions a packet in OVS 3.1, more or fewer
depending on the heap (seen between builds: 2 %). A buffer from the cache costs the same each time."""


def serve_database(
    binaries: OvsBinaries, schema: Path | None, database: Path, socket: Path, control: Path, start: Starter
) -> ManagedProcess:
    """Make an empty database of this schema, or take the one that is there, and wait until it is served.

    ``database``: the file. ``control``: the server's own control socket (ovs-appctl(8)).

    Raises:
        TestbedError: the server ended, with the end of its log.
        DeadlineError: its socket never came.
    """
    visible = (database.parent, socket.parent, control.parent)
    if schema is not None:
        copied = copy_schema(schema, database)
        run([*binaries.command(binaries.ovsdb_tool, *visible), "create", database, copied])
    socket.unlink(missing_ok=True)  # of a server that was killed
    server_command = binaries.command(binaries.ovsdb_server, *visible)
    server = start([*server_command, database, f"--remote=punix:{socket}", f"--unixctl={control}"])

    def listening() -> bool:
        server.check()
        return socket.is_socket()

    wait_until(listening, f"ovsdb-server's socket {socket}", _SERVER_DEADLINE_S, interval_s=0.005)
    return server


def copy_schema(schema: Path, database: Path) -> Path:
    """Copy a schema beside its database: a program in a root sees no other directory of this machine."""
    copied = database.with_suffix(".ovsschema")
    shutil.copyfile(schema, copied)
    return copied


@dataclass(frozen=True, slots=True)
class Vswitchd:
    """How the daemon runs, with any datapath.

    Attributes:
        shares_memory: another process maps its memory, for DPDK's rings between them, so it must lie in few files.
        counted: its instructions are counted, so malloc must take the same path each time. With DPDK it takes turns
            with everything else on the only CPU.
        preferred: it has priority on its CPUs; during other runs' functional tests it takes turns.
    """

    shares_memory: bool = False
    counted: bool = False
    preferred: bool = True


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """The configuration of an OVS.

    Attributes:
        housekeeping_cpus: for everything that does not poll.
        pmd_cpus: for poll-mode threads; without DPDK the main thread polls, and runs here.
        memory_mib: hugepages allocated at start, which is also the limit.
        numa_node: the PMDs' node, where memory is allocated.
        datapath_type: of its bridges: "netdev" (userspace) or "system" (the kernel's).
        userspace_tso: leave segmentation to the ports (userspace-tso-enable); read at start only.
        pci: PCI addresses that DPDK may probe; none means ``--no-pci``.
        other_config: overrides ours in the Open_vSwitch table, except what ``why_setting_refused`` protects.
        tuning: of the ports; OVS's own tuning is in ``other_config``.
        beside_generator: some of the housekeeping CPUs are the generator's, too.
    """

    housekeeping_cpus: tuple[int, ...]
    pmd_cpus: tuple[int, ...]
    dpdk: bool = True
    memory_mib: int = 256
    numa_node: int = 0
    datapath_type: str = "netdev"
    userspace_tso: bool = False
    pci: tuple[str, ...] = ()
    other_config: Mapping[str, str] = field(default_factory=dict)
    tuning: Tuning = OVS_DEFAULT
    process: Vswitchd = Vswitchd()
    beside_generator: bool = False


class RunningOvs(ABC):
    """A running OVS, private or the system's. What only a private one can do is done by default for the system's.

    Attributes:
        name: unique among the OVS of a run.
        tag: of the run.
        owned: only this run has bridges on it.
        options: its configuration.
        directory: of this run, where far ends of vhost-user ports listen.
        ofctl: command line of the ovs-ofctl for its bridges.
        sockets: directory of its bridges' management sockets.
    """

    name: str
    tag: str
    owned: bool = False
    options: InstanceOptions
    directory: Path
    ofctl: Sequence[str | Path]
    sockets: Path
    database: Path
    ctl: Unixctl
    db: Ovsdb

    @property
    @abstractmethod
    def home(self) -> Home:
        """The network namespace of vswitchd."""

    @property
    @abstractmethod
    def dpdk_version(self) -> str | None:
        """Of the DPDK that it was built with; None without."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of vswitchd."""

    @abstractmethod
    def check_alive(self) -> None:
        """TestbedError with the exit status and the end of the log if a daemon has ended, or somebody stopped it."""

    @abstractmethod
    def running(self) -> bool: ...

    @abstractmethod
    def log_text(self) -> str:
        """The log of vswitchd since it started; of the system's OVS the end of what it wrote since the run began."""

    @abstractmethod
    def logs(self) -> dict[str, str]:
        """The end of each daemon's log, by name."""

    @abstractmethod
    def close(self, *, keep_namespace: bool = False) -> None:
        """End a private one; restore the system's. Can be called twice."""

    def problems(self) -> str:
        """The last warnings and errors of vswitchd."""
        return "\n".join([line for line in self.log_text().splitlines() if PROBLEM.search(line)][-20:])

    def pin_main_thread(self, cpus: tuple[int, ...] = ()) -> None:  # noqa: B027 - the system has placed it
        """Pin a private vswitchd's main thread to these CPUs, or to those that it started on."""

    def thaw(self) -> None:  # noqa: B027 - the run never freezes the system's
        """Continue a private vswitchd that was stopped."""

    def note_bridges(self, bridges: tuple[str, ...]) -> None:  # noqa: B027 - bridges end with a private OVS
        """Journal bridges before they are made, if they could outlive the run."""

    def forget_bridges(self, bridges: tuple[str, ...]) -> None: ...  # noqa: B027


class OvsInstance(RunningOvs):
    """A private OVS: ovsdb-server, ovs-vswitchd, directory, control sockets, namespace. ``close()`` removes them all.

    Each has a namespace, because two userspace OVS in one collide on the tap ``ovs-netdev``. DPDK runs with
    ``--no-pci`` unless a port names a PCI device, so it never probes the host's NICs; with ``--in-memory``, so it
    leaves nothing on a hugetlbfs; and with a memory limit, so several OVS share the hugepages. The main thread,
    handlers and revalidators stay on the housekeeping CPUs: the processes start with that affinity, and DPDK's control
    threads follow it. With only a mask of its own, DPDK would put them on the other CPUs, which are the PMDs'.
    """

    owned = True

    def __init__(self, journal: Journal, binaries: OvsBinaries, options: InstanceOptions, name: str = "ovs") -> None:
        """Start it and wait until it is ready.

        Raises:
            ConfigError: the run directory's path is too long for a Unix socket; or a setting is protected.
            TestbedError: a daemon ended, with the end of its log; DPDK did not start; or OVS needs more open files
                than are allowed.
        """
        self.name = name
        self.tag = journal.tag
        self.binaries = binaries
        self.options = options
        self.directory = self.sockets = journal.directory / name
        self.database = self.directory / "db.sock"
        self.database_file = self.directory / "conf.db"
        self.ofctl: Sequence[str | Path] = binaries.command(binaries.ofctl, journal.directory)
        self._journal = journal
        self._processes: dict[str, ManagedProcess] = {}
        self.steps: list[LogLine] = []
        self._frozen = False
        if len(str(self.directory)) + 1 + _LONGEST_SOCKET_NAME > _SOCKET_PATH_BYTES:
            raise ConfigError(
                f"the run directory {self.directory} is too long for Unix sockets "
                f"({_SOCKET_PATH_BYTES} bytes with the socket's name); set NFVPERF_RUN_DIR to a shorter one"
            )
        self.other_config = self._initial_config()
        self._check_open_files()
        self.ctl = Unixctl(self.directory / "vswitchd.ctl", "ovs-vswitchd")
        self._directory_entry = journal.note(Kind.DIRECTORY, str(self.directory))
        try:
            self.directory.mkdir()
            self.namespace = LiveNamespace(journal, name)
            self.db = self._start_database()
            self.vswitchd = self._start_vswitchd(self._vswitchd_cpus())
        except BaseException:
            self.close()
            raise

    def _check_open_files(self) -> None:
        # With too few allowed files OVS aborts, and only SIGABRT would be reported.
        needed, why = OWN_FILES, ""
        if self.options.dpdk and not self.options.process.shares_memory:
            mib = sum(map(int, re.findall(r"\b\d{1,9}\b", self.other_config["dpdk-socket-mem"], re.ASCII)))
            pages = read_hugepages().pages_for(mib)  # each is a file of its own
            needed, why = needed + pages, f", {pages} of them for its hugepages"
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY and most < needed:
            raise TestbedError(
                f"{most} open files are allowed here, and OVS needs about {needed}{why}: {RAISE_OPEN_FILES}"
            )

    def _initial_config(self) -> dict[str, str]:
        config = {"stats-update-interval": str(_STATS_INTERVAL_MS)}
        if self.options.dpdk:
            devices = [part for address in self.options.pci for part in ("-a", address)] or ["--no-pci"]
            # vhost-user passes at most 8 memory regions
            few_files = ["--single-file-segments"] if self.options.process.shares_memory else []
            prefix = f"--file-prefix={self._journal.name(self.name)}"
            memory = ",".join(["0"] * self.options.numa_node + [str(self.options.memory_mib)])
            config |= {
                "dpdk-init": "true",
                "dpdk-socket-mem": memory,
                "dpdk-socket-limit": memory,
                "dpdk-extra": " ".join([*devices, *few_files, "--in-memory", "--no-telemetry", prefix]),
                # From OVS 4.0 DPDK probes on demand by allow-lists, and aborts if a bus driver is not installed.
                "dpdk-probe-at-init": "true",
                "pmd-cpu-mask": hex(sum(1 << cpu for cpu in self.options.pmd_cpus)),
            }
        if self.options.userspace_tso:
            config["userspace-tso-enable"] = "true"
        users = self.options.other_config
        for key, value in users.items():
            if reason := why_setting_refused(key, value):
                raise ConfigError(reason, key="dut.ovs.other_config")
        merged = {**config, **users}
        if DPDK_EXTRA in config and DPDK_EXTRA in users:
            merged[DPDK_EXTRA] = append_dpdk_arguments(config[DPDK_EXTRA], users[DPDK_EXTRA])
        if "dpdk-socket-limit" in config and "dpdk-socket-mem" in users:
            # Our limit equals our memory. With a limit below the user's memory DPDK would not start.
            merged["dpdk-socket-limit"] = users.get("dpdk-socket-limit", users["dpdk-socket-mem"])
        return merged

    def _spawn(
        self, name: str, argv: list[str | Path], cpus: tuple[int, ...], nice: int | None = None
    ) -> ManagedProcess:
        directory = str(self.directory)
        environment = {"OVS_RUNDIR": directory, "OVS_LOGDIR": directory, "OVS_DBDIR": directory}
        log = self.directory / f"{name}.log"
        process = spawn(
            self._journal,
            name,
            [*argv, f"--log-file={log}", "-vconsole:off"],
            log=log,
            cpus=cpus,
            netns=self.namespace.name,
            nice=nice,
            env=environment | (_STEADY_MALLOC if self.options.process.counted else {}),
        )
        self._processes[name] = process
        return process

    def _serve_database(self, schema: Path | None, nice: int | None = None) -> ManagedProcess:
        return serve_database(
            self.binaries,
            schema,
            self.database_file,
            self.database,
            self.directory / "ovsdb-server.ctl",
            lambda argv: self._spawn(_SERVER, argv, self.options.housekeeping_cpus, nice),
        )

    def _start_database(self) -> Ovsdb:
        self._serve_database(self.binaries.schema)

        def initialise(transaction: ovs.db.idl.Transaction) -> None:
            root = transaction.insert(transaction.idl.tables["Open_vSwitch"])
            root.other_config = self.other_config
            root.next_cfg = 1

        database = Ovsdb(self.database, self.check_running)
        database.connect(self.binaries.schema, 10.0)
        database.transact(initialise, "the initial configuration", 10.0, applied=False)
        return database

    def _start_vswitchd(self, cpus: tuple[int, ...]) -> ManagedProcess:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # a bridge needs several files, a port one or two
        vswitchd = self._spawn(
            _VSWITCHD,
            [
                *("prlimit", f"--nofile={most}:{most}"),
                *self.binaries.command(self.binaries.vswitchd, self._journal.directory),
                f"unix:{self.database}",
                f"--unixctl={self.directory / 'vswitchd.ctl'}",
            ],
            cpus,
            nice=self._nice(),
        )

        def configured() -> bool:
            if not self.db.has_root or self.db.root.cur_cfg < self.db.root.next_cfg:
                return False
            # A vswitchd that cannot start DPDK ends itself; one that has started it says so a moment after cur_cfg.
            reports = self.options.dpdk and self.db.has_column("Open_vSwitch", "dpdk_initialized")
            return not reports or bool(self.db.root.dpdk_initialized)

        awaited = "ovs-vswitchd to take its first configuration" + (" and start DPDK" if self.options.dpdk else "")
        self.db.wait(configured, awaited, _START_DEADLINE_S)
        for module in _OFFLOAD_MODULES if self.other_config.get("hw-offload") == "true" else ():
            with suppress(RefusedError):  # this version calls it otherwise
                self.ctl.call("vlog/set", f"{module}:file:dbg")
        return vswitchd

    def note(self, step: str) -> None:
        """Note what we did to it, for ``log_since``."""
        self.steps.append(LogLine(time.monotonic_ns(), "nfvperf", step))

    def stop_vswitchd(self, *, killed: bool = False) -> None:
        """Ask vswitchd to exit, as the distributions' service does; ``killed``: SIGKILL, as in a crash."""
        self.note("kills ovs-vswitchd" if killed else "asks ovs-vswitchd to exit")
        self._end(self._processes.pop(_VSWITCHD), None if killed else self.ctl)
        self.ctl.close()
        self.note("ovs-vswitchd has ended")

    def _end(self, process: ManagedProcess, ctl: Unixctl | None) -> None:
        try:
            if ctl is None:
                process.popen.kill()
            else:
                process.check()
                ctl.call("exit", deadline_s=_EXIT_DEADLINE_S)
            process.popen.wait(_EXIT_DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise TestbedError(
                f"{process.name} (pid {process.pid}) did not exit within {_EXIT_DEADLINE_S:g} s",
                evidence={process.log.name: process.log_tail()},
            ) from error
        finally:
            process.stop()

    def start_vswitchd(self, changed: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start vswitchd on the database as it is, and wait until it has made bridges and ports; without flows.

        ``changed``: keys of other_config; an empty value removes one.
        """

        def start() -> None:
            self.vswitchd = self._start_vswitchd(self._restart_cpus())
            self._leave_pmd_cpus()

        self.set_config(changed, meanwhile=start)
        self.note("ovs-vswitchd has taken its configuration")

    def restart_database(self, between: Callable[[], None] | None = None) -> None:
        """Ask ovsdb-server to exit, and start it on the same file; returns when vswitchd is connected again.

        ``between``: called while none runs; then returns when the server answers us, as vswitchd is restarted, too.
        """
        self.note("asks ovsdb-server to exit")
        with closing(Unixctl(self.directory / "ovsdb-server.ctl", _SERVER)) as ctl:
            self._end(self._processes.pop(_SERVER), ctl)
        if between is not None:
            between()
        server = self._serve_database(None, self._nice())
        self.db.close()
        self.db.connect(self.binaries.schema, _SERVER_DEADLINE_S)
        set_session_priority(server.pid, 0)
        self.note("ovsdb-server answers")
        if between is None:
            self.set_config({})
            self.note("ovs-vswitchd is connected to its database again")

    def run_beside(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a short program at vswitchd's priority, as a generator may poll there; TestbedError if it fails."""
        argv = ["taskset", "-c", ",".join(map(str, self.options.housekeeping_cpus)), *map(str, command)]
        try:
            done = completed(argv, _START_DEADLINE_S, nice=self._nice())
            done.check_returncode()
        except subprocess.SubprocessError as error:
            raise TestbedError(str(error), evidence={"stderr": str(getattr(error, "stderr", ""))}) from error
        return done

    def _nice(self) -> int:
        process = self.options.process
        takes_turns = not process.preferred or (process.counted and self.options.dpdk)
        return 0 if takes_turns else _VSWITCHD_NICE

    def set_config(self, changed: Mapping[str, str], meanwhile: Callable[[], None] = lambda: None) -> None:
        """Change keys of other_config, and wait until vswitchd has applied it; an empty value removes one."""

        def change(_: ovs.db.idl.Transaction) -> None:
            config = {**self.db.root.other_config, **changed}
            self.db.root.other_config = {key: value for key, value in config.items() if value}

        self.db.transact(change, "its settings", _START_DEADLINE_S, meanwhile=meanwhile)

    def use(self, binaries: OvsBinaries, options: InstanceOptions) -> dict[str, str]:
        """Use another installation's programs from now on; returns the changes that ``start_vswitchd`` takes."""
        former = self.other_config
        self.binaries, self.options = binaries, options
        self.ofctl = binaries.command(binaries.ofctl, self._journal.directory)
        self.other_config = self._initial_config()
        return dict.fromkeys(former, "") | self.other_config

    def _vswitchd_cpus(self) -> tuple[int, ...]:
        """The CPUs to start on: the PMDs' CPUs if the main thread does all forwarding in userspace."""
        polls = self.options.datapath_type == "netdev" and not self.options.dpdk
        return self.options.pmd_cpus if polls else self.options.housekeeping_cpus

    def _restart_cpus(self) -> tuple[int, ...]:
        """The CPUs to start on again: those of the PMDs, which poll nothing meanwhile, if the generator has the others.

        On two cores a start took the generator's CPU from it for 116 to 129 ms; one on the PMD's CPU does for 35 to 41,
        and the restart takes as long (313 ms, 342 before). There must be as many CPUs, because OVS derives how many
        threads it has from those it starts on; and a vhost-user port, because DPDK makes the threads of all such ports
        with the first one, on the CPUs it started on: later ones would stay there.
        """
        options = self.options
        as_many = len(options.pmd_cpus) == len(options.housekeeping_cpus)
        vhost = any("vhost-server-path" in row.options for row in self.db.rows("Interface").values())
        instead = options.dpdk and options.beside_generator and as_many and vhost
        return options.pmd_cpus if instead else self._vswitchd_cpus()

    def _leave_pmd_cpus(self) -> None:
        """Move all threads but the PMDs to the CPUs of a first start: the main thread before those that it makes."""
        pmds = {poller.thread for poller in PollingThreads(lambda: self.pid).pollers()}
        for thread in sorted(int(task.name) for task in Path(f"/proc/{self.pid}/task").iterdir()):
            if thread not in pmds:
                with suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(thread, self._vswitchd_cpus())

    def pin_main_thread(self, cpus: tuple[int, ...] = ()) -> None:
        try:
            # The id of a process is that of its first thread, and no other thread moves.
            os.sched_setaffinity(self.vswitchd.pid, cpus or self._vswitchd_cpus())
        except ProcessLookupError as error:
            raise TestbedError("ovs-vswitchd is gone", evidence=dict(self.logs())) from error

    @property
    def home(self) -> LiveNamespace:
        return self.namespace

    @property
    def pid(self) -> int:
        return self.vswitchd.pid

    @property
    def dpdk_version(self) -> str | None:
        return self.binaries.dpdk_version

    def check_alive(self) -> None:
        self.check_running()
        if not self._frozen:
            for process in self._processes.values():
                _check_not_stopped(process)

    def check_running(self) -> None:
        for process in self._processes.values():
            process.check()

    def freeze(self) -> None:
        self._frozen = True
        self.vswitchd.freeze()

    def thaw(self) -> None:
        self.vswitchd.thaw()
        self._frozen = False

    def running(self) -> bool:
        return len(self._processes) == 2 and all(process.running() for process in self._processes.values())

    def log_text(self) -> str:
        return (self.directory / "ovs-vswitchd.log").read_text(encoding="utf-8", errors="replace")

    def log_since(self, ns: int) -> tuple[LogLine, ...]:
        """What the daemons and the database did since then, by ``time.monotonic_ns()``, and what we did to them."""
        self.db.refresh()
        tables = ("Bridge", "Port", "Interface")
        names = {str(row.uuid): name for table in tables for name, row in self.db.rows(table).items()}
        logs = {name: self.directory / f"{name}.log" for name in (_SERVER, _VSWITCHD)}
        return events_since(ns, logs, self.database_file, names, self.steps)

    def logs(self) -> dict[str, str]:
        return {process.log.name: process.log_tail() for process in self._processes.values()}

    def close(self, *, keep_namespace: bool = False) -> None:
        """Stop the daemons and remove the directory; and the namespace, unless a borrowed interface is still in it."""
        vswitchd = self._processes.get(_VSWITCHD)
        if vswitchd is not None and vswitchd.running():
            vswitchd.thaw()
            # Taps are persistent: only ``exit --cleanup`` removes them, and returns ports that were moved in. If
            # vswitchd hangs or dies, ``stop`` ends it, and the namespace takes its taps along.
            with suppress(TestbedError, subprocess.TimeoutExpired):
                self.ctl.call("exit", "--cleanup", deadline_s=3.0)
                vswitchd.popen.wait(3.0)
        self.ctl.close()
        if hasattr(self, "db"):
            self.db.close()
        for process in reversed(self._processes.values()):
            process.stop()
        self._processes.clear()
        if hasattr(self, "namespace") and not keep_namespace:
            self.namespace.close()
        self._journal.discard(self.directory, self._directory_entry)


def _check_not_stopped(process: ManagedProcess) -> None:
    """TestbedError if somebody keeps it stopped. A short stop, as by a debugger, disturbs only a window."""
    try:
        wait_until(lambda: process.state()[:1] != "T", f"{process.name} to continue", _SHORT_STOP_S)
    except DeadlineError as error:
        raise TestbedError(
            f"{process.name} (pid {process.pid}) is in state {process.state()}, and not by us: kill -CONT "
            f"{process.pid} lets it go on",
            evidence={process.log.name: process.log_tail()},
        ) from error
