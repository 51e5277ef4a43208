"""What a NIC is: model, driver, firmware, link, place on the machine. What cannot be read is absent.

Read from sysfs, by ethtool (netlink for the link, the older ioctl for the driver, which netlink does not tell) and by
devlink, which knows the firmware of NICs that have no interface of the kernel's (ethtool(8) -i, devlink-dev(8) info).
A NIC that DPDK has taken from the kernel shows itself in sysfs alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterator, Sequence
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
    RawMessage,
    Request,
    attributes,
    family_number,
)
from pytest_nfvperf.model.testbed.lab_cables import ports_here
from pytest_nfvperf.model.testbed.testbed import DutPort, Testbed

_AF_XDP = 44  # socket(2), linux/socket.h
_SYS = Path("/sys")
_PCI_IDS = Path("/usr/share/misc/pci.ids")
_SIOCETHTOOL, _GET_DRIVER = 0x8946, 0x3  # linux/sockios.h, ETHTOOL_GDRVINFO
_DRIVER_INFO = struct.Struct("=I32s32s32s32s32s12sIIIII")  # struct ethtool_drvinfo
_INFO_GET, _BUS_NAME, _DEVICE_NAME = 51, 1, 2  # DEVLINK_CMD_INFO_GET, linux/devlink.h
_DRIVER, _RUNNING, _VERSION_NAME, _VERSION = 98, 101, 103, 104
_FIRMWARE = ("fw", "fw.version", "fw.mgmt", "fw.app", "fw.psid")
"""Names of firmware versions by devlink (Documentation/networking/devlink/devlink-info.rst), the telling one first."""


def lacks_af_xdp() -> str | None:
    """What AF_XDP sockets lack here, and what to do; None when they work."""
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
        model: what people call it; of a testbed file, else of the PCI database.
        driver: of the kernel, such as "mlx5_core", "vfio-pci", "veth".
        firmware: its version; None where the driver does not tell.
        speed_mbps: of the link now; None without link.
        link: "up", "down".
        numa_node: None on a machine of one node.
    """

    model: str | None = None
    driver: str | None = None
    firmware: str | None = None
    speed_mbps: int | None = None
    link: str | None = None
    numa_node: int | None = None

    def known(self) -> dict[str, str | int]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_nic(port: DutPort, sysfs: Path = _SYS, pci_ids: Path = _PCI_IDS) -> NicFacts:
    """The NIC of a testbed's port in the current namespace, before a run takes it."""
    device = _device(port, sysfs)
    interface = port.interface or _interface_of(device)
    asked = _asked_driver(interface) if interface is not None else {}
    pci = port.pci or asked.get("bus")
    told = _devlink(pci) if pci is not None and device.exists() else {}
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    return NicFacts(
        model=port.model or _model(device, pci_ids) or asked.get("driver"),
        driver=driver or asked.get("driver"),
        firmware=told.get("firmware") or asked.get("firmware") or None,
        speed_mbps=_speed(interface) if interface is not None else None,
        link=_read(sysfs / "class/net" / interface / "operstate") if interface is not None else None,
        numa_node=_node(device),
    )


def nic_labels(testbed: Testbed) -> dict[str, str]:
    """What SLA selectors know the lab's NICs by: ``nic``, ``driver``, ``firmware``; of unlike ports all, joined.

    Of a port on another machine only what the file calls it is known.
    """
    here = ports_here(testbed)
    ports = [port for port in testbed.ports if port.kind != "vhost-user"]
    found = [read_nic(port) if port in here else NicFacts(port.model) for port in ports]
    labels = {
        "nic": _joined([nic.model for nic in found]),
        "driver": _joined([nic.driver for nic in found]),
        "firmware": _joined([nic.firmware for nic in found]),
    }
    return {name: value for name, value in labels.items() if value}


def _joined(values: Sequence[str | None]) -> str:
    return " + ".join(dict.fromkeys(value for value in values if value))


def _device(port: DutPort, sysfs: Path) -> Path:
    if port.pci is not None:
        return sysfs / "bus/pci/devices" / port.pci.lower()
    return sysfs / "class/net" / (port.interface or "") / "device"


def _interface_of(device: Path) -> str | None:
    """The kernel's interface of a PCI device; None if another driver has it."""
    return next((path.name for path in sorted((device / "net").glob("*"))), None)


def _model(device: Path, pci_ids: Path) -> str | None:
    vendor, number = (_read(device / name) for name in ("vendor", "device"))
    if vendor is None or number is None:
        return None
    named = (
        pci_name(pci_ids.read_text(encoding="utf-8", errors="replace"), vendor, number) if pci_ids.is_file() else None
    )
    return named or f"{vendor.removeprefix('0x')}:{number.removeprefix('0x')}"


def pci_name(database: str, vendor: str, device: str) -> str | None:
    """The device's name in the PCI database (pci.ids(5)). The name that it is sold under is in brackets."""
    inside = False
    for line in database.splitlines():
        if not line.startswith(("\t", "#")):
            inside = line.startswith(vendor.removeprefix("0x") + " ")
        elif inside and line.startswith(f"\t{device.removeprefix('0x')} "):
            name = line.split(None, 1)[1]
            return name.rpartition("[")[2].rstrip("]") if name.endswith("]") else name
    return None


def _node(device: Path) -> int | None:
    text = _read(device / "numa_node")
    return int(text) if text is not None and int(text) >= 0 else None


def _speed(interface: str) -> int | None:
    """Mbit/s by ethtool netlink; None without link, or where the driver does not support it."""
    try:
        with Ethtool() as ethtool:
            speed = ethtool.get_link_mode(interface).speed
    except (NetlinkError, EthtoolError, OSError):
        return None
    return int(speed) if speed and speed not in {0xFFFF, 0xFFFFFFFF} else None


def _asked_driver(interface: str) -> dict[str, str]:
    """``driver``, ``firmware`` and ``bus`` as ``ethtool -i`` shows them; empty if there is no such interface."""
    asked = ctypes.create_string_buffer(_DRIVER_INFO.pack(_GET_DRIVER, *[b""] * 6, *[0] * 5), _DRIVER_INFO.size)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            # struct ifreq: a name and a pointer (netdevice(7)), padded to its size
            fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(asked)))
        except OSError:
            return {}
    _, driver, _, firmware, bus, *_ = _DRIVER_INFO.unpack(asked.raw)
    texts = {"driver": driver, "firmware": firmware, "bus": bus}
    return {name: text.rstrip(b"\0").decode(errors="replace") for name, text in texts.items() if text.rstrip(b"\0")}


def _devlink(pci: str) -> dict[str, str]:
    """``driver`` and ``firmware`` of a PCI device; empty where its driver has no devlink."""
    body = struct.pack("=BBH", _INFO_GET, 1, 0) + _attribute(_BUS_NAME, "pci") + _attribute(_DEVICE_NAME, pci.lower())
    try:
        with Netlink(NETLINK_GENERIC) as netlink:
            kind = family_number(netlink, "devlink")
            answers = netlink.ask(Request(f"ask devlink about {pci}", RawMessage(kind, body)))
    except (KernelRefusedError, OSError):
        return {}
    return devlink_info(answers[0][HEADER_BYTES:]) if answers else {}


def devlink_info(answer: bytes) -> dict[str, str]:
    """Driver and running firmware from devlink's answer."""
    driver = dict(attributes(answer)).get(_DRIVER)
    found = {"driver": _text(driver)} if driver is not None else {}
    versions = dict(_versions(answer))
    firmware = next((versions[name] for name in _FIRMWARE if name in versions), None)
    return found | ({"firmware": firmware} if firmware else {})


def _versions(answer: bytes) -> Iterator[tuple[str, str]]:
    for kind, nested in attributes(answer):
        if kind == _RUNNING:
            inside = dict(attributes(nested))
            yield _text(inside.get(_VERSION_NAME, b"")), _text(inside.get(_VERSION, b""))


def _attribute(kind: int, text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
