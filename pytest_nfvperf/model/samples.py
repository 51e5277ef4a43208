"""Repeated readings of one figure, and what they say against a baseline or along a series.

Rounds interleave subjects (How we measure, rule 7): a drift of the machine meets all of them alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median

TO_THE_LAST = frozenset({"mirror_completeness"})
"""Metrics that are whole or not: whoever missed one copy in one reading is not complete."""


class Bound(StrEnum):
    """What a value says of the true one. EXACT: the best estimate, with or without an interval.

    BETWEEN: one end of an interval that the true value lies in. ABOUT: the true value may lie on either side.
    """

    EXACT = ""
    AT_LEAST = "at least"
    AT_MOST = "at most"
    BETWEEN = "between"
    ABOUT = "about"

    @property
    def mark(self) -> str:
        """What stands before the value in a table: ``≥ ``, ``≤ `` or ``~ ``, and nothing before the others."""
        return {Bound.AT_LEAST: "≥ ", Bound.AT_MOST: "≤ ", Bound.ABOUT: "~ "}.get(self, "")


def bound_of(value: float, *, lower: bool, upper: bool, low: float | None = None, high: float | None = None) -> Bound:
    """The one place that tells exact values and bounds apart.

    ``lower``, ``upper``: the true value may be above, or below, all readings. ``low``, ``high``: its interval, if any.
    """
    if lower and upper:
        return Bound.ABOUT
    if lower or upper:
        return Bound.AT_LEAST if lower else Bound.AT_MOST
    ends = (value if low is None else low, value if high is None else high)
    return Bound.BETWEEN if value in ends and ends[0] != ends[1] else Bound.EXACT


@dataclass(frozen=True, slots=True)
class Samples:
    """Readings of one metric on one subject, in order, in its base unit. ``evidence``: ids of their trials.

    ``at_least``, ``at_most``: why the values only bound what the DUT does; empty when they do not.
    """

    metric: str
    unit: str
    values: tuple[float, ...]
    evidence: tuple[str, ...] = ()
    at_least: str = ""
    at_most: str = ""

    @property
    def bound(self) -> Bound:
        """What their middle says of the true value."""
        return bound_of(self.figure, lower=bool(self.at_least), upper=bool(self.at_most))

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def by_worst(self) -> bool:
        """True when one bad reading decides: see TO_THE_LAST."""
        return self.metric in TO_THE_LAST

    @property
    def figure(self) -> float:
        """What verdicts, tables and the report say: the median, or of TO_THE_LAST the reading farthest from 1."""
        return max(self.values, key=lambda value: abs(value - 1)) if self.by_worst else self.median


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a ratio was found from readings that alternated.

    ``blocks``: of fresh builds, each of which gives one ratio. ``pairs``: readings in the same turn, over all blocks.
    ``dropped``: reasons of dropped readings. ``noise_low``, ``noise_high``: interval of the baseline over a second
    build of itself, measured alike: the session's noise floor. ``noise_ratios``: the same in each block.
    """

    blocks: int
    pairs: int
    dropped: tuple[tuple[str, int], ...] = ()
    noise_low: float | None = None
    noise_high: float | None = None
    ratios: tuple[float, ...] = ()
    noise_ratios: tuple[float, ...] = ()

    @property
    def bias(self) -> float:
        """How far equal subjects differ beyond their interval: 1 where they do not, else a factor above 1."""
        if self.noise_low is None or self.noise_high is None:
            return 1.0
        return max(1.0, self.noise_low, 1 / self.noise_high)


@dataclass(frozen=True, slots=True)
class Relative:
    """A subject's samples over those of a baseline measured in the same rounds.

    ``baseline``: the labels in which it differs, such as (("bridges", "1"),). ``ratio``: of rounds by Hodges and
    Lehmann, of turns at their best (runs/same_speed.py). ``low``, ``high``: its interval; ``high`` None: unbounded.
    ``smallest_detectable``: relative difference. ``bound_reason``: why an end is open though the samples are many:
    "generator-limited". ``baseline_value``: the baseline's median. ``baseline_bound``: "at least" or "at most" where
    the baseline is only a bound itself. ``pairing``: None for rounds.
    """

    metric: str
    baseline: tuple[tuple[str, str], ...]
    ratio: float
    low: float
    high: float | None
    confidence: float
    smallest_detectable: float | None
    bound_reason: str = ""
    baseline_value: float | None = None
    baseline_bound: str = ""
    pairing: Pairing | None = None


@dataclass(frozen=True, slots=True)
class Slope:
    """How a metric changes with each one more of something (``per``, such as "bridges"), over a series of subjects.

    ``value``, ``low``, ``high``: change for one more, in ``unit``. ``share``, ...: as a ratio of the baseline's median.
    ``bound_reason``: why nothing bounds the slope: readings of the series are only bounds themselves.
    """

    metric: str
    unit: str
    per: str
    value: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    confidence: float
    bound_reason: str = ""
