"""The forwarding rate by a trial's counts where no window is undisturbed: nodes that take turns, kernel links."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.comparison_fields import block_ratios
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.measurements import ForwardingRate
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows
from pytest_nfvperf.model.measure.outcome import Cost, Reading
from pytest_nfvperf.model.measure.profile import PROFILES
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.compose import bridge_chain, compose, phy2phy
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import GeneratorPort

CAPACITY, CEILING = 4e6, 9e6
ZEROS = (0,) * 20
ABSENT = ThreadWindows(ZEROS, ZEROS, (1,) * 20, ZEROS, (1000,) * 20, ZEROS, (5_000_000,) * 20, ZEROS)


class Runner:
    """Sends to a pretended DUT, and sees the generator absent in every window."""

    def __init__(self) -> None:
        self.generator = FakeGenerator(CAPACITY, clock=VirtualClock(), ceiling_fps=CEILING)
        self.generator.attach([GeneratorPort(port.name, "", port.mac) for port in phy2phy().ports])

    def run_once(self, spec, remaining_s):
        result = replace(self.generator.run_trial(spec), windows=Windows(5_000_000, (ABSENT,)))
        return Trial("trial-1", result, None, Cost("trial-1"), 0.1)


def read(topology: Topology, at_least: str = "") -> Reading:
    live: Any = SimpleNamespace(
        topology=topology, runner=Runner(), datapath_info=DatapathInfo("dpdk", "3", None, "", at_least=at_least)
    )
    limits = Limits(CEILING, None)
    figure = ForwardingRate(Traffic(frame_size=64), PROFILES["quick"], lambda *_: limits, limits, load_fps=CEILING)
    return figure.turn(live, None)


def tap_ports() -> Topology:
    ports = (endpoint("p0", "br0", kind=PortKind.TAP), endpoint("p1", "br0", kind=PortKind.TAP))
    return compose("taps", *ports, path("p0", "p1"))


@pytest.mark.parametrize(
    ("topology", "at_least"),
    [(phy2phy(), "node1 and node2 share CPU 1"), (bridge_chain(2, link="veth"), ""), (tap_ports(), "")],
    ids=["nodes", "veth", "tap"],
)
def test_what_looks_like_a_disturbance_is_the_duts_own_work(topology: Topology, at_least: str) -> None:
    reading = read(topology, at_least)
    assert reading.values["forwarding_rate"] == pytest.approx(CAPACITY, rel=0.05)
    assert reading.window_rates == {}


def test_elsewhere_a_trial_without_undisturbed_windows_has_no_rate_of_its_own() -> None:
    reading = read(phy2phy())
    assert "forwarding_rate" not in reading.values
    assert reading.over_all("forwarding_rate") == pytest.approx(CAPACITY, rel=0.05)


def test_it_is_compared_with_the_whole_trials_of_one_that_has_windows() -> None:
    chain, one = read(bridge_chain(2, link="veth")), read(phy2phy())
    assert block_ratios("forwarding_rate", [[(one, chain)], [(one, chain)]]) == pytest.approx([1, 1], rel=0.05)
