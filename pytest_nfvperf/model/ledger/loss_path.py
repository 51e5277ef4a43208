"""A path is built from stages: how many frames came out of each, where anybody counted that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.ledger.ledger import FramePath, Hop, HopKind, Loss


@dataclass(frozen=True, slots=True)
class Stage:
    """A hop as its counters show it. ``left``: frames that came out of it, None where nobody counts them.

    ``node``: on which it is, where there are several.
    """

    name: str
    kind: HopKind
    left: int | None
    losses: tuple[Loss, ...] = ()
    node: str = ""


def frame_path(direction: str, offered: int, stages: Sequence[Stage]) -> FramePath:
    """Chain the stages; those that nobody counted behind become one hop with the next.

    Raises:
        ValueError: no stages, or nobody counted behind the last.
    """
    hops: list[Hop] = []
    open_stages: list[Stage] = []
    entered = offered
    for stage in stages:
        open_stages.append(stage)
        if stage.left is not None:
            hops.append(_one_hop(open_stages, entered, stage.left))
            entered = stage.left
            open_stages = []
    if open_stages:
        raise ValueError(f"path {direction}: nobody counted what came out of {open_stages[-1].name!r}")
    return FramePath(direction, tuple(hops))


def _one_hop(stages: Sequence[Stage], entered: int, left: int) -> Hop:
    kinds = {stage.kind for stage in stages}
    # The datapath's own reasons are for any hop that it is a part of.
    kind = HopKind.DATAPATH if HopKind.DATAPATH in kinds else stages[-1].kind
    losses = tuple(loss for stage in stages for loss in stage.losses if loss.frames > 0)
    node = next((stage.node for stage in reversed(stages) if stage.node), "")
    return Hop(", ".join(stage.name for stage in stages), kind, entered, left, losses, node)


def attribute(
    paths: Sequence[FramePath], pool: Mapping[str, int], details: Mapping[str, str] | None = None, node: str = ""
) -> tuple[tuple[FramePath, ...], dict[str, int]]:
    """Give reasons that the datapath counts as a whole to the hops where frames are missing without one.

    Of several hops each gets its share by what it lacks, and the loss says so. A hop never gets more than it
    lacks: the rest was not of this trial (learning frames, neighbour discovery).

    Args:
        paths: of all directions.
        pool: frames by reason, the surest first.
        details: what to say of a reason.
        node: whose datapath counted, where there are several.

    Returns:
        The paths with the reasons, and what of the pool no hop lacked.
    """
    hops = [hop for path in paths for hop in path.hops]
    lacking = [max(hop.unexplained, 0) if hop.kind is HopKind.DATAPATH and hop.node == node else 0 for hop in hops]
    losses: list[list[Loss]] = [[] for _ in lacking]
    left: dict[str, int] = {}
    for reason, frames in pool.items():
        shares = spread(frames, lacking)
        several = sum(1 for lack in lacking if lack) > 1
        for at, share in enumerate(shares):
            if share:
                detail = "; ".join(filter(None, [(details or {}).get(reason, ""), _SHARED if several else ""]))
                losses[at].append(Loss(reason, share, detail))
                lacking[at] -= share
        if frames > sum(shares):
            left[reason] = frames - sum(shares)
    return _with_losses(paths, losses), left


_SHARED = "counted for the whole datapath, shared out by what each hop lacks"


def _with_losses(paths: Sequence[FramePath], losses: Sequence[Sequence[Loss]]) -> tuple[FramePath, ...]:
    added = iter(losses)
    return tuple(
        FramePath(path.direction, tuple(replace(hop, losses=(*hop.losses, *next(added))) for hop in path.hops))
        for path in paths
    )


def spread(frames: int, lacking: Sequence[int]) -> list[int]:
    """Share out frames by what each lacks, never more than that, in whole frames (largest remainders)."""
    wanted = sum(lacking)
    if frames >= wanted:
        return list(lacking)
    shares = [frames * lack // wanted for lack in lacking]
    by_remainder = sorted(range(len(lacking)), key=lambda at: -(frames * lacking[at] % wanted))
    for at in by_remainder[: frames - sum(shares)]:
        shares[at] += 1
    return shares
