"""Readings with events: what the rig disturbed is taken again, and never judged."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from test_search_algorithms import measurer_on

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.features.routing.convergence import REPEATS, Convergence
from pytest_nfvperf.measure.events import Event
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.machine import Progress


class DisturbedFirst(FakeGenerator):
    """In the first so many trials the generator is away for so long, which makes them invalid."""

    def __init__(self, disturbed: int, gap_ns: int = 1_000_000_000) -> None:
        super().__init__(4e6)
        self.disturbed, self.gap_ns = disturbed, gap_ns

    def run_trial(self, spec):
        if len(self.specs) >= self.disturbed:
            self.invalid_every = None
            return super().run_trial(spec)
        self.invalid_every = 1
        result = super().run_trial(spec)
        return replace(result, health=replace(result.health, longest_poll_gap_ns=self.gap_ns))


class FellBehind(FakeGenerator):
    """It leaves out a third of the frames that are due; the DUT forwards two million of each direction."""

    def __init__(self, refused: int, why: InvalidReason) -> None:
        super().__init__(4e6)
        self.refused, self.why = refused, why

    def run_trial(self, spec):
        result = super().run_trial(spec)
        due = 3_000_000 - self.refused
        facts = {"intended": 3_000_000, "sent": 2_000_000, "refused": self.refused, "received": 2_000_000}
        counts = tuple(replace(each, **facts, skipped=due - 2_000_000) for each in result.counts)
        return replace(result, counts=counts, invalid=(self.why,))


class SlowTrials(FakeGenerator):
    """Sends for 0.3 s of real time."""

    def __init__(self, order: list[str]) -> None:
        super().__init__(4e6)
        self.order = order

    def run_trial(self, spec):
        self.order.append("send")
        time.sleep(0.3)
        self.order.append("sent")
        return super().run_trial(spec)


class HostThatWaits(Progress):
    """Each trial waits for 0.2 s before it sends, as for CPUs that the host moved apart."""

    def __init__(self, order: list[str]) -> None:
        self.order = order

    def trial_started(self, *args: object) -> None:
        self.order.append("wait")
        time.sleep(0.2)


def on(generator: FakeGenerator) -> Any:
    """What a reading needs of a live topology."""
    return SimpleNamespace(topology=phy2phy(), runner=measurer_on(generator).runner)


def test_a_reading_that_the_rig_spoiled_is_taken_again_when_its_events_can_happen_again() -> None:
    happened: list[str] = []
    events = [Event("pull", 0.0, lambda: happened.append("pull"))]
    live = on(DisturbedFirst(1))

    reading = Convergence({}).read(live, Traffic(), events, 0.1, ready=lambda: happened.append("ready"))

    assert reading.trial.result.valid
    assert happened[:2] == ["pull", "ready"] or happened[:1] == ["ready"], happened


def test_readings_that_the_rig_spoils_every_time_say_nothing() -> None:
    with pytest.raises(InvalidTrialsError, match=f"{REPEATS + 1} trials in a row were invalid"):
        Convergence({}).read(on(DisturbedFirst(REPEATS + 1)), Traffic(), [], 0.1)


class MovedFirst(FakeGenerator):
    """The host moves a CPU in the first so many trials, of which each says something else that a flood bears, too."""

    def __init__(self, moved: int) -> None:
        super().__init__(2e6)
        self.moved = moved

    def run_trial(self, spec):
        result = super().run_trial(spec)
        reasons = [InvalidReason(Reason.FELL_BEHIND, "a third was left out")]
        if len(self.specs) <= self.moved:
            reasons.append(InvalidReason(Reason.CPU_MOVED, "100 ns before it and 360 ns after"))
        return replace(result, invalid=tuple(reasons))


def test_a_host_that_moves_cpus_does_not_use_up_the_repeats_of_an_overload() -> None:
    """Seen: three trials in a row, 100 ns before and 360 after, ended a test of overload as inconclusive."""
    generator = MovedFirst(REPEATS + 3)
    reading = Convergence({}).read(on(generator), Traffic(), [], 0.4, 3_000_000, saturating=True)
    assert len(generator.specs) == REPEATS + 4
    assert [reason.code for reason in reading.trial.result.invalid] == [Reason.FELL_BEHIND]


def test_daemons_that_take_the_generators_cpu_for_moments_spoil_nothing() -> None:
    live = on(DisturbedFirst(9, gap_ns=13_000_000))
    reading = Convergence({}).read(live, Traffic(), [], 0.1)
    assert [reason.code for reason in reading.trial.result.invalid] == [Reason.SKIPPED_FRAMES]


@pytest.mark.parametrize(("refused", "usable"), [(500_000, True), (10_000, False)])
def test_an_overload_that_the_generator_cannot_send_whole_counts_while_it_is_one(refused: int, usable: bool) -> None:
    """Seen: 7 Mpps were asked for, 4.6 offered, 4.2 forwarded, and the trial was called invalid."""
    late = InvalidReason(Reason.FELL_BEHIND, "941959 of 2800000 frames")
    live = on(FellBehind(refused, late))
    for saturating in (True, False):
        if saturating and usable:
            result = Convergence({}).read(live, Traffic(), [], 0.4, saturating=True).trial.result
            assert result.invalid == (late,)
        else:
            with pytest.raises(InvalidTrialsError, match="fell_behind"):
                Convergence({}).read(live, Traffic(), [], 0.4, saturating=saturating)


def test_events_count_from_when_the_trial_sends() -> None:
    """A trial may first wait for the host: a route withdrawn meanwhile would leave no gap in the frames."""
    order: list[str] = []
    live = on(SlowTrials(order))
    live.runner.progress = HostThatWaits(order)

    Convergence({}).read(live, Traffic(), [Event("withdraw", 0.05, lambda: order.append("withdraw"))], 0.1)

    assert order == ["wait", "send", "withdraw", "sent"]


def test_only_readings_without_events_have_windows() -> None:
    """What an event interrupts is dated by the frames' own numbers."""
    generator = DisturbedFirst(0)
    live = on(generator)
    for events in ([], [Event("pull", 0.0, lambda: None)]):
        Convergence({}).read(live, Traffic(), events, 0.5)
    assert [spec.window_s for spec in generator.specs] == [0.005, None]
