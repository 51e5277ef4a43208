"""What a test calls to measure: one method a kind of measurement, each returning an Outcome.

All of them learn, warm up at full load, measure, confirm, and write the outcome into the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_nfvperf.model.arguments import FLAG, TEXT, checked, optional
from pytest_nfvperf.model.choice import unknown_word
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import (
    BackToBack,
    Goal,
    GoalOutcome,
    LatencyPoint,
    Outcome,
    PlateauPoint,
)
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.measure.shared_cpus import node_labels
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.binary import rfc2544_search, tst009_search
from pytest_nfvperf.runs.call_arguments import DURATION, LIVE, LOAD, TRAFFIC, check_live
from pytest_nfvperf.runs.coarse import coarse_note, goals_worth_searching
from pytest_nfvperf.runs.confirm import SHARES, confirm_all
from pytest_nfvperf.runs.found_goals import cost_of, marked, marked_low, near_ceiling
from pytest_nfvperf.runs.held_load import load_to_hold
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.limits import HIGHER, Limits, LimitsOf, above_the_ceiling
from pytest_nfvperf.runs.load_series import (
    back_to_back,
    latency_point,
    latency_profile,
    loss_curve,
    loss_point,
    no_burst,
)
from pytest_nfvperf.runs.measurer import OWN_LIMIT, WARM_UP, LoadLimits, LoadMeasurer
from pytest_nfvperf.runs.mlr import mlr_search
from pytest_nfvperf.runs.offload_share import share_after
from pytest_nfvperf.runs.plateau import plateaus, typical
from pytest_nfvperf.runs.repeats import over_repeats
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.session_watch import Sessions, SessionWatch
from pytest_nfvperf.runs.windowing import windows_tell_nothing

MINIMUM_SHARE = 0.001
"""Minimum load of a search, as a share of the maximum."""

BURST_SHARE = 0.85
_BURST_RATES = 4
"""At which bursts are tried: the first, that by a ceiling measured anew, and lower ones."""

_LOWER_BURST = 0.7
_WARM_UPS = 6
_MOST_RAISES = 2


EstimateOf = Callable[[Profile], float]
Find = Callable[[LoadMeasurer, LoadLimits], tuple[GoalOutcome, ...]]


class Search:
    """The fixture ``search``: measurements of one test.

    ``labels``: identify the test in SLAs and reports (suite, test, parameters, datapath). ``limits_of``: the rig's
    ceiling and the line rate for a traffic; ``limits_anew``: the same with a ceiling that is measured now.
    ``estimate_of``: expected duration of an NDR/PDR search, s. ``repeats``: of searches, see ``over_repeats``.
    """

    def __init__(
        self,
        profile: Profile,
        labels: Mapping[str, str],
        limits_of: LimitsOf,
        estimate_of: EstimateOf,
        limits_anew: LimitsOf | None = None,
        repeats: int = 1,
    ) -> None:
        self.profile = profile
        self.labels = dict(labels)
        self._limits_of = limits_of
        self._estimate_of = estimate_of
        self._limits_anew = limits_anew or limits_of
        self._repeats = repeats

    @checked("search.ndr_pdr", live=LIVE, traffic=TRAFFIC, latency=FLAG)
    def ndr_pdr(
        self, live: LiveTopology, traffic: Traffic, *, latency: bool = False, sessions: Sessions | None = None
    ) -> Outcome:
        """NDR and PDR by MLRsearch in one pass, each with its confirmation trial.

        Args:
            live: the topology to measure on.
            traffic: what to send.
            latency: also measure latency at the profile's shares of the PDR.
            sessions: routing sessions on the path. They are up before each trial, and judged at loads up to the one
                confirmed: a search overloads the path on purpose, and their frames share its queues.
        """
        return self._find(live, traffic, "mlrsearch", self._mlr, latency=latency, sessions=sessions)

    @checked("search.ceiling_fps", live=LIVE, traffic=TRAFFIC, anew=FLAG)
    def ceiling_fps(self, live: LiveTopology, traffic: Traffic, *, anew: bool = False) -> float | None:
        """What the rig itself can do with this traffic, frames/s per direction; None where it cannot be measured.

        Args:
            live: taken down and built again where it has to be measured.
            traffic: what to send.
            anew: measure it now, whatever was kept of another day.
        """
        return (self._limits_anew if anew else self._limits_of)(live, traffic).ceiling_fps

    @checked("search.throughput", live=LIVE, traffic=TRAFFIC, algorithm=TEXT)
    def throughput(self, live: LiveTopology, traffic: Traffic, algorithm: str = "rfc2544") -> Outcome:
        """Throughput (RFC 1242 section 3.17) by ``rfc2544`` or ``tst009`` binary search; ConfigError for another."""
        known: dict[str, Find] = {"rfc2544": self._rfc2544, "tst009": self._tst009}
        if algorithm not in known:
            raise unknown_word(algorithm, "algorithm", [*known])
        return self._find(live, traffic, algorithm, known[algorithm])

    @checked("search.loss_curve", live=LIVE, traffic=TRAFFIC)
    def loss_curve(self, live: LiveTopology, traffic: Traffic) -> Outcome:
        """Frame-loss curve (RFC 2544 section 26.3) from the maximum load down."""
        measurer, limits = self._start(live, traffic)
        points = loss_curve(
            measurer,
            self._usable_maximum(measurer, limits),
            step=self.profile.loss_curve_step,
            trial_s=self.profile.loss_curve_trial_s,
        )
        return self._finish(live, self._outcome(live, traffic, "loss-curve", measurer, limits, loss_curve=points))

    @checked("search.back_to_back", live=LIVE, traffic=TRAFFIC, throughput_fps=optional(LOAD))
    def back_to_back(self, live: LiveTopology, traffic: Traffic, throughput_fps: float | None = None) -> Outcome:
        """Longest lossless burst at the maximum rate (RFC 9004), repeated and averaged.

        Where ports have no line rate, the burst rate is 85 % of the generator's ceiling. If the rig cannot hold
        that rate, its ceiling is measured again, and then the rate is lowered; a rate at which it can is a figure,
        and none at all leaves the metric missing, with the rates that were tried.
        """
        measurer, limits = self._start(live, traffic)
        rate = self._burst_fps(measurer, limits)
        failed: list[str] = []
        while len(failed) < _BURST_RATES:
            try:
                result = self._bursts(measurer, rate, throughput_fps)
            except InvalidTrialsError as error:
                failed.append(f"{format_fps(rate)} ({error.counted})")
                if len(failed) == 1:
                    limits = self._measured_anew(live, traffic, measurer)
                    anew = self._burst_fps(measurer, limits)
                    rate = anew if anew < rate else rate * _LOWER_BURST
                else:
                    rate *= _LOWER_BURST
                continue
            found: dict[str, Any] = {"back_to_back": result}
            break
        else:
            found = {"missing": (("back_to_back_frames", no_burst(failed, limits.ceiling_fps)),)}
        notes = (f"the rig did not hold bursts at {', '.join(failed)}",) if failed else ()
        outcome = self._outcome(live, traffic, "back-to-back", measurer, limits, notes=notes, **found)
        return self._finish(live, outcome)

    def _measured_anew(self, live: LiveTopology, traffic: Traffic, measurer: LoadMeasurer) -> Limits:
        """The limits, with a ceiling measured now; the topology is built again meanwhile."""
        limits = self._limits_anew(live, traffic)
        live.learn(traffic)
        measurer.runner = live.runner
        return limits

    def _burst_fps(self, measurer: LoadMeasurer, limits: Limits) -> float:
        maximum = self._usable_maximum(measurer, limits)
        return maximum if limits.line_rate_fps else maximum * BURST_SHARE

    def _bursts(self, measurer: LoadMeasurer, rate: float, throughput_fps: float | None) -> BackToBack:
        measurer.spoiled.clear()
        return back_to_back(
            measurer,
            rate,
            repeats=self.profile.back_to_back_repeats,
            longest_s=self.profile.back_to_back_max_s,
            throughput_fps=throughput_fps,
        )

    @checked("search.loss_at", live=LIVE, traffic=TRAFFIC, load_fps=LOAD, duration_s=DURATION)
    def loss_at(self, live: LiveTopology, traffic: Traffic, load_fps: float, duration_s: float) -> Outcome:
        """Loss ratio, latency and cost of one valid trial at a fixed load; ConfigError for a load that is none."""
        measurer, limits = self._start(live, traffic)
        measurer.attempt(self.profile.warmup_s, load_fps, WARM_UP)
        trial = measurer.measure(duration_s, load_fps, "fixed load")
        return self._finish(
            live,
            self._outcome(
                live,
                traffic,
                "fixed-load",
                measurer,
                limits,
                loss_curve=(loss_point(trial),),
                latency=(latency_point(format_fps(load_fps), trial),),
                cost=trial.cost,
            ),
        )

    def _find(
        self,
        live: LiveTopology,
        traffic: Traffic,
        algorithm: str,
        find: Find,
        *,
        latency: bool = False,
        sessions: Sessions | None = None,
    ) -> Outcome:
        found = [self._found(live, traffic, algorithm, find, latency, sessions) for _ in range(self._repeats)]
        return self._finish(live, over_repeats(found))

    def _found(
        self,
        live: LiveTopology,
        traffic: Traffic,
        algorithm: str,
        find: Find,
        latency: bool,
        sessions: Sessions | None,
    ) -> Outcome:
        measurer, limits = self._start(live, traffic)
        measurer.watch = None if sessions is None else SessionWatch(sessions)
        limits, maximum, plateau = self._warmed_up(measurer, limits)
        readings = [*plateau]
        found = find(measurer, LoadLimits(maximum * MINIMUM_SHARE, maximum))
        if measurer.watch is None and any(near_ceiling(goal, limits.ceiling_fps) for goal in found):
            limits, found = self._above(live, traffic, measurer, limits, found, find)
        readings += self._plateau(measurer, limits, again=True)
        found = tuple(marked(goal, limits.ceiling_fps, measurer.spoiled, limits.maximum_fps) for goal in found)
        goals = self._confirmed(measurer, found)
        readings += self._plateau(measurer, limits, again=True)
        plateau = typical(readings)
        live.runner.patience.learn(measurer.patience_s)
        goals = tuple(marked_low(goal, measurer.apart, measurer.disturbed(goal)) for goal in goals)
        found_more = {
            "goals": goals,
            "cost": cost_of(goals, measurer.trials, plateau),
            "latency": self._latency(measurer, goals) if latency else (),
            "plateaus": plateau,
            "notes": coarse_note(goals, self.profile.goals),
        }
        if measurer.watch is not None:
            found_more |= measurer.watch.judged(goals)
        return self._outcome(live, traffic, algorithm, measurer, limits, **found_more)

    def _warmed_up(self, measurer: LoadMeasurer, limits: Limits) -> tuple[Limits, float, tuple[PlateauPoint, ...]]:
        """The limits, the maximum load and the first reading; once more where the DUT exceeds the rig's ceiling."""
        maximum, plateau = self._usable_maximum(measurer, limits), self._plateau(measurer, limits)
        for _ in range(_MOST_RAISES):
            raised = above_the_ceiling(limits, plateau, measurer.trials)
            if raised is None:
                break
            limits, maximum = raised, self._usable_maximum(measurer, raised)
            plateau = self._plateau(measurer, limits, again=True) or plateau
        return limits, maximum, plateau

    @staticmethod
    def _plateau(measurer: LoadMeasurer, limits: Limits, *, again: bool = False) -> tuple[PlateauPoint, ...]:
        """A reading; ``again``: none where routing sessions are on the path, which the overload may end."""
        if again and measurer.watch is not None:
            return ()
        return plateaus(measurer, limits.ceiling_fps, limits.line_rate_fps)

    def _above(
        self,
        live: LiveTopology,
        traffic: Traffic,
        measurer: LoadMeasurer,
        limits: Limits,
        found: tuple[GoalOutcome, ...],
        find: Find,
    ) -> tuple[Limits, tuple[GoalOutcome, ...]]:
        """Repeat a search that ended at the rig's ceiling, where that turns out to be higher than was kept."""
        anew = self._measured_anew(live, traffic, measurer)
        if (anew.ceiling_fps or 0.0) < HIGHER * (limits.ceiling_fps or 0.0):
            return limits, found
        maximum = self._usable_maximum(measurer, anew)
        return anew, find(measurer, LoadLimits(maximum * MINIMUM_SHARE, maximum))

    def _mlr(self, measurer: LoadMeasurer, limits: LoadLimits) -> tuple[GoalOutcome, ...]:
        goals = goals_worth_searching(self.profile.goals, measurer.trials)
        return mlr_search(measurer, goals, limits, timeout_s=self.profile.search_timeout_s)

    def _rfc2544(self, measurer: LoadMeasurer, limits: LoadLimits) -> tuple[GoalOutcome, ...]:
        measurer.residual_s = self.profile.rfc2544_residual_s
        return (rfc2544_search(measurer, self._throughput_goal(), limits),)

    def _tst009(self, measurer: LoadMeasurer, limits: LoadLimits) -> tuple[GoalOutcome, ...]:
        repeats = self.profile.tst009_max_rejections
        return (tst009_search(measurer, self._throughput_goal(), limits, max_repeats=repeats),)

    def _throughput_goal(self) -> Goal:
        return replace(self.profile.ndr, name="throughput", final_trial_s=self.profile.rfc2544_trial_s)

    def _confirmed(self, measurer: LoadMeasurer, goals: Sequence[GoalOutcome]) -> tuple[GoalOutcome, ...]:
        if not self.profile.confirmation_s:
            return tuple(goals)
        return confirm_all(measurer, goals, duration_s=self.profile.confirmation_s, attempts=len(SHARES))

    def _start(self, live: LiveTopology, traffic: Traffic) -> tuple[LoadMeasurer, Limits]:
        check_live("search", live, traffic)
        directions = live.topology.directions if traffic.bidirectional else live.topology.directions[:1]
        limits = self._limits_of(live, traffic)  # first: an unknown ceiling takes the topology down and up again
        live.learn(traffic)
        measurer = LoadMeasurer(
            live.runner,
            traffic,
            directions,
            residual_s=self.profile.search_residual_s,
            estimate_s=self._estimate_of(self.profile),
            patience_s=live.runner.patience.allowed_s,
            windowed=not windows_tell_nothing(live),
        )
        return measurer, limits

    def _usable_maximum(self, measurer: LoadMeasurer, limits: Limits) -> float:
        """Warm up at full load; where the generator itself cannot keep that up, lower it until it can."""
        load = limits.maximum_fps
        for _ in range(_WARM_UPS):
            trial = measurer.attempt(self.profile.warmup_s, load, WARM_UP)
            if not any(reason.code in OWN_LIMIT for reason in trial.result.invalid):
                return load
            if trial.result.placement is not None and trial.result.placement.apart:
                continue  # far from the DUT's CPU the generator is slower, which says nothing of the load
            load = load_to_hold(trial.result)
        return load

    def _latency(self, measurer: LoadMeasurer, goals: Sequence[GoalOutcome]) -> tuple[LatencyPoint, ...]:
        name, load = goals[-1].goal.name, goals[-1].reported_fps
        if load is None:
            return ()
        loads = [(f"{share * 100:g} % of {name}", load * share) for share in self.profile.latency_loads]
        return latency_profile(measurer, loads, self.profile.latency_trial_s)

    def _outcome(
        self,
        live: LiveTopology,
        traffic: Traffic,
        algorithm: str,
        measurer: LoadMeasurer,
        limits: Limits,
        **found: Any,
    ) -> Outcome:
        return Outcome(
            labels=tuple(sorted({**self.labels, **measured_labels(live, traffic)}.items())),
            algorithm=algorithm,
            mean_frame_size=traffic.mean_frame_size,
            directions=len(measurer.directions),
            trials=tuple(trial.id for trial in measurer.trials),
            ceiling_fps=limits.ceiling_fps,
            line_rate_fps=limits.line_rate_fps,
            elapsed_s=measurer.elapsed_s(),
            cores=live.datapath_info.cores,
            **found,
        )

    def _finish(self, live: LiveTopology, outcome: Outcome) -> Outcome:
        outcome = replace(outcome, offload=share_after(live, outcome.label))
        live.runner.recorder.emit(outcome)
        return outcome


def measured_labels(live: LiveTopology, traffic: Traffic) -> dict[str, str]:
    """What was really measured, as labels; they win over what a test says of itself."""
    tuning = {} if live.dut.tuning == OVS_DEFAULT else {"tuning": str(live.dut.tuning)}
    headers = {"headers": traffic.headers_label} if traffic.headers_label else {}
    return {
        **tuning,
        **headers,
        **node_labels(live.topology, live.datapath_info),
        "topology": live.name,
        "frame_size": traffic.frame_label,
        "flows": str(traffic.flows),
        "direction": "bidirectional" if traffic.bidirectional else "unidirectional",
        "datapath": live.datapath_kind,
    }
