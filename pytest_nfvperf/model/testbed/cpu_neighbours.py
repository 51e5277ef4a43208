"""How far the DUT's CPUs are from the generator's, in words, and which other CPU would be nearer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.disturbance.cpu_distance import BAND_RATIO, Bands, Distance

MOST_TRIED = 8
"""Other CPUs that are tried: whoever polls there is interrupted for up to a millisecond."""

MOST_LISTED = 4
"""Pairs that have a sentence of their own."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One CPU, and where it is.

    Attributes:
        core: the first of its SMT siblings.
        node: its NUMA node.
        l3: CPUs that share its L3 cache, itself included; empty where the kernel does not tell.
    """

    number: int
    core: int
    node: int
    l3: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuPair:
    """A CPU of the DUT, and the generator's CPU that is farthest from it.

    Attributes:
        cpu: of the generator.
        other: of the DUT.
        round_trip_ns: of a cache line between the two.
        far: whether that is in the far one of two bands; None where this machine has not shown two.
        same_l3: whether they share an L3 cache; None where the kernel does not tell.
    """

    cpu: int
    other: int
    round_trip_ns: int
    far: bool | None = None
    same_l3: bool | None = None

    @property
    def is_far(self) -> bool:
        """True where another CPU might do better. What was measured counts for more than what the kernel is told."""
        return self.same_l3 is False if self.far is None else self.far

    def __str__(self) -> str:
        known = [] if self.far is None else ["far" if self.far else "near"]
        known += [] if self.same_l3 is None else ["same L3" if self.same_l3 else "different L3"]
        what = f"CPU {self.cpu} and CPU {self.other} are {self.round_trip_ns} ns apart"
        return f"{what}: {', '.join(known)}" if known else what


Choice = tuple[CpuPair, CpuPair | None]
"""A pair that is apart, with the one that is nearer; None where there is none."""


def pairs(distances: Sequence[Distance], bands: Bands | None, cpu_topology: Mapping[int, Cpu]) -> tuple[CpuPair, ...]:
    """Each of the DUT's CPUs with the generator's CPU that is farthest from it; without those that were not measured.

    ``distances``: from each of the generator's CPUs to each of the DUT's. ``bands``: what this machine has shown.
    """
    farthest: dict[int, CpuPair] = {}
    for distance in distances:
        trip = distance.round_trip_ns
        if trip is None or (distance.other in farthest and farthest[distance.other].round_trip_ns >= trip):
            continue
        far = None if bands is None or bands.far is None else bands.is_far(trip)
        farthest[distance.other] = CpuPair(
            distance.cpu, distance.other, trip, far, _same_l3(distance.cpu, distance.other, cpu_topology)
        )
    return tuple(farthest.values())


def _same_l3(one: int, other: int, cpu_topology: Mapping[int, Cpu]) -> bool | None:
    if one not in cpu_topology or other not in cpu_topology or not cpu_topology[one].l3 or not cpu_topology[other].l3:
        return None
    return other in cpu_topology[one].l3


def worth_trying(cpus: Iterable[Cpu], generator: Collection[int], in_use: Collection[int]) -> tuple[int, ...]:
    """CPUs that may be nearer to the generator's: the first of each core of its NUMA nodes of which nothing is taken.

    Those that the kernel says to be behind another L3 cache are left out. A hardware thread of a core that works for
    somebody already is near, too, but computes half as fast.

    ``cpus``: all CPUs of the machine that can be used. ``in_use``: those that have an owner, beside the generator.
    """
    by_number = {one_cpu.number: one_cpu for one_cpu in cpus}
    own = [by_number[cpu] for cpu in generator if cpu in by_number]
    nodes = {one_cpu.node for one_cpu in own}
    cores = {by_number[cpu].core for cpu in {*in_use, *generator} if cpu in by_number}
    chosen: list[int] = []
    for number in sorted(by_number):
        one_cpu = by_number[number]
        behind = any(_same_l3(own_cpu.number, number, by_number) is False for own_cpu in own)
        if one_cpu.node in nodes and one_cpu.core not in cores and not behind:
            cores.add(one_cpu.core)
            chosen.append(number)
    return tuple(chosen[:MOST_TRIED])


def closer_cpus(far_pairs: Sequence[CpuPair], tried: Sequence[CpuPair]) -> tuple[Choice, ...]:
    """Each of these pairs with the nearest of those tried, if that is nearer by a band's factor; each is given once."""
    left = sorted(tried, key=lambda pair: (pair.round_trip_ns, pair.other))
    choices: list[Choice] = []
    for pair in far_pairs:
        better = left[0] if left and left[0].round_trip_ns * BAND_RATIO <= pair.round_trip_ns else None
        if better is not None:
            left.pop(0)
        choices.append((pair, better))
    return tuple(choices)


def describe_distances(found: Sequence[CpuPair]) -> str:
    """A sentence for each pair that is apart, the worst first, and one for the others together."""
    worst = sorted((pair for pair in found if pair.is_far), key=lambda pair: -pair.round_trip_ns)[:MOST_LISTED]
    others = [pair for pair in found if pair not in worst]
    if len(others) < 2:
        return "; ".join(map(str, [*worst, *others]))
    trips, bands = [pair.round_trip_ns for pair in others], {pair.far for pair in others}
    word = ": near" if bands == {False} else ": far" if bands == {True} else ""
    generator = cpu_list(sorted({pair.cpu for pair in others}))
    dut = cpu_list([pair.other for pair in others])
    summary = f"CPU {generator} and each of CPU {dut} are {min(trips)} .. {max(trips)} ns apart{word}"
    return "; ".join([*map(str, worst), summary])


def advice(choices: Sequence[Choice], keys: Mapping[int, str]) -> str:
    """What to do about pairs that are apart; "" where there are none.

    ``keys``: those of the testbed file that name the DUT's CPUs (``cpus.pmd``), by CPU.
    """
    better = []
    for pair, found in choices:
        if found is not None:
            now = f", in {keys[found.other]} now" if found.other in keys else ""
            better.append(
                f"take CPU {found.other} ({found.round_trip_ns} ns{now}) in place of CPU {pair.other}: "
                f"{keys[pair.other]} of the testbed file"
            )
    if better:
        return "; ".join(better)
    if not choices:
        return ""
    return (
        "no core of the same NUMA node is free and nearer. Rates are at least what is measured. Pin the CPUs of a "
        "virtual machine to cores that share an L3 cache (docs/explanation/noise.md)"
    )


def bands_text(bands: Bands | None) -> str:
    """What this machine has shown so far."""
    if bands is None:
        return "no run has looked at these CPUs yet"
    if bands.far is None:
        return f"runs here have seen one band: {bands.near}"
    return f"runs here have seen two bands: near {bands.near}, far {bands.far}"
