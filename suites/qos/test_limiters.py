"""A limiter passes what it says: its rate, its burst and the bytes that it counts, against the token bucket's formula.

A meter counts frames without FCS, the policers of DPDK's ports count IP packets. Each trial begins with a full bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from pytest_nfvperf import (
    IMIXES,
    Deployer,
    Imix,
    Search,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    chosen,
    compares,
    compose,
    phy2phy,
    sweep,
)
from pytest_nfvperf.parts import egress_policer, endpoint, meter, path, policer, trtcm

IMIX = IMIXES["simple"]
FRAME_SIZES = (64, IMIX, 1518)
RATES_MBPS = (1, 10, 100, 1000, 10_000)
MOST_MBPS = {64: 100, IMIX: 1000, 1518: 10_000}
"""What one core forwards 1.5 times of, at any frame size."""
LIMITERS: dict[str, Callable[[int, int], object]] = {
    "meter": lambda kbps, burst: meter("br0", "p0", kbps=kbps, burst=burst),
    "policer": lambda kbps, burst: policer("p0", kbps=kbps, burst=burst),
    "egress-policer": lambda kbps, burst: egress_policer("p1", cir=kbps * 125, cbs=burst * 125),
    "trtcm-policer": lambda kbps, burst: trtcm("p1", (kbps * 75, burst * 75), (kbps * 50, burst * 50)),
}
"""Each by its rate and burst, in kbit; of a trTCM three fifths are committed, and the rest is excess."""


def _limited(*limiters: object) -> Topology:
    return compose("limited", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), *limiters)


def _cases() -> list[tuple[str, int, int | Imix]]:
    every = product(LIMITERS, RATES_MBPS, FRAME_SIZES)
    return [(name, mbps, size) for name, mbps, size in every if mbps <= MOST_MBPS[size]]


@pytest.mark.nfv_smoke
@chosen("limiter, mbps, frame_size", _cases(), quick={("meter", 100, 1518), ("policer", 100, 1518)})
def test_rate(limiter: str, mbps: int, frame_size: int | Imix, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Each limiter by its rate and by frame size, with a burst of a tenth of a second, or 1 Mbit.

    Steps: build port - bridge - port with the limiter; learn; let the bucket fill; send more than it passes, for a
    short time and for a longer one.
    Verify: the SLA's ``rate_error``, which the second trial adds to the first, and ``burst_accepted``.
    """
    live = deploy(_limited(LIMITERS[limiter](mbps * 1000, max(mbps * 100, 1000))))
    sla.check(search.limits(live, Traffic(frame_size=frame_size, bidirectional=False)))


@pytest.mark.nfv_not_quick
@sweep("limiter", list(LIMITERS))
@sweep("burst_ms", [2, 10, 100, 1000])
def test_burst(limiter: str, burst_ms: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Each limiter by its burst, at 100 Mbit/s of large frames.

    Steps: as test_rate.
    Verify: the SLA's ``rate_error`` and ``burst_accepted``; a burst of few frames shows the rate alone.
    """
    live = deploy(_limited(LIMITERS[limiter](100_000, 100 * burst_ms)))
    sla.check(search.limits(live, Traffic(frame_size=1518, bidirectional=False)))


@pytest.mark.nfv_not_quick
@sweep("kbps", [1_000_000])
def test_burst_below_the_clock(kbps: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """A meter whose burst is half a millisecond of its rate: OVS's clock of milliseconds never fills it again.

    Steps: as test_rate.
    Verify: the SLA's ``rate_error``: what a switch takes without an error it should do.
    """
    live = deploy(_limited(meter("br0", "p0", kbps=kbps, burst=kbps // 2000)))
    sla.check(search.limits(live, Traffic(frame_size=1518, bidirectional=False)))


@pytest.mark.nfv_not_quick
@sweep("limiter", ["meter", "policer"])
def test_odd_rate(limiter: str, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """204 Mbit/s: a byte each 101.8 to 102 cycles of a common clock. DPDK's policers take whole ones.

    Steps: as test_rate.
    Verify: the SLA's ``rate_error`` and ``burst_accepted``.
    """
    live = deploy(_limited(LIMITERS[limiter](204_000, 20_400)))
    sla.check(search.limits(live, Traffic(frame_size=512, bidirectional=False)))


@pytest.mark.nfv_not_quick
@sweep("pktps", [1000, 100_000, 500_000])
def test_packets(pktps: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """A meter of packets a second: the size of a frame is nothing to it.

    Steps: as test_rate, with an IMIX.
    Verify: the SLA's ``rate_error`` and ``burst_accepted``.
    """
    live = deploy(_limited(meter("br0", "p0", pktps=pktps, burst=pktps // 10)))
    sla.check(search.limits(live, Traffic(frame_size=IMIX, bidirectional=False)))


NEVER = 10_000_000
"""kbit/s that no core reaches with small frames, so that the limiter costs its work and drops nothing."""


@pytest.mark.nfv_not_quick
@compares("limiter", ("none", *LIMITERS))
def test_cost(limiter: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """What a limiter costs that limits nothing: the forwarding rate of small frames, and PMD cycles a packet.

    Steps: port - bridge - port with each limiter side by side; learn; overload them in turns.
    Verify: the SLA's ``cycles_per_packet`` and ``forwarding_rate`` against no limiter.
    """
    built = {name: _limited(LIMITERS[name](NEVER, NEVER)) for name in limiter if name != "none"}
    subjects = [Subject(name, built.get(name, phy2phy())) for name in limiter]
    sla.check_each(study.forwarding_rate("limiter", subjects, Traffic(frame_size=64, bidirectional=False)))
