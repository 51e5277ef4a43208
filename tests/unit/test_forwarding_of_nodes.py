"""The forwarding rate of nodes that take turns on a CPU: by a trial's counts, where no window is undisturbed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
from pytest_nfvperf.model.measure.outcome import Cost
from pytest_nfvperf.model.measure.profile import PROFILES
from pytest_nfvperf.model.testbed.equipment import DatapathInfo
from pytest_nfvperf.model.topology.catalogue import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.windows import ThreadWindows, Windows
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.runs.clocks import VirtualClock
from pytest_nfvperf.runs.forwarding import ForwardingRate
from pytest_nfvperf.runs.search import Limits
from pytest_nfvperf.runs.trials import Trial

CAPACITY, CEILING = 4e6, 9e6
ZEROS = (0,) * 20
ABSENT = ThreadWindows(ZEROS, ZEROS, (1,) * 20, ZEROS, (1000,) * 20, ZEROS, (5_000_000,) * 20, *(ZEROS,) * 5)


class Runner:
    """Sends to a pretended DUT, and sees the generator absent in every window."""

    def __init__(self) -> None:
        self.generator = FakeGenerator(CAPACITY, clock=VirtualClock(), ceiling_fps=CEILING)
        self.generator.attach([GeneratorPort(port.name, "", port.mac) for port in phy2phy().ports])

    def run_once(self, spec, remaining_s):
        result = replace(self.generator.run_trial(spec), windows=Windows(5_000_000, (ABSENT,)))
        return Trial("trial-1", result, None, Cost("trial-1"), 0.1)


@pytest.mark.parametrize("at_least", ["", "node1 and node2 share CPU 1"])
def test_the_counts_of_the_whole_trial_are_what_nodes_that_share_a_cpu_forward(at_least: str) -> None:
    live: Any = SimpleNamespace(
        topology=phy2phy(), runner=Runner(), datapath_info=DatapathInfo("dpdk", "3", None, "", at_least=at_least)
    )
    limits = Limits(CEILING, None)
    figure = ForwardingRate(Traffic(frame_size=64), PROFILES["quick"], lambda *_: limits, limits, load_fps=CEILING)
    reading = figure.turn(live, None)
    if at_least:
        assert reading.values["forwarding_rate"] == pytest.approx(CAPACITY, rel=0.05)
        assert reading.alike == {}
    else:
        assert "forwarding_rate" not in reading.values
