"""What a comparison calls different: the same against the same, and against one that is a little slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.report.studies import interval_text
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK, Profile
from pytest_nfvperf.model.samples import Relative
from pytest_nfvperf.model.topology.catalogue import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.study import Subject

COMPARISONS, MINUTE_S, MOST_DIFFERENT = 40, 60.0, 2
HANDICAPPED = "phy2phy-slower"


@dataclass(frozen=True, slots=True)
class Handicap:
    """A planted slowdown: some of the flows have their DSCP written before they are forwarded.

    Attributes:
        costs: how much slower the DUT is for it, as a share of the forwarding rate; roughly, and as measured.
        prefix_length: flows of a network of this size are written, of ``flows`` in each direction.
        comparisons: how often it is looked for, ``budget_s`` each.
        least: so often it must be found.
    """

    costs: str
    prefix_length: int
    flows: int
    comparisons: int
    budget_s: float
    least: int


HANDICAPS = (Handicap("5 %", 27, 72, 20, 60.0, 19), Handicap("2 %", 28, 75, 10, 300.0, 9))


def same_against_same(made: Bench) -> list[Figure]:
    """Forty comparisons of a minute of a topology with itself: at most two may tell a difference."""
    profile = replace(QUICK, comparison_budget_s=MINUTE_S)
    found = []
    for _ in range(COMPARISONS):
        study = made.study(profile, lambda _: False)
        _, again = study.forwarding_rate("build", [Subject(name, phy2phy()) for name in "AB"], Traffic(frame_size=64))
        found.append(again.relative("forwarding_rate"))
    told = [ratio for ratio in found if ratio is not None]
    different = [ratio for ratio in told if _differs(ratio)]
    widths = sorted((ratio.high - ratio.low) / 2 for ratio in told if ratio.high is not None)
    shown = "; ".join(interval_text(ratio) for ratio in different)
    within = f"half the interval's width: {widths[len(widths) // 2]:.1%} in the middle" if widths else ""
    reached = len(told) == COMPARISONS and len(different) <= MOST_DIFFERENT
    return [
        Figure(
            "the same against the same, a minute each: called different",
            f"{len(different)} of {len(told)}",
            f"<= {MOST_DIFFERENT} of {COMPARISONS}",
            reached,
            "; ".join(filter(None, (within, shown))),
        )
    ]


def planted_handicaps(made: Bench) -> list[Figure]:
    """A topology against the same with a planted slowdown: how often a comparison calls it slower."""
    return [_found_slower(made, handicap) for handicap in HANDICAPS]


def _found_slower(made: Bench, handicap: Handicap) -> Figure:
    profile = replace(QUICK, comparison_budget_s=handicap.budget_s)
    ratios = [_slower(made, profile, handicap) for _ in range(handicap.comparisons)]
    told = [ratio for ratio in ratios if ratio is not None]
    found = sum(ratio.high is not None and ratio.high < 1 for ratio in told)
    middle = f"ratio {median([ratio.ratio for ratio in told]):.1%} in the middle" if told else "no ratio"
    return Figure(
        f"a handicap of {handicap.costs}, {handicap.budget_s:.0f} s at most each: called slower",
        f"{found} of {handicap.comparisons}",
        f">= {handicap.least} of {handicap.comparisons}",
        found >= handicap.least,
        middle,
    )


def _tells_a_difference(outcome: Outcome) -> bool:
    ratio = outcome.relative("forwarding_rate")
    return ratio is not None and _differs(ratio)


def _differs(ratio: Relative) -> bool:
    return ratio.low > 1 or (ratio.high is not None and ratio.high < 1)


def _flows(built: BuiltOvsTopology, handicap: Handicap, action: str) -> list[str]:
    """Both ways of the path; the sources of RFC 2544's networks that are in the prefix have the action, too."""
    ports = built.ofports()
    flows = []
    for there, back in (("p0", "p1"), ("p1", "p0")):
        match, output = f"in_port={ports[there]}", f"output:{ports[back]}"
        flows.append(f"priority=100,{match},actions={output}")
        for network in ("198.18.0.0", "198.19.0.0"):
            written = f"ip,nw_src={network}/{handicap.prefix_length}"
            flows.append(f"priority=200,{match},{written},actions={action}{output}")
    return flows


def _slower(made: Bench, profile: Profile, handicap: Handicap) -> Relative | None:
    """The slower one's forwarding rate as a ratio to the other's; both have the same tables, with other actions."""

    def deployed(live: LiveTopology) -> None:
        slower = live.name == HANDICAPPED
        built = live.deployment.built
        if not isinstance(built, BuiltOvsTopology):
            raise TestbedError(f"this benchmark needs Open vSwitch, and {live.name} stands on another datapath")
        built.replace_flows(live.topology.bridges[0], _flows(built, handicap, "mod_nw_tos:32," if slower else ""))

    study = made.study(profile, _tells_a_difference, deployed)
    subjects = [Subject("as it is", phy2phy()), Subject("slower", replace(phy2phy(), name=HANDICAPPED))]
    _, slower = study.forwarding_rate("build", subjects, Traffic(frame_size=64, flows=handicap.flows))
    return slower.relative("forwarding_rate")
