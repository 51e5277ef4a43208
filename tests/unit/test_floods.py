"""Floods beside a victim, on a simulated DUT, and what samples say of its recovery."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from types import SimpleNamespace

import pytest
from simulated_bench import CEILING, Bench

from pytest_nfvperf import UnavailableError, compose, phy2phy
from pytest_nfvperf.adapters.generators.fake import FakeTrial
from pytest_nfvperf.adapters.ovs.slow_path import read_slow_path
from pytest_nfvperf.backends.simulated import SimulatedTopology
from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.measure.flood import Floods, recovery_figures
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WitnessWindows
from pytest_nfvperf.model.errors import ArgumentError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterDelta, Ledger
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.measure.soak_series import SoakTable
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, RigHealth, TrialSpec
from pytest_nfvperf.parts import endpoint, node, underlay
from pytest_nfvperf.ports.datapath import BuiltTopology

VICTIM, ATTACKER = Traffic(frame_size=128, flows=1000, bidirectional=False), Traffic(flows=1 << 20)
FLOOD_S = 1.0


class Rig:
    """A simulated rig with floods on it. ``asked``: what its OVS was asked for."""

    def __init__(self, **settings) -> None:
        self.bench, self.asked = Bench(lambda _: 5e6, noise=0.0, **settings), []
        self.live = self.bench.redeploy(phy2phy(), TESTBED_DUT, quiet=True)
        self.live.built = SimulatedTopology(phy2phy())
        self.live.built.ovs = lambda *call: self.asked.append(call) or ""
        self.flood = Floods(QUICK, {"suite": "slowpath"}, lambda *_: Limits(CEILING, None), lambda _: 0.0)

    def run(self, **settings):
        return self.flood.run(self.live, VICTIM, ATTACKER, **{"victim_fps": 100_000, "attacker_fps": 50_000} | settings)


def verdict(outcome, metric, limit):
    rule = Rule((("class", ("victim",)),), ((metric, parse_limit(metric, limit)),), "s")
    (found,) = judge([rule], outcome.label, outcome.figures, lambda _: None)
    return found.judgement


@pytest.mark.parametrize(("dropped", "judged"), [(0.001, Judgement.FAIL), (0.0, Judgement.PASS)])
def test_one_of_a_thousand_victims_dropped_is_the_loss_of_the_victim(dropped, judged):
    rig = Rig(class_loss={"victim": dropped})
    outcome = rig.run()
    assert outcome.figure("loss_ratio", of_class="victim").value == pytest.approx(dropped)
    assert outcome.figure("loss_ratio", of_class="attacker").value == 0
    assert verdict(outcome, "loss_ratio", "<= 0.05 %") is judged
    assert outcome.label["classes"] == "victim+attacker"


def test_each_trial_begins_with_the_victims_flows_alone_and_in_the_last_one_the_victim_goes_on():
    rig = Rig()
    rig.run(recovery_s=2.0)
    specs = rig.bench.generator.specs
    assert [spec.purpose for spec in specs] == [
        *("warm-up", "before a flood"),
        *("warm-up", "flood"),
        *("warm-up", "recovery"),
    ]
    assert [spec.load_fps for spec in specs] == [100_000, 100_000, 100_000, 150_000, 100_000, 150_000]
    assert (specs[-1].duration_s, specs[-1].ends) == (3.0, ("attacker", 1.0))
    assert rig.asked == [("appctl", "upcall/set-flow-limit", "10000"), ("appctl", "revalidator/purge")] * 3


def test_a_victim_that_suffers_nothing_has_recovered_when_the_flood_ends():
    outcome = Rig().run()
    assert outcome.figure("recovery", of_class="victim").interval == (0.0, 0.0)
    assert verdict(outcome, "recovery", "<= 1 s") is Judgement.PASS
    assert outcome.figure("megaflow_recovery") is None  # nobody counts them here


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"victim_fps": 999}, "victim_fps"),
        ({"victim_fps": 1000}, "victim of 1,000 flows"),
        ({"attacker_fps": 0}, "attacker_fps"),
        ({"flood_s": 0}, "flood_s"),
        ({"recovery_s": 0.1}, "recovery_s"),
        ({"flow_limit": 10}, "flow_limit"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(settings, why):
    rig = Rig()
    with pytest.raises(ArgumentError, match=why):
        rig.run(**settings)
    assert (rig.bench.generator.specs, rig.asked) == ([], [])


def test_a_datapath_that_is_no_ovs_is_not_flooded():
    rig = Rig()
    rig.live.built.ovs = lambda *_: BuiltTopology.ovs(rig.live.built, "appctl")
    with pytest.raises(UnavailableError, match="no Open vSwitch"):
        rig.run()
    assert rig.bench.generator.specs == []


def test_a_dut_of_several_nodes_is_not_flooded():
    rig = Rig()
    rig.live.topology = compose(
        "nodes", node("a", endpoint("p0", "br0"), "w0"), node("b", endpoint("p1", "br1"), "w1"), underlay("w0", "w1")
    )
    for measure in (rig.run, lambda: rig.flood.new_flow_rate(rig.live, Traffic(flows=1 << 20, bidirectional=False))):
        with pytest.raises(ArgumentError, match="one OVS"):
            measure()
    assert rig.bench.generator.specs == []


def test_headers_that_repeat_within_a_trial_are_no_new_flows():
    rig = Rig()
    with pytest.raises(ArgumentError, match="5,000 different headers"):
        rig.flood.new_flow_rate(rig.live, Traffic(flows=5000, bidirectional=False))
    assert rig.bench.generator.specs == []


def test_new_flows_are_searched_for_with_megaflows_removed_before_each_trial():
    rig = Rig()
    outcome = rig.flood.new_flow_rate(rig.live, Traffic(flows=1 << 20, bidirectional=False))
    assert 0.9 * (1 << 20) < outcome.figure("new_flow_rate").value <= 1 << 20  # more would repeat headers
    assert len(rig.asked) == 2 * len(rig.bench.generator.specs)
    assert verdict_of_all(outcome, ">= 1 Mpps") is Judgement.PASS


def verdict_of_all(outcome, limit):
    rule = Rule((), (("new_flow_rate", parse_limit("new_flow_rate", limit)),), "s")
    (found,) = judge([rule], outcome.label, outcome.figures, lambda _: None)
    return found.judgement


def test_one_megaflow_for_many_flows_is_a_mistake_and_no_rate():
    rig = Rig()
    counted = (CounterDelta("pmd.packets_received", 10**6, False), CounterDelta("pmd.upcalls_ok", 3, False))
    rig.live.runner.make_ledger = lambda result, *_: Ledger(result.offered, result.received, (), 0, counted)
    with pytest.raises(ArgumentError, match="by_address"):
        rig.flood.new_flow_rate(rig.live, Traffic(flows=1 << 20, bidirectional=False))


# What samples of 0.1 s say. Each is (lost frames, p99 in us, megaflows) within the tenth of a second that it ends.


def table(samples):
    made = SoakTable(("lost", "p99_ns", "megaflows"))
    for number, (lost, p99_us, flows) in enumerate(samples, 1):
        made.add({"t": number / 10, "lost": lost, "p99_ns": p99_us * 1000, "megaflows": flows})
    return made


def trial(windows=None, offered=300_000):
    mix = TrafficMix(victim=(VICTIM, "100 %"), attacker=(VICTIM, "50 kpps"))
    spec = TrialSpec(mix, 150_000, 2.0, (Direction("p0", "p1"),), window_s=0.01, ends=("attacker", FLOOD_S))
    counts = DirectionCounts(
        *(spec.directions[0], 300_000, offered, 0, 300_000 - offered, offered),
        *(0, 0, 0, 0, offered * 128, offered * 128, 2 * 10**9),
    )
    return SimpleNamespace(id="trial-0001", result=TrialResult(spec, (counts,), RigHealth(), windows=windows))


def figures(after, windows=None, offered=300_000):
    samples = table([(9, 900, 9000)] * 10 + after)
    found = recovery_figures(trial(windows, offered), table([(0, 50, 100)] * 10), samples)
    return {figure.metric: tuple(round(end, 3) for end in figure.interval) for figure in found}


GOOD, LOSSY, SLOW = (0, 60, 100), (5, 60, 100), (0, 200, 100)


@pytest.mark.parametrize(
    ("after", "interval"),
    [
        ([GOOD] * 10, (0, 0)),
        ([LOSSY] * 3 + [GOOD] * 7, (0.2, 0.3)),
        ([LOSSY, GOOD, GOOD, LOSSY, *[GOOD] * 6], (0.3, 0.4)),  # two good samples are no recovery
        ([GOOD] * 3 + [LOSSY] * 7, (0, 0)),  # what comes later is another matter
        ([SLOW] * 4 + [GOOD] * 6, (0, 0.4)),  # the machine may slow frames down: only an upper bound
        ([LOSSY, *[SLOW] * 9], (0, math.inf)),
        ([LOSSY] * 10, (0.9, math.inf)),
    ],
)
def test_recovery_is_between_the_last_loss_and_the_first_samples_as_before(after, interval):
    assert figures(after)["recovery"] == interval


def test_a_flood_that_was_not_offered_shows_no_recovery_from_it():
    assert figures([LOSSY, *[GOOD] * 9], offered=280_000)["recovery"] == (0, math.inf)
    assert figures([LOSSY, *[GOOD] * 9], offered=295_000)["recovery"] == (0, 0.1)


def test_frames_lost_while_the_machine_was_away_only_widen_the_interval():
    def windows(speed):
        zeros = (0,) * 200
        lost = (0,) * 100 + (1,) * 50 + (0,) * 50
        thread = ThreadWindows(zeros, (1000,) * 200, zeros, zeros, zeros, lost, zeros, (100,) * 200)
        return Windows(10_000_000, (thread,), (WitnessWindows(1, zeros, (speed,) * 200, zeros),), 100)

    after = [LOSSY] * 5 + [GOOD] * 5
    assert figures(after, windows(100))["recovery"] == (0.4, 0.5)
    assert figures(after, windows(180))["recovery"] == (0, 0.5)


@pytest.mark.parametrize(
    ("flows", "interval"),
    [([100] * 10, (0, 0.1)), ([9000] * 4 + [104] * 6, (0.4, 0.5)), ([9000] * 10, (1.0, math.inf))],
)
def test_megaflows_are_gone_when_there_are_as_few_as_before(flows, interval):
    assert figures([(0, 60, each) for each in flows])["megaflow_recovery"] == interval


SHOWN = {
    "dpctl/show": """\
netdev@ovs-netdev:
  lookups: hit:1204 missed:12345 lost:3
  flows: 12021
  port 0: ovs-netdev (tap)
""",
    "upcall/show": """\
netdev@ovs-netdev:
  flows         : (current 12019) (avg 3920) (max 20001) (limit 10000)
  dump duration : 17ms
  ufid enabled : true

  2: (keys 12010)
  3: (keys 11)
""",
}


def test_the_slow_path_is_read_from_what_ovs_shows():
    ctl, pid = SimpleNamespace(call=SHOWN.__getitem__), os.getpid()
    found = read_slow_path(ctl, pid)
    assert found.pop("memory_MiB") > 1
    assert found == {"megaflows": 12021, "flow_limit": 10000, "dump_ms": 17, "revalidators": 2}


def test_what_is_left_of_a_trial_may_come_in_the_moment_of_the_interval_before(monkeypatch):
    told, read = [], FakeTrial.next_interval

    def next_interval(trial):
        told.append(read(trial) or (told[-1] if len(told) > 1 and told[-1] is not told[-2] else None))
        return told[-1]

    monkeypatch.setattr(FakeTrial, "next_interval", next_interval)
    assert Rig().run().figures
    assert any(one is two is not None for one, two in pairwise(told))


def test_a_dut_that_dies_in_a_flood_ends_the_trial_and_is_the_error_to_report():
    rig = Rig()
    looks = iter([None, None, TestbedError("ovs-vswitchd died")])

    def check_alive():
        if isinstance(found := next(looks), TestbedError):
            raise found

    rig.live.check_alive = check_alive
    with pytest.raises(TestbedError, match="vswitchd died"):
        rig.run()
    assert rig.bench.generator.specs[-1].purpose == "before a flood"
    rig.live.check_alive = lambda: None
    assert rig.run().figures  # the generator was read to the trial's end, and takes another one
