"""Classes that share a limiter, or have one each: who loses when one of them sends more than it may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf import Deployer, Profile, Search, SlaCheck, Topology, Traffic, TrafficMix, compose
from pytest_nfvperf.parts import endpoint, meter, path, rules, trtcm

GOLD, BULK = (Traffic(frame_size=68, vlan=vlan, bidirectional=False) for vlan in (10, 20))
KBPS = 51_200
"""100,000 frames/s of 64 bytes without FCS."""
BURST = 512
"""kbit: 10 ms of it."""
LOAD_FPS = 200_000

pytestmark = pytest.mark.nfv_not_quick


def _limited(*limiters: object) -> Topology:
    return compose("limited", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), *limiters)


def test_fairness(deploy: Deployer, search: Search, sla: SlaCheck, profile: Profile) -> None:
    """Two classes of the same load in one meter that passes half of both: each loses half.

    Steps: build port - bridge - port with a meter; learn; warm up; one trial at twice its rate.
    Verify: the SLA's ``loss_ratio`` of each class.
    """
    live = deploy(_limited(meter("br0", "p0", kbps=KBPS, burst=BURST)))
    mix = TrafficMix(gold=(GOLD, "50 %"), bulk=(BULK, "50 %"))
    sla.check(search.loss_at(live, mix, LOAD_FPS, profile.comparison_trial_s))


def test_fairness_of_sizes(deploy: Deployer, search: Search, sla: SlaCheck, profile: Profile) -> None:
    """The same with large frames beside small ones: whoever needs more of a bucket finds it too empty more often.

    Steps: as test_fairness, with frames of 68 and 1518 bytes, as many of each.
    Verify: measured and reported; no limit is shipped.
    """
    live = deploy(_limited(meter("br0", "p0", kbps=600_000, burst=6000)))
    mix = TrafficMix(gold=(GOLD, "50 %"), bulk=(replace(BULK, frame_size=1518), "50 %"))
    sla.check(search.loss_at(live, mix, LOAD_FPS, profile.comparison_trial_s))


def test_a_meter_each(deploy: Deployer, search: Search, sla: SlaCheck, profile: Profile) -> None:
    """A class within its rate loses nothing while another sends three times its own.

    Steps: build port - bridge - port with a meter for each VLAN; learn; warm up; one trial.
    Verify: the SLA's ``loss_ratio`` of class gold, and that bulk loses.
    """
    own = [meter("br0", "p0", kbps=KBPS, burst=10 * BURST, number=vlan, match=f"dl_vlan={vlan}") for vlan in (10, 20)]
    mix = TrafficMix(gold=(GOLD, "80 kpps"), bulk=(BULK, "100 %"))
    sla.check(search.loss_at(deploy(_limited(*own)), mix, 380_000, profile.comparison_trial_s))


def test_priority(deploy: Deployer, search: Search, sla: SlaCheck, profile: Profile) -> None:
    """A class that is within its committed rate loses nothing under overload: trtcm-policer, a queue for each class.

    Its frames are green in queue 1 and use what the port has committed. Those of bulk are yellow, and share the excess.

    Steps: build port - bridge - port with a trtcm-policer, and a flow that chooses the queue; learn; one trial.
    Verify: the SLA's ``loss_ratio`` of class gold, and that bulk loses.
    """
    committed, excess = (5_000_000, 500_000), (5_000_000, 500_000)
    queues = {0: ((1, 1), (20_000_000, 500_000)), 1: (committed, (1, 1))}
    gold = rules("br0", flows="priority=200,in_port=p0,dl_vlan=10,actions=set_queue:1,output:p1")
    live = deploy(_limited(trtcm("p1", committed, excess, queues=queues), gold))
    mix = TrafficMix(gold=(GOLD, "80 kpps"), bulk=(BULK, "100 %"))
    sla.check(search.loss_at(live, mix, 480_000, profile.comparison_trial_s))
