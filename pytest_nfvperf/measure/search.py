"""The fixture ``search``: each kind of measurement that sends frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

from pytest_nfvperf.measure.call_arguments import DurationS, Live, LoadFps, OneTraffic, Sent, check_live, check_load
from pytest_nfvperf.measure.concurrent import ConcurrentSearch, check_concurrent
from pytest_nfvperf.measure.confirmation import (
    ConfirmationSearch,
    at_ceiling,
    cost_of,
    mark_rig_limits,
    mark_slowed,
    over_repeats,
)
from pytest_nfvperf.measure.limiter_trials import limiter_of, measured_limiter
from pytest_nfvperf.measure.limits import Limits, LimitsOf, LoadRange, judges_whole_trials, median_reading
from pytest_nfvperf.measure.load_series import (
    back_to_back,
    latency_point,
    latency_profile,
    loss_curve,
    loss_of_trial,
    no_burst,
    share_after,
    trial_of_frames,
    with_trials,
)
from pytest_nfvperf.measure.measurer import (
    WARM_UP,
    LoadLimits,
    LoadMeasurer,
    Sessions,
    SessionWatch,
    measured_labels,
)
from pytest_nfvperf.measure.rig import LiveTopology, directions_of
from pytest_nfvperf.measure.search_algorithms import (
    MLRSEARCH,
    binary_search,
    coarse_note,
    goals_worth_searching,
    mlr_search,
)
from pytest_nfvperf.measure.trials import InvalidTrialsError, TrafficReplacement, Trial, as_it_is
from pytest_nfvperf.model.arguments import Name, checked, number, whole
from pytest_nfvperf.model.display import format_fps, unknown_word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.measure.bounds import (
    LATENCIES,
    SearchedGoal,
    TrialLoss,
    burst_figures,
    completed,
    cost_figures,
    cost_missing,
    goal_figures,
    goals_missing,
    latency_figures,
    latency_missing,
    of_connections,
    queue_figures,
    with_offload,
)
from pytest_nfvperf.model.measure.outcome import LatencyPoint, Outcome
from pytest_nfvperf.model.measure.profile import (
    Profile,
    after_search_s,
    estimate_bisection_s,
    estimate_search_s,
    latency_s,
)
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix

BURST_SHARE = 0.85
_BURST_RATES = 4
"""Rates at which bursts are tried: the first, that by a remeasured ceiling, and lower ones."""

_LOWER_BURST = 0.7

_OF_CONNECTIONS = {
    *("search.connection_rate", "search.concurrent", "search.loss_at", "search.loss_of", "search.loss_curve")
}
"""Calls that measure a conversation, too."""

CONNECTIONS_A_SECOND = 20_000
"""OVS 3.1 tracks three times as many new ones on one core."""

EstimateOf = Callable[[Profile], float]
Find = Callable[[LoadMeasurer, LoadLimits], tuple[SearchedGoal, ...]]

# What a test calls to measure: one method a kind of measurement, each returning an Outcome.
#
# All of them learn, warm up at full load, measure, confirm, and write the outcome into the evidence.


@dataclass(eq=False, repr=False)
class Search:
    """The fixture ``search``: measurements of one test.

    Attributes:
        labels: identify the test in SLAs and reports (suite, test, parameters, datapath).
        _limits_of: the rig's ceiling and the line rate for a traffic.
        _estimate_of: expected duration of an NDR/PDR search, s.
        _remeasured_limits: limits with a ceiling that is measured now; None: those of ``_limits_of``.
        _repeats: of searches, see ``over_repeats``.
        _replacement_for: what is sent instead of a test's own traffic.
    """

    profile: Profile
    labels: Mapping[str, str]
    _limits_of: LimitsOf
    _estimate_of: EstimateOf
    _remeasured_limits: LimitsOf | None = None
    _repeats: int = 1
    _replacement_for: TrafficReplacement = as_it_is

    @checked("search.ndr_pdr")
    def ndr_pdr(
        self,
        live: Live,
        traffic: Sent,
        *,
        latency: bool = False,
        sessions: Sessions | None = None,
        raise_only: Name | None = None,
        judge_only: Name | None = None,
    ) -> Outcome:
        """NDR and PDR by MLRsearch in one pass, each with its confirmation trial.

        Args:
            live: the topology to measure on.
            traffic: what to send; a search raises the load of all classes of a mix, in their shares.
            latency: also measure latency at the profile's shares of the PDR.
            sessions: routing sessions on the path. They are up before each trial, and judged at loads up to the one
                confirmed: a search overloads the path on purpose, and their frames share its queues.
            raise_only: the class of a mix that takes all of a load that the others leave: these stay at their fixed
                loads, or at their shares of the maximum load.
            judge_only: the class whose loss decides, whatever the others lose.
        """
        traffic = self._raised("search.ndr_pdr", live, traffic, raise_only, judge_only)

        def find(measurer: LoadMeasurer, limits: LoadLimits) -> tuple[SearchedGoal, ...]:
            goals = goals_worth_searching(self.profile.goals, measurer.trials)
            goals = tuple(replace(goal, traffic_class=judge_only or "") for goal in goals)
            return mlr_search(measurer, goals, limits)

        return self._search(
            "search.ndr_pdr", live, traffic, MLRSEARCH, find, judge_only, latency=latency, sessions=sessions
        )

    @checked("search.connection_rate")
    def connection_rate(
        self,
        live: Live,
        conversation: OneTraffic,
        *,
        goal: Annotated[float, number(0, 1, "failed connections over all")] = 0.0,
        latency: bool = False,
    ) -> Outcome:
        """The most connections opened a second of which no more fail, by MLRsearch, confirmed.

        Args:
            live: the topology to measure on.
            conversation: what ``Conversation.tcp()``, ``.udp()`` or ``.icmp()`` returned.
            goal: the ratio of connections that may fail.
            latency: also measure how long connections take, from first to last frame, at the profile's shares of it.
        """
        check_counted("search.connection_rate", conversation)
        tolerant = self.profile.pdr if goal else self.profile.ndr
        wanted = replace(tolerant, name="connection_rate", loss_ratio=goal)

        def find(measurer: LoadMeasurer, limits: LoadLimits) -> tuple[SearchedGoal, ...]:
            return mlr_search(measurer, goals_worth_searching([wanted], measurer.trials), limits)

        return self._search("search.connection_rate", live, conversation, MLRSEARCH, find, latency=latency)

    @checked("search.concurrent")
    def concurrent(
        self,
        live: Live,
        conversation: OneTraffic,
        *,
        most: Annotated[int, whole(1, unit="connections")],
        rate: Annotated[int, whole(1, unit="connections a second")] = CONNECTIONS_A_SECOND,
        goal: Annotated[float, number(0, 1, "failed connections over all")] = 0.0,
    ) -> Outcome:
        """The most connections that are open at once, of which no more fail: each is answered, held and closed.

        A trial opens all, lets the DUT count them, and closes all: it takes twice ``most / rate`` and a little more.

        Args:
            live: the topology to measure on.
            conversation: what ``Conversation.tcp()`` returned, with as many addresses and ports.
            most: tried first; fewer only where these fail.
            rate: at which they are opened and closed: one that the DUT takes.
            goal: the ratio of connections that may fail.

        DutFailure if the DUT itself counts others than those that are open.
        """
        check_concurrent("search.concurrent", conversation, most, rate)
        loads = self._start("search.concurrent", live, conversation, Limits(None, None))
        loads.measurer.attempt(self.profile.warmup_s, rate, WARM_UP)
        found = ConcurrentSearch(live, conversation, rate, most, goal, self.profile.search_residual_s)
        found.run()
        loads.measurer.trials += [each.trial for each in found.trials]
        return self._done(loads, "concurrent", figures=tuple(found.figures()), missing=found.missing())

    @checked("search.ceiling_fps")
    def ceiling_fps(self, live: Live, traffic: Sent, *, remeasured: bool = False) -> float | None:
        """The rig's own limit for this traffic, frames/s per direction; None if it cannot be measured.

        ``live`` is frozen while the limit is measured, or rebuilt where that is impossible. ``remeasured``: measure it
        now, even if one is cached.
        """
        limits_of = (self._remeasured_limits if remeasured else None) or self._limits_of
        return limits_of(live, self._replacement_for(traffic)).ceiling_fps

    @checked("search.throughput")
    def throughput(
        self,
        live: Live,
        traffic: Sent,
        algorithm: str = "rfc2544",
        *,
        raise_only: Name | None = None,
        judge_only: Name | None = None,
    ) -> Outcome:
        """Throughput (RFC 1242 section 3.17) by ``rfc2544`` or ``tst009`` binary search; ConfigError for another.

        ``raise_only``, ``judge_only``: as of ``ndr_pdr``.
        """
        traffic = self._raised("search.throughput", live, traffic, raise_only, judge_only)
        if algorithm not in (repeats := self._lossy_repeats):
            raise unknown_word(algorithm, "algorithm", [*repeats])
        goal = replace(
            self.profile.ndr,
            name="throughput",
            final_trial_s=self.profile.rfc2544_trial_s,
            traffic_class=judge_only or "",
        )

        def find(measurer: LoadMeasurer, limits: LoadLimits) -> tuple[SearchedGoal, ...]:
            if algorithm == "rfc2544":
                measurer.residual_s = self.profile.rfc2544_residual_s
            return (binary_search(measurer, goal, limits, max_repeats=repeats[algorithm]),)

        return self._search("search.throughput", live, traffic, algorithm, find, judge_only)

    @checked("search.loss_curve")
    def loss_curve(self, live: Live, traffic: Sent) -> Outcome:
        """Frame-loss curve (RFC 2544 section 26.3) from the maximum load down."""
        loads = self._start("search.loss_curve", live, traffic)
        step, trial_s = self.profile.loss_curve_step, self.profile.loss_curve_trial_s
        losses = loss_curve(loads.measurer, loads.warm_up(), step=step, trial_s=trial_s)
        return self._done(loads, "loss-curve", **_loss_fields(losses))

    @checked("search.back_to_back")
    def back_to_back(self, live: Live, traffic: Sent, throughput_fps: LoadFps | None = None) -> Outcome:
        """Longest lossless burst at the maximum rate (RFC 9004), repeated and averaged.

        If ports have no line rate, the burst rate is 85 % of the generator's ceiling. If the rig does not sustain
        that rate, its ceiling is measured again, and then the rate is lowered. A rate that it sustains is a figure. If
        it sustains none, the metric is missing, and the outcome names the rates that were tried.
        """
        loads = self._start("search.back_to_back", live, traffic)
        rate = self._burst_fps(loads)
        failed: list[str] = []
        found: dict[str, Any] = {}
        while not found and len(failed) < _BURST_RATES:
            loads.measurer.disturbed_loads.clear()
            try:
                burst, reasons = back_to_back(
                    loads.measurer,
                    rate,
                    repeats=self.profile.back_to_back_repeats,
                    longest_s=self.profile.back_to_back_max_s,
                    throughput_fps=throughput_fps,
                )
                ids = tuple(trial.id for trial in loads.measurer.trials)
                found = {"back_to_back": burst, "figures": tuple(burst_figures(burst, ids, reasons))}
            except InvalidTrialsError as error:
                failed.append(f"{format_fps(rate)} ({error.counted})")
                lower = rate * _LOWER_BURST
                if len(failed) == 1:
                    loads.limits = loads.remeasure()
                    today = self._burst_fps(loads)
                    lower = today if today < rate else lower
                rate = lower
        if not found:
            found["missing"] = {"back_to_back_frames": no_burst(failed, loads.limits.ceiling_fps)}
        notes = (f"the rig did not sustain bursts at {', '.join(failed)}",) if failed else ()
        return self._done(loads, "back-to-back", notes=notes, **found)

    @staticmethod
    def _burst_fps(loads: LoadRange) -> float:
        maximum = loads.warm_up()
        return maximum if loads.limits.line_rate_fps else maximum * BURST_SHARE

    @checked("search.loss_at")
    def loss_at(self, live: Live, traffic: Sent, load_fps: LoadFps, duration_s: DurationS) -> Outcome:
        """Loss ratio, latency and cost of a trial at a fixed load; what is certain if all were invalid. ConfigError."""
        check_load("search.loss_at", self._replacement_for(traffic), load_fps, duration_s)
        loads = self._start("search.loss_at", live, traffic)
        loads.measurer.attempt(self.profile.warmup_s, load_fps, WARM_UP)
        return self._done(loads, "fixed-load", **measured_at(loads.measurer, duration_s, load_fps, "fixed load")[1])

    @checked("search.loss_of")
    def loss_of(
        self, live: Live, traffic: Sent, frames: Annotated[int, whole(1, unit="frames per direction")] = 1000
    ) -> Outcome:
        """Loss of so many frames per direction at a calm load, however long the rig takes to send them.

        For what a DUT does to frames: filters, tags, checksums, queues. What the generator skipped was never sent, and
        says nothing. InvalidTrialsError if the rig itself may have lost some, or sends too few.
        """
        loads = self._start("search.loss_of", live, traffic, Limits(None, None))
        trial = trial_of_frames(loads.measurer, frames)
        return self._done(loads, "frames", **_loss_fields([loss_of_trial(trial)], trial))

    @checked("search.limits")
    def limits(
        self,
        live: Live,
        traffic: Sent,
        load_fps: LoadFps | None = None,
        *,
        of: Name | None = None,
        judge_only: Name | None = None,
    ) -> Outcome:
        """How far a meter, policer or shaper is from its token bucket: the error of its rate, the burst it accepted.

        ``load_fps``: more than it passes; None: up to four times that. ``of``: the limiter's port, bridge or number, if
        the topology has several. ``judge_only``: the class of a mix whose frames it limits; None for all.
        """
        limiter = limiter_of(live.topology, of)
        traffic = self._raised("search.limits", live, traffic, None, judge_only)
        loads = self._start("search.limits", live, traffic)
        return self._done(loads, "limiter", **measured_limiter(loads, limiter, load_fps, judge_only or ""))

    def _search(
        self,
        call: str,
        live: LiveTopology,
        traffic: AnyTraffic,
        algorithm: str,
        find: Find,
        judge_only: str | None = None,
        **wanted: Any,
    ) -> Outcome:
        outcomes = [
            self._search_once(call, live, traffic, algorithm, find, judge_only, **wanted) for _ in range(self._repeats)
        ]
        return self._finish(live, over_repeats(outcomes), traffic)

    def _search_once(
        self,
        call: str,
        live: LiveTopology,
        traffic: AnyTraffic,
        algorithm: str,
        find: Find,
        judge_only: str | None,
        *,
        latency: bool = False,
        sessions: Sessions | None = None,
    ) -> Outcome:
        loads = self._start(call, live, traffic)
        measurer = loads.measurer
        measurer.judge_only = judge_only or ""
        measurer.watch = None if sessions is None else SessionWatch(sessions)
        self._allow(measurer, algorithm, latency=latency)
        loads.begin()
        results = self._found(loads, find)
        loads.read_again()
        measurer.reserve(latency_s(self.profile) if latency else 0.0)
        limits = loads.limits
        goals = tuple(
            mark_rig_limits(goal, limits.ceiling_fps, measurer.disturbed_loads, limits.maximum_fps) for goal in results
        )
        if self.profile.confirmation_s:
            goals = ConfirmationSearch(measurer, self.profile.confirmation_s).confirm_all(goals)
        loads.read_again()
        plateau = median_reading(loads.readings)
        live.runner.retry_budget.learn(measurer.retry_budget_s)
        goals = tuple(mark_slowed(goal, measurer.far_reason, measurer.disturbed(goal)) for goal in goals)
        points, missing = self._latency(measurer, goals) if latency else ((), {})
        outcome = self._outcome(
            loads,
            algorithm,
            goals=tuple(goal.result for goal in goals),
            cost=cost_of(goals, measurer.trials, plateau),
            latency=points,
            notes=coarse_note(goals, self.profile.goals),
        )
        figures = [*goal_figures(goals, outcome), *chain.from_iterable(map(latency_figures, points))]
        missing = missing | goals_missing(goals, figures) | cost_missing(outcome.cost)
        if outcome.cost is not None:
            figures += [*cost_figures(outcome.cost, goals, figures)]
        figures += [point.figure() for point in plateau]
        outcome = replace(outcome, figures=tuple(figures), missing=missing)
        outcome = outcome if measurer.watch is None else measurer.watch.judged(outcome, goals)
        return with_trials(outcome, loads.traffic, measurer.trials)

    def _allow(self, measurer: LoadMeasurer, algorithm: str, *, latency: bool) -> None:
        """Give a search its plan, and for repeats a part of what no other test of the run needs."""
        if algorithm == MLRSEARCH:
            goals, searched_s = len(self.profile.goals), estimate_search_s(self.profile, self.profile.goals)
        else:
            goals, searched_s = 1, estimate_bisection_s(self.profile, self._lossy_repeats[algorithm])
        after_s = after_search_s(self.profile, goals, latency=latency)
        planned_s = searched_s + after_s
        spare_s = measurer.runner.context.time_limit.spare_s - planned_s
        measurer.most_s = planned_s + max(0.0, min(planned_s * (self.profile.search_budget - 1), spare_s))
        measurer.reserve(after_s)

    @property
    def _lossy_repeats(self) -> dict[str, int]:
        """By binary search: how often a lossy trial is repeated."""
        return {"rfc2544": 0, "tst009": self.profile.tst009_max_rejections}

    @staticmethod
    def _found(loads: LoadRange, find: Find) -> tuple[SearchedGoal, ...]:
        """Search, and again where a limit of the rig has ended the search and turns out to be higher."""
        measurer = loads.measurer
        found = find(measurer, loads.searched)
        if not measurer.out_of_time() and loads.raised_above_plateau(found):
            found = find(measurer, loads.searched)
        ended_at_ceiling = any(at_ceiling(goal, loads.limits.ceiling_fps) for goal in found)
        may_remeasure = measurer.watch is None and not measurer.out_of_time()
        if ended_at_ceiling and may_remeasure and loads.raised_by_remeasuring():
            found = find(measurer, loads.searched)
        return found

    def _start(self, call: str, live: LiveTopology, traffic: AnyTraffic, limits: Limits | None = None) -> LoadRange:
        traffic = self._replacement_for(traffic)
        check_live(call, live, traffic)
        check_counted(call, traffic)
        live.runner.context.time_limit.measured_until_s = math.inf
        if limits is None:  # first: an unknown ceiling may take the topology down and up again
            limits = self._limits_of(live, traffic)
        live.learn(traffic)
        measurer = LoadMeasurer(
            live.runner,
            traffic,
            directions_of(live.topology, traffic),
            residual_s=self.profile.search_residual_s,
            estimate_s=self._estimate_of(self.profile),
            retry_budget_s=live.runner.retry_budget.allowed_s,
            windowed=not judges_whole_trials(live),
        )
        remeasured = self._remeasured_limits or self._limits_of
        shortest_s = min(self.profile.initial_trial_s, self.profile.rfc2544_trial_s)
        return LoadRange(live, traffic, measurer, limits, remeasured, self.profile.warmup_s, shortest_s=shortest_s)

    def _latency(
        self, measurer: LoadMeasurer, goals: Sequence[SearchedGoal]
    ) -> tuple[tuple[LatencyPoint, ...], dict[str, str]]:
        name, load = goals[-1].goal.name, goals[-1].reported_fps
        if load is None:
            why = f"there is no {name}, and latency is measured at shares of it"
            return (), {f"latency_{each}": why for each in LATENCIES}
        measurer.reserve(0.0)
        measurer.allow(latency_s(self.profile))
        loads = [(f"{share * 100:g} % of {name}", load * share) for share in self.profile.latency_loads]
        return latency_profile(measurer, loads, self.profile.latency_trial_s)

    def _outcome(self, loads: LoadRange, algorithm: str, **found: Any) -> Outcome:
        measurer = loads.measurer
        judged = {"judged": measurer.judge_only} if measurer.judge_only else {}
        return Outcome(
            labels=tuple(sorted({**self.labels, **measured_labels(loads.live, loads.traffic), **judged}.items())),
            algorithm=algorithm,
            mean_frame_size=loads.traffic.mean_frame_size,
            directions=len(measurer.directions),
            trials=tuple(trial.id for trial in measurer.trials),
            ceiling_fps=loads.limits.ceiling_fps,
            line_rate_fps=loads.limits.line_rate_fps,
            elapsed_s=measurer.elapsed_s(),
            cores=loads.live.datapath_info.cores,
            **found,
        )

    def _done(self, loads: LoadRange, algorithm: str, **found: Any) -> Outcome:
        outcome = self._outcome(loads, algorithm, **found)
        return self._finish(loads.live, with_trials(outcome, loads.traffic, loads.measurer.trials), loads.traffic)

    def _raised(
        self, call: str, live: LiveTopology, traffic: AnyTraffic, raise_only: str | None, judge_only: str | None
    ) -> AnyTraffic:
        """The traffic in which only this class is raised. ArgumentError for a class that it does not have."""
        for name, given in (("raise_only", raise_only), ("judge_only", judge_only)):
            if given is not None and not isinstance(traffic, TrafficMix):
                raise ArgumentError(f"{name} names a class of a TrafficMix, and this traffic has no classes")
        if not isinstance(traffic, TrafficMix):
            return traffic
        if judge_only is not None:
            _ = traffic[judge_only]
        if raise_only is None:
            return traffic
        _ = traffic[raise_only]
        check_live(call, live, traffic)
        limits = self._limits_of(live, traffic)
        if limits.ceiling_fps is None and limits.line_rate_fps is None and not traffic.fixed_but(raise_only):
            raise ArgumentError(
                f"raise_only={raise_only!r}: the other classes would stay at their shares of the maximum load, which "
                "nobody knows here: give them fixed loads, such as '100 kpps'"
            )
        return traffic.raising(raise_only, limits.maximum_fps)

    def _finish(self, live: LiveTopology, outcome: Outcome, traffic: AnyTraffic) -> Outcome:
        live.runner.context.time_limit.measured_until_s = math.inf
        outcome = completed(with_offload(of_connections(outcome, traffic), share_after(live, outcome.label)))
        if (profiling := live.runner.context.profiling) is not None:
            outcome = profiling.packets(live, outcome)
        live.runner.recorder.emit(outcome)
        return outcome


def check_counted(call: str, traffic: AnyTraffic) -> None:
    """Raise ArgumentError for a conversation where frames are counted, and for frames where connections are."""
    if traffic.is_conversation and call not in _OF_CONNECTIONS:
        raise ArgumentError(f"{call}() counts frames: of a conversation measure search.connection_rate()")
    if call == "search.connection_rate" and not traffic.is_conversation:
        raise ArgumentError(f"{call}(): write a conversation, such as Conversation.tcp()")


def measured_at(measurer: LoadMeasurer, seconds: float, load_fps: float, purpose: str) -> tuple[Trial, dict[str, Any]]:
    """A trial at a fixed load, and fields of its Outcome; what is certain if all were invalid."""
    try:
        trial = measurer.measure(seconds, load_fps, purpose)
    except InvalidTrialsError as error:
        trial = measurer.still_shown(error, Trial.shows_a_fault)
    point, why = latency_point(format_fps(load_fps), trial)
    found = _loss_fields([loss_of_trial(trial)], trial)
    figures = (*found["figures"], *latency_figures(point), *cost_figures(trial.cost))
    missing = found["missing"] | latency_missing(point, why) | cost_missing(trial.cost)
    return trial, found | {"latency": (point,), "cost": trial.cost, "figures": figures, "missing": missing}


def _loss_fields(losses: Sequence[TrialLoss], of_queues: Trial | None = None) -> dict[str, Any]:
    """Fields of the Outcome: losses, and how a NIC spread the frames of a trial over its queues."""
    queues = () if of_queues is None else of_queues.queue_frames
    spread, missing = queue_figures(queues, () if of_queues is None else (of_queues.id,))
    return {
        "loss_curve": tuple(loss.point for loss in losses),
        "figures": (*(each for loss in losses for each in loss.figures()), *spread),
        "missing": {metric: why for loss in losses for metric, why in loss.missing().items()} | missing,
        "queue_frames": queues,
    }
