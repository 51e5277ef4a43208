"""The VNF port: a network function that runs as a process of its own, not in the generator's loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, VnfKind, VnfMode
from pytest_nfvperf.model.traffic.trial import VnfCounts


@dataclass(frozen=True, slots=True)
class VnfPort:
    """A port of a VNF.

    Attributes:
        name: as in the topology.
        device: its far end as DPDK devargs, as ``ports.datapath.Attachment`` has it.
        mac: address of the port.
        eth_peer: for VnfMode.MAC, the destination of frames that *leave* by this port, as testpmd's --eth-peer.
    """

    name: str
    device: str
    mac: str
    eth_peer: str | None = None


@dataclass(frozen=True, slots=True)
class VnfSpec:
    """What a VNF shall be.

    ``ports``: two, or one by which frames leave again. ``mtu``: bytes without Ethernet header and FCS.
    """

    name: str
    ports: tuple[VnfPort, ...]
    mode: VnfMode = VnfMode.IO
    queues: int = 1
    mtu: int = DEFAULT_MTU


class Vnf(Protocol):
    """A VNF that runs. Owns its end."""

    def wait_ready(self) -> None:
        """Wait until it forwards, for as long as one of its kind may take; TestbedError when it does not come up."""

    def counts(self) -> tuple[VnfCounts, ...]:
        """What it forwarded since its start, one for each port that frames come in by.

        Raises:
            TestbedError: it died, does not answer in time, or answers what is not understood; never 0 for that.
        """

    def check_alive(self) -> None:
        """TestbedError with how it ended and the end of its log when it died."""

    def close(self) -> None:
        """End it, also if it died or hangs. Can be called twice."""


class VnfMaker(Protocol):
    """Starts VNFs on a testbed."""

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        """What runs a VNF that names no kind, in a topology of ``vnfs`` VNFs. Never TESTBED."""

    def start(self, kind: VnfKind, spec: VnfSpec, index: int) -> Vnf:
        """Start one; it need not be ready yet. ``index``: its place among the topology's VNFs, for its CPU.

        Raises:
            ConfigError: it cannot be of this kind on this testbed.
            TestbedError: what it needs is missing, or it could not be started.
        """
