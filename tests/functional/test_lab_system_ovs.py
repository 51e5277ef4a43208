"""The system's OVS, which another private one replaces here: used, and left exactly as it was."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed
from tests.functional.lab_support import contents, system_ovs, vsctl
from tests.functional.ovs_support import (
    MACS,
    clean_run,
    far_ends,
    frame,
    frames_on,
    leftovers,
    needs_root,
    phy2phy,
    run_base,
)

pytestmark = needs_root

CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from tests.functional.ovs_support import phy2phy
from tests.functional.test_lab_system_ovs import started_on
journal = open_journal(Path(sys.argv[1]))
ovs = started_on(Path(sys.argv[2]), journal, (("max-idle", "777"), ("max-revalidator", "901")))
ovs.build(phy2phy(name="nfv-br"))
print(journal.tag, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", params=["a namespace of its own", "the host's namespace"])
def system(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The run directory of an OVS that is not ours."""
    with clean_run() as host, system_ovs(host, own_namespace="own" in request.param) as directory:
        yield directory


def system_testbed(directory: Path, **ovs: object) -> Testbed:
    found = discover_testbed()
    spec = {"instance": "system", "run_dir": str(directory), "datapath": "netdev", "other_config": (), **ovs}
    return dataclasses.replace(found, ovs=dataclasses.replace(found.ovs, **spec), discovered=False)


def started_on(directory: Path, journal: Journal, other_config: tuple[tuple[str, str], ...] = ()) -> OvsDatapath:
    return OvsDatapath.start(system_testbed(directory, other_config=other_config), journal)


def test_frames_pass_and_nothing_is_left(system: Path) -> None:
    before = contents(system)
    with clean_run() as journal:
        ovs = started_on(system, journal, (("max-idle", "777"), ("max-revalidator", "901")))
        try:
            assert "the system's OVS" in ovs.info().detail
            built = ovs.build(phy2phy(name="nfv-br"))
            built.wait_ready(5)
            left, right = far_ends(built)
            with frames_on(left) as sender, frames_on(right) as receiver:
                sender.send(frame(MACS[1], MACS[0], b"through the system's OVS"))
                assert b"through the system's OVS" in receiver.recv(2000)
            during = contents(system)
            assert set(during["bridges"].split()) == {"br-ex", "nfv-br"}
            assert 'max-idle="777"' in during["other_config"]
            assert journal.tag in vsctl(system, "get", "Bridge", "nfv-br", "external_ids")
            counters = dict(ovs.collector.snapshot().counters)
            assert counters["p0.rx_packets"] == 1
            ovs.check_alive()
        finally:
            ovs.close()
    assert contents(system) == before


def test_a_bridge_of_somebody_else_is_refused_and_stays(system: Path) -> None:
    before = contents(system)
    with clean_run() as journal:
        ovs = started_on(system, journal)
        try:
            with pytest.raises(
                TestbedError, match="br-ex is in use by somebody else, or by another run of ours, on this"
            ):
                ovs.build(phy2phy(name="br-ex"))
        finally:
            ovs.close()
    assert contents(system) == before


@pytest.mark.parametrize("key", ["dpdk-init", "hw-offload", "userspace-tso-enable"])
def test_keys_that_only_a_start_reads_are_refused(system: Path, key: str) -> None:
    before = contents(system)
    with clean_run() as journal, pytest.raises(ConfigError) as caught:
        started_on(system, journal, (("max-idle", "777"), (key, "true")))
    assert f"{key}=true cannot be set on a running OVS, which has {key}=(unset)" in str(caught.value)
    assert f"ovs-vsctl set Open_vSwitch . other_config:{key}=true, and restart it" in str(caught.value)
    assert contents(system) == before


def test_what_a_killed_run_left_is_reaped(system: Path) -> None:
    before = contents(system)
    with run_base() as base:
        command = [sys.executable, "-c", CHILD, str(base), str(system)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            tag = child.stdout.readline().strip()
            assert contents(system) != before
            # what somebody else changes meanwhile is theirs
            vsctl(system, "set", "Open_vSwitch", ".", "other_config:max-revalidator=555")
            child.kill()
        reaped = reap(base)
        assert reaped.failed == ()
        assert {"ovs-bridge nfv-br", "ovs-setting max-idle"} <= set(reaped.removed)
        assert leftovers(tag) == []
    assert vsctl(system, "get", "Open_vSwitch", ".", "other_config:max-revalidator") == '"555"'
    vsctl(system, "remove", "Open_vSwitch", ".", "other_config", "max-revalidator")
    assert contents(system) == before


def test_one_that_ends_under_the_test() -> None:
    with clean_run() as host, system_ovs(host) as directory, clean_run() as journal:
        ovs = started_on(directory, journal)
        os.kill(ovs.instance.pid, signal.SIGKILL)
        wait_until(lambda: not ovs.instance.running(), "its end", 5)  # the database's own wait would notice it, too
        with pytest.raises(TestbedError, match=r"the system's ovs-vswitchd \(pid \d+\) has ended or was restarted"):
            ovs.check_alive()
        ovs.close()


def test_none_there(tmp_path: Path) -> None:
    with clean_run() as journal, pytest.raises(TestbedError) as caught:
        started_on(tmp_path, journal)
    assert f"no Open vSwitch runs in {tmp_path}" in str(caught.value)
    assert "systemctl start openvswitch-switch" in str(caught.value)


def test_one_without_dpdk_where_dpdk_is_asked_for(system: Path) -> None:
    with clean_run() as journal, pytest.raises(TestbedError, match="has not started DPDK: ovs-vsctl set Open_vSwitch"):
        OvsDatapath.start(system_testbed(system, datapath="dpdk"), journal)
