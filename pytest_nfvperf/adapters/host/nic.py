"""Facts about a NIC: model, driver, firmware, link, place on the machine. What cannot be read is absent.

Sources: sysfs; ethtool (netlink for the link, the older ioctl for the driver, which netlink does not report); and
devlink, which knows the firmware of NICs without an interface of the kernel's (ethtool(8) -i, devlink-dev(8) info).
A NIC that DPDK has taken from the kernel is in sysfs alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import re
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pyroute2 import Ethtool
from pyroute2.ethtool.ioctl import EthtoolError
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.net.netlink import (
    HEADER_BYTES,
    NETLINK_GENERIC,
    KernelRefusedError,
    Netlink,
    Request,
    attributes,
    family_number,
)
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.fields import vf_of
from pytest_nfvperf.model.testbed.lab_cables import ports_here
from pytest_nfvperf.model.testbed.testbed import DutPort, Testbed

_HANDS_OVER = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
"""Drivers of the kernel that leave a device to a program."""

_LIBRARIES, _NET = Path("/usr/lib"), "librte_net_*.so"
_PMD_INFO = re.compile(rb"PMD_INFO_STRING= (\{[^\0]*\})")

_AF_XDP = 44  # socket(2), linux/socket.h
_SYS = Path("/sys")
_PCI_IDS = Path("/usr/share/misc/pci.ids")
_SIOCETHTOOL, _GET_DRIVER = 0x8946, 0x3  # linux/sockios.h, ETHTOOL_GDRVINFO
_DRIVER_INFO = struct.Struct("=I32s32s32s32s32s12sIIIII")  # struct ethtool_drvinfo
_INFO_GET, _BUS_NAME, _DEVICE_NAME = 51, 1, 2  # DEVLINK_CMD_INFO_GET, linux/devlink.h
_DRIVER, _RUNNING, _VERSION_NAME, _VERSION = 98, 101, 103, 104
_FIRMWARE = ("fw", "fw.version", "fw.mgmt", "fw.app", "fw.psid")
"""Names of firmware versions by devlink (Documentation/networking/devlink/devlink-info.rst), the most useful first."""


def lacks_af_xdp() -> str | None:
    """Why AF_XDP sockets cannot be used here, and what to do; None if they can."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except PermissionError as error:
        return f"{error.strerror}: run as root"
    except OSError as error:
        return f"{error.strerror}: it needs a kernel with CONFIG_XDP_SOCKETS"
    return None


@dataclass(frozen=True, slots=True)
class NicFacts:
    """A NIC.

    Attributes:
        model: what people call it; from the testbed file, else from the PCI database.
        driver: of the kernel, such as "mlx5_core", "vfio-pci", "veth".
        dpdk_driver: which drives it by vfio or uio, such as "net_vmxnet3".
        firmware: its version; None if the driver does not report it.
        speed_mbps: of the link now; None without link.
        link: "up", "down".
        numa_node: None on a machine of one node.
    """

    model: str | None = None
    driver: str | None = None
    dpdk_driver: str | None = None
    firmware: str | None = None
    speed_mbps: int | None = None
    link: str | None = None
    numa_node: int | None = None

    def known(self) -> dict[str, str | int]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def pci_address(device: str, sysfs: Path = _SYS) -> str:
    """The own address of a VF that is named by its PF and number, ``0000:3b:00.0 vf 0``; another device as it is.

    TestbedError if the PF has no such VF now.
    """
    named = vf_of(device)
    if named is None:
        return device
    link = sysfs / "bus/pci/devices" / named[0] / f"virtfn{named[1]}"
    if not link.exists():
        raise TestbedError(f"{named[0]} has no VF {named[1]} now")
    return link.resolve().name


def read_nic(port: DutPort, sysfs: Path = _SYS) -> NicFacts:
    """The NIC of a testbed's port in the current namespace, before a run takes it.

    Of a VF that is not made yet, the PF tells the model.
    """
    device = _device(port, sysfs)
    # A PCI device has an interface only while a driver of the kernel has it.
    interface = port.interface or next((path.name for path in sorted((device / "net").glob("*"))), None)
    by_ethtool = _ethtool_driver(interface) if interface is not None else {}
    pci = device.name if port.pci is not None else by_ethtool.get("bus")
    by_devlink = _devlink(pci) if pci is not None and device.exists() else {}
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    node = read_fact(device / "numa_node")
    return NicFacts(
        model=port.model or _model(device) or by_ethtool.get("driver"),
        driver=driver or by_ethtool.get("driver"),
        dpdk_driver=_dpdk_driver(device) if driver in _HANDS_OVER else None,
        firmware=by_devlink.get("firmware") or by_ethtool.get("firmware") or None,
        speed_mbps=_speed(interface) if interface is not None else None,
        link=read_fact(sysfs / "class/net" / interface / "operstate") if interface is not None else None,
        numa_node=int(node) if node is not None and int(node) >= 0 else None,
    )


def function_of(port: DutPort, sysfs: Path = _SYS) -> str | None:
    """Return "vf" for a virtual function, "pf" for any other NIC; None for what is no device: a veth, or absent."""
    device = _device(port, sysfs)
    if not device.exists():
        return "vf" if vf_of(port.pci or "") is not None else None  # the run makes it
    return "vf" if (device / "physfn").exists() else "pf"


def most_vfs(port: DutPort, sysfs: Path = _SYS) -> int | None:
    """How many VFs the NIC of a port can have; that of its PF if the port is a VF. None for a NIC without SR-IOV."""
    device, named = _device(port, sysfs), vf_of(port.pci or "")
    device = device if named is None else device.with_name(named[0])
    text = read_fact((device / "physfn" if (device / "physfn").exists() else device) / "sriov_totalvfs")
    return int(text) if text else None


def _device(port: DutPort, sysfs: Path) -> Path:
    """Its directory in sysfs; one that does not exist for a port that is no device, and for a VF that is not made."""
    if port.pci is not None:
        device = sysfs / "bus/pci/devices" / port.pci.lower()
        with suppress(TestbedError):
            device = device.with_name(pci_address(device.name, sysfs))
        return device
    return sysfs / "class/net" / (port.interface or "none") / "device"


def nic_labels(testbed: Testbed) -> dict[str, str]:
    """The lab's NICs as SLA selectors see them: ``nic``, ``driver``, ``firmware``. Different values are joined by "+".

    Of a port on another machine only the model in the testbed file is known.
    """
    here = ports_here(testbed)
    ports = [port for port in testbed.ports if port.kind != "vhost-user"]
    nics = [read_nic(port) if port in here else NicFacts(port.model) for port in ports]
    values = {
        "nic": [nic.model for nic in nics],
        # vfio-pci drives nothing: it hands the NIC to DPDK's driver.
        "driver": [nic.dpdk_driver if nic.driver in _HANDS_OVER else nic.driver for nic in nics],
        "firmware": [nic.firmware for nic in nics],
    }
    labels = {name: " + ".join(dict.fromkeys(filter(None, each))) for name, each in values.items()}
    return {name: label for name, label in labels.items() if label}


def _dpdk_driver(device: Path) -> str | None:
    vendor, number = (read_fact(device / name) for name in ("vendor", "device"))
    return dpdk_driver(vendor, number) if vendor and number else None


def _model(device: Path) -> str | None:
    named = vf_of(device.name)  # it has no folder yet; its number is four digits without 0x
    files = ("vendor", "device") if named is None else ("vendor", "sriov_vf_device")
    folder = device if named is None else device.with_name(named[0])
    vendor, number = (read_fact(folder / name) for name in files)
    if vendor is None or number is None:
        return None
    database = _PCI_IDS.read_text(encoding="utf-8", errors="replace") if _PCI_IDS.is_file() else ""
    return pci_name(database, vendor, number) or f"{vendor.removeprefix('0x')}:{number.removeprefix('0x')}"


def pci_name(database: str, vendor: str, device: str) -> str | None:
    """A device's name in the PCI database (pci.ids(5)): in brackets the name that it is sold under, if there is one."""
    inside = False
    for line in database.splitlines():
        if not line.startswith(("\t", "#")):
            inside = line.startswith(vendor.removeprefix("0x") + " ")
        elif inside and line.startswith(f"\t{device.removeprefix('0x')} "):
            name = line.split(None, 1)[1]
            return name.rpartition("[")[2].rstrip("]") if name.endswith("]") else name
    return None


def dpdk_driver(vendor: str, device: str, folders: Sequence[Path] | None = None) -> str | None:
    """The DPDK driver for a PCI device, such as "net_vmxnet3"; None if no installed one knows it.

    DPDK's drivers carry what they know as text: ``PMD_INFO_STRING= {"name": ..., "pci_ids": [[vendor, device, ...]]}``
    (DPDK: usertools/dpdk-pmdinfo.py). ``folders``: of the drivers; those of the distribution's DPDK if None.
    """
    wanted = (int(vendor, 16), int(device, 16))
    libraries = [path for folder in folders or sorted(_LIBRARIES.glob("*/dpdk/pmds-*")) for path in folder.glob(_NET)]
    for library in sorted(libraries):
        for text in _PMD_INFO.findall(library.read_bytes()):
            info = json.loads(text)
            if any(tuple(known[:2]) == wanted for known in info.get("pci_ids", ())):
                return str(info["name"])
    return None


def _speed(interface: str) -> int | None:
    """Mbit/s by ethtool netlink; None without link, or if the driver does not support it."""
    try:
        with Ethtool() as ethtool:
            speed = ethtool.get_link_mode(interface).speed
    except (NetlinkError, EthtoolError, OSError):
        return None
    return int(speed) if speed and speed not in {0xFFFF, 0xFFFFFFFF} else None


def _ethtool_driver(interface: str) -> dict[str, str]:
    """``driver``, ``firmware`` and ``bus`` as ``ethtool -i`` shows them; empty if there is no such interface."""
    answer = ctypes.create_string_buffer(_DRIVER_INFO.pack(_GET_DRIVER, *[b""] * 6, *[0] * 5), _DRIVER_INFO.size)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            # struct ifreq: a name and a pointer (netdevice(7)), padded to its size
            fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(answer)))
        except OSError:
            return {}
    _, driver, _, firmware, bus, *_ = _DRIVER_INFO.unpack(answer.raw)
    texts = {"driver": driver, "firmware": firmware, "bus": bus}
    return {name: text.rstrip(b"\0").decode(errors="replace") for name, text in texts.items() if text.rstrip(b"\0")}


def _devlink(pci: str) -> dict[str, str]:
    """``driver`` and ``firmware`` of a PCI device; empty if its driver has no devlink."""
    body = struct.pack("=BBH", _INFO_GET, 1, 0) + _attribute(_BUS_NAME, "pci") + _attribute(_DEVICE_NAME, pci.lower())
    try:
        with Netlink(NETLINK_GENERIC) as netlink:
            kind = family_number(netlink, "devlink")
            answers = netlink.ask(Request(f"ask devlink about {pci}", (kind, body)))
    except (KernelRefusedError, OSError):
        return {}
    return devlink_info(answers[0][HEADER_BYTES:]) if answers else {}


def devlink_info(answer: bytes) -> dict[str, str]:
    driver = dict(attributes(answer)).get(_DRIVER)
    running = [dict(attributes(nested)) for kind, nested in attributes(answer) if kind == _RUNNING]
    versions = {_text(one.get(_VERSION_NAME, b"")): _text(one.get(_VERSION, b"")) for one in running}
    firmware = next((versions[name] for name in _FIRMWARE if name in versions), None)
    return ({"driver": _text(driver)} if driver is not None else {}) | ({"firmware": firmware} if firmware else {})


def _attribute(kind: int, text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def read_fact(path: Path) -> str | None:
    """What a file under /proc or /sys says; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
