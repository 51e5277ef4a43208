"""``nfvperf ovs``: versions of Open vSwitch beside the installed one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, path_like

if TYPE_CHECKING:
    from pytest_nfvperf.backends.verifying import Passed, Verified
    from pytest_nfvperf.cli.command import Commands
    from pytest_nfvperf.model.testbed.ovs_settings import KeptVersion


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
    verifying = own.add_parser("verify", help="start it, pass frames through it, say what it lacks")
    verifying.add_argument("names", metavar="NAME", nargs="*", help="default: every version that is kept")
    verifying.set_defaults(command=_verify)
    removing = own.add_parser("remove", help="forget a version, and remove its files where nfvperf made them")
    removing.add_argument("names", metavar="NAME", nargs="+")
    removing.set_defaults(command=_remove)


OVS = Command(_add_parser)


def _add(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.versions.adding import GIT, Asked, add  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415
    from pytest_nfvperf.adapters.versions.workshops import remove_forsaken  # noqa: PLC0415

    given, registry = arguments, Registry()
    asked = Asked(given.what, given.name, given.mirror, given.source, dpdk=not given.without_dpdk)
    added = add(asked, registry)
    print(f"{'added' if added.new else 'there already:'} {_described(added.version)}")
    if asked.what.startswith(GIT):
        for line in remove_forsaken(registry):
            print(line)
    return 0


def _list(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes the arguments
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415

    kept = Registry().all()
    for version in kept:
        print(_described(version))
    if not kept:
        print("no version is kept: add one by `nfvperf ovs add debian:bookworm`")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    """Ends with 1 where one is not usable."""
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415
    from pytest_nfvperf.backends.verifying import verify  # noqa: PLC0415
    from pytest_nfvperf.model.errors import NfvperfError  # noqa: PLC0415

    registry = Registry()
    kept = [registry.find(name) for name in arguments.names] or registry.all()
    good = True
    for version in kept:
        try:
            found = verify(version)
        except NfvperfError as error:
            print(f"{_described(version)}\n  NOT usable: {error}", file=sys.stderr)
            good = False
            continue
        print("\n".join(_verified_lines(found)))
        good = good and found.good
    return 0 if good else 1


def _remove(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415

    registry = Registry()
    for name in arguments.names:
        registry.remove(name)
        print(f"removed {name}")
    return 0


def _described(version: KeptVersion) -> str:
    dpdk = f"DPDK {version.dpdk_version}" if version.dpdk_version else "without DPDK"
    return (
        f"{version.name}: OVS {version.version}, {dpdk}, from {version.origin}, in {version.place}, "
        f"sha256 {version.checksum[:12]}, added {version.added}"
    )


def _verified_lines(found: Verified) -> list[str]:
    lines = [_described(found.version)]
    lines += [f"  {_passed_text(each)}" for each in found.passed]
    lines += [f"  lacks {what}" for what in found.lacks]
    lines += [f"  NOT usable: {problem}" for problem in _problems(found)]
    return lines


def _problems(found: Verified) -> Sequence[str]:
    none = all(each.problem for each in found.passed)
    return (*found.problems, *(["frames pass on none of its datapaths"] if none else []))


def _passed_text(passed: Passed) -> str:
    if passed.problem:
        return f"{passed.datapath}: {'FAILED' if passed.failed else 'not possible here'}: {passed.problem}"
    return f"{passed.datapath}: {passed.received} of {passed.sent} frames came through"
