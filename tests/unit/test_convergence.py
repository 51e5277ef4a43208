"""Readings with events: what the rig spoiled is taken again, and never judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from test_search_algorithms import measurer_on

from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
from pytest_nfvperf.model.topology.catalogue import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.convergence import Convergence, Event
from pytest_nfvperf.runs.trials import InvalidTrialsError


class SpoiledFirst(FakeGenerator):
    """The first so many trials are invalid."""

    spoiled = 1

    def run_trial(self, spec):
        self.invalid_every = 1 if len(self.specs) < self.spoiled else None
        return super().run_trial(spec)


def on(generator: FakeGenerator) -> Any:
    """What a reading needs of a live topology."""
    return SimpleNamespace(topology=phy2phy(), runner=measurer_on(generator).runner)


def test_a_reading_that_the_rig_spoiled_is_taken_again_when_its_events_can_happen_again() -> None:
    happened: list[str] = []
    events = [Event("pull", 0.0, lambda: happened.append("pull"))]
    live = on(SpoiledFirst(4e6))

    reading = Convergence({}).read(live, Traffic(), events, 0.1, ready=lambda: happened.append("ready"))

    assert reading.trial.result.valid
    assert happened[:2] == ["pull", "ready"] or happened[:1] == ["ready"], happened


def test_readings_that_the_rig_spoils_every_time_say_nothing() -> None:
    with pytest.raises(InvalidTrialsError, match="3 trials in a row were invalid"):
        Convergence({}).read(on(FakeGenerator(4e6, invalid_every=1)), Traffic(), [], 0.1)
