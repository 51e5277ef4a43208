"""Profiles of CPU time by function, and instructions for each packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
_MOST_IN_FAILURES = 5
"""Functions in a failure; the attachment has more."""


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """Samples of call stacks.

    Attributes:
        event: "cycles", or "cpu-clock" without performance counters.
        cpus: observed ones.
        folded: stacks, the process first and the function that ran last at the end, with their number of samples.
    """

    event: str
    cpus: tuple[int, ...]
    folded: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def samples(self) -> int:
        """Of all stacks."""
        return sum(count for _, count in self.folded)

    @property
    def unknown_share(self) -> float:
        """Share of the samples whose function has no name: its binary has no symbols."""
        lost = sum(count for stack, count in self.folded if stack[-1] == UNKNOWN)
        return lost / self.samples if self.samples else 0.0

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
        lines += [
            f"{old:6.1%} -> {new:6.1%}  {process}: {name}" for process, name, old, new in self.changes(before, most)
        ]
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """One stack a line, its functions separated by semicolons, as flame graphs' tools read it."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in self.folded)

    def summary(self, most: int = 10) -> str:
        """The functions that ran most, and what the profile cannot tell, for a person."""
        seen = ", ".join(map(str, self.cpus))
        lines = [f"{self.samples} samples of {self.event} on CPU {seen}"]
        lines += [f"{share:6.1%}  {process}: {name}" for process, name, share in self.top(most)]
        if self.unknown_share > 0:
            lines.append(
                f"{self.unknown_share:.1%} of the samples are in functions without a name: install the debug symbols "
                "of those programs (Debian: packages *-dbgsym)"
            )
        return "\n".join(lines) + "\n"


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
