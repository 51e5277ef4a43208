"""``nfvperf ovs``: versions of a datapath from a prefix, a Debian release or a revision of git."""

from __future__ import annotations

import argparse
import datetime
import shutil
from collections.abc import Callable, Iterator
from fnmatch import filter as filter_names
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.adapters.host.apt import Archive, PrivateApt, debian_archive, unpack_root
from pytest_nfvperf.adapters.process.programs import find
from pytest_nfvperf.backends.foreign_datapaths import versions_of
from pytest_nfvperf.cli.command import Command, add_datapath_option, path_like
from pytest_nfvperf.features.versions.git_build import build, find_revision, git
from pytest_nfvperf.features.versions.registry import Registry, checksum
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import OVS, CachedVersion, can_name, checked_name, versioned_as
from pytest_nfvperf.ports.datapath import DatapathVersions

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

DEBIAN, GIT = "debian:", "git:"
_PREFIX = "prefix"
_DOOMED = ".going-"  # prefix of a directory that is being removed

Build = tuple[tuple[str, str], ...]
"""How a version was made, by name: package versions, options of configure."""


def add_version(
    what: str,
    registry: Registry,
    name: str | None = None,
    *,
    mirror: str | None = None,
    source: Path = Path(),
    dpdk: bool = True,
    datapath: str = OVS,
) -> tuple[CachedVersion, bool]:
    """Add a version to the registry, unless it is there; returns it, and True if it is new.

    Args:
        what: "debian:bookworm", "git:v3.3.0", or the path of a prefix or root.
        registry: gets the version.
        name: of the version; None: ``what``, or the commit where that cannot be a name, or a path's last part.
        mirror: of Debian; None: that of this machine's apt.
        source: the git tree.
        dpdk: build with DPDK.
        datapath: what it is a version of, as ``Dut.kind`` calls it; OVS for Open vSwitch.

    Raises:
        ConfigError: no such release, revision or directory, not this datapath there, or the name belongs to another.
        TestbedError: it cannot be fetched, unpacked or built.
    """
    make: Callable[[Path], tuple[Path, Build]] | None = None
    prefix, of = Path(what).resolve(), known_versions(datapath)
    if what.startswith(DEBIAN):
        name, origin = name or what, what
        make = partial(_unpack_release, of, what.removeprefix(DEBIAN), mirror)
    elif what.startswith(GIT):
        revision = find_revision(source, what.removeprefix(GIT), of)
        # HEAD~1 and branches with a slash cannot be names: the commit is one.
        default = what if can_name(what) else f"{GIT}{revision.commit[:12]}"
        name, origin = name or default, f"{GIT}{revision.commit}"
        make = partial(build, revision, of, workshops_of(registry), dpdk=dpdk)
    elif prefix.is_dir():
        name, origin = name or prefix.name, _PREFIX
    else:
        raise ConfigError(
            f"{what!r} is no directory: write {DEBIAN}bookworm, {GIT}v3.3.0, or the path of a prefix or root"
        )
    if registry.has(checked_name(name)):
        cached = registry.find(name)
        same = (cached.origin, cached.datapath) == (origin, of.kind)
        if same and (make is not None or prefix == Path(cached.place)):
            return cached, False
        raise ConfigError(
            f"{name!r} is the name of another version, {cached.datapath} {cached.origin} in {cached.place}: give this "
            "one another by --name, or remove that one by `nfvperf ovs remove`"
        )
    with registry.making(name) as new:
        directory, options = (prefix, ()) if make is None else make(new)
        location = prefix if make is None else registry.directory_of(name) / directory.name
        version = _version_in(directory, of, name, origin, location, options)
        registry.keep(new, version)
    return version, True


def _version_in(
    directory: Path, of: DatapathVersions, name: str, origin: str, location: Path, options: Build
) -> CachedVersion:
    """Describe what a directory has; ``location``: where it will be. ConfigError if the datapath is not there."""
    found = of.look_at(str(directory))
    return CachedVersion(
        name=name,
        origin=origin,
        place=str(location),
        version=found.version,
        dpdk_version=found.dpdk_version,
        checksum=checksum(of.files(str(directory)), directory),
        added=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        build=options,
        datapath=of.kind,
    )


def known_versions(datapath: str) -> DatapathVersions:
    """How to get versions of a kind of datapath; ConfigError where it has none. Asks plugins for others' kinds."""
    if ":" not in datapath:
        return versions_of(versioned_as(datapath), {})
    from pytest_nfvperf.plugin.session_factory import datapath_makers  # noqa: PLC0415 - only others' need pytest

    return versions_of(datapath, datapath_makers())


def _unpack_release(of: DatapathVersions, release: str, mirror: str | None, destination: Path) -> tuple[Path, Build]:
    """Make a root of a Debian release's packages and their dependencies. No maintainer script runs.

    Returns the root, and the packages' versions.
    """
    if not of.packages:
        raise ConfigError(f"{of.name} is in no package of Debian: name a prefix or root of it")
    archive = Archive(mirror) if mirror else debian_archive()
    scratch, root = destination / "apt", destination / "root"
    scratch.mkdir()
    packages = PrivateApt(release, archive, scratch).download(of.name, *of.packages)
    versions = unpack_root(packages, root)
    of.complete_root(root)
    shutil.rmtree(scratch)
    return root, tuple((name, versions[name]) for name in of.recorded if name in versions)


def workshops_of(registry: Registry) -> Path:
    """Where ``git_build`` works for the versions of a registry."""
    return registry.directory.parent / "ovs-builds"


def remove_orphaned_workshops(registry: Registry | None = None) -> list[str]:
    """Remove each workshop whose tree no longer exists; none while a version is being built or added.

    Such a workshop can build nothing more, and takes hundreds of megabytes.

    Returns:
        What was removed, or why nothing was, a line each.

    Raises:
        TestbedError: one cannot be removed.
    """
    registry = registry or Registry()
    workshops = workshops_of(registry)
    if not workshops.is_dir() or find("git") is None:
        return []
    with registry.unless_busy() as free:
        orphaned = list(_orphaned(workshops))
        if not free:
            return [f"left the workshop of {tree}, which is gone: a version is being added" for _, tree in orphaned]
        try:
            for left in workshops.glob(f"{_DOOMED}*"):
                shutil.rmtree(left)
            for workshop, _ in orphaned:
                doomed = workshop.with_name(f"{_DOOMED}{workshop.name}")
                workshop.rename(doomed)  # so that nobody finds a half-removed one, even after a kill
                shutil.rmtree(doomed)
        except OSError as error:
            raise TestbedError(f"a workshop cannot be removed: {error.strerror}: {error.filename}") from error
        return [f"removed the workshop {workshop} of {tree}, which is gone" for workshop, tree in orphaned]


def _orphaned(workshops: Path) -> Iterator[tuple[Path, Path]]:
    """Workshops without their tree, each with the tree's path. Skips a workshop whose tree is unknown."""
    for workshop in sorted(workshops.glob("[!.]*")):
        config = workshop / "tree/.git/config"
        if not config.is_file():
            continue
        try:
            tree = Path(git(workshop, "config", "--file", str(config), "remote.origin.url"))
        except TestbedError:
            continue
        if tree.is_absolute() and not tree.exists():
            yield workshop, tree


def _add_parser(commands: Commands) -> None:
    text = "versions of Open vSwitch, or of another datapath, to test: Debian releases, prefixes, builds"
    ovs = commands.add_parser("ovs", help=text, description=text)
    own = ovs.add_subparsers(required=True, metavar="COMMAND")
    adding = own.add_parser("add", help="keep a version; the second time it changes nothing")
    adding.add_argument("what", metavar="WHAT", help="debian:RELEASE, git:REVISION, or the path of a prefix or root")
    adding.add_argument("--name", help="what it is called (default: as WHAT; of a path its last part)")
    adding.add_argument("--mirror", metavar="URI", help="Debian's archive (default: that of this machine's apt)")
    adding.add_argument("--source", type=path_like, default=Path(), metavar="DIR", help="git tree (default: this one)")
    adding.add_argument("--without-dpdk", action="store_true", help="build a revision without DPDK")
    add_datapath_option(adding)
    adding.set_defaults(command=_add)
    own.add_parser("list", help="what is kept: name, datapath, version, origin, checksum").set_defaults(command=_list)
    removing = own.add_parser("remove", help="forget a version, and remove its files where nfvperf made them")
    removing.add_argument("names", metavar="NAME", nargs="+", help="or a pattern: 'git:*' for every revision")
    removing.set_defaults(command=_remove)


OVS_COMMAND = Command(_add_parser)


def _add(arguments: argparse.Namespace) -> int:
    registry = Registry()
    version, is_new = add_version(
        arguments.what,
        registry,
        arguments.name,
        mirror=arguments.mirror,
        source=arguments.source,
        dpdk=not arguments.without_dpdk,
        datapath=arguments.datapath,
    )
    print(f"{'added' if is_new else 'there already:'} {_described(version)}")
    if arguments.what.startswith(GIT):
        for line in remove_orphaned_workshops(registry):
            print(line)
    return 0


def _list(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes the arguments
    versions = Registry().all()
    for version in versions:
        print(_described(version))
    if not versions:
        print("no version is kept: add one by `nfvperf ovs add debian:bookworm`")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    registry = Registry()
    for name in arguments.names:
        for each in filter_names([cached.name for cached in registry.all()], name) if "*" in name else [name]:
            registry.remove(each)
            print(f"removed {each}")
    return 0


def _described(version: CachedVersion) -> str:
    dpdk = f", DPDK {version.dpdk_version}" if version.dpdk_version else ", without DPDK"
    what = f"OVS {version.version}{dpdk}" if version.datapath == OVS else f"{version.datapath} {version.version}"
    return (
        f"{version.name}: {what}, from {version.origin}, in {version.place}, "
        f"sha256 {version.checksum[:12]}, added {version.added}"
    )
