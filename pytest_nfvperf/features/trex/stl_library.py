"""Stands in for TRex's client library: the classes that STL profiles build streams of, which keep their arguments.

Names, arguments and defaults are TRex's (STL API 4.x and trex_stl_lib); nothing else is here, so that a profile which
needs more is refused by the name of what it needs. This module runs in the child process of a profile only.
"""

from __future__ import annotations

import importlib
import ipaddress
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARIES = ("trex_stl_lib.api", "trex.stl.api")
_MODULES = ("os", "sys", "json", "random", "string", "struct", "socket", "time", "copy", "math", "base64", "binascii")
"""What ``from trex_stl_lib.api import *`` also gives, and profiles use without an import of their own."""
_RATES = ("pps", "bps_L1", "bps_L2", "percentage")
_SIZES = (1, 2, 4, 8)


class STLError(Exception):
    """A profile asks for what there is not."""


# What profiles build: TRex's names, their arguments and defaults, and nothing else.


class Ignored:
    """What is so here in any case: all checksums are right, and each stream is counted."""

    def __init__(self, *_: Any, **__: Any) -> None: ...


class Refused:
    """What a traffic cannot do, taken with any arguments. ``why``: what a stream does with it, for the user."""

    why = ""

    def __init__(self, name: Any = None, *_: Any, **__: Any) -> None:
        self.why = self.why.format(name)


_REFUSED = {
    "STLTXSingleBurst": "sends a burst (STLTXSingleBurst)",
    "STLTXMultiBurst": "sends bursts (STLTXMultiBurst)",
    "STLFlowLatencyStats": "has its own rate to sample latency (STLFlowLatencyStats)",
    "STLTaggedPktGroup": "is of a tagged packet group (STLTaggedPktGroup)",
    "STLVmTrimPktSize": "varies its size with {!r} (STLVmTrimPktSize): give an IMIX instead",
    "STLVmFlowVarRepeatableRandom": "has a repeatable random variable {!r}: write STLVmFlowVar(op='random'), which "
    "repeats nothing here",
}
_REFUSED_CLASSES = {name: type(name, (Refused,), {"why": why}) for name, why in _REFUSED.items()}


@dataclass
class STLTXCont:
    pps: Any = None
    bps_L1: Any = None  # noqa: N815 - TRex's own, as all names here
    bps_L2: Any = None  # noqa: N815
    percentage: Any = None

    def __post_init__(self) -> None:
        rates = {unit: rate for unit in _RATES if (rate := getattr(self, unit)) is not None} or {"pps": 1.0}
        if len(rates) > 1:
            raise STLError(f"gives a rate twice, as {' and '.join(rates)}")
        ((self.unit, self.rate),) = rates.items()
        if not isinstance(self.rate, (int, float)) or self.rate <= 0:
            raise STLError(f"gives a rate of {self.rate!r} {self.unit}, which is none")


def number_of(value: Any) -> int:
    if isinstance(value, str):
        return int(ipaddress.IPv4Address(value))
    if not isinstance(value, int):
        raise STLError(f"{value!r} is no whole number and no IPv4 address")
    return value


@dataclass
class STLVmFlowVar:
    name: str
    init_value: Any = None
    min_value: Any = 0
    max_value: Any = 255
    size: int = 4
    step: Any = 1
    op: str = "inc"
    value_list: Any = None
    split_to_cores: bool = True
    next_var: str | None = None

    def __post_init__(self) -> None:
        if self.size not in _SIZES or self.op not in {"inc", "dec", "random"}:
            raise STLError(
                f"gives variable {self.name!r} size {self.size!r} and op {self.op!r}: 1, 2, 4 or 8, and inc, dec or "
                "random are possible"
            )
        self.values = [number_of(value) for value in self.value_list or ()]
        if self.values:
            self.init_value, self.min_value, self.max_value = None, min(self.values), max(self.values)
        self.least, self.most, self.step = number_of(self.min_value), number_of(self.max_value), number_of(self.step)
        self.begin = self.most if self.op == "dec" else self.least
        if not 0 <= self.least <= self.most < 1 << 8 * self.size or self.step < 1:
            raise STLError(
                f"lets variable {self.name!r} count from {self.least} to {self.most} by {self.step} in {self.size} "
                "bytes, which it cannot"
            )


@dataclass
class STLVmTupleGen:
    name: str
    ip_min: Any = "0.0.0.1"
    ip_max: Any = "0.0.0.10"
    port_min: int = 1025
    port_max: int = 65535
    limit_flows: int = 100000
    flags: int = 0


@dataclass
class STLVmWrFlowVar:
    fv_name: str
    pkt_offset: Any
    offset_fixup: int = 0
    add_val: int = 0
    is_big: bool = True

    cast, mask, shift = 0, -1, 0


@dataclass
class STLVmWrMaskFlowVar:
    fv_name: str
    pkt_offset: Any
    pkt_cast_size: int = 1
    mask: int = 0xFF
    shift: int = 0
    add_value: int = 0
    offset_fixup: int = 0
    is_big: bool = True

    def __post_init__(self) -> None:
        self.cast, self.add_val = self.pkt_cast_size, self.add_value


class CTRexVmInsFixHwCs:
    L4_TYPE_UDP, L4_TYPE_TCP, L4_TYPE_IP = 11, 13, 17


@dataclass
class STLScVmRaw:
    list_of_commands: Any = ()
    cache_size: int | None = None

    def __post_init__(self) -> None:
        self.commands = list(self.list_of_commands or ())

    def add_cmd(self, command: Any) -> None:
        self.commands.append(command)


class STLVM(STLScVmRaw):
    """The same with a method for each command, whose arguments differ a little."""

    def __init__(self) -> None:
        super().__init__()

    def set_cached(self, cache_size: int) -> None:
        self.cache_size = cache_size

    def var(self, name: str, min_value: Any, max_value: Any, size: int, op: str, step: Any = 1, **more: Any) -> None:
        given = {"min_value": min_value, "max_value": max_value, "size": size, "op": op, "step": step}
        self.add_cmd(STLVmFlowVar(name, **given, **more))

    def repeatable_random_var(self, fv_name: str, *_: Any, **__: Any) -> None:
        self.add_cmd(_REFUSED_CLASSES["STLVmFlowVarRepeatableRandom"](fv_name))

    def tuple_var(self, name: str, *rest: Any, **more: Any) -> None:
        self.add_cmd(STLVmTupleGen(name, *rest, **({"limit_flows": 0} if len(rest) < 5 else {}) | more))

    def write(
        self, fv_name: str, pkt_offset: Any, offset_fixup: int = 0, add_val: int = 0, byte_order: str = "big"
    ) -> None:
        self.add_cmd(STLVmWrFlowVar(fv_name, pkt_offset, offset_fixup, add_val, byte_order == "big"))

    def write_mask(self, fv_name: str, pkt_offset: Any, pkt_cast_size: int, mask: int, *rest: Any, **more: Any) -> None:
        given = dict(zip(("shift", "offset_fixup", "add_val", "byte_order"), rest, strict=False)) | more
        order, given["add_value"] = given.pop("byte_order", "big"), given.pop("add_val", 0)
        self.add_cmd(STLVmWrMaskFlowVar(fv_name, pkt_offset, pkt_cast_size, mask, is_big=order == "big", **given))

    def trim(self, fv_name: str) -> None:
        self.add_cmd(_REFUSED_CLASSES["STLVmTrimPktSize"](fv_name))

    def fix_chksum(self, *_: Any, **__: Any) -> None:
        """Nothing is to be done."""

    fix_chksum_hw = fix_chksum_icmpv6 = fix_chksum


@dataclass
class STLPktBuilder:
    pkt: Any = None
    pkt_buffer: bytes | None = None
    vm: Any = None
    path_relative_to_profile: bool = False
    build_raw: bool = False
    remove_fcs: bool = True

    def __post_init__(self) -> None:
        self.from_bytes = isinstance(self.pkt, str) or self.pkt is None
        from scapy.layers.l2 import Ether  # noqa: PLC0415 - this process begins with what it may refuse

        if isinstance(self.pkt, str):
            from pytest_nfvperf.model.traffic.captures import read_capture  # noqa: PLC0415

            base = Path(sys.argv[0]).parent if self.path_relative_to_profile else Path()
            self.pkt = Ether(read_capture(base / self.pkt)[0])
        elif self.pkt is None and self.pkt_buffer is not None:
            self.pkt = Ether(self.pkt_buffer)
        if isinstance(self.vm, list):
            self.vm = STLScVmRaw(self.vm)


@dataclass
class STLStream:
    """What has no meaning here is taken and left: cores, and a seed, since our random order is a fixed one."""

    name: Any = None
    packet: Any = None
    mode: Any = None
    enabled: bool = True
    self_start: bool = True
    isg: float = 0.0
    flow_stats: Any = None
    next: Any = None
    stream_id: Any = None
    action_count: int = 0
    random_seed: int = 0
    mac_src_override_by_pkt: Any = None
    mac_dst_override_mode: Any = None
    dummy_stream: bool = False
    start_paused: bool = False
    core_id: int = -1

    def __post_init__(self) -> None:
        self.mode = self.mode or STLTXCont()
        if self.packet is None:
            from scapy.layers.inet import IP  # noqa: PLC0415
            from scapy.layers.l2 import Ether  # noqa: PLC0415

            self.packet = STLPktBuilder(pkt=Ether() / IP())


class STLProfile:
    def __init__(self, streams: Any = None) -> None:
        self.streams = [streams] if isinstance(streams, STLStream) else list(streams or ())

    def get_streams(self) -> list[STLStream]:
        return self.streams

    @staticmethod
    def load_pcap(*_: Any, **__: Any) -> STLProfile:
        raise STLError("sends a capture (STLProfile.load_pcap): send that by Traffic.from_pcap() instead")


def STLIPRange(src: Any = None, dst: Any = None, *_: Any, **__: Any) -> list[Any]:  # noqa: N802
    made: list[Any] = []
    for name, given in (("src", src), ("dst", dst)):
        if given:
            made.append(STLVmFlowVar(name, None, given["start"], given["end"], 4, given["step"]))
            made.append(STLVmWrFlowVar(name, f"IP.{name}"))
    return made


_KNOWN: tuple[Any, ...] = (
    *(STLTXCont, STLVmFlowVar, STLVmTupleGen, STLVmWrFlowVar, STLVmWrMaskFlowVar, CTRexVmInsFixHwCs, STLScVmRaw, STLVM),
    *(STLIPRange, STLPktBuilder, STLStream, STLProfile, STLError),
)
_IGNORED = ("STLFlowStats", "STLVmFixIpv4", "STLVmFixChecksumHw", "STLVmFixIcmpv6")


def library() -> ModuleType:
    """The module that profiles import: what is known, scapy, and a few modules of Python."""
    import scapy.all  # noqa: PLC0415

    api = ModuleType(LIBRARIES[0], "Stands in for TRex's client library.")
    names = {name: value for name, value in vars(scapy.all).items() if not name.startswith("_")}
    names |= {name: importlib.import_module(name) for name in _MODULES}
    names |= {known.__name__: known for known in _KNOWN} | _REFUSED_CLASSES
    names |= dict.fromkeys(_IGNORED, Ignored)
    names |= {"STLVmFlowVarRepetableRandom": _REFUSED_CLASSES["STLVmFlowVarRepeatableRandom"]}
    names |= {"STLStreamDstMAC_CFG_FILE": 0, "STLStreamDstMAC_PKT": 1, "STLStreamDstMAC_ARP": 2}
    vars(api).update(names)
    return api
