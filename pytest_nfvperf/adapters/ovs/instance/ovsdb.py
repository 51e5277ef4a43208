"""OVSDB by OVS's own Python IDL: one transaction a change, then wait until vswitchd has taken it.

Only tables and columns that the instance's own schema has are registered, so schemas of OVS 2.15 to
4.0 all do. Every wait has a deadline and looks at whether the daemons still live: a
client that waits for a dead vswitchd's ``cur_cfg`` waits for ever.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ovs.db.idl
import ovs.poller

from pytest_nfvperf.model.errors import DeadlineError, TestbedError

OWNER = "nfvperf"
"""Key of external_ids: which run made a bridge."""


_WANTED: Mapping[str, tuple[str, ...]] = {
    "Open_vSwitch": (
        "bridges",
        "cur_cfg",
        "next_cfg",
        "other_config",
        "external_ids",
        "dpdk_initialized",
        "dpdk_version",
        "iface_types",
        "datapath_types",
    ),
    "Bridge": ("name", "ports", "mirrors", "datapath_type", "fail_mode", "other_config", "protocols", "external_ids"),
    "Port": ("name", "interfaces", "tag", "trunks", "vlan_mode", "bond_mode", "lacp", "external_ids"),
    "Mirror": (
        "name",
        "select_all",
        "select_src_port",
        "select_dst_port",
        "select_vlan",
        "output_port",
        "output_vlan",
        "snaplen",
        "statistics",
    ),
    "Interface": (
        "name",
        "type",
        "options",
        "ofport",
        "ofport_request",
        "mtu",
        "mtu_request",
        "mac",
        "mac_in_use",
        "admin_state",
        "link_state",
        "error",
        "status",
        "other_config",
        "external_ids",
    ),
}

Row = Any
"""A row of the IDL; PyPI ``ovs`` has no types."""


class Ovsdb:
    """A connection to one ovsdb-server, with the tables that we use."""

    def __init__(self, socket: Path, schema: Path, check_alive: Callable[[], None]) -> None:
        """Prepare; ``connect`` waits. ``check_alive`` raises when a daemon has died."""
        read = json.loads(schema.read_text(encoding="utf-8"))  # the IDL's own parser is fifty times slower
        helper = ovs.db.idl.SchemaHelper(schema_json=read)
        for table, columns in present_columns(read).items():
            helper.register_columns(table, columns)
        self._idl = ovs.db.idl.Idl(f"unix:{socket}", helper)
        self._check_alive = check_alive

    def connect(self, deadline_s: float) -> None:
        """Wait for the first copy of the database; DeadlineError after ``deadline_s``."""
        self.wait(lambda: self._idl.change_seqno != 0, "the OVS database", deadline_s)

    @property
    def has_root(self) -> bool:
        return bool(self._idl.tables["Open_vSwitch"].rows)

    @property
    def root(self) -> Row:
        """The one row of Open_vSwitch; TestbedError before it was made."""
        for row in self._idl.tables["Open_vSwitch"].rows.values():
            return row
        raise TestbedError("the OVS database has no Open_vSwitch row: it was not initialised")

    def rows(self, table: str) -> dict[str, Row]:
        """Rows of Bridge, Port, Mirror or Interface by name."""
        return {row.name: row for row in self._idl.tables[table].rows.values()}

    def has_column(self, table: str, column: str) -> bool:
        """True when the schema of this OVS has the column."""
        return column in self._idl.tables[table].columns

    def refresh(self) -> None:
        """Take in what the server has sent; does not wait."""
        self._idl.run()

    def wait(
        self,
        done: Callable[[], bool],
        awaited: str,
        deadline_s: float,
        last_seen: Callable[[], str] = lambda: "nothing of it",
    ) -> None:
        """Follow the database until ``done``; DeadlineError with what was last seen, TestbedError if a daemon died."""
        end = time.monotonic() + deadline_s
        while True:
            self._idl.run()
            if done():
                return
            self._check_alive()
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"waited {deadline_s:g} s for {awaited}; last seen: {last_seen()}")
            poller = ovs.poller.Poller()
            self._idl.wait(poller)
            poller.timer_wait(max(1, int(min(left, 0.2) * 1000)))
            poller.block()

    def transact(
        self,
        change: Callable[[ovs.db.idl.Transaction], None],
        what: str,
        deadline_s: float,
        *,
        applied: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Make one change in one transaction, and wait until vswitchd has taken it (cur_cfg >= next_cfg).

        Args:
            change: makes it, on the transaction; it must not call ``refresh`` or ``wait``.
            what: for messages: "topology phy2phy".
            deadline_s: for the commit and vswitchd together.
            applied: whether to wait for vswitchd.
            meanwhile: called while vswitchd applies the change.

        Raises:
            TestbedError: the database refused it, or vswitchd died.
            DeadlineError: vswitchd did not take it in time.
        """
        end = time.monotonic() + deadline_s
        target = self._commit(change, what, deadline_s, applied)
        meanwhile()
        if applied:
            left = max(0.01, end - time.monotonic())
            self.wait(lambda: self._cur_cfg() >= target, f"ovs-vswitchd to apply {what}", left, self._seen_cfg)

    def _commit(
        self, change: Callable[[ovs.db.idl.Transaction], None], what: str, deadline_s: float, applied: bool
    ) -> int:
        transaction = ovs.db.idl.Transaction(self._idl)
        try:
            change(transaction)
            target = 0
            if applied:
                target = int(self.root.next_cfg) + 1
                self.root.next_cfg = target
            status = transaction.commit()
            if status == ovs.db.idl.Transaction.INCOMPLETE:
                self.wait(
                    lambda: transaction.commit() != ovs.db.idl.Transaction.INCOMPLETE,
                    f"the OVS database to commit {what}",
                    deadline_s,
                )
                status = transaction.commit()
            if status not in {ovs.db.idl.Transaction.SUCCESS, ovs.db.idl.Transaction.UNCHANGED}:
                raise TestbedError(
                    f"the OVS database refused {what}: {ovs.db.idl.Transaction.status_to_string(status)}",
                    evidence={"ovsdb-server": str(transaction.get_error() or "")},
                )
            return target
        finally:
            transaction.abort()

    def _cur_cfg(self) -> int:
        return int(self.root.cur_cfg) if self.has_root else -1

    def _seen_cfg(self) -> str:
        return f"cur_cfg {self.root.cur_cfg}, next_cfg {self.root.next_cfg}" if self.has_root else "no Open_vSwitch row"

    def close(self) -> None:
        self._idl.close()


def present_columns(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """The columns that we want and this schema has, by table."""
    tables = schema["tables"]
    return {
        table: [column for column in columns if column in tables[table]["columns"]]
        for table, columns in _WANTED.items()
        if table in tables
    }


def one(value: Any) -> Any | None:
    """An optional column (a set of at most one) as a value or None."""
    if isinstance(value, list):
        return value[0] if value else None
    return value
