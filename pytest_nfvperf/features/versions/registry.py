"""The versions of datapaths that this machine keeps, and how a name is resolved to one of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.process.lock import Lease, holder_text, try_lease
from pytest_nfvperf.backends.foreign_datapaths import OWN_VERSIONS
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.measure.compare import Side
from pytest_nfvperf.model.testbed.ovs_settings import (
    INSTALLED,
    OVS,
    CachedVersion,
    NamedOvs,
    checked_name,
    parse_version_options,
    versioned_as,
    versioned_name,
)
from pytest_nfvperf.model.testbed.testbed import OvsSpec

VERSION_FILE = "version.json"
_PARTIAL, _DOOMED = ".partial-", ".going-"  # prefixes of directories that are being made, and removed


def checksum(files: Iterable[Path], base: Path) -> str:
    """SHA-256 over path, mode and content of each file; of a link its target. Paths are relative to ``base``."""
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


class Registry:
    """The versions below one directory, by default ``~/.cache/nfvperf/ovs``.

    It has ``lock``, held by the process that adds or removes; ``<name>/version.json``, the description of a version;
    and ``<name>/root/``, its files. A prefix of the user's stays in place.

    A version's directory appears by rename, so it is always complete. The next ``add`` removes what a killed one left.
    A long-time user of a version holds a lock on its directory (flock(2)). Nobody removes it before the lock ends, and
    the kernel drops the lock with the process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_cache_dir() / "ovs"

    def all(self) -> list[CachedVersion]:
        """In order of their names; TestbedError says which description cannot be read, and what to do."""
        versions: list[CachedVersion] = []
        for path in sorted(self.directory.glob(f"[!.]*/{VERSION_FILE}")):
            with suppress(FileNotFoundError):  # another process removes it
                versions.append(_read(path))
        return versions

    def find(self, name: str) -> CachedVersion:
        """ConfigError if there is none of this name: lists the existing ones, and says how to add one."""
        with suppress(FileNotFoundError):
            return _read(self.directory_of(name) / VERSION_FILE)
        cached = ", ".join(version.name for version in self.all()) or "none"
        raise ConfigError(
            f"no version is kept as {name!r} (kept: {cached}): `nfvperf ovs list` shows them, "
            f"`nfvperf ovs add` adds one"
        )

    def has(self, name: str) -> bool:
        return (self.directory_of(name) / VERSION_FILE).is_file()

    def directory_of(self, name: str) -> Path:
        return self.directory / checked_name(name)

    @contextmanager
    def making(self, name: str) -> Iterator[Path]:
        """A directory to make a version in. It is removed at the end, unless ``keep`` moved it.

        Waits for another ``add`` or ``remove`` to end, and removes what killed ones left.

        Raises:
            TestbedError: the directory cannot be written, or the disk is full.
        """
        checked_name(name)
        with self._only_one():
            partial = self.directory / f"{_PARTIAL}{name}"
            try:
                partial.mkdir()
                yield partial
            except OSError as error:
                raise TestbedError(
                    f"{name!r} cannot be kept in {self.directory}: {error.strerror}: {error.filename or partial}"
                ) from error
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    def keep(self, partial: Path, version: CachedVersion) -> None:
        """Turn the complete ``partial`` directory into the version."""
        (partial / VERSION_FILE).write_text(json.dumps(asdict(version), indent=2) + "\n", encoding="utf-8")
        partial.rename(self.directory_of(version.name))

    def hold(self, name: str) -> Lease | None:
        """Protect a version from removal until the lease is closed, or this process ends; others may hold it, too.

        None if there is none of this name, or another process is removing it.
        """
        directory = self.directory_of(name)
        try:
            before = directory.stat().st_ino
            lease = try_lease(directory, shared=True)
        except (FileNotFoundError, ConfigError):
            if directory.is_dir():
                raise
            return None
        with suppress(FileNotFoundError):
            if lease is None or directory.stat().st_ino == before:
                return lease
        if lease is not None:
            lease.close()  # another process is removing what was locked
        return None

    def remove(self, name: str) -> None:
        """Remove a version and its files in the registry; ConfigError if there is none, or it is in use."""
        directory = self.directory_of(name)
        if not directory.is_dir():
            self.find(name)
        with self._only_one():
            lease = try_lease(directory)
            if lease is None:
                raise ConfigError(f"{name!r} is in use ({holder_text(directory)}): remove it when that has ended")
            try:
                doomed = self.directory / f"{_DOOMED}{name}"
                directory.rename(doomed)  # from now on nobody finds it, even after a kill
                shutil.rmtree(doomed)
            finally:
                lease.close()

    @contextmanager
    def unless_busy(self) -> Iterator[bool]:
        """Lock out additions and removals; gives False, at once, if one is under way."""
        with self._lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _lock(self) -> IO[str]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            return (self.directory / "lock").open("w", encoding="ascii")
        except OSError as error:
            raise TestbedError(
                f"versions cannot be kept in {self.directory}: {error.strerror}; set XDG_CACHE_HOME to a directory "
                "that can be written"
            ) from error

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        with self._lock() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for pattern in (f"{_PARTIAL}*", f"{_DOOMED}*"):
                for left in self.directory.glob(pattern):
                    shutil.rmtree(left)
            yield


def _read(path: Path) -> CachedVersion:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return CachedVersion(**{**raw, "build": tuple((str(key), str(value)) for key, value in raw["build"])})
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TestbedError(
            f"{path} cannot be read ({error}): remove {path.parent}, and add the version again"
        ) from error


def resolve_versions(ovs: OvsSpec, options: Sequence[str], sides: Sequence[Side] | None) -> OvsSpec:
    """Resolve a testbed's own version, the named ones, and those that a run compares.

    ``options``: ``--nfv-ovs`` of the command line; these override the testbed file. A version of another datapath than
    the testbed's makes that the testbed's own.

    Raises:
        ConfigError: options contradict each other, or name neither a kept version nor a path; or as of ``with_sides``.
    """
    registry = Registry()
    own, named = parse_version_options(options)
    by_name = {version.name: version for version in (*ovs.versions, *named)}
    versions = [resolve_version(version, registry) for version in by_name.values()]
    prefix = own or ovs.prefix
    if prefix is None:
        resolved = replace(ovs, versions=tuple(versions))
    else:
        this = resolve_version(NamedOvs(prefix, prefix), registry)
        if this.checksum and prefix not in by_name:
            versions.append(this)  # its origin and build go into the evidence
        resolved = replace(_of(ovs, this.datapath), prefix=this.prefix, versions=tuple(versions))
    return resolved if sides is None else with_sides(resolved, sides)


def with_sides(ovs: OvsSpec, sides: Sequence[Side]) -> OvsSpec:
    """Add a version for each side of a comparison, with the side's name, to a testbed's OVS with resolved versions.

    Raises:
        ConfigError: a side's version does not exist, sides are of several datapaths, or the testbed uses the system's
            OVS, which cannot be exchanged.
    """
    if ovs.instance == "system":
        raise ConfigError(
            "the testbed's OVS is the system's, which has one version and its own settings: write 'instance: private' "
            "to compare"
        )
    registry = Registry()
    by_name = {version.name: version for version in ovs.versions}
    of_sides = []
    for side in sides:
        version = by_name.get(side.where) or resolve_version(NamedOvs(side.name, side.where), registry)
        of_sides.append(replace(version, name=side.name, settings=side.settings))
    of = {version.datapath: version.name for version in reversed(of_sides) if version.datapath}
    if len(of) > 1:
        said = " and ".join(f"{name!r} is one of {versioned_name(datapath)}" for datapath, name in of.items())
        raise ConfigError(f"versions of one datapath can be compared: {said}")
    set_keys = next((side for side in sides if side.settings), None)
    if set_keys is not None and of and OVS not in of:
        raise ConfigError(f"{set_keys.name!r} is no Open vSwitch, and has no other_config: leave --set out")
    others = [version for name, version in by_name.items() if name not in {side.name for side in sides}]
    return replace(_of(ovs, *of), versions=(*of_sides, *others))


def _of(ovs: OvsSpec, datapath: str = "") -> OvsSpec:
    """The testbed's DUT as what a version is of; without a prefix where that is another datapath."""
    if datapath in {"", versioned_as(ovs.datapath)}:
        return ovs
    return replace(ovs, datapath="dpdk" if datapath == OVS else datapath, prefix=None)


def resolve_version(version: NamedOvs, registry: Registry) -> NamedOvs:
    """Resolve a version to its path, origin and build; ConfigError if it is neither kept nor a path."""
    where = version.where
    if where == INSTALLED:
        return NamedOvs(version.name, where, None, INSTALLED)
    if "/" not in where and not Path(where).is_dir():
        cached = registry.find(where)
        facts = (cached.origin, cached.checksum, cached.build)
        return NamedOvs(version.name, where, cached.place, *facts, datapath=cached.datapath)
    prefix = str(Path(where).absolute())
    return NamedOvs(version.name, where, prefix, "prefix", datapath=_datapath_in(prefix))


def _datapath_in(prefix: str) -> str:
    """What a prefix or root is a version of; empty where it is of nothing that is known, or of several."""
    found = []
    for datapath, versions in OWN_VERSIONS.items():
        with suppress(NfvperfError):
            versions.look_at(prefix)
            found.append(datapath)
    return found[0] if len(found) == 1 else ""
