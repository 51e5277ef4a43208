"""An OVS that runs already: where its sockets are, what it is set to, and how its settings are put back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import ovs.db.idl

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind, ProcessId
from pytest_nfvperf.adapters.net.ends import OURS
from pytest_nfvperf.adapters.net.namespaces import ForeignNamespace, Home
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.ovs.ovsdb import OWNER, JsonRpc, Ovsdb, Unixctl
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, run
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import INSTALLED
from pytest_nfvperf.model.testbed.testbed import OvsSpec

# What a topology needs of a running OVS, whether it is ours or the system's.


class RunningOvs(Protocol):
    """A running OVS. ``close()`` gives it back as it was found; one of our own ends.

    Attributes:
        name: tells the instances of a run apart.
        tag: of the run.
        owned: it is ours alone: nobody else has bridges on it.
        options: how it runs.
        directory: of ours, where far ends of vhost-user ports listen.
    """

    name: str
    tag: str
    owned: bool
    options: InstanceOptions
    directory: Path
    ctl: Unixctl
    db: Ovsdb

    @property
    def home(self) -> Home:
        """The network namespace that vswitchd runs in."""
        ...

    @property
    def ofctl(self) -> Sequence[str | Path]:
        """The words that start the ovs-ofctl that speaks to its bridges."""
        ...

    @property
    def sockets(self) -> Path:
        """The directory of its bridges' management sockets."""
        ...

    @property
    def database(self) -> Path: ...

    @property
    def dpdk_version(self) -> str | None:
        """Of the DPDK that it was built with; None where it was built without."""
        ...

    @property
    def pid(self) -> int: ...

    def place_main_thread(self, cpus: tuple[int, ...] = ()) -> None:
        """Let vswitchd's main thread run on these CPUs only, or on those that it started on, if it is ours."""
        ...

    def check_alive(self) -> None: ...

    def thaw(self) -> None:
        """Let vswitchd go on where somebody stopped it, if it is ours."""
        ...

    def running(self) -> bool: ...

    def problems(self) -> str:
        """What vswitchd has complained of: its last warnings and errors."""
        ...

    def logs(self) -> dict[str, str]:
        """The end of each daemon's log, by name."""
        ...

    def note_bridges(self, bridges: tuple[str, ...]) -> None:
        """Bridges of the run are about to be made: what of them would outlive the run is journaled."""
        ...

    def forget_bridges(self, bridges: tuple[str, ...]) -> None:
        """They are gone."""
        ...

    def close(self, *, keep_namespace: bool = False) -> None:
        """Give it back. Can be called twice."""
        ...


# Finding the system's OVS by the files in its run directory (ovs-vswitchd(8), ovs-appctl(8)).

RUN_DIRECTORY = Path("/run/openvswitch")


@dataclass(frozen=True, slots=True)
class SystemSockets:
    """Where a running OVS is spoken to. ``log``: vswitchd's log file; None where it has none."""

    directory: Path
    database: Path
    control: Path
    process: ProcessId
    log: Path | None

    def schema(self) -> str:
        """The database's own schema, as JSON; TestbedError when it does not answer."""
        rpc = JsonRpc(self.database, "ovsdb-server")
        try:
            return json.dumps(rpc.request("get_schema", ["Open_vSwitch"]))
        finally:
            rpc.close()


def find_system(run_dir: str | None = None) -> SystemSockets:
    """The OVS whose sockets are in this directory.

    Raises:
        TestbedError: none runs there; says what was looked for, and how to start one.
    """
    directory = Path(run_dir) if run_dir is not None else RUN_DIRECTORY
    pid_file, database = directory / "ovs-vswitchd.pid", directory / "db.sock"
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise TestbedError(
            f"no Open vSwitch runs in {directory}: {pid_file}: {_reason(error)}; start it "
            "(systemctl start openvswitch-switch), name its directory by dut.ovs.run_dir, or write 'instance: private'"
        ) from error
    process = ProcessId.of(pid)
    control = directory / f"ovs-vswitchd.{pid}.ctl"
    missing = [str(path) for path in (database, control) if not path.is_socket()]
    if process is None or missing:
        why = f"there is no process {pid}" if process is None else f"no socket {', '.join(missing)}"
        raise TestbedError(f"no Open vSwitch runs in {directory}, though {pid_file} names one: {why}; restart it")
    return SystemSockets(directory, database, control, process, _log_file(pid))


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "holds no process id"


def _log_file(pid: int) -> Path | None:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    named = [argument.partition("=")[2] for argument in arguments if argument.startswith("--log-file")]
    log = Path(named[-1] or "/var/log/openvswitch/ovs-vswitchd.log") if named else None
    return log if log is not None and log.is_file() else None


# Giving the system's OVS back as it was: bridges of ours go, keys that were changed get their old value.
#
# By the entries of the journal, and so after kill -9 too. What somebody else changed meanwhile is theirs, and
# is left.

_DATABASE = "Open_vSwitch"
_APPLY = {"op": "mutate", "table": _DATABASE, "where": [], "mutations": [["next_cfg", "+=", 1]]}
"""vswitchd counts up to it when it has taken the change."""


def remove_bridge(entry: Entry) -> bool:
    """Remove a bridge of the run; False when there is none, or another run's, or no such database any more."""
    database = Path(entry.details["database"])
    if not database.parent.is_dir():
        return False
    where = [["name", "==", entry.name], ["external_ids", "includes", ["map", [[OWNER, entry.details["tag"]]]]]]
    found = _transact(database, {"op": "select", "table": "Bridge", "where": where, "columns": ["_uuid"]})
    bridges = [row["_uuid"] for row in found["rows"]]
    if not bridges:
        return False
    remove = {"op": "mutate", "table": _DATABASE, "where": [], "mutations": [["bridges", "delete", ["set", bridges]]]}
    _transact(database, remove, _APPLY)
    return True


def restore_setting(entry: Entry) -> bool:
    """Restore the old value of an other_config key; False when somebody else has changed it since."""
    database, key = Path(entry.details["database"]), entry.name
    was, wrote = entry.details["was"], entry.details["wrote"]
    if not database.parent.is_dir():
        return False
    select = {"op": "select", "table": _DATABASE, "where": [], "columns": ["other_config"]}
    (_, pairs) = _transact(database, select)["rows"][0]["other_config"]
    if dict(pairs).get(key) != wrote:
        return False
    mutations: list[Any] = [["other_config", "delete", ["set", [key]]]]
    if was is not None:
        mutations.append(["other_config", "insert", ["map", [[key, was]]]])
    _transact(database, {"op": "mutate", "table": _DATABASE, "where": [], "mutations": mutations}, _APPLY)
    return True


def _transact(database: Path, *operations: Mapping[str, Any]) -> dict[str, Any]:
    rpc = JsonRpc(database, "ovsdb-server")
    try:
        results = rpc.request("transact", [_DATABASE, *operations])
    finally:
        rpc.close()
    for result in results:
        if result is not None and "error" in result:
            raise TestbedError(f"the OVS database {database} refused: {result['error']} {result.get('details', '')}")
    first: dict[str, Any] = results[0]
    return first


# The system's OVS, used as it runs: through its sockets, and without touching what is not ours.
#
# Ours are bridges of topologies, marked by external_ids, and the keys of other_config that the testbed file
# asks for. Both are journaled before they are made, and undone when the run ends; after kill -9 by the reaper.
# Its daemons are neither started, stopped nor pinned, its log levels not changed.

AT_START_ONLY = frozenset(
    {
        "dpdk-alloc-mem",
        "dpdk-extra",
        "dpdk-hugepage-dir",
        "dpdk-init",
        "dpdk-lcore-mask",
        "dpdk-probe-at-init",
        "dpdk-socket-limit",
        "dpdk-socket-mem",
        "hw-offload",
        "n-offload-threads",
        "per-port-memory",
        "userspace-tso-enable",
        "vhost-iommu-support",
        "vhost-postcopy-support",
        "vhost-sock-dir",
    }
)
"""Keys that OVS reads when it starts (ovs-vswitchd.conf.db(5)), or does not go back from, as with hw-offload."""

_DEADLINE_S = 10.0
_LOG_BYTES = 1 << 16
_VERSION = re.compile(r"\(Open vSwitch\) (\S+)")


class SystemOvs:
    """Fulfils ``running.RunningOvs``."""

    def __init__(
        self,
        journal: Journal,
        sockets: SystemSockets,
        options: InstanceOptions,
        *,
        ofctl: Sequence[str | Path],
        name: str = "ovs",
    ) -> None:
        """Connect, and write what the options' other_config asks for.

        Raises:
            ConfigError: a key that OVS reads at its start only.
            TestbedError: OVS does not answer, or has no DPDK where the testbed asks for it.
        """
        self.name = name
        self.tag = journal.tag
        self.owned = False
        self.options = options
        self.ofctl = ofctl
        self.directory = journal.directory / name
        self._journal = journal
        self._where = sockets
        self._settings: list[Entry] = []
        self._bridges: dict[str, Entry] = {}
        self._log_start = sockets.log.stat().st_size if sockets.log is not None else 0
        self.ctl = Unixctl(sockets.control, "ovs-vswitchd")
        self._entry = journal.note(Kind.DIRECTORY, str(self.directory))
        try:
            self.directory.mkdir()
            self.db = self._connect()
            self.version = _version(self.ctl.call("version"))
            self._check_dpdk()
            self._set(options.other_config)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Ovsdb:
        schema = self.directory / "vswitch.ovsschema"
        schema.write_text(self._where.schema(), encoding="utf-8")
        database = Ovsdb(self._where.database, schema, self.check_alive)
        database.connect(_DEADLINE_S)
        return database

    def _check_dpdk(self) -> None:
        if self.options.dpdk and not self.db.root.dpdk_initialized:
            raise TestbedError(
                f"the testbed asks for the DPDK datapath, and the OVS in {self.sockets} has not started DPDK: "
                "ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true, and restart it; or write 'datapath: netdev'"
            )

    @property
    def dpdk_version(self) -> str | None:
        versions = self.db.root.dpdk_version
        return str(versions[0]).removeprefix("DPDK ") if versions else None

    def _set(self, wanted: Mapping[str, str]) -> None:
        now = dict(self.db.root.other_config)
        changes = {key: value for key, value in wanted.items() if now.get(key) != value}
        for key, value in changes.items():
            if key in AT_START_ONLY:
                raise ConfigError(
                    f"{key}={value} cannot be set on a running OVS, which has {key}={now.get(key, '(unset)')}: "
                    f"ovs-vsctl set Open_vSwitch . other_config:{key}={value}, and restart it; or leave it out",
                    key="dut.ovs.other_config",
                )
        for key, value in changes.items():
            details = {"database": str(self.database), "was": now.get(key), "wrote": value}
            self._settings.append(self._journal.note(Kind.OVS_SETTING, key, **details))

        def change(_: ovs.db.idl.Transaction) -> None:
            for key, value in changes.items():
                self.db.root.setkey("other_config", key, value)

        if changes:
            self.db.transact(change, f"other_config {', '.join(changes)}", _DEADLINE_S)

    @property
    def home(self) -> ForeignNamespace:
        own = Path(f"/proc/{self.pid}/ns/net")
        inode = own.stat().st_ino
        if inode == OURS.stat().st_ino:
            return ForeignNamespace("the host's namespace", OURS)
        named = [path for path in sorted(NETNS_DIRECTORY.glob("*")) if path.stat().st_ino == inode]
        return ForeignNamespace(named[0].name if named else f"ovs-vswitchd's namespace ({own})", [*named, own][0])

    @property
    def sockets(self) -> Path:
        return self._where.directory

    @property
    def database(self) -> Path:
        return self._where.database

    @property
    def pid(self) -> int:
        return self._where.process.pid

    def place_main_thread(self, cpus: tuple[int, ...] = ()) -> None:
        """It stays where the system has put it."""

    def check_alive(self) -> None:
        """TestbedError when vswitchd is another process by now, or gone."""
        if not self.running():
            raise TestbedError(
                f"the system's ovs-vswitchd (pid {self.pid}) has ended or was restarted during the test",
                evidence=self.logs(),
            )

    def thaw(self) -> None:
        """It is not ours to let go on."""

    def running(self) -> bool:
        return self._where.process.alive()

    def problems(self) -> str:
        marks = ("|WARN|", "|ERR|", "|EMER|")
        return "\n".join([line for line in self._log().splitlines() if any(mark in line for mark in marks)][-20:])

    def logs(self) -> dict[str, str]:
        log = self._log()
        return {"ovs-vswitchd.log": "\n".join(log.splitlines()[-40:])} if log else {}

    def _log(self) -> str:
        if self._where.log is None:
            return ""
        try:
            with self._where.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                # rotated meanwhile, it is shorter than it was
                log.seek(max(self._log_start if size >= self._log_start else 0, size - _LOG_BYTES))
                return log.read().decode(errors="replace")
        except OSError as error:
            return f"{self._where.log} cannot be read: {error}"

    def note_bridges(self, bridges: tuple[str, ...]) -> None:
        """They would outlive the run, and a restart of OVS."""
        details = {"database": str(self.database), "tag": self.tag}
        entries = self._journal.note_all(Kind.OVS_BRIDGE, bridges, **details)
        self._bridges.update(zip(bridges, entries, strict=True))

    def forget_bridges(self, bridges: tuple[str, ...]) -> None:
        self._journal.forget_all([self._bridges.pop(name) for name in bridges if name in self._bridges])

    def close(self, *, keep_namespace: bool = False) -> None:  # noqa: ARG002 - it has none of its own
        """Restore the changed keys, and disconnect. The journal keeps what OVS did not take back."""
        try:
            while self._settings:
                restore_setting(self._settings[-1])
                self._journal.forget(self._settings.pop())
        finally:
            self.ctl.close()
            if hasattr(self, "db"):
                self.db.close()
            self._journal.discard(self.directory, self._entry)


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found[1] if found else text.strip()


# What is known of an installation beside its versions: where it is from, and how it was built.

_TYPES = (("port types", "iface_types"), ("datapath types", "datapath_types"))


def installation_facts(spec: OvsSpec, binaries: OvsBinaries, instance: RunningOvs) -> dict[str, Any]:
    """Fields of a DatapathInfo: ``installation``, ``origin`` and ``build``."""
    named = next((version for version in spec.versions if version.prefix == spec.prefix), None)
    origin = named.origin if named is not None else ""
    build = named.build if named is not None else ()
    if spec.prefix is None:
        build += _package(str(binaries.vswitchd))
    if named is not None and named.checksum:
        build += (("checksum", named.checksum),)
    return {
        "installation": str(binaries.vswitchd),
        "origin": origin or ("prefix" if spec.prefix is not None else INSTALLED),
        "build": (*build, *_compiled_in(instance)),
    }


def _compiled_in(instance: RunningOvs) -> tuple[tuple[str, str], ...]:
    """What vswitchd says that it was built with: kinds of ports, such as dpdk and afxdp, and of datapaths."""
    columns = [(name, column) for name, column in _TYPES if instance.db.has_column("Open_vSwitch", column)]
    known = ((name, sorted(getattr(instance.db.root, column))) for name, column in columns)
    return tuple((name, ", ".join(map(str, types))) for name, types in known if types)


@cache
def _package(vswitchd: str) -> tuple[tuple[str, str], ...]:
    """Debian's package that an installed vswitchd is of, and its version; empty where dpkg does not know the file."""
    try:
        owner, _, _ = run(["dpkg-query", "--search", str(Path(vswitchd).resolve())]).partition(": ")
        return ((owner, run(["dpkg-query", "--show", "--showformat=${Version}", owner])),)
    except TestbedError:  # no dpkg here, or it was installed by hand
        return ()
