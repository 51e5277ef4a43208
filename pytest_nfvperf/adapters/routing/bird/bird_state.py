"""What BIRD says of a session (``show protocols all NAME``), which is text for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from pytest_nfvperf.model.routing.bgp import BfdStatus, Neighbor, SessionState, SessionStatus

_STATES = {status.value.lower(): status for status in SessionStatus}
_ROUTES = re.compile(r"Routes:\s+(\d+) imported(?:, (\d+) filtered)?, (\d+) exported")
_SINCE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?")
_SERVER_TIME = "Current server time is"
_BFD = {"Up": BfdStatus.UP, "Down": BfdStatus.DOWN, "Init": BfdStatus.INIT, "AdminDown": BfdStatus.ADMIN_DOWN}


def bird_session_state(
    neighbor: Neighbor,
    lines: Sequence[str],
    *,
    ends: tuple[int | None, str],
    now: datetime | None,
    bfd: BfdStatus | None,
) -> SessionState:
    """The state of a session.

    Args:
        neighbor: who it is with.
        lines: BIRD's answer for its protocol.
        ends: how often it ended, None where nobody counts, and why it did last.
        now: by BIRD's own clock (``server_time``); None where it does not tell.
        bfd: of its BFD session.
    """
    fields = {key.strip(): value.strip() for line in lines for key, colon, value in [line.partition(":")] if colon}
    status = _STATES.get(fields.get("BGP state", "").lower(), SessionStatus.IDLE)  # "Down", "Passive": not speaking
    up = status is SessionStatus.ESTABLISHED
    routes = [match for line in lines if (match := _ROUTES.search(line))] if up else []
    return SessionState(
        neighbor=neighbor.address,
        asn=neighbor.asn,
        status=status,
        uptime_s=_uptime_s(lines, now) if up else None,
        flaps=ends[0],
        received=sum(int(match[1]) for match in routes) if routes else None,
        sent=sum(int(match[3]) for match in routes) if routes else None,
        last_error=fields.get("Last error") or ends[1],
        bfd=bfd,
    )


def server_time(status: Sequence[str]) -> datetime | None:
    """BIRD's own time, of ``show status``: its zone may be another than ours, and its clock goes by what it prints."""
    told = next((line for line in status if line.startswith(_SERVER_TIME)), "")
    found = _SINCE.search(told)
    return datetime.fromisoformat(found[0]) if found else None


def _uptime_s(lines: Sequence[str], now: datetime | None) -> float | None:
    for line in lines:
        since = _SINCE.search(line)
        if since and now is not None:
            return max(0.0, (now - datetime.fromisoformat(since[0])).total_seconds())
    return None


def bfd_status(neighbor: Neighbor, lines: Sequence[str]) -> BfdStatus | None:
    """Of ``show bfd sessions``; Down for a session that is not there yet, None where none is asked for."""
    if neighbor.bfd is None:
        return None
    for line in lines:
        words = line.split()
        if len(words) > 2 and words[0] == neighbor.address:
            return _BFD.get(words[2], BfdStatus.DOWN)
    return BfdStatus.DOWN
