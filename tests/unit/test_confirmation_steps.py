"""Confirmations go down from the found load, in fine steps as long as a user would wait for them."""

from __future__ import annotations

from dataclasses import replace

from test_search_algorithms import NDR, measurer_on

from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
from pytest_nfvperf.model.measure.outcome import GoalOutcome, SearchStatus
from pytest_nfvperf.runs.confirm import SHARES, confirm


def test_a_load_that_never_holds_is_tried_in_fine_steps_for_some_time_only() -> None:
    class LosesLittle(FakeGenerator):
        def run_trial(self, spec):
            result = super().run_trial(spec)
            if spec.load_fps < 4e6:
                return result
            return replace(result, counts=tuple(replace(c, received=c.received - 1) for c in result.counts))

    measurer = measurer_on(LosesLittle(6e6))
    found = GoalOutcome(NDR, SearchStatus.FOUND, load_fps=5_000_000)

    confirmed = confirm(measurer, found, duration_s=5.0, attempts=len(SHARES))

    assert confirmed.confirmation is not None
    assert confirmed.confirmation.passed
    loads = [record.data["result"]["spec"]["load_fps"] for record in measurer.sink.records]
    assert loads == [5e6, 4.95e6, 4.85e6, 4.75e6, 4.5e6, 4.25e6, 4e6, 3.5e6], "100, 99, 97 %, and after 15 s less often"
