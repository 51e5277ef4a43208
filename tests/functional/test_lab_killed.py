"""Interfaces that a killed run had borrowed: the next run puts them back before their namespace goes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import InterfaceUse, read_interface_use, remove_link
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.functional.lab_support import lab_testbed, veth_cables
from tests.functional.ovs_support import clean_run, leftovers, needs_root, run_base

pytestmark = needs_root
MORE = pytest.mark.thorough("another moment")

CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.functional.lab_support import lab_testbed
journal = open_journal(Path(sys.argv[1]))
print(journal.tag, flush=True)
names = sys.argv[2:]
ovs = OvsDatapath.start(lab_testbed(names[:2], names[2:]), journal)
for round in range(100):
    print("borrowing", flush=True)
    built = ovs.build(phy2phy())
    print("borrowed", flush=True)
    built.close()
"""


def usages(names: list[str]) -> dict[str, InterfaceUse]:
    return {name: read_interface_use(name) for name in names}


def killed(base: Path, names: list[str], number: signal.Signals, moment: str, after_s: float) -> str:
    """Start a run, signal it at a moment, and return its tag."""
    command = [sys.executable, "-c", CHILD, str(base), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        tag = child.stdout.readline().strip()
        while child.stdout.readline().strip() != moment:
            assert child.poll() is None
        time.sleep(after_s)  # the moment of the signal is what is tried, not a readiness
        child.send_signal(number)
    return tag


@pytest.mark.parametrize(
    ("number", "moment", "after_s"),
    [
        (signal.SIGKILL, "borrowed", 0.0),
        (signal.SIGTERM, "borrowing", 0.02),
        pytest.param(signal.SIGTERM, "borrowed", 0.0, marks=MORE),
        pytest.param(signal.SIGKILL, "borrowing", 0.02, marks=MORE),
        pytest.param(signal.SIGKILL, "borrowing", 0.0, marks=MORE),
        pytest.param(signal.SIGTERM, "borrowing", 0.0, marks=MORE),
    ],
)
def test_borrowed_interfaces_come_back(number: signal.Signals, moment: str, after_s: float) -> None:
    with veth_cables(2) as cables, run_base() as base:
        names = [local for local, _ in cables] + [peer for _, peer in cables]
        before = usages(names)
        tag = killed(base, names, number, moment, after_s)
        reaped = reap(base)
        assert reaped.failed == ()
        assert usages(names) == before
        assert leftovers(tag) == []


def test_one_whose_name_was_taken_meanwhile_is_not_lost_with_its_namespace() -> None:
    """A lab's script that makes its cables anew, since they are gone, must not cost the old ones."""
    with veth_cables(2) as cables, run_base() as base, IPRoute() as host:
        names = [local for local, _ in cables] + [peer for _, peer in cables]
        before = usages(names)
        tag = killed(base, names, signal.SIGTERM, "borrowed", 0.0)
        host.link("add", ifname=names[0], kind="veth", peer="nfvtest-new")
        reaped = reap(base)
        told = dict(reaped.failed)
        assert list(told) == [f"borrowed {names[0]}", f"netns nfv-{tag}-ovs"]
        assert "there is another interface of this name by now; the borrowed one is in" in told[f"borrowed {names[0]}"]
        assert f"interface {names[0]!r} of the host is still in it" in told[f"netns nfv-{tag}-ovs"]
        remove_link("nfvtest-new")
        assert reap(base).failed == ()
        assert usages(names) == before
        assert leftovers(tag) == []


def test_nor_at_the_end_of_a_run_that_goes_on() -> None:
    with veth_cables(2) as cables, clean_run() as journal, IPRoute() as host:
        local, peer = zip(*cables, strict=True)
        before = usages([*local, *peer])
        ovs = OvsDatapath.start(lab_testbed(local, peer), journal)
        try:
            ovs.build(phy2phy())
        finally:
            host.link("add", ifname=local[1], kind="veth", peer="nfvtest-new")
            with pytest.raises(TestbedError, match=f"interface '{local[1]}' could not be restored: there is an"):
                ovs.close()
            remove_link("nfvtest-new")
        journal.close()
        assert usages([*local, *peer]) == before
