"""The forwarding rate at maximum offered load (RFC 2285 section 3.6.2, FRMOL).

The generator offers what it can, above what the DUT takes, and the rate received is read: a figure in half
a second, where a search takes ten. It is the DUT's own as long as the DUT is what does not keep up. A trial counts when

- the generator held the load, but for at most 5 % of the time. While it is absent nothing is offered, so that time is
  taken off. A load that it cannot hold against this DUT is lowered, for all subjects alike;
- the poll-mode threads had their CPUs: not more than 1 % of the trial was stolen;
- clearly more was offered than received. Otherwise, and within 5 % of the rig's own ceiling, the
  DUT forwards *at least* as much: generator-limited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.profile import TRIAL_OVERHEAD_S, Profile
from pytest_nfvperf.model.traffic.traffic import Traffic, check_mtu
from pytest_nfvperf.model.traffic.trial import TrialResult, TrialSpec
from pytest_nfvperf.runs.interleave import Reading
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import NEAR_CEILING, OWN_LIMIT, Limits, LimitsOf, measured_labels
from pytest_nfvperf.runs.trials import Trial

CLEARLY_MORE = 1.02
"""Offered over received, above which the DUT, and not the generator, set the rate."""

_LOWER = 0.9
_LOWEST_TRIES = 8
_WARM_UP_S = 0.15

UNITS = {"forwarding_rate": "pps", "packet_time": "ns", "cycles_per_packet": "cycles"}
"""What a reading holds, in which unit; forwarding_rate per direction, the others over all directions."""


@dataclass
class ForwardingRate:
    """Reads the forwarding rate of one traffic on any topology.

    The load is the same on all topologies; it only ever falls.
    """

    traffic: Traffic
    profile: Profile
    limits_of: LimitsOf
    limits: Limits | None = None
    load_fps: float = 0.0

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        return "frmol"

    @property
    def units(self) -> Mapping[str, str]:
        """Base units of the metrics."""
        return UNITS

    @property
    def reading_s(self) -> float:
        """Warm-up, trial, their overheads and learning frames."""
        return _WARM_UP_S + self.profile.comparison_trial_s + 2 * (self.profile.search_residual_s + TRIAL_OVERHEAD_S)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured."""
        return measured_labels(live, self.traffic)

    def facts(self) -> dict[str, Any]:
        """What all subjects share."""
        return {
            "mean_frame_size": self.traffic.mean_frame_size,
            "directions": 2 if self.traffic.bidirectional else 1,
            "ceiling_fps": self.limits.ceiling_fps if self.limits else None,
            "line_rate_fps": self.limits.line_rate_fps if self.limits else None,
        }

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading.

        Raises:
            InvalidTrialsError: no valid trial within the budget.
            ValueError: the frame does not fit into a port's MTU.
        """
        return self.measure(live, remaining_s)[1]

    def measure(self, live: LiveTopology, remaining_s: float | None) -> tuple[Trial, Reading]:
        """The trial of a reading, and the reading; errors as in ``read``."""
        limits = self._prepare(live)
        self._warm_up(live, remaining_s)
        trial = live.runner.run(self._spec(live, self.profile.comparison_trial_s, "forwarding rate"), remaining_s)
        return trial, _reading(trial, limits)

    def _prepare(self, live: LiveTopology) -> Limits:
        if self.limits is None:
            for port in live.topology.ports:
                check_mtu(self.traffic, port.mtu)
            self.limits = self.limits_of(live, self.traffic)
            self.load_fps = self.limits.maximum_fps
        return self.limits

    def _warm_up(self, live: LiveTopology, remaining_s: float | None) -> None:
        """Learn, and one ignored trial; where the generator cannot hold the load, lower it until it can."""
        live.learn(self.traffic)
        for _ in range(_LOWEST_TRIES):
            trial = live.runner.run_once(self._spec(live, _WARM_UP_S, "warm-up"), remaining_s)
            if not any(reason.code in OWN_LIMIT for reason in trial.result.invalid):
                return
            self.load_fps *= _LOWER

    def _spec(self, live: LiveTopology, duration_s: float, purpose: str) -> TrialSpec:
        both = live.topology.directions
        return TrialSpec(
            traffic=self.traffic,
            load_fps=max(1, round(self.load_fps)),
            duration_s=duration_s,
            directions=both if self.traffic.bidirectional else both[:1],
            latency=False,  # under overload it is the length of the queue
            residual_s=self.profile.search_residual_s,
            purpose=purpose,
            saturating=True,
        )


def _reading(trial: Trial, limits: Limits) -> Reading:
    result = trial.result
    rate = (result.received_fps or 0.0) / _present(result)
    values = {"forwarding_rate": rate}
    if rate > 0:
        values["packet_time"] = 1e9 / (rate * len(result.counts))
    if trial.cost.pmd_cycles_per_packet is not None:
        values["cycles_per_packet"] = trial.cost.pmd_cycles_per_packet
    why = _limited(result, rate, limits)
    if not why:
        return Reading(values, trial.id)
    # Below saturation a PMD counts its idle time to the packets: it needs no more for them than this.
    return Reading(values, trial.id, {"forwarding_rate": why}, dict.fromkeys(("packet_time", "cycles_per_packet"), why))


def _present(result: TrialResult) -> float:
    """Share of the trial that the generator was there to offer anything."""
    skipped = sum(count.skipped for count in result.counts)
    return 1 - skipped / result.intended if result.intended > skipped else 1.0


def _limited(result: TrialResult, rate: float, limits: Limits) -> str:
    """Why the rig, and not the DUT, set the rate; empty when it was the DUT, or the line."""
    if limits.line_rate_fps is not None and result.spec.load_fps >= math.floor(limits.line_rate_fps):
        return ""
    if limits.ceiling_fps is not None and rate >= limits.ceiling_fps * NEAR_CEILING:
        return f"generator-limited: within 5 % of its own ceiling of {format_fps(limits.ceiling_fps)} per direction"
    if (result.offered_fps or 0.0) / _present(result) < CLEARLY_MORE * rate:
        return f"generator-limited: hardly more was offered than the {format_fps(rate)} received"
    return ""
