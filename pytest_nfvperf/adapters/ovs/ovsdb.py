"""OVS's management protocols: JSON-RPC on a Unix socket, appctl commands (unixctl) and OVSDB (RFC 7047)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ovs.db.idl
import ovs.poller

from pytest_nfvperf.adapters.process.process import Deadline
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

OWNER = "nfvperf"
"""Key of a bridge's external_ids that names the run which made it."""

Row = Any
"""A row of the IDL; PyPI ``ovs`` has no types."""

_RECEIVE_BYTES = 1 << 16

_COLUMNS: Mapping[str, str] = {
    "Open_vSwitch": (
        "bridges cur_cfg next_cfg other_config external_ids dpdk_initialized dpdk_version iface_types datapath_types "
        "datapaths"
    ),
    "Datapath": "ct_zones external_ids",
    "CT_Zone": "timeout_policy limit",
    "CT_Timeout_Policy": "timeouts",
    "Bridge": "name ports mirrors datapath_type fail_mode other_config protocols external_ids controller",
    "Controller": "target inactivity_probe max_backoff",
    "Port": "name interfaces tag trunks vlan_mode bond_mode lacp qos external_ids",
    "QoS": "type queues other_config external_ids",
    "Queue": "other_config external_ids",
    "Mirror": (
        "name select_all select_src_port select_dst_port select_vlan output_port output_vlan snaplen statistics"
    ),
    "Interface": (
        "name type options ofport ofport_request mtu mtu_request mac mac_in_use admin_state link_state error status "
        "ingress_policing_rate ingress_policing_burst other_config external_ids"
    ),
}
"""The columns that we use, by table. An older OVS lacks some."""


class RefusedError(TestbedError):
    """The daemon understood a request and refused it."""


class JsonRpc:
    """JSON-RPC 1.0 with one daemon, as ovsdb-server and ovs-appctl's targets speak it; reconnects after a failure.

    PyPI ``ovs`` has a client, too. That one waits for ever when the daemon hangs, and its pure-Python parser takes
    10 ms for a coverage listing, which a 20 ms snapshot cannot afford.
    """

    def __init__(self, path: Path, daemon: str) -> None:
        self._path = path
        self._daemon = daemon
        self._socket: socket.socket | None = None
        self._received = b""
        self._id = 0
        self._aborted = False

    def request(self, method: str, params: Sequence[Any], deadline_s: float = 5.0) -> Any:
        """Ask the daemon, and return its result.

        Raises:
            RefusedError: the daemon's own error message.
            DeadlineError: it did not answer in time.
            TestbedError: nobody listens.
        """
        self._id += 1
        text = json.dumps({"method": method, "params": list(params), "id": self._id})
        try:
            reply = self._exchange(text.encode(), Deadline(deadline_s))
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"waited {deadline_s:g} s for {self._daemon} to answer {method!r}") from error
        except OSError as error:
            self.close()
            raise TestbedError(f"{self._daemon} does not answer on {self._path}: {error}") from error
        except BaseException:
            self.close()  # a signal's handler interrupted it; the pending reply must not answer a later request
            raise
        if reply.get("error") is not None:
            raise RefusedError(f"{self._daemon} refused {method!r}: {reply['error']}")
        return reply["result"]

    def _exchange(self, request: bytes, deadline: Deadline) -> dict[str, Any]:
        if self._socket is None:
            self._received = b""
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(max(0.001, deadline.left_s))
            self._socket.connect(str(self._path))
        if self._aborted:
            raise ConnectionAbortedError("the request was aborted")
        self._socket.sendall(request)
        while (reply := self._take_reply()) is None:
            if not deadline.wait_ready(self._socket.fileno()):
                raise TimeoutError
            received = self._socket.recv(_RECEIVE_BYTES)
            if not received:
                raise ConnectionResetError("the connection was closed")
            self._received += received
        return reply

    def _take_reply(self) -> dict[str, Any] | None:
        """The next reply, or None until it is complete (replies have no delimiter)."""
        if not self._received.rstrip().endswith(b"}"):
            return None
        try:
            reply = json.loads(self._received)
        except ValueError:
            return None
        self._received = b""
        if not isinstance(reply, dict):
            raise ConnectionError(f"not a JSON-RPC reply: {reply!r}")
        return reply

    def abort(self) -> None:
        """End a request that another thread waits for, and all later ones, with TestbedError."""
        self._aborted = True
        connection = self._socket
        if connection is not None:
            with suppress(OSError):  # it was closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Disconnect. Can be called twice; the next request connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Unixctl:
    """The control socket of one daemon: ovs-appctl(8)'s commands without ovs-appctl."""

    def __init__(self, path: Path, daemon: str) -> None:
        self._rpc = JsonRpc(path, daemon)
        self.close = self._rpc.close

    def call(self, command: str, *args: str, deadline_s: float = 5.0) -> str:
        """Run a command and return its output; errors as of ``JsonRpc.request``."""
        return str(self._rpc.request(command, args, deadline_s))

    def usage(self, command: str) -> str | None:
        """Return a command's arguments in the daemon's words, ``[-pmd core] [dp]``; None if it has no such command."""
        words = (line.split(maxsplit=1) for line in self.call("list-commands").splitlines())
        return next((" ".join(rest) for name, *rest in filter(None, words) if name == command), None)


class Ovsdb:
    """A connection to one ovsdb-server with OVS's own Python IDL.

    It registers only those of our tables and columns that the instance's schema has, so OVS 2.15 to 4.0 all work.
    Every wait has a deadline and checks that the daemons live, because a dead vswitchd never raises ``cur_cfg``.
    """

    def __init__(self, socket: Path, check_alive: Callable[[], None]) -> None:
        """Prepare; ``connect`` waits. ``check_alive`` raises if a daemon has died."""
        self._socket = socket
        self._check_alive = check_alive

    def connect(self, schema: Path, deadline_s: float) -> None:
        """Connect at once, also anew to a server that was restarted: the IDL itself waits for a second and longer."""
        read = json.loads(schema.read_text(encoding="utf-8"))  # the IDL's own parser is fifty times slower
        helper = ovs.db.idl.SchemaHelper(schema_json=read)
        for table, columns in present_columns(read).items():
            helper.register_columns(table, columns)
        self._idl = ovs.db.idl.Idl(f"unix:{self._socket}", helper)
        self.wait(lambda: self._idl.change_seqno != 0, "the OVS database", deadline_s)

    @property
    def has_root(self) -> bool:
        return bool(self._idl.tables["Open_vSwitch"].rows)

    @property
    def root(self) -> Row:
        """The one row of Open_vSwitch; TestbedError if it was not made yet."""
        if not self.has_root:
            raise TestbedError("the OVS database has no Open_vSwitch row: it was not initialised")
        return next(iter(self._idl.tables["Open_vSwitch"].rows.values()))

    def rows(self, table: str) -> dict[str, Row]:
        return {row.name: row for row in self._idl.tables[table].rows.values()}

    def has_column(self, table: str, column: str) -> bool:
        return column in self._idl.tables[table].columns

    def refresh(self) -> None:
        """Apply what the server has sent, without waiting for more."""
        self._idl.run()

    def wait(
        self,
        done: Callable[[], bool],
        awaited: str,
        deadline_s: float,
        last_seen: Callable[[], str] = lambda: "nothing of it",
    ) -> None:
        """Follow the database until ``done``; DeadlineError with ``last_seen``, TestbedError if a daemon died."""
        deadline = Deadline(deadline_s)
        while True:
            late = not deadline.left_s
            self._idl.run()
            if done():
                return
            self._check_alive()
            if late:
                raise DeadlineError(f"waited {deadline_s:g} s for {awaited}; last seen: {last_seen()}")
            poller = ovs.poller.Poller()
            self._idl.wait(poller)
            poller.timer_wait(200)
            deadline.look(lambda _: poller.block(), 0.2)  # noqa: B023 - called at once

    def transact(
        self,
        change: Callable[[ovs.db.idl.Transaction], None],
        what: str,
        deadline_s: float,
        *,
        applied: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a change in one transaction, and wait until vswitchd has applied it (cur_cfg >= next_cfg).

        ``change``: makes it, without ``refresh`` or ``wait``. ``what``: for messages. ``deadline_s``: for the commit
        and vswitchd together. ``applied``: whether to wait for vswitchd. ``meanwhile``: called before that.

        Raises:
            TestbedError: the database refused it, or vswitchd died.
            DeadlineError: vswitchd did not apply it in time.
        """
        kinds, deadline, target = ovs.db.idl.Transaction, Deadline(deadline_s), 0
        transaction = kinds(self._idl)
        try:
            change(transaction)
            if applied:
                self.root.next_cfg = target = int(self.root.next_cfg) + 1
            status = transaction.commit()
            if status == kinds.INCOMPLETE:
                awaited = f"the OVS database to commit {what}"
                self.wait(lambda: transaction.commit() != kinds.INCOMPLETE, awaited, deadline_s)
                status = transaction.commit()
            if status not in {kinds.SUCCESS, kinds.UNCHANGED}:
                raise TestbedError(
                    f"the OVS database refused {what}: {kinds.status_to_string(status)}",
                    evidence={"ovsdb-server": str(transaction.get_error() or "")},
                )
        finally:
            transaction.abort()
        meanwhile()
        if applied:
            self.wait(
                lambda: self.has_root and int(self.root.cur_cfg) >= target,
                f"ovs-vswitchd to apply {what}",
                max(0.01, deadline.left_s),
                lambda: f"cur_cfg {self.root.cur_cfg}, next_cfg {self.root.next_cfg}",
            )

    def close(self) -> None:
        self._idl.close()


def present_columns(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    tables = schema["tables"]
    return {
        table: [column for column in columns.split() if column in tables[table]["columns"]]
        for table, columns in _COLUMNS.items()
        if table in tables
    }


def value_of(value: Any) -> Any | None:
    """Return the value of an optional column (a set of at most one), or None."""
    if isinstance(value, list):
        return value[0] if value else None
    return value
