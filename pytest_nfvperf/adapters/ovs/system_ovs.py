"""The system's OVS: where its sockets are, how the run changes its settings, and how it restores them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ovs.db.idl

from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.namespaces import Home
from pytest_nfvperf.adapters.ovs.installation import OVS_VERSION, facts_of_program
from pytest_nfvperf.adapters.ovs.ovsdb import OWNER, JsonRpc, Ovsdb, Unixctl
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions, OvsInstance, RunningOvs
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind, ProcessId
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import OvsSpec

_RUN_DIRECTORY = Path("/run/openvswitch")
_DATABASE = "Open_vSwitch"

_APPLY = {"op": "mutate", "table": _DATABASE, "where": [], "mutations": [["next_cfg", "+=", 1]]}
"""Asks vswitchd to apply the change: it counts cur_cfg up to next_cfg."""

_AT_START_ONLY = {
    "dpdk-alloc-mem", "dpdk-extra", "dpdk-hugepage-dir", "dpdk-init", "dpdk-lcore-mask", "dpdk-probe-at-init",
    "dpdk-socket-limit", "dpdk-socket-mem", "hw-offload", "n-offload-threads", "per-port-memory",
    "userspace-tso-enable", "vhost-iommu-support", "vhost-postcopy-support", "vhost-sock-dir",
}  # fmt: skip
"""Keys that OVS reads only at its start (ovs-vswitchd.conf.db(5)), or cannot undo, such as hw-offload."""

_DEADLINE_S = 10.0
_LOG_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SystemSockets:
    """Sockets of a running OVS. ``log``: vswitchd's log file, if any."""

    directory: Path
    database: Path
    control: Path
    process: ProcessId
    log: Path | None


def find_system(run_dir: str | None = None) -> SystemSockets:
    """Find the system's OVS by the files in its run directory (ovs-vswitchd(8), ovs-appctl(8)); else TestbedError."""
    directory = Path(run_dir) if run_dir is not None else _RUN_DIRECTORY
    pid_file, database = directory / "ovs-vswitchd.pid", directory / "db.sock"
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "holds no process id"
        raise TestbedError(
            f"no Open vSwitch runs in {directory}: {pid_file}: {reason}; start it "
            "(systemctl start openvswitch-switch), name its directory by dut.ovs.run_dir, or write 'instance: private'"
        ) from error
    process = ProcessId.of(pid)
    control = directory / f"ovs-vswitchd.{pid}.ctl"
    missing = [str(path) for path in (database, control) if not path.is_socket()]
    if process is None or missing:
        why = f"there is no process {pid}" if process is None else f"no socket {', '.join(missing)}"
        raise TestbedError(f"no Open vSwitch runs in {directory}, though {pid_file} names one: {why}; restart it")
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    named = [argument.partition("=")[2] for argument in arguments if argument.startswith("--log-file")]
    log = Path(named[-1] or "/var/log/openvswitch/ovs-vswitchd.log") if named else None
    return SystemSockets(directory, database, control, process, log if log is not None and log.is_file() else None)


# Restoring the system's OVS: our bridges are removed, changed keys get their old value. This works from entries of the
# journal, and so after kill -9, too. What somebody else has changed meanwhile stays.


def remove_bridge(entry: Entry) -> bool:
    """Remove a bridge of the run; False if there is none, it is another run's, or its database is gone."""
    database = Path(entry.details["database"])
    if not database.parent.is_dir():
        return False
    where = [["name", "==", entry.name], ["external_ids", "includes", ["map", [[OWNER, entry.details["tag"]]]]]]
    selected = _transact(database, {"op": "select", "table": "Bridge", "where": where, "columns": ["_uuid"]})
    bridges = [row["_uuid"] for row in selected["rows"]]
    if not bridges:
        return False
    remove = {"op": "mutate", "table": _DATABASE, "where": [], "mutations": [["bridges", "delete", ["set", bridges]]]}
    _transact(database, remove, _APPLY)
    # OVSDB keeps the QoS of a port that goes.
    own = [["external_ids", "includes", ["map", [[OWNER, entry.details["tag"]], ["bridge", entry.name]]]]]
    _transact(database, *({"op": "delete", "table": table, "where": own} for table in ("QoS", "Queue")))
    return True


def restore_setting(entry: Entry) -> bool:
    """Restore the old value of an other_config key; False if somebody else has changed it since."""
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
    with closing(JsonRpc(database, "ovsdb-server")) as rpc:
        results = rpc.request("transact", [_DATABASE, *operations])
    for result in results:
        if result is not None and "error" in result:
            raise TestbedError(f"the OVS database {database} refused: {result['error']} {result.get('details', '')}")
    first: dict[str, Any] = results[0]
    return first


class SystemOvs(RunningOvs):
    """The system's OVS as a RunningOvs, used as it runs, through its sockets.

    The run makes bridges of topologies, marked by external_ids, and sets the keys of other_config that the testbed
    file asks for. Both are journaled before, and undone at the end of the run or, after kill -9, by the reaper. The
    run does not start, stop or pin the daemons, nor change their log levels.
    """

    def __init__(
        self,
        journal: Journal,
        sockets: SystemSockets,
        options: InstanceOptions,
        *,
        ofctl: Sequence[str | Path],
        name: str = "ovs",
    ) -> None:
        """Connect, and set the options' other_config.

        Raises:
            ConfigError: OVS reads a key only at its start.
            TestbedError: OVS does not answer, or has no DPDK although the testbed asks for it.
        """
        self.name = name
        self.tag = journal.tag
        self.options = options
        self.ofctl = ofctl
        self.directory = journal.directory / name
        self.sockets, self.database = sockets.directory, sockets.database
        self._journal = journal
        self._process, self._log_file = sockets.process, sockets.log
        self._settings: list[Entry] = []
        self._bridges: dict[str, Entry] = {}
        self._log_start = sockets.log.stat().st_size if sockets.log is not None else 0
        self.ctl = Unixctl(sockets.control, "ovs-vswitchd")
        self._entry = journal.note(Kind.DIRECTORY, str(self.directory))
        try:
            self.directory.mkdir()
            schema = self.directory / "vswitch.ovsschema"
            with closing(JsonRpc(sockets.database, "ovsdb-server")) as rpc:
                schema.write_text(json.dumps(rpc.request("get_schema", [_DATABASE])), encoding="utf-8")
            database = Ovsdb(sockets.database, self.check_alive)
            database.connect(schema, _DEADLINE_S)
            self.db = database
            text = self.ctl.call("version")
            match = OVS_VERSION.search(text)
            self.version = match[1] if match else text.strip()
            if options.dpdk and not self.db.root.dpdk_initialized:
                raise TestbedError(
                    f"the testbed asks for the DPDK datapath, and the OVS in {self.sockets} has not started DPDK: "
                    "ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true, and restart it; or write "
                    "'datapath: netdev'"
                )
            self._set(options.other_config)
        except BaseException:
            self.close()
            raise

    @property
    def dpdk_version(self) -> str | None:
        versions = self.db.root.dpdk_version
        return str(versions[0]).removeprefix("DPDK ") if versions else None

    def _set(self, wanted: Mapping[str, str]) -> None:
        now = dict(self.db.root.other_config)
        changes = {key: value for key, value in wanted.items() if now.get(key) != value}
        for key, value in changes.items():
            if key in _AT_START_ONLY:
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
    def home(self) -> Home:
        own = Path(f"/proc/{self.pid}/ns/net")
        inode = own.stat().st_ino
        if inode == OWN_NAMESPACE.stat().st_ino:
            return Home("the host's namespace", OWN_NAMESPACE)
        named = [path for path in sorted(NETNS_DIRECTORY.glob("*")) if path.stat().st_ino == inode]
        return Home(named[0].name if named else f"ovs-vswitchd's namespace ({own})", [*named, own][0])

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_alive(self) -> None:
        if not self.running():
            raise TestbedError(
                f"the system's ovs-vswitchd (pid {self.pid}) has ended or was restarted during the test",
                evidence=self.logs(),
            )

    def running(self) -> bool:
        return self._process.alive()

    def logs(self) -> dict[str, str]:
        log = self.log_text()
        return {"ovs-vswitchd.log": "\n".join(log.splitlines()[-40:])} if log else {}

    def log_text(self) -> str:
        if self._log_file is None:
            return ""
        try:
            with self._log_file.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                # a log that was rotated meanwhile is shorter than at the start
                log.seek(max(self._log_start if size >= self._log_start else 0, size - _LOG_BYTES))
                return log.read().decode(errors="replace")
        except OSError as error:
            return f"{self._log_file} cannot be read: {error}"

    def note_bridges(self, bridges: tuple[str, ...]) -> None:
        # They would outlive the run, and a restart of OVS.
        details = {"database": str(self.database), "tag": self.tag}
        entries = self._journal.note_all(Kind.OVS_BRIDGE, bridges, **details)
        self._bridges.update(zip(bridges, entries, strict=True))

    def forget_bridges(self, bridges: tuple[str, ...]) -> None:
        self._journal.forget_all([self._bridges.pop(name) for name in bridges if name in self._bridges])

    def close(self, *, keep_namespace: bool = False) -> None:  # noqa: ARG002 - it has none of its own
        """Restore the changed keys, and disconnect. Keys that it cannot restore stay in the journal."""
        try:
            while self._settings:
                restore_setting(self._settings[-1])
                self._journal.forget(self._settings.pop())
        finally:
            self.ctl.close()
            if hasattr(self, "db"):
                self.db.close()
            self._journal.discard(self.directory, self._entry)


def installation_facts(spec: OvsSpec, instance: OvsInstance) -> dict[str, Any]:
    """Return the fields of a DatapathInfo that another version changes."""
    binaries = instance.binaries
    facts = facts_of_program(spec, binaries.vswitchd)
    build = list(facts["build"])
    for name, column in (("port types", "iface_types"), ("datapath types", "datapath_types")):
        types = sorted(getattr(instance.db.root, column)) if instance.db.has_column(_DATABASE, column) else []
        if types:
            build.append((name, ", ".join(map(str, types))))
    dpdk_version = binaries.dpdk_version if instance.options.dpdk else None
    return {**facts, "build": tuple(build), "version": binaries.version, "dpdk_version": dpdk_version}
