"""Classes of traffic on a real OVS with a real generator: only the class that a flow drops loses, to the frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.model.measure.ledger import BY_RULE, class_rows
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic, Vxlan
from pytest_nfvperf.session.run import bounding_text
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.soak_support import Soaking, soaking_on, undisturbed

pytestmark = [needs_root, needs_hugepages]

MORE = pytest.mark.thorough("another class")
LOAD, SECONDS = 100_000, 0.5
FOUR = TrafficMix(
    voice=(Traffic(frame_size=128, vlan=10), "10 %"),
    video=(
        Traffic(
            packet=Ether() / Dot1Q(vlan=20) / IP(src="198.18.0.0", dst="198.19.0.0") / UDP(),
            vary=[Vary("IP.src", 4)],
            frame_size=512,
        ),
        "20 %",
    ),
    bulk=(Traffic(frame_size=Imix("two", ((64, 3), (1518, 1))), vlan=30), "60 %"),
    overlay=(Traffic(frame_size=256, vxlan=Vxlan()), "10 %"),
)
INTENDED = {"voice": 10_000, "video": 20_000, "bulk": 60_000, "overlay": 10_000}
"""Frames of both directions. A shared machine keeps the generator from sending a few of them."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soaking]:
    with soaking_on(phy2phy(), tmp_path_factory.mktemp("mix")) as made:
        yield made


@pytest.fixture
def search() -> Search:
    return Search(QUICK, {"suite": "mix"}, lambda *_: Limits(2e6, None), lambda _: 0.0)


def drop(bench: Soaking, match: str) -> None:
    """A drop flow of bridge br0, at work when this returns."""
    instance = bench.rig.datapath().instance  # type: ignore[attr-defined]
    target = f"unix:{instance.directory}/br0.mgmt"
    run([*instance.ofctl, "-O", "OpenFlow14", "add-flow", target, f"cookie=0x77,priority=999,{match},actions=drop"])
    instance.ctl.call("revalidator/purge")


@pytest.fixture(autouse=True)
def _without_drop_flows(bench: Soaking) -> Iterator[None]:
    yield
    instance = bench.rig.datapath().instance  # type: ignore[attr-defined]
    target = f"unix:{instance.directory}/br0.mgmt"
    run([*instance.ofctl, "-O", "OpenFlow14", "del-flows", target, "cookie=0x77/-1"])
    instance.ctl.call("revalidator/purge")


def check(bench: Soaking, name: str) -> SlaCheck:
    rule = Rule((("class", (name,)),), (("lost_frames", parse_limit("lost_frames", "<= 0")),), "sla.yaml:1: rules[0]")
    recorder, trials = bench.live.runner.recorder, bench.live.runner.context.trials
    return SlaCheck([rule], MeasuredSubjects(), recorder, lambda outcomes: bounding_text(outcomes, trials))


def test_without_a_drop_flow_no_class_loses_and_all_are_as_sent(bench: Soaking, search: Search) -> None:
    outcome = undisturbed(lambda: search.loss_at(bench.live, FOUR, LOAD, SECONDS), bench.live.runner.context.trials)
    trial = bench.live.runner.context.trials[outcome.trials[-1]]
    assert {each.name: sum(count.intended for count in each.counts) for each in trial.result.classes} == INTENDED
    assert [each.lost for each in trial.result.classes] == [0, 0, 0, 0]
    assert [count.corrupted for each in trial.result.classes for count in each.counts] == [0] * 8
    assert all(each.latency and each.latency[0].samples for each in outcome.classes)
    for name in INTENDED:
        check(bench, name).check(outcome)


@pytest.mark.parametrize(
    ("match", "name", "share", "named"),
    [
        pytest.param("dl_vlan=20", "video", 1.0, "vlan_vid=0x1014", marks=MORE),
        # One of four values of a field. In reverse it is the destination that varies.
        ("ip,dl_vlan=20,nw_src=198.18.0.2", "video", 1 / 8, "ipv4_src=198.18.0.2"),
        pytest.param("ip,dl_vlan=20,nw_dst=198.18.0.2", "video", 1 / 8, "ipv4_dst=198.18.0.2", marks=MORE),
        pytest.param("udp,vlan_tci=0,tp_dst=4789", "overlay", 1.0, "udp_dst=4789", marks=MORE),
    ],
)
def test_a_drop_flow_on_one_class_of_four(
    bench: Soaking, search: Search, match: str, name: str, share: float, named: str
) -> None:
    drop(bench, match)
    outcome = undisturbed(lambda: search.loss_at(bench.live, FOUR, LOAD, SECONDS), bench.live.runner.context.trials)
    trial = bench.live.runner.context.trials[outcome.trials[-1]]
    dropped = next(each for each in trial.result.classes if each.name == name)
    lost = dropped.lost
    assert lost == pytest.approx(share * dropped.offered, abs=0 if share == 1 else 0.01 * dropped.offered)
    assert {each.name: each.lost for each in trial.result.classes} == {**dict.fromkeys(INTENDED, 0), name: lost}
    assert trial.ledger is not None  # by the counters of OVS
    assert (trial.ledger.lost, trial.ledger.unexplained, trial.ledger.dropped(BY_RULE)) == (lost, 0, lost)
    assert sum(each.lost for each in trial.ledger.classes) == lost
    for other in INTENDED:
        if other != name:
            check(bench, other).check(outcome)
    with pytest.raises(SlaFailure) as failed:
        check(bench, name).check(outcome)
    text = str(failed.value)
    assert f"class {name}: lost_frames <= 0" in text
    assert f"{lost:,} frames" in text
    assert all(row in text for row in class_rows(trial.ledger.classes))
    assert f"class {name}: {lost:,} lost of {dropped.offered:,}" in " ".join(text.split())
    (row,) = {line.partition("drop_action")[2] for line in text.splitlines() if "lost: drop_action" in line}
    assert row.startswith("_of_pipeline (flow priority=999")
    assert f"{named} of br0" in row  # the flow, and with it the value


def test_a_soak_counts_each_class(bench: Soaking, tmp_path: Path) -> None:
    drop(bench, "dl_vlan=30,in_port=p0")
    outcome = bench.soaker.run(bench.live, FOUR, duration_s=2.0)  # at 50,000 frames/s
    lost = {each.name: each.losses[0].lost_frames for each in outcome.classes}
    assert outcome.soak is not None
    assert lost == {"voice": 0, "video": 0, "bulk": outcome.soak.all_lost, "overlay": 0}
    assert 0.5 * 60_000 < outcome.soak.all_lost <= 60_000  # a busy machine skips frames


@pytest.mark.thorough("a whole search")
def test_a_search_raises_one_class_while_another_stays_fixed(bench: Soaking, search: Search) -> None:
    mix = TrafficMix(voice=(Traffic(frame_size=128, vlan=10), "20 kpps"), bulk=(Traffic(vlan=30), "100 %"))
    outcome = search.throughput(bench.live, mix, raise_only="bulk")
    sent = [bench.live.runner.context.trials[each].result for each in outcome.trials]
    rates = {each.fps for result in sent for each in result.spec.streams(1_000_000) if each.sent.name == "voice"}
    assert rates == {20_000}
    assert outcome.goals[0].load_fps


def test_eight_classes_in_both_directions_are_counted_apart(bench: Soaking, search: Search) -> None:
    mix = TrafficMix(**{f"c{n}": (Traffic(frame_size=64 + 32 * n, vlan=n), 1 / 8) for n in range(1, 9)})
    drop(bench, "dl_vlan=8")
    outcome = undisturbed(lambda: search.loss_at(bench.live, mix, 80_000, 0.25), bench.live.runner.context.trials)
    trial = bench.live.runner.context.trials[outcome.trials[-1]]
    assert [sum(count.intended for count in each.counts) for each in trial.result.classes] == [5_000] * 8
    assert [each.lost for each in trial.result.classes] == [0] * 7 + [trial.result.classes[-1].offered]
    assert trial.result.lost == trial.result.classes[-1].offered > 0
