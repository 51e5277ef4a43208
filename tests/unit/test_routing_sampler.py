"""Routing sessions as samples of a soak."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_nfvperf.features.routing.daemons import SessionSampler
from pytest_nfvperf.features.routing.model import BfdStatus, SessionState, SessionStatus
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.ports.datapath import SamplerReading

ADDRESS = "12.12.12.2"


class Speaker:
    """Says what it is told to say."""

    config = SimpleNamespace(neighbors=(SimpleNamespace(address=ADDRESS),))

    def __init__(self, state: SessionState, *, dead: bool = False) -> None:
        self.state = state
        self.dead = dead

    def check(self) -> None:
        if self.dead:
            raise TestbedError("bgpd was killed by SIGKILL")

    def session(self, neighbor: str) -> SessionState:
        assert neighbor == ADDRESS
        return self.state


def read(speaker: Speaker) -> SamplerReading:
    return SessionSampler(lambda: speaker).read()  # type: ignore[arg-type, return-value]


def test_a_session_that_is_up() -> None:
    state = SessionState(ADDRESS, 64998, SessionStatus.ESTABLISHED, flaps=2, received=5, bfd=BfdStatus.UP)
    reading = read(Speaker(state))
    assert reading.counters == {f"bgp.{ADDRESS}.flaps": 2}
    assert reading.gauges == {f"bgp.{ADDRESS}.up": 1, f"bgp.{ADDRESS}.prefixes": 5, f"bfd.{ADDRESS}.up": 1}


def test_what_the_daemon_does_not_tell_is_absent() -> None:
    reading = read(Speaker(SessionState(ADDRESS, 64998, SessionStatus.IDLE)))
    assert (reading.counters, reading.gauges) == ({}, {f"bgp.{ADDRESS}.up": 0})


def test_a_daemon_that_died_has_no_session() -> None:
    state = SessionState(ADDRESS, 64998, SessionStatus.ESTABLISHED, flaps=2, received=5, bfd=BfdStatus.UP)
    reading = read(Speaker(state, dead=True))
    assert (reading.counters, reading.gauges) == ({}, {f"bgp.{ADDRESS}.up": 0})
