"""VNFs of a topology that run as processes of their own: they are planned, started together and counted by trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.model.errors import run_all
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.topology.ports import Port, PortRole, VnfKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.datapath import BuiltTopology, Datapath
from pytest_nfvperf.ports.generator import GeneratorPort, Vnf, VnfMaker, VnfSpec


def plan_vnfs(topology: Topology, built: BuiltTopology, maker: VnfMaker) -> tuple[VnfSpec, ...]:
    """The topology's VNFs that need processes of their own."""
    owners: dict[str, list[Port]] = {}
    for port in topology.ports:
        if port.role is PortRole.FORWARDER:
            owners.setdefault(port.owner, []).append(port)
    devices = built.attachments()
    specs: dict[str, VnfSpec] = {}
    for name, ports in owners.items():
        # Frames that leave by a port came in by its peer.
        next_hops = {port.peer: port.eth_peer for port in ports}
        ends = tuple(
            GeneratorPort(port.name, devices[port.name] or "", port.mac, eth_peer=next_hops.get(port.name))
            for port in ports
        )
        specs[name] = VnfSpec(name, ends, ports[0].vnf_mode, ports[0].queues, ports[0].mtu)
    kinds = {name: _kind(ports[0].vnf_kind, specs[name], len(specs), maker) for name, ports in owners.items()}
    return tuple(replace(specs[name], kind=kind) for name, kind in kinds.items() if kind is not VnfKind.LOOP)


def _kind(requested: VnfKind, spec: VnfSpec, vnfs: int, maker: VnfMaker) -> VnfKind:
    return maker.default_kind(spec, vnfs) if requested is VnfKind.TESTBED else requested


def all_in_the_loop(topology: Topology, maker: VnfMaker) -> bool:
    """True if every VNF of a topology runs in the generator's own loop, whatever the devices of its ports will be."""
    kinds = {port.owner: port.vnf_kind for port in topology.ports if port.role is PortRole.FORWARDER}
    on_vhost_user = (_kind(requested, VnfSpec(name, ()), len(kinds), maker) for name, requested in kinds.items())
    return all(kind is VnfKind.LOOP for kind in on_vhost_user)


def ports_of(planned: Iterable[VnfSpec]) -> set[str]:
    return {port.name for vnf in planned for port in vnf.ports}


class RunningVnfs:
    """Owns the planned VNFs while they run.

    Attributes:
        kinds: by the VNFs' names, without those of the generator's loop.
    """

    def __init__(self, planned: Sequence[VnfSpec], maker: VnfMaker) -> None:
        """Start all of them. If one cannot be started, end the others and raise TestbedError."""
        self._vnfs: list[Vnf] = []
        self.kinds: Mapping[str, VnfKind] = {vnf.name: vnf.kind for vnf in planned}
        try:
            for index, vnf in enumerate(planned):
                self._vnfs.append(maker.start(vnf, index))
        except BaseException:
            self.close()
            raise

    def wait_ready(self) -> None:
        for vnf in self._vnfs:
            vnf.wait_ready()

    def process_roles(self, datapath: Datapath) -> dict[int, CpuRole]:
        """Roles of the processes of VNFs and DUT on this machine, by process id."""
        owners: list[Datapath | Vnf] = [datapath, *self._vnfs]
        return {pid: role for owner in owners for pid, role in owner.processes().items()}

    def counts(self) -> tuple[VnfCounts, ...]:
        return tuple(counts for vnf in self._vnfs for counts in vnf.counts())

    def check_alive(self) -> None:
        for vnf in self._vnfs:
            vnf.check_alive()

    def close(self) -> None:
        """End them. Every one is tried; the first error is raised at the end. Can be called twice."""
        run_all(self._vnfs.pop().close for _ in self._vnfs[:])


def with_kinds(topology: Topology, kinds: Mapping[str, VnfKind]) -> Topology:
    """The topology with the kind of every VNF, also of those whose kind it left to the testbed."""
    ports = tuple(replace(port, vnf_kind=kinds.get(port.owner, port.vnf_kind)) for port in topology.ports)
    return replace(topology, ports=ports)


def counts_between(before: Iterable[VnfCounts], after: Iterable[VnfCounts]) -> tuple[VnfCounts, ...]:
    early = {counts.port: counts for counts in before}
    pairs = ((early[late.port], late) for late in after if late.port in early)
    names = ("received", "sent", "ring_full", "dropped")
    return tuple(
        replace(late, **{name: getattr(late, name) - getattr(first, name) for name in names}) for first, late in pairs
    )
