"""Where CPU time of a trial went, and which CPUs share a core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.sla.verdict import Observation
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology

# How much loss the time explains that PMD threads were kept off their CPU.

KEPT_OFF_FLOOR_NS = 100_000
"""Shorter stalls fit into any ring and explain no loss; and they are read to some 50 us only."""

KEPT_OFF_SLACK = 1.5
"""A stall costs more than its own length: the queue it leaves has to be worked off too."""


# Figures of nodes that share CPUs: each waits for the others, so what is seen bounds what it can do from one
# side.

LABEL, SHARED, SHORT_TURNS, OWN = "node_cpus", "shared", "short-turns", "own"
"""Of subjects with several nodes. In short turns rings hold what comes meanwhile, so ratios of rates say what frames
cost; in the kernel's turns of milliseconds they say how large the rings are."""

LOWER_BOUNDS = frozenset({"ndr", "pdr", "throughput", "forwarding_rate", "mpps_per_core", "back_to_back_frames"})
"""Of which a DUT that was kept waiting shows less than it can."""

UPPER_BOUNDS = frozenset({"packet_time", "cycles_per_packet", "loss_ratio", "lost_frames"})
"""Of which it shows more."""

_WHY = "the nodes share CPUs"


def node_labels(topology: Topology, datapath: DatapathInfo) -> dict[str, str]:
    """Whether the nodes of a topology have CPUs of their own, or how they share them; empty for one DUT."""
    shared = SHORT_TURNS if datapath.short_turns else SHARED
    return {LABEL: shared if datapath.at_least else OWN} if topology.nodes else {}


def shares_cpus(labels: Mapping[str, str]) -> bool:
    """True for a subject whose nodes wait for one another's CPU."""
    return labels.get(LABEL) in (SHARED, SHORT_TURNS)


def as_bound(seen: Observation) -> Observation:
    """A rate is at least what was seen, a cost or a loss at most; ratios to a subject that shares alike stay."""
    lower = seen.metric in LOWER_BOUNDS
    upper = seen.metric in UPPER_BOUNDS or seen.metric.startswith("latency_")
    if not (lower or upper):
        return seen
    why = "; ".join(filter(None, (seen.bound_reason, _WHY)))
    return replace(seen, lower_bound=seen.lower_bound or lower, upper_bound=seen.upper_bound or upper, bound_reason=why)


# Who used the machine's CPUs while streams flowed, so that the parts add up to the machine's own accounting.


class CpuRole(StrEnum):
    """Who a part of the CPU time belongs to."""

    PMD_BUSY = "pmd busy"
    PMD_IDLE = "pmd idle"
    PMD = "pmd"
    """Where OVS does not tell busy cycles from idle ones."""
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
_BESIDE = frozenset({CpuRole.TEST, CpuRole.OTHER, CpuRole.GENERATOR})
"""What is not part of the cost of a stream."""

_UNSEEN = "processes that went with their parents are in no part"

TOLERANCE = 0.05
"""How far the sum of the parts may be from the machine's own accounting before it is said."""


@dataclass(frozen=True, slots=True)
class CpuPart:
    """CPU time (``ns``) of one thread or process, or of several of one name.

    ``switches``: context switches, voluntary ones and others; None where nobody counted them.
    """

    role: CpuRole
    name: str
    ns: int
    switches: int | None = None


@dataclass(frozen=True, slots=True)
class CpuAccount:
    """CPU time of the whole machine over one stretch of time, and its parts, the largest first.

    ``machine_ns``: user, system, irq and softirq time of all CPUs, by the machine's own accounting (proc_stat(5)),
    which counts in steps of 10 ms; and half of the time that passed and that it counted as nothing. ``softirq_ns``: by
    the same. ``steal_ns``: time that a hypervisor took; in none of the parts. ``softirq_apart``: the kernel does not
    charge softirq time to tasks, so it is a part of its own; otherwise ``softirq_ns`` is *of which*. ``blind``: what
    could not be looked at, for a person.
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
        """How much of the machine's own accounting the parts leave open, as a ratio of it; below 0: they are more."""
        return 1 - self.sum_ns / self.machine_ns if self.machine_ns else None

    @property
    def adds_up(self) -> bool:
        """True when the parts are within 5 % of the machine's own accounting."""
        return self.unexplained is not None and abs(self.unexplained) <= TOLERANCE

    @property
    def missing(self) -> str:
        """What does not add up, in words; empty when it does."""
        if self.unexplained is None:
            return "the machine's own accounting counted no CPU time"
        if self.adds_up:
            return ""
        seen = f"the parts are {self.sum_ns / 1e9:.2f} s of CPU, the machine counted {self.machine_ns / 1e9:.2f} s"
        why = "; ".join(self.blind) or _UNSEEN
        return f"{seen}, a difference of {-self.unexplained:+.1%}: {why}"

    def cores(self, flowed_ns: float, roles: Iterable[CpuRole]) -> float:
        """CPUs that some roles used on average.

        PMD threads poll at all times: theirs is over the whole time. The others worked for ``flowed_ns``, while streams
        flowed.
        """
        roles = frozenset(roles)
        polling, others = self.of(*roles & POLLING_ROLES), self.of(*roles - POLLING_ROLES)
        return polling / self.elapsed_ns + others / flowed_ns

    def datapath_cores(self, flowed_ns: float, *, in_kernel: bool) -> float:
        """CPUs that forwarding took: vswitchd's threads, with softirq on a datapath in the kernel.

        In userspace without: what vswitchd's system calls raise is charged to it, and the rest is the ends' receiving.
        """
        return self.cores(flowed_ns, DATAPATH_ROLES) + (self.softirq_ns / flowed_ns if in_kernel else 0.0)

    def cost_cores(self, flowed_ns: float) -> float:
        """CPUs that the streams cost: every part but the test process, a generator and processes of others."""
        return self.cores(flowed_ns, frozenset(CpuRole) - _BESIDE)

    @property
    def switches(self) -> int | None:
        """Context switches of all parts that were counted; None when none was."""
        known = [part.switches for part in self.parts if part.switches is not None]
        return sum(known) if known else None


def with_pmd_split(account: CpuAccount, busy: float | None) -> CpuAccount:
    """The PMD threads' time, parted by their cycles on packets (a share 0..1) and on empty polls.

    ``busy`` None: nobody reports it, and nothing is parted.
    """
    if busy is None:
        return account
    parts = [half for part in account.parts for half in (_split(part, busy) if part.role is CpuRole.PMD else [part])]
    return replace(account, parts=merged(parts))


def _split(part: CpuPart, busy: float) -> list[CpuPart]:
    busy_ns = round(part.ns * busy)
    return [
        CpuPart(CpuRole.PMD_BUSY, part.name, busy_ns, part.switches),
        CpuPart(CpuRole.PMD_IDLE, part.name, part.ns - busy_ns),
    ]


def merged(parts: Iterable[CpuPart]) -> tuple[CpuPart, ...]:
    """Parts of one role and name as one, the largest first; those without CPU time left out."""
    found: dict[tuple[CpuRole, str], CpuPart] = {}
    for part in parts:
        known = found.get((part.role, part.name))
        found[part.role, part.name] = part if known is None else _plus(known, part)
    return tuple(sorted((part for part in found.values() if part.ns > 0), key=lambda part: -part.ns))


def _plus(one: CpuPart, other: CpuPart) -> CpuPart:
    counted = [part.switches for part in (one, other) if part.switches is not None]
    return CpuPart(one.role, one.name, one.ns + other.ns, sum(counted) if counted else None)
