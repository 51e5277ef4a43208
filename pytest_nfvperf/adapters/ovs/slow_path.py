"""The slow path of a running OVS: its megaflows, their limit, and what they take."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import still_there
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl

_MEGAFLOWS = re.compile(r"^\s+flows:\s+(\d+)\s*$", re.MULTILINE)
_REVALIDATOR = re.compile(r"^\s+\d+:\s+\(keys \d+\)", re.MULTILINE)
_FIGURES = re.compile(r"\(limit (?P<flow_limit>\d+)\)|dump duration\s*:\s*(?P<dump_ms>\d+)ms")


def read_slow_path(ctl: Unixctl, pid: int) -> dict[str, float]:
    """As ``BuiltTopology.slow_path``. A figure that this version does not show is absent.

    ``dpctl/show`` counts megaflows at once; what ``upcall/show`` says of them may be 100 ms old (udpif_get_n_flows).
    """
    counted, shown = ctl.call("dpctl/show"), ctl.call("upcall/show")
    figures = {name: int(found[name]) for found in _FIGURES.finditer(shown) if (name := found.lastgroup)}
    megaflows, revalidators = sum(map(int, _MEGAFLOWS.findall(counted))), len(_REVALIDATOR.findall(shown))
    memory = round(resident_bytes(pid) / (1 << 20), 1)
    return {"megaflows": megaflows, **figures, "revalidators": revalidators, "memory_MiB": memory}


def resident_bytes(pid: int) -> int:
    with still_there(pid, "ovs-vswitchd"):
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
