"""Facts of a PCI device from sysfs, and whether DPDK can take it as it is.

Sources: Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups, and Documentation/driver-api/vfio.rst of
the Linux kernel; DPDK's guide "Linux Drivers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pytest_nfvperf.adapters.host.nic import pci_address, read_fact
from pytest_nfvperf.adapters.net.borrowed_interfaces import read_interface_use
from pytest_nfvperf.adapters.net.ends import interface_exists
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.fields import vf_of

SYSFS, PROC = Path("/sys"), Path("/proc")

BIFURCATED = frozenset({"mlx4_core", "mlx5_core", "mana"})
"""DPDK uses these NICs while the kernel's driver keeps them: a kernel interface with an address goes on working."""

VFIO = "vfio-pci"
UIO = frozenset({"igb_uio", "uio_pci_generic"})
"""Drivers that need no IOMMU, and protect the machine's memory from nothing."""

_SHARES_A_GROUP = frozenset({"pcieport", "pci-stub"})
"""Drivers beside vfio's own that a group may have when a program takes it (vfio.rst: they do no DMA for users)."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device.

    Attributes:
        address: with domain, in lower case: "0000:3b:00.0".
        driver: of the kernel, such as "igb" or "vfio-pci"; None while no driver has it.
        driver_override: the only driver that may take it; None where any may.
        iommu_group: its number; None without an IOMMU, or if the IOMMU does not serve the device.
        group_members: addresses of all devices of that group, itself included.
        interfaces: kernel interfaces of this network namespace.
        numa_node: None on a machine of one node.
        physfn: of a VF, the address of its PF.
        virtfns: of a PF, the addresses of its VFs by their number.
        sriov_totalvfs: how many VFs it can have; None if it cannot have any.
        sriov_numvfs: how many it has.
        vfio_noiommu: vfio offers devices without an IOMMU (enable_unsafe_noiommu_mode of the module vfio).
    """

    address: str
    driver: str | None = None
    driver_override: str | None = None
    iommu_group: int | None = None
    group_members: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    numa_node: int | None = None
    physfn: str | None = None
    virtfns: tuple[str, ...] = ()
    sriov_totalvfs: int | None = None
    sriov_numvfs: int | None = None
    vfio_noiommu: bool = False


def read_device(address: str, sysfs: Path = SYSFS) -> PciDevice | None:
    """The device at an address, or a PF's VF ("0000:3b:00.0 vf 0"), as the kernel has it now; None if there is none."""
    try:
        address = pci_address(address.lower(), sysfs)
    except TestbedError:
        return None
    device = sysfs / "bus/pci/devices" / address
    if not device.exists():
        return None
    group = _target(device / "iommu_group")
    override, node = read_fact(device / "driver_override"), _number(device / "numa_node")
    members = sorted(path.name for path in (device / "iommu_group/devices").glob("*"))
    # A virtio NIC has its interface below the virtio device.
    interfaces = {path.name for pattern in ("net/*", "virtio*/net/*") for path in device.glob(pattern)}
    virtfns = sorted(device.glob("virtfn*"), key=lambda path: int(path.name.removeprefix("virtfn")))
    return PciDevice(
        address,
        driver=_target(device / "driver"),
        driver_override=None if override in {None, "", "(null)"} else override,
        iommu_group=int(group) if group is not None else None,
        group_members=tuple(members),
        interfaces=tuple(sorted(interfaces)),
        numa_node=node if node is not None and node >= 0 else None,
        physfn=_target(device / "physfn"),
        virtfns=tuple(path.resolve().name for path in virtfns),
        sriov_totalvfs=_number(device / "sriov_totalvfs"),
        sriov_numvfs=_number(device / "sriov_numvfs"),
        vfio_noiommu=_switched_on(sysfs / "module/vfio/parameters/enable_unsafe_noiommu_mode"),
    )


def _target(link: Path) -> str | None:
    return link.resolve().name if link.exists() else None


def _number(path: Path) -> int | None:
    text = read_fact(path)
    return int(text) if text else None


def _switched_on(parameter: Path) -> bool:
    return read_fact(parameter) in {"Y", "1"}


def group_holders(group: int, proc: Path = PROC) -> list[tuple[int, str]]:
    """Process id and name of each process that has a vfio group open. Those of other users are seen by root only."""
    holders = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            opened = {str(link.readlink()) for link in (process / "fd").iterdir()}
        except OSError:
            continue  # ended meanwhile, or somebody else's
        if opened & {f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"}:
            holders.append((int(process.name), read_fact(process / "comm") or "?"))
    return holders


def remaps_interrupts(proc: Path = PROC) -> bool | None:
    """Whether the IOMMU checks devices' interrupts; None where the kernel does not say (other machines than x86).

    The kernel calls its controllers "IR-IO-APIC" and "IR-PCI-MSI" while they are remapped.
    """
    listed = read_fact(proc / "interrupts") or ""
    return "IR-" in listed if re.search(r"IO-APIC|PCI-MSI", listed) else None


def uses_of(device: PciDevice) -> list[str]:
    """Why the machine needs a device's kernel interfaces: "interface 'ens1' has the address 192.0.2.1"."""
    return [
        f"its interface {name!r} is in use: {use}"
        for name in device.interfaces
        if interface_exists(name)
        for use in read_interface_use(name).users
    ]


def why_not_for_dpdk(
    device: PciDevice,
    *,
    sysfs: Path = SYSFS,
    proc: Path = PROC,
    uses: Callable[[PciDevice], Sequence[str]] = uses_of,
    planned: Mapping[str, str] = MappingProxyType({}),
) -> str | None:
    """Why DPDK cannot take this device, and what to do; None if it can.

    Nothing is opened or changed. ``uses``: who needs its kernel interfaces. ``planned``: drivers that the run binds
    devices to before, by address.
    """
    users = uses(device)
    if users:
        return f"{', '.join(users)}; a measurement would cut it off. Name another NIC, or free this one first"
    driver = planned.get(device.address, device.driver)
    if driver in BIFURCATED or driver in UIO:
        return None
    if not _is_vfio(driver):
        holder = f"the kernel's driver {driver!r} has it" if driver else "no driver has it"
        section = f"{{{device.address!r}: {{bind: vfio-pci}}}}".replace("'", '"')
        return (
            f"{holder}; let the run bind it, and give it back: write 'nics: {section}' in the testbed file. Or bind it "
            f"yourself: {bind_commands(device, sysfs)}"
        )
    return None if device.vfio_noiommu else _lacks_for_vfio(device, planned, sysfs, proc)


def bind_commands(device: PciDevice, sysfs: Path = SYSFS) -> str:
    """The shell's commands that bind a device to vfio-pci, until the next boot."""
    folder, loaded = sysfs / "bus/pci/devices" / device.address, sysfs / "bus/pci/drivers" / VFIO
    commands = [] if loaded.exists() else [f"modprobe {VFIO}"]
    commands += [f"echo {VFIO} > {folder}/driver_override"]
    commands += [f"echo {device.address} > {folder}/driver/unbind"] if device.driver else []
    return "; ".join([*commands, f"echo {device.address} > {sysfs}/bus/pci/drivers_probe"])


def _lacks_for_vfio(device: PciDevice, planned: Mapping[str, str], sysfs: Path, proc: Path) -> str | None:
    """Why a program cannot open a device that vfio-pci has."""
    if device.iommu_group is None:
        return (
            "vfio-pci has it, but it is in no IOMMU group: switch the IOMMU on (in the firmware, and intel_iommu=on or "
            "amd_iommu=on on the kernel's command line), or bind it to uio_pci_generic, which protects no memory"
        )
    others = _others_of_group(device, planned, sysfs)
    if others:
        return (
            f"IOMMU group {device.iommu_group} has other devices in it that the kernel's drivers hold: "
            f"{', '.join(others)}. Bind them to vfio-pci, too ('nics' in the testbed file), unbind them, or take a "
            "slot with a group of its own"
        )
    unsafe = _switched_on(sysfs / "module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
    if remaps_interrupts(proc) is False and not unsafe:
        return (
            "vfio-pci has it, but this machine does not remap interrupts, so vfio refuses: switch interrupt remapping "
            "on (in the firmware, without intremap=off), or trust the device: modprobe vfio_iommu_type1 "
            "allow_unsafe_interrupts=1"
        )
    return None


def check_device(
    address: str,
    who: str,
    key: str,
    sysfs: Path = SYSFS,
    proc: Path = PROC,
    planned: Mapping[str, str] = MappingProxyType({}),
) -> PciDevice:
    """The device of a testbed's port, before a run takes it.

    ``who``: for messages: "port 'dpdk0'". ``key``: of the testbed file: "dut.ports[0].pci". ``planned``: drivers that
    the run binds devices to before, by what the testbed file calls them.

    Raises:
        ConfigError: the machine needs it, or DPDK cannot take it as it is; a VF that nobody made.
        TestbedError: the machine has none.
    """
    device = read_device(address, sysfs)
    if device is None:
        absent = f"{who}: this machine has no PCI device {address}"
        if vf_of(address) is not None:
            raise ConfigError(f"{absent}: write 'vfs: N' at its PF in 'nics', or make it first", key=key)
        raise TestbedError(f"{key and f'{key}: '}{absent}: see lspci -D")
    found = {name: read_device(name, sysfs) for name in planned}
    drivers = {there.address: planned[name] for name, there in found.items() if there is not None}
    problem = why_not_for_dpdk(device, sysfs=sysfs, proc=proc, planned=drivers)
    if problem is not None:
        raise ConfigError(f"{who}: DPDK cannot take PCI device {address}: {problem}", key=key)
    return device


def _is_vfio(driver: str | None) -> bool:
    """vfio-pci, or one of its variants for a vendor's devices, such as mlx5_vfio_pci."""
    return driver is not None and driver.replace("_", "-").endswith(VFIO)


def _others_of_group(device: PciDevice, planned: Mapping[str, str], sysfs: Path) -> list[str]:
    """The group's other devices that keep vfio from it, with their drivers: "0000:00:03.1 (e1000e)"."""
    others = [read_device(member, sysfs) for member in device.group_members if member != device.address]
    drivers = {other.address: planned.get(other.address, other.driver) for other in others if other is not None}
    return [
        f"{address} ({driver})"
        for address, driver in drivers.items()
        if driver and driver not in _SHARES_A_GROUP and not _is_vfio(driver)
    ]
