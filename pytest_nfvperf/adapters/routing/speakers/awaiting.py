"""Waiting for a session, alike for every speaker."""

from __future__ import annotations

from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.routing.bgp import SessionCondition, SessionState
from pytest_nfvperf.ports.routing import BgpSpeaker

_INTERVAL_S = 0.02


def await_session(
    speaker: BgpSpeaker, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
) -> SessionState:
    """Look until the session is as wanted; a daemon that died or was stopped ends the wait, one that is busy does not.

    Raises:
        DeadlineError: what was awaited, the session as it was last seen, and the ends of the logs.
        TestbedError: a daemon is gone or hangs.
    """
    seen: SessionState | str = "nothing yet"

    def look() -> SessionState | None:
        nonlocal seen
        speaker.check()
        try:
            state = speaker.session(neighbor)
        except TestbedError as error:
            seen = error.message
            return None
        seen = state
        return state if condition(state) else None

    try:
        return wait_until(
            look,
            f"{speaker.info().engine} of AS {speaker.config.asn}: {awaited}",
            deadline_s,
            interval_s=_INTERVAL_S,
            last_seen=lambda: str(seen),
        )
    except DeadlineError as error:
        error.evidence.update(speaker.logs())
        raise
