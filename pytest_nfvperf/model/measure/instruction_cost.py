"""What a packet costs in CPU instructions, counted where time is virtual (QEMU's ``-icount``).

The count knows no caches, contention or NUMA: it has a metric and unit of its own, never beside wall-clock figures. It
repeats to 0.1 % on a machine that others use too, so small changes of cost show.
"""

from __future__ import annotations

INSTRUCTIONS_PER_PACKET = "instructions_per_packet"
INSTRUCTIONS = "instructions"

TIME, VIRTUAL, WALL = "time", "virtual", "wall"
"""What a second is, in labels and fingerprints: a count of instructions, or the clock's. Without a label it is WALL."""

VIRTUAL_METRICS = frozenset({INSTRUCTIONS_PER_PACKET})
"""That can be measured in virtual time, and only there."""


def why_not_in(time: str, metric: str) -> str:
    """Why a metric cannot be measured in this kind of time, and what to do; empty where it can."""
    if time == VIRTUAL and metric not in VIRTUAL_METRICS:
        return (
            f"{metric} is a figure of the clock, and in virtual time a second is a count of instructions: ask for "
            f"{INSTRUCTIONS_PER_PACKET}, or leave out --nfv-virtual-time"
        )
    if time == WALL and metric in VIRTUAL_METRICS:
        return f"{metric} is counted in virtual time only: add --nfv-virtual-time"
    return ""
