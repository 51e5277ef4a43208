"""Hardware offload: the switch, and whether flows really are in hardware.

``other_config:hw-offload`` (ovs-vswitchd.conf.db(5)) only allows OVS to try; a NIC, a driver or an action that cannot
leaves the flow in software without a word. So the flows are asked: ``dpctl/dump-flows type=...`` (ovs-dpctl(8)).
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.adapters.ovs.instance.unixctl import Unixctl, UnixctlError
from pytest_nfvperf.model.measure.offloading import OffloadShare

_EXAMPLES = 3
_TYPES = {"full": "offloaded", "partial": "partially-offloaded", "none": "non-offloaded"}


@dataclass(frozen=True, slots=True)
class OffloadedFlows:
    """Flows of one kind: how many, and a few of them as OVS writes them."""

    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffloadState:
    """Where the flows of the datapath are handled.

    Attributes:
        full: in hardware, actions and all.
        partial: matched in hardware, acted on in software.
        none: in software.
    """

    full: OffloadedFlows
    partial: OffloadedFlows
    none: OffloadedFlows

    @property
    def total(self) -> int:
        return self.full.count + self.partial.count + self.none.count

    def __str__(self) -> str:
        counts = f"{self.full.count} of {self.total} flows offloaded, {self.partial.count} partially"
        left = self.none.examples or self.partial.examples
        return f"{counts}; not offloaded: {left[0]}" if left else counts


def offloaded_flows(ctl: Unixctl) -> OffloadState:
    """The datapath's flows by where they are handled now; a flow appears with its first frame."""
    return OffloadState(**{kind: _flows(ctl, text) for kind, text in _TYPES.items()})


def offload_share(state: OffloadState, problems: str) -> OffloadShare:
    """The result of a measurement; ``problems``: vswitchd's warnings, of which those about offload are kept."""
    complaints = [line for line in problems.splitlines() if "offload" in line or "flow api" in line.lower()]
    return OffloadShare(
        state.full.count,
        state.partial.count,
        state.none.count,
        (*state.none.examples, *state.partial.examples),
        tuple(complaints[-_EXAMPLES:]),
    )


def _flows(ctl: Unixctl, kind: str) -> OffloadedFlows:
    try:
        text = ctl.call("dpctl/dump-flows", f"type={kind}")
    except UnixctlError:  # there is no datapath, or several of which none is named: no flows of ours
        return OffloadedFlows(0)
    flows = [line for line in text.splitlines() if "actions:" in line]
    return OffloadedFlows(len(flows), tuple(flows[:_EXAMPLES]))
