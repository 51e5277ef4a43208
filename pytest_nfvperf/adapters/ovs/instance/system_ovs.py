"""The system's OVS, used as it runs: through its sockets, and without touching what is not ours.

Ours are bridges of topologies, marked by external_ids, and the keys of other_config that the testbed file asks
for. Both are journaled before they are made, and undone when the run ends; after kill -9 by the reaper. Its daemons
are neither started, stopped nor pinned, its log levels not changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import ovs.db.idl

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net.ends import OURS
from pytest_nfvperf.adapters.net.namespaces import ForeignNamespace
from pytest_nfvperf.adapters.ovs.instance.ovsdb import Ovsdb
from pytest_nfvperf.adapters.ovs.instance.private_ovs import InstanceOptions
from pytest_nfvperf.adapters.ovs.instance.restore import restore_setting
from pytest_nfvperf.adapters.ovs.instance.system_sockets import SystemSockets
from pytest_nfvperf.adapters.ovs.instance.unixctl import Unixctl
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import ConfigError, TestbedError

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
