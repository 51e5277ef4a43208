"""Instruction costs by function, and how two profiles differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

UNNAMED = "(no name)"
"""Functions of a stripped program."""
_LEAST_LISTED = 0.5
"""Smallest listed difference, in instructions a packet."""


@dataclass(frozen=True, slots=True)
class FunctionProfile:
    """The instructions of a DUT's functions while it forwarded ``packets``.

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
        total = sum(count for _, count in self.folded)
        return sum(count for stack, count in self.folded if stack[-1] == UNNAMED) / total if total else 0.0

    def own(self) -> dict[str, float]:
        """Instructions a packet by function, without those of the functions it called."""
        found: Counter[str] = Counter()
        for stack, count in self.folded:
            found[stack[-1]] += count
        return {name: count / self.packets for name, count in found.items()}

    def text(self) -> str:
        """One stack a line, its functions separated by semicolons: the format of flame graph tools."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in self.folded)


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function's own instructions a packet in the first version (``before``) and the second (``after``)."""

    name: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


def below(stacks: Iterable[tuple[tuple[str, ...], int]], root: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The stacks that contain the function ``root``, from it on; equal ones are summed, and sorted by name."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks:
        if root in stack:
            found[stack[stack.index(root) :]] += count
    return tuple(sorted(found.items()))


def differences(before: FunctionProfile, after: FunctionProfile) -> tuple[FunctionCost, ...]:
    """Functions that cost at least half an instruction more or less, the largest difference first."""
    old, new = before.own(), after.own()
    costs = (FunctionCost(name, old.get(name, 0.0), new.get(name, 0.0)) for name in {*old, *new})
    listed = [cost for cost in costs if abs(cost.more) >= _LEAST_LISTED]
    return tuple(sorted(listed, key=lambda cost: (-abs(cost.more), cost.name)))


def profile_lines(profile: FunctionProfile, most: int) -> list[str]:
    costs = sorted(profile.own().items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{profile.name}: {profile.per_packet:,.0f} instructions a packet in Open vSwitch's own code"]
    lines += [f"{cost:10,.1f}  {cost / profile.per_packet:6.1%}  {name}" for name, cost in costs[:most]]
    return [*lines, *_unnamed([profile])]


def difference_lines(before: FunctionProfile, after: FunctionProfile, most: int) -> list[str]:
    more = after.per_packet - before.per_packet
    costs = differences(before, after)
    both = f"{after.per_packet:,.0f} instructions a packet in Open vSwitch's own code, before {before.per_packet:,.0f}"
    lines = [
        f"{after.name} against {before.name}: {both}: {more:+,.0f} ({more / before.per_packet:+.1%})",
        f"{'before':>10}  {'after':>10}  {'more':>10}  function",
    ]
    lines += [f"{cost.before:10,.1f}  {cost.after:10,.1f}  {cost.more:+10,.1f}  {cost.name}" for cost in costs[:most]]
    if not costs:
        lines.append(f"no function differs by {_LEAST_LISTED} instructions a packet or more")
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
