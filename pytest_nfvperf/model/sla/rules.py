"""An SLA as data. The language is read by pytest_nfvperf.config.sla_file, judged by model.sla.judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.metrics import of_searches

CLASS = "class"
"""Selector of figures of one class of a mix. A rule without it is about all traffic."""
ON_OR_OFF = {True: "on", False: "off"}
"""How a yes or no is written as a label: ``tso: on``; ``true`` in YAML is the same."""

_OF_GOAL = re.compile(r"(?P<percent>[0-9.]+) ?% of (?P<goal>ndr|pdr|throughput|connection_rate)", re.ASCII)
_OF_FPS = re.compile(r"(?P<fps>[0-9.]+) pps", re.ASCII)
_CORES = re.compile(r"(?P<number>[1-9]\d{0,2}) cores?", re.ASCII)
_SHARE = re.compile(r"[0-9.]+ % of (?P<goal>\w+)", re.ASCII)
_FLOW_FIELD = re.compile(r"(?P<name>\w+)(?:\((?P<parts>(?:[^()]|\([^()]*\))*)\))?")


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound on one metric.

    Attributes:
        operator: one of ``>=``, ``<=``, ``>``, ``<``, ``==``.
        value: in ``unit``; for a relation a ratio (0.95 for "95 % of ...").
        unit: base unit as in Figure; "ratio" for a relation.
        text: as the user wrote it.
        relative_to: None for an absolute bound. Else the labels in which the other side differs, such as
            (("bridges", "1"),) or (("topology", "one_bridge"),).
        at: the load at which the metric is taken ("50 % of pdr", "4000000 pps"), or None.
        repeats: least number of searches behind the figure.
        of_baseline: the value is a share of the same figure in the run that --nfv-baseline names.
        cores: budget of cores at which the rate is required, or None.
        flows: of ``offloaded_flows``, those expected in hardware; ``text`` has them, too. Empty: all flows.
    """

    operator: str
    value: float
    unit: str
    text: str
    relative_to: tuple[tuple[str, str], ...] | None = None
    at: str | None = None
    repeats: int = 1
    of_baseline: bool = False
    cores: int | None = None
    flows: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_share(self) -> bool:
        """True for a ratio to another figure, which has the unit of neither."""
        return self.relative_to is not None or self.of_baseline


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits of metrics, for the subjects that the rule selects.

    Attributes:
        where: ((label, (accepted value, ...)), ...): all labels must match.
        source: file and key path, for messages.
        name, reference: the user's words for the report: a title, and where the figures were published.
    """

    where: tuple[tuple[str, tuple[str, ...]], ...]
    require: tuple[tuple[str, Limit], ...]
    source: str
    name: str = ""
    reference: str = ""

    @property
    def is_about_classes(self) -> bool:
        return any(name == CLASS for name, _ in self.where)

    def without_class(self) -> Rule:
        """The rule as far as it can be matched before anything is measured: a test shows its classes when it runs."""
        return replace(self, where=tuple(one for one in self.where if one[0] != CLASS))

    @property
    def selects(self) -> str:
        """``{topology: phy2phy, frame_size: 64 | 128}``."""
        return f"{{{', '.join(f'{name}: ' + ' | '.join(values) for name, values in self.where)}}}"

    def matches(self, labels: Mapping[str, str], later: Collection[str] = ()) -> bool:
        """True if the labels meet every selector. An unknown label does not match, unless it is one of ``later``.

        ``later``: labels that only the measurement will show.
        """
        for name, accepted in self.where:
            value = labels.get(name)
            if name in later:
                continue
            # A selector that ends in a star accepts every value that begins so: ``firmware: 22.36.*``.
            begins = tuple(one[:-1] for one in accepted if one.endswith("*"))
            if value is None or not (value in accepted or value.startswith(begins)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Sla:
    """All rules of one file. ``renamed``: what its author should write by now, a line each."""

    rules: tuple[Rule, ...]
    source: str
    renamed: tuple[str, ...] = ()


def rules_name(rules: Sequence[Rule], baseline: str = "") -> str:
    """16 hex digits, equal for rules that require the same of the same subjects, in whatever file they stand.

    ``baseline``: name of the earlier run that limits may be a share of.
    """
    required = repr(([(rule.where, rule.require, rule.name) for rule in rules], baseline))
    return hashlib.sha256(required.encode()).hexdigest()[:16]


# Names of loads have one normal form, so that an SLA finds its figure: ``50 % of pdr`` for a share of a search's
# goal, else ``4000000 pps``.


def share_of_goal(ratio: float, goal: str) -> str:
    """``0.5, "pdr"`` is ``50 % of pdr``."""
    return f"{round(ratio * 100, 6):g} % of {goal}"


def load_in_fps(load_fps: float) -> str:
    """``4000000 pps``, frames/s per direction."""
    return f"{round(load_fps)} pps"


def normal_load_name(name: str, load_fps: float) -> str:
    """A goal's share keeps its name; any other load is named by its rate."""
    match = _OF_GOAL.fullmatch(" ".join(name.split()))
    return share_of_goal(float(match["percent"]) / 100, match["goal"]) if match else load_in_fps(load_fps)


def same_load(one: str | None, other: str | None) -> bool:
    """True if both name the same load. Rates may differ by 0.1 %, for rounding."""
    if one == other:
        return True
    first, second = _OF_FPS.fullmatch(one or ""), _OF_FPS.fullmatch(other or "")
    if not (first and second):
        return False
    a, b = float(first["fps"]), float(second["fps"])
    return abs(a - b) <= 1e-3 * max(a, b)


def show_load(name: str) -> str:
    """For a person: ``4.00 Mpps`` for ``4000000 pps``."""
    match = _OF_FPS.fullmatch(name)
    return format_fps(float(match["fps"])) if match else name


# Budgets of cores. Measured with fewer cores than the budget, a rate is a lower bound; with more, an upper bound.


def budget_of(at: str | None) -> int | None:
    """2 for ``2 cores``; None if it is no budget of cores."""
    match = _CORES.fullmatch(" ".join((at or "").split()))
    return int(match["number"]) if match else None


def budget_text(cores: int) -> str:
    return "1 core" if cores == 1 else f"{cores} cores"


def flow_fields(text: str) -> dict[str, set[str]]:
    """The fields of a flow, as OVS writes them: ``in_port(p0),ipv4(dst=10.0.0.2,frag=no)``, by name.

    What follows the fields (packets, actions) is left out.
    """
    return {
        match["name"]: {part.strip() for part in (match["parts"] or "").split(",")} - {""}
        for match in _FLOW_FIELD.finditer(text.partition(", packets:")[0])
    }


def of_expected_flows(figure: Figure, expected: Sequence[str]) -> Figure | str:
    """The share of the expected flows that are in hardware, or why nobody can tell.

    A flow is in hardware if every flow of the datapath with these fields is.
    """
    flows = [(flow_fields(text), in_hardware) for text, in_hardware in figure.flows]
    places_by_flow: dict[str, list[bool]] = {}
    for flow in expected:
        wanted = flow_fields(flow)
        places_by_flow[flow] = [
            in_hardware
            for have, in_hardware in flows
            if all(have.get(name, {None}) >= parts for name, parts in wanted.items())
        ]
    absent = [flow for flow, places in places_by_flow.items() if not places]
    if absent and figure.flows_left_out:
        return f"{figure.flows_left_out} flows of the datapath are not listed: {absent[0]} may be among them"
    outside = [flow for flow, places in places_by_flow.items() if places and not all(places)]
    met = len(places_by_flow) - len(absent) - len(outside)
    notes = [f"not in hardware: {flow}" for flow in outside] + [f"no such flow: {flow}" for flow in absent]
    confidence = "; ".join([f"{met} of {len(places_by_flow)} expected flows in hardware", *notes])
    share = met / len(places_by_flow)
    return replace(figure, value=share, low=share, high=share, confidence=confidence)


def within(figure: Figure, budget: int) -> Figure | str:
    """The figure as a bound of what the datapath does on ``budget`` cores, or why it is none."""
    if not figure.cores:
        return f"how many cores the datapath had is not known, and the SLA is about {budget_text(budget)}"
    if figure.cores == budget:
        return figure
    lower = figure.cores < budget
    why = f"on {budget_text(figure.cores)}, and the SLA is about {budget_text(budget)}"
    return figure.bounded(Why.OTHER_CORES, low=not lower, high=lower, detail=why)


# Requirements that can never be judged, whatever the DUT does. They are reported before the measurement, and only if
# that is certain. The judge calls all others INCONCLUSIVE.


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known of a test's measurements before they begin. None: not known.

    Attributes:
        line_rate: whether a link that the frames cross has a line rate.
        latency_shares: loads at which latency is measured, as ratios of the PDR.
        repeats: how often a load is searched.
        searches_only: every figure is a search's.
        without_cores: name of the datapath if it has no poll-mode threads.
        profile: name of the measuring profile.
    """

    line_rate: bool | None = None
    latency_shares: tuple[float, ...] | None = None
    repeats: int | None = None
    searches_only: bool = False
    without_cores: str | None = None
    profile: str = ""


def why_never(metric: str, limit: Limit, foreseen: Foreseen) -> str | None:
    """Why a requirement can never be judged, and what to write instead; None if it can, or nobody knows."""
    if limit.unit == "line_ratio" and foreseen.line_rate is False:
        return no_line_rate(metric)
    if foreseen.searches_only and not of_searches(metric):
        return f"no search measures {metric}, and the tests it selects only search: correct the selector or the metric"
    if limit.at is not None and foreseen.latency_shares is not None:
        share = _SHARE.fullmatch(limit.at)
        if share is not None:
            return _unmeasured_share(metric, limit.at, share["goal"], foreseen.latency_shares, foreseen.profile)
    if foreseen.repeats is not None and foreseen.repeats < limit.repeats:
        searches = "one search" if foreseen.repeats == 1 else f"{foreseen.repeats} searches"
        return f"asks for {limit.repeats} repeats, and this run makes {searches}: add --nfv-repeat {limit.repeats}"
    if limit.cores is not None and foreseen.without_cores is not None:
        return (
            f"asks for a rate at {budget_text(limit.cores)}, and datapath {foreseen.without_cores} has no PMD threads "
            "whose cores could be counted: leave 'at' out, or select another datapath"
        )
    return None


def no_line_rate(metric: str) -> str:
    return (
        f"{metric} is required as a share of line rate, and no port that the frames cross has one: write a rate, such "
        "as '>= 4 Mpps', or line_rate of the ports in the testbed file"
    )


def _unmeasured_share(metric: str, at: str, goal: str, shares: Sequence[float], profile: str) -> str | None:
    if metric.startswith("latency_"):
        of = "connection_rate" if goal == "connection_rate" else "pdr"
        measured, who = [share_of_goal(share, of) for share in shares], f"profile {profile}"
    elif metric in {"loss_ratio", "lost_frames", "failed_connections"}:
        measured, who = [share_of_goal(1.0, goal)] if metric == "loss_ratio" else [], "a confirmation"
    else:
        return None
    if at in measured:
        return None
    where = f"{who} measures it at {', '.join(measured)}" if measured else f"{metric} is only counted at frames/s"
    return f"{metric} is not measured at {at}: {where}; write one of these, or a load in frames/s, such as '4 Mpps'"


# Tests that an SLA compares run on one testbed, the other side of a relation first. Labels that a test gets only while
# it runs (the name of a topology that it composes) are not known yet, and count as possibly equal.


@dataclass(frozen=True, slots=True)
class Selected:
    """A test before it runs.

    Attributes:
        folder: of its suite.
        subjects: labels of each subject that it will measure.
        rules: those in force for it.
    """

    folder: str
    subjects: tuple[Mapping[str, str], ...]
    rules: tuple[Rule, ...]


class Groups:
    """A partition of the numbers below ``count``, each by itself at first."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.of(one), self.of(other)))
        self._parents[second] = first

    def of(self, number: int) -> int:
        """The smallest number of its group."""
        while self._parents[number] != number:
            number = self._parents[number]
        return number


def join_related(tests: Sequence[Selected], groups: Groups) -> None:
    """Join the tests that a rule compares. ``groups`` numbers them by their indices in ``tests``."""
    for index in range(len(tests)):
        for other, _, _ in _compared_with(tests, index):
            groups.join(index, other)


def other_sides_first(tests: Sequence[Selected]) -> list[int]:
    """Indices of the tests in an order that measures the other side of a relation before the test that needs it.

    All else stays as it was. Tests count as another side if they have the labels that the relation names.
    """
    needs: list[list[int]] = []
    for index, test in enumerate(tests):
        needs.append([])
        for other, wanted, labels in _compared_with(tests, index):
            named = {name for own in test.subjects for name in wanted if own.get(name) != wanted[name]}
            if named <= labels.keys():
                needs[index].append(other)
    order: dict[int, None] = {}

    def put(index: int, pending: frozenset[int]) -> None:
        for other in needs[index]:
            if other not in order and other not in pending:  # of tests that need one another, none can be first
                put(other, pending | {index})
        order.setdefault(index)

    for index in range(len(tests)):
        put(index, frozenset())
    return list(order)


def _compared_with(tests: Sequence[Selected], index: int) -> Iterator[tuple[int, Mapping[str, str], Mapping[str, str]]]:
    """Indices of other sides of a test, each with the labels that are needed and those of a subject that may fit."""
    own = tests[index]
    for wanted, certain in _other_sides(own):
        for other, candidate in enumerate(tests):
            if other == index or not (certain or candidate.folder == own.folder):
                continue
            for labels in candidate.subjects:
                # as the judge finds the other side: by all labels but the test's name
                if all(labels.get(name, value) == value for name, value in wanted.items() if name != "test"):
                    yield other, wanted, labels


def _other_sides(test: Selected) -> Iterator[tuple[dict[str, str], bool]]:
    """Labels of the subjects that a test is compared with, and whether its rule certainly applies."""
    for labels in test.subjects:
        for rule in test.rules:
            relations = [dict(limit.relative_to) for _, limit in rule.require if limit.relative_to]
            known = tuple((name, accepted) for name, accepted in rule.where if name in labels)
            if not relations or not Rule(known, (), rule.source).matches(labels):
                continue
            certain = rule.matches(labels)
            for differing in relations:
                if any(labels.get(name) != value for name, value in differing.items()):
                    yield {**labels, **differing}, certain and differing.keys() <= labels.keys()
