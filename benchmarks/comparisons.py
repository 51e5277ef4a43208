"""What a comparison calls different: the same against the same, and against one that is a little slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from statistics import median

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.report.subjects import interval_text, open_mark
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.study import Decided
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK, Profile
from pytest_nfvperf.model.statistics import Relative
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

COMPARISONS, MINUTE_S, MOST_DIFFERENT = 40, 60.0, 2
FRAME_SIZE = 64
"""Bytes: the generator sends twice and more of what the DUT forwards."""
HANDICAPPED = "phy2phy-slower"


@dataclass(frozen=True, slots=True)
class Handicap:
    """A planted slowdown: so many of the flows have fields written that it costs this share of the forwarding rate.

    Attributes:
        costs: share of the forwarding rate.
        comparisons: how often it is looked for, ``budget_s`` each.
        turns: of each block, so that the comparison's blocks fill its budget.
        least: so often it must be found.
    """

    costs: float
    comparisons: int
    budget_s: float
    turns: int
    least: int

    @property
    def profile(self) -> Profile:
        """Of its comparisons."""
        return replace(QUICK, comparison_budget_s=self.budget_s, comparison_turns=self.turns)


@dataclass(frozen=True, slots=True)
class Planted:
    """Flows of a network of this size are written, of ``flows`` in each direction."""

    prefix_length: int
    flows: int


FIVE_PERCENT, TWO_PERCENT = Handicap(0.05, 20, 60.0, 2, 19), Handicap(0.02, 10, 300.0, 14, 9)

_WRITTEN = "mod_nw_tos:32,mod_dl_src:02:00:00:00:00:77,"
_ALL, _WRITTEN_PREFIX, _WRITTEN_FLOWS = Planted(26, 64), 27, 32
_CALIBRATION = Handicap(1.0, 1, 150.0, 6, 1)


def half_width(ratio: Relative) -> float:
    """Of the ratio's interval; infinite where an end of it is open."""
    return inf if ratio.high is None or open_mark(ratio) else (ratio.high - ratio.low) / 2


def same_against_same(made: Bench) -> list[Figure]:
    """Forty comparisons of a minute of a topology with itself: at most two may tell a difference."""
    profile = replace(QUICK, comparison_budget_s=MINUTE_S)
    found = []
    for _ in range(COMPARISONS):
        study = made.study(profile, lambda _: False)
        twice = [Subject(name, phy2phy()) for name in "AB"]
        _, again = study.forwarding_rate("build", twice, Traffic(frame_size=FRAME_SIZE))
        found.append(again.relative("forwarding_rate"))
    told = [ratio for ratio in found if ratio is not None]
    different = [ratio for ratio in told if _differs(ratio)]
    widths = sorted(half for ratio in told if (half := half_width(ratio)) < inf)
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


def handicaps_of_five_percent(made: Bench) -> list[Figure]:
    """A topology against the same with a planted slowdown: how often a comparison of a minute calls it slower."""
    return _planted_handicap(made, FIVE_PERCENT)


def handicaps_of_two_percent(made: Bench) -> list[Figure]:
    """The same with less than half of the slowdown, and five minutes at most."""
    return _planted_handicap(made, TWO_PERCENT)


def _planted_handicap(made: Bench, handicap: Handicap) -> list[Figure]:
    """What writing fields costs differs from machine to machine, so it is measured first, with all flows written."""
    whole = _slower(made, _CALIBRATION.profile, _ALL, lambda _: False)
    if whole is None or whole.high is None or whole.high >= 1:
        return [Figure("what a planted slowdown costs", "not measured", reached=False)]
    time_share = 1 / whole.ratio - 1
    found = [Figure("all flows written", f"{whole.ratio:.1%}", detail=interval_text(whole))]
    return [*found, _found_slower(made, handicap, time_share)]


def _found_slower(made: Bench, handicap: Handicap, time_share: float) -> Figure:
    """``time_share``: how much longer a packet takes whose fields are written."""
    planted = _planted(handicap.costs, time_share)
    what = f"a handicap of {handicap.costs:.0%}, {handicap.budget_s:.0f} s at most each: called slower"
    if planted is None:
        return Figure(what, f"not measured: a written packet takes only {time_share:.1%} longer", reached=False)
    ratios = [_slower(made, handicap.profile, planted, _tells_a_difference) for _ in range(handicap.comparisons)]
    told = [ratio for ratio in ratios if ratio is not None]
    found = sum(ratio.high is not None and ratio.high < 1 for ratio in told)
    middle = f"ratio {median([ratio.ratio for ratio in told]):.1%} in the middle" if told else "no ratio"
    return Figure(
        what,
        f"{found} of {handicap.comparisons}",
        f">= {handicap.least} of {handicap.comparisons}",
        found >= handicap.least,
        f"{_WRITTEN_FLOWS} of {planted.flows} flows written; {middle}",
    )


def _planted(costs: float, time_share: float) -> Planted | None:
    """Flows such that those written cost this share of the rate; None where all of them would cost less."""
    flows = round(_WRITTEN_FLOWS * time_share / (1 / (1 - costs) - 1))
    return Planted(_WRITTEN_PREFIX, flows) if flows >= _WRITTEN_FLOWS else None


def _tells_a_difference(outcome: Outcome) -> bool:
    ratio = outcome.relative("forwarding_rate")
    return ratio is None or _differs(ratio)  # the baseline has none


def _differs(ratio: Relative) -> bool:
    return ratio.low > 1 or (ratio.high is not None and ratio.high < 1)


def _flows(built: BuiltOvsTopology, planted: Planted, action: str) -> list[str]:
    """Both ways of the path; the sources of RFC 2544's networks that are in the prefix have the action, too."""
    ports = built.ofports()
    flows = []
    for there, back in (("p0", "p1"), ("p1", "p0")):
        match, output = f"in_port={ports[there]}", f"output:{ports[back]}"
        flows.append(f"priority=100,{match},actions={output}")
        for network in ("198.18.0.0", "198.19.0.0"):
            written = f"ip,nw_src={network}/{planted.prefix_length}"
            flows.append(f"priority=200,{match},{written},actions={action}{output}")
    return flows


def _slower(made: Bench, profile: Profile, planted: Planted, decided: Decided) -> Relative | None:
    """The slower one's forwarding rate as a ratio to the other's; both have the same tables, with other actions."""

    def deployed(live: LiveTopology) -> None:
        slower = live.name == HANDICAPPED
        built = live.deployment.built
        if not isinstance(built, BuiltOvsTopology):
            raise TestbedError(f"this benchmark needs Open vSwitch, and {live.name} stands on another datapath")
        built.replace_flows(live.topology.bridges[0], _flows(built, planted, _WRITTEN if slower else ""))

    study = made.study(profile, decided, deployed)
    subjects = [Subject("as it is", phy2phy()), Subject("slower", replace(phy2phy(), name=HANDICAPPED))]
    _, slower = study.forwarding_rate("build", subjects, Traffic(frame_size=FRAME_SIZE, flows=planted.flows))
    return slower.relative("forwarding_rate")
