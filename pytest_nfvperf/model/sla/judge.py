"""From rules and observations to verdicts. Pure and three-valued.

An observation is an interval: exact, at least (generator-limited), or at most (its confirmation
failed). A requirement passes when every value of the interval meets it, fails when none does, and
is inconclusive in between. So a missing, unbounded or NaN figure can never pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.display import format_against, format_ratio, format_value, how_many
from pytest_nfvperf.model.sla.rules import Limit, Rule, budget_text, same_load, show_load, within
from pytest_nfvperf.model.sla.verdict import (
    NOT_GIVEN,
    Baseline,
    Judgement,
    Observation,
    Verdict,
    failure_table,
    worst,
)
from pytest_nfvperf.model.statistics import Bound, Relative

__all__ = ["Peers", "failure_table", "judge", "requirement_text", "worst"]

Peers = Callable[[Mapping[str, str]], Sequence[Observation] | None]
"""Observations of the subject with these labels; None when it was not measured."""

FASTER_GENERATOR = "a faster generator would resolve it: more CPUs for it, or a lab's (docs/tutorial/a-lab.md)"
"""What helps where a side of a relation is "at least": neither more readings nor another DUT would."""

_EQUAL = 1e-9
"""Relative difference below which a figure equals its limit: units are converted in floating point."""


def judge(
    rules: Sequence[Rule],
    labels: Mapping[str, str],
    observed: Sequence[Observation],
    peers: Peers,
    missing: Mapping[str, str] | None = None,
    baseline: Baseline | None = None,
) -> tuple[Verdict, ...]:
    """Judge a subject by every rule that selects it.

    Args:
        rules: all rules; rules whose selectors do not match the labels do not apply.
        labels: what the subject is.
        observed: what was measured on it.
        peers: finds the observations of a relation's other side; called with this subject's
            labels, those that differ replaced.
        missing: why metrics have no figure (model.measure.observe.unmeasured).
        baseline: an earlier run, for limits that are a share of it.

    Returns:
        One verdict a requirement, in the order of the rules. Empty when no rule applies.
    """
    why = missing or {}
    others = _Others(labels, peers, baseline)
    return tuple(
        _judge_one(rule, metric, limit, observed, others, why)
        for rule in rules
        if rule.matches(labels)
        for metric, limit in rule.require
    )


def requirement_text(metric: str, limit: Limit) -> str:
    """``latency_p99 <= 100 us at 50 % of pdr``."""
    repeats = f" over {limit.repeats} repeats" if limit.repeats > 1 else ""
    budget = f" at {budget_text(limit.cores)}" if limit.cores else ""
    return f"{metric} {limit.text}" + (f" at {show_load(limit.at)}" if limit.at else "") + budget + repeats


@dataclass(frozen=True, slots=True)
class _Figure:
    """An observed value and the interval that the truth lies in."""

    value: float
    low: float
    high: float
    why: str = ""

    @classmethod
    def of(cls, seen: Observation) -> _Figure:
        return cls(seen.value, *seen.interval, seen.bound_reason)

    @property
    def is_at_least(self) -> bool:
        """The value is a lower bound, and there is no upper one."""
        return self.low == self.value and math.isinf(self.high)

    @property
    def is_at_most(self) -> bool:
        """The value is an upper bound, and there is no lower one."""
        return self.high == self.value and self.low <= 0

    @classmethod
    def of_relative(cls, found: Relative) -> _Figure:
        """A ratio that was measured as such, in interleaved rounds."""
        return cls(found.ratio, found.low, math.inf if found.high is None else found.high, found.bound_reason)

    @property
    def one_ended(self) -> bool:
        return math.isinf(self.high) or self.low <= 0 < self.value

    def over(self, other: _Figure) -> _Figure:
        low = self.low / other.high
        high = self.high / other.low if other.low > 0 else math.inf
        why = "; ".join(dict.fromkeys(filter(None, (self.why, f"baseline: {other.why}" if other.why else ""))))
        return _Figure(self.value / other.value, low, high, why)


@dataclass(frozen=True, slots=True)
class _Others:
    """What the subject with these labels can be compared with."""

    labels: Mapping[str, str]
    peers: Peers
    baseline: Baseline | None


def _judge_one(
    rule: Rule,
    metric: str,
    limit: Limit,
    observed: Sequence[Observation],
    others: _Others,
    why: Mapping[str, str],
) -> Verdict:
    found = _find(metric, limit, observed)
    if limit.cores is not None and not isinstance(found, str):
        found = within(found, limit.cores)  # what it says about a budget of so many cores
    if isinstance(found, str):
        return _inconclusive(rule, metric, limit, why.get(metric, found))
    if not math.isfinite(found.value):
        return _inconclusive(rule, metric, limit, f"{metric} is {found.value}: not a figure", found)
    if found.repeats < limit.repeats:
        times = "once" if found.repeats == 1 else f"{found.repeats} times"
        needed = f"the SLA asks for {limit.repeats} repeats, and it was measured {times}"
        return _inconclusive(rule, metric, limit, f"{needed}: --nfv-repeat {limit.repeats}", found)
    if limit.of_baseline:
        return _judge_baseline(rule, metric, limit, found, others)
    if limit.relative_to is None:
        return _verdict(rule, metric, limit, found, _Figure.of(found))
    return _judge_relation(rule, metric, limit, found, others)


def _judge_baseline(rule: Rule, metric: str, limit: Limit, found: Observation, others: _Others) -> Verdict:
    """Compare with an earlier run. The runs share no pairs, so their intervals are divided."""
    if others.baseline is None:
        return _inconclusive(rule, metric, limit, NOT_GIVEN, found)
    then = others.baseline.figures(others.labels)
    if isinstance(then, str):
        return _inconclusive(rule, metric, limit, then, found)
    verdict = _over(rule, metric, replace(limit, at=found.at), found, others.baseline.name, then)
    when = f"against the run of {others.baseline.when}; how much a figure moves from run to run is not in its interval"
    return replace(
        verdict,
        requirement=requirement_text(metric, limit),
        confidence="; ".join(filter(None, (found.confidence, when))),
        evidence=found.evidence,  # the other run's trials have the same names
    )


def _over(
    rule: Rule, metric: str, limit: Limit, found: Observation, name: str, observed: Sequence[Observation]
) -> Verdict:
    """Judge the figure divided by that of ``name``, whose observations are ``observed``."""
    other = _find(metric, limit, [seen for seen in observed if seen.unit == found.unit or seen.metric != metric])
    if isinstance(other, str):
        return _inconclusive(rule, metric, limit, f"{name}: {other}", found)
    if not (math.isfinite(other.value) and other.value > 0):
        return _inconclusive(rule, metric, limit, f"{name} has {metric} {other.value:g}", found)
    return _verdict(rule, metric, limit, found, _Figure.of(found).over(_Figure.of(other)), other)


def _judge_relation(rule: Rule, metric: str, limit: Limit, found: Observation, others: _Others) -> Verdict:
    differing, labels = dict(limit.relative_to or ()), others.labels
    if all(labels.get(name) == value for name, value in differing.items()):
        return _verdict(rule, metric, limit, found, _Figure(1.0, 1.0, 1.0))  # it is the baseline
    # A ratio to this very baseline, measured in the same rounds, is more precise than two separate figures.
    really = {name: value for name, value in differing.items() if labels.get(name) != value}
    ratio = next((one for one in found.relatives if dict(one.baseline) == really), None)
    if ratio is not None:
        return _verdict_on_ratio(rule, metric, limit, found, ratio)
    baseline = ", ".join(f"{name} {value}" for name, value in differing.items())
    theirs = others.peers({**labels, **differing})
    if theirs is None:
        return _inconclusive(rule, metric, limit, f"baseline {baseline} was not measured in this run", found)
    return _over(rule, metric, limit, found, f"baseline {baseline}", theirs)


def _verdict_on_ratio(rule: Rule, metric: str, limit: Limit, found: Observation, ratio: Relative) -> Verdict:
    figure = _Figure.of_relative(ratio)
    verdict = _verdict(rule, metric, limit, found, figure)
    other = None
    if ratio.baseline_value is not None:
        low, high = ratio.baseline_bound == "at least", ratio.baseline_bound == "at most"
        other = Observation(metric, ratio.baseline_value, found.unit, lower_bound=low, upper_bound=high)
    reason = _reason(verdict.judgement, figure, limit, found, other if ratio.bound_reason else None)
    return replace(verdict, reason=reason, confidence=_ratio_confidence(ratio, found))


def _side(seen: Observation) -> str:
    """One side of a relation: ``at least 6.02 Mpps``."""
    mark = "" if seen.bound is Bound.BETWEEN else f"{seen.bound} "
    return mark.lstrip() + format_value(seen.value, seen.unit)


def _ratio_confidence(ratio: Relative, found: Observation) -> str:
    text = f"{how_many(len(found.evidence), 'reading')} in interleaved rounds"
    if ratio.pairing is not None:
        text = f"{how_many(ratio.pairing.pairs, 'pair')} in {how_many(ratio.pairing.blocks, 'block')} of fresh builds"
    text += f", interval at {format_ratio(ratio.confidence)}"
    if ratio.smallest_detectable is None:
        return f"{text}; so few show no difference at all"
    text += f"; a difference of {format_ratio(round(ratio.smallest_detectable, 4))} would have shown"
    return text + _noise_floor(ratio)


def _noise_floor(ratio: Relative) -> str:
    """The baseline compared with itself, and the readings dropped; "" without pairs."""
    pairing = ratio.pairing
    if pairing is None:
        return ""
    text = ""
    if pairing.noise_low is not None and pairing.noise_high is not None:
        text += (
            f"; the baseline against itself: {format_ratio(pairing.noise_low)} .. {format_ratio(pairing.noise_high)}"
        )
    if pairing.dropped:
        listed = ", ".join(f"{reason} {count}x" for reason, count in pairing.dropped)
        text += f"; readings dropped: {listed}"
    return text


def _find(metric: str, limit: Limit, observed: Sequence[Observation]) -> Observation | str:
    """The one observation that the limit is about, or why there is none."""
    named = [seen for seen in observed if seen.metric == metric]
    if not named:
        measured = ", ".join(sorted({seen.metric for seen in observed})) or "nothing"
        return f"{metric} was not measured by this test (it measured {measured})"
    fitting = [seen for seen in named if seen.unit == (named[0].unit if limit.is_share else limit.unit)]
    if not fitting:
        unit = "line rate" if limit.unit == "line_ratio" else limit.unit
        return f"{metric} has no figure in {unit}: " + (
            "the ports have no line rate" if limit.unit == "line_ratio" else f"it is in {named[0].unit}"
        )
    if limit.at is not None:
        at_load = [seen for seen in fitting if same_load(seen.at, limit.at)]
        if not at_load:
            return f"{metric} was not measured at {show_load(limit.at)} (but at {_loads(fitting)})"
        return at_load[0]
    if len({seen.at for seen in fitting}) > 1:
        return f"{metric} was measured at several loads ({_loads(fitting)}): the SLA must say at which"
    return fitting[0]


def _loads(observed: Sequence[Observation]) -> str:
    return ", ".join(dict.fromkeys(show_load(seen.at) if seen.at else "no named load" for seen in observed))


def _verdict(
    rule: Rule, metric: str, limit: Limit, found: Observation, figure: _Figure, baseline: Observation | None = None
) -> Verdict:
    judgement = _compare(figure, limit)
    return Verdict(
        judgement=judgement,
        requirement=requirement_text(metric, limit),
        metric=metric,
        limit=limit.value,
        unit=limit.unit,
        observed=figure.value,
        margin=_margin(figure, limit, judgement),
        reason=_reason(judgement, figure, limit, found, baseline),
        rule=rule.source,
        confidence=found.confidence,
        evidence=found.evidence + (baseline.evidence if baseline else ()),
    )


def _compare(figure: _Figure, limit: Limit) -> Judgement:
    ends = [_meets(end, limit) for end in (figure.low, figure.high)]
    if limit.operator == "==":
        if all(ends):
            return Judgement.PASS
        holds = figure.low <= limit.value <= figure.high or any(ends)
        return Judgement.INCONCLUSIVE if holds else Judgement.FAIL
    if all(ends):
        return Judgement.PASS
    return Judgement.INCONCLUSIVE if any(ends) else Judgement.FAIL


def _meets(value: float, limit: Limit) -> bool:
    equal = math.isclose(value, limit.value, rel_tol=_EQUAL, abs_tol=0.0)
    if limit.operator in {">=", "<=", "=="} and equal:
        return True
    if limit.operator in {">", ">="}:
        return value > limit.value and not equal
    if limit.operator in {"<", "<="}:
        return value < limit.value and not equal
    return False


def _margin(figure: _Figure, limit: Limit, judgement: Judgement) -> float | None:
    """(observed - limit) / |limit|, positive when better; None against a limit of 0 or for ``==``.

    None too for "at least 4 Mpps" against ">= 5 Mpps": the distance to what nobody measured is no margin.
    """
    is_bound = figure.low != figure.high and (figure.one_ended or figure.value in {figure.low, figure.high})
    undecided = judgement is Judgement.INCONCLUSIVE and is_bound
    if limit.value == 0 or limit.operator == "==" or undecided:
        return None
    margin = (figure.value - limit.value) / abs(limit.value)
    return margin if limit.operator in {">", ">="} else -margin


def _reason(
    judgement: Judgement, figure: _Figure, limit: Limit, found: Observation, baseline: Observation | None
) -> str:
    shown = format_against(figure.value, limit.value, limit.unit)
    if figure.low != figure.high:
        shown = _interval_words(figure, shown, limit)
    if baseline is not None:
        shown += f" ({_side(found)} against {_side(baseline)})"
    if figure.why and figure.low != figure.high:
        shown += f": {figure.why}"
    if judgement is Judgement.INCONCLUSIVE and figure.low != figure.high:
        bound = f"{limit.operator} {format_against(limit.value, figure.value, limit.unit)}"
        shown += (
            f"; says nothing about {bound}" if figure.one_ended else f"; the interval neither shows nor refutes {bound}"
        )
        if baseline is not None and (found.lower_bound or baseline.lower_bound):
            shown += f"; {FASTER_GENERATOR}"
    return shown


def _interval_words(figure: _Figure, shown: str, limit: Limit) -> str:
    """``at least 4.00 Mpps``, or ``97.1 % (95.2 % .. 98.9 %)`` for an interval with two ends."""
    if figure.is_at_least:
        return f"at least {shown}"
    if figure.is_at_most:
        return f"at most {shown}"
    if math.isinf(figure.high) and figure.low <= 0:
        return f"about {shown}"
    low = format_against(figure.low, limit.value, limit.unit)
    high = "more" if math.isinf(figure.high) else format_against(figure.high, limit.value, limit.unit)
    return f"{shown} ({low} .. {high})"


def _inconclusive(rule: Rule, metric: str, limit: Limit, reason: str, found: Observation | None = None) -> Verdict:
    # Of a share, what was found is no ratio yet, and would be shown as one.
    known = found is not None and not limit.is_share and math.isfinite(found.value)
    observed = found.value if found is not None and known else None
    return Verdict(
        judgement=Judgement.INCONCLUSIVE,
        requirement=requirement_text(metric, limit),
        metric=metric,
        limit=limit.value,
        unit=limit.unit,
        observed=observed,
        margin=None,
        reason=reason,
        rule=rule.source,
        confidence=found.confidence if found else "",
        evidence=found.evidence if found else (),
    )
