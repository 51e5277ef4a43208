"""The generator's side of a backend whose DUT is on this machine: what it is given, and what its engine cannot be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_nfvperf.adapters.generators.engine import StartEngine
from pytest_nfvperf.adapters.generators.packet_socket import ENGINE as VIRTUAL_ENGINE
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.maker import default_vnf_kind
from pytest_nfvperf.features import Point
from pytest_nfvperf.measure.cpu_placement import RoundTrips
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.ports import GENERATOR, Port, PortKind, PortRole, VnfKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import Ceilings, Generator
from pytest_nfvperf.ports.machine import Clock


@dataclass(frozen=True, slots=True)
class ReservedMachine:
    """A machine that a run has taken.

    Attributes:
        recording: file for the conversation with the generator; None: it is not recorded.
        shared: other runs' functional tests have the same CPUs, and take turns with ours.
    """

    journal: Journal
    clock: Clock
    facts: Mapping[str, Any]
    recording: Path | None
    shared: bool = False

    def digest(self, names: tuple[str, ...], **more: object) -> str:
        """Of the named facts, and of what else the cached value depends on."""
        return digest({name: self.facts.get(name) for name in names} | more)


class GeneratorSide(Protocol):
    """A generator that sends to a DUT on this machine."""

    def check(self) -> None:
        """ConfigError or TestbedError when something that it needs is missing. Starts nothing."""

    def describe(self) -> str:
        """What it is and where, for the header."""

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest of its own ports; None where they have none, or it is not known yet."""

    def polling_cpus(self) -> tuple[int, ...]:
        """CPUs of the DUT that share rings with it: their distance from its own matters."""

    def round_trips(self, machine: ReservedMachine) -> RoundTrips:
        """Those of earlier runs between its CPUs and ``polling_cpus``."""

    def ceilings(self, machine: ReservedMachine) -> Ceilings:
        """Its own limits on this machine."""

    def extra_generator_mib(self) -> int | None:
        """Hugepages, MiB, of one more generator on the same CPUs; None where there can be only one."""

    def make(self, machine: ReservedMachine, beside: str = "") -> Generator: ...

    def close(self) -> None:
        """Release what it took, before the machine is released. Can be called twice."""


@dataclass(frozen=True, slots=True)
class FeatureEngine:
    """A generator of a feature, for ``generator.engine`` of the testbed.

    Attributes:
        side: makes its side of a backend.
        replay: makes one that answers as it was recorded, from the testbed, a directory for its logs, and what starts
            the recorded conversation. None: its conversation cannot be recorded.
    """

    side: Callable[[Testbed], GeneratorSide]
    replay: Callable[[Testbed, Path, StartEngine], Generator] | None = None


FEATURE_ENGINES = Point[FeatureEngine]("engine")


def digest(facts: Mapping[str, object]) -> str:
    """A short hash, the same for the same facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


_NAMES = {"trex": "TRex", VIRTUAL_ENGINE: "in virtual time the generator"}
"""Of those engines, as a person writes them."""


def lacks_roles(engine: str, testbed: Testbed, topology: Topology, dut: Dut) -> str | None:
    """What the topology wants of the generator and the engine cannot be, and what to do; None when it can be all.

    Args:
        engine: "trex", "embedded", ... Only those that send and receive and do nothing else lack anything.
        testbed: its ``vnf`` and its CPUs say what runs VNFs.
        topology: what to deploy.
        dut: on which datapath.
    """
    name = _NAMES.get(engine)
    if name is None:
        return None
    loops = _in_the_loop(testbed, topology, dut)
    if loops and engine == VIRTUAL_ENGINE:
        return f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in it"
    if loops:
        return (
            f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in the generator. "
            "Write 'vnf: {kind: testpmd}' (or qemu) in the testbed file, or use the embedded engine"
        )
    for port in topology.ports:
        other = _other_than_a_cabled_port(port)
        if other:
            return f"{name} only sends and receives on cabled ports: {port.name!r} of {topology.name!r} is {other}"
    return None


def _in_the_loop(testbed: Testbed, topology: Topology, dut: Dut) -> list[str]:
    """The VNFs that the generator itself would forward for."""
    owners = {port.owner: port for port in topology.ports if port.role is PortRole.FORWARDER}
    vhost_user = (dut.kind or testbed.ovs.datapath) == "dpdk"
    return [owner for owner, port in owners.items() if _kind(testbed, port, len(owners), vhost_user) is VnfKind.LOOP]


def _kind(testbed: Testbed, port: Port, vnfs: int, vhost_user: bool) -> VnfKind:
    if port.vnf_kind is not VnfKind.TESTBED:
        return port.vnf_kind
    return default_vnf_kind(
        testbed, vnfs, vhost_user=vhost_user and port.kind in {PortKind.TESTBED, PortKind.VHOST_USER}
    )


def _other_than_a_cabled_port(port: Port) -> str | None:
    if port.owner != GENERATOR:
        return None
    if port.role is not PortRole.ENDPOINT:
        return f"a {port.role}"
    return None if port.kind is PortKind.TESTBED else f"a {port.kind} port"
