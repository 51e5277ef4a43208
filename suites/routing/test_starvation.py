"""More data than the datapath forwards, on the port that BGP and BFD share with it."""

from __future__ import annotations

from contextlib import suppress

from pytest_nfvperf import Convergence, DeadlineError, Event, LiveBgpPath, Profile, SlaCheck, UnavailableError, sweep
from pytest_nfvperf.results import format_fps

FLOOD_FPS = 14_000_000
"""Per direction: more than a PMD forwards between two ports and routes, 64 B (7.0 Mpps were not, on a fast machine)."""

FLOODED_S = 0.4
OVERLOAD_S = {"quick": 3.0, "gate": 60.0, "full": 300.0}
RECOVERED_WITHIN_S = 10.0
CLEARLY_MORE = 1.05


def _forwarded_fps(bgp_path: LiveBgpPath, convergence: Convergence) -> float:
    """What the path forwards of a flood, frames/s per direction."""
    flood = convergence.read(bgp_path.live, bgp_path.traffic(64), (), FLOODED_S, FLOOD_FPS, saturating=True)
    result = flood.trial.result
    rate = result.received_fps or 0.0
    if rate * CLEARLY_MORE > (result.offered_fps or 0.0):
        offered = format_fps(result.offered_fps or 0.0)
        raise UnavailableError(f"this testbed cannot overload the path: of {offered} per direction all is forwarded")
    return rate


def _await_loss(bgp_path: LiveBgpPath, duration_s: float) -> float | None:
    """When the session was lost, on the clock of ``now_s``; None when it survived so long."""
    with suppress(DeadlineError):
        neighbor, what = bgp_path.plan.bird_address, "the session to be lost"
        bgp_path.path.frr.await_session(neighbor, lambda seen: not seen.established, what, duration_s)
        return bgp_path.now_s()
    return None


def _let_bfd_settle(bgp_path: LiveBgpPath) -> None:
    """Wait until BFD packets that an earlier overload lost can no longer end the session in the next one."""
    if bgp_path.plan.bfd is not None:
        _await_loss(bgp_path, bgp_path.plan.bfd.detection_s)
    bgp_path.await_ready()


@sweep("overload", [1.25, 1.5], quick={1.25})
def test_session_at_overload(
    overload: float, bgp_path: LiveBgpPath, convergence: Convergence, profile: Profile, sla: SlaCheck
) -> None:
    """How long BGP and BFD outlive more data than the datapath forwards: their frames find the same full queue.

    Steps: find what the path forwards of a flood; offer so many times as much; look at the session all the time; stop.
    Verify: the SLA on how long the session survived, and on how soon after the overload it was back.
    """
    traffic, duration_s = bgp_path.traffic(64), OVERLOAD_S.get(profile.name, 3.0)
    load_fps = round(overload * _forwarded_fps(bgp_path, convergence))
    _let_bfd_settle(bgp_path)
    lost_at: list[float | None] = []
    watch = Event("watch", 0.0, lambda: lost_at.append(_await_loss(bgp_path, duration_s)))
    reading = convergence.read(
        bgp_path.live, traffic, [watch], duration_s, load_fps, saturating=True, ready=lambda: _let_bfd_settle(bgp_path)
    )
    state = bgp_path.await_established(RECOVERED_WITHIN_S)
    result = reading.trial.result
    began_s, lost_s = (result.started_ns or 0) / 1e9, lost_at[-1] if lost_at else None
    seconds = {"survival_time": [duration_s], "recovery_time": [0.0]}
    if lost_s is not None:
        seconds = {"survival_time": [lost_s - began_s], "recovery_time": [bgp_path.now_s() - began_s - duration_s]}
    said = "survived" if lost_s is None else "was lost"
    offered = format_fps(result.offered_fps or 0.0)
    note = f"the session {said} at {offered} per direction, {100 * (result.loss_ratio or 0.0):.4g} % lost"
    at_least = {"survival_time": "it was up until the overload ended"} if lost_s is None else {}
    notes = (note, str(state))
    sla.check(convergence.outcome(bgp_path.live, traffic, [reading], seconds, at_least=at_least, notes=notes))
