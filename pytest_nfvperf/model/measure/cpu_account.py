"""Accounts for the CPU time of a measurement, and bounds figures of nodes that share CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.metrics import HIGHER, LOWER, metric_of
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology

LABEL, SHARED, SHORT_TURNS, OWN = "node_cpus", "shared", "short-turns", "own"
"""Label of subjects with several nodes. With short turns rings hold the frames of a turn, so ratios of rates show what
frames cost. With the kernel's turns of milliseconds they show how large the rings are."""

TOLERANCE = 0.05
"""A larger difference between the sum of the parts and the machine's own accounting is reported."""


# Nodes that share CPUs wait for one another, so their figures are bounds.


def node_labels(topology: Topology, datapath: DatapathInfo) -> dict[str, str]:
    """How the nodes of a topology share CPUs, or that each has its own; empty for a single DUT."""
    shared = SHORT_TURNS if datapath.short_turns else SHARED
    return {LABEL: shared if datapath.at_least else OWN} if topology.nodes else {}


def shares_cpus(labels: Mapping[str, str]) -> bool:
    return labels.get(LABEL) in (SHARED, SHORT_TURNS)


def as_bound(figure: Figure) -> Figure:
    """Make a rate a lower bound, and a cost or loss an upper one. Ratios to subjects that share alike stay."""
    metric = metric_of(figure.metric)
    if not metric.slowed:
        return figure
    low, high = metric.better == LOWER, metric.better == HIGHER
    return figure.bounded(Why.SHARED_CPUS, low=low, high=high, detail=str(Why.SHARED_CPUS))


class CpuRole(StrEnum):
    """Whose CPU time a part is."""

    PMD_BUSY = "pmd busy"
    PMD_IDLE = "pmd idle"
    PMD = "pmd"
    """If OVS does not tell busy cycles from idle ones."""
    VSWITCHD = "vswitchd"
    SENDER = "sender"
    RECEIVER = "receiver"
    KERNEL = "kernel threads"
    SOFTIRQ = "softirq"
    VNF = "VNFs"
    GENERATOR = "generator"
    TEST = "test process"
    OTHER = "other processes"


POLLING_ROLES = frozenset({CpuRole.PMD_BUSY, CpuRole.PMD_IDLE, CpuRole.PMD})
DATAPATH_ROLES = POLLING_ROLES | {CpuRole.VSWITCHD}
_NO_COST = frozenset({CpuRole.TEST, CpuRole.OTHER, CpuRole.GENERATOR})
"""Roles that do not belong to the cost of a stream."""


@dataclass(frozen=True, slots=True)
class CpuPart:
    """CPU time (``ns``) of one thread or process, or of several of one name.

    ``switches``: context switches, voluntary ones and others; None if nobody counted them.
    """

    role: CpuRole
    name: str
    ns: int
    switches: int | None = None


@dataclass(frozen=True, slots=True)
class CpuAccount:
    """CPU time of the whole machine over one stretch of time, and its parts, the largest first.

    Attributes:
        machine_ns: user, system, irq and softirq time of all CPUs, by the machine's own accounting (proc_stat(5)),
            which counts in steps of 10 ms; and half of the time that it did not count at all.
        softirq_ns: by the same accounting.
        steal_ns: time that a hypervisor took; in none of the parts.
        softirq_apart: the kernel does not charge softirq time to tasks, so it is a separate part; otherwise the parts
            contain ``softirq_ns``.
        blind: what could not be read.
    """

    elapsed_ns: int
    machine_ns: int
    softirq_ns: int
    steal_ns: int
    softirq_apart: bool
    parts: tuple[CpuPart, ...]
    blind: tuple[str, ...] = ()

    def of(self, *roles: CpuRole) -> int:
        return sum(part.ns for part in self.parts if part.role in roles)

    @property
    def sum_ns(self) -> int:
        return sum(part.ns for part in self.parts)

    @property
    def unexplained(self) -> float | None:
        """Share of the machine's own accounting that is in no part; below 0 if the parts are more."""
        return 1 - self.sum_ns / self.machine_ns if self.machine_ns else None

    @property
    def adds_up(self) -> bool:
        return self.unexplained is not None and abs(self.unexplained) <= TOLERANCE

    @property
    def missing(self) -> str:
        if self.unexplained is None:
            return "the machine's own accounting counted no CPU time"
        if self.adds_up:
            return ""
        seen = f"the parts are {self.sum_ns / 1e9:.2f} s of CPU, the machine counted {self.machine_ns / 1e9:.2f} s"
        why = "; ".join(self.blind) or "processes that went with their parents are in no part"
        return f"{seen}, a difference of {-self.unexplained:+.1%}: {why}"

    def cores(self, flowed_ns: float, roles: Iterable[CpuRole]) -> float:
        """CPUs that some roles used on average.

        PMD threads poll all the time, so their mean is over the whole time. The others worked for ``flowed_ns``, while
        streams flowed.
        """
        roles = frozenset(roles)
        polling, others = self.of(*roles & POLLING_ROLES), self.of(*roles - POLLING_ROLES)
        return polling / self.elapsed_ns + others / flowed_ns

    def datapath_cores(self, flowed_ns: float, *, in_kernel: bool) -> float:
        """CPUs that forwarding took: vswitchd's threads, with softirq on a datapath in the kernel.

        In userspace softirqs of vswitchd's system calls are charged to it, and the others belong to the ends.
        """
        return self.cores(flowed_ns, DATAPATH_ROLES) + (self.softirq_ns / flowed_ns if in_kernel else 0.0)

    def cost_cores(self, flowed_ns: float) -> float:
        """CPUs of every part but the test process, a generator and other processes."""
        return self.cores(flowed_ns, frozenset(CpuRole) - _NO_COST)

    @property
    def switches(self) -> int | None:
        return _sum_known(self.parts)


def with_pmd_split(account: CpuAccount, busy: float) -> CpuAccount:
    """Split the PMD threads' time into that on packets (``busy``, a share 0..1) and that on empty polls."""
    parts: list[CpuPart] = []
    for part in account.parts:
        if part.role is CpuRole.PMD:
            busy_ns = round(part.ns * busy)
            parts.append(CpuPart(CpuRole.PMD_BUSY, part.name, busy_ns, part.switches))
            parts.append(CpuPart(CpuRole.PMD_IDLE, part.name, part.ns - busy_ns))
        else:
            parts.append(part)
    return replace(account, parts=merged(parts))


def merged(parts: Iterable[CpuPart]) -> tuple[CpuPart, ...]:
    """Join parts of one role and name, the largest first, and leave out those without CPU time."""
    alike: dict[tuple[CpuRole, str], list[CpuPart]] = {}
    for part in parts:
        alike.setdefault((part.role, part.name), []).append(part)
    joined = [CpuPart(*key, sum(part.ns for part in members), _sum_known(members)) for key, members in alike.items()]
    return tuple(sorted((part for part in joined if part.ns > 0), key=lambda part: -part.ns))


def _sum_known(parts: Iterable[CpuPart]) -> int | None:
    known = [part.switches for part in parts if part.switches is not None]
    return sum(known) if known else None
