"""Where CPU cycles went: samples of call stacks, folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

UNKNOWN = "[unknown]"


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """Samples of call stacks.

    Attributes:
        event: what was sampled: "cycles", or "cpu-clock" where there is no performance counter.
        cpus: that were looked at.
        folded: stacks, the process's name first and the function that ran last, each with its number of samples.
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
        ran: Counter[tuple[str, str]] = Counter()
        for stack, count in self.folded:
            ran[stack[0], stack[-1]] += count
        return tuple((process, name, count / self.samples) for (process, name), count in ran.most_common(most))

    def text(self) -> str:
        """One stack a line, its functions parted by semicolons, as flame graphs' tools read it."""
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


def folded(stacks: Iterable[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Equal stacks as one, in the order of their names."""
    return tuple(sorted(Counter(stacks).items()))
