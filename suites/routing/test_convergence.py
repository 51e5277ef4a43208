"""How long the datapath takes to follow BGP, dated by the sequence numbers of frames."""

from __future__ import annotations

from pytest_nfvperf.judging import SlaCheck
from pytest_nfvperf.model.bgp_path import VM
from pytest_nfvperf.model.profile import Profile
from pytest_nfvperf.routing import BgpStand, LiveBgpPath
from pytest_nfvperf.runs.convergence import Convergence, Event

REPEATS = {"quick": 3, "gate": 10, "full": 25}
STORM_PERIOD_S = 0.1


def test_establishment(bgp: BgpStand, convergence: Convergence, sla: SlaCheck) -> None:
    """Time from the start of both speakers to Established, with BFD up.

    Steps: start FRR, then BIRD, on the standing bridge; wait for the session.
    Verify: the SLA; S1's session is up within 5 s with test timers.
    """
    path = bgp()
    began = path.started_s
    state = path.path.await_established()
    taken = path.now_s() - began
    path.path.await_ready()
    assert state.flaps == 0, f"the session flapped while it was set up: {state}"
    traffic = path.traffic(64)
    sla.check(convergence.outcome(path.live, traffic, (), {"establishment_time": [taken]}))


def test_withdraw_and_announce(
    bgp_path: LiveBgpPath, convergence: Convergence, profile: Profile, sla: SlaCheck
) -> None:
    """Time from the neighbour's withdrawal to the last frame, and from its announcement to the first.

    Steps: 100 kpps both ways; BIRD withdraws the clients' network, announces it 0.7 s later; repeat.
    Verify: the SLA; the other direction, whose route stays, is not interrupted.
    """
    traffic, bird = bgp_path.traffic(64), bgp_path.path.bird
    events = [
        Event("withdraw", 0.4, lambda: bird.withdraw([bgp_path.plan.clients])),
        Event("announce", 1.1, lambda: bird.announce([bgp_path.plan.clients])),
    ]
    readings = []
    for _ in range(REPEATS.get(profile.name, 3)):
        readings.append(convergence.read(bgp_path.live, traffic, events, 1.8))
        bgp_path.path.agent.await_installed(bgp_path.plan.clients, 5)
    stopped = [reading.stopped_after_s("withdraw", VM) for reading in readings]
    went_on = [reading.went_on_after_s("announce", VM) for reading in readings]
    seconds = {
        "withdrawal_time": [value for value in stopped if value is not None],
        "announcement_time": [value for value in went_on if value is not None],
    }
    sla.check(convergence.outcome(bgp_path.live, traffic, readings, seconds))


def test_flap_storm(bgp_path: LiveBgpPath, convergence: Convergence, sla: SlaCheck) -> None:
    """A network that comes and goes ten times a second.

    Steps: 100 kpps both ways; BIRD withdraws and announces the clients' network in turn, every 100 ms; wait.
    Verify: the session never flaps; afterwards the route is a flow and a trial loses nothing that the SLA forbids.
    """
    bird, clients, traffic = bgp_path.path.bird, [bgp_path.plan.clients], bgp_path.traffic(64)
    events = [
        Event(f"{number}", 0.3 + number * STORM_PERIOD_S, lambda act=act: act(clients))  # type: ignore[misc]
        for number, act in enumerate([bird.withdraw, bird.announce] * 7)
    ]
    storm = convergence.read(bgp_path.live, traffic, events, 2.0)
    bgp_path.path.agent.await_installed(bgp_path.plan.clients, 5)
    state = bgp_path.path.session()
    assert state.established, f"the session did not survive the storm: {state}"
    assert state.flaps == 0, f"the session flapped: {state}"
    after = convergence.read(bgp_path.live, traffic, (), 0.5)
    assert after.trial.result.lost == 0, f"{after.trial.result.lost} frames lost after the storm: {after.trial.id}"
    seconds = {"outage_time": [storm.outage_s(VM)]}
    sla.check(convergence.outcome(bgp_path.live, traffic, [storm, after], seconds))
