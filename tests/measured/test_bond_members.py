"""Bonds of vhost-user ports on a real OVS: frames come by any member, and go by one, also with LACP."""

from __future__ import annotations

import pytest

from pytest_nfvperf import events
from pytest_nfvperf.measure.outage import watch_event
from pytest_nfvperf.measure.rig import trial_spec
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import bond, endpoint
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.soak_support import Soaking, soaking_on

pytestmark = [needs_root, needs_hugepages]


def bonded(mode: str, lacp: str = "off") -> Topology:
    return compose(f"bond-{mode}", endpoint("p0", "br0"), bond("bond0", "br0", ("m0", "m1"), mode, lacp=lacp))


def sent(bench: Soaking, traffic: Traffic, seconds: float = 0.3) -> TrialResult:
    """A trial in which the host took no CPU from the DUT. Frames that a busy machine skipped were never sent."""
    spec = trial_spec(bench.live, traffic, 50_000, seconds, "bond", residual_s=0.1)
    bench.live.learn(traffic)
    for _ in range(20):
        result = bench.live.runner.run_once(spec).result
        if Reason.DUT_CPU_STOLEN not in {reason.code for reason in result.invalid}:
            break
    return result


def sent_to(bench: Soaking, member: str) -> int:
    """Frames that OVS has sent to a member."""
    dump = bench.live.deployment.built.ovs("ofctl", "dump-ports", "br0", member)
    return int(dump.split("tx pkts=")[1].split(",")[0])


def by_member(bench: Soaking) -> dict[str, int]:
    return {member: sent_to(bench, member) for member in ("m0", "m1")}


@pytest.mark.parametrize(
    ("mode", "lacp", "used"),
    [
        ("active-backup", "off", 1),
        ("balance-slb", "off", 1),
        ("balance-tcp", "active", 2),
        ("active-backup", "active", 1),
    ],
)
def test_every_frame_of_both_directions_arrives(
    tmp_path_factory: pytest.TempPathFactory, mode: str, lacp: str, used: int
) -> None:
    with soaking_on(bonded(mode, lacp), tmp_path_factory.mktemp("bond")) as bench:
        traffic = Traffic(flows=256)
        sent(bench, traffic)
        before = by_member(bench)
        result = sent(bench, traffic)
        assert [str(each.direction) for each in result.counts] == ["p0->bond0", "bond0->p0"]
        assert [each.lost for each in result.counts] == [0, 0]
        assert [each.corrupted for each in result.counts] == [0, 0]
        assert min(each.offered for each in result.counts) > 7_000
        after = by_member(bench)
        assert sum(after[name] - before[name] > 1_000 for name in after) == used


@pytest.mark.parametrize(
    ("mode", "lacp"), [("active-backup", "off"), ("balance-slb", "off"), ("balance-tcp", "active")]
)
def test_a_member_that_hangs_up_and_comes_back(tmp_path_factory: pytest.TempPathFactory, mode: str, lacp: str) -> None:
    with soaking_on(bonded(mode, lacp), tmp_path_factory.mktemp("bond")) as bench:
        traffic = Traffic(flows=256)
        sent(bench, traffic)
        before = by_member(bench)
        sent(bench, traffic)
        after = by_member(bench)
        used = max(after, key=lambda name: after[name] - before[name])
        other = {"m0": "m1", "m1": "m0"}[used]
        event = events.link_down(bench.live, used)
        for _ in range(2):
            bench.live.learn(traffic)
            spec = trial_spec(
                bench.live, traffic, 20_000, 20, "bond", latency=False, residual_s=0.1, window_s=0.01, gap_s=0.002
            )
            before = by_member(bench)
            _, outage = watch_event(bench.live, spec, event, 3.0)
            moved = sent_to(bench, other) - before[other]
            assert event.undo is not None
            event.undo()
            assert moved > 2_000  # frames go on by the other member
            assert outage.ended
            assert outage.event == f"link of {used} down"
            used, other = (other, used) if mode == "active-backup" else (used, other)
            event = events.link_down(bench.live, used)
