"""Starting an ovsdb-server on a database of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries
from pytest_nfvperf.adapters.process.process import ManagedProcess, run
from pytest_nfvperf.adapters.process.wait import wait_until

_START_DEADLINE_S = 30.0  # a healthy start takes 20 ms; in a guest without KVM, beside others, some seconds

Starter = Callable[[list[str | Path]], ManagedProcess]
"""Starts the command; whoever gives it says with which log, CPUs and environment."""


def serve_database(
    binaries: OvsBinaries, schema: Path, database: Path, socket: Path, control: Path, start: Starter
) -> ManagedProcess:
    """Make an empty database of this schema and wait until it is served.

    Args:
        binaries: the ovsdb-server to use.
        schema: of the database.
        database: the file to make.
        socket: where clients connect.
        control: the server's own control socket (ovs-appctl(8)).
        start: starts the command that it is given.

    Raises:
        TestbedError: the server ended, with the end of its log.
        DeadlineError: its socket never came.
    """
    run([binaries.ovsdb_tool, "create", database, schema])
    server = start([binaries.ovsdb_server, database, f"--remote=punix:{socket}", f"--unixctl={control}"])

    def listening() -> bool:
        server.check()
        return socket.is_socket()

    wait_until(listening, f"ovsdb-server's socket {socket}", _START_DEADLINE_S, interval_s=0.005)
    return server
