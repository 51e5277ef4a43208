"""A neighbour that dies or hangs, and one that restarts gracefully."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_nfvperf import VM, BgpPathDeployer, BgpPathPlan, Convergence, Event, LiveBgpPath, SlaCheck, sweep
from pytest_nfvperf.extend import BgpSpeaker, SessionState
from pytest_nfvperf.results import ConvergenceReading, Outcome

RECOVERED_WITHIN_S = 10.0


def _signal(speaker: BgpSpeaker, number: signal.Signals) -> None:
    for pid in speaker.pids().values():
        os.kill(pid, number)


@dataclass(frozen=True)
class Failure:
    """One reading of a failure. ``ends``: how often the session ended. ``seen``: that as an outcome's fields."""

    reading: ConvergenceReading
    state: SessionState
    ends: int
    seen: Mapping[str, Any]


def _break_and_mend(
    bgp_path: LiveBgpPath, convergence: Convergence, events: Sequence[Event], duration_s: float
) -> Outcome:
    """100 kpps both ways, while the first of two events ends the session and the other one lets it come back.

    A failure that ended the session more than once is caused twice more, and the middle one of the three is judged:
    the daemons share a CPU with the generator, and their timers run while another one's wait.
    """
    failures, notes = [_failure(bgp_path, convergence, events, duration_s)], []
    if failures[0].ends > 1:
        bgp_path.keep_logs("the session ended more than once")
        for _ in range(2):
            bgp_path.await_ready()
            failures.append(_failure(bgp_path, convergence, events, duration_s))
        ends = ", ".join(str(each.ends) for each in failures)
        notes = [f"three failures ended the session {ends} times; the middle one is judged"]
    judged = sorted(failures, key=lambda each: each.ends)[len(failures) // 2]
    seconds = _seconds(judged.reading, *(event.name for event in events))
    notes.append(str(judged.state))
    traffic, readings = bgp_path.traffic(64), [judged.reading]
    return convergence.outcome(bgp_path.live, traffic, readings, seconds, notes=tuple(notes), **judged.seen)


def _failure(bgp_path: LiveBgpPath, convergence: Convergence, events: Sequence[Event], duration_s: float) -> Failure:
    before = bgp_path.path.session()

    def again() -> None:
        nonlocal before
        bgp_path.await_ready()
        before = bgp_path.path.session()

    reading = convergence.read(bgp_path.live, bgp_path.traffic(64), events, duration_s, ready=again)
    state = bgp_path.await_established(RECOVERED_WITHIN_S)
    bgp_path.await_installed(bgp_path.plan.clients, RECOVERED_WITHIN_S)
    seen = bgp_path.session_drops_since(before, reading.trial.id)
    return Failure(reading, state, seen["sessions"].flaps if "sessions" in seen else 0, seen)


def _seconds(reading: ConvergenceReading, fail: str, mend: str) -> dict[str, list[float]]:
    times = {
        "withdrawal_time": reading.stopped_after_s(fail, VM),
        "outage_time": reading.outage_s(VM),
        "recovery_time": reading.resumed_after_s(mend, VM),
    }
    return {metric: [value] for metric, value in times.items() if value is not None}


@sweep("failure", ["killed", "hung"], quick={"killed"})
def test_neighbour_fails(failure: str, bgp_path: LiveBgpPath, convergence: Convergence, sla: SlaCheck) -> None:
    """The neighbour's daemon is killed, or stopped for 2 s, and comes back.

    Steps: 100 kpps both ways; SIGKILL or SIGSTOP to BIRD; start it again, or SIGCONT; until traffic flows again.
    Verify: the SLA on the outage and on flaps: one failure ends the session once, and it comes back by itself.
    """
    bird = bgp_path.path.bird
    fail, heal = signal.SIGKILL, bird.restart
    if failure == "hung":
        fail, heal = signal.SIGSTOP, lambda: _signal(bird, signal.SIGCONT)
    events = [Event("fail", 0.4, lambda: _signal(bird, fail)), Event("heal", 2.4, heal)]
    sla.check(_break_and_mend(bgp_path, convergence, events, 6.0))


@sweep("link", ["neighbour", "dut"], quick={"neighbour"})
def test_link_fails(link: str, bgp_path: LiveBgpPath, convergence: Convergence, sla: SlaCheck) -> None:
    """The link of a speaker is cut and mended: the neighbour's, of which only BFD tells, or the DUT's, which FRR sees.

    Steps: 100 kpps both ways; set BIRD's interface down, or FRR's VLAN port; up again 1.3 s later; until traffic
    flows again.
    Verify: the SLA on how soon traffic that has no route stops and goes on again, and on flaps: the one cut is one.
    """
    cable = bgp_path.path.bird_link if link == "neighbour" else bgp_path.path.frr_link
    events = [Event("cut", 0.3, cable.down), Event("mend", 1.6, cable.up)]
    sla.check(_break_and_mend(bgp_path, convergence, events, 4.5))


@pytest.mark.nfv(graceful="yes")
def test_graceful_restart(bgp: BgpPathDeployer, convergence: Convergence, sla: SlaCheck) -> None:
    """The neighbour restarts, and forwarding goes on (RFC 4724).

    Steps: S1 with graceful restart and without BFD; 100 kpps both ways; SIGKILL to BIRD; start it 0.5 s later.
    Verify: the SLA on the outage: the routes were kept; the session is Established again.
    """
    path = bgp(BgpPathPlan(graceful_restart=True, bfd=None))
    path.await_ready()
    bird, traffic = path.path.bird, path.traffic(64)
    events = [Event("kill", 0.4, lambda: _signal(bird, signal.SIGKILL)), Event("restart", 0.9, bird.restart)]
    reading = convergence.read(path.live, traffic, events, 4.0, ready=path.await_ready)
    path.await_established(RECOVERED_WITHIN_S)
    sla.check(convergence.outcome(path.live, traffic, [reading], {"outage_time": [reading.outage_s(VM)]}))
