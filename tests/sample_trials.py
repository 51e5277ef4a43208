"""Trials of a pretended DUT, as records: counts, latency and ledger of what exceeds its capacity."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from pytest_nfvperf.adapters.evidence.hdr import encode
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.evidence.records import KINDS, LedgerData, Record, RecordIds, make_record, trial_data
from pytest_nfvperf.model.measure.ledger import (
    CounterDelta,
    FramePath,
    HopKind,
    Ledger,
    Loss,
    PathStage,
    frame_path,
    ledger_of,
    loss_sort_key,
)
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, RigHealth, TrialSpec

DIRECTIONS = (Direction("p0", "p1"), Direction("p1", "p0"))


@cache
def latency_at(load_ratio_percent: int, seed: int, samples: int = 4000) -> Histogram:
    """Latency as a queue has it: low and tight at light load, a long tail near capacity. HdrHistogram buckets."""
    rng = random.Random(load_ratio_percent * 1000 + seed)
    load = min(load_ratio_percent, 99) / 100
    median = 6500 + 9000 * load / (1.04 - load) ** 0.6
    counts: dict[int, int] = {}
    for _ in range(samples):
        value = rng.lognormvariate(0, 0.16 + 0.3 * load) * median
        if rng.random() < 0.004:
            value += rng.uniform(2e5, 5e6) * load
        counts[int(value)] = counts.get(int(value), 0) + 1
    exact = Histogram(tuple(sorted(counts.items())), min(counts), max(counts), significant_digits=9)
    return Histogram(coarse_histogram(exact, 3).counts, exact.min_ns, exact.max_ns, 3)


FULL = "its transmit ring was full: the DUT did not drain it in time"


def counts_of(
    direction: Direction,
    *,
    sent: int,
    received: int | None = None,
    refused: int = 0,
    skipped: int = 0,
    frame_size: int = 64,
    elapsed_ns: int = 10**9,
    **more: Any,
) -> DirectionCounts:
    """A direction whose frames were sent or not, and came once and unchanged; all of them without ``received``."""
    received = sent if received is None else received
    return DirectionCounts(
        direction=direction,
        intended=sent + refused + skipped,
        sent=sent,
        refused=refused,
        skipped=skipped,
        received=received,
        duplicated=0,
        out_of_order=0,
        foreign=0,
        corrupted=0,
        sent_bytes=sent * frame_size,
        received_bytes=received * frame_size,
        elapsed_ns=elapsed_ns,
        **more,
    )


class SampleTrials:
    """Builds records of trials; ``records`` has them in order."""

    def __init__(self, *, seed: int = 1, worker: str = "") -> None:
        self.records: list[Record] = []
        self._rng = random.Random(seed)
        self._ids = RecordIds(worker)
        self._now = 1_790_000_000_000_000_000
        self._test = ""
        self._lossy: dict[str, tuple[tuple[int, bool], Ledger]] = {}

    def add(self, payload: object, seconds: float = 0.01) -> str:
        """One record; returns its id."""
        self._now += int(seconds * 1e9)
        record_id = self._ids.next(KINDS[type(payload)])
        self.records.append(
            make_record(payload, id=record_id, run="20261121-000759", test=self._test, time_ns=self._now)
        )
        return record_id

    def trial_until_valid(self, traffic: Traffic, load: int, capacity: float, purpose: str, trials: list[str]) -> None:
        """One trial; one in twelve is disturbed by the rig and repeated."""
        disturbed = None
        if self._rng.random() < 1 / 12:
            disturbed = self.trial(traffic, load, capacity, purpose, invalid=True)
            trials.append(disturbed)
        trials.append(self.trial(traffic, load, capacity, purpose, repeat_of=disturbed))

    def trial(
        self,
        traffic: Traffic,
        load: int,
        capacity: float,
        purpose: str,
        duration_s: float = 1.0,
        *,
        invalid: bool = False,
        repeat_of: str | None = None,
    ) -> str:
        """One trial's record; what exceeds the capacity is lost, two thirds of it refused by the ring."""
        spec = TrialSpec(traffic, load, duration_s, DIRECTIONS, purpose=purpose)
        skipped = int(load * 0.004) if invalid else 0
        counts = tuple(self.direction_counts(spec, d, capacity, skipped) for d in DIRECTIONS)
        reasons: tuple[InvalidReason, ...] = ()
        if invalid:
            reasons = (
                InvalidReason(
                    Reason.SKIPPED_FRAMES, f"{2 * skipped} of {2 * load} frames were due while it did not run"
                ),
                InvalidReason(Reason.LATE_POLL, "receive ring not polled for 4.1 ms"),
            )
        health = RigHealth(
            4_100_000 if invalid else 61_000, 58_000, 32, 1 if invalid else 0, 4_000_000 if invalid else 0, 0.83
        )
        result = TrialResult(spec, counts, health, reasons)
        data = trial_data(
            result, wall_s=duration_s + 0.14, ledger=self.ledger(result), repeat_of=repeat_of, encode=encode
        )
        trial_id = self.add(data, duration_s + 0.14)
        if result.valid and result.lost > 0:
            self._lossy[trial_id] = loss_sort_key(spec), self.ledger(result)
        return trial_id

    def add_whole_ledger(self, trials: Sequence[str]) -> None:
        """As the session does at the end of a test: of the trial that bounds the result."""
        lossy = [trial_id for trial_id in trials if trial_id in self._lossy]
        if lossy:
            bounding = min(lossy, key=lambda trial_id: self._lossy[trial_id][0])
            self.add(LedgerData(bounding, self._lossy[bounding][1]))

    def direction_counts(self, spec: TrialSpec, direction: Direction, capacity: float, skipped: int) -> DirectionCounts:
        """Counts of one direction."""
        intended = int(spec.load_fps * spec.duration_s)
        due = intended - skipped
        received = min(due, int(capacity * spec.duration_s))
        refused = (due - received) * 2 // 3
        sent = due - refused
        size = int(spec.traffic.mean_frame_size)
        seed = DIRECTIONS.index(direction)
        latency = latency_at(int(spec.load_fps * 100 / capacity), seed)
        raw = latency_at(int(spec.load_fps * 80 / capacity), seed)
        elapsed = int(spec.duration_s * 1e9)
        return counts_of(
            direction,
            sent=sent,
            received=received,
            refused=refused,
            skipped=skipped,
            frame_size=size,
            elapsed_ns=elapsed,
            latency=latency,
            latency_raw=raw,
        )

    def ledger(self, result: TrialResult) -> Ledger:
        """Refused frames by the ring, the rest dropped at the far port, a few unexplained."""
        return ledger_of([self.path(count) for count in result.counts], self.deltas(result))

    def path(self, count: DirectionCounts) -> FramePath:
        """One direction through one bridge."""
        tx, rx = count.direction.tx, count.direction.rx
        unexplained = 3 if count.lost > 10 else 0
        dropped = count.sent - count.received - unexplained
        stages = [
            PathStage(f"{tx} generator", HopKind.GENERATOR, count.sent, (Loss("refused", count.refused, FULL),)),
            PathStage(f"{tx} rx", HopKind.PORT, count.sent),
            PathStage("br0", HopKind.DATAPATH, count.sent - unexplained),
            PathStage(f"{rx} tx", HopKind.PORT, count.received, (Loss("ovs_tx_failure_drops", dropped),)),
            PathStage(f"{rx} generator", HopKind.GENERATOR, count.received),
        ]
        return frame_path(str(count.direction), count.offered, stages)

    def deltas(self, result: TrialResult) -> tuple[CounterDelta, ...]:
        """Counters that moved."""
        return (
            CounterDelta("p0.rx_packets", result.sent // 2, False),
            CounterDelta("p1.tx_packets", result.received // 2, False),
        )
