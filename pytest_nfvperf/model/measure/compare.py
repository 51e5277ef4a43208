"""A comparison as data: sides, the record, and the decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.metrics import HIGHER, Metric, metric_of
from pytest_nfvperf.model.statistics import CONFIDENCE, Pairing, Relative, Samples
from pytest_nfvperf.model.testbed.ovs_settings import INSTALLED, checked_name, why_setting_refused

MARGIN = 0.02
"""Sides are the same where the interval of their ratio lies within 1 +- this."""

COLUMN = "other_config"
"""Of the table Open_vSwitch: what a setting may be in."""


LEAST_DIFFERENCE = 0.01
"""Differences below this are never reported: code and memory layout alone can cause that much."""

LEAST_OF_INSTRUCTIONS = 0.002
"""The same of instructions a packet, which no layout changes."""

UNPAIRED_FLOOR = 0.10
"""Seen: the same forwarding rate differed by this between fresh starts on one machine (docs/explanation/noise.md)."""

_FLOOR_KNOWN = frozenset({"pps", "bps", "cycles"})
"""Units of the figures of which that was seen. The median latency of two runs differed by 20 % and more."""

LEAST_RATIOS, MOST_RATIOS = 6, 10
"""Ratios of neighbouring runs from which a rig's own noise is known, and that are kept."""

# The sides of a comparison, as a command line names them: ``A``, ``A=WHERE``, ``--set A:other_config:KEY=VALUE``.


@dataclass(frozen=True, slots=True)
class Side:
    """One Open vSwitch of a comparison.

    Attributes:
        where: "installed", a path, or the name of a kept version or of one that the testbed names.
        settings: keys of Open_vSwitch other_config, in addition to the testbed's.
    """

    name: str
    where: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """What a run compares: two or more sides, the baseline first.

    ``margin``: how far from 1 the interval of a ratio may reach for "same", as a share: 0.02 for 2 %.
    """

    sides: tuple[Side, ...]
    margin: float = MARGIN

    @property
    def baseline(self) -> Side:
        return self.sides[0]


def parse_sides(texts: Sequence[str], settings: Sequence[str] = ()) -> tuple[Side, ...]:
    """Read the sides of a command line; ConfigError says what to write.

    Args:
        texts: "WHERE" or "NAME=WHERE" each, the baseline first.
        settings: "SIDE:other_config:KEY=VALUE", or without "SIDE:" for every side.
    """
    sides: dict[str, Side] = {}
    for text in texts:
        name, equals, where = text.partition("=")
        if not equals or "/" in name:
            name, where = text.rstrip("/").rpartition("/")[2], text
        if not where or not name:
            raise ConfigError(f"{text!r} names no side: write NAME, or NAME=WHERE such as new=/opt/ovs-3.3.4")
        if name in sides:
            raise ConfigError(f"{name!r} is given twice: each side needs a name of its own, such as again={where}")
        sides[name] = Side(name if name == INSTALLED else checked_name(name), where)
    if len(sides) < 2:
        only = f"{next(iter(sides))!r} alone" if sides else "nothing"
        raise ConfigError(f"a comparison needs two sides or more, not {only}: write `nfvperf compare A B -- suites/`")
    for text in settings:
        _apply_setting(sides, text)
    return tuple(sides.values())


def _apply_setting(sides: dict[str, Side], text: str) -> None:
    selector, equals, value = text.partition("=")
    *side, column, key = selector.rsplit(":", 2) if selector.count(":") else ("", "")
    if not equals or not key or column != COLUMN:
        raise ConfigError(
            f"{text!r} is no setting: write SIDE:{COLUMN}:KEY=VALUE, such as "
            f"new:{COLUMN}:emc-insert-inv-prob=0; without SIDE: it is every side's",
            key="--set",
        )
    if reason := why_setting_refused(key, value):
        raise ConfigError(f"{text!r}: {reason}", key="--set")
    for name in side or sides:
        if name not in sides:
            hint = did_you_mean(name, sides)
            raise ConfigError(f"{text!r}: no side is called {name!r}{hint} (sides: {listed(sides)})", key="--set")
        settings = {**dict(sides[name].settings), key: value}
        sides[name] = replace(sides[name], settings=tuple(settings.items()))


# The result of a comparison as evidence; model/evidence/comparison.py makes ``comparison.json`` of it
# (docs/reference/comparison.md).


class Word(StrEnum):
    """The decision on a side, in one metric, against the baseline."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


class SideState(StrEnum):
    """Whether a side was measured.

    FAILED: it does not do what the test needs, such as forward frames. BROKEN: it did not start, died or hung.
    UNAVAILABLE: the machine lacks what it needs.
    """

    MEASURED = "measured"
    FAILED = "failed"
    BROKEN = "broken"
    UNAVAILABLE = "unavailable"


class ReadingMethod(StrEnum):
    """How sides were read: in turns side by side, in rounds on fresh builds, or in two runs of their own."""

    ALTERNATING = "alternating"
    ROUNDS = "rounds"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of a side, over that of the baseline.

    Attributes:
        better: "higher" or "lower".
        word: the decision.
        reason: for the decision, in a sentence with the figures.
        decides: the test's result and the exit status follow this metric; one a side.
        value, baseline_value: medians.
        ratio: side over baseline.
        low, high: its interval; None where nothing bounds it.
        confidence: level of the interval, of one of several planned looks.
        noise_low, noise_high: interval of the baseline over a second build of itself.
        noise_floor: how far from 1 a ratio must be to count, as a share: the larger of 1 % and the reach of the noise
            interval; None without one: no difference can be shown.
        smallest_detectable: that these readings could have shown.
        blocks: of fresh builds; 0 where not alternating.
        pairs: readings of both sides in the same turn; 0 where not alternating.
        dropped: reasons of dropped readings, each with their number.
        block_ratios: of each block.
        noise_ratios: of each block, the baseline over its second build; of runs, each of the newest over its last.
        at: the load that the figure was taken at.
        why: why an end of the interval is open though readings are many, such as "generator-limited".
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
    why: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class SideFigures:
    """A side in one comparison, not the baseline.

    Attributes:
        reason: why it was not measured.
        metrics: those that both it and the baseline have.
    """

    side: str
    state: SideState = SideState.MEASURED
    reason: str = ""
    metrics: tuple[MetricComparison, ...] = ()

    @property
    def deciding(self) -> MetricComparison | None:
        """None where the side was not measured."""
        return next((metric for metric in self.metrics if metric.decides), None)


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """The sides on one topology with one traffic.

    Attributes:
        labels: as of an Outcome, without the side.
        algorithm: "frmol" is the forwarding rate at maximum offered load.
        baseline: the name of the first side.
        sides: the others, in the order of the command line.
    """

    labels: tuple[tuple[str, str], ...]
    algorithm: str
    how: ReadingMethod
    baseline: str
    sides: tuple[SideFigures, ...]
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()


# The decision on a ratio with its interval: faster, slower, same, or unknown (docs/reference/comparison.md).
#
# A side is *different* where the interval excludes 1 and the ratio is beyond the noise floor: the larger of 1 % and the
# difference of two builds of the baseline. A side that is not different is the *same* where the interval lies within
# the margin.


Noise = tuple[float | None, float | None]
"""How much equal sides differ here: the interval of the baseline over itself; None: unbounded."""


def noise_floor(noise: Noise, least: float = LEAST_DIFFERENCE) -> float | None:
    """How far from 1 a ratio must be to count, ``least`` or more; None where nothing bounds the noise."""
    low, high = noise
    if low is None or high is None or low <= 0 or math.isinf(high):
        return None
    return max(least, high - 1, 1 / low - 1)


def decide(low: float, high: float, ratio: float, better: str, floor: float | None, margin: float) -> Word:
    """Decide on a ratio, side over baseline.

    Args:
        low: lower end of its interval; 0 where nothing bounds it.
        high: upper end; infinity where nothing bounds it.
        ratio: the estimate.
        better: HIGHER or LOWER.
        floor: how far from 1 the ratio must be to count; None: no difference can be shown.
        margin: how far from 1 the interval may reach for "same".
    """
    beyond = floor is not None and max(ratio, 1 / ratio) - 1 > floor
    if beyond and (low > 1 or high < 1):
        return Word.FASTER if (low > 1) == (better == HIGHER) else Word.SLOWER
    if low >= 1 - margin and high <= 1 + margin:
        return Word.SAME
    return Word.CANNOT_TELL


def compare_metric(
    samples: Samples, relative: Relative | None, noise: Noise, margin: float, *, decides: bool
) -> MetricComparison:
    """Decide on one metric of a side. ``relative``: its ratio to the baseline, None without one."""
    metric, value = metric_of(samples.metric), samples.median if samples.values else None
    better = metric.better or HIGHER
    if relative is None:
        reason = "no reading of both sides has this figure in a block"
        return MetricComparison(samples.metric, samples.unit, better, Word.CANNOT_TELL, reason, decides, value)
    low, high = relative.low, math.inf if relative.high is None else relative.high
    floor = noise_floor(noise, LEAST_OF_INSTRUCTIONS if metric.virtual else LEAST_DIFFERENCE)
    word = decide(low, high, relative.ratio, better, floor, margin)
    pairing = relative.pairing or Pairing(0, 0)
    return MetricComparison(
        metric=samples.metric,
        unit=samples.unit,
        better=better,
        word=word,
        reason=_reason(word, relative, floor, margin),
        decides=decides,
        value=value,
        baseline_value=relative.baseline_value,
        ratio=relative.ratio,
        low=low or None,
        high=relative.high,
        confidence=relative.confidence,
        noise_low=noise[0],
        noise_high=noise[1],
        noise_floor=floor,
        smallest_detectable=relative.smallest_detectable,
        blocks=pairing.blocks,
        pairs=pairing.pairs,
        dropped=pairing.dropped,
        block_ratios=pairing.ratios,
        noise_ratios=pairing.noise_ratios,
        why=relative.why,
    )


def compare_figures(now: Figure, then: Figure, earlier: Sequence[float] = ()) -> MetricComparison | None:
    """Compare a figure with that of an earlier run on the same rig; None where their ratio says nothing.

    ``earlier``: ``noise_ratios`` of the earlier run, the oldest first.
    """
    metric = metric_of(now.metric)
    judged = metric.better is not None and not metric.signed and metric.default_limit is None
    if not judged or not all(0 < figure.value < math.inf for figure in (now, then)):
        return None
    over = now.over(then)
    bounded = None in (over.low, over.high)
    why = over.detail if bounded else ""
    ratio = Relative(now.metric, (), over.value, over.low or 0.0, over.high, CONFIDENCE, None, why, then.value)
    noise = _noise_of_runs(metric, now.unit, earlier)
    ends = (None, None) if noise is None else (1 / (1 + noise), 1 + noise)
    margin = MARGIN if noise is None else max(noise, LEAST_OF_INSTRUCTIONS if metric.virtual else LEAST_DIFFERENCE)
    found = compare_metric(Samples(now.metric, now.unit, (now.value,)), ratio, ends, margin, decides=False)
    ratios = tuple(earlier) if bounded else (*earlier, over.value)
    return replace(found, at=now.at or "", noise_ratios=ratios[-MOST_RATIOS:])


def _noise_of_runs(metric: Metric, unit: str, earlier: Sequence[float]) -> float | None:
    """By how much a figure differs between runs in which nothing changed, as a share; None where nobody knows.

    It is three times the largest step but one between neighbouring runs here: a single step may be a change. Of
    simulated figures that did not change this called 0.2 % worse, and 1.3 % where single runs stray far.
    """
    if metric.virtual:
        return 0.0
    if len(earlier) >= LEAST_RATIOS:
        return math.expm1(3 * sorted(abs(math.log(ratio)) for ratio in earlier)[-2])
    return UNPAIRED_FLOOR if unit in _FLOOR_KNOWN else None


def unread_metric(metric: str, unit: str) -> MetricComparison:
    """The deciding metric where the machine disturbed all readings of a side."""
    reason = "no reading of this side has this figure: the rig disturbed them all"
    return MetricComparison(metric, unit, metric_of(metric).better or HIGHER, Word.CANNOT_TELL, reason, decides=True)


def _reason(word: Word, relative: Relative, floor: float | None, margin: float) -> str:
    """``ratio 0.865 (0.851 .. 0.899) lies beyond the noise floor of 1.2 %``."""
    ends = f"{relative.low:.3f} .. {'open' if relative.high is None else f'{relative.high:.3f}'}"
    found = f"ratio {relative.ratio:.3f} ({ends})"
    if word is Word.SAME:
        return f"{found} lies within {1 - margin:.3f} .. {1 + margin:.3f}"
    if word is not Word.CANNOT_TELL:
        return f"{found} excludes 1, and is beyond the noise floor of {floor:.1%}"
    if relative.why:
        return f"{found}: {relative.why}"
    if relative.low <= 1 and (relative.high is None or relative.high >= 1):
        return f"{found} holds 1, and reaches beyond {1 - margin:.3f} .. {1 + margin:.3f}"
    if floor is None:
        return f"{found}, but nobody knows by how much equal sides differ here"
    return f"{found} excludes 1, but is within the noise floor of {floor:.1%}"
