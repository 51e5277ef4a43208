"""The generator of virtual time, here on the wall clock: frames through a real OVS, what it counts, what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf import bridge_chain
from pytest_nfvperf.adapters.generators.packet_socket import MOST_FLOWS, PacketSocketGenerator, burst_of
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.features.virtual_time.counting_generators import VIRTUAL_TESTBED
from pytest_nfvperf.measure.rig import generator_ports, learning_directions
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.datapath import BuiltTopology
from tests.functional.ovs_support import clean_run, needs_root

pytestmark = needs_root

TOPOLOGY = bridge_chain(1)
BURST = burst_of(64)
FRAMES = 5 * BURST + 4


@pytest.fixture(scope="module")
def ovs() -> Iterator[OvsDatapath]:
    with clean_run() as journal:
        made = OvsDatapath.start(VIRTUAL_TESTBED, journal)
        yield made
        made.close()


@pytest.fixture(scope="module")
def built(ovs: OvsDatapath) -> Iterator[BuiltTopology]:
    made = ovs.build(TOPOLOGY)
    made.wait_ready(10)
    yield made
    made.close()


@pytest.fixture
def generator(built: BuiltTopology) -> Iterator[PacketSocketGenerator]:
    made = PacketSocketGenerator(2)
    made.attach(generator_ports(TOPOLOGY, built))
    made.wait_links_up(10)
    made.learn(Traffic(), learning_directions(TOPOLOGY))
    yield made
    made.close()


def spec(traffic: Traffic) -> TrialSpec:
    return TrialSpec(traffic, FRAMES, 1.0, TOPOLOGY.directions, residual_s=2.0)


@pytest.mark.parametrize(
    "traffic",
    [
        pytest.param(Traffic(), id="64"),
        pytest.param(Traffic(frame_size=1518), id="1518"),
        pytest.param(Traffic(frame_size=IMIXES["simple"]), id="imix"),
        pytest.param(Traffic(flows=100), id="flows"),
        pytest.param(Traffic(frame_size=128).over_ipv6(), id="ipv6"),
    ],
)
def test_every_frame_is_sent_once_and_counted_where_it_arrives(
    generator: PacketSocketGenerator, traffic: Traffic
) -> None:
    result = generator.run_trial(spec(traffic))
    assert result.valid, result.invalid
    for counts in result.counts:
        assert (counts.intended, counts.sent, counts.received, counts.refused) == (FRAMES, FRAMES, FRAMES, 0)
        assert counts.sent_bytes == counts.received_bytes


def test_bursts_are_told_with_what_the_forwarding_thread_ran(
    ovs: OvsDatapath, generator: PacketSocketGenerator
) -> None:
    (source,) = [each for each in ovs.collectors() if each.forwarding_ns() is not None]
    before = source.forwarding_ns()
    assert before is not None
    _, bursts = generator.run_counted(spec(Traffic()), lambda: source.forwarding_ns() or 0)
    assert [burst.frames for burst in bursts] == [BURST] * 10 + [4, 4]
    assert all(burst.busy_ns > 0 for burst in bursts)
    ran = (source.forwarding_ns() or 0) - before
    assert sum(burst.busy_ns for burst in bursts) <= ran


def test_frames_that_do_not_arrive_are_lost(built: BuiltTopology, generator: PacketSocketGenerator) -> None:
    direction = TOPOLOGY.directions[0]
    device = built.attachments()[direction.rx]
    set_link(str(device).partition("iface=")[2], "down")
    try:
        result = generator.run_trial(replace(spec(Traffic()), directions=(direction,), residual_s=0.05))
    finally:
        set_link(str(device).partition("iface=")[2], "up")
    assert result.lost == FRAMES


def set_link(interface: str, state: str) -> None:
    with IPRoute() as links:
        links.link("set", index=links.link_lookup(ifname=interface)[0], state=state)


def test_what_it_cannot_send_or_be_is_refused(generator: PacketSocketGenerator, built: BuiltTopology) -> None:
    with pytest.raises(ConfigError, match=f"at most {MOST_FLOWS} flows are sent, not 1000"):
        generator.run_trial(spec(Traffic(flows=1000)))
    port = replace(generator_ports(TOPOLOGY, built)[0], name="other")
    with pytest.raises(ConfigError, match="'other' is a monitor: in virtual time there are endpoints only"):
        generator.attach([replace(port, role=PortRole.MONITOR)])
    with pytest.raises(ConfigError, match="there is no interface 'nowhere' here"):
        generator.attach([replace(port, device="net_af_packet,iface=nowhere")])
    with pytest.raises(ConfigError, match="in virtual time ports are veth pairs"):
        generator.attach([replace(port, device="net_virtio_user0,path=/x")])
    generator.close()
    with pytest.raises(GeneratorError, match="the generator is closed"):
        generator.run_trial(spec(Traffic()))
