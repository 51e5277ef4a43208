"""An SLA as data. The language is read by pytest_nfvperf.config.sla_file, judged by model.sla.judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ON_OR_OFF = {True: "on", False: "off"}
"""How a yes or no is written as a label: ``tso: on``; ``true`` in YAML is the same."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound on one metric.

    Attributes:
        operator: one of ``>=``, ``<=``, ``>``, ``<``, ``==``.
        value: the number, in ``unit``; for a relation a ratio (0.95 for "95 % of ...").
        unit: base unit as in Observation ("pps", "bps", "line_ratio", "ns", "ratio",
            "cycles", "s", "frames"); "ratio" for a relation.
        relative_to: None for an absolute bound. Else the labels in which the subject of
            comparison differs, e.g. (("bridges", "1"),) or (("topology", "one_bridge"),).
        at: the load the metric is taken at ("50 % of pdr", "4000000 pps"), or None.
        text: as the user wrote it.
        repeats: so many searches, or more, must stand behind the figure.
        cores: the budget that a rate is asked for at; None for none.
        of_baseline: the value is a share of the same figure in the run that --nfv-baseline names.
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

    @property
    def is_share(self) -> bool:
        """True for a ratio to another figure, which has the unit of neither."""
        return self.relative_to is not None or self.of_baseline


@dataclass(frozen=True, slots=True)
class Rule:
    """``where`` selects subjects by labels (all must match; a value may be a set); ``require`` bounds metrics.

    ``where``: ((label, (accepted value, ...)), ...), values as strings.
    ``source``: file and key path, for messages. ``name`` and ``reference`` are the user's own words
    for the report: what the rule is called and where its figures were published.
    """

    where: tuple[tuple[str, tuple[str, ...]], ...]
    require: tuple[tuple[str, Limit], ...]
    source: str
    name: str = ""
    reference: str = ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when every selector is met by the labels. An unknown label does not match."""
        return all(_accepts(accepted, labels.get(name)) for name, accepted in self.where)


def _accepts(accepted: Sequence[str], value: str | None) -> bool:
    """A value that ends in a star selects all that begin so: ``firmware: 22.36.*``."""
    if value is None:
        return False
    return value in accepted or any(one.endswith("*") and value.startswith(one[:-1]) for one in accepted)


@dataclass(frozen=True, slots=True)
class Sla:
    """All rules of one file."""

    rules: tuple[Rule, ...]
    source: str


def unmatched_rules(sla: Sla, all_labels: Sequence[Mapping[str, str]]) -> tuple[Rule, ...]:
    """Rules that select none of the subjects: an SLA nobody would notice is not kept."""
    return tuple(rule for rule in sla.rules if not any(rule.matches(labels) for labels in all_labels))


def rules_name(rules: Sequence[Rule], baseline: str = "") -> str:
    """16 hex digits that are the same for rules that ask the same of the same subjects, in whatever file they stand.

    Args:
        rules: in their order.
        baseline: names the earlier run that limits may be a share of.
    """
    asked = repr(([(rule.where, rule.require, rule.name) for rule in rules], baseline))
    return hashlib.sha256(asked.encode()).hexdigest()[:16]
