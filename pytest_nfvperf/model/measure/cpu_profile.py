"""Profiles of CPU time by function, and instructions for each packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import metric_of

# What a packet costs in CPU instructions, counted where time is virtual (QEMU's ``-icount``).
#
# The count knows no caches, contention or NUMA: it has a metric and unit of its own, never beside wall-clock
# figures. It repeats to 0.1 % on a machine that others use too, so small changes of cost show.

INSTRUCTIONS_PER_PACKET = "instructions_per_packet"
INSTRUCTIONS = "instructions"

TIME, VIRTUAL, WALL = "time", "virtual", "wall"
"""What a second is, in labels and fingerprints: a count of instructions, or the clock's. Without a label it is WALL."""


def why_not_in(time: str, metric: str) -> str:
    """Why a metric cannot be measured in this kind of time, and what to do; "" if it can."""
    if time == VIRTUAL and not metric_of(metric).virtual:
        return (
            f"{metric} is a figure of the clock, and in virtual time a second is a count of instructions: ask for "
            f"{INSTRUCTIONS_PER_PACKET}, or leave out --nfv-virtual-time"
        )
    if time == WALL and metric_of(metric).virtual:
        return f"{metric} is counted in virtual time only: add --nfv-virtual-time"
    return ""


# Where CPU cycles went: samples of call stacks, folded.

UNKNOWN = "[unknown]"
CPU_COUNTERS = ("cycles", "instructions", "cache-misses")
"""The CPU's own counters, as the kernel names them."""
_MOST_IN_FAILURES = 5
"""Functions in a failure; the attachment has more."""


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """Samples of call stacks.

    Attributes:
        event: "cycles", or "cpu-clock" without performance counters.
        cpus: observed ones.
        folded: stacks, the process first and the function that ran last at the end, with their number of samples. A
            function without a name is its binary, in brackets.
        counts: of the same time, by CPU_COUNTERS and the DUT's own counters; what nobody counted is absent.
    """

    event: str
    cpus: tuple[int, ...]
    folded: tuple[tuple[tuple[str, ...], int], ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Of all stacks."""
        return sum(count for _, count in self.folded)

    @property
    def unknown_share(self) -> float:
        """Share of the samples whose function has no name: its binary has no symbols."""
        lost = sum(count for stack, count in self.folded if without_name(stack[-1]))
        return lost / self.samples if self.samples else 0.0

    @property
    def cycles_per_packet(self) -> float | None:
        """TSC cycles of the poll-mode threads, polls included, for each packet that they received."""
        packets, spent = self.counts.get("pmd.packets_received"), ("pmd.cycles_busy", "pmd.cycles_idle")
        known = packets and all(name in self.counts for name in spent)
        return sum(self.counts[name] for name in spent) / packets if packets and known else None

    @property
    def facts(self) -> str:
        """What the counters say, as far as they counted."""
        cycles, instructions, misses = map(self.counts.get, CPU_COUNTERS)
        packets, spent = self.counts.get("pmd.packets_received"), self.cycles_per_packet
        busy = self.counts.get("pmd.cycles_busy", 0)
        facts = [f"{spent:.0f} cycles a packet, {busy / packets:.0f} without empty polls"] if spent and packets else []
        facts += [f"{instructions / cycles:.2f} instructions a cycle"] if instructions and cycles else []
        facts += [f"{misses / packets:.2f} cache misses a packet"] if misses is not None and packets else []
        return ", ".join(facts)

    def top(self, most: int = 10) -> tuple[tuple[str, str, float], ...]:
        """The functions that ran most: process, function, share of all samples."""
        return tuple((process, name, share) for (process, name), share in _shares(self)[:most])

    def changes(self, before: CpuProfile, most: int = 10) -> tuple[tuple[str, str, float, float], ...]:
        """The functions whose share of the samples changed most since another profile.

        Process, function, share before, share now; the largest change first, in either direction.
        """
        old, new = (dict(_shares(profile)) for profile in (before, self))
        both = [(*name, old.get(name, 0.0), new.get(name, 0.0)) for name in dict.fromkeys([*new, *old])]
        return tuple(sorted(both, key=lambda one: -abs(one[3] - one[2]))[:most])

    def changes_text(self, before: CpuProfile, most: int = 10) -> str:
        """The changes for a person. A share says nothing of how much CPU time there was in all."""
        lines = [f"{before.samples} samples of {before.event} before, {self.samples} of {self.event} now"]
        if before.samples and self.samples:
            by_chance = (1 / before.samples + 1 / self.samples) ** 0.5  # twice the deviation of a share of a half
            lines[0] += f"; a share may differ by {by_chance:.1%} by chance"
        was, now = before.cycles_per_packet, self.cycles_per_packet
        known = was is not None and now is not None
        lines += [f"before: {before.facts}", f"now: {self.facts}"] if before.facts and self.facts else []
        lines += ["share, cycles a packet:"] if known else []
        for process, name, old, new in self.changes(before, most):
            cycles = f"{old * (was or 0):6.0f} -> {new * (now or 0):4.0f}" if known else ""
            lines.append(f"{old:6.1%} -> {new:6.1%}{cycles}  {process}: {name}")
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """One stack a line, its functions separated by semicolons, as flame graphs' tools read it."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in self.folded)

    def summary(self, most: int = 10) -> str:
        """The functions that ran most, and what the profile cannot tell, for a person."""
        seen = ", ".join(map(str, self.cpus))
        lines = [f"{self.samples} samples of {self.event} on CPU {seen}", *filter(None, [self.facts])]
        spent = self.cycles_per_packet
        for process, name, share in self.top(most):
            cycles = "" if spent is None else f"{share * spent:6.0f} cycles"
            lines.append(f"{share:6.1%}{cycles}  {process}: {name}")
        if self.unknown_share > 0:
            lines.append(
                f"{self.unknown_share:.1%} of the samples are in functions without a name: install the debug symbols "
                "of those programs (Debian: packages *-dbgsym), or measure a build of Open vSwitch that has them "
                "(nfvperf ovs add git:v3.1.7)"
            )
        return "\n".join(lines) + "\n"


def without_name(function: str) -> bool:
    """Whether it is named after its binary, because that has no symbols."""
    return function.startswith("[")


def _shares(profile: CpuProfile) -> list[tuple[tuple[str, str], float]]:
    """Share of the samples of each process's functions, by what ran last; the largest first."""
    ran: Counter[tuple[str, str]] = Counter()
    for stack, count in profile.folded:
        ran[stack[0], stack[-1]] += count
    return [(name, count / profile.samples) for name, count in ran.most_common()]


def folded(stacks: Iterable[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Equal stacks as one, in the order of their names."""
    return tuple(sorted(Counter(stacks).items()))


def profile_text(outcomes: Sequence[Outcome], profiles: Mapping[str, CpuProfile]) -> str | None:
    """The functions that ran most in the profiled runs of these outcomes; None if none was profiled."""
    found = [named for outcome in outcomes if (named := profiled_run(outcome, profiles)) is not None]
    return "\n".join(f"{name}, once more: {profile.summary(_MOST_IN_FAILURES)}" for name, profile in found) or None


def profiled_run(outcome: Outcome, profiles: Mapping[str, CpuProfile]) -> tuple[str, CpuProfile] | None:
    """The first run of an outcome that was profiled."""
    return next(((trial, profiles[trial]) for trial in outcome.trials if trial in profiles), None)
