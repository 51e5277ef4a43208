"""What goes wrong between two speakers, and what a person reads then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.ovs.openflow import NextHop
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, wait_until
from pytest_nfvperf.features.routing import bird as bird_speaker
from pytest_nfvperf.features.routing import frr as frr_speaker
from pytest_nfvperf.features.routing.daemons import is_stopped
from pytest_nfvperf.features.routing.model import BgpTimers, Neighbor, SpeakerConfig
from pytest_nfvperf.features.routing.route_agent import Fib, KnownHops, RouteAgent, RouteChange
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from tests.functional.bgp_support import HERE, HERE6, THERE, THERE6, Link, here, link, needs_daemons, there

pytestmark = needs_daemons


@pytest.fixture
def joined() -> Iterator[Link]:
    with link() as made:
        yield made


def never_established(joined: Link, mine: SpeakerConfig, theirs: SpeakerConfig, deadline_s: float = 4) -> str:
    """What FRR says when the session does not come up."""
    dut, neighbour = joined.frr(mine), joined.bird(theirs)
    dut.start()
    neighbour.start()
    with pytest.raises(DeadlineError) as failure:
        dut.await_session(mine.neighbors[0].address, lambda seen: seen.established, "Established", deadline_s)
    return str(failure.value)


def test_wrong_as_number(joined: Link) -> None:
    said = never_established(joined, here(asn=65001), there())
    assert "waited 4 s for FRR of AS 64999: Established; last seen: 12.12.12.2 (AS 65001)" in said
    assert "OPEN Message Error/Bad Peer AS" in said


@pytest.mark.thorough("waits for a session that does not come up")
def test_wrong_password(joined: Link) -> None:
    said = never_established(joined, here(password="one"), there(password="other"), 2.5)
    assert "last seen: 12.12.12.2 (AS 65000)" in said
    assert "Established, for" not in said
    assert "bgpd.log" in said


@pytest.mark.thorough("waits for a session that does not come up")
def test_the_same_password(joined: Link) -> None:
    dut, neighbour = joined.frr(here(password="s3cret")), joined.bird(there(password="s3cret"))
    neighbour.start()
    dut.start()
    dut.await_session(THERE, lambda seen: seen.established, "Established", 5)


@pytest.mark.thorough("waits for a session that does not come up")
def test_an_address_that_is_not_on_the_link(joined: Link) -> None:
    mine = SpeakerConfig(64999, HERE, (Neighbor("192.0.2.9", 65000),))
    assert "last seen: 192.0.2.9 (AS 65000) " in never_established(joined, mine, there(), 2)


@pytest.mark.parametrize(
    ("module", "program", "package"), [(frr_speaker, "zebra", "frr"), (bird_speaker, "bird", "bird2")]
)
def test_a_daemon_that_is_not_installed(
    module: object, program: str, package: str, joined: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DIRECTORIES", ("/nowhere",))
    with pytest.raises(
        TestbedError, match=rf"{program} is not installed \(looked in /nowhere\): apt-get install {package}"
    ):
        joined.frr(here()) if module is frr_speaker else joined.bird(there())


def test_a_configuration_that_is_refused_shows_the_daemons_words(joined: Link) -> None:
    with pytest.raises(ConfigError, match=r"bgpd refuses .*No such command on config line .*password two words"):
        joined.frr(here(password="two words")).start()
    with pytest.raises(
        ConfigError, match=r"bird refuses the configuration made for it: .*bird\.conf:\d+:\d+ syntax error"
    ):
        joined.bird(there(password='a"b')).start()


@pytest.mark.thorough("waits for a session that does not come up")
def test_a_daemon_that_hangs(joined: Link) -> None:
    dut, neighbour = joined.frr(here()), joined.bird(there())
    dut.start()
    neighbour.start()
    dut.await_session(THERE, lambda seen: seen.established, "Established", 5)
    pid = neighbour.pids()["bird"]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), "the daemon to be stopped", 2)
    with pytest.raises(TestbedError, match=r"bird \(pid \d+\) is stopped \(SIGSTOP\): it neither speaks nor answers"):
        neighbour.check()
    down = dut.await_session(THERE, lambda seen: not seen.established, "the end of the session", 5)
    assert "Hold Timer Expired" in down.last_error
    neighbour.close()
    dut.check()


def test_a_killed_daemon_is_named(joined: Link) -> None:
    dut = joined.frr(here())
    dut.start()
    os.kill(dut.pids()["zebra"], signal.SIGKILL)
    with pytest.raises(TestbedError, match=r"zebra \(pid \d+\) was killed by SIGKILL"):
        dut.await_session(THERE, lambda seen: seen.established, "Established", 3)


def test_sessions_within_one_as_and_over_ipv6(joined: Link) -> None:
    mine = SpeakerConfig(65000, HERE, (Neighbor(THERE6, 65000),), ("2001:db8:101::/48",))
    theirs = SpeakerConfig(65000, THERE, (Neighbor(HERE6, 65000),), ("2001:db8:18::/48", "2001:db8:19::/48"))
    dut, neighbour = joined.frr(mine), joined.bird(theirs)
    dut.start()
    neighbour.start()
    dut.await_session(THERE6, lambda seen: seen.received == 2, "2 IPv6 prefixes", 5)
    neighbour.await_session(HERE6, lambda seen: seen.received == 1, "1 IPv6 prefix", 5)


@pytest.mark.thorough("waits for a session that does not come up")
def test_the_kernels_table_tells_what_the_daemon_put_there(joined: Link) -> None:
    dut, neighbour = joined.frr(here()), joined.bird(there())
    fib = Fib(NETNS_DIRECTORY / joined.here)
    joined.stack.callback(fib.close)
    dut.start()
    neighbour.start()
    dut.announce(["172.16.101.0/24"])
    neighbour.announce(["198.18.0.0/15"])
    dut.await_session(THERE, lambda seen: seen.received == 1, "1 prefix", 5)
    seen = {change for _ in range(20) for change in fib.read(0.1) if not change.gone}
    assert {RouteChange("172.16.101.0/24", None), RouteChange("198.18.0.0/15", THERE)} <= seen
    neighbour.withdraw(["198.18.0.0/15"])
    gone = {change.prefix for _ in range(20) for change in fib.read(0.1) if change.gone}
    assert gone == {"198.18.0.0/15"}


def test_an_agent_that_cannot_reach_its_bridge_says_so(joined: Link) -> None:
    dut, hops = (
        joined.frr(here()),
        KnownHops({}, {"172.16.101.0/24": NextHop(1, "02:00:00:00:00:01", "02:00:00:00:00:02")}),
    )
    nobody = joined.journal.directory / "nobody.mgmt"
    agent = RouteAgent(joined.journal, NETNS_DIRECTORY / joined.here, "br-ex", nobody, hops)
    joined.stack.callback(agent.close)
    dut.start()
    dut.announce(["172.16.101.0/24"])
    with pytest.raises(TestbedError, match=r"route agent of bridge br-ex ended: no answers .* from .*nobody\.mgmt"):
        agent.await_installed("172.16.101.0/24", 10)


def test_a_route_that_leads_nowhere_has_no_hop() -> None:
    hop = NextHop(1, "02:00:00:00:00:01", "02:00:00:00:00:02")
    hops = KnownHops({THERE: hop}, {"172.16.101.0/24": hop})
    assert hops.hop_of(RouteChange("198.18.0.0/15", THERE)) == hop
    assert hops.hop_of(RouteChange("172.16.101.7/32", None)) == hop
    assert hops.hop_of(RouteChange("198.18.0.0/15", "192.0.2.1")) is None
    assert hops.hop_of(RouteChange("172.16.102.0/24", None)) is None
    assert hops.hop_of(RouteChange("2001:db8::/32", None)) is None


def test_timers_that_no_session_can_have() -> None:
    with pytest.raises(ValueError, match="hold_s is 2: write a whole number from 3"):
        BgpTimers(hold_s=2)
