"""What a rig is made of: factories that a backend hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.model.ledger.ledger import CounterSnapshot, Ledger
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import TrialResult
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import Ceilings, Generator
from pytest_nfvperf.ports.machine import CpuAccounting, CpuProfiler
from pytest_nfvperf.ports.streams import ConnectEngine, Reachability, RequestEngine, StreamEngine
from pytest_nfvperf.ports.vnf import VnfMaker
from pytest_nfvperf.runs.placement import ForgottenRoundTrips, RoundTrips

LedgerFactory = Callable[[Topology, TrialResult, Sequence[CounterSnapshot], Sequence[CounterSnapshot]], Ledger]


@dataclass(frozen=True, slots=True)
class RigParts:
    """The parts of a rig. Most are factories, because a broken rig is built anew. None: the testbed does not have it.

    ``pmd_cpus``: number of CPUs of poll-mode threads, 0 if unknown. ``polling_cpus``: their distance from the
    generator's is watched; ``round_trips``: seen before. ``make_profiler``: of the CPUs of DUT and streams. ``vnfs``:
    starts VNFs that are processes; None where there is only the generator's loop. ``beside``: the parts of one more rig
    that shares the CPUs: while one works the others are frozen. ``room_beside``: for how many more there is memory now;
    0 where the testbed has but one DUT. ``check_cabling``: raises TestbedError when cables are not where the testbed
    file says.
    """

    make_datapath: Callable[[Dut], Datapath]
    make_generator: Callable[[], Generator]
    make_ledger: LedgerFactory | None
    ceilings: Ceilings
    pmd_cpus: int
    polling_cpus: tuple[int, ...] = ()
    round_trips: RoundTrips = field(default_factory=ForgottenRoundTrips)
    make_streams: Callable[[], StreamEngine] | None = None
    make_cpu_accounting: Callable[[], CpuAccounting | None] | None = None
    make_requests: Callable[[], RequestEngine] | None = None
    make_connects: Callable[[], ConnectEngine] | None = None
    reachability: Reachability | None = None
    make_profiler: Callable[[], CpuProfiler] | None = None
    vnfs: VnfMaker | None = None
    check_cabling: Callable[[Datapath, Generator], None] | None = None
    beside: Callable[[str], RigParts] | None = None
    room_beside: Callable[[], int] = lambda: 0
