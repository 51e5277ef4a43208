"""Finding the system's OVS by the files in its run directory (ovs-vswitchd(8), ovs-appctl(8))."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import ProcessId
from pytest_nfvperf.adapters.ovs.instance.jsonrpc import JsonRpc
from pytest_nfvperf.model.errors import TestbedError

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
