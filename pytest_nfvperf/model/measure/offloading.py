"""Hardware offload as a result: which of the flows that a measurement used were in the NIC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_nfvperf.model.sla.rules import Limit, Rule


@dataclass(frozen=True, slots=True)
class OffloadShare:
    """Flows of the datapath right after a measurement, by where they were handled.

    ``partial``: matched in hardware, acted on in software. ``software``: the fallback that says nothing. ``examples``:
    some that were not in hardware, as OVS writes them. ``complaints``: what OVS logged about offload.
    """

    full: int
    partial: int
    software: int
    examples: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.full + self.partial + self.software

    @property
    def ratio(self) -> float | None:
        """Share of flows that were in hardware whole; None when there was no flow."""
        return self.full / self.total if self.total else None

    def __str__(self) -> str:
        counts = f"{self.full} of {self.total} flows in hardware, {self.partial} matched there only"
        return f"{counts}, {self.software} in software"

    def text(self) -> str:
        """Which flows fell back, and what OVS says about it; a line each."""
        flows = [f"not in hardware: {flow}" for flow in self.examples]
        reasons = [f"OVS says: {line}" for line in self.complaints] or [_SILENT]
        return "\n".join([str(self), *flows, *reasons])


_SILENT = (
    "OVS logs no reason: the ports have no offload (vhost-user, af_packet, veth), or the NIC's is off or too small "
    "(ethtool -k: hw-tc-offload; devlink dev eswitch: mode switchdev)"
)


def worst_share(shares: Iterable[OffloadShare]) -> OffloadShare | None:
    """Of several measurements the one with the most in software; one without any flow says less than a full one."""
    return min(shares, key=_standing, default=None)


def _standing(share: OffloadShare) -> tuple[int, float]:
    if share.ratio is None:
        return 1, 0.0
    return (2, 1.0) if share.ratio == 1 else (0, share.ratio)


def fallback_text(shares: Iterable[OffloadShare | None]) -> str:
    """What fell back to software in some measurements; "" where nothing did, or nothing was asked."""
    return "\n".join(share.text() for share in shares if share is not None and share.ratio != 1)


OFFLOADED_FLOWS = "offloaded_flows"

OFFLOAD_RULE = Rule(
    where=(("offload", ("on",)),),
    require=((OFFLOADED_FLOWS, Limit(">=", 1.0, "ratio", ">= 100 %")),),
    source="dut.ovs.hw_offload: true",
    name="no fallback to software",
)
"""In force wherever a testbed asks for offload: a figure that software reached is none of the NIC's."""
