"""The goals of a search: their confirmation by long trials, the rig's part in them, and the middle of repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.display import format_fps, format_ratio
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import Inconclusive
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal, middle_figure, plateau_figure
from pytest_nfvperf.model.measure.outcome import Confirmation, Cost, Goal, GoalOutcome, Outcome, SearchStatus
from pytest_nfvperf.model.sla.rules import share_of_goal


def over_repeats(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of searches that were repeated: of each goal the middle result, of two the lower one.

    Its confirmation is a trial that was really run. Cost, latency and sessions are those of the search whose last goal
    is in the middle.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    names = [goal.goal.name for goal in outcomes[0].goals]
    middles = {name: _middle(name, outcomes) for name in names}
    usual = outcomes[middles[names[-1]]]
    goals, figures = [], {figure.key: figure for figure in usual.figures}
    for name, number in middles.items():
        loads, goal = [outcome.figure(name, "pps") for outcome in outcomes], outcomes[number].goal(name)
        assert goal is not None
        goals.append(replace(goal, repeated_fps=tuple(None if load is None else round(load.value) for load in loads)))
        of_goal = {figure.key: figure for figure in outcomes[number].figures if _is_of(figure, name)}
        figures = {key: figure for key, figure in figures.items() if not _is_of(figure, name)} | of_goal
        if (middle := loads[number]) is not None:
            figures[middle.key] = middle_figure(middle, loads)
    if plateaus := [rate for outcome in outcomes if (rate := outcome.figure("forwarding_rate"))]:
        figures[plateaus[0].key] = plateau_figure(plateaus)
    return replace(
        usual,
        goals=tuple(goals),
        figures=tuple(figures.values()),
        trials=tuple(trial for outcome in outcomes for trial in outcome.trials),
        elapsed_s=sum(outcome.elapsed_s for outcome in outcomes),
    )


def _middle(name: str, outcomes: Sequence[Outcome]) -> int:
    """Number of the search in the middle. One that ended below its minimum found a figure, too: at most that."""
    loads = [(outcome.figure(name, "pps"), number) for number, outcome in enumerate(outcomes)]
    ordered = sorted((load.value, number) for load, number in loads if load is not None)
    return ordered[(len(ordered) - 1) // 2][1] if ordered else 0


def _is_of(figure: Figure, goal: str) -> bool:
    """Whether it is this goal's load, or the loss of its confirmation."""
    return figure.metric == goal or figure.at == share_of_goal(1.0, goal)


# A search's result, with the rig's part in it: its ceiling, disturbed loads, and the cost.


def at_ceiling(goal: GoalOutcome, ceiling_fps: float | None) -> bool:
    """True if the rig itself hardly does more."""
    return ceiling_fps is not None and goal.load_fps is not None and goal.load_fps >= ceiling_fps * POLICY.at_ceiling


def mark_rig_limits(
    goal: SearchedGoal, ceiling_fps: float | None, disturbed: Sequence[str], maximum_fps: float | None = None
) -> SearchedGoal:
    """Mark a goal whose limit was the rig's: the DUT does at least this.

    ``disturbed``: loads that the rig could not measure. ``maximum_fps``: if the search ended at a lower maximum, the
    generator did not sustain more.
    """
    if goal.load_fps is None:
        # A search that the rig drove down to its minimum gives no figure of the DUT.
        if goal.status is not SearchStatus.BELOW_MINIMUM or not disturbed:
            return goal
        detail = f"the rig could not measure {len(disturbed)} load(s) validly; {disturbed[-1]}"
        return replace(goal, status=SearchStatus.ABORTED, upper_fps=None, detail=detail)
    if at_ceiling(goal, ceiling_fps):
        detail = f"within 5 % of the generator's own ceiling of {format_fps(ceiling_fps or 0)} per direction"
        return replace(goal, limit=detail, detail=detail)
    if goal.status is SearchStatus.AT_MAXIMUM and goal.load_fps < POLICY.at_ceiling * (maximum_fps or 0):
        detail = "the generator held no higher load when the search began"
        return replace(goal, limit=detail, detail=detail)
    if disturbed:
        detail = f"the rig could not measure {len(disturbed)} higher load(s) validly; {disturbed[0]}"
        return replace(goal, limit=detail, detail=detail)
    return goal


def mark_slowed(goal: SearchedGoal, *why: str) -> SearchedGoal:
    """Mark a goal that the host may have lowered, by CPUs apart or shared cores: the DUT does at least this."""
    if not any(why) or goal.status is SearchStatus.ABORTED:
        return goal
    slowed = "; ".join(filter(None, why))
    detail = "; ".join(filter(None, (goal.detail, slowed)))
    return replace(goal, slowed=slowed, detail=detail)


def cost_of(goals: Sequence[GoalOutcome], trials: Sequence[Trial], plateau: Sequence[PlateauPoint]) -> Cost | None:
    """The cost at the first goal's confirmation trial, the longest at a load that counts; cycles are the plateau's."""
    by_id = {trial.id: trial.cost for trial in trials}
    confirmed = [goal.confirmation.trial_id for goal in goals if goal.confirmation]
    cost = next((by_id[trial_id] for trial_id in confirmed if trial_id in by_id), None)
    if cost is None or not plateau or plateau[0].generator_limited:
        return cost
    saturated = by_id[plateau[0].trial_id]
    return replace(cost, pmd_cycles_per_packet=saturated.pmd_cycles_per_packet, saturated_trial_id=saturated.trial_id)


# Confirmation: full-length trials at the load of a search (How we measure, rule 6).

_WHOSE_LOSS = "lost frames, and too little of it was undisturbed to tell whose loss that was"
_ENOUGH = 1 - POLICY.most_not_offered
_SHORT = "offered {} of it: the generator did not sustain the load"
_NO_TIME = "out of time before all loads up to {} were tried"
_GIVEN_UP = "was given up for lost frames that turned out to be the machine's"


@dataclass(frozen=True, slots=True)
class _OpenLoad:
    """A load at which the rig disturbed every trial. ``through_fps``: how much of it was received."""

    load_fps: float
    why: str
    through_fps: float


@dataclass(slots=True)
class _Descent:
    """The trials from a load down.

    Attributes:
        confirmation: the last valid one: it passed, unless none did.
        open_load: the lowest that the rig left open.
        most_fps: what was received in the worst valid trial: no higher load can pass.
        refuted_fps: the lowest load of a valid trial that lost too much.
    """

    confirmation: Confirmation | None = None
    open_load: _OpenLoad | None = None
    most_fps: float = math.inf
    refuted_fps: int | None = None

    @property
    def passed(self) -> bool:
        return self.confirmation is not None and self.confirmation.passed

    def open_above(self, confirmation: Confirmation | None) -> str:
        """The load above the confirmed one that the rig left open; "" if a valid trial below it lost too much."""
        load = self.open_load
        if confirmation is None or not confirmation.passed or load is None or self.most_fps < load.load_fps:
            return ""
        return f"the rig let nothing be confirmed at {format_fps(load.load_fps)}: {load.why}"


@dataclass
class ConfirmationSearch:
    """Confirms loads that a search found: each goal's own last step, down to a load that a full-length trial passes.

    MLRsearch tolerates bad trials at its lower bound by design (exceed ratio), so a longer run at that load may lose a
    frame. Then the load falls in growing steps until one full-length trial meets the goal, and both loads are reported.
    If the DUT lost a tenth of a load, at most nine tenths of it were received, so no load between is tried.

    ``attempts``: most steps; None for all.
    """

    measurer: LoadMeasurer
    duration_s: float
    attempts: int | None = None

    def confirm_all(self, outcomes: Sequence[SearchedGoal]) -> tuple[SearchedGoal, ...]:
        """Confirm the loads of several goals, the strictest first: a load that meets it meets the others."""
        confirmed: dict[str, SearchedGoal] = {}
        stricter: Confirmation | None = None
        later_s = self.measurer.reserved_s
        for number, outcome in enumerate(sorted(outcomes, key=lambda each: each.goal.loss_ratio), 1):
            further = len(outcomes) - number  # each of them gets a trial
            self.measurer.reserve(later_s + further * self.duration_s)
            self.measurer.allow(self.duration_s)
            done = self.confirm(outcome, stricter)
            confirmed[outcome.goal.name] = done
            if done.confirmation is not None and done.confirmation.passed:
                stricter = done.confirmation
        return tuple(confirmed[outcome.goal.name] for outcome in outcomes)

    def confirm(self, outcome: SearchedGoal, stricter: Confirmation | None = None) -> SearchedGoal:
        """The outcome with its confirmation.

        ``stricter``: passed for a stricter goal, so no lower load need be tried. An outcome without a load is returned
        as it is. If no trial was valid there is no confirmation, and ``unconfirmed`` says why.
        """
        found_fps, goal = outcome.load_fps, outcome.goal
        if found_fps is None:
            return outcome
        down = self._descend(goal, found_fps, stricter)
        no_time = ""
        if self.measurer.out_of_time() and not down.passed:
            no_time = _NO_TIME.format(format_fps(found_fps))
            if stricter is None:
                self._try_last(goal, found_fps, down)
        confirmation = down.confirmation
        if stricter is not None and not (down.passed and confirmation and confirmation.load_fps > stricter.load_fps):
            confirmation = stricter  # it counts, unless a higher load passed
        why = "; ".join(dict.fromkeys(filter(None, (outcome.disturbed, down.open_above(confirmation), no_time))))
        open_why = down.open_load.why if down.open_load is not None else why
        if confirmation is None and open_why:
            why = f"not confirmed: {open_why}"
            return replace(outcome, detail=why, unconfirmed=why)
        return replace(outcome, confirmation=confirmation, disturbed=why, refuted_fps=down.refuted_fps)

    def _descend(self, goal: Goal, found_fps: float, stricter: Confirmation | None) -> _Descent:
        """Trials from the found load down until one passes, or what passed for a stricter goal is reached.

        The next load is no higher than what was received of the last one. If the rig disturbed all trials the next load
        is a twentieth below: queues sustain a longer absence at less load.
        """
        down, through_fps = _Descent(), found_fps
        fine_until = self.measurer.elapsed_s() + POLICY.fine_lengths * self.duration_s
        for share in POLICY.confirmation_shares[: self.attempts]:
            load = found_fps * share
            coarse = down.open_load is not None or self.measurer.elapsed_s() > fine_until
            if load > through_fps or (coarse and share not in POLICY.coarse_shares):
                continue
            if stricter is not None and load <= stricter.load_fps:
                break
            try:
                tried = self._trial_at(goal, load, self.measurer.repeats_left)
            except OutOfTimeError:
                break
            if isinstance(tried, _OpenLoad):
                down.open_load, through_fps = tried, tried.through_fps
                continue
            down.confirmation = tried
            if tried.passed:
                if tried.load_fps < _ENOUGH * load:  # only what was offered is confirmed
                    down.open_load = _short_of(load, tried.trial_id, tried.load_fps / load)
                break
            through_fps = down.most_fps = load * (1 - (tried.loss_ratio or 0.0) + goal.loss_ratio)
            down.refuted_fps = tried.load_fps
        return down

    def _try_last(self, goal: Goal, found_fps: float, down: _Descent) -> None:
        """One more trial at a load that hardly any disturbance spoils: a bound far below beats none."""
        self.measurer.allow(self.duration_s)
        with suppress(OutOfTimeError):  # the run's time is over, too
            last = self._trial_at(goal, found_fps * POLICY.last_share, 0)
            if isinstance(last, Confirmation) and last.passed:
                down.confirmation = last

    def _trial_at(self, goal: Goal, load_fps: float, repeats: int) -> Confirmation | _OpenLoad:
        """One confirmation, or how the rig disturbed all trials at this load.

        Its load is what was really offered: skipped frames, though few, are no part of it.
        """
        purpose = f"confirmation of {goal.name}"
        try:
            trial = self.measurer.measure(self.duration_s, load_fps, purpose, repeats, goal.loss_ratio)
        except InvalidTrialsError as error:
            return _OpenLoad(load_fps, str(error), load_fps)
        result, judgement = trial.result, trial.result.judgement
        reason, ratio = judgement.inconclusive, judgement.assumed_loss_ratio
        meets = ratio <= goal.loss_ratio
        if reason is Inconclusive.SHORT_OF_LOAD:
            return _short_of(load_fps, trial.id, judgement.offered_share)
        # Loss that may be anybody's, but is little enough for the goal, is no reason against the load.
        if reason is Inconclusive.GIVEN_UP or (reason is Inconclusive.WHOSE_LOSS and (not meets or result.given_up)):
            why = f"{trial.id} {_GIVEN_UP if reason is Inconclusive.GIVEN_UP else _WHOSE_LOSS}"
            return _OpenLoad(load_fps, why, load_fps * (1 - (result.loss_ratio or 0.0)))
        judged, offered = judgement.windows, round(load_fps * result.offered_share)
        if judged is None or result.windows is None:
            if not self.measurer.judge_only:  # there counts are those of a class, and the load is that of all
                offered = round(result.offered_fps or load_fps)
            return Confirmation(trial.id, offered, result.due_s, ratio, meets, result.offered)
        return Confirmation(
            trial_id=trial.id,
            load_fps=offered,
            duration_s=result.due_s,
            loss_ratio=ratio,
            passed=meets and not result.given_up,
            offered_frames=judged.offered,
            undisturbed_s=judged.windows * result.windows.length_ns / 1e9,
            lost_disturbed=result.lost - judged.lost,
        )


def _short_of(load_fps: float, trial_id: str, share: float) -> _OpenLoad:
    return _OpenLoad(load_fps, f"{trial_id} {_SHORT.format(format_ratio(share))}", load_fps * share)
