"""Broadcast and multicast on a real OVS: each receiver counts every frame, and what one of them lacks is its loss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.measure.rig import trial_spec
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.soak_support import Soaking, soaking_on

pytestmark = [needs_root, needs_hugepages]

FAN_OUT = compose(
    "fan-out",
    *(endpoint(name, "br0") for name in ("p0", "p1", "p2")),
    Direction("p0", "p1"),
    Direction("p0", "p2"),
)
MULTICAST = Traffic(dst_mac="01:00:5e:00:00:01", dst_ip="224.0.0.1", bidirectional=False)
BROADCAST = Traffic(frame_size=128, dst_mac="ff:ff:ff:ff:ff:ff", dst_ip="255.255.255.255", bidirectional=False)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soaking]:
    with soaking_on(FAN_OUT, tmp_path_factory.mktemp("fan-out")) as made:
        yield made


def sent(bench: Soaking, traffic: Traffic | TrafficMix) -> TrialResult:
    """A trial in which the host took no CPU from the DUT. Frames that a busy machine skipped were never sent."""
    spec = trial_spec(bench.live, traffic, 50_000, 0.3, "fan-out", residual_s=0.1)
    bench.live.learn(traffic)
    for _ in range(20):
        result = bench.live.runner.run_once(spec).result
        if Reason.DUT_CPU_STOLEN not in {reason.code for reason in result.invalid}:
            break
    return result


@pytest.mark.parametrize("traffic", [MULTICAST, BROADCAST], ids=["multicast", "broadcast"])
def test_each_receiver_counts_every_frame(bench: Soaking, traffic: Traffic) -> None:
    result = sent(bench, traffic)
    assert [str(each.direction) for each in result.counts] == ["p0->p1", "p0->p2"]
    assert [each.received for each in result.counts] == [each.offered for each in result.counts]
    assert result.counts[0].offered == result.counts[1].offered > 7_000
    assert [each.corrupted for each in result.counts] == [0, 0]


def test_what_one_receiver_lacks_is_its_loss(bench: Soaking) -> None:
    instance = bench.rig.datapath().instance  # type: ignore[attr-defined]
    target, ports = f"unix:{instance.directory}/br0.mgmt", bench.live.deployment.built.ofports()  # type: ignore[attr-defined]
    only = f"cookie=0x77,priority=999,in_port={ports['p0']},dl_dst={MULTICAST.dst_mac},actions=output:{ports['p1']}"
    run([*instance.ofctl, "-O", "OpenFlow14", "add-flow", target, only])
    instance.ctl.call("revalidator/purge")
    try:
        result = sent(bench, TrafficMix(group=(MULTICAST, "50 %"), all=(BROADCAST, "50 %")))
    finally:
        run([*instance.ofctl, "-O", "OpenFlow14", "del-flows", target, "cookie=0x77/-1"])
        instance.ctl.call("revalidator/purge")
    group, everybody = result.classes
    assert [each.lost for each in everybody.counts] == [0, 0]
    assert [each.lost for each in group.counts] == [0, group.counts[1].offered]
    assert result.lost == group.counts[1].offered > 3_000
