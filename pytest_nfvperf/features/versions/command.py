"""nfvperf ovs: add, list and remove versions, and verify them by a short measurement."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import filter as filter_names
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.ovs.counters import DATAPATH_REASONS, PORT_REASONS
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.features.versions.origins import GIT, add_version, remove_orphaned_workshops
from pytest_nfvperf.features.versions.registry import Registry, checksum, files_of
from pytest_nfvperf.measure.rig import Rig
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import CachedVersion, Tuning
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.evidence import Progress

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

_DATAPATHS = ("dpdk", "netdev")
_SETTINGS = (Tuning(smc=True), Tuning(auto_lb=True), Tuning(rxq_assign="group"), Tuning(pmd_sleep_max_us=1))
_LOAD_FPS, _DURATION_S = 1000, 0.5


@dataclass(frozen=True, slots=True)
class DatapathResult:
    """Frames through one datapath of a version.

    Attributes:
        datapath: "dpdk" or "netdev".
        sent, received: frames.
        problem: why none passed; empty if some did.
        failed: the problem is the version's; else this machine cannot run the datapath.
    """

    datapath: str
    sent: int = 0
    received: int = 0
    problem: str = ""
    failed: bool = False

    def __str__(self) -> str:
        if self.problem:
            return f"{self.datapath}: {'FAILED' if self.failed else 'not possible here'}: {self.problem}"
        return f"{self.datapath}: {self.received} of {self.sent} frames came through"


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """The result of a verification.

    Attributes:
        datapaths: one result each.
        lacks: features of newer or other builds that this one does not have.
        problems: what makes it unusable, or differs from the version that was added.
    """

    datapaths: tuple[DatapathResult, ...]
    lacks: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def usable(self) -> bool:
        return not self.problems and not any(each.failed for each in self.datapaths)


def verify(version: CachedVersion) -> VerifiedVersion:
    """Start a version privately, send frames through its datapaths, and find what it lacks.

    Raises:
        ConfigError: its files or a library are gone.
        TestbedError: another run measures on this machine.
    """
    binaries = locate(version.place)
    discovered = discover_testbed()
    testbed = replace(discovered, ovs=replace(discovered.ovs, prefix=version.place))
    with closing(LocalBackend(testbed, EmbeddedSide(testbed))) as backend:
        rig = Rig(backend.parts(), Context(Recorder("verify", [], backend.clock), Progress(), backend.clock))
        datapaths = tuple(_pass_frames(backend, rig, datapath) for datapath in _DATAPATHS)
        rig.close()
    problems = []
    if checksum(files_of(binaries), Path(version.place)) != version.checksum:
        problems.append(f"its files in {version.place} are not those that were added: remove it, and add it again")
    if binaries.version != version.version:
        problems.append(f"it says it is OVS {binaries.version}, and was added as {version.version}")
    if all(each.problem for each in datapaths):
        problems.append("frames pass on none of its datapaths")
    return VerifiedVersion(datapaths, _lacks(binaries), tuple(problems))


def _pass_frames(backend: LocalBackend, rig: Rig, datapath: str) -> DatapathResult:
    dut = Dut(datapath)
    missing = backend.lacks(dut)
    if missing is not None:
        return DatapathResult(datapath, problem=missing)
    traffic = Traffic(frame_size=128)
    try:
        live = rig.live(phy2phy(), 0, dut)
        live.learn(traffic)
        spec = TrialSpec(traffic, _LOAD_FPS, _DURATION_S, live.topology.directions, latency=False, purpose="verify")
        result = live.runner.run_once(spec).result
    except NfvperfError as error:
        if isinstance(error, TestbedError):
            error = rig.broken("verify", error)
        return DatapathResult(datapath, problem=str(error), failed=True)
    silent = [str(count.direction) for count in result.counts if not count.received]
    problem = f"no frame came through {', '.join(silent)}" if silent else ""
    return DatapathResult(datapath, result.sent, result.received, problem, failed=bool(silent))


def _lacks(binaries: OvsBinaries) -> tuple[str, ...]:
    now = binaries.major_minor
    reasons = [
        reason.name
        for reason in (*PORT_REASONS, *DATAPATH_REASONS)
        if not _number(reason.since) <= now <= _number(reason.until)
    ]
    tuning = [str(setting).partition("=")[0] for setting in _SETTINGS if setting.unknown_to(now)]
    lacking = ["DPDK"] if binaries.dpdk_version is None else []
    lacking += [f"drop counters {', '.join(reasons)}"] if reasons else []
    lacking += [f"settings {', '.join(tuning)}"] if tuning else []
    return tuple(lacking)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


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


def _verify(arguments: argparse.Namespace) -> int:
    registry = Registry()
    usable = True
    for version in [registry.find(name) for name in arguments.names] or registry.all():
        try:
            verified = verify(version)
        except NfvperfError as error:
            print(f"{_described(version)}\n  NOT usable: {error}", file=sys.stderr)
            usable = False
            continue
        lines = [_described(version), *(f"  {each}" for each in verified.datapaths)]
        lines += [f"  lacks {what}" for what in verified.lacks]
        lines += [f"  NOT usable: {problem}" for problem in verified.problems]
        print("\n".join(lines))
        usable = usable and verified.usable
    return 0 if usable else 1


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
