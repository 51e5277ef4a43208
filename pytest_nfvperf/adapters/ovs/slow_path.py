"""The slow path of a running OVS: its megaflows, their limit, and what they take."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import still_there
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl

_FLOWS = re.compile(r"^\s+flows:\s+(\d+)\s*$", re.MULTILINE)
_LIMIT = re.compile(r"^\s+flows\s+:.*\(limit (\d+)\)", re.MULTILINE)
_DUMP = re.compile(r"^\s+dump duration\s*:\s*(\d+)ms", re.MULTILINE)
_REVALIDATOR = re.compile(r"^\s+\d+:\s+\(keys \d+\)", re.MULTILINE)


def read_slow_path(ctl: Unixctl, pid: int) -> dict[str, int]:
    """As ``BuiltTopology.slow_path``. A figure that this version does not show is absent.

    ``dpctl/show`` counts megaflows at once; what ``upcall/show`` says of them may be 100 ms old (udpif_get_n_flows).
    """
    counted, shown = ctl.call("dpctl/show"), ctl.call("upcall/show")
    found = {"megaflows": sum(map(int, _FLOWS.findall(counted))), "revalidators": len(_REVALIDATOR.findall(shown))}
    for name, line in (("flow_limit", _LIMIT), ("dump_ms", _DUMP)):
        if match := line.search(shown):
            found[name] = int(match[1])
    with still_there(pid, "ovs-vswitchd"):
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return found | {"rss_bytes": int(pages) * os.sysconf("SC_PAGE_SIZE")}
