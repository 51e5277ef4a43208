"""How long the datapath takes to follow BGP, dated by the sequence numbers of frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from pytest_nfvperf import VM, BgpPathDeployer, Convergence, Event, LiveBgpPath, Profile, SlaCheck
from pytest_nfvperf.results import ConvergenceReading

REPEATS = {"smoke": 1, "quick": 3, "gate": 10, "full": 25}
STORM_PERIOD_S = 0.1


def test_establishment(bgp: BgpPathDeployer, convergence: Convergence, sla: SlaCheck) -> None:
    """Time from the start of both speakers to Established, with BFD up.

    Steps: start FRR, then BIRD, on the deployed bridge; wait for the session.
    Verify: the SLA on the time and on flaps; S1's session is up within 5 s with test timers.
    """
    path = bgp()
    began = path.started_s
    state = path.await_established()
    taken = path.now_s() - began
    path.await_ready()
    seen = path.session_drops_since(replace(state, flaps=0))  # a daemon that was just started counts from 0
    sla.check(convergence.outcome(path.live, path.traffic(64), (), {"establishment_time": [taken]}, **seen))


def _times(
    reading: ConvergenceReading, since: Callable[..., Mapping[str, float]], prefix: str
) -> Iterator[tuple[str, float]]:
    """Seconds by metric, of a reading with both events."""
    frames = {
        "withdrawal": reading.stopped_after_s("withdraw", VM),
        "announcement": reading.resumed_after_s("announce", VM),
    }
    for name, event in (("withdrawal", "withdraw"), ("announcement", "announce")):
        if event in reading.began_ns:
            times = since(reading.began_ns[event], prefix, gone=event == "withdraw")
            yield from ((f"{name}_{step}_time", value) for step, value in times.items())
        if (value := frames[name]) is not None:
            yield f"{name}_time", value


@pytest.mark.nfv_smoke
def test_withdraw_and_announce(
    bgp_path: LiveBgpPath, convergence: Convergence, profile: Profile, sla: SlaCheck
) -> None:
    """Time from the neighbour's withdrawal to the last frame, and from its announcement to the first.

    Steps: 100 kpps both ways; BIRD withdraws the clients' network, announces it 0.7 s later; repeat.
    Verify: the SLA; the times of all steps between are told: the UPDATE sent by BIRD, received by FRR, the kernel's
    table as the agent reads it, the flow.
    """
    traffic, bird = bgp_path.traffic(64), bgp_path.path.bird
    events = [
        Event("withdraw", 0.4, lambda: bird.withdraw([bgp_path.plan.clients])),
        Event("announce", 1.1, lambda: bird.announce([bgp_path.plan.clients])),
    ]
    readings = []
    seconds = defaultdict[str, list[float]](list)
    with bgp_path.path.steps() as steps:
        for _ in range(REPEATS.get(profile.name, 3)):
            reading = convergence.read(bgp_path.live, traffic, events, 1.8, ready=bgp_path.await_ready)
            bgp_path.await_installed(bgp_path.plan.clients, 5)
            for metric, value in _times(reading, steps.since, bgp_path.plan.clients):
                seconds[metric].append(value)
            readings.append(reading)
    sla.check(convergence.outcome(bgp_path.live, traffic, readings, seconds))


def test_flap_storm(bgp_path: LiveBgpPath, convergence: Convergence, sla: SlaCheck) -> None:
    """A network that comes and goes ten times a second.

    Steps: 100 kpps both ways; BIRD withdraws and announces the clients' network in turn, every 100 ms; wait.
    Verify: the SLA on how often the session went down, and on loss after the storm, when the route is a flow again.
    """
    bird, clients, traffic = bgp_path.path.bird, [bgp_path.plan.clients], bgp_path.traffic(64)
    before = bgp_path.path.session()
    events = [
        Event(f"{number}", 0.3 + number * STORM_PERIOD_S, lambda act=act: act(clients))  # type: ignore[misc]
        for number, act in enumerate([bird.withdraw, bird.announce] * 7)
    ]
    storm = convergence.read(bgp_path.live, traffic, events, 2.0, ready=bgp_path.await_ready)
    bgp_path.await_installed(bgp_path.plan.clients, 5)
    after = convergence.read(bgp_path.live, traffic, (), 0.5)
    seen = bgp_path.session_drops_since(before, storm.trial.id, after.trial.id)
    seconds = {"outage_time": [storm.outage_s(VM)]}
    sla.check(convergence.outcome(bgp_path.live, traffic, [storm, after], seconds, loss_of=[after], **seen))
