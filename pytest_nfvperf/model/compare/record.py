"""The result of a comparison as it is written: the evidence record, and a part of ``comparison.json``.

model/evidence/comparison.py makes ``comparison.json`` (docs/reference/comparison.md) of these classes as plain JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """What is said of a side, in one metric, against the baseline."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


class SideState(StrEnum):
    """What became of a side: FAILED: it does not do what the test needs, such as forward frames.

    BROKEN: it did not start, died or hung. UNAVAILABLE: the machine lacks what it needs.
    """

    MEASURED = "measured"
    FAILED = "failed"
    BROKEN = "broken"
    UNAVAILABLE = "unavailable"


class How(StrEnum):
    """How sides were read: in turns side by side, in rounds on fresh builds, or in two runs of their own."""

    ALTERNATING = "alternating"
    ROUNDS = "rounds"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of a side, over that of the baseline.

    ``better``: "higher" or "lower". ``word``: the decision; ``reason``: why, in a sentence, with the figures.
    ``decides``: the test's result and the exit status follow it; one a side. ``value``, ``baseline_value``: medians.
    ``ratio``: side over baseline; ``low``, ``high``: its interval; None where nothing bounds it. ``confidence``: its
    level, of one of several planned looks. ``noise_low``, ``noise_high``: interval of the baseline over a second build
    of itself. ``noise_floor``: how far from 1 a ratio must be to count, as a share: the larger of 1 % and the reach of
    the noise interval; None without one: no difference can be shown. ``smallest_detectable``: that these readings could
    have shown. ``blocks``: of fresh builds; ``pairs``: readings of both sides in the same turn; 0 where not
    alternating. ``dropped``: reasons of dropped readings. ``block_ratios``: in each block; ``noise_ratios``: of the
    second build. ``bound_reason``: why an end of the interval is open though readings are many, such as
    "generator-limited".
    """

    metric: str
    unit: str
    better: str
    word: Word
    reason: str
    decides: bool = False
    value: float | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    noise_low: float | None = None
    noise_high: float | None = None
    noise_floor: float | None = None
    smallest_detectable: float | None = None
    blocks: int = 0
    pairs: int = 0
    dropped: tuple[tuple[str, int], ...] = ()
    block_ratios: tuple[float, ...] = ()
    noise_ratios: tuple[float, ...] = ()
    bound_reason: str = ""


@dataclass(frozen=True, slots=True)
class SideFigures:
    """A side in one comparison, not the baseline. ``metrics``: those that both have.

    ``state``: whether it was measured, or what kept it from that, with the ``reason``.
    """

    side: str
    state: SideState = SideState.MEASURED
    reason: str = ""
    metrics: tuple[MetricComparison, ...] = ()

    @property
    def deciding(self) -> MetricComparison | None:
        """The metric that decides; None where it was not measured."""
        return next((metric for metric in self.metrics if metric.decides), None)


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """The sides on one topology with one traffic.

    ``labels``: as of an Outcome, without the side. ``algorithm``: "frmol" is the forwarding rate at maximum offered
    load. ``baseline``: its name. ``sides``: the others, in the order of the command line.
    """

    labels: tuple[tuple[str, str], ...]
    algorithm: str
    how: How
    baseline: str
    sides: tuple[SideFigures, ...]
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()
