"""Costs by function, from a profile of instructions, and how two profiles differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

UNNAMED = "(no name)"
"""Functions of a program that was stripped."""
_LEAST_TOLD = 0.5
"""Instructions a packet: a difference below it is not listed."""


@dataclass(frozen=True, slots=True)
class FunctionProfile:
    """What a DUT's functions executed while it forwarded ``packets``.

    ``folded``: stacks, the outermost function first, each with the instructions that its last function executed.
    """

    name: str
    packets: int
    folded: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def per_packet(self) -> float:
        return sum(count for _, count in self.folded) / self.packets

    @property
    def unnamed_share(self) -> float:
        """Share of the instructions in functions without a name."""
        total = sum(count for _, count in self.folded)
        return sum(count for stack, count in self.folded if stack[-1] == UNNAMED) / total if total else 0.0

    def own(self) -> dict[str, float]:
        """Instructions a packet that each function executed itself, without those that it called."""
        found: Counter[str] = Counter()
        for stack, count in self.folded:
            found[stack[-1]] += count
        return {name: count / self.packets for name, count in found.items()}

    def text(self) -> str:
        """One stack a line, its functions parted by semicolons, as flame graphs' tools read it."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in self.folded)


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """Instructions a packet that a function executed itself. ``before``: in the first version; ``after``: the other."""

    name: str
    before: float
    after: float

    @property
    def more(self) -> float:
        """What it executes more; negative: less."""
        return self.after - self.before


def below(stacks: Iterable[tuple[tuple[str, ...], int]], root: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Those stacks that hold a function, from it on; equal ones as one, in the order of their names."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks:
        if root in stack:
            found[stack[stack.index(root) :]] += count
    return tuple(sorted(found.items()))


def differences(before: FunctionProfile, after: FunctionProfile) -> tuple[FunctionCost, ...]:
    """Functions that cost more or less, the largest difference first; those below half an instruction are left out."""
    old, new = before.own(), after.own()
    costs = (FunctionCost(name, old.get(name, 0.0), new.get(name, 0.0)) for name in {*old, *new})
    told = [cost for cost in costs if abs(cost.more) >= _LEAST_TOLD]
    return tuple(sorted(told, key=lambda cost: (-abs(cost.more), cost.name)))


def profile_lines(profile: FunctionProfile, most: int) -> list[str]:
    """The functions of one version that cost most."""
    costs = sorted(profile.own().items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{profile.name}: {profile.per_packet:,.0f} instructions a packet in Open vSwitch's own code"]
    lines += [f"{cost:10,.1f}  {cost / profile.per_packet:6.1%}  {name}" for name, cost in costs[:most]]
    return [*lines, *_unnamed([profile])]


def difference_lines(before: FunctionProfile, after: FunctionProfile, most: int) -> list[str]:
    """The functions in which two versions differ most."""
    more = after.per_packet - before.per_packet
    costs = differences(before, after)
    told = f"{after.per_packet:,.0f} instructions a packet in Open vSwitch's own code, before {before.per_packet:,.0f}"
    lines = [
        f"{after.name} against {before.name}: {told}: {more:+,.0f} ({more / before.per_packet:+.1%})",
        f"{'before':>10}  {'after':>10}  {'more':>10}  function",
    ]
    lines += [f"{cost.before:10,.1f}  {cost.after:10,.1f}  {cost.more:+10,.1f}  {cost.name}" for cost in costs[:most]]
    if not costs:
        lines.append(f"no function differs by {_LEAST_TOLD} instructions a packet or more")
    elif len(costs) > most:
        rest = sum(cost.more for cost in costs[most:])
        lines.append(f"{len(costs) - most} more functions differ, by {rest:+,.1f} instructions a packet together")
    return [*lines, *_unnamed([before, after])]


def _unnamed(profiles: Sequence[FunctionProfile]) -> list[str]:
    return [
        f"{each.unnamed_share:.0%} of the instructions of {each.name} are in functions without a name: its programs "
        "were stripped. `nfvperf ovs add git:REVISION` builds a version with names"
        for each in profiles
        if each.unnamed_share > 0.01
    ]
