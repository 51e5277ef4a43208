"""``nfvperf ovs verify``: starts a kept version privately, passes frames through it, and says what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.ovs.counters.drop_reasons import DATAPATH_REASONS, PORT_REASONS
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.adapters.report.terminal_progress import SilentProgress
from pytest_nfvperf.adapters.versions.checksum import checksum, files_of
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.model.errors import NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import KeptVersion, Tuning
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.runs.rig import Rig
from pytest_nfvperf.runs.trials import Context

_DATAPATHS = ("dpdk", "netdev")
_SETTINGS = (Tuning(smc=True), Tuning(auto_lb=True), Tuning(rxq_assign="group"), Tuning(pmd_sleep_max_us=1))
_LOAD_FPS, _DURATION_S = 1000, 0.5


@dataclass(frozen=True, slots=True)
class Passed:
    """Frames through one datapath of a version.

    ``problem``: why none passed; empty where some did. ``failed``: it should have been possible on this machine.
    """

    datapath: str
    sent: int = 0
    received: int = 0
    problem: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of a version.

    Attributes:
        problems: what makes it unusable, or another version than the one that was added.
        lacks: what newer or other builds have, and this one does not.
    """

    version: KeptVersion
    passed: tuple[Passed, ...]
    lacks: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def good(self) -> bool:
        """True where frames passed and nothing is wrong."""
        passed = any(not each.problem for each in self.passed)
        return passed and not self.problems and not any(each.failed for each in self.passed)


def verify(version: KeptVersion) -> Verified:
    """Start it and send frames through it, on DPDK's datapath and on the one without.

    Raises:
        ConfigError: its files are gone, or a library is.
        TestbedError: the machine cannot be taken: another run measures.
    """
    binaries = locate(version.place)
    found = discover_testbed()
    testbed = replace(found, ovs=replace(found.ovs, prefix=version.place))
    backend = LocalBackend(testbed, EmbeddedSide(testbed))
    try:
        rig = Rig(backend.parts(), Context(Recorder("verify", [], backend.clock), SilentProgress(), backend.clock))
        passed = tuple(_pass_frames(backend, rig, datapath) for datapath in _DATAPATHS)
        rig.close()
    finally:
        backend.close()
    return Verified(version, passed, _lacks(binaries), _problems(version, binaries))


def _pass_frames(backend: LocalBackend, rig: Rig, datapath: str) -> Passed:
    dut = Dut(datapath)
    missing = backend.lacks(dut)
    if missing is not None:
        return Passed(datapath, problem=missing)
    traffic = Traffic(frame_size=128)
    try:
        live = rig.live(phy2phy(), 0, dut)
        live.learn(traffic)
        spec = TrialSpec(traffic, _LOAD_FPS, _DURATION_S, live.topology.directions, latency=False, purpose="verify")
        result = live.runner.run_once(spec).result
    except NfvperfError as error:
        if isinstance(error, TestbedError):
            error = rig.broken("verify", error)
        return Passed(datapath, problem=str(error), failed=True)
    silent = [str(count.direction) for count in result.counts if not count.received]
    problem = f"no frame came through {', '.join(silent)}" if silent else ""
    return Passed(datapath, result.sent, result.received, problem, failed=bool(silent))


def _problems(version: KeptVersion, binaries: OvsBinaries) -> tuple[str, ...]:
    problems = []
    if checksum(files_of(binaries), Path(version.place)) != version.checksum:
        problems.append(f"its files in {version.place} are not those that were added: remove it, and add it again")
    if binaries.version != version.version:
        problems.append(f"it says it is OVS {binaries.version}, and was added as {version.version}")
    return tuple(problems)


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
