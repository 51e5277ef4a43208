"""nfvperf ovs: add, list and remove versions."""

from __future__ import annotations

import argparse
from fnmatch import filter as filter_names
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.features.versions.origins import GIT, add_version, remove_orphaned_workshops
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.model.testbed.ovs_settings import CachedVersion

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands


def _add_parser(commands: Commands) -> None:
    text = "versions of Open vSwitch to test: Debian releases, prefixes, builds"
    ovs = commands.add_parser("ovs", help=text, description=text)
    own = ovs.add_subparsers(required=True, metavar="COMMAND")
    adding = own.add_parser("add", help="keep a version; the second time it changes nothing")
    adding.add_argument("what", metavar="WHAT", help="debian:RELEASE, git:REVISION, or the path of a prefix or root")
    adding.add_argument("--name", help="what it is called (default: as WHAT; of a path its last part)")
    adding.add_argument("--mirror", metavar="URI", help="Debian's archive (default: that of this machine's apt)")
    adding.add_argument("--source", type=path_like, default=Path(), metavar="DIR", help="git tree (default: this one)")
    adding.add_argument("--without-dpdk", action="store_true", help="build a revision without DPDK")
    adding.set_defaults(command=_add)
    own.add_parser("list", help="what is kept: name, version, origin, checksum").set_defaults(command=_list)
    removing = own.add_parser("remove", help="forget a version, and remove its files where nfvperf made them")
    removing.add_argument("names", metavar="NAME", nargs="+", help="or a pattern: 'git:*' for every revision")
    removing.set_defaults(command=_remove)


OVS = Command(_add_parser)


def _add(arguments: argparse.Namespace) -> int:
    registry = Registry()
    added = add_version(
        arguments.what,
        registry,
        arguments.name,
        mirror=arguments.mirror,
        source=arguments.source,
        dpdk=not arguments.without_dpdk,
    )
    print(f"{'added' if added.new else 'there already:'} {_described(added.version)}")
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
        for each in filter_names([kept.name for kept in registry.all()], name) if "*" in name else [name]:
            registry.remove(each)
            print(f"removed {each}")
    return 0


def _described(version: CachedVersion) -> str:
    dpdk = f"DPDK {version.dpdk_version}" if version.dpdk_version else "without DPDK"
    return (
        f"{version.name}: OVS {version.version}, {dpdk}, from {version.origin}, in {version.place}, "
        f"sha256 {version.checksum[:12]}, added {version.added}"
    )
