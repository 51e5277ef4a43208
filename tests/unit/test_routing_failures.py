"""How the routing suite judges a failure that ended a session more than once."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.measure.events import Event
from pytest_nfvperf.model.measure.outcome import ObservedSessions

_SUITE = Path(__file__).parents[2] / "suites" / "routing" / "test_failures.py"
_EVENTS = [Event("cut", 0.3, lambda: None), Event("mend", 1.6, lambda: None)]


class _Path:
    """A path whose session ends so often in each reading."""

    def __init__(self, ends: list[int]) -> None:
        self.live, self.plan = object(), SimpleNamespace(clients="198.18.0.0/15")
        self.path = SimpleNamespace(session=lambda: None)
        self.kept: list[str] = []
        self.readied = 0
        self._ends = iter(ends)

    def traffic(self, size: int) -> int:
        return size

    def await_ready(self) -> None:
        self.readied += 1

    def await_established(self, _: float) -> str:
        return "Established"

    def await_installed(self, _prefix: str, _within_s: float) -> None:
        pass

    def keep_logs(self, why: str) -> None:
        self.kept.append(why)

    def session_drops_since(self, _before: object, trial: str) -> dict[str, Any]:
        return {"sessions": ObservedSessions("BGP session", next(self._ends), (trial,))}


class _Readings:
    """Convergence whose trials are numbered."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, *_: object, **__: object) -> SimpleNamespace:
        self.taken += 1
        return SimpleNamespace(
            trial=SimpleNamespace(id=f"trial-{self.taken}"),
            stopped_after_s=lambda _event, _tx: 0.9,
            resumed_after_s=lambda _event, _tx: 1.0,
            outage_s=lambda _tx: 1.3,
        )

    def outcome(self, _live: object, _traffic: object, readings: list[Any], seconds: Any, **found: Any) -> Any:
        return SimpleNamespace(trials=[each.trial.id for each in readings], seconds=seconds, **found)


def _judged(ends: list[int]) -> tuple[Any, _Path, _Readings]:
    break_and_mend = runpy.run_path(str(_SUITE), run_name="routing_failures")["_break_and_mend"]
    path, readings = _Path(ends), _Readings()
    return break_and_mend(path, readings, _EVENTS, 4.5), path, readings


def test_a_failure_that_ended_the_session_once_is_judged_at_once():
    outcome, path, readings = _judged([1])
    assert (outcome.sessions.flaps, readings.taken, path.kept, outcome.notes) == (1, 1, [], ("Established",))


@pytest.mark.parametrize(
    ("ends", "flaps", "trial"), [([2, 1, 1], 1, "trial-3"), ([2, 1, 2], 2, "trial-1"), ([3, 2, 2], 2, "trial-3")]
)
def test_one_that_ended_it_more_often_is_the_middle_of_three(ends: list[int], flaps: int, trial: str):
    outcome, path, readings = _judged(ends)
    assert (outcome.sessions.flaps, readings.taken, path.readied) == (flaps, 3, 2)
    assert outcome.trials == [trial]
    assert outcome.notes[0] == (
        f"three failures ended the session {', '.join(map(str, ends))} times; the middle one is judged"
    )
    assert path.kept == ["the session ended more than once"]
