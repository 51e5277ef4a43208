"""MAC addresses that a bridge has learned (ovs-vswitchd(8), fdb/show)."""

from __future__ import annotations

import re

_ROW = re.compile(r"^\s*(?P<port>\d+)\s+\d+\s+(?P<mac>(?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s+\S+\s*$", re.MULTILINE)


def learned_ports(fdb_show: str) -> dict[str, int]:
    """OpenFlow port numbers by MAC address, in small letters; the bridge's own port is left out."""
    return {row["mac"]: int(row["port"]) for row in _ROW.finditer(fdb_show)}
