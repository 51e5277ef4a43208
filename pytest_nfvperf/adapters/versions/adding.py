"""``nfvperf ovs add``: keeps a Debian release's version, a revision of a tree, or a prefix or root of the user's."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.apt import Archive, debian_archive
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.adapters.versions.checksum import checksum, files_of
from pytest_nfvperf.adapters.versions.debian_root import make_root
from pytest_nfvperf.adapters.versions.git_build import Revision, build, find_revision
from pytest_nfvperf.adapters.versions.registry import Registry
from pytest_nfvperf.adapters.versions.workshops import workshops_of
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.ovs_settings import KeptVersion, can_name, checked_name

DEBIAN, GIT = "debian:", "git:"
_PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``nfvperf ovs add`` was told.

    Attributes:
        what: "debian:bookworm", "git:v3.3.0", or the path of a prefix or root.
        name: what it is called; None for ``what``, or the commit where that cannot be a name, or a path's last part.
        mirror: of Debian; None for that of this machine's apt.
        source: the git tree.
        dpdk: build with DPDK.
    """

    what: str
    name: str | None = None
    mirror: str | None = None
    source: Path = Path()
    dpdk: bool = True


@dataclass(frozen=True, slots=True)
class Added:
    """``new``: False where the version was there already."""

    version: KeptVersion
    new: bool


def add(asked: Asked, registry: Registry) -> Added:
    """Make a version known in the registry, unless it is.

    Raises:
        ConfigError: no such release, revision or directory, no Open vSwitch there, or the name belongs to another.
        TestbedError: it cannot be fetched, unpacked or built.
    """
    what = asked.what
    if what.startswith(DEBIAN):
        name = checked_name(asked.name or what)
        return _unless_there(registry, name, what, None, lambda: _add_debian(asked, name, registry))
    if what.startswith(GIT):
        revision = find_revision(asked.source, what.removeprefix(GIT))
        name = checked_name(asked.name or _name_of_revision(what, revision))
        origin = f"{GIT}{revision.commit}"
        return _unless_there(registry, name, origin, None, lambda: _add_git(asked, revision, name, registry))
    prefix = Path(what).resolve()
    if not prefix.is_dir():
        raise ConfigError(
            f"{what!r} is no directory: write {DEBIAN}bookworm, {GIT}v3.3.0, or the path of a prefix or root"
        )
    name = checked_name(asked.name or prefix.name)
    return _unless_there(registry, name, _PREFIX, prefix, lambda: _add_prefix(prefix, name, registry))


def _name_of_revision(what: str, revision: Revision) -> str:
    """As it was asked for, if that can be a name; ``HEAD~1`` and branches with a slash cannot, and go by the commit."""
    return what if can_name(what) else f"{GIT}{revision.commit[:12]}"


def _unless_there(
    registry: Registry, name: str, origin: str, place: Path | None, make: Callable[[], KeptVersion]
) -> Added:
    if not registry.has(name):
        return Added(make(), new=True)
    kept = registry.find(name)
    if kept.origin == origin and (place is None or place == Path(kept.place)):
        return Added(kept, new=False)
    raise ConfigError(
        f"{name!r} is the name of another version, {kept.origin} in {kept.place}: give this one another by --name, or "
        "remove that one by `nfvperf ovs remove`"
    )


def _add_debian(asked: Asked, name: str, registry: Registry) -> KeptVersion:
    archive = Archive(asked.mirror) if asked.mirror else debian_archive()
    with registry.making(name) as partial:
        scratch = partial / "apt"
        scratch.mkdir()
        unpacked = make_root(asked.what.removeprefix(DEBIAN), archive, partial / "root", scratch)
        shutil.rmtree(scratch)
        binaries = locate(str(unpacked.directory))
        version = _described(name, asked.what, registry.place(name) / "root", binaries, unpacked.packages)
        registry.keep(partial, version)
    return version


def _add_git(asked: Asked, revision: Revision, name: str, registry: Registry) -> KeptVersion:
    with registry.making(name) as partial:
        built = build(revision, workshops_of(registry), partial, dpdk=asked.dpdk)
        binaries = locate(str(built.prefix))
        place = registry.place(name) / "prefix"
        version = _described(name, f"{GIT}{revision.commit}", place, binaries, built.options)
        registry.keep(partial, version)
    return version


def _add_prefix(prefix: Path, name: str, registry: Registry) -> KeptVersion:
    binaries = locate(str(prefix))
    with registry.making(name) as partial:
        version = _described(name, _PREFIX, prefix, binaries, ())
        registry.keep(partial, version)
    return version


def _described(
    name: str, origin: str, place: Path, binaries: OvsBinaries, build: tuple[tuple[str, str], ...]
) -> KeptVersion:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    digest = checksum(files_of(binaries), Path(binaries.prefix or "/"))
    return KeptVersion(name, origin, str(place), binaries.version, binaries.dpdk_version, digest, now, build)
