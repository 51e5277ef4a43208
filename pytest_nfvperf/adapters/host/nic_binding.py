"""NICs that a run sets up as the testbed file says, and gives back as they were: drivers, VFs, settings of VFs.

Each step is journaled before it is done, and undone from the journal alone, at the end of the run or after kill -9.
Undoing looks at what is there. It leaves out a step that was not done, or was undone already, and it leaves alone what
somebody else has changed meanwhile.

Sources: sysfs-bus-pci (Documentation/ABI/testing) and pci-iov-howto.rst of the Linux kernel; ip-link(8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.host.nic import pci_address, read_fact
from pytest_nfvperf.adapters.host.pci import (
    BIFURCATED,
    SYSFS,
    PciDevice,
    check_device,
    group_holders,
    read_device,
    uses_of,
)
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.fields import vf_of
from pytest_nfvperf.model.testbed.testbed import NicSpec

_RELEASE_DEADLINE_S = 10.0
"""The kernel closes a killed process's vfio files a moment after its end; unbinding before that would block."""
_INTERFACE_DEADLINE_S = 10.0
_MODPROBE_DEADLINE_S = 60.0
_UP = 0x1  # IFF_UP, linux/if.h
_VF_INFO = 1  # RTEXT_FILTER_VF, linux/rtnetlink.h
_NETWORK_CLASS = "0x02"  # linux/pci_ids.h


class PciBus:
    """The machine's PCI devices and their VFs. ``sysfs``: where it is mounted."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self.sysfs = sysfs
        self._drivers = sysfs / "bus/pci/drivers"

    def device(self, address: str) -> PciDevice | None:
        return read_device(address, self.sysfs)

    def uses(self, device: PciDevice) -> list[str]:
        """Why the machine needs its kernel interfaces; whatever lies on top of one would be gone with it."""
        uppers = [
            f"its interface {name!r} is in use: {upper.name.removeprefix('upper_')} lies on it"
            for name in device.interfaces
            for upper in sorted((self.sysfs / "class/net" / name).glob("upper_*"))
        ]
        return uses_of(device) or uppers

    def write(self, path: Path, text: str) -> None:
        """Write a file of sysfs; the kernel has done what it asks for when this returns. OSError names the file."""
        path.write_text(text, encoding="ascii")

    def holders(self, device: PciDevice) -> list[tuple[int, str]]:
        """Process id and name of who has the device open by vfio."""
        return [] if device.iommu_group is None else group_holders(device.iommu_group)

    def load(self, driver: str) -> None:
        """Load a driver's module, which stays loaded. TestbedError if there is none."""
        if not (self._drivers / driver).exists():
            run(["modprobe", driver], deadline_s=_MODPROBE_DEADLINE_S)

    def read_vf(self, pf: PciDevice, number: int) -> dict[str, Any]:
        """``mac``, ``vlan``, ``qos``, ``trust`` and ``spoofchk`` of a VF, those that the driver of its PF reports."""
        with IPRoute() as links:
            (link,) = links.link("get", index=_index(links, pf), ext_mask=_VF_INFO)
        listed = link.get_attr("IFLA_VFINFO_LIST")
        found: dict[str, Any] = {}
        for info in listed.get_attrs("IFLA_VF_INFO") if listed else ():
            mac, vlan = info.get_attr("IFLA_VF_MAC"), info.get_attr("IFLA_VF_VLAN")
            if mac["vf"] == number:
                found = {"mac": _mac_text(mac["mac"])}
                found |= {name: vlan[name] for name in ("vlan", "qos")} if vlan else {}
                for name in ("trust", "spoofchk"):
                    value = info.get_attr(f"IFLA_VF_{name.upper()}")
                    if value is not None and value[name] in {0, 1}:  # the kernel writes -1 for "not known"
                        found[name] = bool(value[name])
        return found

    def set_vf(self, pf: PciDevice, number: int, **settings: Any) -> None:
        """Set those named; NetlinkError if the driver refuses."""
        if "vlan" in settings:
            settings["vlan"] = {"vlan": settings["vlan"], "qos": settings.pop("qos", 0)}
        asked = {name: int(value) if isinstance(value, bool) else value for name, value in settings.items()}
        with IPRoute() as links:
            links.link("set", index=_index(links, pf), vf={"vf": number, **asked})

    def bring_up(self, pf: PciDevice, journal: Journal, key: str) -> None:
        """Bring the interfaces of a PF up, without which its VFs have no link; the journal undoes it."""
        borrowed = BorrowedInterfaces(journal)
        for name in pf.interfaces:
            borrowed.take(name, f"the PF {pf.address}", key=key)

    def read_interfaces(self, device: PciDevice) -> list[dict[str, Any]]:
        """``name``, ``mtu``, ``mac`` and ``up`` of its kernel interfaces."""
        attributes = {"name": "IFLA_IFNAME", "mtu": "IFLA_MTU", "mac": "IFLA_ADDRESS"}
        with IPRoute() as links:
            found = [links.get_links(ifname=name)[0] for name in device.interfaces]
        return [
            {name: link.get_attr(attribute) for name, attribute in attributes.items()}
            | {"up": bool(link["flags"] & _UP)}
            for link in found
        ]

    def restore_interface(self, current: str, found: Mapping[str, Any]) -> None:
        """Give an interface its name, MTU, MAC and state back. A name that another one has by now stays that one's.

        A PF keeps the MAC that a killed generator gave its VF by DPDK, and the kernel's driver reads it from there. An
        address that somebody gave the VF at its PF meanwhile stays: the PF refuses others.
        """
        with IPRoute() as links:
            (index,) = links.link_lookup(ifname=current)
            mac = found.get("mac")  # journals of older versions have none
            if mac is not None and links.get_links(index)[0].get_attr("IFLA_ADDRESS") != mac:
                with suppress(NetlinkError):
                    links.link("set", index=index, address=mac)
            if current != found["name"]:
                with suppress(NetlinkError):  # udev gives names, too
                    links.link("set", index=index, ifname=found["name"])
            links.link("set", index=index, mtu=found["mtu"], state="up" if found["up"] else "down")


_MACHINE = PciBus()


def _index(links: IPRoute, pf: PciDevice) -> int:
    if not pf.interfaces:
        raise TestbedError(f"the PF {pf.address} has no kernel interface here, by which its VFs are set up")
    return int(links.link_lookup(ifname=pf.interfaces[0])[0])


def _mac_text(value: Any) -> str:
    """A MAC address as pyroute2 has it: text, or 32 bytes."""
    return value if isinstance(value, str) else ":".join(f"{byte:02x}" for byte in value[:6])


# Before anything is changed.


def check_dpdk_device(address: str, who: str, key: str, nics: Sequence[NicSpec]) -> None:
    """As ``check_device``, of a device as it will be once the run has set up the NICs of the testbed file."""
    if read_device(address) is not None or not is_to_be_made(address, nics):
        check_device(address, who, key, planned={nic.pci: nic.bind for nic in nics if nic.bind is not None})


def is_to_be_made(address: str, nics: Sequence[NicSpec]) -> bool:
    """True for a VF that the run makes."""
    pf = vf_of(address)
    return pf is not None and any(nic.pci == pf[0] and nic.vfs for nic in nics)


def check_nics(nics: Sequence[NicSpec], bus: PciBus = _MACHINE) -> None:
    """Check that the machine can spare each NIC of the testbed file, and can do what the file says.

    Raises:
        ConfigError: it has too few VFs, or the machine needs it.
        TestbedError: there is no such device.
    """
    for nic in nics:
        problem = None if is_to_be_made(nic.pci, nics) else why_not_set_up(nic, bus)
        if problem is not None:
            absent = vf_of(nic.pci) is None and bus.device(nic.pci) is None
            raise TestbedError(f"nics.{nic.pci}: {problem}") if absent else ConfigError(problem, key=f"nics.{nic.pci}")


def why_not_set_up(nic: NicSpec, bus: PciBus) -> str | None:
    """Why a NIC cannot be set up as the testbed file says; None if it can."""
    device = bus.device(nic.pci)
    if device is None:
        absent = f"this machine has no PCI device {nic.pci}"
        if vf_of(nic.pci) is not None:
            return f"{absent}: write 'vfs: N' at its PF, or make it first"
        return f"{absent}: see lspci -D"
    return _why_not_able(nic, device) or _why_needed(nic, device, bus)


def _why_not_able(nic: NicSpec, device: PciDevice) -> str | None:
    if nic.vf_settings and device.physfn is None:
        return f"{', '.join(nic.vf_settings)}: only a VF has this, and {nic.pci} is none"
    if nic.bind is not None and device.driver in BIFURCATED:
        return f"DPDK takes it from the kernel's driver {device.driver}, which keeps it: leave 'bind' out"
    if nic.vfs and (device.sriov_totalvfs or 0) < nic.vfs:
        most = device.sriov_totalvfs or 0
        return f"it can have {most} VFs, not {nic.vfs}" if most else "it cannot have VFs: leave 'vfs' out"
    if nic.vfs and not device.interfaces:
        return f"its VFs are made by the kernel's driver, and {device.driver or 'no driver'} has it: give it back first"
    return None


def _why_needed(nic: NicSpec, device: PciDevice, bus: PciBus) -> str | None:
    """Why the machine needs the device as it is; None if it does not, or if nothing about it is to change."""
    binding = nic.bind is not None and device.driver != nic.bind
    if not binding and not nic.vfs:
        return None
    users = bus.uses(device)
    if users:
        return f"{', '.join(users)}; the run would cut it off. Name another NIC, or free this one first"
    if binding and device.sriov_numvfs:
        return f"it is a PF with {device.sriov_numvfs} VFs, which would be gone: remove them first, or bind one of them"
    if binding and device.driver is not None and not device.interfaces and _has_hidden_interface(device, bus):
        return "its interface is in another network namespace, where somebody may need it: move it back first"
    holders = ", ".join(f"{name} ({pid})" for pid, name in bus.holders(device))
    return f"a program has it open: {holders}" if holders else None


def _has_hidden_interface(device: PciDevice, bus: PciBus) -> bool:
    # The folder is there for interfaces of any namespace, and shows those of this one only.
    folder = bus.sysfs / "bus/pci/devices" / device.address
    is_network = (read_fact(folder / "class") or _NETWORK_CLASS).startswith(_NETWORK_CLASS)
    return is_network and any([*folder.glob("net"), *folder.glob("virtio*/net")])


# Setting up.


def set_up_nics(nics: Sequence[NicSpec], journal: Journal, bus: PciBus = _MACHINE) -> None:
    """Make VFs, set them up, and bind NICs to their drivers; the journal undoes it.

    Raises:
        ConfigError: as ``check_nics``; or a PF has VFs already, which somebody else made.
        TestbedError: the kernel or a driver refused.
    """
    for nic in nics:
        if nic.vfs:
            _make_vfs(nic, nics, journal, bus)
    _bring_pfs_up(nics, journal, bus)
    for nic in nics:
        if nic.bind is not None:
            _bind(nic, nic.bind, journal, bus)
    # Undone first: the kernel's driver reads the MAC address of a VF when it gets that back.
    for nic in nics:
        if nic.vf_settings and not is_to_be_made(nic.pci, nics):
            _set_existing_vf(nic, journal, bus)


def _bring_pfs_up(nics: Sequence[NicSpec], journal: Journal, bus: PciBus) -> None:
    """Bring the PFs of VFs up that somebody else made, where they are down."""
    named = [bus.device(nic.pci) for nic in nics if not is_to_be_made(nic.pci, nics)]
    for address in dict.fromkeys(vf.physfn for vf in named if vf is not None and vf.physfn is not None):
        pf = bus.device(address)
        if pf is not None and not any(link["up"] for link in bus.read_interfaces(pf)):
            bus.bring_up(pf, journal, f"nics.{address}")


def _make_vfs(nic: NicSpec, nics: Sequence[NicSpec], journal: Journal, bus: PciBus) -> None:
    device, key = _ready(nic, bus), f"nics.{nic.pci}"
    if device.sriov_numvfs:
        raise ConfigError(
            f"it has {device.sriov_numvfs} VFs already, which somebody else made: remove them (echo 0 > "
            f"{bus.sysfs}/bus/pci/devices/{nic.pci}/sriov_numvfs), or leave 'vfs' out and use them as they are",
            key=f"{key}.vfs",
        )
    folder = bus.sysfs / "bus/pci/devices" / nic.pci
    autoprobe = read_fact(folder / "sriov_drivers_autoprobe")
    journal.note(Kind.VFS, nic.pci, count=nic.vfs, autoprobe=autoprobe)
    bus.bring_up(device, journal, key)
    try:
        if autoprobe is not None:  # no driver of the kernel makes an interface of a VF before it is set up
            bus.write(folder / "sriov_drivers_autoprobe", "0")
        bus.write(folder / "sriov_numvfs", str(nic.vfs))
        made = _ready(nic, bus)
        for vf in nics:
            if vf.vf_settings and (vf_of(vf.pci) or ("", 0))[0] == nic.pci:
                _set_vf(made, vf, bus)
        if autoprobe is not None:
            bus.write(folder / "sriov_drivers_autoprobe", autoprobe)
        bound = {pci_address(vf.pci, bus.sysfs) for vf in nics if vf.bind and is_to_be_made(vf.pci, [nic])}
        for address in made.virtfns:
            if autoprobe == "1" and address not in bound:
                bus.write(bus.sysfs / "bus/pci/drivers_probe", address)
    except OSError as error:
        raise TestbedError(f"the driver {device.driver} makes no {nic.vfs} VFs of {nic.pci}: {error}") from error


def _ready(nic: NicSpec, bus: PciBus) -> PciDevice:
    """The device, which the machine can spare still; ConfigError otherwise."""
    problem = why_not_set_up(nic, bus)
    device = bus.device(nic.pci)
    if problem is not None or device is None:
        raise ConfigError(problem or "it is gone", key=f"nics.{nic.pci}")
    return device


def _set_existing_vf(nic: NicSpec, journal: Journal, bus: PciBus) -> None:
    pf, number = _pf_of(_ready(nic, bus), bus)
    found = bus.read_vf(pf, number)
    wanted = set(nic.vf_settings) | ({"qos"} if nic.vlan is not None else set())
    journal.note(Kind.VF, f"{pf.address} vf {number}", **{name: found[name] for name in wanted if name in found})
    _set_vf(pf, nic, bus, number)


def _pf_of(vf: PciDevice, bus: PciBus) -> tuple[PciDevice, int]:
    pf = bus.device(vf.physfn or "")
    if pf is None or vf.address not in pf.virtfns:
        raise TestbedError(f"the PF of VF {vf.address} is gone")
    return pf, pf.virtfns.index(vf.address)


def _set_vf(pf: PciDevice, nic: NicSpec, bus: PciBus, number: int | None = None) -> None:
    """Set one after the other, so that an error names the one that the driver refuses, and look at each."""
    number = (vf_of(nic.pci) or ("", 0))[1] if number is None else number
    for name, value in nic.vf_settings.items():
        try:
            bus.set_vf(pf, number, **{name: value})
        except NetlinkError as error:
            raise TestbedError(
                f"nics.{nic.pci}.{name}: the driver {pf.driver} refuses {value!r}: {error.args[-1]}"
            ) from error
        has = bus.read_vf(pf, number).get(name, value)
        if has != value:
            raise TestbedError(f"nics.{nic.pci}.{name}: set to {value!r}, and the driver {pf.driver} has {has!r}")


def _bind(nic: NicSpec, driver: str, journal: Journal, bus: PciBus) -> None:
    device = _ready(nic, bus)
    if device.driver == driver:
        return
    made = device.physfn is not None and any(
        entry.kind is Kind.VFS and entry.name == device.physfn for entry in journal.entries
    )
    bus.load(driver)
    if not made:  # a VF that the run makes goes as a whole
        details = {"driver": device.driver, "override": device.driver_override, "bound": driver}
        journal.note(Kind.PCI_DRIVER, device.address, **details, interfaces=bus.read_interfaces(device))
    folder = bus.sysfs / "bus/pci/devices" / device.address
    try:
        bus.write(folder / "driver_override", driver)
        if device.driver is not None:
            bus.write(folder / "driver/unbind", device.address)
        bus.write(bus.sysfs / "bus/pci/drivers_probe", device.address)
    except OSError as error:
        raise TestbedError(f"nics.{nic.pci}.bind: cannot bind {device.address} to {driver}: {error}") from error
    bound = bus.device(device.address)
    if bound is None or bound.driver != driver:
        raise TestbedError(
            f"nics.{nic.pci}.bind: {driver} does not take {device.address}; without an IOMMU vfio-pci takes none "
            "(intel_iommu=on or amd_iommu=on on the kernel's command line). The kernel's log says more: dmesg"
        )


# Giving back, from the journal.


def give_back_driver(entry: Entry, bus: PciBus = _MACHINE) -> bool:
    """Give a NIC back to the driver that had it; False if there is nothing to do.

    Raises:
        TestbedError: a program has it open, or its interface does not come back.
        OSError: the kernel refused.
    """
    device, bound, found = bus.device(entry.name), entry.details["bound"], entry.details["driver"]
    if device is None:
        return False
    folder, original = bus.sysfs / "bus/pci/devices" / entry.name, entry.details["override"]
    changed: bool = device.driver == bound
    if changed:
        _wait_released(device, bus)
        bus.write(folder / "driver/unbind", entry.name)
    try:
        if found is not None and device.driver in {None, bound}:
            changed = True
            bus.load(found)
            bus.write(folder / "driver_override", found)  # the one that it had may name a third driver
            bus.write(bus.sysfs / f"bus/pci/drivers/{found}/bind", entry.name)
            _restore_interfaces(entry, bus)
    finally:
        left = bus.device(entry.name)
        if left is not None and left.driver_override in {bound, found} - {original, None}:
            bus.write(folder / "driver_override", f"{original or ''}\n")
            changed = True
    return changed


def _restore_interfaces(entry: Entry, bus: PciBus) -> None:
    found = entry.details["interfaces"]
    if not found:
        return

    def current() -> tuple[str, ...]:
        device = bus.device(entry.name)
        return device.interfaces if device is not None else ()

    names = wait_until(current, f"the interface of {entry.name} by {entry.details['driver']}", _INTERFACE_DEADLINE_S)
    if len(names) == len(found) == 1:  # which of several is which cannot be told
        bus.restore_interface(names[0], found[0])


def _wait_released(device: PciDevice, bus: PciBus) -> None:
    def shown() -> str:
        return ", ".join(f"{name} ({pid})" for pid, name in bus.holders(device))

    wait_until(
        lambda: not bus.holders(device),
        f"the programs that have {device.address} open by vfio to end",
        _RELEASE_DEADLINE_S,
        last_seen=shown,
    )


def remove_vfs(entry: Entry, bus: PciBus = _MACHINE) -> bool:
    """Remove the VFs that the run made; False if there are none, or other ones by now. Errors: as give_back_driver."""
    device, folder = bus.device(entry.name), bus.sysfs / "bus/pci/devices" / entry.name
    if device is None:
        return False
    autoprobe = entry.details["autoprobe"]
    changed = autoprobe is not None and read_fact(folder / "sriov_drivers_autoprobe") != autoprobe
    if changed:
        bus.write(folder / "sriov_drivers_autoprobe", autoprobe)
    if device.sriov_numvfs != entry.details["count"]:
        return changed
    for address in device.virtfns:
        vf = bus.device(address)
        if vf is not None:
            _wait_released(vf, bus)
    bus.write(folder / "sriov_numvfs", "0")
    return True


def restore_vf(entry: Entry, bus: PciBus = _MACHINE) -> bool:
    """Restore a VF's settings as journaled; False if nothing differs, or it is gone."""
    address, number = vf_of(entry.name) or (entry.name, 0)
    pf = bus.device(address)
    if pf is None or number >= len(pf.virtfns):
        return False
    now = bus.read_vf(pf, number)
    differing = {name: value for name, value in entry.details.items() if now.get(name) != value}
    if "vlan" in differing or "qos" in differing:
        differing |= {name: entry.details[name] for name in ("vlan", "qos") if name in entry.details}
    for name, value in differing.items():
        if name == "qos":
            continue
        both = {"vlan": value, "qos": differing.get("qos", 0)} if name == "vlan" else {name: value}
        bus.set_vf(pf, number, **both)
    return bool(differing)
