"""Which hops of a path a picture shows by themselves: those that lose frames, and as many others as have room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.ledger.ledger import Hop, HopKind

MOST_BOXES = 10


@dataclass(frozen=True, slots=True)
class Box:
    """One hop, or several in a row that lose nothing."""

    hops: tuple[Hop, ...]

    @property
    def label(self) -> str:
        """Its name in one or two lines."""
        if len(self.hops) > 1:
            return f"{len(self.hops)} hops\nwithout loss"
        (hop,) = self.hops
        head, _, tail = hop.name.partition(", " if ", " in hop.name else " ")
        if hop.kind is HopKind.DATAPATH and "," not in hop.name:
            return f"{_short(hop.name)}\ndatapath"
        if hop.kind is HopKind.VNF and not tail:
            return f"{_short(head)}\nVNF"
        return f"{_short(head)}\n{_short(tail)}" if tail else _short(head)


_LONGEST = 15


def _short(name: str) -> str:
    """Bridges on a long chain are its first and last."""
    parts = name.split(" + ")
    if len(name) > _LONGEST and len(parts) > 2:
        name = f"{parts[0]} … {parts[-1]}"
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def clear_hops(hops: Sequence[Hop], most: int = MOST_BOXES) -> tuple[Box, ...]:
    """Boxes for hops: where there are too many, runs of hops without loss become one box, the longest first."""
    boxes = [Box((hop,)) for hop in hops]
    while len(boxes) > most:
        start, length = _longest_run(boxes)
        if length < 2:
            break
        merged = Box(tuple(hop for box in boxes[start : start + length] for hop in box.hops))
        boxes[start : start + length] = [merged]
    return tuple(boxes)


def _longest_run(boxes: Sequence[Box]) -> tuple[int, int]:
    """Start and length of the longest run of boxes without loss between the first and the last box."""
    best, start = (0, 0), 1
    for at in range(1, len(boxes)):
        if at == len(boxes) - 1 or any(hop.missing or hop.losses for hop in boxes[at].hops):
            best = max(best, (start, at - start), key=lambda run: run[1])
            start = at + 1
    return best
