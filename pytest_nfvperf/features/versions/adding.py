"""How a version of OVS is added: from a prefix, a Debian release, or a revision of git."""

from __future__ import annotations

import datetime
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.apt import Archive, PrivateApt, debian_archive
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate
from pytest_nfvperf.adapters.process.process import describe_exit, run
from pytest_nfvperf.adapters.process.programs import find
from pytest_nfvperf.features.versions.git_build import Revision, build, find_revision
from pytest_nfvperf.features.versions.registry import Registry, checksum, files_of
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import KeptVersion, can_name, checked_name

# Cleaning: a workshop whose git tree is gone can build nothing more, and takes hundreds of megabytes.

_GOING = ".going-"


def workshops_of(registry: Registry) -> Path:
    """Where ``git_build`` works for the versions of a registry."""
    return registry.directory.parent / "ovs-builds"


def remove_forsaken(registry: Registry) -> list[str]:
    """Remove each workshop of which the tree does not exist any more; none while anybody builds or adds a version.

    Returns:
        What was removed, or why nothing was, a line each.

    Raises:
        TestbedError: one cannot be removed.
    """
    place = workshops_of(registry)
    if not place.is_dir() or find("git") is None:
        return []
    with registry.unless_busy() as free:
        if not free:
            forsaken = [tree for _, tree in _forsaken(place)]
            return [f"left the workshop of {tree}, which is gone: a version is being added" for tree in forsaken]
        return list(_removed(place))


def clean() -> list[str]:
    """The same for the versions that this machine keeps."""
    return remove_forsaken(Registry())


def _removed(place: Path) -> Iterator[str]:
    try:
        for left in place.glob(f"{_GOING}*"):
            shutil.rmtree(left)
        for workshop, tree in list(_forsaken(place)):
            going = workshop.with_name(f"{_GOING}{workshop.name}")
            workshop.rename(going)  # a half of one is never found as a whole, even if we are killed
            shutil.rmtree(going)
            yield f"removed the workshop {workshop} of {tree}, which is gone"
    except OSError as error:
        raise TestbedError(f"a workshop cannot be removed: {error.strerror}: {error.filename}") from error


def _forsaken(place: Path) -> Iterator[tuple[Path, Path]]:
    """Workshops without their tree, each with where that was. One that does not say what it is of is left alone."""
    for workshop in sorted(place.glob("[!.]*")):
        tree = _tree_of(workshop)
        if tree is not None and tree.is_absolute() and not tree.exists():
            yield workshop, tree


def _tree_of(workshop: Path) -> Path | None:
    config = workshop / "tree/.git/config"
    if not config.is_file():
        return None
    try:
        return Path(run(["git", "config", "--file", str(config), "remote.origin.url"]).strip())
    except TestbedError:
        return None


# A root from a Debian release: the packages and their dependencies, unpacked. No maintainer script runs.

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


# Adding a version.

DEBIAN, GIT = "debian:", "git:"
_PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments of ``nfvperf ovs add``.

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
        # HEAD~1 and branches with a slash cannot be names: the commit is one.
        default = what if can_name(what) else f"{GIT}{revision.commit[:12]}"
        name = checked_name(asked.name or default)
        origin = f"{GIT}{revision.commit}"
        return _unless_there(registry, name, origin, None, lambda: _add_git(asked, revision, name, registry))
    prefix = Path(what).resolve()
    if not prefix.is_dir():
        raise ConfigError(
            f"{what!r} is no directory: write {DEBIAN}bookworm, {GIT}v3.3.0, or the path of a prefix or root"
        )
    name = checked_name(asked.name or prefix.name)
    return _unless_there(registry, name, _PREFIX, prefix, lambda: _add_prefix(prefix, name, registry))


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
