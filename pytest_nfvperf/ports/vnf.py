"""The VNF port: a network function that runs as a process of its own, not in the generator's loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, VnfKind, VnfMode
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.generator import GeneratorPort


@dataclass(frozen=True, slots=True)
class VnfSpec:
    """What a VNF shall be.

    ``ports``: two, or one by which frames leave again; each with ``eth_peer`` for VnfMode.MAC, as testpmd has it: the
    destination of frames that *leave* by it. ``mtu``: bytes without Ethernet header and FCS. ``kind``: what
    runs it.
    """

    name: str
    ports: tuple[GeneratorPort, ...]
    mode: VnfMode = VnfMode.IO
    queues: int = 1
    mtu: int = DEFAULT_MTU
    kind: VnfKind = VnfKind.TESTBED


class Vnf(ABC):
    """A VNF that runs. Owns its end."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Wait until it forwards, for as long as one of its kind may take; TestbedError when it does not come up."""

    @abstractmethod
    def counts(self) -> tuple[VnfCounts, ...]:
        """What it forwarded since its start, one for each port that frames come in by.

        Raises:
            TestbedError: it died, does not answer in time, or answers what is not understood; never 0 for that.
        """

    @abstractmethod
    def check_alive(self) -> None:
        """TestbedError with how it ended and the end of its log when it died."""

    @abstractmethod
    def close(self) -> None:
        """End it, also if it died or hangs. Can be called twice."""

    def processes(self) -> Mapping[int, CpuRole]:
        """Process ids and roles of its processes on this machine."""
        return {}


class VnfMaker:
    """Starts VNFs on a testbed. By itself for testbeds that have only the generator's loop."""

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        """What runs a VNF that names no kind, in a topology of ``vnfs`` VNFs. Never TESTBED."""
        return VnfKind.LOOP

    def start(self, spec: VnfSpec, index: int) -> Vnf:
        """Start one; it need not be ready yet. ``index``: its place among the topology's VNFs, for its CPU.

        Raises:
            ConfigError: it cannot be of this kind on this testbed.
            TestbedError: what it needs is missing, or it could not be started.
        """
        raise TestbedError(f"VNF {spec.name!r} asks for kind {spec.kind}, and this testbed has only the loop")
