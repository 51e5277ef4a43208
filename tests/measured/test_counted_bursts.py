"""Counted bursts through a real OVS with DPDK, here on the wall clock: each arrives, and its PMD tells what it took."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf import bridge_chain
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.features.virtual_time.counting_generators import BURST_FRAMES, CountedBursts
from pytest_nfvperf.measure.rig import generator_ports, learning_directions
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.generator_support import embedded_in, run_dir
from tests.functional.ovs_support import clean_run, needs_root, started

pytestmark = needs_root

TOPOLOGY = bridge_chain(1)
FRAMES = 5 * BURST_FRAMES + 4
MOST_TRIES = 10
MORE = pytest.mark.thorough("other frames")


@pytest.fixture(scope="module")
def ovs() -> Iterator[OvsDatapath]:
    with clean_run() as journal, started(journal, "dpdk") as running:
        yield running


@pytest.fixture(scope="module")
def generator(ovs: OvsDatapath) -> Iterator[CountedBursts]:
    built = ovs.build(TOPOLOGY)
    with run_dir() as directory, embedded_in(directory) as engine:
        made = CountedBursts(1, engine)
        made.attach(generator_ports(TOPOLOGY, built))
        built.wait_ready(10)
        made.wait_links_up(10)
        made.learn(Traffic(), learning_directions(TOPOLOGY))
        yield made
    built.close()


@pytest.mark.parametrize(
    "traffic",
    [
        pytest.param(Traffic(), id="64"),
        pytest.param(Traffic(frame_size=1518), id="1518", marks=MORE),
        pytest.param(Traffic(frame_size=IMIXES["simple"]), id="imix"),
        pytest.param(Traffic(flows=100), id="flows", marks=MORE),
        pytest.param(Traffic(flows=256, frame_size=128).over_ipv6(), id="ipv6", marks=MORE),
    ],
)
def test_every_burst_arrives_whole_and_costs_the_pmd_something(
    ovs: OvsDatapath, generator: CountedBursts, traffic: Traffic
) -> None:
    spec = TrialSpec(traffic, FRAMES, 1.0, TOPOLOGY.directions, residual_s=0.2)
    for _ in range(MOST_TRIES):
        result, bursts = generator.run_counted(spec, lambda: ovs.collector.forwarding_ns() or 0)
        if sum(burst.frames for burst in bursts) == 2 * FRAMES:
            break  # no host took the generator's CPU away within a burst: what it sends after that does not count
    assert result.valid, result.invalid
    for counts in result.counts:
        assert (counts.intended, counts.sent, counts.received, counts.skipped) == (FRAMES, FRAMES, FRAMES, 0)
        assert counts.sent_bytes == counts.received_bytes
    assert sum(burst.frames for burst in bursts) == 2 * FRAMES
    assert all(burst.busy_ns > 0 for burst in bursts)
