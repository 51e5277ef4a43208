"""Interfaces that a program of ours changes where they are: put back at the end, and by the reaper after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import note_settings, restore_settings
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.journal import Kind, read_entries
from tests.functional.lab_support import veth_cables
from tests.functional.ovs_support import clean_run, needs_root, netns_path, run_base
from tests.functional.trex_support import far_end_in, flags_of

pytestmark = needs_root

PROMISCUOUS = 0x100

CHILD = """
import sys, time
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.borrowed_interfaces import note_settings
from tests.functional.test_kept_settings import change
journal = open_journal(Path(sys.argv[1]))
note_settings(journal, [sys.argv[3]], Path(sys.argv[2]))
change(Path(sys.argv[2]), sys.argv[3])
print("changed", flush=True)
time.sleep(60)
"""


def change(namespace: Path, interface: str) -> None:
    """As TRex's driver does, and more."""
    inside(namespace, partial(_change, interface))


def _change(interface: str) -> None:
    with IPRoute() as links:
        index = links.link_lookup(ifname=interface)[0]
        links.link("set", index=index, flags=PROMISCUOUS | 0x200, change=PROMISCUOUS | 0x200, mtu=4000)


@pytest.fixture(params=["own namespace", "ours"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A namespace that is not the run's own, with an interface in it; or the one that tests run in."""
    with veth_cables(1) as ((_, far),):
        if request.param == "ours":
            yield OWN_NAMESPACE, far
            return
        with far_end_in(far) as name:
            yield netns_path(name), far


def test_what_was_changed_is_put_back(place: tuple[Path, str]) -> None:
    namespace, name = place
    with clean_run() as journal:
        before = flags_of(namespace, name)
        (entry,) = note_settings(journal, [name], namespace)
        change(namespace, name)
        assert flags_of(namespace, name) != before
        assert restore_settings(entry)
        assert flags_of(namespace, name) == before
        assert not restore_settings(entry)  # nothing is left to do
        journal.forget(entry)


def test_the_journals_end_puts_it_back(place: tuple[Path, str]) -> None:
    namespace, name = place
    before = flags_of(namespace, name)
    with run_base() as base:
        journal = open_journal(base)
        note_settings(journal, [name], namespace)
        change(namespace, name)
        journal.close()
    assert flags_of(namespace, name) == before


def test_after_kill_9_the_next_run_puts_it_back(place: tuple[Path, str]) -> None:
    namespace, name = place
    before = flags_of(namespace, name)
    with run_base() as base:
        command = [sys.executable, "-c", CHILD, str(base), str(namespace), name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "changed\n"
            child.send_signal(signal.SIGKILL)
        assert flags_of(namespace, name) != before
        (directory,) = (path for path in base.iterdir() if path.is_dir())
        assert [entry.kind for entry in read_entries(directory)] == [Kind.SETTINGS]
        assert reap(base).failed == ()
    assert flags_of(namespace, name) == before


def test_one_that_is_gone_is_no_failure() -> None:
    with clean_run() as journal:
        with veth_cables(1) as ((near, _),):
            (entry,) = note_settings(journal, [near])
        assert not restore_settings(entry)
        journal.forget(entry)


def test_one_that_is_not_there_is_an_error() -> None:
    with clean_run() as journal, pytest.raises(OSError, match="no interface with this name"):
        note_settings(journal, ["nonesuch"])
