"""A root with the Open vSwitch of a Debian release: its packages and all that they depend on, unpacked, not installed.

No maintainer script runs.
"""

from __future__ import annotations

import re
import subprocess
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.apt import Archive, PrivateApt
from pytest_nfvperf.adapters.process.process import describe_exit
from pytest_nfvperf.model.errors import TestbedError

PACKAGES = (
    *("openvswitch-switch-dpdk", "openvswitch-switch", "openvswitch-common"),
    *("librte-meta-bus", "librte-meta-mempool", "librte-meta-net"),
)
"""DPDK's bus, mempool and port drivers are plugins: without them OVS starts, and no frame passes."""
_TOLD = ("openvswitch-switch-dpdk", "librte-meta-net")
"""Whose versions tell the build."""
_SONAME = re.compile(r"lib.+\.so\.\d+")
_UNPACK_DEADLINE_S = 60.0
_LEFT_OUT = ("./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./usr/share/info/*")
_MERGED = ("bin", "sbin", "lib", "lib64")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A root that was made. ``packages``: version of each package that tells the build, by name."""

    directory: Path
    packages: tuple[tuple[str, str], ...]


def make_root(release: str, archive: Archive, directory: Path, scratch: Path) -> Unpacked:
    """Fetch the packages and unpack them.

    Args:
        release: Debian's codename.
        archive: where from.
        directory: the root, made here.
        scratch: an empty directory for apt, which the caller removes.

    Raises:
        ConfigError: no such release, or it has no Open vSwitch.
        TestbedError: download or unpacking failed, with the program's words.
    """
    packages = PrivateApt(release, archive, scratch).download("Open vSwitch", *PACKAGES)
    directory.mkdir()
    for name in _MERGED:
        (directory / "usr" / name).mkdir(parents=True)
        (directory / name).symlink_to(f"usr/{name}")
    for package in packages:
        _unpack(package, directory)
        package.unlink()
    _link_sonames(directory)
    known = dict(_name_and_version(package) for package in packages)
    return Unpacked(directory, tuple((name, known[name]) for name in _TOLD if name in known))


def _link_sonames(directory: Path) -> None:
    """Debian 11's libraries of Open vSwitch get the names that programs ask for when they are installed."""
    for library in directory.glob("usr/lib/openvswitch-*/lib*.so.*"):
        name = _SONAME.match(library.name)
        if name is not None and name[0] != library.name and not (library.parent / name[0]).is_symlink():
            (library.parent / name[0]).symlink_to(library.name)


def _name_and_version(package: Path) -> tuple[str, str]:
    """Of a file name such as ``openvswitch-switch_3.1.0-2_amd64.deb``; apt writes ":" as "%3a"."""
    name, version, _ = package.name.split("_")
    return name, urllib.parse.unquote(version)


def _unpack(package: Path, directory: Path) -> None:
    """By tar, which keeps ``lib`` a link to ``usr/lib`` where a package has files in both."""
    tar = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(directory), "--file", "-"]
    excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    read = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(read, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        done = subprocess.run(
            [*tar, *excluded],
            stdin=reader.stdout,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_UNPACK_DEADLINE_S,
        )
    failed = ("tar", done.returncode) if done.returncode else ("dpkg-deb", reader.returncode)
    if failed[1] != 0:
        said = " ".join(done.stderr.strip().splitlines()[-2:])
        raise TestbedError(
            f"{package.name} cannot be unpacked into {directory}: {failed[0]} {describe_exit(failed[1])}: {said}",
            evidence={"stderr": done.stderr},
        )
