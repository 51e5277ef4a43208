"""A root directory with the installed Open vSwitch, its libraries and DPDK's plugins, without any download."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import locate

_LIBRARY = re.compile(r"(/\S+) \(0x")


def make_root(directory: Path) -> Path:
    """Copies of the files at their own paths; the root's ``lib`` and ``lib64`` are links, as everywhere by now."""
    binaries = locate()
    for name in ("bin", "sbin", "lib", "lib64"):
        (directory / "usr" / name).mkdir(parents=True)
        (directory / name).symlink_to(f"usr/{name}")
    programs = [binaries.vswitchd, binaries.ovsdb_server, binaries.ovsdb_tool, binaries.ofctl]
    plugins = list(Path("/usr/lib").glob("*/dpdk/pmds-*/librte_*.so*"))
    _copy([*programs, binaries.schema, *plugins, *_libraries([*programs, *plugins])], directory)
    return directory


def _libraries(files: Iterable[Path]) -> set[Path]:
    # ldd fails for what is no dynamic program, such as a link to one that is not installed, and lists the rest
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(found) for found in _LIBRARY.findall(told)}


def _copy(files: Iterable[Path], directory: Path) -> None:
    # Links stay links: DPDK would load a plugin once for each of its names.
    for file in (each for named in files for each in (named, named.resolve())):
        target = directory / os.path.relpath(file, "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(target):
            shutil.copy2(file, target, follow_symlinks=False)


def listing(directory: Path) -> dict[str, int]:
    """Every file and directory below, with its change time in ns."""
    return {str(path): path.lstat().st_ctime_ns for path in sorted(directory.rglob("*"))}
