"""Tests that run inside the virtual lab while its kernel has igb NICs; tests/kernel/test_pci_sriov.py boots it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.host.nic_binding import PciBus, check_nics, set_up_nics
from pytest_nfvperf.adapters.host.pci import PciDevice, read_device
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.features.virtual_lab.lab import ADDRESSES
from pytest_nfvperf.model.testbed.testbed import NicSpec
from tests.kernel.binding_scenarios import CHILD, killed

PF = ADDRESSES[0]
VF0, VF1 = f"{PF} vf 0", f"{PF} vf 1"
MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:07"
NICS = (
    NicSpec(PF, vfs=3),
    NicSpec(VF0, bind="vfio-pci", mac=MAC, trust=True, spoofchk=False),
    NicSpec(VF1, bind="vfio-pci", vlan=100),
)


def device(address: str) -> PciDevice:
    found = read_device(address)
    assert found is not None
    return found


def state() -> list[Any]:
    """All of the PF that a run could have changed, and its VFs."""
    pf = device(PF)
    vfs = [(device(vf).driver, PciBus().read_vf(pf, number)) for number, vf in enumerate(pf.virtfns)]
    autoprobe = Path("/sys/bus/pci/devices", PF, "sriov_drivers_autoprobe").read_text()
    return [pf.driver, pf.driver_override, pf.sriov_numvfs, autoprobe, PciBus().read_interfaces(pf), vfs]


@pytest.fixture
def existing_vfs() -> Iterator[None]:
    """Two VFs that somebody else made, with a MAC address and a VLAN on one."""
    number = Path("/sys/bus/pci/devices", PF, "sriov_numvfs")
    number.write_text("2")
    for at in range(2):  # without an address of its own igbvf chooses another one each time
        PciBus().set_vf(device(PF), at, mac=f"{OTHER_MAC[:-1]}{7 + at}")
    PciBus().set_vf(device(PF), 0, vlan=9, qos=3)
    yield
    number.write_text("0")


def test_vfs_are_made_set_up_and_removed() -> None:
    before = state()
    check_nics(NICS)
    with closing(open_journal()) as journal:
        set_up_nics(NICS, journal)
        *_, (interface,), vfs = state()
        assert interface["up"]
        assert [driver for driver, _ in vfs] == ["vfio-pci", "vfio-pci", "igbvf"]
        assert vfs[0][1] == {"mac": MAC, "vlan": 0, "qos": 0, "trust": True, "spoofchk": False}
        assert vfs[1][1]["vlan"] == 100
    assert state() == before


@pytest.mark.usefixtures("existing_vfs")
def test_vfs_of_somebody_else_are_restored() -> None:
    before = state()
    nics = (NicSpec(VF0, bind="vfio-pci", mac=MAC, vlan=8, spoofchk=False), NicSpec(VF1, bind="vfio-pci", trust=True))
    with closing(open_journal()) as journal:
        set_up_nics(nics, journal)
        assert [vf for _, vf in state()[-1]] == [
            {"mac": MAC, "vlan": 8, "qos": 0, "trust": False, "spoofchk": False},
            {"mac": f"{OTHER_MAC[:-1]}8", "vlan": 0, "qos": 0, "trust": True, "spoofchk": True},
        ]
    assert state() == before


@pytest.mark.parametrize("after_s", [0.2, 0.8, 1.6, 3.0])
def test_killed_while_it_makes_vfs(after_s: float) -> None:
    before = state()
    killed(CHILD.replace("binding_scenarios", "sriov_scenarios"), "begins", after_s)
    assert reap().failed == ()
    assert state() == before
