"""One row of a soak's samples an interval: the counts of the generator, and the readings of each sampler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.soak import Gap
from pytest_nfvperf.model.measure.soak_table import TIME
from pytest_nfvperf.model.traffic.histogram import IntervalCounts, SoFar
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import Sampler, SamplerReading

_COUNTED = ("sent", "refused", "skipped", "received", "lost", "duplicated", "out_of_order", "corrupted")
_LATENCIES = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
_RIG = ("rig.absent_ns", "rig.longest_poll_gap_ns")
OWN_CPU = "collector.cpu_ns"
"""Column: CPU time of this process within the interval, which is what sampling costs."""


@dataclass(slots=True)
class _Source:
    """A sampler and its last reading; ``silent_since``: since when it gives none, and why."""

    sampler: Sampler
    last: SamplerReading
    silent_since: tuple[float, str] | None = None


@dataclass(slots=True)
class Rows:
    """Makes rows of intervals.

    ``samplers`` are read once a row; one that fails is read again in the next, and the time between is one of ``gaps``.
    """

    directions: Sequence[Direction]
    samplers: Sequence[Sampler]
    columns: tuple[str, ...] = ()
    gaps: list[Gap] = field(default_factory=list)
    _sources: list[_Source] = field(default_factory=list)
    _before: tuple[SoFar, ...] = ()
    _absent_ns: int = 0
    _own_cpu_ns: int = 0

    def begin(self) -> None:
        """Take the first reading of all samplers; TestbedError when one does not answer."""
        self._sources = [_Source(sampler, sampler.read()) for sampler in self.samplers]
        self._before = tuple(SoFar() for _ in self.directions)
        sampled = [name for source in self._sources for name in (*source.last.counters, *source.last.gauges)]
        own = [f"{direction}.{name}" for direction in self.directions for name in (*_COUNTED, *_LATENCIES)]
        self.columns = tuple(dict.fromkeys([*own, *_RIG, *sampled, OWN_CPU]))
        self._own_cpu_ns = time.process_time_ns()

    def row(self, interval: IntervalCounts, late: str = "") -> dict[str, float]:
        """The row of an interval; ``late``: why samplers are not read for it, as its end is too long ago."""
        at_s = interval.at_ns / 1e9
        row: dict[str, float] = {TIME: at_s, **self._generators(interval)}
        for source in self._sources:
            row |= self._read(source, at_s, late)
        now = time.process_time_ns()
        row[OWN_CPU], self._own_cpu_ns = float(now - self._own_cpu_ns), now
        return row

    def end(self, at_s: float) -> None:
        for source in self._sources:
            self._close_gap(source, at_s)

    def _generators(self, interval: IntervalCounts) -> dict[str, float]:
        row: dict[str, float] = {}
        for direction, now, before in zip(self.directions, interval.directions, self._before, strict=True):
            row |= {f"{direction}.{name}": getattr(now, name) - getattr(before, name) for name in _COUNTED}
            if now.latency is not None and now.latency.samples:
                row |= {f"{direction}.{name}": getattr(now.latency, name) for name in _LATENCIES}
        row["rig.absent_ns"] = interval.absent_ns - self._absent_ns
        row["rig.longest_poll_gap_ns"] = interval.longest_poll_gap_ns
        self._before, self._absent_ns = interval.directions, interval.absent_ns
        return row

    def _read(self, source: _Source, at_s: float, late: str) -> Mapping[str, float]:
        try:
            reading = None if late else source.sampler.read()
        except TestbedError as error:
            reading, late = None, error.message
        if reading is None:
            source.silent_since = source.silent_since or (at_s, late)
            return {}
        self._close_gap(source, at_s)
        risen = {name: now - source.last.counters.get(name, 0) for name, now in reading.counters.items()}
        # One that fell began anew: its source was restarted, and how much it counted before is not known.
        known = {name: float(rise) for name, rise in risen.items() if rise >= 0 and name in source.last.counters}
        source.last = reading
        return {**known, **reading.gauges}

    def _close_gap(self, source: _Source, at_s: float) -> None:
        if source.silent_since is not None:
            since, why = source.silent_since
            self.gaps.append(Gap(source.sampler.name, since, at_s, why))
            source.silent_since = None
