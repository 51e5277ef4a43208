"""Tests that run inside the virtual lab while its kernel has the NICs; tests/kernel/test_pci_binding.py boots it."""

from __future__ import annotations

import dataclasses
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.host.nic_binding import PciBus, check_nics, give_back_driver, set_up_nics
from pytest_nfvperf.adapters.host.pci import read_device, why_not_for_dpdk
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.process.journal import Entry, Kind
from pytest_nfvperf.features.virtual_lab import ADDRESSES
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import NicSpec, Testbed
from tests.kernel.pci_scenarios import lab_testbed, live_on, rig_of, run_trial

NICS = tuple(NicSpec(address, bind="vfio-pci") for address in ADDRESSES)
CHILD = """
import time
from pytest_nfvperf.adapters.host.nic_binding import set_up_nics
from pytest_nfvperf.adapters.machine.reaper import open_journal
from tests.kernel.binding_scenarios import NICS
journal = open_journal()
print("begins", flush=True)
set_up_nics(NICS, journal)
print("bound", flush=True)
time.sleep(60)
"""
MEASURING = """
from tests.kernel.binding_scenarios import bound_testbed
from tests.kernel.pci_scenarios import live_on, rig_of, run_trial
with rig_of(bound_testbed()) as rig:
    live = live_on(rig)
    print("measuring", flush=True)
    run_trial(live, duration_s=60)
"""


def bound_testbed() -> Testbed:
    """Of four NICs that the kernel has: the run binds them."""
    return dataclasses.replace(lab_testbed(), nics=NICS)


def state() -> dict[str, Any]:
    """Driver, override and interfaces of each NIC."""
    found = {}
    for address in ADDRESSES:
        device = read_device(address)
        assert device is not None
        found[address] = (device.driver, device.driver_override, PciBus().read_interfaces(device))
    return found


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    """The first interface is up, with an MTU of its own; all are to be so again."""
    interface = state()[ADDRESSES[0]][2][0]
    first = interface["name"]
    with IPRoute() as links:
        (index,) = links.link_lookup(ifname=first)
        links.link("set", index=index, mtu=3000, state="up")
    found = state()
    assert found[ADDRESSES[0]] == ("vmxnet3", None, [interface | {"mtu": 3000, "up": True}])
    assert [driver for driver, *_ in found.values()] == ["vmxnet3", "vmxnet3", "virtio-pci", "virtio-pci"]
    return found


def killed(program: str, last_line: str, after_s: float) -> None:
    """Run a program, and SIGKILL it so long after this line."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while (line := child.stdout.readline().strip()) != last_line:
            assert child.poll() is None, line
        time.sleep(after_s)  # the moment of the kill is what is tried, not a readiness
        child.send_signal(signal.SIGKILL)


def test_doctors_commands_bind(before: dict[str, Any]) -> None:
    device = read_device(ADDRESSES[1])
    assert device is not None
    said = why_not_for_dpdk(device)
    assert said is not None
    assert f"write 'nics: {{\"{ADDRESSES[1]}\": {{bind: vfio-pci}}}}' in the testbed file" in said
    subprocess.run(["sh", "-c", said.partition("Or bind it yourself: ")[2]], check=True)
    bound = read_device(ADDRESSES[1])
    assert bound is not None
    assert bound.driver == "vfio-pci"
    assert why_not_for_dpdk(bound) is None
    driver, override, interfaces = before[ADDRESSES[1]]
    details = {"driver": driver, "override": override, "bound": "vfio-pci", "interfaces": interfaces}
    assert give_back_driver(Entry(1, Kind.PCI_DRIVER, ADDRESSES[1], details))
    assert state() == before


def test_a_nic_that_the_machine_needs_is_refused(before: dict[str, Any]) -> None:
    name = before[ADDRESSES[0]][2][0]["name"]
    with IPRoute() as links:
        (index,) = links.link_lookup(ifname=name)

        def address(verb: str) -> None:
            links.addr(verb, index=index, address="192.0.2.1", prefixlen=24)

        def vlan(verb: str) -> None:
            own = {"index": links.link_lookup(ifname="upper7")[0]} if verb == "del" else {}
            links.link(verb, ifname="upper7", kind="vlan", link=index, vlan_id=7, **own)

        for use in (address, vlan):
            use("add")
            with pytest.raises(ConfigError, match=r"is in use: .*; the run would cut it off"):
                check_nics(NICS)
            use("del")
    check_nics(NICS)
    assert state() == before


def test_a_trial_on_nics_that_the_run_binds(before: dict[str, Any]) -> None:
    with rig_of(bound_testbed()) as rig:
        result = run_trial(live_on(rig)).result
        assert [driver for driver, *_ in state().values()] == ["vfio-pci"] * len(ADDRESSES)
    assert [counts.received for counts in result.counts] == [counts.sent for counts in result.counts], result
    assert result.received > 0
    assert state() == before


@pytest.mark.parametrize("moment", range(5))
def test_killed_while_it_binds(before: dict[str, Any], moment: int) -> None:
    killed(CHILD, "begins", random.Random(moment).uniform(0, 0.8))
    assert reap().failed == ()
    assert state() == before


def test_killed_while_it_measures(before: dict[str, Any]) -> None:
    """Also the next run would do it; here it is the command for it."""
    killed(MEASURING, "measuring", 2)
    assert [driver for driver, *_ in state().values()] == ["vfio-pci"] * len(ADDRESSES)
    command = [sys.executable, "-m", "pytest_nfvperf.cli.main", "clean"]
    cleaned = subprocess.run(command, capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stdout
    assert [f"removed pci-driver {address}" in cleaned.stdout for address in ADDRESSES] == [True] * len(ADDRESSES)
    assert state() == before


def test_a_journal_that_is_closed_gives_back(before: dict[str, Any]) -> None:
    with closing(open_journal()) as journal:
        set_up_nics(NICS[:1], journal)
        assert Path("/sys/bus/pci/drivers/vfio-pci", ADDRESSES[0]).exists()
    assert state() == before
