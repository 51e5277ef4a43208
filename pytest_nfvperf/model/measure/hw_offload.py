"""Hardware offload as a result: which flows of a measurement were in the NIC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_nfvperf.model.sla.rules import Limit, Rule

OFFLOADED_FLOWS = "offloaded_flows"

OFFLOAD_RULE = Rule(
    where=(("offload", ("on",)),),
    require=((OFFLOADED_FLOWS, Limit(">=", 1.0, "ratio", ">= 100 %")),),
    source="dut.ovs.hw_offload: true",
    name="no fallback to software",
)
"""In force if the testbed requests offload: a figure that software reached is not the NIC's."""

_SILENT = (
    "OVS logs no reason: the ports have no offload (vhost-user, af_packet, veth), or the NIC's is off or too small "
    "(ethtool -k: hw-tc-offload; devlink dev eswitch: mode switchdev)"
)


@dataclass(frozen=True, slots=True)
class OffloadShare:
    """Flows of the datapath right after a measurement, by what handled them.

    Attributes:
        partial: matched in hardware, acted on in software.
        software: the silent fallback.
        examples: some that were not in hardware, as OVS writes them.
        complaints: what OVS logged about offload.
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
        return self.full / self.total if self.total else None

    def __str__(self) -> str:
        counts = f"{self.full} of {self.total} flows in hardware, {self.partial} matched there only"
        return f"{counts}, {self.software} in software"

    def text(self) -> str:
        flows = [f"not in hardware: {flow}" for flow in self.examples]
        reasons = [f"OVS says: {line}" for line in self.complaints] or [_SILENT]
        return "\n".join([str(self), *flows, *reasons])


def worst_share(shares: Iterable[OffloadShare]) -> OffloadShare | None:
    """The measurement with the most flows in software; one without any flow is worse than one with all in hardware."""

    def rank(share: OffloadShare) -> tuple[int, float]:
        if share.ratio is None:
            return 1, 0.0
        return (2, 1.0) if share.ratio == 1 else (0, share.ratio)

    return min(shares, key=rank, default=None)


def fallback_text(shares: Iterable[OffloadShare | None]) -> str:
    return "\n".join(share.text() for share in shares if share is not None and share.ratio != 1)
