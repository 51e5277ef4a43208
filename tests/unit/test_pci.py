"""PCI devices, on a double of sysfs: their facts, and why DPDK cannot take one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.pci import (
    PciDevice,
    check_device,
    group_holders,
    read_device,
    remaps_interrupts,
    why_not_for_dpdk,
)
from pytest_nfvperf.model.errors import ConfigError, TestbedError

NIC, SECOND, BRIDGE = "0000:05:00.0", "0000:05:00.1", "0000:04:00.0"
REMAPPED = "  24:  1  0  IR-IO-APIC   5-edge  ACPI:Ged\n"


class Machine:
    """A double of /sys and /proc."""

    def __init__(self, root: Path) -> None:
        self.sysfs, self.proc = root / "sys", root / "proc"
        self.write(self.proc / "interrupts", REMAPPED)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, link: Path, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def add(self, address: str, driver: str | None = None, group: int | None = None) -> Path:
        device = self.sysfs / "devices/pci0000:00" / address
        self.link(self.sysfs / "bus/pci/devices" / address, device)
        for name, text in {"vendor": "0x8086\n", "device": "0x10c9\n", "numa_node": "-1\n"}.items():
            self.write(device / name, text)
        self.write(device / "driver_override", "(null)\n")
        if driver is not None:
            self.link(device / "driver", self.sysfs / "bus/pci/drivers" / driver)
        if group is not None:
            path = self.sysfs / f"kernel/iommu_groups/{group}"
            self.link(device / "iommu_group", path)
            self.link(path / "devices" / address, device)
        return device

    def why_not(self, address: str, uses: tuple[str, ...] = ()) -> str | None:
        device = read_device(address, self.sysfs)
        assert device is not None
        return why_not_for_dpdk(device, sysfs=self.sysfs, proc=self.proc, uses=lambda _: uses)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_facts_of_a_physical_function(machine: Machine) -> None:
    device = machine.add(NIC, "igb", group=7)
    machine.add("0000:05:10.0", "vfio-pci", group=8)
    machine.link(device / "virtfn0", machine.sysfs / "devices/pci0000:00/0000:05:10.0")
    machine.link(machine.sysfs / "devices/pci0000:00/0000:05:10.0/physfn", device)
    machine.link(device / "net/ens1", device / "net.d")
    machine.write(device / "numa_node", "1\n")
    machine.write(device / "sriov_totalvfs", "7\n")
    machine.write(device / "sriov_numvfs", "1\n")
    assert read_device(NIC.upper(), machine.sysfs) == PciDevice(
        address=NIC,
        driver="igb",
        driver_override=None,
        iommu_group=7,
        group_members=(NIC,),
        interfaces=("ens1",),
        numa_node=1,
        physfn=None,
        virtfns=("0000:05:10.0",),
        sriov_totalvfs=7,
        sriov_numvfs=1,
    )
    virtual = read_device("0000:05:10.0", machine.sysfs)
    assert virtual == PciDevice("0000:05:10.0", "vfio-pci", None, 8, ("0000:05:10.0",), physfn=NIC)


def test_a_virtio_nic_has_its_interface_below_the_virtio_device(machine: Machine) -> None:
    device = machine.add(NIC, "virtio-pci")
    machine.link(device / "virtio3/net/eth0", device / "net.d")
    machine.write(device / "driver_override", "vfio-pci\n")
    found = read_device(NIC, machine.sysfs)
    assert found is not None
    assert (found.interfaces, found.driver_override, found.sriov_totalvfs) == (("eth0",), "vfio-pci", None)


def test_no_device(machine: Machine) -> None:
    assert read_device(NIC, machine.sysfs) is None
    with pytest.raises(TestbedError) as error:
        check_device(NIC, "port 'dpdk0'", "dut.ports[0].pci", machine.sysfs, machine.proc)
    absent = f"port 'dpdk0': this machine has no PCI device {NIC}: see lspci -D"
    assert error.value.message == f"dut.ports[0].pci: {absent}"


@pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci", "uio_pci_generic", "mlx5_core"])
def test_dpdk_can_take_it(machine: Machine, driver: str) -> None:
    machine.add(BRIDGE, "pcieport", group=3)
    machine.add(SECOND, None, group=3)
    machine.add(NIC, driver, group=3)
    assert machine.why_not(NIC) is None


@pytest.mark.parametrize(
    ("driver", "expected"), [("igb", "the kernel's driver 'igb' has it; "), (None, "no driver has it; ")]
)
def test_it_is_not_bound(machine: Machine, driver: str | None, expected: str) -> None:
    machine.add(NIC, driver, group=3)
    folder = f"{machine.sysfs}/bus/pci/devices/{NIC}"
    unbind = f"echo {NIC} > {folder}/driver/unbind; " if driver else ""
    assert machine.why_not(NIC) == (
        f"{expected}let the run bind it, and give it back: write 'nics: {{\"{NIC}\": {{bind: vfio-pci}}}}' in the "
        f"testbed file. Or bind it yourself: modprobe vfio-pci; echo vfio-pci > {folder}/driver_override; {unbind}"
        f"echo {NIC} > {machine.sysfs}/bus/pci/drivers_probe"
    )
    with pytest.raises(ConfigError) as error:
        check_device(NIC, "port 'dpdk0'", "dut.ports[0].pci", machine.sysfs, machine.proc)
    assert error.value.message.startswith(
        f"port 'dpdk0': DPDK cannot take PCI device {NIC}: {expected}let the run bind"
    )


def test_vfio_without_an_iommu(machine: Machine) -> None:
    machine.add(NIC, "vfio-pci")
    told = machine.why_not(NIC)
    assert told is not None
    assert told.startswith("vfio-pci has it, but it is in no IOMMU group: switch the IOMMU on")
    machine.write(machine.sysfs / "module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n")
    assert machine.why_not(NIC) is None


def test_another_device_in_the_group(machine: Machine) -> None:
    machine.add(NIC, "vfio-pci", group=3)
    machine.add(SECOND, "e1000e", group=3)
    assert machine.why_not(NIC) == (
        f"IOMMU group 3 has other devices in it that the kernel's drivers hold: {SECOND} (e1000e). Bind them to "
        "vfio-pci, too ('nics' in the testbed file), unbind them, or take a slot with a group of its own"
    )


def test_interrupts_are_not_remapped(machine: Machine) -> None:
    machine.add(NIC, "vfio-pci", group=3)
    machine.write(machine.proc / "interrupts", REMAPPED.replace("IR-", ""))
    told = machine.why_not(NIC)
    assert told is not None
    assert told.startswith("vfio-pci has it, but this machine does not remap interrupts, so vfio refuses")
    machine.write(machine.sysfs / "module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", "Y\n")
    assert machine.why_not(NIC) is None


def test_whether_a_machine_without_an_apic_remaps_is_unknown(machine: Machine) -> None:
    machine.write(machine.proc / "interrupts", " 11:  1  GICv3  27 Level  arch_timer\n")
    assert remaps_interrupts(machine.proc) is None


@pytest.mark.parametrize("driver", ["mlx5_core", "igb", "virtio-pci"])
def test_a_nic_that_the_machine_needs_is_refused(machine: Machine, driver: str) -> None:
    machine.add(NIC, driver, group=3)
    use = "its interface 'ens1' is in use: it has the address 192.0.2.1"
    assert machine.why_not(NIC, (use,)) == (
        f"{use}; a measurement would cut it off. Name another NIC, or free this one first"
    )


def test_who_holds_a_group(machine: Machine) -> None:
    for pid, name, opened in (
        (12, "ovs-vswitchd", "/dev/vfio/3"),
        (9, "bash", "/dev/null"),
        (7, "old", "/dev/vfio/33"),
    ):
        machine.write(machine.proc / f"{pid}/comm", f"{name}\n")
        (machine.proc / f"{pid}/fd").mkdir()
        (machine.proc / f"{pid}/fd/4").symlink_to(opened)
    assert group_holders(3, machine.proc) == [(12, "ovs-vswitchd")]
