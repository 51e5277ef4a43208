"""A measured figure: a value, and the interval in which the DUT's true value lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.statistics import Bound, Relative


class Why(StrEnum):
    """Why an end of a figure's interval is open, or not where the value is; the text is for a person."""

    GENERATOR = "the generator itself can hardly do more"
    SLOWED = "the machine slowed generator or DUT"
    FAR_CPUS = "the host kept the CPUs apart"
    DISTURBED = "the machine disturbed the trials at more"
    UNTRIED = "nothing more was tried"
    MINIMUM = "nothing less was tried"
    UNCONFIRMED = "no trial of full length confirmed it"
    SHORT = "the generator offered less than was asked for"
    WHOSE_LOSS = "the machine may have lost it"
    FEW = "there are too few samples"
    SHARED_CPUS = "the nodes share CPUs"
    OTHER_CORES = "the datapath had another number of cores"
    RIG = "readings are limited by the rig"
    ENDED_EARLY = "it does not cover the whole time"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. Whoever measures makes it; judge, reports, history and comparison read nothing else.

    Attributes:
        metric: ndr, pdr, loss_ratio, latency_p99, cycles_per_packet, mpps_per_core, ...
        value: in ``unit``.
        unit: base unit: "pps" (frames/s per direction), "bps" (layer 2, with FCS), "line_ratio", "ns",
            "ratio", "cycles", "instructions", "frames", "s", "cores", "segments".
        low, high: the interval that the DUT's true value lies in; None for an open end.
        at: the load it belongs to ("50 % of pdr", "4000000 pps"), or None.
        of_class: the class of a mix that it is about; "" for all traffic.
        why: why it is only a bound; empty for a best estimate, with or without an interval.
        detail: the same for a person, with what was seen: "generator-limited: ...".
        confidence: what the figure rests on, for a person: "confirmed by 5 s without loss, loss < 7.5e-08 at 95 %".
        evidence: trial ids.
        repeats: number of searches, of which it is the middle one.
        relatives: ratios to baselines that were measured in the same rounds.
        cores: CPUs of the datapath's poll-mode threads, of each node; 0 if that is not known, or says nothing.
        flows: behind ``offloaded_flows``: each flow as OVS writes it, and whether it is in hardware.
        flows_left_out: flows that are not listed, because there are too many.
    """

    metric: str
    value: float
    unit: str
    low: float | None
    high: float | None
    at: str | None = None
    of_class: str = ""
    why: tuple[Why, ...] = ()
    detail: str = ""
    confidence: str = ""
    evidence: tuple[str, ...] = ()
    repeats: int = 1
    relatives: tuple[Relative, ...] = ()
    cores: int = 0
    flows: tuple[tuple[str, bool], ...] = ()
    flows_left_out: int = 0

    @property
    def key(self) -> tuple[str, str, str | None, str]:
        """What no two figures of a subject have in common."""
        return self.metric, self.unit, self.at, self.of_class

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends. An open upper end is infinity; an open lower end is 0, or -infinity where a metric has a sign."""
        floor = -math.inf if self.value < 0 or metric_of(self.metric).signed else 0.0
        return floor if self.low is None else self.low, math.inf if self.high is None else self.high

    @property
    def bound(self) -> Bound:
        """How the value relates to the true one."""
        if self.low is None or self.high is None:
            return Bound.of(low=self.low is None, high=self.high is None)
        return Bound.BETWEEN if self.value in (self.low, self.high) and self.low != self.high else Bound.EXACT

    def bounded(self, *why: Why, low: bool = False, high: bool = False, detail: str = "") -> Figure:
        """The same with these ends open, and the reason added to those that it has."""
        return replace(
            self,
            low=None if low else self.low,
            high=None if high else self.high,
            why=tuple(dict.fromkeys((*self.why, *why))),
            detail="; ".join(dict.fromkeys(filter(None, (self.detail, detail)))),
        )

    def converted(self, unit: str, convert: Callable[[float], float]) -> Figure:
        """The same in another unit."""
        low, high = (None if end is None else convert(end) for end in (self.low, self.high))
        return replace(self, value=convert(self.value), unit=unit, low=low, high=high)

    def over(self, other: Figure) -> Figure:
        """The ratio of two figures that were measured apart: the ends are divided."""
        (low, high), (least, most) = self.interval, other.interval
        detail = "; ".join(filter(None, (self.detail, f"baseline: {other.detail}" if other.detail else "")))
        return replace(
            self,
            value=self.value / other.value,
            unit="ratio",
            low=None if self.low is None or other.high is None else low / most,
            high=None if self.high is None or least <= 0 else high / least,
            why=(*self.why, *other.why),
            detail=detail,
        )


def exact(metric: str, value: float, unit: str, at: str | None = None, **more: object) -> Figure:
    """A figure whose value is the best estimate of the true one. ``more``: further fields of a Figure."""
    return Figure(metric, value, unit, value, value, at, **more)  # type: ignore[arg-type]
