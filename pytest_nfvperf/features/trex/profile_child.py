"""The child process that runs an STL profile, and prints what it builds as JSON. Run by ``python -m``.

A profile is a Python program that imports TRex's client library. It gets ours in its place, whose classes keep what
they are given: so it runs without TRex, with our scapy, and builds the same everywhere. What is not here is refused by
its name, since a profile that is kept in part would be another one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import ipaddress
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARIES = ("trex_stl_lib.api", "trex.stl.api")
_MODULES = ("os", "sys", "json", "random", "string", "struct", "socket", "time", "copy", "math", "base64", "binascii")
"""What ``from trex_stl_lib.api import *`` also gives, and profiles use without an import of their own."""
_RATES = ("pps", "bps_L1", "bps_L2", "percentage")
_SIZES = (1, 2, 4, 8)


class STLError(Exception):
    """A profile asks for what there is not, or what cannot be kept."""


class NotKeptError(Exception):
    """What a stream does and a traffic cannot do. ``stream``: its name."""


# What profiles build: TRex's names, their arguments and defaults, and nothing else.


class STLTXMode:
    def __init__(self, pps: Any = None, bps_L1: Any = None, bps_L2: Any = None, percentage: Any = None) -> None:  # noqa: N803
        given = dict(zip(_RATES, (pps, bps_L1, bps_L2, percentage), strict=True))
        rates = {unit: value for unit, value in given.items() if value is not None} or {"pps": 1.0}
        if len(rates) > 1:
            raise STLError(f"a rate is given twice, as {' and '.join(rates)}")
        ((self.unit, self.value),) = rates.items()
        if not isinstance(self.value, (int, float)) or self.value <= 0:
            raise STLError(f"a rate of {self.value!r} {self.unit} is none")


class STLTXCont(STLTXMode):
    pass


class STLTXSingleBurst(STLTXMode):
    def __init__(self, total_pkts: int = 1, **rate: Any) -> None:  # noqa: ARG002 - refused later, with the stream's name
        super().__init__(**rate)


class STLTXMultiBurst(STLTXMode):
    def __init__(self, pkts_per_burst: int = 1, ibg: float = 0.0, count: int = 1, **rate: Any) -> None:  # noqa: ARG002
        super().__init__(**rate)


class STLFlowStats:
    """Counts a stream, as we count each class of a mix."""

    def __init__(self, pg_id: int, vxlan: bool = False, ieee_1588: bool = False) -> None:
        self.pg_id, self.vxlan, self.ieee_1588 = pg_id, vxlan, ieee_1588


class STLFlowLatencyStats(STLFlowStats):
    pass


class STLTaggedPktGroup(STLFlowStats):
    def __init__(self, tpgid: int) -> None:
        super().__init__(tpgid)


def _number(value: Any) -> int:
    if isinstance(value, str):
        return int(ipaddress.IPv4Address(value))
    if not isinstance(value, int):
        raise STLError(f"{value!r} is no whole number and no IPv4 address")
    return value


class STLVmFlowVar:
    def __init__(
        self,
        name: str,
        init_value: Any = None,
        min_value: Any = 0,
        max_value: Any = 255,
        size: int = 4,
        step: Any = 1,
        op: str = "inc",
        value_list: Any = None,
        split_to_cores: bool = True,  # noqa: ARG002 - one sender has all values
        next_var: str | None = None,
    ) -> None:
        if size not in _SIZES or op not in {"inc", "dec", "random"}:
            raise STLError(f"variable {name!r} has size {size!r} and op {op!r}: 1, 2, 4 or 8, and inc, dec or random")
        self.name, self.size, self.op, self.next_var = name, size, op, next_var
        self.values = None if value_list is None else [_number(value) for value in value_list]
        self.least, self.most, self.step = _number(min_value), _number(max_value), _number(step)
        first = init_value if init_value is not None else max_value if op == "dec" else min_value
        self.first = _number(first)
        if not 0 <= self.least <= self.most < 1 << 8 * size or self.step < 1:
            raise STLError(
                f"variable {name!r} cannot count from {self.least} to {self.most} by {self.step} in {size} bytes"
            )


class STLVmFlowVarRepeatableRandom:
    def __init__(self, name: str, *rest: Any, **more: Any) -> None:  # noqa: ARG002 - refused later
        self.name = name


STLVmFlowVarRepetableRandom = STLVmFlowVarRepeatableRandom


class STLVmTupleGen:
    def __init__(
        self,
        name: str,
        ip_min: Any = "0.0.0.1",
        ip_max: Any = "0.0.0.10",
        port_min: int = 1025,
        port_max: int = 65535,
        limit_flows: int = 100000,
        flags: int = 0,
    ) -> None:
        self.name, self.limit, self.flags = name, limit_flows, flags
        self.ip, self.port = (_number(ip_min), _number(ip_max)), (port_min, port_max)


class STLVmWrFlowVar:
    def __init__(
        self, fv_name: str, pkt_offset: Any, offset_fixup: int = 0, add_val: int = 0, is_big: bool = True
    ) -> None:
        self.name, self.offset, self.fixup, self.add, self.big = fv_name, pkt_offset, offset_fixup, add_val, is_big
        self.cast, self.mask, self.shift = 0, -1, 0


class STLVmWrMaskFlowVar(STLVmWrFlowVar):
    def __init__(
        self,
        fv_name: str,
        pkt_offset: Any,
        pkt_cast_size: int = 1,
        mask: int = 0xFF,
        shift: int = 0,
        add_value: int = 0,
        offset_fixup: int = 0,
        is_big: bool = True,
    ) -> None:
        super().__init__(fv_name, pkt_offset, offset_fixup, add_value, is_big)
        self.cast, self.mask, self.shift = pkt_cast_size, mask, shift


class STLVmFixIpv4:
    """All checksums are right here, also those that a profile does not fix."""

    def __init__(self, offset: Any) -> None:
        self.offset = offset


class STLVmFixChecksumHw(STLVmFixIpv4):
    def __init__(self, l3_offset: Any, l4_offset: Any, l4_type: Any) -> None:  # noqa: ARG002
        super().__init__(l3_offset)


class STLVmFixIcmpv6(STLVmFixIpv4):
    def __init__(self, l3_offset: Any, l4_offset: Any) -> None:  # noqa: ARG002
        super().__init__(l3_offset)


class CTRexVmInsFixHwCs:
    L4_TYPE_UDP, L4_TYPE_TCP, L4_TYPE_IP = 11, 13, 17


class STLVmTrimPktSize:
    def __init__(self, fv_name: str) -> None:
        self.name = fv_name


class STLScVmRaw:
    def __init__(self, list_of_commands: Any = None, cache_size: int | None = None) -> None:
        self.commands, self.cache_size = list(list_of_commands or ()), cache_size

    def add_cmd(self, command: Any) -> None:
        self.commands.append(command)


class STLVM(STLScVmRaw):
    """The same with a method for each command, whose arguments differ a little."""

    def __init__(self) -> None:
        super().__init__()

    def set_cached(self, cache_size: int) -> None:
        self.cache_size = cache_size

    def var(self, name: str, min_value: Any, max_value: Any, size: int, op: str, step: Any = 1, **more: Any) -> None:
        self.add_cmd(STLVmFlowVar(name, min_value=min_value, max_value=max_value, size=size, op=op, step=step, **more))

    def repeatable_random_var(self, fv_name: str, *rest: Any, **more: Any) -> None:
        self.add_cmd(STLVmFlowVarRepeatableRandom(fv_name, *rest, **more))

    def tuple_var(self, name: str, *rest: Any, **more: Any) -> None:
        self.add_cmd(STLVmTupleGen(name, *rest, **{"limit_flows": 0, **more} if len(rest) < 5 else more))

    def write(
        self, fv_name: str, pkt_offset: Any, offset_fixup: int = 0, add_val: int = 0, byte_order: str = "big"
    ) -> None:
        self.add_cmd(STLVmWrFlowVar(fv_name, pkt_offset, offset_fixup, add_val, byte_order == "big"))

    def write_mask(
        self,
        fv_name: str,
        pkt_offset: Any,
        pkt_cast_size: int,
        mask: int,
        shift: int = 0,
        offset_fixup: int = 0,
        add_val: int = 0,
        byte_order: str = "big",
    ) -> None:
        order = byte_order == "big"
        self.add_cmd(STLVmWrMaskFlowVar(fv_name, pkt_offset, pkt_cast_size, mask, shift, add_val, offset_fixup, order))

    def trim(self, fv_name: str) -> None:
        self.add_cmd(STLVmTrimPktSize(fv_name))

    def fix_chksum(self, offset: Any = "IP") -> None:
        self.add_cmd(STLVmFixIpv4(offset))

    def fix_chksum_hw(self, l3_offset: Any, l4_offset: Any, l4_type: Any) -> None:
        self.add_cmd(STLVmFixChecksumHw(l3_offset, l4_offset, l4_type))

    def fix_chksum_icmpv6(self, l3_offset: Any, l4_offset: Any) -> None:
        self.add_cmd(STLVmFixIcmpv6(l3_offset, l4_offset))


class STLPktBuilder:
    def __init__(
        self,
        pkt: Any = None,
        pkt_buffer: bytes | None = None,
        vm: Any = None,
        path_relative_to_profile: bool = False,
        build_raw: bool = False,
        remove_fcs: bool = True,
    ) -> None:
        from scapy.layers.l2 import Ether  # noqa: PLC0415 - this process begins with what it may refuse

        if isinstance(pkt, str):
            from pytest_nfvperf.model.traffic.capture_file import read_capture  # noqa: PLC0415

            base = Path(inspect.stack()[1].filename).parent if path_relative_to_profile else Path()
            pkt = Ether(read_capture(base / pkt)[0])
        elif pkt is None and pkt_buffer is not None:
            pkt = Ether(pkt_buffer)
        self.pkt = pkt
        self.vm = STLScVmRaw(vm) if isinstance(vm, list) else vm
        self.build_raw, self.remove_fcs = build_raw, remove_fcs


class STLStream:
    def __init__(  # noqa: PLR0913 - TRex's own
        self,
        name: Any = None,
        packet: Any = None,
        mode: Any = None,
        enabled: bool = True,
        self_start: bool = True,
        isg: float = 0.0,
        flow_stats: Any = None,
        next: Any = None,  # noqa: A002
        stream_id: Any = None,  # noqa: ARG002
        action_count: int = 0,  # noqa: ARG002
        random_seed: int = 0,  # noqa: ARG002 - our random order is a fixed one
        mac_src_override_by_pkt: Any = None,  # noqa: ARG002 - addresses that the packet sets are sent
        mac_dst_override_mode: Any = None,  # noqa: ARG002
        dummy_stream: bool = False,
        start_paused: bool = False,
        core_id: int = -1,  # noqa: ARG002
    ) -> None:
        from scapy.layers.inet import IP  # noqa: PLC0415
        from scapy.layers.l2 import Ether  # noqa: PLC0415

        self.name, self.mode, self.enabled, self.isg = name, mode or STLTXCont(), enabled, isg
        self.packet = packet if packet is not None else STLPktBuilder(pkt=Ether() / IP())
        self.flow_stats, self.next, self.self_start = flow_stats, next, self_start
        self.dummy_stream, self.start_paused = dummy_stream, start_paused


class STLProfile:
    def __init__(self, streams: Any = None) -> None:
        self.streams = [streams] if isinstance(streams, STLStream) else list(streams or ())

    def get_streams(self) -> list[STLStream]:
        return self.streams


def STLIPRange(src: Any = None, dst: Any = None, fix_chksum: bool = True) -> list[Any]:  # noqa: N802
    made: list[Any] = []
    for name, given in (("src", src), ("dst", dst)):
        if given:
            made.append(STLVmFlowVar(name, None, given["start"], given["end"], 4, given["step"]))
            made.append(STLVmWrFlowVar(name, f"IP.{name}"))
    return made + [STLVmFixIpv4("IP")] * fix_chksum


_KNOWN: tuple[Any, ...] = (
    *(STLTXCont, STLTXSingleBurst, STLTXMultiBurst, STLFlowStats, STLFlowLatencyStats, STLTaggedPktGroup),
    *(STLVmFlowVar, STLVmFlowVarRepeatableRandom, STLVmTupleGen, STLVmWrFlowVar, STLVmWrMaskFlowVar, STLVmTrimPktSize),
    *(STLVmFixIpv4, STLVmFixChecksumHw, STLVmFixIcmpv6, CTRexVmInsFixHwCs, STLScVmRaw, STLVM, STLIPRange),
    *(STLPktBuilder, STLStream, STLProfile, STLError),
)


# Running a profile.


def library() -> ModuleType:
    """The module that profiles import: what is known, scapy, and a few modules of Python."""
    import scapy.all  # noqa: PLC0415

    api = ModuleType(LIBRARIES[0], "Stands in for TRex's client library.")
    names = {name: value for name, value in vars(scapy.all).items() if not name.startswith("_")}
    names |= {name: importlib.import_module(name) for name in _MODULES}
    names |= {each.__name__: each for each in _KNOWN}
    names |= {"STLVmFlowVarRepetableRandom": STLVmFlowVarRepeatableRandom}
    names |= {"STLStreamDstMAC_CFG_FILE": 0, "STLStreamDstMAC_PKT": 1, "STLStreamDstMAC_ARP": 2}
    vars(api).update(names)
    return api


def _install(api: ModuleType) -> None:
    for name in LIBRARIES:
        sys.modules[name] = api
        while "." in name:
            name, _, attribute = name.rpartition(".")
            package = sys.modules.setdefault(name, ModuleType(name))
            package.__path__ = []
            setattr(package, attribute, api if attribute == "api" else sys.modules[f"{name}.{attribute}"])


def run_profile(path: Path, direction: int, tunables: Mapping[str, Any]) -> list[STLStream]:
    """The streams that the profile makes. Whatever it raises goes through."""
    _install(library())
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise STLError("is no Python file: name an STL profile, such as imix.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "register"):
        raise STLError("has no register(), which gives TRex the object whose get_streams() makes the streams")
    made = _call(module.register().get_streams, direction, tunables)
    made = made.get_streams() if isinstance(made, STLProfile) else made
    streams = [made] if isinstance(made, STLStream) else list(made or ())
    if other := next((each for each in streams if not isinstance(each, STLStream)), None):
        raise STLError(f"get_streams() gives {other!r:.80}, which is no STLStream")
    return streams


def _call(get_streams: Callable[..., Any], direction: int, tunables: Mapping[str, Any]) -> Any:
    """Tunables are options for argparse in profiles of today, and arguments in those of before."""
    listed = [text for name, value in tunables.items() for text in (f"--{name}", str(value))]
    given = {"direction": direction, "port_id": direction, "tunables": listed, **tunables}
    parameters = inspect.signature(get_streams).parameters
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        given = {name: value for name, value in given.items() if name in parameters}
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            return get_streams(**given)
    except SystemExit:
        last = (stderr.getvalue().strip().splitlines() or ["it ended the program"])[-1]
        raise STLError(f"does not take the tunables {dict(tunables)}: {last.rpartition('error: ')[2]}") from None


def mistake(error: BaseException, path: Path) -> dict[str, Any]:
    """What the profile did, as one sentence, with the line of it."""
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    line = lines[-1] if lines else None
    text = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        line, text = error.lineno, f"is no Python: {error.msg}"
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in {"trex", "trex_stl_lib"}:
        text = f"imports {error.name}, of which only {' and '.join(LIBRARIES)} is known here: streams of STLStream"
    elif isinstance(error, ModuleNotFoundError):
        text = f"imports {error.name}, which is not there: install it, or put it beside the profile"
    elif isinstance(error, ImportError):
        text = f"cannot be imported: {text}"
    elif isinstance(error, NameError) and (error.name or "").startswith(("STL", "CTRex")):
        text = f"uses {error.name}, which is not known here: its streams cannot be kept"
    elif not isinstance(error, (STLError, NotKeptError)):
        text = f"raises {type(error).__name__}: {text}"
    return {"error": text, "line": line}


# What a stream sends, as a packet and fields that vary.


@dataclass(slots=True)
class Counter:
    """The values of a variable: ``count`` of them from ``first`` on by ``step``; ``every``: frames between changes."""

    size: int
    first: int
    step: int
    count: int
    order: str = "up"
    follows: str = ""


@dataclass(slots=True)
class StreamPacket:
    """A stream's packet while its commands are applied to it.

    Attributes:
        fields: name, first bit and number of bits of each field, in the order of the frame.
        vary: as arguments of Vary.
    """

    packet: Any
    fields: list[tuple[str, int, int]] = field(default_factory=list)
    vary: list[dict[str, Any]] = field(default_factory=list)


def kept(stream: STLStream, number: int) -> dict[str, Any]:
    """The stream as JSON; NotKeptError for what a traffic cannot do."""
    name = str(stream.name or f"stream{number}")
    try:
        return {"name": name, **_kept(stream)}
    except NotKeptError as error:
        raise NotKeptError(f"stream {name!r} {error}") from None


def _kept(stream: STLStream) -> dict[str, Any]:
    for what, is_so in (
        ("sends a burst (STLTXSingleBurst)", isinstance(stream.mode, STLTXSingleBurst)),
        ("sends bursts (STLTXMultiBurst)", isinstance(stream.mode, STLTXMultiBurst)),
        ("starts after another stream (self_start=False)", not stream.self_start),
        (f"is followed by another one (next={stream.next!r})", stream.next is not None),
        ("sends nothing (dummy_stream)", stream.dummy_stream),
        ("starts paused (start_paused)", stream.start_paused),
        ("has its own rate to sample latency (STLFlowLatencyStats)", type(stream.flow_stats) is STLFlowLatencyStats),
        ("is of a tagged packet group (STLTaggedPktGroup)", type(stream.flow_stats) is STLTaggedPktGroup),
    ):
        if is_so:
            raise NotKeptError(f"{what}, which cannot be kept: a traffic sends all of its streams at a constant rate")
    packet = stream.packet.pkt
    size = max(64, len(bytes(packet)) + 4)
    made = StreamPacket(_without_payload(packet))
    made.fields = list(_fields_of(made.packet))
    joint = _apply(stream.packet.vm.commands if stream.packet.vm else (), made)
    return {
        "packet": made.packet.command(),
        "size": size,
        "unit": stream.mode.unit,
        "rate": stream.mode.value,
        "vary": made.vary,
        "together": joint,
    }


def _without_payload(packet: Any) -> Any:
    """A copy that ends with its last header: payload is where the signature and the padding are."""
    copy = packet.copy()
    layer = copy
    while layer.payload and type(layer.payload).__name__ not in {"Raw", "Padding"}:
        layer = layer.payload
    layer.remove_payload()
    return copy


def _fields_of(packet: Any) -> Iterator[tuple[str, int, int]]:
    total, seen, layer = len(bytes(packet)), dict[str, int](), packet
    while layer:
        start = (total - len(bytes(layer))) * 8
        kind = type(layer).__name__
        seen[kind] = seen.get(kind, 0) + 1
        prefix = kind if seen[kind] == 1 else f"{kind}[{seen[kind]}]"
        data: Any = b""
        for each in layer.fields_desc:
            before = _bits(data)
            data = each.addfield(layer, data, layer.getfieldval(each.name))
            if _bits(data) > before:
                yield f"{prefix}.{each.name}", start + before, _bits(data) - before
        layer = layer.payload


def _bits(data: Any) -> int:
    """Scapy gives what is not a whole number of bytes as (bytes, bits, value)."""
    return len(data[0]) * 8 + data[1] if isinstance(data, tuple) else len(data) * 8


def _apply(commands: Sequence[Any], made: StreamPacket) -> bool:
    """Let the fields vary that the commands write. Whether they are counted jointly."""
    counters: dict[str, Counter] = {}
    for command in commands:
        match command:
            case STLVmTrimPktSize():
                raise NotKeptError(f"varies its size with {command.name!r} (STLVmTrimPktSize): give an IMIX instead")
            case STLVmFlowVarRepeatableRandom():
                raise NotKeptError(
                    f"has a repeatable random variable {command.name!r}: write STLVmFlowVar(op='random'), which "
                    "repeats nothing here"
                )
            case STLVmTupleGen():
                counters |= _of_tuple(command)
            case STLVmFlowVar():
                counters[command.name] = _counter_of(command)
            case STLVmWrFlowVar():
                if command.name not in counters:
                    raise NotKeptError(f"writes {command.name!r}, a variable that it does not have")
                _write(command, counters[command.name], made)
            case STLVmFixIpv4():
                pass
            case _:
                raise NotKeptError(f"has the command {type(command).__name__}, which is not known here")
    return _jointly(counters, made)


def _counter_of(variable: STLVmFlowVar) -> Counter:
    if variable.values is not None:
        return _of_list(variable)
    least, most, step = variable.least, variable.most, variable.step
    begin = most if variable.op == "dec" else least
    if variable.op == "random":
        return Counter(variable.size, least, 1, most - least + 1, "random", variable.next_var or "")
    if variable.first != begin:
        raise NotKeptError(f"has a variable {variable.name!r} that begins at {variable.first}: leave init_value out")
    count = (most - least) // step + 1
    return Counter(variable.size, begin, -step if variable.op == "dec" else step, count, "up", variable.next_var or "")


def _of_list(variable: STLVmFlowVar) -> Counter:
    values = variable.values or []
    if variable.op == "dec":
        values = values[::-1]
    steps = {after - before for before, after in zip(values, values[1:], strict=False)} or {1}
    if len(steps) != 1 or variable.op == "random" or not values:
        raise NotKeptError(f"has a value_list in {variable.name!r} that is no range, such as 1, 3, 5")
    return Counter(variable.size, values[0], steps.pop(), len(values), "up", variable.next_var or "")


def _of_tuple(generator: STLVmTupleGen) -> dict[str, Counter]:
    addresses = generator.ip[1] - generator.ip[0] + 1
    ports = generator.port[1] - generator.port[0] + 1
    if generator.flags:
        raise NotKeptError(f"has flags in {generator.name!r} (STLVmTupleGen): leave them out")
    if generator.limit and generator.limit < addresses * ports:
        if generator.limit % addresses and generator.limit > addresses:
            raise NotKeptError(
                f"has {generator.limit} flows of {addresses} addresses in {generator.name!r} (STLVmTupleGen): write "
                f"limit_flows={generator.limit // addresses * addresses}, a multiple"
            )
        addresses, ports = min(addresses, generator.limit), max(1, generator.limit // addresses)
    address, port = f"{generator.name}.ip", f"{generator.name}.port"
    return {
        address: Counter(4, generator.ip[0], 1, addresses, follows=port),
        port: Counter(2, generator.port[0], 1, ports),
    }


def _jointly(counters: Mapping[str, Counter], made: StreamPacket) -> bool:
    """True if all variables are one chain, each counting when the one before it begins again; puts them in order."""
    following = {name: each.follows for name, each in counters.items() if each.follows}
    if not following:
        return False
    chain = [name for name in counters if name not in following.values()]
    while chain and chain[-1] in following:
        chain.append(following[chain[-1]])
    places = [each["variable"] for each in made.vary]
    if len(chain) != len(counters) or len(set(places)) != len(places):
        raise NotKeptError("counts some variables jointly, and others by themselves or twice, which cannot be kept")
    made.vary.sort(key=lambda each: chain.index(each["variable"]))
    return True


def _write(command: STLVmWrFlowVar, counter: Counter, made: StreamPacket) -> None:
    """Vary the field that holds the bits which differ; the others of what is written become the packet's."""
    first, last, step, size = _written(command, counter)
    start = (_offset(command.offset, made) + command.fixup) * 8
    bits = size * 8
    varying = (first ^ last).bit_length() if counter.count > 1 else 0
    mask = command.mask & ((1 << bits) - 1) if command.cast else (1 << bits) - 1
    if varying and ((first | last | (1 << varying) - 1) & ((1 << varying) - 1)) & ~mask:
        raise NotKeptError(f"masks bits of {command.name!r} that differ (mask={command.mask:#x}), which cannot be kept")
    if not command.big:
        first, last, step, start, bits = _little_endian(command, first, last, step, start, bits, varying)
        mask = (1 << bits) - 1
    touched = [each for each in made.fields if each[1] < start + bits and each[1] + each[2] > start]
    if not touched or start + bits > made.fields[-1][1] + made.fields[-1][2]:
        raise NotKeptError(f"writes {command.name!r} behind its headers, into the payload")
    end = start + bits
    inside = [each for each in touched if each[1] <= end - varying and end - 1 < each[1] + each[2]]
    for name, at, width in touched:
        _set_bits(made.packet, name, width, at + width - end, first, mask)
    if not varying:
        return
    if not inside:
        raise NotKeptError(f"writes {command.name!r} across {' and '.join(name for name, _, _ in touched)}")
    name, at, width = inside[0]
    made.vary.append(
        {
            "variable": command.name,
            "field": name,
            "count": counter.count,
            "step": step << at + width - end,
            "order": counter.order,
        }
    )


def _written(command: STLVmWrFlowVar, counter: Counter) -> tuple[int, int, int, int]:
    """First and last value, the step between them, and the bytes that are written."""
    size = command.cast or counter.size
    first = counter.first + command.add
    last = first + counter.step * (counter.count - 1)
    if command.shift < 0:
        raise NotKeptError(f"shifts {command.name!r} to the right, so that it keeps its value for several frames")
    first, last, step = (value << command.shift for value in (first, last, counter.step))
    if min(first, last) < 0 or max(first, last) >= 1 << 8 * size:
        raise NotKeptError(f"writes {command.name!r} into {size * 8} bits, which its values do not fit")
    return first, last, step, size


def _little_endian(
    command: STLVmWrFlowVar, first: int, last: int, step: int, start: int, bits: int, varying: int
) -> tuple[int, int, int, int, int]:
    if varying > 8 or first >> 8:
        raise NotKeptError(f"writes {command.name!r} lowest byte first, and more than that byte differs or is set")
    return first, last, step, start, min(8, bits)


def _offset(given: Any, made: StreamPacket) -> int:
    """In bytes, of an offset or of a field as TRex names it: ``IP:1.src``, ``802|1Q.vlan``."""
    if isinstance(given, int):
        return given
    layer, _, name = str(given).partition(".")
    kind, _, number = layer.replace("|", ".").partition(":")
    at, seen, packet = 0, 0, made.packet
    while packet:
        if kind in {type(packet).__name__, packet.name}:
            if seen == int(number or 0):
                break
            seen += 1
        at, packet = at + 1, packet.payload
    if not packet:
        raise NotKeptError(f"writes to {given!r}, and its packet has no such layer: {made.packet.summary()}")
    scapy_name = type(packet).__name__
    earlier = sum(type(each).__name__ == scapy_name for each in _layers(made.packet, at))
    prefix = scapy_name if not earlier else f"{scapy_name}[{earlier + 1}]"
    found = next((start for field_name, start, _ in made.fields if field_name == f"{prefix}.{name}"), None)
    if found is None:
        raise NotKeptError(f"writes to {given!r}, and {scapy_name} has no such field")
    return found // 8


def _layers(packet: Any, most: int) -> Iterator[Any]:
    for _ in range(most):
        yield packet
        packet = packet.payload


def _set_bits(packet: Any, name: str, width: int, shift: int, value: int, mask: int) -> None:
    """Set those bits of a field that a window covers. ``shift``: by which the field ends behind the window."""
    layer_name, _, attribute = name.partition(".")
    kind, _, number = layer_name.rstrip("]").partition("[")
    layer = packet.getlayer(kind, int(number or 1))
    old = layer.getfieldval(attribute)
    window = mask << shift if shift >= 0 else mask >> -shift
    part = value << shift if shift >= 0 else value >> -shift
    number_before = _as_number(old)
    number_now = (number_before & ~window | part & window) & ((1 << width) - 1)
    if number_now != number_before:
        setattr(layer, attribute, _like(old, number_now))


def _as_number(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and value.count(":") == 5:
        return int(value.replace(":", ""), 16)
    return int(ipaddress.ip_address(value)) if isinstance(value, str) else int(value)


def _like(old: Any, number: int) -> Any:
    if not isinstance(old, str):
        return number
    return number.to_bytes(6, "big").hex(":") if old.count(":") == 5 else str(type(ipaddress.ip_address(old))(number))


def main() -> None:
    """Read the request from stdin: path, direction, tunables. What the profile prints goes to stderr."""
    request = json.load(sys.stdin)
    answer, path = os.fdopen(os.dup(1), "w"), Path(request["path"])
    os.dup2(2, 1)
    try:
        streams = run_profile(path, request["direction"], request["tunables"])
        made = [kept(each, number) for number, each in enumerate(streams, 1) if each.enabled]
        loaded = [name.removeprefix("scapy.contrib.") for name in sys.modules if name.startswith("scapy.contrib.")]
        found: dict[str, Any] = {"streams": made, "load": loaded}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a profile can raise anything
        found = mistake(error, path)
    with answer:
        json.dump(found, answer)


if __name__ == "__main__":
    main()
