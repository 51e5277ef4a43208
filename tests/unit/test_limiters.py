"""Limiters as parts of a topology, what is refused of them, and how a search measures one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from simulated_bench import Bench

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.net.linux_bridge import refuse_impossible
from pytest_nfvperf.adapters.ovs.nics import OvsPort
from pytest_nfvperf.adapters.ovs.rows import refuse_powerless
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, UnavailableError
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose, node, pvp
from pytest_nfvperf.model.topology.limiters import (
    Limiter,
    egress_policer,
    linux_shaper,
    meter,
    meter_rules,
    policer,
    qos_settings,
    trtcm,
)
from pytest_nfvperf.model.topology.parts import endpoint, patch, path, underlay
from pytest_nfvperf.model.topology.topology import Topology, node_topology
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

WIRE = (endpoint("p0", "br0"), endpoint("p1", "br0"))


def limited(*limiters: Limiter) -> Topology:
    return compose("limited", *WIRE, path("p0", "p1"), *limiters)


def test_meters_have_flows_of_their_own_one_behind_the_other() -> None:
    made = limited(
        meter("br0", ("p0", "p1"), kbps=1000, more=((2000, 50),), match="udp"),
        meter("br0", "p0", pktps=9, burst=5, number=7),
        policer("p1", 800),
    )
    assert [line for one in meter_rules(made.limiters) for line in one.flows] == [
        "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,type=drop,rate=2000,burst_size=50",
        "priority=40000,in_port=p0,reg15=0/0x1,udp,actions=meter:1,load:1->NXM_NX_REG15[0],resubmit(,0)",
        "priority=40000,in_port=p1,reg15=0/0x1,udp,actions=meter:1,load:1->NXM_NX_REG15[0],resubmit(,0)",
        "meter=7,pktps,burst,stats,bands=type=drop,rate=9,burst_size=5",
        "priority=40000,in_port=p0,reg15=0/0x2,actions=meter:7,load:1->NXM_NX_REG15[1],resubmit(,0)",
    ]
    drawn = topology_text(made)
    assert "meter 7 of br0: 9 pktps, burst 5, frames from p0" in drawn
    assert "policer of p1: 800 kbps" in drawn


def test_a_trtcm_has_the_default_queue_without_which_ovs_drops_everything() -> None:
    own, queues = qos_settings(trtcm("p1", (100, 10), (50, 5), queues={3: ((9, 8), (7, 6))}))
    assert own == {"cir": "100", "cbs": "10", "eir": "50", "ebs": "5"}
    assert queues == {0: own, 3: {"cir": "9", "cbs": "8", "eir": "7", "ebs": "6"}}
    assert qos_settings(linux_shaper("p1", 800))[1] == {0: {"max-rate": "800"}}


def test_limiters_stand_on_the_node_of_their_bridge() -> None:
    far = node("n2", endpoint("p1", "br1"), policer("p1", 5))
    made = compose("two", node("n1", *WIRE[:1], meter("br0", "p0", kbps=5)), far, underlay("br0", "br1"))
    assert [node_topology(made, name).limiters for name in ("n1", "n2")] == [made.limiters[:1], made.limiters[1:]]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([meter("br0", "p0", kbps=1), meter("br0", "p1", kbps=1)], "'br0' has another meter 1"),
        ([meter("br0", "p0", kbps=1), rules("br0", flows="meter=1,kbps,bands=type=drop,rate=4")], "another meter 1"),
        ([meter("br7", "p0", kbps=1)], "of br7: 1 kbps, frames from p0: 'p0' is no port that it could limit; "),
        ([meter("br0", "p7", kbps=1)], "'p7' is no port that it could limit; there are: p0, p1"),
        ([policer("p7", 1)], "'p7' is no port that it could limit; there are: p0, p1"),
        ([policer("p0", 1), policer("p0", 2)], "'p0' has another limiter on that side"),
        ([egress_policer("p0", 1, 1), trtcm("p0", (1, 1), (1, 1))], "'p0' has another limiter on that side"),
        ([patch("br0", "br1"), "br0", "br1", policer("br0-br1", 1)], "'br0-br1' is no port that it could limit"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_topology(parts: list[Any], said: str) -> None:
    with pytest.raises(ArgumentError, match="topology 'wrong': ") as caught:
        compose("wrong", *WIRE, *parts)
    assert said in str(caught.value)


@pytest.mark.parametrize("wrong", [{"burst": 0, "kbps": 1}, {}, {"kbps": 1, "pktps": 1}, {"kbps": 1 << 32}])
def test_a_meter_has_one_rate_and_no_burst_of_nothing(wrong: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=r"meter\(\)"):
        meter("br0", "p0", **wrong)


VHOST, SYSTEM, TAP = (OvsPort("p1", "br0", "p1", kind) for kind in ("dpdkvhostuserclient", "system", "tap"))


@pytest.mark.parametrize(
    ("limiter", "port", "datapath", "works"),
    [
        (policer("p1", 8), VHOST, "netdev", True),
        (policer("p1", 8), SYSTEM, "netdev", False),
        (policer("p1", 8), TAP, "netdev", False),
        (policer("p1", 8), SYSTEM, "system", True),
        (egress_policer("p1", 8, 8), VHOST, "netdev", True),
        (egress_policer("p1", 8, 8), SYSTEM, "system", False),
        (trtcm("p1", (8, 8), (8, 8)), SYSTEM, "netdev", False),
        (linux_shaper("p1", 8), SYSTEM, "netdev", False),
        (linux_shaper("p1", 8), VHOST, "netdev", False),
        (linux_shaper("p1", 8, kind="hfsc"), SYSTEM, "system", True),
        (meter("br0", "p1", kbps=8), SYSTEM, "netdev", True),
    ],
)
def test_a_limiter_that_no_frame_would_meet_is_told_before_anything_is_built(
    limiter: Limiter, port: OvsPort, datapath: str, works: bool
) -> None:
    if works:
        refuse_powerless([limiter], {"p1": port}, datapath)
        return
    with pytest.raises(UnavailableError, match=r"it has no effect on a port of type .* of the datapath \w+: it needs "):
        refuse_powerless([limiter], {"p1": port}, datapath)


def test_a_linux_bridge_has_no_limiter() -> None:
    with pytest.raises(ConfigError, match="it has a policer of p0: 8 kbps; take an OVS datapath"):
        refuse_impossible(limited(policer("p0", 8)))


@dataclass
class Policed(FakeGenerator):
    """A DUT with a policer: ``per_second`` frames a second and so many at once, each of 64 bytes, and it is calm."""

    per_second: float = 0.0
    burst: float = 0.0

    def simulated(self, spec: TrialSpec) -> TrialResult:
        result = super().simulated(spec)
        most = int(self.burst + self.per_second * spec.duration_s)
        first, *others = result.counts
        received = min(first.sent, most)
        first = replace(first, received=received, received_bytes=received * first.sent_bytes // max(1, first.sent))
        return replace(result, counts=(first, *others))


def searched(
    topology: Topology,
    traffic: Any = None,
    generator: FakeGenerator | None = None,
    capacity: float = 5e6,
    **wanted: Any,
) -> Outcome:
    bench = Bench(lambda _: capacity)
    if generator is not None:
        bench.generator = generator
        generator.clock = bench.clock
    live = bench.redeploy(topology, TESTBED_DUT, quiet=True)
    search = Search(QUICK, {}, lambda *_: Limits(8e6, None), lambda _: 60.0)
    return search.limits(live, traffic or Traffic(frame_size=64), **wanted)


METERED = limited(meter("br0", "p0", kbps=100_000, burst=10_000))
PER_SECOND, BURST = 1e8 / 480, 1e7 / 480


@pytest.mark.parametrize(("rate", "burst"), [(1.0, 1.0), (0.9, 1.0), (1.0, 0.5), (0.5, 0.0), (2.0, 1.0)])
def test_the_figures_are_those_of_the_limiter(rate: float, burst: float) -> None:
    """One that passes 90 % of its rate, one that counts small frames twice, and one that starts empty."""
    dut = Policed(5e6, per_second=PER_SECOND * rate, burst=BURST * burst)
    found = searched(METERED, generator=dut)
    assert found.figure("rate_error", "ratio").value == pytest.approx(rate - 1, abs=0.003)
    assert found.figure("burst_accepted", "ratio").value == pytest.approx(burst, abs=0.03)
    assert "burst 10,000, frames from p0, offered 833 kpps per direction: " in found.figures[0].confidence
    assert "duplicated_ratio" in {figure.metric for figure in found.figures}


def test_a_dut_without_its_limiter_is_found() -> None:
    found = searched(METERED)
    assert found.figure("rate_error", "ratio").value > 1


@pytest.mark.parametrize(
    ("topology", "wanted", "said"),
    [
        (limited(), {}, "topology 'limited': say which .*; it has none, such as meter"),
        (
            limited(policer("p0", 800), policer("p1", 800)),
            {},
            "say which .*; it has policer of p0: .*; policer of p1",
        ),
        (limited(policer("p0", 800)), {"of": "p1"}, "say which .*; it has policer of p0"),
        (limited(policer("p0", 1_000_000)), {"load_fps": 1e6}, "exceed it, 1.00 Mpps would be sent"),
        (limited(policer("p0", 100_000_000)), {}, "and the rig sends 8.00 Mpps at most: limit less"),
        (
            limited(policer("p0", 800, 1)),
            {"traffic": Traffic(frame_size=1518)},
            "its burst is less than a frame of 12000 bits",
        ),
        (limited(policer("p0", 1, 8000)), {}, "its burst takes 8000 s to fill: give a smaller one"),
        (limited(policer("p1", 800)), {"traffic": Traffic(bidirectional=False)}, "none passes it: send one"),
        (
            replace(pvp(), limiters=(meter("br0", ("p0", "v1b"), kbps=800),)),
            {"traffic": Traffic(bidirectional=False)},
            "one passes it twice: limit one pass of it",
        ),
    ],
)
def test_what_shows_nothing_is_refused_before_a_trial(topology: Topology, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        searched(topology, **wanted)


def test_one_class_of_a_mix_may_be_limited() -> None:
    one_way = Traffic(bidirectional=False)
    mix = TrafficMix(gold=(replace(one_way, frame_size=68, vlan=7), "50 %"), rest=(one_way, "50 %"))
    found = searched(METERED, mix, judge_only="gold")
    assert {figure.of_class for figure in found.figures if figure.metric == "rate_error"} == {"gold"}
    with pytest.raises(ArgumentError, match="judge_only names a class of a TrafficMix"):
        searched(METERED, judge_only="gold")


def test_a_load_that_did_not_reach_the_limiter_is_no_figure() -> None:
    found = searched(METERED, capacity=PER_SECOND / 2)
    assert {figure.metric for figure in found.figures}.isdisjoint({"rate_error", "burst_accepted"})
    assert "did not bring the load" in found.missing["rate_error"]


def test_the_trial_is_longer_where_frames_are_large_beside_the_rate() -> None:
    slow = limited(meter("br0", "p0", kbps=1000, burst=100))
    generator = FakeGenerator(5e6)
    searched(slow, Traffic(frame_size=IMIXES["simple"]), generator)
    short, long = (spec.duration_s for spec in generator.specs if spec.purpose == "limiter")
    assert 4 < long - short <= 8
