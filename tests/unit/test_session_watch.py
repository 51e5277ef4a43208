"""Routing sessions beside a search: what overload does to them is told, what happens at loads that held is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from test_search_algorithms import LIMITS, NDR, PDR, measurer_on

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.confirmation import ConfirmationSearch
from pytest_nfvperf.measure.measurer import SessionWatch
from pytest_nfvperf.measure.search_algorithms import mlr_search
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Goal, Outcome, SearchStatus

BARE = Outcome((), "mlrsearch", 64.0, 2)


@dataclass
class Session:
    """Fulfils measure.measurer.Sessions."""

    name: str = "BGP session with 10.0.0.2"
    down: int | None = 0
    asked_ready: int = 0

    def await_ready(self) -> None:
        self.asked_ready += 1

    def flaps(self) -> int | None:
        return self.down


class Starving(FakeGenerator):
    """Clearly above its capacity it takes the session down; in trials of the purpose ``also_in``, too."""

    session: Session
    also_in: str = ""

    def run_trial(self, spec):
        if spec.load_fps > 1.1 * self.capacity_fps or spec.purpose == self.also_in:
            self.session.down += 1
        return super().run_trial(spec)


def searched(also_in: str = "", session: Session | None = None) -> tuple[Session, Outcome]:
    """A search with its confirmations, watched."""
    generator = Starving(4e6)
    generator.session, generator.also_in = session or Session(), also_in
    measurer = measurer_on(generator)
    measurer.watch = SessionWatch(generator.session)
    goals = ConfirmationSearch(measurer, 5.0).confirm_all(mlr_search(measurer, (NDR, PDR), LIMITS))
    return generator.session, measurer.watch.judged(replace(BARE, goals=goals), goals)


def flaps(outcome: Outcome):
    (seen,) = [seen for seen in outcome.figures if seen.metric == "session_flaps"]
    return seen


def test_a_session_that_overload_took_down_is_told_and_not_judged():
    session, outcome = searched()

    assert session.down >= 1, "the search overloaded the path"
    assert (flaps(outcome).value, outcome.sessions.elsewhere) == (0.0, session.down)
    assert "more under overload, which are not judged" in flaps(outcome).confidence
    assert session.asked_ready >= len(outcome.sessions.trials), "it was up again before each trial"


def test_a_session_that_goes_down_in_a_confirmation_that_holds_is_judged():
    _, outcome = searched(also_in="confirmation of ndr")

    assert flaps(outcome).value >= 1
    assert outcome.goal("ndr").confirmation.trial_id in outcome.sessions.trials


@pytest.mark.parametrize(
    ("down", "goals", "reason"),
    [
        (None, None, "BGP session with 10.0.0.2: the daemon does not count them"),
        (0, (SearchedGoal(NDR, SearchStatus.BELOW_MINIMUM),), "no load was sustained"),
    ],
)
def test_flaps_that_nobody_counted_are_missing(down, goals, reason):
    session, measurer = Session(), measurer_on(FakeGenerator(4e6))
    session.down = down
    measurer.watch = SessionWatch(session)
    measurer.measure(1.0, 1e6, "search")
    goals = goals or (SearchedGoal(replace(NDR), SearchStatus.FOUND, load_fps=1_000_000),)

    outcome = measurer.watch.judged(BARE, goals)
    assert not [seen for seen in outcome.figures if seen.metric == "session_flaps"]
    assert outcome.missing["session_flaps"].startswith(reason)


def test_where_no_confirmation_is_asked_for_the_load_found_counts():
    measurer = measurer_on(FakeGenerator(4e6))
    measurer.watch = SessionWatch(Session())
    measurer.measure(1.0, 1e6, "search")
    measurer.measure(1.0, 3e6, "search")

    goals = (SearchedGoal(Goal("ndr", 0.0), SearchStatus.FOUND, load_fps=2_000_000),)

    assert len(measurer.watch.judged(BARE, goals).sessions.trials) == 1
