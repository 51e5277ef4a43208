"""The control plane under load, and the datapath while many routes change."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_nfvperf import (
    BgpPathDeployer,
    BgpPathPlan,
    BgpTimers,
    Convergence,
    Event,
    LiveBgpPath,
    Profile,
    SlaCheck,
    sweep,
)

LOAD_S = {"quick": 8.0, "gate": 60.0, "full": 300.0}
CHURN_FPS = 500_000
BUSY_TIMERS = BgpTimers(keepalive_s=3, hold_s=9)
"""FRR's profile for data centres. With the 3 s of the other tests a neighbour that shares its CPU with the generator
misses the hold time while it sends 100,000 prefixes."""
FIRST = 20 << 24
"""20.0.0.0: the first of the prefixes that are announced in bulk."""


@sweep("load_mpps", [1, 2, 4], quick={1})
def test_session_under_load(
    load_mpps: int, bgp_path: LiveBgpPath, convergence: Convergence, profile: Profile, sla: SlaCheck
) -> None:
    """BGP and BFD share the generator's port, and its receive queue, with the data.

    Steps: send 64-byte frames both ways for longer than the hold time; look at the session.
    Verify: the SLA on how often it went down, by BFD too, and on loss.
    """
    traffic, before = bgp_path.traffic(64), bgp_path.path.session()
    reading = convergence.read(bgp_path.live, traffic, (), LOAD_S.get(profile.name, 8.0), load_mpps * 1_000_000)
    seen, note = bgp_path.session_drops_since(before, reading.trial.id), str(bgp_path.path.session())
    sla.check(convergence.outcome(bgp_path.live, traffic, [reading], {}, loss_of=[reading], notes=(note,), **seen))


def _prefixes(count: int) -> Iterator[str]:
    for number in range(count):
        address = FIRST + (number << 8)
        yield f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.0/24"


@sweep("prefixes", [1_000, 10_000, 100_000], quick={10_000})
def test_route_scale(prefixes: int, bgp: BgpPathDeployer, convergence: Convergence, sla: SlaCheck) -> None:
    """Many prefixes at once, while data is forwarded.

    Steps: S1 with FRR's timers for data centres; 500 kpps both ways; BIRD announces the prefixes; wait until FRR
    counts them all, and all are flows; withdraw them; wait until none is left.
    Verify: the SLA on both times and on how often the session went down; loss while the routes change is told.
    """
    bgp_path = bgp(BgpPathPlan(timers=BUSY_TIMERS))
    bgp_path.await_ready()
    path, traffic, many = bgp_path.path, bgp_path.traffic(64), tuple(_prefixes(prefixes))
    own = 1
    marks: dict[str, float] = {}

    def announce() -> None:
        marks["announced"] = bgp_path.now_s()
        path.bird.announce(many)
        bgp_path.await_received(prefixes + own, 60)
        marks["received"] = bgp_path.now_s()
        bgp_path.await_count(prefixes + own + 1, 60)
        marks["installed"] = bgp_path.now_s()

    def withdraw() -> None:
        path.bird.withdraw(many)
        bgp_path.await_count(own + 1, 60)

    before = path.session()
    seconds_for = max(2.0, prefixes / 12_500)
    events = [Event("announce", 0.3, announce)]
    reading = convergence.read(bgp_path.live, traffic, events, seconds_for, CHURN_FPS, ready=withdraw)
    withdraw()
    bgp_path.await_established()
    seen = bgp_path.session_drops_since(before, reading.trial.id)
    times = {
        metric: [marks[mark] - marks["announced"]]
        for metric, mark in (("prefixes_received_time", "received"), ("prefixes_installed_time", "installed"))
        if mark in marks
    }
    sla.check(convergence.outcome(bgp_path.live, traffic, [reading], times, loss_of=[reading], **seen))
