"""Confirmations go down from the found load, in fine steps as long as a user would wait for them."""

from __future__ import annotations

from dataclasses import replace

from test_search_algorithms import NDR, PDR, measurer_on

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.confirmation import ConfirmationSearch
from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import SearchStatus


def test_a_load_that_never_holds_is_tried_in_fine_steps_for_some_time_only() -> None:
    class LosesLittle(FakeGenerator):
        def run_trial(self, spec):
            result = super().run_trial(spec)
            if spec.load_fps < 4e6:
                return result
            return replace(result, counts=tuple(replace(c, received=c.received - 1) for c in result.counts))

    confirmed, loads = _confirmed(measurer_on(LosesLittle(6e6)))

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.passed
    assert loads == [5e6, 4.95e6, 4.85e6, 4.75e6, 4.5e6, 4.25e6, 4e6, 3.5e6], "100, 99, 97 %, and after 15 s less often"


class DisturbsFirst(FakeGenerator):
    """The rig disturbs the first three trials above 4 Mpps."""

    disturbed = 0

    def run_trial(self, spec):
        disturbs = spec.load_fps > 4e6 and self.disturbed < 3
        self.disturbed += disturbs
        self.invalid_every = 1 if disturbs else None
        return super().run_trial(spec)


def _confirmed(measurer: LoadMeasurer) -> tuple[SearchedGoal, list[float]]:
    """What becomes of 5 Mpps, and the loads that were tried for it."""
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_000_000)
    confirmed = ConfirmationSearch(measurer, 5.0).confirm(found)
    return confirmed, [record.data["result"]["spec"]["load_fps"] for record in measurer.sink.records]


def test_a_load_that_the_rig_disturbed_is_left_for_one_below_it() -> None:
    confirmed, loads = _confirmed(measurer_on(DisturbsFirst(6e6)))

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_750_000
    assert confirmed.disturbed.startswith("the rig let nothing be confirmed at 5.00 Mpps")
    assert loads == [5e6, 5e6, 5e6, 4.75e6]


def test_once_patience_is_spent_each_load_is_tried_once() -> None:
    measurer = measurer_on(DisturbsFirst(6e6))
    measurer.retry_budget_s = 0.0
    confirmed, loads = _confirmed(measurer)

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_250_000
    assert "the rig let nothing be confirmed at 4.50 Mpps" in confirmed.disturbed
    assert loads == [5e6, 4.75e6, 4.5e6, 4.25e6]


def test_a_load_is_tried_next_that_came_through_at_the_refuted_one() -> None:
    class DisturbsBelow(FakeGenerator):
        """Forwards 4.6 Mpps, and disturbs what is tried between 4.55 and 4.8."""

        def run_trial(self, spec):
            self.invalid_every = 1 if 4.55e6 < spec.load_fps < 4.8e6 else None
            return super().run_trial(spec)

    confirmed, loads = _confirmed(measurer_on(DisturbsBelow(4.6e6)))

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_500_000
    assert loads == [5e6, 4.6e6, 4.6e6, 4.6e6, 4.5e6], "of 5 Mpps 4.6 came through"
    assert confirmed.disturbed.startswith("the rig let nothing be confirmed at 4.60 Mpps")


def test_a_tolerant_goal_whose_load_the_rig_disturbed_has_the_strict_ones() -> None:
    measurer = measurer_on(DisturbsFirst(4.1e6))
    found = [SearchedGoal(NDR, SearchStatus.FOUND, 4_000_000), SearchedGoal(PDR, SearchStatus.FOUND, 4_100_000)]
    ndr, pdr = ConfirmationSearch(measurer, 5.0).confirm_all(found)

    assert ndr.confirmation is not None
    assert pdr.confirmation == ndr.confirmation
    assert (ndr.confirmation.load_fps, ndr.disturbed) == (4_000_000, "")
    assert pdr.disturbed.startswith("the rig let nothing be confirmed at 4.10 Mpps")
