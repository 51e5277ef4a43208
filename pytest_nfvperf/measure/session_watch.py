"""Watches routing sessions during a search, and judges them at the loads that the DUT sustains.

A search overloads the datapath on purpose. BGP and BFD share the queue that overflows then, so a session and its routes
may go down. Each trial first waits until they are back. A flap under overload is reported, but not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pytest_nfvperf.measure.bounds import SearchedGoal, session_figure
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.measure.outcome import ObservedSessions, Outcome


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
