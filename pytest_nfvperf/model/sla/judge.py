"""From rules and figures to verdicts. Pure and three-valued.

A figure is an interval: exact, at least (generator-limited), or at most (its confirmation failed). A requirement
passes if every value of the interval meets it, and fails if none does. Else it is inconclusive. So a missing, unbounded
or NaN figure can never pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.display import format_against, format_ratio, format_value, how_many, in_connections, listed
from pytest_nfvperf.model.figure import Figure, exact
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.rules import (
    CLASS,
    Limit,
    Rule,
    budget_text,
    of_expected_flows,
    same_load,
    show_load,
    within,
)
from pytest_nfvperf.model.sla.verdict import NOT_GIVEN, NOT_MEASURED, Baseline, Judgement, Verdict
from pytest_nfvperf.model.statistics import Bound, Relative

Peers = Callable[[Mapping[str, str]], Sequence[Figure] | None]
"""Figures of the subject with these labels; None when it was not measured."""

FASTER_GENERATOR = "a faster generator would resolve it: more CPUs for it, or a lab's (docs/tutorial/a-lab.md)"
"""Advice if a side of a relation is "at least": neither more readings nor another DUT would help."""

_EQUAL = 1e-9
"""Relative difference below which a figure equals its limit: units are converted in floating point."""


def judge(
    rules: Sequence[Rule],
    labels: Mapping[str, str],
    observed: Sequence[Figure],
    peers: Peers,
    missing: Mapping[str, str] | None = None,
    baseline: Baseline | None = None,
) -> tuple[Verdict, ...]:
    """Judge a subject by every rule that selects it.

    Args:
        rules: all rules, also those that do not select the subject.
        labels: of the subject.
        observed: what was measured on it.
        peers: finds the figures of a relation's other side; called with this subject's
            labels, those that differ replaced.
        missing: why metrics have no figure (``Outcome.missing``).
        baseline: an earlier run, for limits that are a share of it.

    Returns:
        One verdict a requirement, in the order of the rules. Empty if no rule applies. A rule with the selector
        ``class`` is judged on each class of a mix that it selects, by that class's figures; others on all traffic.
    """
    names = dict.fromkeys(figure.of_class for figure in observed)
    classes = {name: [figure for figure in observed if figure.of_class == name] for name in names}
    whole = classes.pop("", [])
    verdicts: list[Verdict] = []
    for rule in rules:
        subjects = [(labels, whole)]
        if rule.is_about_classes:
            subjects = [({**labels, CLASS: name}, figures) for name, figures in classes.items()]
        selected = [(subject, figures) for subject, figures in subjects if rule.matches(subject)]
        for subject, figures in selected:
            asked = (_Requirement(rule, metric, limit, subject, peers, baseline) for metric, limit in rule.require)
            verdicts += [_judge_one(requirement, figures, missing or {}) for requirement in asked]
        if rule.is_about_classes and classes and not selected and rule.without_class().matches(labels):
            verdicts += _of_unknown_class(rule, labels, peers, list(classes))
    return tuple(verdicts)


def judge_defaults(
    verdicts: Sequence[Verdict], labels: Mapping[str, str], observed: Sequence[Figure]
) -> Iterator[Verdict]:
    """Yield a FAIL for each figure above its default limit, if the rules' verdicts judge the subject, and not by it."""
    judged = {(verdict.metric, dict(verdict.subject).get(CLASS, "")) for verdict in verdicts}
    subjects = {of_class for _, of_class in judged}
    for figure in observed:
        most = metric_of(figure.metric).default_limit
        if most is not None and figure.of_class in subjects and (figure.metric, figure.of_class) not in judged:
            limit = Limit("<=", most, figure.unit, f"<= {most:g}")
            where = ((CLASS, (figure.of_class,)),) if figure.of_class else ()
            why = (
                "a datapath delivers each frame once, to its port, unchanged; "
                f"a rule for {figure.metric} may allow less"
            )
            default_verdicts = judge([Rule(where, ((figure.metric, limit),), why)], labels, [figure], lambda _: None)
            yield from (verdict for verdict in default_verdicts if verdict.judgement is Judgement.FAIL)


def _of_unknown_class(rule: Rule, labels: Mapping[str, str], peers: Peers, classes: Sequence[str]) -> Iterator[Verdict]:
    """A misspelt class would judge nothing, which looks like a pass."""
    wanted = next(accepted for name, accepted in rule.where if name == CLASS)
    why = (
        f"this traffic has the classes {listed(classes)}: correct the name, or let the rule select by test, or by "
        "classes, the tests that send it"
    )
    for metric, limit in rule.require:
        asked = _Requirement(rule, metric, limit, {**labels, CLASS: " | ".join(wanted)}, peers, None)
        yield asked.inconclusive(f"there is no class {' or '.join(wanted)} here; {why}")


def requirement_text(metric: str, limit: Limit, of_class: str = "") -> str:
    """``latency_p99 <= 100 us at 50 % of pdr``, ``class voice: loss_ratio <= 0``."""
    repeats = f" over {limit.repeats} repeats" if limit.repeats > 1 else ""
    budget = f" at {budget_text(limit.cores)}" if limit.cores else ""
    head = f"class {of_class}: " if of_class else ""
    at = f" at {show_load(limit.at)}" if limit.at else ""
    at = in_connections(at) if metric == "failed_connections" else at
    return f"{head}{metric} {limit.text}{at}{budget}{repeats}"


@dataclass(frozen=True, slots=True)
class _Requirement:
    """A limit of a rule, and what the subject with these labels can be compared with."""

    rule: Rule
    metric: str
    limit: Limit
    labels: Mapping[str, str]
    peers: Peers
    baseline: Baseline | None

    @property
    def subject(self) -> dict[str, str]:
        """The labels of what was measured, of which a class is a part."""
        return {name: value for name, value in self.labels.items() if name != CLASS or not self.rule.is_about_classes}

    @property
    def of_class(self) -> str:
        """The class that it is about; "" for all traffic."""
        return self.labels[CLASS] if self.rule.is_about_classes else ""

    def inconclusive(self, reason: str, figure: Figure | None = None) -> Verdict:
        # What was found is no ratio yet, and would be shown as one if the limit is a share.
        is_shown = figure is not None and not self.limit.is_share and math.isfinite(figure.value)
        return Verdict(
            judgement=Judgement.INCONCLUSIVE,
            requirement=requirement_text(self.metric, self.limit, self.of_class),
            metric=self.metric,
            limit=self.limit.value,
            unit=self.limit.unit,
            observed=figure.value if figure is not None and is_shown else None,
            margin=None,
            reason=reason,
            rule=self.rule.source,
            confidence=figure.confidence if figure else "",
            evidence=figure.evidence if figure else (),
            subject=((CLASS, self.of_class),) if self.of_class else (),
        )

    def verdict(self, observed: Figure, figure: Figure, baseline: Figure | None = None) -> Verdict:
        judgement = _compare(figure, self.limit)
        return replace(
            self.inconclusive(_reason(judgement, figure, self.limit, observed, baseline), observed),
            judgement=judgement,
            observed=figure.value,
            margin=_margin(figure, self.limit, judgement),
            evidence=observed.evidence + (baseline.evidence if baseline else ()),
        )


def _judge_one(asked: _Requirement, observed: Sequence[Figure], why: Mapping[str, str]) -> Verdict:
    metric, limit = asked.metric, asked.limit
    figure = _find(metric, limit, observed)
    if limit.cores is not None and not isinstance(figure, str):
        figure = within(figure, limit.cores)  # what it says about a budget of so many cores
    if limit.flows and not isinstance(figure, str):
        figure = of_expected_flows(figure, limit.flows)
    if isinstance(figure, str):
        return asked.inconclusive(why.get(metric, figure))
    if not math.isfinite(figure.value):
        return asked.inconclusive(f"{metric} is {figure.value}: not a figure", figure)
    if figure.repeats < limit.repeats:
        times = "once" if figure.repeats == 1 else f"{figure.repeats} times"
        needed = f"the SLA asks for {limit.repeats} repeats, and it was measured {times}"
        return asked.inconclusive(f"{needed}: --nfv-repeat {limit.repeats}", figure)
    if limit.of_baseline:
        return _judge_baseline(asked, figure)
    if limit.relative_to is None:
        return asked.verdict(figure, figure)
    return _judge_relation(asked, figure)


def _judge_baseline(asked: _Requirement, figure: Figure) -> Verdict:
    """Compare with an earlier run. The runs share no pairs, so their intervals are divided."""
    if asked.baseline is None:
        return asked.inconclusive(NOT_GIVEN, figure)
    then = asked.baseline.figures(asked.subject)
    if isinstance(then, str):
        return asked.inconclusive(then, figure)
    verdict = _over(replace(asked, limit=replace(asked.limit, at=figure.at)), figure, asked.baseline.name, then)
    when = f"against the run of {asked.baseline.when}; how much a figure moves from run to run is not in its interval"
    return replace(
        verdict,
        requirement=requirement_text(asked.metric, asked.limit, asked.of_class),
        confidence="; ".join(filter(None, (figure.confidence, when))),
        evidence=figure.evidence,  # the other run's trials have the same names
    )


def _over(
    asked: _Requirement, figure: Figure, name: str, observed: Sequence[Figure], of_class: str | None = None
) -> Verdict:
    """Judge the figure divided by that of ``name``, whose figures are ``observed``.

    ``of_class``: the class that it is compared with; None: its own.
    """
    wanted = asked.of_class if of_class is None else of_class
    observed = [candidate for candidate in observed if candidate.of_class == wanted]
    comparable = [
        candidate for candidate in observed if candidate.unit == figure.unit or candidate.metric != asked.metric
    ]
    other = _find(asked.metric, asked.limit, comparable)
    if isinstance(other, str):
        return asked.inconclusive(f"{name}: {other}", figure)
    if not (math.isfinite(other.value) and other.value > 0):
        return asked.inconclusive(f"{name} has {asked.metric} {other.value:g}", figure)
    return asked.verdict(figure, figure.over(other), other)


def _judge_relation(asked: _Requirement, figure: Figure) -> Verdict:
    differing, labels = dict(asked.limit.relative_to or ()), asked.labels
    really = {name: value for name, value in differing.items() if labels.get(name) != value}
    if not really:
        return asked.verdict(figure, exact(asked.metric, 1.0, "ratio"))  # it is the baseline
    # A ratio to this very baseline, measured in the same rounds, is more precise than two separate figures.
    ratio = next((relative for relative in figure.relatives if dict(relative.baseline) == really), None)
    if ratio is not None:
        return _verdict_on_ratio(asked, figure, ratio)
    baseline = ", ".join(f"{name} {value}" for name, value in differing.items())
    theirs = asked.peers({**asked.subject, **{name: to for name, to in differing.items() if name != CLASS}})
    if theirs is None:
        return asked.inconclusive(f"baseline {baseline} was not measured in this run", figure)
    return _over(asked, figure, f"baseline {baseline}", theirs, differing.get(CLASS))


def _verdict_on_ratio(asked: _Requirement, observed: Figure, ratio: Relative) -> Verdict:
    figure = Figure(asked.metric, ratio.ratio, "ratio", ratio.low, ratio.high, detail=ratio.why)
    verdict = asked.verdict(observed, figure)
    other = None
    if ratio.baseline_value is not None and ratio.why:
        other = exact(asked.metric, ratio.baseline_value, observed.unit)
        other = other.bounded(low=ratio.baseline_bound is Bound.AT_MOST, high=ratio.baseline_bound is Bound.AT_LEAST)
    reason = _reason(verdict.judgement, figure, asked.limit, observed, other)
    return replace(verdict, reason=reason, confidence=_ratio_confidence(ratio, observed))


def _bounded_text(figure: Figure) -> str:
    """``at least 6.02 Mpps``."""
    mark = "" if figure.bound is Bound.BETWEEN else f"{figure.bound} "
    return mark.lstrip() + format_value(figure.value, figure.unit)


def _ratio_confidence(ratio: Relative, observed: Figure) -> str:
    """What the ratio rests on. With pairs also the baseline compared with itself, and the readings dropped."""
    pairing = ratio.pairing
    text = f"{how_many(len(observed.evidence), 'reading')} in interleaved rounds"
    if pairing is not None:
        text = f"{how_many(pairing.pairs, 'pair')} in {how_many(pairing.blocks, 'block')} of fresh builds"
    text += f", interval at {format_ratio(ratio.confidence)}"
    if ratio.smallest_detectable is None:
        return f"{text}; so few show no difference at all"
    text += f"; a difference of {format_ratio(round(ratio.smallest_detectable, 4))} would have shown"
    if pairing is not None and pairing.noise_low is not None and pairing.noise_high is not None:
        noise = f"{format_ratio(pairing.noise_low)} .. {format_ratio(pairing.noise_high)}"
        text += f"; the baseline against itself: {noise}"
    if pairing is not None and pairing.dropped:
        text += f"; readings dropped: {', '.join(f'{reason} {count}x' for reason, count in pairing.dropped)}"
    return text


def _find(metric: str, limit: Limit, observed: Sequence[Figure]) -> Figure | str:
    """The one figure that the limit is about, or why there is none."""
    named = [figure for figure in observed if figure.metric == metric]
    if not named:
        names = {figure.metric for figure in observed if metric_of(figure.metric).default_limit is None}
        measured = ", ".join(sorted(names)) or "nothing"
        ask = ": ask for it, search.ndr_pdr(..., latency=True)" if metric.startswith("latency_") else ""
        return f"{metric} {NOT_MEASURED}{ask} (it measured {measured})"
    fitting = [figure for figure in named if figure.unit == (named[0].unit if limit.is_share else limit.unit)]
    if not fitting:
        unit = "line rate" if limit.unit == "line_ratio" else limit.unit
        return f"{metric} has no figure in {unit}: " + (
            "the ports have no line rate" if limit.unit == "line_ratio" else f"it is in {named[0].unit}"
        )
    if limit.at is not None:
        at_load = [figure for figure in fitting if same_load(figure.at, limit.at)]
        if not at_load:
            return f"{metric} was not measured at {show_load(limit.at)} (but at {_loads(fitting)})"
        return at_load[0]
    if len({figure.at for figure in fitting}) > 1:
        return f"{metric} was measured at several loads ({_loads(fitting)}): the SLA must say at which"
    return fitting[0]


def _loads(observed: Sequence[Figure]) -> str:
    return ", ".join(dict.fromkeys(show_load(figure.at) if figure.at else "no named load" for figure in observed))


def _compare(figure: Figure, limit: Limit) -> Judgement:
    def meets(value: float) -> bool:
        if math.isclose(value, limit.value, rel_tol=_EQUAL, abs_tol=0.0):
            return "=" in limit.operator
        return value > limit.value if ">" in limit.operator else "<" in limit.operator and value < limit.value

    low, high = figure.interval
    ends = [meets(low), meets(high)]
    if all(ends):
        return Judgement.PASS
    may_be_equal = limit.operator == "==" and low <= limit.value <= high
    return Judgement.INCONCLUSIVE if any(ends) or may_be_equal else Judgement.FAIL


def _margin(figure: Figure, limit: Limit, judgement: Judgement) -> float | None:
    """(observed - limit) / |limit|, positive if better; None against a limit of 0 or for ``==``.

    None, too, for "at least 4 Mpps" against ">= 5 Mpps": the distance to what nobody measured is no margin.
    """
    low, high = figure.interval
    is_bound = low != high and (_one_ended(figure) or figure.value in {low, high})
    undecided = judgement is Judgement.INCONCLUSIVE and is_bound
    if limit.value == 0 or limit.operator == "==" or undecided:
        return None
    margin = (figure.value - limit.value) / abs(limit.value)
    return margin if limit.operator in {">", ">="} else -margin


def _reason(judgement: Judgement, figure: Figure, limit: Limit, observed: Figure, baseline: Figure | None) -> str:
    shown = format_against(figure.value, limit.value, limit.unit)
    low, high = figure.interval
    if low != high:
        shown = _interval_words(figure, shown, limit)
    if baseline is not None:
        shown += f" ({_bounded_text(observed)} against {_bounded_text(baseline)})"
    if figure.detail and low != high:
        shown += f": {figure.detail}"
    if judgement is Judgement.INCONCLUSIVE and low != high:
        bound = f"{limit.operator} {format_against(limit.value, figure.value, limit.unit)}"
        says = "says nothing about" if _one_ended(figure) else "the interval neither shows nor refutes"
        shown += f"; {says} {bound}"
        if baseline is not None and None in (observed.high, baseline.high):
            shown += f"; {FASTER_GENERATOR}"
    return shown


def _interval_words(figure: Figure, shown: str, limit: Limit) -> str:
    """``at least 4.00 Mpps``, or ``97.1 % (95.2 % .. 98.9 %)`` for an interval with two ends."""
    low, high = figure.interval
    if low == figure.value and math.isinf(high):
        return f"at least {shown}"
    if high == figure.value and low <= 0:
        return f"at most {shown}"
    if math.isinf(high) and low <= 0:
        return f"about {shown}"
    most = "more" if math.isinf(high) else format_against(high, limit.value, limit.unit)
    return f"{shown} ({format_against(low, limit.value, limit.unit)} .. {most})"


def _one_ended(figure: Figure) -> bool:
    low, high = figure.interval
    return math.isinf(high) or low <= 0 < figure.value
