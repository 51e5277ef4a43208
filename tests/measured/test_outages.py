"""Outages that are planted behind a measurement's back on a real OVS: each is found, with the figure right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from pytest_nfvperf import events
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.measure.events import EVENT_AT_S, Event, EventMaker
from pytest_nfvperf.measure.outage import Outages, OutageTime
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.outage import BlockedDirection, Outage
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.soak_support import Soaking, soaking_on

pytestmark = [needs_root, needs_hugepages]

LOAD = 100_000
SLACK_S = 0.002
"""A window of a millisecond at each end."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soaking]:
    with soaking_on(phy2phy(), tmp_path_factory.mktemp("outages")) as made:
        yield made


@dataclass
class Dropper:
    """An event in which a flow drops frames for a time, behind the measurement's back.

    Attributes:
        lengths_s: of each time that the event happens; 0: nothing is dropped.
        planted_s: how long the flow was there each time: at least, and at most.
    """

    bench: Soaking
    match: str
    lengths_s: list[float]
    planted_s: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, live: LiveTopology) -> Event:
        return Event("planted", EVENT_AT_S, self._act)

    def _act(self) -> None:
        length_s = self.lengths_s[len(self.planted_s)]
        if not length_s:
            self.planted_s.append((0.0, 0.0))
            return
        instance = self.bench.rig.datapath().instance  # type: ignore[attr-defined]
        ofctl, target = [*instance.ofctl, "-O", "OpenFlow14"], f"unix:{instance.directory}/br0.mgmt"
        asked = time.monotonic()
        run([*ofctl, "add-flow", target, f"cookie=0x77,priority=999,{self.match},actions=drop"])
        instance.ctl.call("revalidator/purge")
        began = time.monotonic()
        time.sleep(length_s)
        ended = time.monotonic()
        run([*ofctl, "del-flows", target, "cookie=0x77/-1"])
        instance.ctl.call("revalidator/purge")
        self.planted_s.append((ended - began, time.monotonic() - asked))


def read(bench: Soaking, event: EventMaker, traffic: Traffic | TrafficMix | None = None) -> Outage:
    context = bench.live.runner.context
    figure = OutageTime(traffic or Traffic(frame_size=64), QUICK, context, event, LOAD)
    return figure.outage(bench.live)


def direction(outage: Outage, tx: str, of_class: str = "") -> BlockedDirection:
    return next(each for each in outage.blocked if each.direction.tx == tx and each.of_class == of_class)


def check_found(blocked: BlockedDirection, planted_s: tuple[float, float]) -> None:
    """The true length lies between the figure's ends, and the figure is no longer than what was planted."""
    least_s, most_s = planted_s
    assert blocked.least_ns / 1e9 <= most_s + SLACK_S
    assert blocked.blocked_ns / 1e9 >= least_s - SLACK_S
    uncertain_s = (blocked.blocked_ns - blocked.least_ns) / 1e9
    assert blocked.blocked_ns / 1e9 <= most_s + uncertain_s + SLACK_S


def test_an_event_that_blocks_nothing(bench: Soaking) -> None:
    found = read(bench, Dropper(bench, "", [0.0]))
    assert found.ended
    assert all(each.least_ns == 0 for each in found.blocked)


def test_one_direction_is_blocked_20_ms_longer(bench: Soaking) -> None:
    dropper = Dropper(bench, "in_port=p1", [0.02])
    found = read(bench, dropper)

    check_found(direction(found, "p1"), dropper.planted_s[0])
    assert direction(found, "p0").least_ns == 0
    assert found.worst() == direction(found, "p1")


def test_a_class_that_is_dropped_is_named(bench: Soaking) -> None:
    mix = TrafficMix(voice=(Traffic(frame_size=128, vlan=10), "20 %"), bulk=(Traffic(frame_size=64), "80 %"))
    dropper = Dropper(bench, "in_port=p0,dl_vlan=10", [0.05])
    found = read(bench, dropper, mix)

    check_found(direction(found, "p0", "voice"), dropper.planted_s[0])
    assert direction(found, "p0", "bulk").least_ns == 0


def test_one_of_ten_repeats_that_is_blocked_5_ms_is_the_longest(bench: Soaking) -> None:
    dropper = Dropper(bench, "in_port=p0", [0.0] * 6 + [0.005] + [0.0] * 3)
    outages = Outages(QUICK, {"suite": "mine"}, bench.live.runner.context)
    outcome = outages(bench.live, Traffic(frame_size=64), LOAD, dropper, repeats=10)

    usual, longest = (outcome.figure(metric) for metric in ("outage", "outage_longest"))
    assert usual is not None
    assert longest is not None
    least_s, most_s = dropper.planted_s[6]
    assert longest.value >= least_s - SLACK_S
    assert longest.interval[0] <= most_s + SLACK_S
    assert usual.interval[0] == 0


def test_a_restart_is_joined_again_and_dated(bench: Soaking) -> None:
    found = read(bench, events.restart)

    assert found.ended
    (blocked,) = {each.direction: each for each in found.blocked if each.direction.tx == "p0"}.values()
    longest = max(blocked.gaps, key=lambda gap: gap.blocked_ns)
    assert longest.after_ns < 1e9
    assert found.returned_ns / 2 < longest.blocked_ns < 2 * found.returned_ns
    assert bench.live.runner.context.trials[found.trial].result.valid
    assert sum("lost its link" in note for note in found.notes) == 2, "both rings saw the switch go"
    assert any(line.source == "ovs-vswitchd" for line in found.log)


def test_a_far_end_that_hangs_up_is_let_in_again(bench: Soaking) -> None:
    found = read(bench, lambda live: events.reconnect(live, "p1"))

    assert found.ended
    assert 0 < found.recovered_ns < 3e9


def test_an_outage_that_does_not_end_ends_the_repeats(bench: Soaking) -> None:
    instance = bench.rig.datapath().instance  # type: ignore[attr-defined]
    ofctl, target = [*instance.ofctl, "-O", "OpenFlow14"], f"unix:{instance.directory}/br0.mgmt"

    def for_ever(live: LiveTopology) -> Event:
        def act() -> None:
            run([*ofctl, "add-flow", target, "cookie=0x77,priority=999,in_port=p0,actions=drop"])

        return Event("for ever", EVENT_AT_S, act)

    outages = Outages(QUICK, {"suite": "mine"}, bench.live.runner.context)
    try:
        outcome = outages(bench.live, Traffic(frame_size=64), LOAD, for_ever, repeats=5, patience_s=0.5)
    finally:
        run([*ofctl, "del-flows", target, "cookie=0x77/-1"])

    assert len(outcome.trials) == 1
    figure = outcome.figure("outage")
    assert figure is not None
    assert figure.high is None


def test_a_port_without_a_far_end_of_ours_is_refused_before_anything_is_sent(bench: Soaking) -> None:
    trials = len(bench.live.runner.context.trials)
    with pytest.raises(UnavailableError, match="p9"):
        read(bench, lambda live: events.reconnect(live, "p9"))
    assert len(bench.live.runner.context.trials) == trials
