"""One checksum for the files of an installation: tells whether a version is still the one that was added."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries

_LIBRARIES = ("libopenvswitch", "libofproto", "libovsdb", "libsflow", "libvtep")


def files_of(binaries: OvsBinaries) -> list[Path]:
    """What an installation consists of: all of a root, but of a prefix, which may be /usr, only what is OVS's."""
    if binaries.root is not None:
        return [Path(place) / name for place, _, names in os.walk(binaries.root) for name in names]
    programs = [binaries.vswitchd, binaries.ovsdb_server, binaries.ovsdb_tool, binaries.ofctl, binaries.schema]
    prefix = Path(binaries.prefix or "/usr")
    return [*programs, *(path for name in _LIBRARIES for path in prefix.glob(f"lib*/{name}*.so*"))]


def checksum(files: Iterable[Path], base: Path) -> str:
    """SHA-256 over path, mode and content of each file, links by what they say. Paths count from ``base``."""
    digest = hashlib.sha256()
    for path in sorted(files):
        mode = path.lstat().st_mode
        digest.update(f"{os.path.relpath(path, base)}\0{mode:o}\0".encode())
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
