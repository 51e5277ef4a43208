"""A simulated trial that is looked at while it runs, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.interval_counts import IntervalCounts, IntervalLatency, SoFar
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialResult, TrialSpec


class FakeTrial:
    """Fulfils ports.generator.RunningTrial: the whole result, told in equal parts.

    Args:
        spec: the trial.
        interval_s: of each part.
        simulate: what the simulated DUT does with a spec.
        wait: lets seconds pass.
    """

    most_skipped = 0.005

    def __init__(
        self,
        spec: TrialSpec,
        interval_s: float,
        simulate: Callable[[TrialSpec], TrialResult],
        wait: Callable[[float], None],
    ) -> None:
        self._spec = spec
        self._interval_s = interval_s
        self._simulate = simulate
        self._wait = wait
        self._whole = simulate(spec)
        self._at_s = 0.0
        self._ended = False
        self._stopped = False

    def next_interval(self) -> IntervalCounts | None:
        """The next part, after its time."""
        if self._stopped and 0 < self._at_s < self._spec.duration_s:
            self._whole = self._simulate(replace(self._spec, duration_s=self._at_s))
            self._spec = replace(self._spec, duration_s=self._at_s)
        left_s = self._spec.duration_s - self._at_s
        if left_s <= 1e-9:
            self._ended = True
            return None
        step_s = min(self._interval_s, left_s)
        self._wait(step_s)
        self._at_s += step_s
        share = self._at_s / self._spec.duration_s
        parts = tuple(_part(counts, share) for counts in self._whole.counts)
        return IntervalCounts(round(self._at_s * 1e9), parts, absent_ns=0, longest_poll_gap_ns=1_000)

    def stop(self) -> None:
        """End with what there was so far."""
        self._stopped = True

    def result(self) -> TrialResult:
        """The whole."""
        if not self._ended:
            raise GeneratorError("the trial has not ended: read its intervals to the last")
        return self._whole


def _part(counts: DirectionCounts, share: float) -> SoFar:
    sent, received = round(counts.sent * share), round(counts.received * share)
    return SoFar(
        sent=sent,
        refused=round(counts.refused * share),
        skipped=round(counts.skipped * share),
        received=received,
        highest_seq=sent,
        latency=_latency(counts.latency),
    )


def _latency(histogram: Histogram | None) -> IntervalLatency | None:
    if histogram is None:
        return None
    p50, p90, p99, p999 = (histogram.percentile_ns(each) or 0 for each in (50, 90, 99, 99.9))
    return IntervalLatency(histogram.total, histogram.min_ns, p50, p90, p99, p999, histogram.max_ns)
