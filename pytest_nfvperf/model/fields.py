"""Fields of data classes that pydantic reads: keys of files, with their types, bounds and what to write.

A key is one field: ``rxq: Annotated[Count, file_key("receive queues", 2)] = 1``. The reader, its messages, the JSON
schema and written files follow from it. Importing this takes 50 ms: not at plugin start.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    TypeAdapter,
    ValidationInfo,
)
from pydantic_core import core_schema

from pytest_nfvperf.model.arguments import MAC, UNICAST_MAC, expanded

VERSION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$"

_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])(?: vf ([0-9]{1,5}))?", re.ASCII)
_RANGES = r"^\s*\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*\s*$"


def file_key(meaning: str, example: Any = None, *, alias: str | None = None) -> Any:
    """A key of the file: what it means, a value as a user writes it, and how it is written if not as the field."""
    return Field(description=meaning, examples=None if example is None else [example], alias=alias)


NO_KEY = "\0"
UNWRITTEN = Field(validation_alias=NO_KEY, exclude_if=lambda _: True)
"""A field that no file can say: no key of YAML is so. Of a section that stands in a mapping, its key there."""


def words(*known: str) -> GetPydanticSchema:
    """These texts only. In Python the value stays any text: third parties have engines and datapaths of their own."""
    return GetPydanticSchema(lambda _, __: core_schema.literal_schema(list(known)))


def _with_keys(sections: Any) -> Any:
    if not isinstance(sections, dict):
        return sections
    return {key: {NO_KEY: str(key), **one} if isinstance(one, dict) else one for key, one in sections.items()}


BY_KEY = BeforeValidator(_with_keys)
"""Of a mapping of sections: each has its own key in its field that is UNWRITTEN."""

Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(min_length=1)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=1)]


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
    if not MAC.accepts(mac):
        raise ValueError(f"'{value}' is not a MAC address: write e.g. '02:00:00:00:00:01'")
    if not UNICAST_MAC.accepts(mac) or mac == "00:00:00:00:00:00":
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


def _trex_delay(value: float) -> float:
    if not 0 < value <= 60:
        raise ValueError(f"{value:g} s is outside 0..60 s: write e.g. '500 ms'")
    return value


def _some_rate(value: float) -> float:
    if value == 0:
        raise ValueError("0 bps carries nothing: write e.g. '10 Gbps', or leave it out")
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


# Forms that a value can be written in, beside its own.


def _mapping(entries: Any) -> BeforeValidator:
    """Pairs that a file writes as a mapping of this type. Evidence, which brings no units as context, has the pairs."""
    adapter = TypeAdapter(entries, config=ConfigDict(defer_build=True))

    def pairs(value: Any, info: ValidationInfo) -> Any:
        return tuple(map(tuple, value)) if info.context is None else tuple(adapter.validate_python(value).items())

    return BeforeValidator(pairs, json_schema_input_type=entries)


def _number_list(what: str, example: str) -> Callable[[Any], Any]:
    """Reads ``[2, 3]`` as it is, and ``"2-5,8"`` as the kernel writes CPU lists."""

    def numbers_of(value: Any) -> Any:
        if not isinstance(value, str):
            return tuple(value) if isinstance(value, list) else value
        numbers: list[int] = []
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part, re.ASCII)
            if match is None:
                raise ValueError(f"'{value}' is not a list of {what}: write {example}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise ValueError(f"'{part.strip()}' runs backwards: write '{last}-{first}'")
            numbers += range(first, last + 1)
        return numbers

    return numbers_of


def _ranges_text(value: tuple[int, ...]) -> Any:
    """``2-5`` for consecutive numbers, else a list."""
    run = len(value) > 1 and value == tuple(range(value[0], value[0] + len(value)))
    return f"{value[0]}-{value[-1]}" if run else list(value)


def _scalar_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _quantity(unit: str, name: str, text: Any) -> BeforeValidator:
    """A number with a unit, in this one. Who reads a file brings what units there are, as pydantic's context."""
    return BeforeValidator(lambda value, info: info.context(value, unit, name), json_schema_input_type=text)


def _with_unit(unit: str) -> PlainSerializer:
    return PlainSerializer(lambda value, info: info.context(value, unit))


def _whole_mib(value: float) -> int:
    if value % 1:
        raise ValueError(f"{value * (1 << 20):g} bytes is not a whole number of MiB: write e.g. '1024 MiB'")
    return int(value)


_RateText = Annotated[str, Field(pattern=r"^[0-9.eE+]+ ?[kMGT]?bps$")]
_TimeText = Annotated[str, Field(pattern=r"^[0-9.eE+]+ ?(ns|us|ms|s|min|h)$")]
_SizeText = Annotated[str, Field(pattern=r"^[0-9.eE+]+ ?([KMG]iB|bytes)$")]
_RangesText = Annotated[str, Field(pattern=_RANGES)]
_Scalar = str | float | bool

ShortName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
VersionName = Annotated[str, Field(pattern=VERSION_NAME)]
NoBlanks = Annotated[str, Field(pattern=r"^[^\s]+$")]
ConfigText = Annotated[str, BeforeValidator(_scalar_text, json_schema_input_type=_Scalar)]
LocalPath = Annotated[Text, AfterValidator(expanded)]
"""Of this machine; ``~`` is the home directory, as in a shell."""
PciAddress = Annotated[Text, AfterValidator(_pci_address)]
FullPciAddress = Annotated[Text, AfterValidator(_full_pci_address)]
MacAddress = Annotated[Text, AfterValidator(_mac_address)]
Representor = Annotated[ConfigText, AfterValidator(_representor)]
Ipv4 = Annotated[Text, AfterValidator(_ipv4)]
Prefix = Annotated[Text, AfterValidator(_prefix)]
Datapath = Annotated[str, words("dpdk", "netdev", "system")]
FORWARDING = ("io", "mac", "macswap", "5tswap", "rxonly")
"""testpmd's modes of forwarding (its guide, "Runtime Functions")."""

_AS_MAPPING = PlainSerializer(lambda pairs: dict(pairs) or ())
OtherConfig = Annotated[tuple[tuple[str, str], ...], _mapping(dict[Text, ConfigText]), _AS_MAPPING]
QueueCpus = Annotated[tuple[tuple[str, str], ...], _mapping(dict[ShortName, Text]), _AS_MAPPING]
Announced = Annotated[tuple[tuple[str, str], ...], _mapping(dict[Prefix, Text]), _AS_MAPPING]

PortNumber = Annotated[Whole, Field(ge=0)]
TcpPort = Annotated[Whole, Field(ge=1, le=65535)]
RingSize = Annotated[Count, AfterValidator(_ring_size)]
PortMtu = Annotated[Whole, Field(ge=68, le=9702)]
BitRate = Annotated[float, _quantity("bps", "line_rate", _RateText), _with_unit("bps")]
LinkRate = Annotated[BitRate, AfterValidator(_some_rate)]
TrexDelay = Annotated[float, _quantity("s", "rx_delay", _TimeText), AfterValidator(_trex_delay), _with_unit("s")]
Mebibytes = Annotated[int, BeforeValidator(_whole_mib), _quantity("MiB", "hugepages", _SizeText), _with_unit("MiB")]

Cpus = Annotated[
    tuple[Annotated[Whole, Field(ge=0, le=8191)], ...],
    BeforeValidator(_number_list("CPUs", "[2, 3] or '2-5,8'"), json_schema_input_type=list[PortNumber] | _RangesText),
    PlainSerializer(lambda value: _ranges_text(value)),  # noqa: PLW0108 - its type would be the schema's
]
TcpPorts = Annotated[
    tuple[TcpPort, ...],
    BeforeValidator(
        _number_list("ports", "[5201, 5202] or '5201-5264'"), json_schema_input_type=list[TcpPort] | _RangesText
    ),
    PlainSerializer(lambda value: _ranges_text(value)),  # noqa: PLW0108 - its type would be the schema's
]
Devices = tuple[Annotated[Text, AfterValidator(lambda device: normal_pci(device) or device)], ...]
