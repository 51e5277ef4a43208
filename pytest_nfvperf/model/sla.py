"""An SLA as data. The language is read by pytest_nfvperf.config.sla, judged by model.judge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound on one metric.

    Attributes:
        operator: one of ``>=``, ``<=``, ``>``, ``<``, ``==``.
        value: the number, in ``unit``; for a relation a ratio (0.95 for "95 % of ...").
        unit: base unit as in Observation ("pps", "ns", "ratio", "cycles", "s", "frames").
        relative_to: None for an absolute bound. Else the labels in which the subject of
            comparison differs, e.g. (("bridges", "1"),) or (("topology", "one_bridge"),).
        at: the load the metric is taken at ("50 % of pdr", "4000000 pps"), or None.
        text: as the user wrote it.
    """

    operator: str
    value: float
    unit: str
    text: str
    relative_to: tuple[tuple[str, str], ...] | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """``where`` selects subjects by labels (all must match; a value may be a set); ``require`` bounds metrics.

    ``where``: ((label, (accepted value, ...)), ...), values as strings.
    ``source``: file and key path, for messages.
    """

    where: tuple[tuple[str, tuple[str, ...]], ...]
    require: tuple[tuple[str, Limit], ...]
    source: str

    def matches(self, labels: dict[str, str]) -> bool:
        """True when every selector is met by the labels. An unknown label does not match."""
        return all(labels.get(name) in accepted for name, accepted in self.where)


@dataclass(frozen=True, slots=True)
class Sla:
    """All rules of one file."""

    rules: tuple[Rule, ...]
    source: str
