"""Hardware offload as a result: which flows of a measurement were in the NIC, which were not, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.sla.rules import Limit, Rule

OFFLOADED_FLOWS = "offloaded_flows"
OFFLOADED_FRAMES = "offloaded_frames"
FLOW_COUNTER_ERROR = "flow_counter_error"

OFFLOAD_RULE = Rule(
    where=(("offload", ("on",)),),
    require=(
        (OFFLOADED_FLOWS, Limit(">=", 1.0, "ratio", ">= 100 %")),
        # Software gets the first frames of each flow: 14 of 4,000 in a trial of 2 s with one flow.
        (OFFLOADED_FRAMES, Limit(">=", 0.9, "ratio", ">= 90 %")),
        (FLOW_COUNTER_ERROR, Limit("<=", 0.01, "ratio", "<= 1 %")),
    ),
    source="dut.ovs.hw_offload: true",
    name="no fallback to software",
)
"""In force if the testbed requests offload: a figure that software reached is not the NIC's."""

MOST_FLOWS = 100
"""Flows that the evidence lists one by one. Those outside hardware come first."""

_SHOWN = 5
_SILENT = (
    "OVS logs no reason: the ports have no offload (vhost-user, af_packet, veth), or the NIC's is off or too small "
    "(ethtool -k: hw-tc-offload; devlink dev eswitch: mode switchdev)"
)
_IN_TC = {
    "skip_hw": "tc_policy skip_hw keeps flows out of the NIC: write none, or skip_sw",
    "skip_sw": "tc_policy skip_sw should have refused these flows: this kernel or driver does not keep to it",
    "none": "the kernel forwards these flows: the NIC or its driver refused them, or hw-tc-offload is off (ethtool -K)",
}


class FlowPlace(StrEnum):
    """Who handles a flow's frames."""

    SOFTWARE = "software"
    TC = "tc"  # the kernel's tc, not in hardware
    PARTIAL = "partial"  # matched in hardware, acted on in software
    HARDWARE = "hardware"


_CALLED = {
    FlowPlace.SOFTWARE: "not in hardware",
    FlowPlace.TC: "in tc, not in hardware",
    FlowPlace.PARTIAL: "matched in hardware, acted on in software",
    FlowPlace.HARDWARE: "in hardware",
}


@dataclass(frozen=True, slots=True)
class DatapathFlow:
    """One flow of the datapath.

    Attributes:
        text: as OVS writes it, without wildcarded fields.
        packets: that its counter shows; None if OVS wrote none.
        reasons: OVS's log lines about why it is not in hardware.
    """

    text: str
    place: FlowPlace
    packets: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffloadedFrames:
    """One trial's frames, by who counted them.

    Attributes:
        sent, received: by the generator.
        software: received by OVS's PMD threads; None where there are none, or VNFs send frames too.
        counted: by the counters of the datapath's flows; None if some were removed meanwhile.
    """

    trial_id: str
    sent: int
    received: int
    software: int | None = None
    counted: int | None = None

    @property
    def in_hardware(self) -> float | None:
        """The share of frames that no PMD thread received."""
        return None if self.software is None or not self.sent else max(0.0, 1 - self.software / self.sent)

    @property
    def counter_error(self) -> float | None:
        """How far the flows' counters are outside of what is possible: from the frames received to those sent."""
        if self.counted is None or not self.sent or self.received > self.sent:
            return None
        return max(0, self.received - self.counted, self.counted - self.sent) / self.sent

    def __str__(self) -> str:
        text = f"{self.trial_id}: {self.sent:,} frames sent, {self.received:,} received"
        if self.software is not None:
            text += f", {self.software:,} handled by PMD threads"
        return text if self.counted is None else f"{text}; the flows' counters say {self.counted:,}"


@dataclass(frozen=True, slots=True)
class OffloadShare:
    """Flows of the datapath right after a measurement, by what handled them.

    Attributes:
        partial: matched in hardware, acted on in software.
        software: the silent fallback.
        examples: some that were not in hardware, as OVS writes them.
        complaints: what OVS logged about offload.
        tc: in the kernel's tc, and not in hardware.
        tc_policy: of the kernel datapath: "none", "skip_sw" or "skip_hw"; "" for others.
        flows: one by one, at most ``MOST_FLOWS``.
        frames: the trial with the most frames in software, and the one whose counters were furthest off.
    """

    full: int
    partial: int
    software: int
    examples: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    tc: int = 0
    tc_policy: str = ""
    flows: tuple[DatapathFlow, ...] = ()
    frames: tuple[OffloadedFrames, ...] = ()

    @property
    def total(self) -> int:
        return self.full + self.partial + self.software + self.tc

    @property
    def ratio(self) -> float | None:
        return self.full / self.total if self.total else None

    def __str__(self) -> str:
        counts = f"{self.full} of {self.total} flows in hardware, {self.partial} matched there only"
        in_tc = f", {self.tc} in tc, not in hardware" if self.tc else ""
        return f"{counts}, {self.software} in software{in_tc}"

    def most_in_software(self) -> OffloadedFrames | None:
        counted = [trial for trial in self.frames if trial.in_hardware is not None]
        return min(counted, key=lambda trial: trial.in_hardware or 0.0, default=None)

    def worst_counters(self) -> OffloadedFrames | None:
        counted = [trial for trial in self.frames if trial.counter_error is not None]
        return max(counted, key=lambda trial: trial.counter_error or 0.0, default=None)

    def with_frames(self, trials: Iterable[OffloadedFrames]) -> OffloadShare:
        """Add the two trials that say most against the NIC."""
        every = replace(self, frames=tuple(trials))
        chosen = dict.fromkeys(filter(None, (every.most_in_software(), every.worst_counters())))
        return replace(self, frames=tuple(chosen))

    def text(self) -> str:
        lines = [str(self)]
        for place in FlowPlace:
            lines += self._listed(place)
        known = {reason for flow in self.flows for reason in flow.reasons}
        if not self.flows:
            lines += [f"{_CALLED[FlowPlace.SOFTWARE]}: {flow}" for flow in self.examples]
        if self.software + self.partial and not known:
            lines += [f"OVS says: {line}" for line in self.complaints] or [_SILENT]
        if self.tc:
            lines.append(_IN_TC[self.tc_policy or "none"])
        return "\n".join([*lines, *self._about_frames()])

    def none_in_hardware(self) -> str:
        """One line about flows of which none is in hardware: how many there are, and OVS's reason for each."""
        parts = [f"{self.full} of {self.total} flows offloaded, {self.partial} partially"]
        for flow in self.flows[:_SHOWN]:
            why = f"OVS says: {flow.reasons[-1]}" if flow.reasons else "OVS logs no reason"
            parts.append(f"{_CALLED[flow.place]}: {flow.text} ({why})")
        return "; ".join(parts)

    def _listed(self, place: FlowPlace) -> list[str]:
        flows = [flow for flow in self.flows if flow.place is place]
        lines = []
        for flow in flows[:_SHOWN]:
            lines += [f"{_CALLED[place]}: {flow.text}", *(f"  OVS says: {reason}" for reason in flow.reasons)]
        return lines + ([f"{_CALLED[place]}: {len(flows) - _SHOWN} more"] if len(flows) > _SHOWN else [])

    def _about_frames(self) -> list[str]:
        lines = []
        software, wrong = self.most_in_software(), self.worst_counters()
        if software is not None:
            lines.append(f"{format_ratio(software.in_hardware or 0.0)} of the frames stayed in hardware: {software}")
        if wrong is not None and wrong.counter_error:
            lines.append(f"the NIC's flow counters are wrong by {format_ratio(wrong.counter_error)}: {wrong}")
        return lines

    @property
    def complete(self) -> bool:
        """True if nothing says that frames or flows were outside of hardware, or that its counters are wrong."""
        figures = {metric: value for metric, value, _ in self.figures()}
        return all(
            figures[metric] >= limit.value if limit.operator == ">=" else figures[metric] <= limit.value
            for metric, limit in OFFLOAD_RULE.require
            if metric in figures
        )

    def figures(self) -> Iterable[tuple[str, float, str]]:
        """Yield metric, ratio, and what it rests on."""
        software, wrong = self.most_in_software(), self.worst_counters()
        if self.ratio is not None:
            yield OFFLOADED_FLOWS, self.ratio, str(self)
        if software is not None and software.in_hardware is not None:
            yield OFFLOADED_FRAMES, software.in_hardware, str(software)
        if wrong is not None and wrong.counter_error is not None:
            yield FLOW_COUNTER_ERROR, wrong.counter_error, str(wrong)


def offload_share(flows: Sequence[DatapathFlow], complaints: Sequence[str], tc_policy: str = "") -> OffloadShare:
    """Count flows by place, and list them: those outside of hardware first."""
    count = {place: sum(flow.place is place for flow in flows) for place in FlowPlace}
    ordered = sorted(flows, key=lambda flow: list(FlowPlace).index(flow.place))
    examples = [flow.text for flow in ordered if flow.place is not FlowPlace.HARDWARE]
    return OffloadShare(
        count[FlowPlace.HARDWARE],
        count[FlowPlace.PARTIAL],
        count[FlowPlace.SOFTWARE],
        tuple(examples[:_SHOWN]),
        tuple(complaints[-_SHOWN:]),
        tc=count[FlowPlace.TC],
        tc_policy=tc_policy,
        flows=tuple(ordered[:MOST_FLOWS]),
    )


def share_of_nodes(shares: Mapping[str, OffloadShare]) -> OffloadShare:
    """Join the shares of several nodes' datapaths. Reasons that concern no flow get the node's name."""
    flows = [flow for share in shares.values() for flow in share.flows]
    ordered = sorted(flows, key=lambda flow: list(FlowPlace).index(flow.place))
    every = list(shares.values())
    return OffloadShare(
        sum(share.full for share in every),
        sum(share.partial for share in every),
        sum(share.software for share in every),
        tuple(example for share in every for example in share.examples)[:_SHOWN],
        tuple(f"{node}: {line}" for node, share in shares.items() for line in share.complaints)[-_SHOWN:],
        tc=sum(share.tc for share in every),
        tc_policy=next((share.tc_policy for share in every if share.tc_policy), ""),
        flows=tuple(ordered[:MOST_FLOWS]),
    )


def offloaded_frames(
    trial_id: str, sent: int, received: int | None, changes: Mapping[str, int], *, alone: bool
) -> OffloadedFrames | None:
    """Compare a trial's frames with the counters around it; None if nobody counted.

    ``changes``: counter deltas by name, "flows.packets" being that of the datapath's flows. ``alone``: only the
    generator sends frames into the datapath.
    """
    if not alone or received is None or "flows.packets" not in changes:
        return None
    counted = None if changes.get("flows.removed") else changes["flows.packets"]
    return OffloadedFrames(trial_id, sent, received, changes.get("pmd.packets_received"), counted)


def worst_share(shares: Iterable[OffloadShare]) -> OffloadShare | None:
    """The measurement with the most flows in software; one without any flow is worse than one with all in hardware."""

    def rank(share: OffloadShare) -> tuple[int, float, float]:
        software = share.most_in_software()
        frames = 1.0 if software is None else software.in_hardware or 0.0
        if share.ratio is None:
            return 1, 0.0, frames
        return (2, 1.0, frames) if share.ratio == 1 else (0, share.ratio, frames)

    return min(shares, key=rank, default=None)


def fallback_text(shares: Iterable[OffloadShare | None]) -> str:
    return "\n".join(share.text() for share in shares if share is not None and not share.complete)


def rules_about_offload(rules: Sequence[Rule], labels: Mapping[str, str], measured: Collection[str]) -> list[Rule]:
    """The rules as they apply to a subject: ``OFFLOAD_RULE`` asks only for what can be measured there.

    It leaves the flows to a user's rule that lists those expected in hardware.
    """
    required_here = [one for rule in rules if rule.matches(labels) for one in rule.require]
    lists = any(limit.flows for metric, limit in required_here if metric == OFFLOADED_FLOWS)
    asked = {OFFLOADED_FRAMES, FLOW_COUNTER_ERROR} & set(measured) | (set() if lists else {OFFLOADED_FLOWS})
    required = tuple(requirement for requirement in OFFLOAD_RULE.require if requirement[0] in asked)
    fitting = [replace(OFFLOAD_RULE, require=required)] if required else []
    return [applicable for rule in rules for applicable in (fitting if rule is OFFLOAD_RULE else [rule])]
