"""STL profiles as traffic: each continuous stream is a class of it, and its rate is the class's share of the load.

A profile is a Python program that imports TRex's client library. It runs in a child process, ``python -m`` this module,
and gets ours in its place (stl_library.py): so it runs without TRex, with our scapy, and builds the same everywhere.
What a traffic cannot do is refused by its name, since a profile that is kept in part would be another one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import ipaddress
import json
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.config.traffic_file import packet_of
from pytest_nfvperf.features.trex.stl_library import (
    LIBRARIES,
    Ignored,
    Refused,
    STLError,
    STLProfile,
    STLStream,
    STLVmFlowVar,
    STLVmTupleGen,
    STLVmWrFlowVar,
    STLVmWrMaskFlowVar,
    library,
    number_of,
)
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, TestbedError
from pytest_nfvperf.model.traffic.captures import walk
from pytest_nfvperf.model.traffic.frame_program import MOST_RANDOM
from pytest_nfvperf.model.traffic.mix import MOST_CLASSES, AnyTraffic, TrafficMix
from pytest_nfvperf.model.traffic.packet_program import Vary, is_computed
from pytest_nfvperf.model.traffic.traffic import WIRE_OVERHEAD_BYTES, Imix, Traffic

_MODULE = "pytest_nfvperf.features.trex.profiles"
_DEADLINE_S = 60.0
"""A profile is some lines; importing scapy takes a second, and our machines can be busy."""


@dataclass(frozen=True, slots=True)
class ProfileStream:
    """A stream as the child process describes it.

    Attributes:
        packet: its headers as text; what follows them in ``size`` is signature and pattern.
        size: bytes with FCS.
        unit, rate: pps, bps_L1, bps_L2 or percentage.
        vary: fields with count, step and order, each with the packet's value first.
        together: they are counted jointly.
    """

    name: str
    packet: str
    size: int
    unit: str
    rate: float
    vary: Sequence[Mapping[str, Any]]
    together: bool

    def traffic(self, load: Sequence[str], frame_size: int | Imix | None) -> Traffic:
        try:
            vary = tuple(Vary(one["field"], one["count"], step=one["step"], order=one["order"]) for one in self.vary)
            size = self.size if frame_size is None else frame_size
            return Traffic(frame_size=size, packet=packet_of(self.packet, load), vary=vary, together=self.together)
        except ConfigError as error:
            too_small = frame_size is None and not isinstance(error, ArgumentError)
            hint = "; give another frame_size for all streams" if too_small else ""
            raise ConfigError(f"stream {self.name!r}: {error.message}{hint}") from error

    @property
    def frames(self) -> float:
        """Frames/s, or the share of a link in percent as if it were 1 bit/s: only ratios matter."""
        bits = {"pps": 1, "bps_L2": self.size * 8}.get(self.unit, (self.size + WIRE_OVERHEAD_BYTES) * 8)
        return self.rate / bits


def traffic_of_profile(
    file: str | Path,
    tunables: Mapping[str, Any] | None = None,
    direction: int = 0,
    frame_size: int | Imix | None = None,
) -> AnyTraffic:
    """What an STL profile sends: a Traffic, or a TrafficMix if it has several streams.

    Args:
        file: the profile.
        tunables: its options by name, without dashes.
        direction: 0 or 1, as the profile's get_streams() takes it.
        frame_size: in place of the profile's, for streams whose frames have no room for the signature.

    Raises:
        ConfigError: it cannot be run, or does what a traffic cannot: names file and line, or the stream.
    """
    path = Path(file).absolute()
    if not path.is_file():
        raise ConfigError("is no file: name an STL profile of TRex, such as stl/imix.py", file=str(file))
    streams, load = _built(path, str(file), dict(tunables or {}), direction)
    try:
        return _combined(streams, load, frame_size)
    except ConfigError as error:
        if error.file is not None:
            raise
        raise ConfigError(error.message, file=str(file)) from error


def _built(
    path: Path, shown: str, tunables: Mapping[str, Any], direction: int
) -> tuple[list[ProfileStream], list[str]]:
    request = json.dumps({"path": str(path), "direction": direction, "tunables": tunables})
    try:
        answer = json.loads(run([sys.executable, "-m", _MODULE], deadline_s=_DEADLINE_S, stdin=request))
    except TestbedError as error:
        last = (error.evidence.get("stderr") or error.message).strip().splitlines()[-1]
        raise ConfigError(f"did not give its streams within {_DEADLINE_S:g} s: {last}", file=shown) from error
    if "error" in answer:
        raise ConfigError(answer["error"], file=shown, line=answer["line"])
    streams = [ProfileStream(**each) for each in answer["streams"]]
    if not streams:
        raise ConfigError(f"gives no stream for direction {direction}", file=shown)
    if len(streams) > MOST_CLASSES:
        raise ConfigError(f"has {len(streams)} streams, and at most {MOST_CLASSES} are sent at once", file=shown)
    return streams, answer["load"]


def _combined(streams: Sequence[ProfileStream], load: Sequence[str], frame_size: int | Imix | None) -> AnyTraffic:
    if len({each.unit == "percentage" for each in streams}) > 1:
        raise ConfigError("gives rates in percent of a link and in others: their ratio depends on the link")
    made = [each.traffic(load, frame_size) for each in streams]
    if len(made) == 1:
        return made[0]
    total = sum(each.frames for each in streams)
    names = [each.name if each.name.isidentifier() else f"stream{number}" for number, each in enumerate(streams, 1)]
    if len(set(names)) < len(names):
        names = [f"stream{number}" for number in range(1, len(names) + 1)]
    return TrafficMix(
        **{name: (sent, each.frames / total) for name, sent, each in zip(names, made, streams, strict=True)}
    )


# The child process: runs a profile, and prints what it builds as JSON.


class ProfileError(Exception):
    """What a stream does and a traffic cannot do. ``stream``: its name."""


def _install(api: ModuleType) -> None:
    for name in LIBRARIES:
        sys.modules[name] = module = api
        parts = name.split(".")
        for depth in range(len(parts) - 1, 0, -1):
            package = sys.modules.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
            package.__path__ = []
            setattr(package, parts[depth], module)
            module = package


def run_profile(path: Path, direction: int, tunables: Mapping[str, Any]) -> list[STLStream]:
    """The streams that the profile makes. Whatever it raises goes through."""
    sys.argv = [str(path)]
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
        name = re.search(r"cannot import name '(\w+)'", text)
        text = f"imports {name[1]}, which is not known here" if name else f"cannot be imported: {text}"
    elif isinstance(error, NameError) and (error.name or "").startswith(("STL", "CTRex")):
        text = f"uses {error.name}, which is not known here"
    elif not isinstance(error, (STLError, ProfileError, ConfigError)):
        text = f"raises {type(error).__name__}: {text}"
    return {"error": text, "line": line}


# What a stream sends, as a packet and fields that vary.


@dataclass(slots=True)
class CountedVariable:
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


def converted(stream: STLStream, number: int) -> dict[str, Any]:
    """The stream as JSON; ProfileError for what a traffic cannot do."""
    name = str(stream.name or f"stream{number}")
    try:
        return {"name": name, **_convert(stream)}
    except ProfileError as error:
        raise ProfileError(f"stream {name!r} {error}") from None


def _convert(stream: STLStream) -> dict[str, Any]:
    for what, is_so in (
        (getattr(stream.mode, "why", ""), isinstance(stream.mode, Refused)),
        ("starts after another stream (self_start=False)", not stream.self_start),
        (f"is followed by another one (next={stream.next!r})", stream.next is not None),
        ("sends nothing (dummy_stream)", stream.dummy_stream),
        ("starts paused (start_paused)", stream.start_paused),
        (getattr(stream.flow_stats, "why", ""), isinstance(stream.flow_stats, Refused)),
    ):
        if is_so:
            raise ProfileError(f"{what}, which cannot be kept: a traffic sends all of its streams at a constant rate")
    packet = stream.packet.pkt
    size = max(64, len(bytes(packet)) + 4)
    made = StreamPacket(_of_bytes(packet) if stream.packet.from_bytes else _without_payload(packet))
    made.fields = list(_fields_of(made.packet))
    joint = _apply(stream.packet.vm.commands if stream.packet.vm else (), made)
    return {
        "packet": made.packet.command(),
        "size": size,
        "unit": stream.mode.unit,
        "rate": stream.mode.rate,
        "vary": made.vary,
        "together": joint,
    }


def _of_bytes(packet: Any) -> Any:
    """The headers of a packet that scapy parsed, without lengths and checksums that it would compute itself.

    Scapy also finds headers in payload, such as DNS by a port; they are no headers here.
    """
    data = bytes(packet)
    computed = packet.copy()
    for layer in _layers(computed):
        for name in [each for each in layer.fields if is_computed(type(layer), each)]:
            delattr(layer, name)
    copy = computed if bytes(computed) == data else packet.copy()
    *_, last = _layers(copy, len(walk(data).layers))
    last.remove_payload()
    return copy


def _without_payload(packet: Any) -> Any:
    """A copy that ends with its last header: payload is where the signature and the padding are."""
    copy = packet.copy()
    layer = copy
    while layer.payload and type(layer.payload).__name__ not in {"Raw", "Padding"}:
        layer = layer.payload
    layer.remove_payload()
    return copy


def _fields_of(packet: Any) -> Iterator[tuple[str, int, int]]:
    total, layers_of_kind = len(bytes(packet)), Counter[str]()
    for layer in _layers(packet):
        start = (total - len(bytes(layer))) * 8
        kind = type(layer).__name__
        layers_of_kind[kind] += 1
        prefix = kind if layers_of_kind[kind] == 1 else f"{kind}[{layers_of_kind[kind]}]"
        data: Any = b""
        for layer_field in layer.fields_desc:
            before = _bits(data)
            data = layer_field.addfield(layer, data, layer.getfieldval(layer_field.name))
            if _bits(data) > before:
                yield f"{prefix}.{layer_field.name}", start + before, _bits(data) - before


def _bits(data: Any) -> int:
    """Scapy gives what is not a whole number of bytes as (bytes, bits, value)."""
    return len(data[0]) * 8 + data[1] if isinstance(data, tuple) else len(data) * 8


def _apply(commands: Sequence[Any], made: StreamPacket) -> bool:
    """Let the fields vary that the commands write. Whether they are counted jointly."""
    counters: dict[str, CountedVariable] = {}
    randoms = sum(isinstance(each, STLVmFlowVar) and each.op == "random" for each in commands)
    for command in commands:
        match command:
            case Refused():
                raise ProfileError(command.why)
            case STLVmTupleGen():
                counters |= _of_tuple(command)
            case STLVmFlowVar():
                # Of more values than there can be, every second one is sent, or every third.
                counters[command.name] = _counter_of(command, MOST_RANDOM // max(1, randoms))
            case STLVmWrFlowVar() | STLVmWrMaskFlowVar():
                if command.fv_name not in counters:
                    raise ProfileError(f"writes {command.fv_name!r}, a variable that it does not have")
                _write(command, counters[command.fv_name], made)
            case Ignored():
                pass
            case _:
                raise ProfileError(f"has the command {type(command).__name__}, which is not known here")
    return _jointly(counters, made)


def _counter_of(variable: STLVmFlowVar, most_random: int) -> CountedVariable:
    if variable.values:
        return _of_list(variable)
    least, most, step, begin = variable.least, variable.most, variable.step, variable.begin
    if variable.op == "random":
        step = -(-(most - least + 1) // most_random)
        return CountedVariable(
            variable.size, least, step, (most - least) // step + 1, "random", variable.next_var or ""
        )
    if variable.init_value is not None and number_of(variable.init_value) != begin:
        raise ProfileError(
            f"has a variable {variable.name!r} that begins at {variable.init_value}: leave init_value out"
        )
    count = (most - least) // step + 1
    step = -step if variable.op == "dec" else step
    return CountedVariable(variable.size, begin, step, count, "up", variable.next_var or "")


def _of_list(variable: STLVmFlowVar) -> CountedVariable:
    values = variable.values
    if variable.op == "dec":
        values = values[::-1]
    steps = {after - before for before, after in pairwise(values)} or {1}
    if len(steps) != 1 or variable.op == "random":
        raise ProfileError(f"has a value_list in {variable.name!r} that is no range, such as 1, 3, 5")
    return CountedVariable(variable.size, values[0], steps.pop(), len(values), "up", variable.next_var or "")


def _of_tuple(generator: STLVmTupleGen) -> dict[str, CountedVariable]:
    first = number_of(generator.ip_min)
    addresses = number_of(generator.ip_max) - first + 1
    ports = generator.port_max - generator.port_min + 1
    if generator.flags:
        raise ProfileError(f"has flags in {generator.name!r} (STLVmTupleGen): leave them out")
    if generator.limit_flows and generator.limit_flows < addresses * ports:
        if generator.limit_flows % addresses and generator.limit_flows > addresses:
            raise ProfileError(
                f"limits {addresses} addresses of {generator.name!r} (STLVmTupleGen) to {generator.limit_flows} flows: "
                f"write limit_flows={generator.limit_flows // addresses * addresses}, a multiple"
            )
        addresses, ports = min(addresses, generator.limit_flows), max(1, generator.limit_flows // addresses)
    address, port = f"{generator.name}.ip", f"{generator.name}.port"
    return {
        address: CountedVariable(4, first, 1, addresses, follows=port),
        port: CountedVariable(2, generator.port_min, 1, ports),
    }


def _jointly(counters: Mapping[str, CountedVariable], made: StreamPacket) -> bool:
    """True if all variables are one chain, each counting when the one before it begins again; puts them in order."""
    following = {name: each.follows for name, each in counters.items() if each.follows}
    if not following:
        return False
    chain = [name for name in counters if name not in following.values()]
    while chain and chain[-1] in following:
        chain.append(following[chain[-1]])
    variables = [each["variable"] for each in made.vary]
    if len(chain) != len(counters) or len(set(variables)) != len(variables):
        raise ProfileError("counts some variables jointly, and others by themselves or twice, which cannot be kept")
    made.vary.sort(key=lambda each: chain.index(each["variable"]))
    return True


def _write(command: STLVmWrFlowVar | STLVmWrMaskFlowVar, counter: CountedVariable, made: StreamPacket) -> None:
    """Vary the field that holds the bits which differ; the others of what is written become the packet's."""
    first, last, step, size = _written(command, counter)
    start = (_offset(command.pkt_offset, made) + command.offset_fixup) * 8
    bits = size * 8
    varying = (first ^ last).bit_length() if counter.count > 1 else 0
    constant = (step & -step).bit_length() - 1 if varying else 0  # lowest bits, which no step changes
    mask = command.mask & ((1 << bits) - 1) if command.cast else (1 << bits) - 1
    if varying and (1 << varying) - (1 << constant) & ~mask:
        raise ProfileError(
            f"masks bits of {command.fv_name!r} that differ (mask={command.mask:#x}), which cannot be kept"
        )
    if not command.is_big:
        if varying > 8 or first >> 8:
            raise ProfileError(
                f"writes {command.fv_name!r} lowest byte first, and more than that byte differs or is set"
            )
        bits = min(8, bits)
        mask = (1 << bits) - 1
    touched = [span for span in made.fields if span[1] < start + bits and span[1] + span[2] > start]
    if not touched or start + bits > made.fields[-1][1] + made.fields[-1][2]:
        raise ProfileError(f"writes {command.fv_name!r} behind its headers, into the payload")
    end = start + bits
    inside = [span for span in touched if span[1] <= end - varying and end - constant <= span[1] + span[2]]
    for name, first_bit, width in touched:
        _set_bits(made.packet, name, width, first_bit + width - end, first, mask)
    if not varying:
        return
    if not inside:
        raise ProfileError(f"writes {command.fv_name!r} across {' and '.join(name for name, _, _ in touched)}")
    name, first_bit, width = inside[0]
    if counter.order == "random" and any(varied["variable"] == command.fv_name for varied in made.vary):
        raise ProfileError(f"writes the random variable {command.fv_name!r} twice, and here the two would differ")
    made.vary.append(
        {
            "variable": command.fv_name,
            "field": name,
            "count": counter.count,
            "step": step << first_bit + width - end if first_bit + width >= end else step >> end - first_bit - width,
            "order": counter.order,
        }
    )


def _written(command: STLVmWrFlowVar | STLVmWrMaskFlowVar, counter: CountedVariable) -> tuple[int, int, int, int]:
    """First and last value, the step between them, and the bytes that are written."""
    size = command.cast or counter.size
    first = counter.first + command.add_val
    last = first + counter.step * (counter.count - 1)
    if command.shift < 0:
        raise ProfileError(f"shifts {command.fv_name!r} to the right, so that it keeps its value for several frames")
    first, last, step = (value << command.shift for value in (first, last, counter.step))
    if min(first, last) < 0 or max(first, last) >= 1 << 8 * size:
        raise ProfileError(f"writes {command.fv_name!r} into {size * 8} bits, which its values do not fit")
    return first, last, step, size


def _offset(given: Any, made: StreamPacket) -> int:
    """In bytes, of an offset or of a field as TRex names it: ``IP:1.src``, ``802|1Q.vlan``."""
    if isinstance(given, int):
        return given
    layer, _, name = str(given).partition(".")
    kind, _, number = layer.replace("|", ".").partition(":")
    layers = [(type(packet).__name__, packet.name) for packet in _layers(made.packet)]
    depths, index = [depth for depth, names in enumerate(layers) if kind in names], int(number or 0)
    if not 0 <= index < len(depths):
        raise ProfileError(f"writes to {given!r}, and its packet has no such layer: {made.packet.summary()}")
    scapy_name, _ = layers[depths[index]]
    earlier = sum(name == scapy_name for name, _ in layers[: depths[index]])
    prefix = scapy_name if not earlier else f"{scapy_name}[{earlier + 1}]"
    first_bit = next((start for field_name, start, _ in made.fields if field_name == f"{prefix}.{name}"), None)
    if first_bit is None:
        raise ProfileError(f"writes to {given!r}, and {scapy_name} has no such field")
    return first_bit // 8


def _layers(packet: Any, most: int | None = None) -> Iterator[Any]:
    while packet and most != 0:
        yield packet
        packet, most = packet.payload, None if most is None else most - 1


def _set_bits(packet: Any, name: str, width: int, shift: int, value: int, mask: int) -> None:
    """Set those bits of a field that a window covers. ``shift``: by which the field ends behind the window."""
    layer_name, _, attribute = name.partition(".")
    of, _, number = layer_name.rstrip("]").partition("[")
    layer = packet.getlayer(of, int(number or 1))
    kind = _kind(layer, attribute)
    window = mask << shift if shift >= 0 else mask >> -shift
    part = value << shift if shift >= 0 else value >> -shift
    number_now = (_as_number(kind, layer.fields.get(attribute)) & ~window | part & window) & ((1 << width) - 1)
    setattr(layer, attribute, _as_text(kind, number_now))


_LEFT_OPEN = {"MACField": "02:00:00:00:00:00", "IPField": "198.18.0.1", "IP6Field": "2001:2::1"}
"""What a field has around the bits that are written, where the packet leaves it open."""


def _kind(layer: Any, attribute: str) -> str:
    """The class in ``_LEFT_OPEN`` that a field is of; "" for a number."""
    field = layer.get_field(attribute)
    names = [each.__name__ for each in type(getattr(field, "fld", field)).__mro__]  # scapy wraps some, for show()
    return next((kind for kind in _LEFT_OPEN if kind in names), "")


def _as_number(kind: str, value: Any) -> int:
    if not kind:
        return int(value or 0)
    text = str(value or _LEFT_OPEN[kind])
    return int(text.replace(":", ""), 16) if kind == "MACField" else int(ipaddress.ip_address(text))


def _as_text(kind: str, number: int) -> Any:
    if kind == "MACField":
        return number.to_bytes(6, "big").hex(":")
    kinds = {"IPField": ipaddress.IPv4Address, "IP6Field": ipaddress.IPv6Address}
    return str(kinds[kind](number)) if kind else number


def _contrib() -> set[str]:
    """Modules of scapy's contributions that are imported."""
    return {name.removeprefix("scapy.contrib.") for name in sys.modules if name.startswith("scapy.contrib.")}


def main() -> None:
    """Read the request from stdin: path, direction, tunables. What the profile prints goes to stderr."""
    request = json.load(sys.stdin)
    answer, path = os.fdopen(os.dup(1), "w"), Path(request["path"])
    os.dup2(2, 1)
    try:
        _install(library())
        at_start = _contrib()
        streams = run_profile(path, request["direction"], request["tunables"])
        made = [converted(stream, number) for number, stream in enumerate(streams, 1) if stream.enabled]
        described: dict[str, Any] = {"streams": made, "load": sorted(_contrib() - at_start)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a profile can raise anything
        described = mistake(error, path)
    with answer:
        json.dump(described, answer)


if __name__ == "__main__":
    main()
