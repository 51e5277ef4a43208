"""Starting an ovsdb-server on a database of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, wait_until

_SERVER_DEADLINE_S = 30.0  # a healthy start takes 20 ms; in a guest without KVM, beside others, some seconds

Starter = Callable[[list[str | Path]], ManagedProcess]
"""Starts the command; whoever gives it says with which log, CPUs and environment."""


def serve_database(
    binaries: OvsBinaries, schema: Path, database: Path, socket: Path, control: Path, start: Starter
) -> ManagedProcess:
    """Make an empty database of this schema and wait until it is served.

    ``database``: the file to make. ``control``: the server's own control socket (ovs-appctl(8)).

    Raises:
        TestbedError: the server ended, with the end of its log.
        DeadlineError: its socket never came.
    """
    visible = (database.parent, socket.parent, control.parent)
    own_schema = database.with_suffix(".ovsschema")  # whoever runs in a root sees no other directory of this machine
    shutil.copyfile(schema, own_schema)
    run([*binaries.command(binaries.ovsdb_tool, *visible), "create", database, own_schema])
    server_command = binaries.command(binaries.ovsdb_server, *visible)
    server = start([*server_command, database, f"--remote=punix:{socket}", f"--unixctl={control}"])

    def listening() -> bool:
        server.check()
        return socket.is_socket()

    wait_until(listening, f"ovsdb-server's socket {socket}", _SERVER_DEADLINE_S, interval_s=0.005)
    return server
