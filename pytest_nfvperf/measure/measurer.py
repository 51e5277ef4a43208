"""The single interface between searches and the rig: measure(duration, load)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial, TrialRunner
from pytest_nfvperf.model.display import format_fps, format_ratio
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import Inconclusive, load_too_high
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.measure.bounds import SearchedGoal, session_figure
from pytest_nfvperf.model.measure.cpu_account import node_labels
from pytest_nfvperf.model.measure.outcome import GoalOutcome, ObservedSessions, Outcome
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix, least_load_fps
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec

WARM_UP = "warm-up"
"""Purpose of trials whose results are ignored."""

SHORT_WINDOW_S, WINDOW_S = 0.005, 0.01
"""Length of windows in trials of up to a second, where longer ones would mostly be disturbed; and in other trials. Each
look at the DUT's CPU keeps the DUT waiting for some 30 us."""


@dataclass
class LoadMeasurer:
    """Measures one traffic profile on one live topology at any load.

    Attributes:
        residual_s: wait for residual frames after each trial (RFC 2544 section 23).
        estimate_s: estimated duration of the whole search.
        trials: all that were measured, in order; of repeated trials the valid one.
        disturbed_loads: loads that could not be measured, each with the reason.
        too_high: how many of those the rig could not send.
        watch: watches routing sessions around each trial.
        retry_budget_s: time left for invalid and inconclusive trials.
        windowed: False if whole trials are judged (measure/limits.py).
        judge_only: the class of a mix whose loss is judged; "": that of all.
        most_s: how long all of it may take, from ``elapsed_s`` 0 on.
        reserved_s: of that, for what follows the trials that are measured now.
        before: called before each trial, repeats included; not with a ``watch``.
    """

    runner: TrialRunner
    traffic: AnyTraffic
    directions: tuple[Direction, ...]
    residual_s: float = 0.1
    estimate_s: float | None = None
    trials: list[Trial] = field(default_factory=list)
    disturbed_loads: list[str] = field(default_factory=list)
    started: float | None = None
    too_high: int = 0
    watch: SessionWatch | None = None
    retry_budget_s: float = POLICY.retry_budget_s
    windowed: bool = True
    judge_only: str = ""
    most_s: float = math.inf
    reserved_s: float = 0.0
    before: Callable[[], None] | None = None

    @property
    def repeats_left(self) -> int:
        return POLICY.long_repeats if self.retry_budget_s > 0 and not self.out_of_time() else 0

    def out_of_time(self) -> bool:
        return self.elapsed_s() >= self.most_s - self.reserved_s or self.runner.context.time_limit.is_over

    def allow(self, seconds: float) -> None:
        """Let so much time be there from now on, whatever was used before: what comes next is part of the plan."""
        self.most_s = max(self.most_s, self.elapsed_s() + self.reserved_s + seconds)
        self.reserve(self.reserved_s)

    def reserve(self, later_s: float) -> None:
        """Keep so much of the time for what follows. Repeats and waits end with the rest of it."""
        self.reserved_s = later_s
        left_s = max(0.0, self.most_s - self.reserved_s - self.elapsed_s())
        self.runner.context.time_limit.measured_until_s = self.runner.clock.monotonic() + left_s

    def measure(
        self,
        duration_s: float,
        load_fps: float,
        purpose: str,
        repeats: int | None = None,
        give_up_loss: float | None = None,
        *,
        to_confirm: bool = False,
    ) -> Trial:
        """One valid trial at a load in frames/s per direction; InvalidTrialsError if none within the budget is valid.

        OutOfTimeError if the time for such trials is used up.

        ``repeats``: of an invalid or inconclusive trial; None: the profile's, and a few of an inconclusive trial.
        ``give_up_loss``: see TrialSpec. ``to_confirm``: its load is confirmed later, and windows between pauses of the
        generator are enough; else a trial that offered too little of its load is repeated, too.
        """
        if self.out_of_time():
            reserved = f", and {self.reserved_s:.0f} s of them are for what follows" if self.reserved_s else ""
            raise OutOfTimeError(f"out of time: {self.elapsed_s():.0f} s of {self.most_s:.0f} s are gone{reserved}")
        # refused frames may be those of classes that may lose
        spec = self.spec(duration_s, load_fps, purpose, None if self.judge_only else give_up_loss)
        trial = self._valid(spec, repeats)
        for _ in range(POLICY.inconclusive_repeats if repeats is None else repeats):
            enough = to_confirm or trial.result.sustained_load
            conclusive = enough and trial.result.judgement.inconclusive is None
            if conclusive or self.retry_budget_s <= 0 or self.out_of_time():
                break
            self.retry_budget_s -= trial.wall_s
            trial = self._valid(spec, repeats)
        self.trials.append(trial)
        return trial

    def _valid(self, spec: TrialSpec, repeats: int | None) -> Trial:
        before = self.before if self.watch is None else self.watch.before
        started = self.runner.clock.monotonic()
        try:
            trial = self.runner.run(spec, self._remaining_s(), repeats, before=before)
        except InvalidTrialsError:
            self.retry_budget_s -= self.runner.clock.monotonic() - started
            raise
        if self.watch is not None:
            self.watch.after(trial)
        return replace(trial, result=trial.result.of_class(self.judge_only)) if self.judge_only else trial

    def measure_if_possible(
        self, duration_s: float, load_fps: float, purpose: str, *, goes_lower: bool = True
    ) -> Trial | None:
        """One valid trial; None if the rig disturbed every repeat at this load, or never offered it.

        A search then continues at lower loads, and its result is a lower bound. InvalidTrialsError after
        ``POLICY.most_disturbed_loads`` such loads, not counting those that were only too high for the rig.
        ``goes_lower``: after a disturbed load the next one is lower.
        """
        try:
            trial = self._measure_or_refute(duration_s, load_fps, purpose)
            if trial.result.judgement.inconclusive is not Inconclusive.SHORT_OF_LOAD:
                return trial
            share = format_ratio(trial.result.judgement.offered_share)
            self.disturbed_loads.append(f"{format_fps(load_fps)}: the generator offered {share} of it in {trial.id}")
            self.too_high += goes_lower
            return None
        except InvalidTrialsError as error:
            self.disturbed_loads.append(f"{format_fps(load_fps)}: {error}")
            # If most trials were disturbed by their own load, a lower one is easier, and the search continues.
            own = sum(load_too_high(trial.result.invalid) for trial in error.trials)
            self.too_high += goes_lower and own * 2 > len(error.trials)
            if len(self.disturbed_loads) - self.too_high >= POLICY.most_disturbed_loads:
                raise
            return None

    def _measure_or_refute(self, duration_s: float, load_fps: float, purpose: str) -> Trial:
        """As ``measure``; a disturbed trial counts whole if the DUT's own flows dropped all that is missing."""
        try:
            trial = self.measure(duration_s, load_fps, purpose, to_confirm=True)
        except InvalidTrialsError as error:
            trial = self.still_shown(error, lambda trial: not self.judge_only and trial.lost_by_flows())
        if not trial.result.judgement.conclusive and not self.judge_only and trial.lost_by_flows():
            trial = self.trials[-1] = replace(trial, result=replace(trial.result, invalid=(), windows=None))
        return trial

    def still_shown(self, error: InvalidTrialsError, shown: Callable[[Trial], bool]) -> Trial:
        """The last of these invalid trials for which ``shown`` is true; raises the error if there is none."""
        trials = (self.runner.context.trials[trial.id] for trial in reversed(error.trials))
        found = next(filter(shown, trials), None)
        if found is None:
            raise error
        self.trials.append(found)
        return found

    def attempt(self, duration_s: float, load_fps: float, purpose: str, *, saturating: bool = False) -> Trial:
        """One trial, valid or not: a warm-up, which is ignored, or one at overload: its rate counts, not its loss."""
        spec = self.spec(duration_s, load_fps, purpose)
        if saturating:
            spec = replace(spec, saturating=True, latency=False)
        if self.before is not None:
            self.before()
        trial = self.runner.run_once(spec, self._remaining_s())
        self.trials.append(trial)
        return trial

    @property
    def far_reason(self) -> str:
        """Why a figure of these trials may be too low: the CPUs were far apart in one of them; else ""."""
        searched = (trial.result for trial in self.trials if not trial.result.spec.saturating)
        return next((far_reason for each in searched if (far_reason := each.judgement.far_reason)), "")

    def disturbed(self, goal: GoalOutcome) -> str:
        """Why the goal's figure may be too low: trials lost frames, and nobody can tell whose loss it was; else "".

        Also "" if a load close above the figure was refuted: then it is bounded from both sides.
        """
        judged = [
            trial for trial in self.trials if trial.result.spec.purpose != WARM_UP and not trial.result.spec.saturating
        ]
        doubtful = [trial for trial in judged if trial.result.judgement.inconclusive is not None]
        load = goal.reported_fps or math.inf
        close = [trial for trial in judged if load < trial.result.spec.load_fps <= POLICY.close_above * load]
        if not doubtful or any(trial.result.judgement.refutes(goal.goal.loss_ratio) for trial in close):
            return ""
        return (
            f"in {len(doubtful)} of {len(judged)} trials, such as {doubtful[0].id}, too little was undisturbed to tell "
            "the DUT's loss from the machine's: the host shares the cores of generator and DUT, or takes them away"
        )

    def elapsed_s(self) -> float:
        now = self.runner.clock.monotonic()
        if self.started is None:
            self.started = now
        return now - self.started

    def spec(self, duration_s: float, load_fps: float, purpose: str, give_up_loss: float | None = None) -> TrialSpec:
        return TrialSpec(
            traffic=self.traffic,
            load_fps=max(least_load_fps(self.traffic, duration_s), round(load_fps)),
            duration_s=duration_s,
            directions=self.directions,
            residual_s=self.residual_s,
            purpose=purpose,
            give_up_loss=give_up_loss,
            window_s=window_s(duration_s) if self.windowed else None,
        )

    def _remaining_s(self) -> float | None:
        elapsed = self.elapsed_s()
        return None if self.estimate_s is None else max(0.0, self.estimate_s - elapsed)


def window_s(duration_s: float) -> float | None:
    """Length of a trial's windows, as short as a disturbance; None if the trial is too short for windows."""
    if duration_s < POLICY.windows_of_a_trial * SHORT_WINDOW_S:
        return None
    return max(SHORT_WINDOW_S if duration_s <= 1 else WINDOW_S, duration_s / POLICY.most_windows_of_a_trial)


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Bounds of a search, frames/s per direction."""

    minimum_fps: float
    maximum_fps: float

    def __post_init__(self) -> None:
        if not 0 < self.minimum_fps < self.maximum_fps:
            raise ValueError(f"load limits must rise from above 0: {self.minimum_fps} .. {self.maximum_fps}")


def measured_labels(live: LiveTopology, traffic: AnyTraffic) -> dict[str, str]:
    """What was really measured, as labels; they override a test's own."""
    tuning = {} if live.dut.tuning == OVS_DEFAULT else {"tuning": str(live.dut.tuning)}
    headers = {"headers": traffic.headers_label} if traffic.headers_label else {}
    mix = {}
    if isinstance(traffic, TrafficMix):
        mix = {"classes": traffic.label, **({"raised": traffic.raised} if traffic.raised else {})}
    return {
        **tuning,
        **headers,
        **mix,
        **node_labels(live.topology, live.datapath_info),
        "topology": live.name,
        "frame_size": traffic.frame_label,
        "flows": str(traffic.combinations),
        "direction": "bidirectional" if traffic.bidirectional else "unidirectional",
        "datapath": live.datapath_kind,
    }


# Routing sessions during a search. It overloads the datapath on purpose. BGP and BFD share the queue that overflows
# then, so a session and its routes may go down. Each trial first waits until they are back. A flap under overload is
# reported, but not judged.


class Sessions(Protocol):
    """Routing sessions on a path that is measured."""

    @property
    def name(self) -> str: ...

    def await_ready(self) -> None:
        """Wait until all are up and their routes are in the datapath; DutFailure if they are not in time."""
        ...

    def flaps(self) -> int | None:
        """How often they went down so far; None if the daemon does not count it."""
        ...


class SessionWatch:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._before: int | None = None
        self._flaps: list[tuple[Trial, int | None]] = []

    def before(self) -> None:
        self._sessions.await_ready()
        self._before = self._sessions.flaps()

    def after(self, trial: Trial) -> None:
        now = self._sessions.flaps()
        self._flaps.append((trial, None if now is None or self._before is None else now - self._before))

    def judged(self, outcome: Outcome, goals: Sequence[SearchedGoal]) -> Outcome:
        """The outcome with the flaps at loads up to the highest that was sustained; or why there is no figure."""
        sustained_fps = 0  # the highest load that meets a goal: confirmed, or found if no confirmation is requested
        for goal in goals:
            if goal.confirmation is None:
                sustained_fps = max(sustained_fps, 0 if goal.is_unconfirmed else goal.load_fps or 0)
            elif goal.confirmation.passed:
                by_id = (trial for trial, _ in self._flaps if trial.id == goal.confirmation.trial_id)
                sustained_fps = max([sustained_fps, *(trial.result.spec.load_fps for trial in by_id)])
        counts = [(trial, flaps) for trial, flaps in self._flaps if trial.result.spec.load_fps <= sustained_fps]
        if not counts:
            why = "no load was sustained, and sessions are not judged under overload"
            return replace(outcome, missing=outcome.missing | {"session_flaps": why})
        if any(flaps is None for _, flaps in counts):
            why = f"{self._sessions.name}: the daemon does not count them"
            return replace(outcome, missing=outcome.missing | {"session_flaps": why})
        ids = tuple(trial.id for trial, _ in counts)
        flaps = sum(flaps or 0 for _, flaps in counts)
        others = sum(flaps or 0 for trial, flaps in self._flaps if trial.id not in ids)
        seen = ObservedSessions(self._sessions.name, flaps, ids, others)
        return replace(outcome, sessions=seen, figures=(*outcome.figures, session_figure(seen)))
