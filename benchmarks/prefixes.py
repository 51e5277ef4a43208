"""Seventeen versions of Open vSwitch without a compiler: prefixes whose programs are this machine's installed ones.

What sets the bad ones apart stands in the shell script that is their ovs-vswitchd, before it becomes the real one.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import OvsBinaries

VERSIONS = 17
"""Of a row: sixteen candidates behind the good end."""

MOST_MEASURED = int(math.log2(VERSIONS - 1)) + 3
"""Versions between the ends, in the ordinary case."""


@dataclass(frozen=True, slots=True)
class Row:
    """Versions in order, the good end first. ``guilty``: the number of the first bad one."""

    prefixes: tuple[Path, ...]
    guilty: int

    @property
    def culprit(self) -> str:
        """The name of the first bad one."""
        return self.prefixes[self.guilty].name

    def bisect(self, *arguments: str) -> list[str]:
        """The command that bisects it; ``arguments`` stand behind the versions."""
        names = [str(prefix) for prefix in self.prefixes]
        asked = ["--good", names[0], "--bad", names[-1], "--versions", *names[1:-1], *arguments]
        # Killed with this bench a bisection would go on, and hold the CPUs.
        return ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "pytest_nfvperf.cli.main", "bisect", *asked]

    def named_by(self, ended: subprocess.CompletedProcess[str]) -> bool:
        """True where the bisection found the first bad one, and confirmed it."""
        told = ended.stdout + ended.stderr
        return ended.returncode == 0 and f"{self.culprit} brought it in" in told and "Confirmed." in told


def row(directory: Path, installed: OvsBinaries, guilty: int, script: str) -> Row:
    """Prefixes v00 to v16 in a directory; those from number ``guilty`` on run the lines of ``script`` first."""
    made = [prefix(directory / f"v{at:02}", installed, script if at >= guilty else "") for at in range(VERSIONS)]
    return Row(tuple(made), guilty)


def prefix(directory: Path, installed: OvsBinaries, script: str) -> Path:
    """A prefix whose programs are the installed ones; its ovs-vswitchd runs the lines of ``script`` first."""
    wrappers = {
        "sbin/ovsdb-server": installed.ovsdb_server,
        "bin/ovsdb-tool": installed.ovsdb_tool,
        "bin/ovs-ofctl": installed.ofctl,
        "share/openvswitch/vswitch.ovsschema": installed.schema,
    }
    for name, program in wrappers.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(program)
    vswitchd = directory / "sbin/ovs-vswitchd"
    vswitchd.write_text(f'#!/bin/sh\n{script}exec {installed.vswitchd} "$@"\n')
    vswitchd.chmod(0o755)
    return directory
