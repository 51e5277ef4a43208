"""Routing daemons that run already: looked at, asked to announce, and left as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.bird import BirdControl, BirdSpeaker
from pytest_nfvperf.features.routing.daemons import is_stopped
from pytest_nfvperf.features.routing.frr import FrrSpeaker, Vty
from pytest_nfvperf.features.routing.lab_speakers import lab_speaker
from pytest_nfvperf.features.routing.model import BfdTimers
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from tests.functional.bgp_support import HERE, THERE, here, link, needs_daemons, there
from tests.functional.lab_frr_support import route_daemon, static_routes
from tests.functional.ovs_support import run_base

pytestmark = needs_daemons
OWN_NAMESPACE, THEIRS = "192.0.2.0/24", "203.0.113.0/24"
MORE_OF_BIRD = f"protocol static own_lab {{ disabled; ipv4; route {OWN_NAMESPACE} blackhole; }}\n"
"""Exported as all routes of BIRD's own here, by its name's beginning: see bird_config."""


@dataclass
class Lab:
    """Daemons that others started: the test's, here, by way of the project's own speakers."""

    frr: FrrSpeaker
    bird: BirdSpeaker
    frr_spec: LabSpeaker
    bird_spec: LabSpeaker

    def configurations(self) -> list[str]:
        """All that can be different afterwards."""
        texts = []
        for daemon in ("bgpd", route_daemon()):
            vty = Vty(Path(self.frr_spec.socket) / f"{daemon}.vty", daemon)
            texts.append(vty.run("show running-config"))
            vty.close()
        control = BirdControl(Path(self.bird_spec.socket))
        rows = [line.split() for line in control.run("show protocols")]
        texts.append("\n".join(f"{words[0]} {words[3]}" for words in rows if len(words) > 3))
        control.close()
        return texts


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    bfd = BfdTimers(interval_ms=100)
    with link() as joined:
        frr, bird = joined.frr(here(bfd=bfd)), joined.bird(there(bfd=bfd))
        frr.start()
        bird.start()
        directory = joined.journal.directory
        configured = (directory / "bird" / "bird.conf").read_text().replace('proto = "own_ipv4"', "source = RTS_STATIC")
        (directory / "bird" / "bird.conf").write_text(configured + MORE_OF_BIRD)
        control = BirdControl(directory / "bird" / "bird.ctl")
        control.run("configure soft")
        control.close()
        with static_routes(joined, directory / "frr", 64999, THEIRS):
            frr.await_session(THERE, lambda seen: seen.established, "Established", 5)
            yield Lab(
                frr,
                bird,
                LabSpeaker("dut", "frr", str(directory / "frr")),
                LabSpeaker("tester", "bird", str(directory / "bird" / "bird.ctl"), ((OWN_NAMESPACE, "own_lab"),)),
            )


@pytest.fixture
def journal() -> Iterator[Journal]:
    with run_base() as base:
        made = open_journal(base)
        yield made
        made.close()


def test_sessions_are_seen_as_the_daemons_tell_them(lab: Lab, journal: Journal) -> None:
    dut, tester = lab_speaker(journal, lab.frr_spec), lab_speaker(journal, lab.bird_spec)
    assert (dut.config.asn, dut.config.router_id, tester.config.asn) == (64999, HERE, 65000)
    assert [(one.address, one.asn) for one in dut.config.neighbors] == [(THERE, 65000)]
    assert [(one.address, one.asn) for one in tester.config.neighbors] == [(HERE, 64999)]
    seen = dut.await_session(THERE, lambda seen: seen.established and seen.bfd == "Up", "Established, BFD up", 5)
    assert seen.flaps == 0
    assert tester.session(HERE).established
    assert tester.session(HERE).flaps is None, "BIRD counts none"
    assert dut.pids()["bgpd"] == lab.frr.pids()["bgpd"]
    assert tester.pids() == lab.bird.pids()
    assert (dut.info().engine, tester.info().engine) == ("FRR", "BIRD")
    for speaker in (dut, tester):
        speaker.close()


def test_what_they_announce_for_us_is_taken_back(lab: Lab, journal: Journal) -> None:
    before = lab.configurations()
    dut, tester = lab_speaker(journal, lab.frr_spec), lab_speaker(journal, lab.bird_spec)
    dut.announce([OWN_NAMESPACE])
    dut.announce([OWN_NAMESPACE])
    lab.bird.await_session(HERE, lambda seen: seen.received == 2, "theirs and ours", 5)
    dut.withdraw([OWN_NAMESPACE, THEIRS])
    lab.bird.await_session(HERE, lambda seen: seen.received == 1, "theirs alone", 5)
    assert lab.configurations() == before
    tester.announce([OWN_NAMESPACE])
    dut.await_session(THERE, lambda seen: seen.received == 1, "what BIRD was asked for", 5)
    tester.close()
    tester.close()
    dut.await_session(THERE, lambda seen: seen.received == 0, "nothing of BIRD's", 5)
    dut.close()
    assert lab.configurations() == before
    lab.frr.check()
    lab.bird.check()


def test_what_is_theirs_is_refused(lab: Lab, journal: Journal) -> None:
    dut, tester = lab_speaker(journal, lab.frr_spec), lab_speaker(journal, lab.bird_spec)
    with pytest.raises(ConfigError, match=r"speaker 'dut' has 'ip route 203\.0\.113\.0/24 blackhole' in its own"):
        dut.announce([THEIRS])
    with pytest.raises(ConfigError, match=r"'tester' cannot announce 203.*'announces: \{203\.0\.113\.0/24: PROTO"):
        tester.announce([THEIRS])
    for speaker, engine in ((dut, "FRR"), (tester, "BIRD")):
        with pytest.raises(
            TestbedError, match=rf"{engine} of speaker '\w+' belongs to somebody else: nfvperf does not restart it"
        ):
            speaker.restart()
        speaker.close()
    unknown = LabSpeaker("tester", "bird", lab.bird_spec.socket, ((OWN_NAMESPACE, "clients"),))
    with pytest.raises(ConfigError, match=r"'tester' has no static protocol 'clients' with 192.*; it has: own_ipv4"):
        lab_speaker(journal, unknown)


def test_nobody_there(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"no bgpd listens on .*/bgpd\.vty: No such file.*'dut' of the testbed file"):
        lab_speaker(journal, LabSpeaker("dut", "frr", str(tmp_path)))
    with pytest.raises(TestbedError, match=r"no bird listens on .*/b\.ctl: No such file.*'tester' of the testbed file"):
        lab_speaker(journal, LabSpeaker("tester", "bird", str(tmp_path / "b.ctl")))


KILLED = """
import sys, time
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.features.routing.lab_speakers import lab_speaker
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
base, frr, bird, prefix = sys.argv[1:]
journal = open_journal(Path(base))
for speaker in (lab_speaker(journal, LabSpeaker("dut", "frr", frr)),
                lab_speaker(journal, LabSpeaker("tester", "bird", bird, ((prefix, "own_lab"),)))):
    speaker.announce([prefix])
print("announced", flush=True)
time.sleep(60)
"""


def test_kill_minus_9_leaves_them_as_they_were(lab: Lab) -> None:
    before = lab.configurations()
    with run_base() as base:
        arguments = [str(base), lab.frr_spec.socket, lab.bird_spec.socket, OWN_NAMESPACE]
        run = subprocess.Popen(
            [sys.executable, "-c", KILLED, *arguments], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert run.stdout is not None
        assert run.stdout.readline() == "announced\n"
        assert lab.configurations() != before
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
        reaped = reap(base)
        assert not reaped.failed
        assert f"removed announced {OWN_NAMESPACE}" in str(reaped)
    assert lab.configurations() == before


def test_a_daemon_that_is_stopped_or_dies(lab: Lab, journal: Journal) -> None:
    """Last: the module's daemons are not put back."""
    tester = lab_speaker(journal, lab.bird_spec)
    tester.announce([OWN_NAMESPACE])
    pid = tester.pids()["bird"]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), "the daemon to be stopped", 2)
    with pytest.raises(TestbedError, match=rf"bird \(pid {pid}\), which is not ours, is stopped"):
        tester.check()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TestbedError, match=r"which is not ours, has ended \(.*\): start it again"):
        tester.await_session(HERE, lambda seen: not seen.established, "the end", 5)
    assert tester.pids() == {}
    tester.close()
