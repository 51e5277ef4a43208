"""The generator's side of a backend whose DUT is on this machine, and the roles that an engine cannot take."""

from __future__ import annotations

import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.engine import StartEngine
from pytest_nfvperf.adapters.generators.packet_socket import ENGINE as VIRTUAL_ENGINE
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.testpmd.console import PROGRAM
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import ON_DPDK, Dut, Testbed
from pytest_nfvperf.model.topology.ports import GENERATOR, Port, PortKind, PortRole, VnfKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import Ceilings, Generator, GeneratorPort
from pytest_nfvperf.ports.machine import Clock, StoredValue


@dataclass(frozen=True, slots=True)
class ReservedMachine:
    """A machine that a run has locked.

    Attributes:
        recording: file for the conversation with the generator; None: it is not recorded.
        shared: functional tests of other runs use the same CPUs.
    """

    journal: Journal
    clock: Clock
    facts: Mapping[str, Any]
    recording: Path | None
    shared: bool = False

    def digest(self, names: tuple[str, ...], **more: object) -> str:
        """Hash the named facts and ``more``: everything that a cached value depends on."""
        return digest({name: self.facts.get(name) for name in names} | more)


class GeneratorSide(ABC):
    """A generator that sends to a DUT on this machine: that of ``generator.engine`` of the testbed file."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed

    @classmethod
    def replayed(cls, testbed: Testbed, directory: Path, start: StartEngine) -> Generator:  # noqa: ARG003
        """A generator that answers as recorded.

        ``directory``: for logs. ``start``: starts the recorded conversation. ConfigError if none can be recorded.
        """
        raise ConfigError(f"engine {testbed.generator.engine!r} plays no recording", key="generator.recording")

    @staticmethod  # noqa: B027 - it sends all
    def check_trial(spec: TrialSpec, ports: Mapping[str, GeneratorPort]) -> None:
        """ConfigError or UnavailableError for a trial that it could not send on these ports.

        A plan, which sends nothing, asks it.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigError or TestbedError if something that it needs is missing. Starts nothing."""

    @abstractmethod
    def describe(self) -> str:
        """What it is and where, for the header."""

    @abstractmethod
    def make(self, machine: ReservedMachine, beside: str = "") -> Generator:
        """``beside``: suffix of one more generator on the same CPUs."""

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest of its own ports; None if they have none, or it is not known yet."""
        return None

    def polling_cpus(self) -> tuple[int, ...]:
        """CPUs of the DUT that share rings with it: their distance from its own matters."""
        return ()

    def round_trips(self, machine: ReservedMachine) -> StoredValue:  # noqa: ARG002 - see below
        """Those of earlier runs between its CPUs and ``polling_cpus``; nothing is stored if nobody moves them."""
        return StoredValue()

    def ceilings(self, machine: ReservedMachine) -> Ceilings | None:  # noqa: ARG002 - see below
        """Its own limits on this machine; None if nobody can measure them."""
        return None

    def extra_generator_mib(self) -> int | None:
        """Hugepages, MiB, of one more generator on the same CPUs; None where there can be only one."""
        return None

    def close(self) -> None:  # noqa: B027 - nothing was taken
        """Release what it took, before the machine is released. Can be called twice."""


CheckTrial = Callable[[TrialSpec, Mapping[str, GeneratorPort]], None]


FEATURE_ENGINES = Point[type[GeneratorSide]]("engine")
_NAMES = {"trex": "TRex", VIRTUAL_ENGINE: "in virtual time the generator"}
"""Engines that only send and receive, as messages name them."""
VHOST_USER = "net_virtio_user,"
"""How the devices of vhost-user ports begin."""
_USUAL_VNFS = 2
"""In pvvp, and in S4's chain."""


def digest(facts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def lacks_roles(engine: str, testbed: Testbed, topology: Topology, dut: Dut) -> str | None:
    """Which of the topology's roles the engine cannot take, and what to do; None if it can take all.

    Only engines that do nothing but send and receive lack any. The testbed's ``vnf`` and CPUs decide what runs VNFs.
    """
    name = _NAMES.get(engine)
    if name is None:
        return None
    owners = {port.owner: port for port in topology.ports if port.role is PortRole.FORWARDER}
    vhost_user = (dut.kind or testbed.ovs.datapath) in ON_DPDK
    # VNFs that the generator itself would forward for.
    loops = [owner for owner, port in owners.items() if _kind(testbed, port, len(owners), vhost_user) is VnfKind.LOOP]
    if loops and engine == VIRTUAL_ENGINE:
        return f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in it"
    if loops:
        return (
            f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in the generator. "
            "Write 'vnf: {kind: testpmd}' (or qemu) in the testbed file, or use the embedded engine"
        )
    for port in topology.ports:
        is_endpoint = port.role is PortRole.ENDPOINT
        if port.owner == GENERATOR and not (is_endpoint and port.kind is PortKind.TESTBED):
            other = f"a {port.kind} port" if is_endpoint else f"a {port.role}"
            return f"{name} only sends and receives on cabled ports: {port.name!r} of {topology.name!r} is {other}"
    return None


def check_of(engine: str) -> CheckTrial | None:
    """Finds what an engine could not send; None: it sends all that passes the checks of every engine."""
    return FEATURE_ENGINES.part(engine).check_trial if engine in FEATURE_ENGINES.names() else None


def _kind(testbed: Testbed, port: Port, vnfs: int, vhost_user: bool) -> VnfKind:
    if port.vnf_kind is not VnfKind.TESTBED:
        return port.vnf_kind
    return default_vnf_kind(
        testbed, vnfs, vhost_user=vhost_user and port.kind in {PortKind.TESTBED, PortKind.VHOST_USER}
    )


def default_vnf_kind(testbed: Testbed, vnfs: int, *, vhost_user: bool) -> VnfKind:
    """The testbed file's kind; by default testpmd if each VNF has its own CPU, and otherwise the generator's loop.

    With fewer CPUs than the suites' own chains have VNFs the default is the loop, too: chains of one and of two would
    be of different kinds and could not be compared.

    ``vnfs``: their number in the topology. ``vhost_user``: whether all of the VNF's ports are.
    """
    if testbed.vnf_kind is not None:
        return VnfKind(testbed.vnf_kind)
    room = len(testbed.cpus.vnf) >= max(vnfs, _USUAL_VNFS)
    return VnfKind.TESTPMD if vhost_user and room and shutil.which(PROGRAM) else VnfKind.LOOP
