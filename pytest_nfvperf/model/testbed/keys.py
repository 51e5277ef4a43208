"""Keys of the testbed file are described once: by annotations of the data classes that hold their values.

``config/validate.py`` makes of them what reads a file, its JSON schema, and what writes a file.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pytest_nfvperf.model.arguments import expanded
from pytest_nfvperf.model.topology.links import NODE_NAME

VERSION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$"

_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])(?: vf ([0-9]{1,5}))?", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class Key:
    """How a field of a data class stands in the testbed file. A field without a Key has none there.

    Attributes:
        meaning: for the schema; values that the data class explains elsewhere need none.
        example: a value as a user writes it.
        written: the key, if it differs from the field's name.
    """

    meaning: str = ""
    example: Any = None
    written: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What can be written for a value.

    Attributes:
        least: the smallest number, or the fewest entries of a list.
        most: the largest number.
        pattern: regular expression of a text; without one any text but an empty one; "": any text.
        longest: characters of a text.
        words: the texts that are possible.
        instead: texts that people write here by mistake, each with what to write.
        scalar: a number, true and false are taken as the text that they are written as.
        unit: a quantity with a unit, which becomes this one: "s", "bps" or "MiB".
        ranges: what a list's numbers are, if it may also be written as "2-5,8": "CPUs".
        mapping: pairs are written as a mapping; data classes too, with their first field as the key.
        check: returns the value as it is kept, or raises ValueError, which says what to write.
    """

    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    longest: int | None = None
    words: tuple[str, ...] = ()
    instead: tuple[tuple[str, str], ...] = ()
    scalar: bool = False
    unit: str = ""
    ranges: str = ""
    mapping: bool = False
    check: Callable[[Any], Any] | None = None


def normal_pci(address: str) -> str | None:
    """A PCI address as sysfs has it, however it was written: ``3B:00.0`` is ``0000:3b:00.0``; None for none.

    A VF may be named by its PF and number, ``0000:3b:00.0 vf 1``: its own address is known once it is made.
    """
    match = _PCI.fullmatch(address)
    if match is None:
        return None
    vf = "" if match[3] is None else f" vf {int(match[3])}"
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}{vf}"


def vf_of(address: str) -> tuple[str, int] | None:
    """PF and number of a VF that is named by them; None for a device's own address."""
    match = _PCI.fullmatch(address)
    return None if match is None or match[3] is None else (address.partition(" ")[0], int(match[3]))


def _pci_address(value: str) -> str:
    address = normal_pci(value)
    if address is None:
        raise ValueError(
            f"'{value}' is not a PCI address (domain:bus:device.function): write e.g. '0000:3b:00.0', or "
            "'0000:3b:00.0 vf 0' for its first VF"
        )
    return address


def _full_pci_address(value: str) -> str:
    # Two spellings of a key would be two sections of one NIC.
    address = _pci_address(value)
    if address != value:
        raise ValueError(f"write '{address}', with the domain and in lower case")
    return address


def _mac_address(value: str) -> str:
    mac = value.lower().replace("-", ":")
    if not _MAC.fullmatch(mac):
        raise ValueError(f"'{value}' is not a MAC address: write e.g. '02:00:00:00:00:01'")
    if int(mac[:2], 16) & 1 or mac == "00:00:00:00:00:00":
        raise ValueError(f"'{value}' is no MAC address of one NIC: write e.g. '02:00:00:00:00:01'")
    return mac


def _representor(value: str) -> str:
    if re.fullmatch(r"(c\d+)?(pf\d+)?(vf|sf)?\d+", value, re.ASCII):
        return value
    raise ValueError(f"'{value}' is not one representor: write e.g. 0, vf2, pf0vf1 or sf3, and a port for each")


def _ring_size(value: int) -> int:
    if value > 4096 or value & (value - 1):
        raise ValueError(f"{value} is not a ring size: OVS takes powers of 2 from 1 to 4096, e.g. 2048")
    return value


def _devices(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(normal_pci(device) or device for device in value)


def _trex_interfaces(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) % 2:
        raise ValueError(f"TRex takes ports in pairs, not {len(value)}: add an interface, or 'dummy'")
    return _devices(value)


def _trex_delay(value: float) -> float:
    if not 0 < value <= 60:
        raise ValueError(f"{value:g} s is outside 0..60 s: write e.g. '500 ms'")
    return value


def _ipv4(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise ValueError(f"'{value}' is not an IPv4 address: write e.g. '10.0.0.1'") from None


def _prefix(value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a prefix: {error}") from None
    return value


Name = Annotated[str, Form(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", longest=64)]
NodeName = Annotated[str, Form(pattern=f"^{NODE_NAME}$")]
VersionName = Annotated[str, Form(pattern=VERSION_NAME)]
ConfigText = Annotated[str, Form(scalar=True, pattern="")]
LocalPath = Annotated[str, Form(check=expanded)]
"""Of this machine; ``~`` is the home directory, as in a shell."""
PciAddress = Annotated[str, Form(check=_pci_address)]
FullPciAddress = Annotated[str, Form(check=_full_pci_address)]
MacAddress = Annotated[str, Form(check=_mac_address)]
Representor = Annotated[str, Form(scalar=True, pattern="", check=_representor)]
Ipv4 = Annotated[str, Form(check=_ipv4)]
Prefix = Annotated[str, Form(check=_prefix)]
Datapath = Annotated[str, Form(words=("dpdk", "netdev", "system"))]

Count = Annotated[int, Form(least=1)]
PortNumber = Annotated[int, Form(least=0)]
TcpPort = Annotated[int, Form(least=1, most=65535)]
RingSize = Annotated[int, Form(least=1, check=_ring_size)]
Mtu = Annotated[int, Form(least=68, most=9702)]
BitRate = Annotated[float, Form(unit="bps")]
TrexDelay = Annotated[float, Form(unit="s", check=_trex_delay)]

Cpus = Annotated[tuple[int, ...], Form(least=0, most=8191, ranges="CPUs")]
TcpPorts = Annotated[tuple[int, ...], Form(least=1, most=65535, ranges="ports")]
Devices = Annotated[tuple[str, ...], Form(check=_devices)]
TrexInterfaces = Annotated[tuple[str, ...], Form(least=2, check=_trex_interfaces)]
