"""Minimal roots, made by mmdebstrap from the machine's own mirror and kept as archives outside the tree."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fresh.namespaces import run_contained

INCLUDED = ("git", "make", "python3", "python3-venv", "ca-certificates")
"""What the README asks of a machine, beside what every Debian has."""
BARE = ("ca-certificates",)
"""What the tutorial begins with: of the rest, the packages that every Debian has."""
_KEPT_S = 30 * 24 * 3600
_COMPONENT = "main"


class FreshError(Exception):
    """A fresh root cannot be had; says why and what to do."""


def cache_directory() -> Path:
    """``$XDG_CACHE_HOME/nfvperf/fresh``, else below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    made = (Path(base) if base else Path.home() / ".cache") / "nfvperf" / "fresh"
    made.mkdir(parents=True, exist_ok=True)
    return made


def cached_root(release: str, included: Sequence[str] = INCLUDED) -> Path:
    """The archive of this release's root, made anew when it is older than 30 days or was made otherwise.

    Args:
        release: its codename.
        included: packages beside those that every Debian has: ``INCLUDED`` or ``BARE``.

    Raises:
        FreshError: apt has no Debian mirror, or mmdebstrap failed, with its words above.
    """
    command = _mmdebstrap(release, mirror(), included)
    key = hashlib.sha256("\0".join(command).encode()).hexdigest()[:12]
    name = f"{release}-bare" if included == BARE else release
    archive = cache_directory() / f"{name}-{key}.tar"
    if archive.exists() and time.time() - archive.stat().st_mtime < _KEPT_S:
        return archive
    partial = cache_directory() / "partial.tar"
    with _scratch() as scratch:
        status = run_contained([*command[:-1], str(partial), command[-1]], {"TMPDIR": str(scratch)})
    if status != 0:
        raise FreshError(f"mmdebstrap could not make a root of {release}: status {status}, see above")
    for older in cache_directory().glob(f"{name}-{'[0-9a-f]' * len(key)}.tar"):
        older.unlink()
    return partial.rename(archive)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Where mmdebstrap lays a root out; what a killed one left there goes first."""
    scratch = cache_directory() / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def mirror() -> str:
    """Where this machine gets Debian from, by its apt sources."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    fields = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)"
    found = release_archives(_told("apt-get", "indextargets", "--format", fields, "Created-By: Packages"), release)
    if not found or platform.freedesktop_os_release().get("ID") != "debian":
        raise FreshError(f"no archive of Debian {release} in apt's sources (/etc/apt/sources.list*): add one")
    return found[0]


def release_archives(targets: str, release: str) -> list[str]:
    """Of apt's index targets (URI, release, component) those of this release itself, not of its updates."""
    rows = [line.split("\t") for line in targets.splitlines()]
    return [uri for uri, codename, component in rows if (codename, component) == (release, _COMPONENT)]


def apt_options() -> list[str]:
    """How this machine's apt fetches (proxies, dates that are checked or not): "Acquire::Check-Date "false";"."""
    kept = [line for line in _told("apt-config", "dump").splitlines() if line.startswith("Acquire::")]
    return [line for line in kept if "IndexTargets" not in line and "CompressionTypes" not in line]


def _told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _mmdebstrap(release: str, archive: str, included: Sequence[str]) -> list[str]:
    options = [f"--aptopt={line}" for line in apt_options() if not line.endswith('"";')]
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(included)}",
        *options,
        release,
        f"deb {archive} {release} {_COMPONENT}",
    ]
