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


class SpoilsFirst(FakeGenerator):
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


def test_a_load_that_the_rig_spoiled_for_a_while_is_confirmed_after_one_below_it() -> None:
    confirmed, loads = _confirmed(measurer_on(SpoilsFirst(6e6)))

    assert confirmed.confirmation is not None
    assert (confirmed.confirmation.load_fps, confirmed.disturbed) == (5_000_000, "")
    assert loads == [5e6, 5e6, 5e6, 4.75e6, 5e6]


def test_a_machine_that_disturbs_all_the_time_is_not_asked_again() -> None:
    measurer = measurer_on(SpoilsFirst(6e6))
    measurer.patience_s = 0.0
    confirmed, loads = _confirmed(measurer)

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_250_000
    assert "the rig let nothing be confirmed at 4.50 Mpps" in confirmed.disturbed
    assert loads == [5e6, 4.75e6, 4.5e6, 4.25e6]


def test_a_search_that_has_taken_long_does_not_go_up_again() -> None:
    measurer = measurer_on(SpoilsFirst(6e6))
    measurer.started = measurer.runner.clock.monotonic() - 20 * 5.0
    confirmed, loads = _confirmed(measurer)

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_750_000
    assert "the rig let nothing be confirmed at 5.00 Mpps" in confirmed.disturbed
    assert loads == [5e6, 5e6, 5e6, 4.75e6]


def test_a_load_that_loses_once_the_rig_lets_it_be_measured_is_the_duts() -> None:
    confirmed, loads = _confirmed(measurer_on(SpoilsFirst(4.9e6)))

    assert confirmed.confirmation is not None
    assert (confirmed.confirmation.load_fps, confirmed.disturbed) == (4_850_000, "")
    assert loads == [5e6, 5e6, 5e6, 4.75e6, 5e6, 4.85e6]


def test_no_load_is_tried_again_that_a_valid_trial_refuted() -> None:
    class SpoilsBelow(FakeGenerator):
        """Forwards 4.6 Mpps, and disturbs what is tried between 4.55 and 4.8."""

        def run_trial(self, spec):
            self.invalid_every = 1 if 4.55e6 < spec.load_fps < 4.8e6 else None
            return super().run_trial(spec)

    confirmed, loads = _confirmed(measurer_on(SpoilsBelow(4.6e6)))

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.load_fps == 4_500_000
    assert loads == [5e6, 4.6e6, 4.6e6, 4.6e6, 4.5e6, 4.6e6], "of 5 Mpps 4.6 came through"
    assert confirmed.disturbed.startswith("the rig let nothing be confirmed at 4.60 Mpps")


def test_a_tolerant_goal_is_tried_again_too_before_the_strict_ones_load_is_reported_for_it() -> None:
    measurer = measurer_on(SpoilsFirst(4.1e6))
    found = [SearchedGoal(NDR, SearchStatus.FOUND, 4_000_000), SearchedGoal(PDR, SearchStatus.FOUND, 4_100_000)]
    ndr, pdr = ConfirmationSearch(measurer, 5.0).confirm_all(found)

    assert ndr.confirmation is not None
    assert pdr.confirmation is not None
    assert (ndr.confirmation.load_fps, pdr.confirmation.load_fps, pdr.disturbed) == (4_000_000, 4_100_000, "")
