"""The ledger as text: the path of the frames, downwards, with the loss at the hop where it happened.

    p0 -> p1: 10,000 offered, 9,000 received, 1,000 lost
          10,000  generator p0
          10,000  p0 rx
     ->    9,000  br0              1,000 lost: drop_action_of_pipeline (priority=200,in_port=1 actions=drop)
           9,000  p1 tx
           9,000  generator p1

The number is what came out of the hop.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.ledger.ledger import FramePath, Hop, Ledger
from pytest_nfvperf.model.traffic.trial import TrialSpec

_LONGEST_HOP = 36
OF_OTHERS = "of others, which are not of this trial (or counted twice)"


def ledger_text(ledger: Ledger) -> str:
    """The paths of the frames; without paths, the losses by hop and reason."""
    blocks = [_path_text(path) for path in ledger.paths] or [_table_text(ledger)]
    blocks += [_path_text(branch, "copies due") for branch in ledger.branches]
    if ledger.beside:
        blocks.append("\n".join(["beside the path (copies, not the trial's frames):", *_hop_rows(ledger.beside)]))
    if ledger.notes:
        blocks.append("\n".join(f"note: {note}" for note in ledger.notes))
    return "\n\n".join(blocks)


def weakness(spec: TrialSpec) -> tuple[int, bool]:
    """The order in which trials that lost frames are worth a look: the lowest load first, no warm-up before others."""
    return spec.load_fps, spec.purpose == "warm-up"


def _path_text(path: FramePath, entered: str = "offered") -> str:
    rest = f", {path.unaccounted:,} of them unexplained" if path.unaccounted else ""
    rest += f"; frames of others in the counters: {path.foreign_joined:,}" if path.foreign_joined else ""
    head = (
        f"{path.direction.replace('->', ' -> ')}: {path.offered:,} {entered}, {path.received:,} received, "
        f"{path.lost:,} lost{rest}"
    )
    return "\n".join([head, *_hop_rows(path.hops, path.foreign)])


def _hop_rows(hops: Sequence[Hop], foreign: Sequence[tuple[int, int]] = ()) -> list[str]:
    wide = max(len(f"{max(hop.left, hop.entered):,}") for hop in hops)
    name = min(max(len(hop.name) for hop in hops), _LONGEST_HOP)
    rows = []
    for hop, others in zip(hops, foreign or [(0, 0)] * len(hops), strict=True):
        said = [*hop_losses(hop, others)] or [""]
        mark = "->" if hop.missing > 0 else "  "
        rows.append(f" {mark} {hop.left:>{wide},}  {hop.name:<{name}}  {said[0]}".rstrip())
        rows += [" " * (4 + wide + 2 + max(name, len(hop.name)) + 2) + more for more in said[1:]]
    return rows


def hop_losses(hop: Hop, others: tuple[int, int]) -> list[str]:
    """What was lost in a hop, a line a reason; what stays unexplained; and what is of others, as FramePath.foreign."""
    joined, ended = others
    said = [
        f"{loss.frames:,} lost: {loss.reason}" + (f" ({loss.detail})" if loss.detail else "") for loss in hop.losses
    ]
    if hop.unexplained > ended:
        said.append(f"{hop.unexplained - ended:,} lost, unexplained")
    if ended:
        said.append(f"{ended:,} of others end here")
    if joined:
        said.append(f"{joined:,} {OF_OTHERS}")
    return said


def _table_text(ledger: Ledger) -> str:
    rows = [("offered", "", ledger.offered)]
    rows += [(line.hop, line.reason, -line.frames) for line in ledger.lines]
    rows += [("received", "", ledger.received), ("unexplained", "", ledger.unaccounted)]
    rows += [("of others, or counted twice", "", -ledger.foreign)] if ledger.foreign else []
    hops = max(len(hop) for hop, _, _ in rows)
    reasons = max(len(reason) for _, reason, _ in rows)
    return "\n".join(f"{hop:<{hops}}  {reason:<{reasons}}  {frames:>15,}" for hop, reason, frames in rows)
