"""What every BgpSpeaker keeps to: FRR, BIRD, and the fake."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.model import BfdStatus, BfdTimers, SessionStatus, SpeakerConfig
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.features.routing.simulated import FakeSpeaker
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from tests.functional.bgp_support import HERE, THERE, here, link, needs_daemons, there


@dataclass(frozen=True)
class Pair:
    """The speaker that is tried, and who it speaks with."""

    speaker: BgpSpeaker
    other: BgpSpeaker
    address: str
    other_address: str
    kill: Callable[[BgpSpeaker], None]


def _kill_processes(speaker: BgpSpeaker) -> None:
    for pid in speaker.pids().values():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not speaker.pids(), "the killed processes to end", 5)


@pytest.fixture(params=["fake", pytest.param("frr", marks=needs_daemons), pytest.param("bird", marks=needs_daemons)])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    bfd = BfdTimers(interval_ms=100)
    mine, theirs = here(bfd=bfd), there(bfd=bfd)
    with ExitStack() as stack:
        if request.param == "fake":
            wire: dict[str, FakeSpeaker] = {}
            speaker, other = FakeSpeaker(wire, HERE, mine), FakeSpeaker(wire, THERE, theirs)
            yield Pair(speaker, other, HERE, THERE, lambda one: one.kill())  # type: ignore[attr-defined]
            return
        joined = stack.enter_context(link())
        frr, bird = joined.frr(mine), joined.bird(theirs)
        if request.param == "frr":
            yield Pair(frr, bird, HERE, THERE, _kill_processes)
        else:
            yield Pair(bird, frr, THERE, HERE, _kill_processes)


def established(pair: Pair) -> None:
    pair.other.start()
    pair.speaker.start()
    pair.speaker.await_session(pair.other_address, lambda seen: seen.established, "Established", 5)


def test_is_established_within_five_seconds_and_says_what_it_is(pair: Pair) -> None:
    began = time.monotonic()
    established(pair)
    assert time.monotonic() - began < 5
    state = pair.speaker.await_session(pair.other_address, lambda seen: seen.bfd is BfdStatus.UP, "BFD Up", 5)
    assert (state.neighbor, state.asn) == (pair.other_address, pair.other.config.asn)
    assert state.status is SessionStatus.ESTABLISHED
    assert state.uptime_s is not None
    assert 0 <= state.uptime_s < 10
    assert state.flaps == 0
    info = pair.speaker.info()
    assert info.engine
    assert info.version[0].isdigit()


def test_prefixes_are_counted_both_ways(pair: Pair) -> None:
    established(pair)
    pair.speaker.announce(["172.16.101.0/24"])
    pair.other.announce(["198.18.0.0/15", "198.51.100.0/24"])
    state = pair.speaker.await_session(
        pair.other_address, lambda seen: seen.received == 2 and bool(seen.sent), "2 prefixes received and some sent", 5
    )
    pair.other.await_session(pair.address, lambda seen: seen.received == 1, "1 prefix", 5)
    pair.other.withdraw(["198.51.100.0/24", "203.0.113.0/24"])
    state = pair.speaker.await_session(pair.other_address, lambda seen: seen.received == 1, "1 prefix", 5)
    assert state.flaps == 0
    assert pair.other.config.announced == ("198.18.0.0/15",)


def test_a_flap_is_counted_and_its_reason_told(pair: Pair) -> None:
    established(pair)
    pair.kill(pair.other)
    down = pair.speaker.await_session(pair.other_address, lambda seen: not seen.established, "the end", 5)
    assert down.uptime_s is None
    assert (down.received, down.sent) == (None, None)
    pair.other.restart()
    up = pair.speaker.await_session(pair.other_address, lambda seen: seen.established, "Established again", 8)
    assert up.flaps in {1, 2}  # BFD of a busy machine may miss its time once more
    assert up.last_error


def test_a_dead_speaker_says_so(pair: Pair) -> None:
    established(pair)
    pair.kill(pair.speaker)
    with pytest.raises(TestbedError, match="was killed by SIGKILL"):
        pair.speaker.await_session(pair.other_address, lambda seen: not seen.established, "the end", 2)
    pair.speaker.close()
    pair.speaker.close()


def test_what_never_comes_says_what_was_seen_instead(pair: Pair) -> None:
    pair.speaker.start()
    with pytest.raises(
        DeadlineError, match=rf"waited 0.3 s for \w+ of AS .*: Established; last seen: {pair.other_address}"
    ):
        pair.speaker.await_session(pair.other_address, lambda seen: seen.established, "Established", 0.3)


def test_an_unknown_neighbour_is_an_error(pair: Pair) -> None:
    pair.speaker.start()
    with pytest.raises(KeyError, match=r"no neighbour 192\.0\.2\.1; there are: 12\.12\.12"):
        pair.speaker.session("192.0.2.1")


def test_configurations_that_no_daemon_takes() -> None:
    with pytest.raises(ValueError, match="RFC 6793"):
        SpeakerConfig(0, "1.1.1.1", ())
