"""Tests that run inside the virtual lab while its kernel has igb NICs; tests/kernel/test_pci_sriov.py boots it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.host.nic_binding import PciBus, check_nics, set_up_nics
from pytest_nfvperf.adapters.host.pci import PciDevice, read_device
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.features.virtual_lab import ADDRESSES
from pytest_nfvperf.model.testbed.testbed import NicSpec, Testbed
from pytest_nfvperf.model.topology.compose import generator_mac
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.kernel.binding_scenarios import CHILD, killed
from tests.kernel.pci_scenarios import lab_testbed, live_on, rig_of, run_trial

MEASURING = """
from tests.kernel.pci_scenarios import live_on, rig_of, run_trial
from tests.kernel.sriov_scenarios import vf_testbed
with rig_of(vf_testbed("generator", made=True)) as rig:
    live = live_on(rig, mtu=1500)
    print("measuring", flush=True)
    run_trial(live, duration_s=60)
"""
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


def state(address: str = PF) -> list[Any]:
    """All of a PF that a run could have changed, and its VFs."""
    pf = device(address)
    vfs = [(device(vf).driver, PciBus().read_vf(pf, number)) for number, vf in enumerate(pf.virtfns)]
    autoprobe = Path("/sys/bus/pci/devices", address, "sriov_drivers_autoprobe").read_text()
    return [pf.driver, pf.driver_override, pf.sriov_numvfs, autoprobe, PciBus().read_interfaces(pf), vfs]


def vf_testbed(side: str, *, made: bool = False) -> Testbed:
    """Two queues on each port of the DUT. ``side``: whose ports are VFs, "dut" or "generator"; "" for no one's.

    ``made``: the generator's VFs are there already.

    A VF lets in frames to its own address only, so each of the DUT's has that of the generator's port at the far end.
    """
    testbed = lab_testbed()
    ports = [dataclasses.replace(port, rxq=2, mtu=None) for port in testbed.ports]
    generator, nics = testbed.generator, [NicSpec(address, bind="vfio-pci") for address in ADDRESSES]
    vfs = [f"{address} vf 0" for address in {"dut": ADDRESSES[:2], "generator": ADDRESSES[2:]}.get(side, ())]
    if side == "dut":
        ports = [dataclasses.replace(port, pci=vf) for port, vf in zip(ports, vfs, strict=True)]
        nics[:2] = [NicSpec(address, vfs=1) for address in ADDRESSES[:2]]
        macs = map(generator_mac, (1, 0))
        nics += [NicSpec(vf, bind="vfio-pci", mac=mac, trust=True) for vf, mac in zip(vfs, macs, strict=True)]
    if side == "generator":
        generator = dataclasses.replace(generator, devices=tuple(vfs))
        nics[2:] = [] if made else [NicSpec(address, vfs=1) for address in ADDRESSES[2:]]
        nics += [NicSpec(vf, bind="vfio-pci") for vf in vfs]
    return dataclasses.replace(testbed, ports=tuple(ports), generator=generator, nics=tuple(nics))


@pytest.mark.parametrize("side", ["", "generator", "dut"], ids=["two queues", "VFs of the generator", "VFs of the DUT"])
def test_every_frame_comes_through(side: str) -> None:
    before = [state(address) for address in ADDRESSES]
    with rig_of(vf_testbed(side)) as rig:
        result = run_trial(live_on(rig, mtu=1500), traffic=Traffic(frame_size=128, flows=64)).result
    assert [counts.received for counts in result.counts] == [counts.sent for counts in result.counts], result
    assert result.received > 0
    assert all(counts.out_of_order == counts.foreign == counts.corrupted == 0 for counts in result.counts), result
    assert [state(address) for address in ADDRESSES] == before


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


@pytest.fixture
def vfs_of_the_generator() -> Iterator[tuple[str, ...]]:
    """One VF of each of the generator's NICs, which somebody else made, with the address that its driver chose."""
    numbers = [Path("/sys/bus/pci/devices", address, "sriov_numvfs") for address in ADDRESSES[2:]]
    for number in numbers:
        number.write_text("1")
    yield tuple(device(address).virtfns[0] for address in ADDRESSES[2:])
    for number in numbers:
        number.write_text("0")


def test_a_killed_generator_leaves_no_mac_at_a_vf(vfs_of_the_generator: tuple[str, ...]) -> None:
    """Its PF keeps the address that DPDK set, and tells it the kernel's driver."""
    before = [PciBus().read_interfaces(device(vf)) for vf in vfs_of_the_generator]
    killed(MEASURING, "measuring", 1)
    assert [device(vf).driver for vf in vfs_of_the_generator] == ["vfio-pci", "vfio-pci"]
    assert reap().failed == ()
    assert [device(vf).driver for vf in vfs_of_the_generator] == ["igbvf", "igbvf"]
    assert [PciBus().read_interfaces(device(vf)) for vf in vfs_of_the_generator] == before
