"""What bgpd says of a session, as JSON (``show bgp neighbors A json``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_nfvperf.model.routing.bgp import BfdStatus, Neighbor, SessionState, SessionStatus

_STATUS = {status.value: status for status in SessionStatus}
_BFD = {"Up": BfdStatus.UP, "Down": BfdStatus.DOWN, "Init": BfdStatus.INIT, "Admin Down": BfdStatus.ADMIN_DOWN}


def frr_session_state(neighbor: Neighbor, told: Mapping[str, Any], went_down: str) -> SessionState:
    """The state of a session; ``told``: bgpd's object for the neighbour; ``went_down``: its log's reason."""
    status = _STATUS.get(str(told.get("bgpState")), SessionStatus.IDLE)  # bgpd's own: Clearing, Deleted
    up = status is SessionStatus.ESTABLISHED
    families = told.get("addressFamilyInfo", {}).values() if up else ()
    return SessionState(
        neighbor=neighbor.address,
        asn=neighbor.asn,
        status=status,
        uptime_s=told["bgpTimerUpMsec"] / 1000 if up and "bgpTimerUpMsec" in told else None,
        flaps=told.get("connectionsDropped"),
        received=_total(families, "acceptedPrefixCounter"),
        sent=_total(families, "sentPrefixCounter"),
        last_error=_last_error(told) or went_down,
        bfd=_bfd(neighbor, told),
    )


def _total(families: Any, counter: str) -> int | None:
    counts = [family[counter] for family in families if counter in family]
    return sum(counts) if counts else None


def _last_error(told: Mapping[str, Any]) -> str:
    """The notification, and who sent it, before bgpd's own reason."""
    reset = str(told.get("lastResetDueTo", ""))
    notification = str(told.get("lastNotificationReason", ""))
    if notification and "otification" in reset:
        return f"{reset}: {notification}"
    # What bgpd says before anything has happened
    return "" if reset in {"Waiting for peer OPEN", "Waiting for NHT", "No AFI/SAFI activated for peer"} else reset


def _bfd(neighbor: Neighbor, told: Mapping[str, Any]) -> BfdStatus | None:
    if neighbor.bfd is None:
        return None
    return _BFD.get(str(told.get("peerBfdInfo", {}).get("status", "")), BfdStatus.DOWN)
