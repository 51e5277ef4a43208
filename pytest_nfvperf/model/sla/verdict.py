"""Observations and verdicts: the two ends of an SLA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.samples import Bound, Relative, bound_of


class Judgement(StrEnum):
    """Three-valued. A missing number never passes; INCONCLUSIVE fails acceptance."""

    PASS = "PASS"  # noqa: S105
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured figure that an SLA can be about.

    Attributes:
        metric: ndr, pdr, loss_ratio, latency_p99, cycles_per_packet, mpps_per_core, ...
        value: in ``unit``.
        unit: base unit: "pps" (frames/s per direction), "bps" (layer 2, with FCS), "line_ratio", "ns",
            "ratio", "cycles", "instructions", "frames", "s", "cores", "segments".
        at: the load it belongs to ("50 % of pdr", "4000000 pps"), or None.
        lower_bound: the true value is at least this (generator-limited).
        upper_bound: the true value is at most this (a failed confirmation, or below the search's minimum).
        bound_reason: why it is only a bound, for a person: "generator-limited".
        confidence: what the figure rests on, for a person: "confirmed by 5 s without loss, loss < 7.5e-08 at 95 %".
        evidence: trial ids.
        low, high: interval that the true value lies in, where it was sampled; None where it was not.
        relatives: ratios to baselines that were measured in the same rounds.
        repeats: how many searches it is the middle of.
        cores: CPUs of the datapath's poll-mode threads, of each node; 0 where that is not known, or says nothing.
    """

    metric: str
    value: float
    unit: str
    at: str | None = None
    lower_bound: bool = False
    confidence: str = ""
    evidence: tuple[str, ...] = ()
    upper_bound: bool = False
    bound_reason: str = ""
    low: float | None = None
    high: float | None = None
    relatives: tuple[Relative, ...] = ()
    repeats: int = 1
    cores: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """What the true value lies in: both ends are the value where it is exact.

        An open upper end is infinity. An open lower end is 0, or -infinity where the value itself is negative.
        """
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if self.upper_bound:
            low = 0.0 if low >= 0 else -math.inf
        return low, (math.inf if self.lower_bound else high)

    @property
    def bound(self) -> Bound:
        """What the value says of the true one: judge, tables, JUnit, matrix, history and export all ask here."""
        return bound_of(self.value, lower=self.lower_bound, upper=self.upper_bound, low=self.low, high=self.high)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one requirement.

    ``observed`` is None when it was not measured. ``margin`` is (observed - limit) / |limit|,
    signed so that positive is better; None when it cannot be computed, and where ``observed`` is a bound
    that does not decide.
    ``subject``: labels of what was judged, where a test has several subjects.
    """

    judgement: Judgement
    requirement: str
    metric: str
    limit: float | None
    unit: str
    observed: float | None
    margin: float | None
    reason: str
    rule: str
    confidence: str = ""
    evidence: tuple[str, ...] = ()
    subject: tuple[tuple[str, str], ...] = ()

    @property
    def times_limit(self) -> float | None:
        """How many times the limit was observed; None where either is not known, or the limit is none to divide by."""
        return self.observed / self.limit if self.limit and self.observed is not None else None

    def is_about(self, labels: tuple[tuple[str, str], ...]) -> bool:
        """False for a verdict on another subject of the same test."""
        return not self.subject or set(labels) <= set(self.subject)
