"""What a fixed load costs: CPUs of polling threads, and latency. A sleeping PMD saves the one and adds the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.model.arguments import checked, one
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.profile import TRIAL_OVERHEAD_S, Profile
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialResult, TrialSpec
from pytest_nfvperf.runs.call_arguments import TRAFFIC, WHOLE_LOAD
from pytest_nfvperf.runs.figures import measured_frames
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import measured_labels

_LOAD_COST_UNITS = {"pmd_cores": "cores", "load_latency_p50": "ns", "load_latency_p99": "ns"}
"""What a reading holds, in which unit."""

_SOURCE, _RAN = "pmd-sched", "pmd-sched.run_ns"
_PERCENTILES = {"load_latency_p50": 50.0, "load_latency_p99": 99.0}


@checked(traffic=TRAFFIC, profile=one(Profile, "the fixture `profile`"), load_fps=WHOLE_LOAD)
@dataclass(frozen=True, slots=True)
class LoadCost:
    """Reads what a load costs on any topology with generator ports. ``load_fps``: frames/s per direction."""

    traffic: Traffic
    profile: Profile
    load_fps: int

    @property
    def name(self) -> str:
        return "load_cost"

    @property
    def units(self) -> Mapping[str, str]:
        return _LOAD_COST_UNITS

    @property
    def reading_s(self) -> float:
        return self.profile.comparison_trial_s + self.profile.search_residual_s + 2 * TRIAL_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        live.learn(self.traffic)
        directions = live.topology.directions
        spec = TrialSpec(
            traffic=self.traffic,
            load_fps=self.load_fps,
            duration_s=self.profile.comparison_trial_s,
            directions=directions if self.traffic.bidirectional else directions[:1],
            latency=True,
            residual_s=self.profile.search_residual_s,
            purpose="cost of a load",
        )
        before = live.counters()
        trial = live.runner.run(spec, remaining_s)
        values = {"pmd_cores": _cores(before, live.counters()), **_latencies(trial.result)}
        return Reading({name: value for name, value in values.items() if value is not None}, trial.id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return measured_labels(live, self.traffic)

    def facts(self) -> dict[str, Any]:
        return measured_frames(self.traffic)


def _cores(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> float | None:
    """CPUs that the PMD threads used between two looks at them; None where there is none."""
    early, late = (next((one for one in each if one.source == _SOURCE), None) for each in (before, after))
    if early is None or late is None or _RAN not in early.as_dict() or _RAN not in late.as_dict():
        return None
    return (late.as_dict()[_RAN] - early.as_dict()[_RAN]) / (late.time_ns - early.time_ns)


def _latencies(result: TrialResult) -> dict[str, float | None]:
    histogram = result.latency
    if histogram is None:
        return {}
    return {name: histogram.percentile_ns(percentile) for name, percentile in _PERCENTILES.items()}
