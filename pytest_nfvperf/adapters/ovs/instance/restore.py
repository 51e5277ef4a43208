"""Giving the system's OVS back as it was: bridges of ours go, keys that were changed get their old value.

By the entries of the journal, and so after kill -9 too. What somebody else changed meanwhile is theirs, and is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.journal.journal import Entry
from pytest_nfvperf.adapters.ovs.instance.jsonrpc import JsonRpc
from pytest_nfvperf.adapters.ovs.instance.ovsdb import OWNER
from pytest_nfvperf.model.errors import TestbedError

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
