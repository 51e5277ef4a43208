"""The decision on a ratio with its interval: faster, slower, same, or unknown (docs/reference/comparison.md). Pure.

A side is *different* where the interval excludes 1 and the ratio is beyond the noise floor: the larger of 1 % and the
difference of two builds of the baseline. It is the *same* where it is not, and the interval lies within the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_nfvperf.model.compare.record import MetricComparison, Word
from pytest_nfvperf.model.measure.instruction_cost import VIRTUAL_METRICS
from pytest_nfvperf.model.samples import Pairing, Relative, Samples

LEAST_DIFFERENCE = 0.01
"""Differences below this are never told: the layout of code and memory alone makes as much."""

LEAST_OF_INSTRUCTIONS = 0.002
"""The same of instructions a packet, which no layout changes."""

HIGHER, LOWER = "higher", "lower"

BETTER = {
    "forwarding_rate": HIGHER,
    "tcp_throughput": HIGHER,
    "mirror_rate": HIGHER,
    "ndr": HIGHER,
    "pdr": HIGHER,
    "throughput": HIGHER,
    "cycles_per_packet": LOWER,
    "instructions_per_packet": LOWER,
    "sender_cores": LOWER,
    "receiver_cores": LOWER,
    "datapath_cores": LOWER,
    "cpu_per_gigabit": LOWER,
    "pmd_cores": LOWER,
    "load_latency_p50": LOWER,
    "load_latency_p99": LOWER,
    "response_time_p50": LOWER,
    "response_time_p99": LOWER,
    "connect_rate": HIGHER,
    "connect_time_mean": LOWER,
    "connect_time_p99": LOWER,
    "reconnect_time": LOWER,
}
"""Metrics that sides are compared in, and which way is better. The time a packet is the rate again; shares that are
whole or not have no ratio."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The difference of equal sides here: ``low``, ``high`` bound the baseline over itself; None: unbounded.

    Differences below ``least`` are never reported.
    """

    low: float | None
    high: float | None
    least: float = LEAST_DIFFERENCE

    @property
    def value(self) -> float | None:
        """How far from 1 a ratio must be to count; None where nothing says it."""
        if self.low is None or self.high is None or self.low <= 0 or math.isinf(self.high):
            return None
        return max(self.least, self.high - 1, 1 / self.low - 1)


def decide(low: float, high: float, ratio: float, better: str, floor: float | None, margin: float) -> Word:
    """The word for a ratio, side over baseline.

    ``low``, ``high``: its interval; 0 and infinity where nothing bounds it. ``better``: HIGHER or LOWER. ``floor``: how
    far from 1 it must be to count; None: no difference can be shown. ``margin``: how far the interval may reach for
    "same".
    """
    beyond = floor is not None and max(ratio, 1 / ratio) - 1 > floor
    if beyond and (low > 1 or high < 1):
        return Word.FASTER if (low > 1) == (better == HIGHER) else Word.SLOWER
    if low >= 1 - margin and high <= 1 + margin:
        return Word.SAME
    return Word.CANNOT_TELL


def compared(
    samples: Samples, relative: Relative | None, floor: Floor, margin: float, *, decides: bool
) -> MetricComparison:
    """One metric of a side; ``relative``: its ratio to the baseline, None without one.

    ``decides``: the test's result follows this metric.
    """
    better = BETTER[samples.metric]
    if samples.metric in VIRTUAL_METRICS:
        floor = replace(floor, least=LEAST_OF_INSTRUCTIONS)
    if relative is None:
        reason = "no reading of both sides has this figure in a block"
        return MetricComparison(
            samples.metric, samples.unit, better, Word.CANNOT_TELL, reason, decides, _median(samples)
        )
    low, high = relative.low, math.inf if relative.high is None else relative.high
    word = decide(low, high, relative.ratio, better, floor.value, margin)
    pairing = relative.pairing or Pairing(0, 0)
    return MetricComparison(
        metric=samples.metric,
        unit=samples.unit,
        better=better,
        word=word,
        reason=_reason(word, relative, floor, margin),
        decides=decides,
        value=_median(samples),
        baseline_value=relative.baseline_value,
        ratio=relative.ratio,
        low=low or None,
        high=relative.high,
        confidence=relative.confidence,
        noise_low=floor.low,
        noise_high=floor.high,
        noise_floor=floor.value,
        smallest_detectable=relative.smallest_detectable,
        blocks=pairing.blocks,
        pairs=pairing.pairs,
        dropped=pairing.dropped,
        block_ratios=pairing.ratios,
        noise_ratios=pairing.noise_ratios,
        bound_reason=relative.bound_reason,
    )


def unread(metric: str, unit: str) -> MetricComparison:
    """The metric that decides, of a side none of whose readings has it: the machine disturbed them all."""
    reason = "no reading of this side has this figure: the rig disturbed them all"
    return MetricComparison(metric, unit, BETTER[metric], Word.CANNOT_TELL, reason, decides=True)


def _median(samples: Samples) -> float | None:
    return samples.median if samples.values else None


def _reason(word: Word, relative: Relative, floor: Floor, margin: float) -> str:
    """``ratio 0.865 (0.851 .. 0.899) lies beyond the noise floor of 1.2 %``."""
    ends = f"{relative.low:.3f} .. {'open' if relative.high is None else f'{relative.high:.3f}'}"
    found = f"ratio {relative.ratio:.3f} ({ends})"
    if word is Word.SAME:
        return f"{found} lies within {1 - margin:.3f} .. {1 + margin:.3f}"
    if word is not Word.CANNOT_TELL:
        return f"{found} excludes 1, and is beyond the noise floor of {floor.value:.1%}"
    if relative.bound_reason:
        return f"{found}: {relative.bound_reason}"
    if relative.low <= 1 and (relative.high is None or relative.high >= 1):
        return f"{found} holds 1, and reaches beyond {1 - margin:.3f} .. {1 + margin:.3f}"
    if floor.value is None:
        return f"{found}, but nothing bounds what two builds of the baseline differ by"
    return f"{found} excludes 1, but is within the noise floor of {floor.value:.1%}"
