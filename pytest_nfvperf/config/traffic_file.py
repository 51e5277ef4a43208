"""Read and check traffic files: what ``--nfv-traffic`` sends in place of the tests' own traffic.

docs/how-to/your-own-traffic.md describes the format. A packet is written as scapy writes it; its text is parsed and
never run, so a file can name layers and give them literals, and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict  # which pydantic brings, and wants before Python 3.12

from pytest_nfvperf.config.units import FRAME_RATE, RATIO, UnitError, quantity
from pytest_nfvperf.config.validate import SchemaVersion, read_as
from pytest_nfvperf.config.yaml_file import Document, KeyPath, dump, parse_document, read_document
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.fields import Count, Whole, file_key
from pytest_nfvperf.model.traffic.frame_program import Order
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import IMIXES, MAX_FRAME_SIZE, Imix, Traffic

# Packets as text.

CONTRIB = {
    "BTH": "roce",
    "ERSPAN": "erspan",
    "ERSPAN_III": "erspan",
    "GENEVE": "geneve",
    "GTPHeader": "gtp",
    "GTPPDUSessionContainer": "gtp",
    "GTP_U_Header": "gtp",
    "IGMP": "igmp",
    "IGMPv3": "igmpv3",
    "LLDPDU": "lldp",
    "MACControlPause": "mac_control",
    "MPLS": "mpls",
    "NSH": "nsh",
    "OSPF_Hdr": "ospf",
    "SLowProtocol": "lacp",
    "LACP": "lacp",
}
"""Layers of scapy's contributions that are found without ``load``, by module."""
_LONGEST_PAYLOAD = 9216


def packet_of(text: str, load: Sequence[str] = ()) -> Any:
    """The scapy packet that a text such as ``Ether()/IP()/TCP(dport=80)`` writes.

    Args:
        text: layers with keyword arguments that are literals, lists of them, or layers; joined by ``/``.
        load: modules of scapy.contrib that have layers of it.

    Raises:
        ArgumentError: it is anything else; says where, and what to write.
    """
    for module in load:
        _contrib(module)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        where = f" at {text.strip()[max(0, (error.offset or 1) - 1) :][:20]!r}" if error.offset else ""
        raise ArgumentError(f"{text!r:.120} is no packet{where}: write e.g. Ether()/IP()/UDP()") from None
    except (ValueError, RecursionError, MemoryError):
        raise ArgumentError(f"{text!r:.120} is no packet: write e.g. Ether()/IP()/UDP()") from None
    made = _PacketText(text.strip(), tuple(load)).value(tree.body)
    if isinstance(made, (bytes, str, int, float, list, tuple)) or made is None:
        raise ArgumentError(f"{text!r:.120} is no packet: write layers with parentheses, such as Ether()/IP()/UDP()")
    return made


@dataclass(frozen=True)
class _PacketText:
    text: str
    load: tuple[str, ...]

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left, ast.Div(), right):
                return self._joined(self.value(left), self.value(right), node)
            case ast.BinOp(left, ast.Mult(), right):
                return self._repeated(self.value(left), self.value(right), node)
            case ast.Call(ast.Name(name), [], keywords):
                return self._layer(name, keywords)
            case ast.Constant(value) if isinstance(value, (int, str, bytes, float)) or value is None:
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(value)) if isinstance(value, (int, float)):
                return -value
            case ast.List(elements) | ast.Tuple(elements):
                made = [self.value(each) for each in elements]
                return made if isinstance(node, ast.List) else tuple(made)
            case ast.Name(name):
                raise self._error(node, f"write {name}(), with parentheses")
            case ast.Call(ast.Name(name), [_, *_], _):
                raise self._error(node, f"name the fields of {name}, such as {name}(field=value)")
        raise self._error(node, "only layers, their fields by name, numbers, texts and lists can be written")

    def _error(self, node: ast.expr, instead: str) -> ArgumentError:
        return ArgumentError(f"{ast.get_source_segment(self.text, node)!r:.80} cannot be used in a packet: {instead}")

    def _joined(self, left: Any, right: Any, node: ast.expr) -> Any:
        if not hasattr(left, "add_payload") or not (hasattr(right, "add_payload") or isinstance(right, (str, bytes))):
            raise self._error(node, "'/' joins layers, or a layer and its payload, such as UDP()/b'text'")
        return left / right

    def _repeated(self, left: Any, right: Any, node: ast.expr) -> Any:
        text, count = (right, left) if isinstance(left, int) else (left, right)
        if not isinstance(text, (str, bytes)) or not isinstance(count, int):
            raise self._error(node, "'*' repeats a text, such as b'x' * 10")
        if len(text) * count > _LONGEST_PAYLOAD:
            raise self._error(node, f"at most {_LONGEST_PAYLOAD} bytes fit a frame")
        return text * count

    def _layer(self, name: str, keywords: Sequence[ast.keyword]) -> Any:
        kind = _layer_class(name, self.load)
        fields = [field.name for field in kind.fields_desc]
        given: dict[str, Any] = {}
        for keyword in keywords:
            if keyword.arg is None or (keyword.arg not in fields and keyword.arg not in kind.deprecated_fields):
                hint = did_you_mean(keyword.arg or "", fields)
                raise ArgumentError(f"{name} has no field {keyword.arg or '**'!r}{hint} (it has {listed(fields)})")
            given[keyword.arg] = self.value(keyword.value)
        try:
            return kind(**given)
        except Exception as error:  # scapy raises anything for a value that it cannot take
            raise ArgumentError(f"scapy takes no {name} with {', '.join(given)} so: {error}") from error


def _layer_class(name: str, load: Sequence[str]) -> Any:
    modules = [_scapy(), *(_contrib(module) for module in load)]
    modules += [_contrib(CONTRIB[name])] if name in CONTRIB else []
    layer_class = next(
        (kind for module in reversed(modules) if (kind := _layers_of(module).get(name)) is not None), None
    )
    if layer_class is None:
        layers = {layer for module in modules for layer in _layers_of(module)} | {*CONTRIB}
        hint = did_you_mean(name, layers) or "."
        raise ArgumentError(
            f"scapy has no layer {name!r}{hint} A layer of its contributions is found with 'load', such as load: [nsh]"
        )
    return layer_class


@cache
def _scapy() -> Any:
    return importlib.import_module("scapy.all")  # takes a second: only for who writes packets as text


@cache
def _contrib(name: str) -> Any:
    try:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ImportError(name)
        return importlib.import_module(f"scapy.contrib.{name}")
    except ImportError:
        raise ArgumentError(f"scapy.contrib has no module {name!r}: write e.g. load: [gtp]") from None


def _layers_of(module: Any) -> Mapping[str, Any]:
    packet = _scapy().Packet
    return {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, packet)}


# The file.

_PACKET_EXAMPLE = 'Ether()/Dot1Q(vlan=10)/IP()/TCP(dport=80, flags="S")'
_SOURCES = ("packet", "pcap", "trex")


@with_config(extra="forbid")
class VarySection(TypedDict, total=False):
    """A field of the packet that differs from frame to frame: the arguments of ``Vary``."""

    field: Required[Annotated[str, file_key("as scapy names it", "IP.dst")]]
    count: Required[Annotated[Count, file_key("how many values it takes", 1000)]]
    first: Annotated[int | str | None, file_key("the first value; the packet's if left out")]
    step: Annotated[Whole, file_key("between values")]
    order: Annotated[Order, file_key("random: a fixed order in which nothing repeats")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFrames:
    """What frames are sent."""

    packet: Annotated[str | None, file_key("layers as scapy writes them", _PACKET_EXAMPLE)] = None
    load: Annotated[tuple[str, ...], file_key("modules of scapy.contrib with layers of the packet")] = ()
    vary: Annotated[tuple[VarySection, ...], file_key("fields of the packet that vary")] = ()
    together: Annotated[bool, file_key("false: each field takes its next value with every frame")] = True
    checksums: Annotated[Literal["right", "as given"], file_key("as given: those that are written")] = "right"
    rewritten: Annotated[tuple[str, ...], file_key("fields that the DUT may rewrite, such as IP.src")] = ()
    pcap: Annotated[str | None, file_key("a capture to send, relative to this file")] = None
    rewrite_macs: Annotated[bool, file_key("frames of the capture go from and to the generator's ports")] = True
    rewrite_addresses: Annotated[bool, file_key("the capture's IP addresses become RFC 2544's")] = False
    trex: Annotated[str | None, file_key("an STL profile of TRex, relative to this file")] = None
    tunables: Annotated[dict[str, int | float | str], file_key("of the STL profile")] = field(default_factory=dict)
    direction: Annotated[Literal[0, 1], file_key("of the STL profile")] = 0
    frame_size: Annotated[Whole | None, file_key("bytes with FCS; the tests' if left out")] = None
    imix: Annotated[
        str | tuple[tuple[int, int], ...] | None,
        Field(description="a mix of sizes by name, or [size, weight] pairs", examples=["simple", [[64, 7], [1518, 1]]]),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSection(SentFrames):
    """One class of several."""

    share: Annotated[str | float, Field(description="of the load, or a fixed load", examples=["10 %", "100 kpps"])]
    sends: Annotated[Literal["both", "forward", "reverse"] | None, file_key("in which directions")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficFile(SentFrames):
    """A traffic file."""

    schema: SchemaVersion
    bidirectional: Annotated[bool | None, file_key("as the tests' if left out")] = None
    classes: Annotated[dict[str, ClassSection], file_key("several classes at once, by name")] = field(
        default_factory=dict
    )


_NOTHING_SAID = SentFrames()
_ONLY_WITH = {
    "load": "packet",
    "vary": "packet",
    "together": "packet",
    "rewritten": "packet",
    "rewrite_macs": "pcap",
    "rewrite_addresses": "pcap",
    "tunables": "trex",
    "direction": "trex",
}


@dataclass(frozen=True, slots=True)
class GivenClass:
    """What is sent, as far as a file says it.

    Attributes:
        name: "" where the file has no classes.
        sent: with the file's frame size, or the smallest that there can be.
        sized: the file gives the frame size; else the tests do.
    """

    name: str
    sent: AnyTraffic
    sized: bool
    share: Any = None
    sends: str | None = None

    def members(self) -> list[tuple[str, Traffic]]:
        """Its traffic by the name of its class; a profile of several streams has a class for each."""
        if isinstance(self.sent, Traffic):
            return [(self.name, self.sent)]
        return [(f"{each.name} ({each.load_text})", each.traffic) for each in self.sent.classes]

    def traffic(self, frame_size: int | Imix, bidirectional: bool) -> AnyTraffic:
        """With this frame size where the file gives none, or with the smallest one that holds the headers."""
        if isinstance(self.sent, TrafficMix):
            return self.sent if bidirectional else self.sent.one_way()
        sent = replace(self.sent, bidirectional=bidirectional)
        return sent if self.sized else replace(sent, frame_size=raised(frame_size, sent.least_frame_size))


@dataclass(frozen=True)
class GivenTraffic:
    """A traffic file that was read.

    Attributes:
        file: as the user named it.
        digest: of all that decides what is sent, captures and profiles included: equal for files that send the same.
        classes: one without a name where the file has none.
        bidirectional: None: as the tests'.
    """

    file: str
    digest: str
    classes: tuple[GivenClass, ...]
    bidirectional: bool | None = None
    _made: set[AnyTraffic] = field(default_factory=set, repr=False, compare=False)

    @property
    def label(self) -> str:
        """``gtpu-tcp``, ``voice+bulk``: what is sent, in a word."""
        if len(self.classes) > 1 or self.classes[0].name:
            return "+".join(each.name for each in self.classes)
        return self.classes[0].sent.headers_label or "udp"

    @property
    def identity(self) -> str:
        """What must be equal for figures to be compared."""
        return f"{self.label} {self.digest[:12]}"

    @property
    def sized(self) -> bool:
        """The file gives all frame sizes, so that those of the tests do not count."""
        return all(each.sized for each in self.classes)

    def lines(self) -> list[str]:
        """What is sent, for a plan: layers, sizes, fields that vary, and one frame as hex."""
        lines = [f"traffic of {self.file}, in place of the tests' own:"]
        for given_class in self.classes:
            share = f" ({given_class.share})" if given_class.name else ""
            for name, sent in given_class.members():
                lines.append(f"  {name + share + ': ' if name else ''}{sent.headers_name}")
                lines += [f"    {line}" for line in _described(sent, sized=given_class.sized)]
        return lines

    def replacement_for(self, traffic: AnyTraffic) -> AnyTraffic:
        """What is sent instead of a test's traffic.

        What was made here stays as it is, and so does a test's own mix or conversation: such a test is about that.
        """
        if isinstance(traffic, TrafficMix) or traffic.is_conversation or traffic in self._made:
            return traffic
        both = traffic.bidirectional if self.bidirectional is None else self.bidirectional
        frame_size = traffic.frame_size
        if not self.classes[0].name:
            made = self.classes[0].traffic(frame_size, both)
        else:
            made = TrafficMix(**{each.name: _member(each, frame_size, both) for each in self.classes})
        self._made.add(made)
        return made


def _described(sent: Traffic, *, sized: bool) -> Iterator[str]:
    source = sent.frame_source
    if source is not None and source.frame_sizes:
        yield f"frame sizes as captured: {sent.sizes_text}; those of the tests do not count"
    elif sized:
        yield f"frame size {sent.frame_size}, whatever the tests say"
    else:
        yield f"frame sizes as the tests say, at least {sent.least_frame_size}"
    for each in sent.vary:
        yield (
            f"{each.field} has {each.count:,} values, "
            + ("in a fixed random order" if each.order == "random" else f"by {each.step}")
            + ("" if sent.together or len(sent.vary) == 1 else ", with every frame the next one")
        )
    if source is not None:
        size = sent.smallest_frame_size if sized else sent.least_frame_size
        yield f"one frame: {source.recorded(size).frame[: 2 * _MOST_SHOWN]}"


_MOST_SHOWN = 128
"""Bytes of a frame: its headers, and where the payload begins."""


def _member(given: GivenClass, frame_size: int | Imix, both: bool) -> tuple[Any, ...]:
    sends = given.sends if both or given.sends is None else "forward"
    return (given.traffic(frame_size, both), given.share, *([sends] if sends else []))


def raised(frame_size: int | Imix, least: int) -> int | Imix:
    """The frame size, or the least one; of a mix each size that is too small becomes the least."""
    if isinstance(frame_size, int):
        return max(frame_size, least)
    if min(size for size, _ in frame_size.recipe) >= least:
        return frame_size
    recipe: dict[int, int] = {}
    for size, weight in frame_size.recipe:
        recipe[max(size, least)] = recipe.get(max(size, least), 0) + weight
    return Imix(f"{frame_size.name}-from-{least}", tuple(recipe.items()))


_CAPTURES = (".pcap", ".pcapng", ".cap", ".dmp")


def load_traffic(path: Path, shown: str = "") -> GivenTraffic:
    """Read a traffic file; a capture or an STL profile is taken as it is.

    ``shown``: what messages call it; ``path`` by default.

    Raises:
        ConfigError: file, line, key path, what is wrong and what to write instead.
    """
    kinds = {**dict.fromkeys(_CAPTURES, "pcap"), ".py": "trex"}
    if (kind := kinds.get(path.suffix.lower())) is not None:
        return _given(parse_document(dump({"schema": 1, kind: path.name}), shown or str(path)), path.parent)
    document = read_document(path)
    return _given(replace(document, file=shown or document.file), path.parent)


def _given(document: Document, base: Path) -> GivenTraffic:
    model = read_as(TrafficFile, document)
    contents: list[str] = []
    if model.classes:
        extra = next((key for key in (*_SOURCES, "frame_size", "imix") if getattr(model, key) is not None), None)
        if extra is not None:
            raise document.error("stands beside classes: write it into one of them", (extra,))
        classes = tuple(
            replace(
                _class_of(each, document, ("classes", name), base, contents),
                name=name,
                share=_share(each.share, document, ("classes", name, "share")),
                sends=each.sends,
            )
            for name, each in model.classes.items()
        )
    else:
        classes = (_class_of(model, document, (), base, contents),)
    said = json.dumps([_without_names(document.data), contents], sort_keys=True)
    given = GivenTraffic(document.file, hashlib.sha256(said.encode()).hexdigest(), classes, model.bidirectional)
    try:
        given.replacement_for(Traffic())
    except ConfigError as error:
        raise document.error(error.message, ("classes",) if model.classes else ()) from None
    return given


def _without_names(data: Any) -> Any:
    """What a file says, without the names of other files: their contents count."""
    if isinstance(data, dict):
        return {key: key in {"pcap", "trex"} or _without_names(value) for key, value in data.items()}
    return [_without_names(each) for each in data] if isinstance(data, list) else data


def _share(text: str | float, document: Document, path: KeyPath) -> str | float:
    """As TrafficMix takes it: ``"10 %"``, 0.1 or ``"100 kpps"``."""
    try:
        quantity(text, FRAME_RATE if isinstance(text, str) and text.strip().endswith("pps") else RATIO, "share")
    except UnitError as error:
        raise document.error(f"{error}; or a fixed load, such as '100 kpps'", path) from None
    return text


def _class_of(model: SentFrames, document: Document, path: KeyPath, base: Path, contents: list[str]) -> GivenClass:
    """``contents``: gets a digest of each file that is named."""
    sources = [name for name in _SOURCES if getattr(model, name) is not None]
    if len(sources) > 1:
        raise document.error(f"excludes '{sources[0]}': keep one of the two", (*path, sources[1]))
    for key, owner in _ONLY_WITH.items():
        if owner not in sources and getattr(model, key) != getattr(_NOTHING_SAID, key):
            raise document.error(f"is of '{owner}', which is not there: write it, too", (*path, key))
    if model.frame_size is not None and model.imix is not None:
        raise document.error("excludes 'frame_size': keep one of the two", (*path, "imix"))
    size_key = "imix" if model.frame_size is None else "frame_size"
    with _mistakes_in(document, (*path, size_key)):
        frame_size = model.frame_size if model.imix is None else _imix(model.imix)
        if model.pcap is not None and frame_size is not None:
            raise ArgumentError("a capture has its own frame sizes: leave this out")
    if model.packet is not None:
        with _mistakes_in(document, (*path, "packet")):
            traffic = _packet_traffic(model)
        for index in range(len(model.vary)):
            with _mistakes_in(document, (*path, "vary", index)):
                _packet_traffic(model, index + 1)
        with _mistakes_in(document, (*path, "rewritten")):
            traffic = _packet_traffic(model, len(model.vary), model.rewritten)
    elif sources:
        with _mistakes_in(document, (*path, *sources)):
            return _of_file(model, base, contents, frame_size)
    else:
        traffic = Traffic()
    if frame_size is not None:
        with _mistakes_in(document, (*path, size_key)):
            traffic = replace(traffic, frame_size=frame_size)
    return GivenClass("", traffic, sized=frame_size is not None)


@contextmanager
def _mistakes_in(document: Document, path: KeyPath) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:  # one about a capture or a profile names that file
        raise document.error(str(error), path) from None


def _packet_traffic(model: SentFrames, varying: int = 0, rewritten: Sequence[str] = ()) -> Traffic:
    """The packet in frames that are large enough, with so many of its fields varying."""
    return Traffic(
        frame_size=MAX_FRAME_SIZE,
        packet=packet_of(model.packet or "", model.load),
        vary=tuple(Vary(**each) for each in model.vary[:varying]),
        together=model.together,
        checksums=model.checksums,
        rewritten=tuple(rewritten),
    )


def _of_file(model: SentFrames, base: Path, contents: list[str], frame_size: int | Imix | None) -> GivenClass:
    if model.pcap is not None:
        options = {"rewrite_macs": model.rewrite_macs, "rewrite_addresses": model.rewrite_addresses}
        path = base / model.pcap
        traffic = Traffic.from_pcap(path, checksums=model.checksums, **options)
        contents.append(hashlib.sha256(path.read_bytes()).hexdigest())
        return GivenClass("", traffic, sized=True)
    path = base / (model.trex or "")
    sent = Traffic.from_trex(path, model.tunables, direction=model.direction, frame_size=frame_size)
    contents.append(repr(sent))
    return GivenClass("", sent, sized=True)


def _imix(given: str | tuple[tuple[int, int], ...]) -> Imix:
    return IMIXES[given] if isinstance(given, str) else Imix("file", given)
