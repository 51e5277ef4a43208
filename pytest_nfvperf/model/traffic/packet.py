"""Packets that scapy builds as sources of frames: which bits vary, and which checksums follow from them.

A user's packet is used by its methods only (``fields``, ``payload``, ``bytes()``, ``/``): this module imports no scapy.
Where a field or a checksum lies is found by building the packet twice and looking at which bits differ. What comes out
is compared with what scapy builds, at several combinations, before anything is sent.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal, Protocol, runtime_checkable

from pytest_nfvperf.model.arguments import Allowed, checked, optional, shown_value, whole, word
from pytest_nfvperf.model.display import listed, unknown_word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.traffic.frame_program import (
    FCS_BYTES,
    MOST_CHECKSUMS,
    MOST_FIELDS,
    TEST_PAYLOAD_BYTES,
    Checksum,
    FrameProgram,
    Order,
    VaryingField,
    frame_of,
)

LEAST_FRAME_SIZE = 64

_NAME = re.compile(r"(\w+)(?:\[([1-9]\d*)\])?\.(\w+)")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_FIELD = Allowed(
    "a field as scapy names it, such as 'IP.dst' or 'IP[2].src'",
    lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)),
)
_FIRST = Allowed(
    "the field's first value, such as '198.18.0.1' or 1024",
    lambda value: isinstance(value, (int, str)) and not isinstance(value, bool),
)


@checked(
    field=_FIELD, count=whole(1, 1 << 63), first=optional(_FIRST), step=whole(1, 1 << 63), order=word("up", "random")
)
@dataclass(frozen=True, slots=True)
class Vary:
    """A field of a traffic's packet that differs from frame to frame.

    Attributes:
        field: as scapy names it: ``IP.dst``, ``IP[2].src`` (of the second IP layer), ``GTP_U_Header.teid``.
        count: how many values it takes.
        first: the first of them; None means the packet's.
        step: between values. Of an IPv6 address the lowest 64 bits count.
        order: ``up``, or a fixed ``random`` one in which nothing repeats.
    """

    field: str
    count: int
    first: int | str | None = None
    step: int = 1
    order: Order = "up"


@runtime_checkable
class FrameSource(Protocol):
    """Where a traffic's frames come from, if not from its own short form.

    Attributes:
        label: short, for tables and test ids: ``qinq-tcp``.
        text: for a person: ``Ether / Dot1AD / Dot1Q / IP / TCP``.
        layers: names of the layers, outer ones first.
        header_bytes: what stands in front of the signature, at most.
        least_frame_size: the smallest frame that it can fill, bytes with FCS.
        frame_sizes: bytes with FCS of its frames in the order in which they are sent, where the source and not
            ``Traffic.frame_size`` says so; () otherwise.
        combinations: frames until its varying fields begin again.
    """

    @property
    def label(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def layers(self) -> tuple[str, ...]: ...
    @property
    def header_bytes(self) -> int: ...
    @property
    def least_frame_size(self) -> int: ...
    @property
    def frame_sizes(self) -> tuple[int, ...]: ...
    @property
    def combinations(self) -> int: ...

    def program(
        self, sizes: Sequence[int], order: Sequence[int], *, source_mac: str, destination_mac: str, reverse: bool
    ) -> FrameProgram:
        """One direction's frames.

        Args:
            sizes: of the templates, bytes with FCS; () where ``frame_sizes`` says them.
            order: indexes into ``sizes``, as they are sent.
            source_mac: on the DUT's link, where the source sets none.
            destination_mac: likewise.
            reverse: the opposite of an earlier direction: addresses and ports change sides.
        """


_Layer = tuple[type[Any], dict[str, Any]]
_Place = tuple[int, str]
"""A field: its layer's index, and its name."""

_ETHERNET = {"Ether", "Dot3"}
_TAGS = {"Dot1Q", "Dot1AD"}
_IP = {"IP", "IPv6"}
_CARRIED = {*_ETHERNET, *_IP, "ARP", "MPLS", "PPP", "LLC"}
"""Layers that a tunnel carries: ports in front of them stay, since the destination port names the tunnel."""
_CHECKSUMS = re.compile(r"chksum|cksum|checksum")
_COMPUTED = re.compile(r"\w*(chksum|cksum|checksum|len|length)|ihl|dataofs")
"""Names of fields that scapy computes, if their default is None."""
_INNER_MACS = ("02:00:00:00:0d:01", "02:00:00:00:0d:02")
_ADDRESSES = {"IP": ("198.18.0.1", "198.19.0.1"), "IPv6": ("2001:2::1", "2001:2:0:8000::1")}
"""RFC 2544 appendix C.2.2 and RFC 5180: where the packet leaves them open, which scapy would take from the host."""
_TUNNEL_ENDS = {"IP": ("192.0.2.1", "192.0.2.2"), "IPv6": ("2001:2::1", "2001:2:0:8000::1")}
_SIDES = (("src", "dst"), ("sport", "dport"), ("psrc", "pdst"), ("hwsrc", "hwdst"))
_SOME_MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


@dataclass(frozen=True, slots=True)
class PacketStack:
    """A packet that scapy builds, with fields that vary: a FrameSource. Two are equal if their texts are.

    Attributes:
        command: the packet as scapy writes it: ``Ether()/IP()/TCP(dport=80)``.
        vary, together, checksums, rewritten: as of Traffic.
    """

    command: str
    vary: tuple[Vary, ...] = ()
    together: bool = True
    checksums: Literal["right", "as given"] = "right"
    rewritten: tuple[str, ...] = ()
    _layers: tuple[_Layer, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(
        packet: Any,
        vary: Sequence[Vary] = (),
        *,
        together: bool = True,
        checksums: Literal["right", "as given"] = "right",
        rewritten: Sequence[str] = (),
    ) -> PacketStack:
        """Take over a scapy packet. ArgumentError for one that cannot be sent, or a field that cannot vary."""
        layers = _layers_of(packet)
        stack = PacketStack(packet.command(), tuple(vary), together, checksums, tuple(rewritten), layers)
        _check_fixed(packet, stack.text)
        return replace(stack, _layers=_without_computed(layers, as_given=checksums == "as given"))._checked()

    def varied(
        self,
        vary: tuple[Vary, ...],
        together: bool,
        checksums: Literal["right", "as given"],
        rewritten: tuple[str, ...],
    ) -> PacketStack:
        """The same packet with other settings; ArgumentError as of :meth:`of`."""
        if (self.vary, self.together, self.checksums, self.rewritten) == (vary, together, checksums, rewritten):
            return self
        return replace(self, vary=vary, together=together, checksums=checksums, rewritten=rewritten)._checked()

    def _checked(self) -> PacketStack:
        for reverse in (False, True):
            self.program(
                (self.least_frame_size,),
                (0,),
                source_mac=_SOME_MACS[0],
                destination_mac=_SOME_MACS[1],
                reverse=reverse,
            )
        return self

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(kind.__name__ for kind, _ in self._layers)

    @property
    def text(self) -> str:
        return " / ".join(self.layers)

    @property
    def label(self) -> str:
        return _label(self.layers)

    @property
    def header_bytes(self) -> int:
        return _header_bytes(self)

    @property
    def least_frame_size(self) -> int:
        return max(LEAST_FRAME_SIZE, self.header_bytes + TEST_PAYLOAD_BYTES + FCS_BYTES)

    @property
    def frame_sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def combinations(self) -> int:
        counts = [each.count for each in self.vary]
        return math.prod(counts) if self.together else math.lcm(*counts)

    def program(
        self, sizes: Sequence[int], order: Sequence[int], *, source_mac: str, destination_mac: str, reverse: bool
    ) -> FrameProgram:
        return _program(self, tuple(sizes), tuple(order), source_mac, destination_mac, reverse)


# Taking over the user's packet.


def _layers_of(packet: Any) -> tuple[_Layer, ...]:
    if not all(hasattr(packet, name) for name in ("command", "copy", "fields", "payload")) or isinstance(packet, type):
        raise ArgumentError(
            f"packet is {shown_value(packet)}: write a packet that scapy builds, such as Ether()/IP()/UDP()"
        )
    layers, layer = list[_Layer](), packet.copy()
    while layer:  # what is behind the last layer is false
        if type(layer).__name__ == "Padding":
            break  # of a captured frame; we pad
        layers.append((type(layer), dict(layer.fields)))
        layer = layer.payload
    first = layers[0][0].__name__
    if first not in _ETHERNET:
        raise ArgumentError(f"the packet begins with {first}: put Ether() in front, as it is on the DUT's link")
    return tuple(layers)


def _check_fixed(packet: Any, text: str) -> None:
    """ArgumentError for a packet that scapy builds differently each time, or that stands for several."""
    several = len(list(islice(iter(packet), 2))) > 1
    if several or any(
        type(value).__name__.startswith("Rand") for _, fields in _layers_of(packet) for value in fields.values()
    ):
        raise ArgumentError(
            f"a field of {text} has several or random values: give it one, and write vary=[Vary(...)] for more"
        )


def _without_computed(layers: tuple[_Layer, ...], *, as_given: bool) -> tuple[_Layer, ...]:
    """Leave out lengths and checksums that are those which scapy computes; ArgumentError for others."""
    for index, (kind, fields) in enumerate(layers):
        for name in [each for each in fields if _COMPUTED.fullmatch(each)]:
            if not _is_computed(kind, name) or fields[name] is None:
                continue
            rest = (kind, {each: value for each, value in fields.items() if each != name})
            without = (*layers[:index], rest, *layers[index + 1 :])
            filled = _directed(layers, *_SOME_MACS, reverse=False)
            if _build(filled, b"") == _build(_directed(without, *_SOME_MACS, reverse=False), b""):
                return _without_computed(without, as_given=as_given)
            if not as_given and (kind.__name__, name, fields[name]) != ("UDP", "chksum", 0):  # RFC 768: none
                raise ArgumentError(
                    f"{_named(layers, (index, name))} is set to {fields[name]}, which is not what the packet has: "
                    "leave it out, so that it is right in every frame, or write checksums='as given'"
                )
    return layers


def _is_computed(kind: type[Any], name: str) -> bool:
    return bool(_COMPUTED.fullmatch(name)) and getattr(kind(), name, 0) is None


# One direction of it.


def _directed(layers: Sequence[_Layer], source_mac: str, destination_mac: str, *, reverse: bool) -> tuple[_Layer, ...]:
    """The layers with all addresses; in the reverse direction with sides changed."""
    names = [kind.__name__ for kind, _ in layers]
    made = list[_Layer]()
    for index, (kind, given) in enumerate(layers):
        fields = dict(given)
        inner = [name for name in names[index + 1 :] if name in _IP]
        if kind.__name__ in _IP:
            ends = _TUNNEL_ENDS if inner else _ADDRESSES
            fields = dict(zip(("src", "dst"), ends[kind.__name__], strict=True)) | _set(fields)
        elif kind.__name__ in _ETHERNET and index:
            fields = dict(zip(("src", "dst"), _INNER_MACS, strict=True)) | _set(fields)
        elif kind.__name__ == "ARP":
            fields = dict(zip(("psrc", "pdst"), _ADDRESSES["IP"], strict=True)) | _set(fields)
        if reverse:
            swapped = _swapped(names, index, fields)
            fields = {swapped.get(name, name): value for name, value in fields.items()}
        if index == 0:
            group = _group_mac(layers)
            fields = {"src": source_mac, "dst": group or destination_mac} | _set(fields)
        elif kind.__name__ == "ARP":
            fields = {"hwsrc": source_mac} | fields
        made.append((kind, fields))
    return tuple(made)


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _swapped(names: Sequence[str], index: int, fields: Mapping[str, Any]) -> dict[str, str]:
    """What changes sides in a layer on the way back. A group stays the destination, and a tunnel's port its name."""
    pairs = dict(_SIDES)
    if names[index] not in {*_ETHERNET, *_IP, "ARP"}:
        pairs = {"sport": "dport"} if not _CARRIED.intersection(names[index + 1 :]) else {}
    if _is_group(fields.get("dst")):
        pairs = {}
    return pairs | {there: here for here, there in pairs.items()}


def _is_group(address: Any) -> bool:
    """A multicast or broadcast address, which can be nobody's source."""
    if not isinstance(address, str):
        return False
    if _MAC.fullmatch(address):
        return bool(int(address[:2], 16) & 1)
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.is_multicast or address == "255.255.255.255"


def _group_mac(layers: Sequence[_Layer]) -> str | None:
    """The MAC address of the group that the outermost IP layer sends to (RFC 1112, RFC 2464), or None."""
    address = next((fields.get("dst") for kind, fields in layers if kind.__name__ in _IP), None)
    if not _is_group(address):
        return None
    ip = ipaddress.ip_address(str(address))
    number = int(ip)
    if str(ip) == "255.255.255.255":
        number = (1 << 48) - 1
    elif ip.version == 4:
        number = 0x01005E000000 | number & 0x7FFFFF
    else:
        number = 0x333300000000 | number & 0xFFFFFFFF
    return number.to_bytes(6, "big").hex(":")


def _chain(layers: Sequence[_Layer], payload: bytes, changes: Mapping[_Place, Any]) -> Any:
    """The scapy packet of these layers."""
    made = [
        kind(**fields | {name: value for (at, name), value in changes.items() if at == index})
        for index, (kind, fields) in enumerate(layers)
    ]
    if payload:
        made[-1] = made[-1] / payload
    for outer, inner in reversed(list(pairwise(made))):
        outer.add_payload(inner)
    return made[0]


def _build(layers: Sequence[_Layer], payload: bytes, changes: Mapping[_Place, Any] | None = None) -> bytes:
    return bytes(_chain(layers, payload, changes or {}))


# Where fields and checksums are.


@dataclass(frozen=True, slots=True)
class _Bits:
    """Where a field is in the frame: ``bits`` of them, the lowest being bit ``low`` of byte ``last``."""

    last: int
    low: int
    bits: int

    @property
    def first(self) -> int:
        return self.last - (self.low + self.bits - 1) // 8

    @property
    def mask(self) -> int:
        """Of the bytes ``first`` to ``last``, at their place in a frame that is one little number of bytes."""
        return ((1 << self.bits) - 1) << self.low

    def value(self, frame: bytes) -> int:
        return (int.from_bytes(frame[self.first : self.last + 1], "big") & self.mask) >> self.low

    def overlaps(self, other: _Bits) -> bool:
        """Some bit is of both."""
        ends = [(-8 * each.last + each.low, -8 * each.last + each.low + each.bits) for each in (self, other)]
        return max(begin for begin, _ in ends) < min(end for _, end in ends)


@dataclass(frozen=True, slots=True)
class _Located:
    """A field and its bits. ``followers``: bytes of checksums that change with it."""

    name: str
    place: _Place
    bits: _Bits
    followers: frozenset[int]


class _Compiler:
    """Finds the places of one direction's layers. ``stack``: for its settings and its errors."""

    def __init__(self, stack: PacketStack, layers: tuple[_Layer, ...], reverse: bool) -> None:
        self.stack = stack
        self.names = [kind.__name__ for kind, _ in layers]
        self.layers = layers
        self.reverse = reverse
        self.as_given = stack.checksums == "as given"
        firsts = {self.place(each.field): each.first for each in stack.vary if each.first is not None}
        self.layers = tuple(
            (kind, fields | {name: value for (at, name), value in firsts.items() if at == index})
            for index, (kind, fields) in enumerate(layers)
        )
        self.payload = bytes(TEST_PAYLOAD_BYTES)
        packet = _chain(self.layers, self.payload, {})
        self.base = self._bytes(packet)
        self.signature = len(self.base) - len(self.payload)
        self.objects = list(_walk(packet))[: len(layers)]
        self.starts = [len(self.base) - len(bytes(layer)) for layer in self.objects]
        self.sums = {place: bits for place in self._checksum_places() if (bits := self._checksum_bits(place))}
        self.sum_bytes = {at for bits in self.sums.values() for at in range(bits.first, bits.last + 1)}
        self._check_signed()

    def _bytes(self, packet: Any) -> bytes:
        try:
            frame = bytes(packet)
        except Exception as error:  # scapy raises anything for values that it cannot build
            raise ArgumentError(f"scapy cannot build {self.stack.text}: {error}") from error
        if not frame.endswith(self.payload):
            raise ArgumentError(
                f"{self.stack.text} ends with a trailer behind its payload, where frames are padded: "
                "leave the layer out that adds it"
            )
        return frame

    def place(self, name: str) -> _Place:
        """The field of this direction; ArgumentError with the layers or fields that there are."""
        layer, number, attribute = self._parts(name)
        found = [at for at, each in enumerate(self.names) if each == layer]
        if not found:
            raise _as_argument(unknown_word(layer, f"layer of {self.stack.text}", list(dict.fromkeys(self.names))))
        if number > len(found):
            raise ArgumentError(f"{name!r}: there are only {len(found)} layers {layer} in {self.stack.text}")
        at = found[number - 1]
        fields = [each.name for each in self.layers[at][0].fields_desc]
        if attribute not in fields:
            raise _as_argument(unknown_word(attribute, f"field of {layer}", fields))
        if self.reverse:
            attribute = _swapped(self.names, at, self.layers[at][1]).get(attribute, attribute)
        return at, attribute

    @staticmethod
    def _parts(name: str) -> tuple[str, int, str]:
        match = _NAME.fullmatch(name)
        if match is None:
            raise ArgumentError(f"{name!r} is no field: write one as scapy names it, such as 'IP.dst' or 'IP[2].src'")
        return match[1], int(match[2] or 1), match[3]

    def build(self, changes: Mapping[_Place, Any], payload: bytes | None = None) -> bytes:
        return _build(self.layers, self.payload if payload is None else payload, changes)

    def _checksum_places(self) -> Iterator[_Place]:
        """Checksums that scapy computes; inner ones first."""
        for index in reversed(range(len(self.layers))):
            for each in self.objects[index].fields_desc:
                if _CHECKSUMS.fullmatch(each.name) and self.objects[index].getfieldval(each.name) is None:
                    yield index, each.name

    def _checksum_bits(self, place: _Place) -> _Bits | None:
        """None for a checksum that is not in the frame, such as GRE's."""
        frames = [self.build({place: value}) for value in (0, 1)]
        end = self.starts[place[0] + 1] if place[0] + 1 < len(self.starts) else self.signature
        changed = [at for at in _differing(*frames) if self.starts[place[0]] <= at < end]
        if not changed:
            return None
        return _Bits(changed[-1], 0, self._size(place))

    def _size(self, place: _Place) -> int:
        """A field's bits."""
        value = self.objects[place[0]].getfieldval(place[1])
        if isinstance(value, str):
            return 48 if _MAC.fullmatch(value) else ipaddress.ip_address(value).max_prefixlen
        described = self.objects[place[0]].get_field(place[1])
        size = getattr(described, "size", None)
        return abs(size) if isinstance(size, int) else int(described.sz * 8)

    def _check_signed(self) -> None:
        """ArgumentError if the signature changes more than checksums that are known."""
        other = self.build({}, b"\x01" + self.payload[1:])
        unknown = set(_differing(self.base, other)) - {self.signature} - self.sum_bytes
        if unknown and not self.as_given:
            raise ArgumentError(
                f"{self._layer_at(min(unknown))} has a checksum that cannot be kept right, in byte {min(unknown)} of "
                "the frame: leave the layer out, or write checksums='as given'"
            )

    def _layer_at(self, offset: int) -> str:
        return next(
            name for name, start in reversed(list(zip(self.names, self.starts, strict=True))) if start <= offset
        )

    def locate(self, name: str) -> _Located:
        """The bits of a field. ArgumentError for one that cannot vary by itself."""
        place = self.place(name)
        if _is_computed(self.layers[place[0]][0], place[1]) and not self.as_given:
            raise ArgumentError(f"{name} cannot vary: scapy computes it; write checksums='as given' to send it anyway")
        value = self.number(place, name)
        frame = self.build({place: self.written(place, value ^ 1)})
        if len(frame) != len(self.base):
            raise ArgumentError(f"{name} cannot vary: frames get another length with it")
        differing = _differing(self.base, frame)
        changed = [at for at in differing if at not in self.sum_bytes]
        if not changed:
            raise ArgumentError(f"{name} cannot vary: the frame does not have it, or scapy computes it")
        difference = self.base[changed[0]] ^ frame[changed[0]]
        if len(changed) > 1 or difference.bit_count() > 1:
            others = list(dict.fromkeys(map(self._layer_at, changed)))
            raise ArgumentError(f"{name} cannot vary: other bytes of {listed(others)} follow from it")
        bits = _Bits(changed[0], difference.bit_length() - 1, self._size(place))
        if bits.value(self.base) != value & ((1 << bits.bits) - 1):
            raise ArgumentError(f"{name} cannot vary: the frame does not store it as one number, highest byte first")
        return _Located(name, place, bits, frozenset(differing) - {changed[0]})

    def number(self, place: _Place, name: str) -> int:
        """A field's value in the packet as a number."""
        value = self.objects[place[0]].getfieldval(place[1])
        if isinstance(value, str) and _MAC.fullmatch(value):
            return int(value.replace(":", ""), 16)
        try:
            return int(ipaddress.ip_address(value)) if isinstance(value, str) else int(value)
        except (TypeError, ValueError):
            wrong = "has no value" if value is None else f"is {shown_value(value)}, no number or address"
            raise ArgumentError(f"{name} cannot vary: in the packet it {wrong}; write first=...") from None

    def written(self, place: _Place, number: int) -> Any:
        """The inverse of :meth:`number`: the value as scapy takes it."""
        value = self.objects[place[0]].getfieldval(place[1])
        if not isinstance(value, str):
            return number
        if _MAC.fullmatch(value):
            return number.to_bytes(6, "big").hex(":")
        ip = ipaddress.ip_address(value)
        if ip.version == 6:
            number = int(ip) >> 64 << 64 | number & (1 << 64) - 1
        return str(type(ip)(number))

    # What a generator is told of them.

    def program(self, sizes: tuple[int, ...], order: tuple[int, ...]) -> FrameProgram:
        """ArgumentError where scapy builds something else than this program."""
        located = [self.locate(each.field) for each in self.stack.vary]
        self._check_overlaps(located)
        fields = tuple(self._fields(located))
        sums = self._sums(located)
        if len(sums) > MOST_CHECKSUMS:
            raise ArgumentError(f"{self.stack.text} has {len(sums)} checksums; at most {MOST_CHECKSUMS} are kept right")
        templates = tuple(self.build({}, self._padding(bytes(TEST_PAYLOAD_BYTES), size)) for size in sizes)
        program = FrameProgram(
            templates=templates,
            signatures=(self.signature,) * len(templates),
            order=order,
            fields=fields,
            checksums=sums,
            combinations=self.stack.combinations,
            compared_from=self._compared_from(),
            changeable=tuple(self._changeable(located)),
        )
        if not self.as_given:
            self._verify(program, located)
        return program

    def _padding(self, signature: bytes, size: int) -> bytes:
        behind = self.signature + len(signature)
        return signature + bytes(at % 256 for at in range(behind, size - FCS_BYTES))

    def _check_overlaps(self, located: Sequence[_Located]) -> None:
        for index, one in enumerate(located):
            for other in located[:index]:
                if one.bits.overlaps(other.bits):
                    raise ArgumentError(
                        f"vary: {other.name} and {one.name} are the same bits of the frame: leave one out"
                    )

    def _fields(self, located: Sequence[_Located]) -> Iterator[VaryingField]:
        every = 1
        for seed, (vary, found) in enumerate(zip(self.stack.vary, located, strict=True)):
            bits = replace(found.bits, bits=min(64, found.bits.bits))
            first = bits.value(self.base)
            last, most = first + vary.step * (vary.count - 1), (1 << bits.bits) - 1
            if last > most:
                raise ArgumentError(
                    f"{vary.field} has {bits.bits} bits, at most {most:_}: {vary.count:_} values from {first:_} on by "
                    f"{vary.step:_} reach {last:_}; begin lower, or use fewer"
                )
            offset, size = self._window(bits)
            yield VaryingField(
                name=_named(self.layers, found.place),
                offset=offset,
                size=size,
                shift=8 * (offset + size - 1 - bits.last) + bits.low,
                bits=bits.bits,
                first=first,
                step=vary.step,
                count=vary.count,
                every=every,
                order=vary.order,
                seed=seed,
            )
            every *= vary.count if self.stack.together else 1

    def _window(self, bits: _Bits) -> tuple[int, int]:
        """Offset and size: as small as can be, in front of the signature, at an even offset where there is one."""
        size = next(each for each in (1, 2, 4, 8) if each > bits.last - bits.first)
        offsets = range(max(0, bits.last + 1 - size), min(bits.first, self.signature - size) + 1)
        return max(offsets, key=lambda offset: (offset % 2 == 0, offset)), size

    def _sums(self, located: Sequence[_Located]) -> tuple[Checksum, ...]:
        made = list[Checksum]()
        for place, bits in self.sums.items():
            start, end = self._covered(place)
            covered = range(start, end)
            made.append(
                Checksum(
                    name=_named(self.layers, place),
                    kind="internet" if bits.bits == 16 else "crc32c",
                    offset=bits.first,
                    start=start,
                    end=0,
                    fields=tuple(n for n, each in enumerate(located) if self._follows(bits, covered, each)),
                    checksums=tuple(n for n, each in enumerate(made) if each.offset in covered),
                    signature=end > self.signature,
                    never_zero=self.names[place[0]].startswith("UDP"),
                )
            )
        return tuple(made)

    def _covered(self, place: _Place) -> tuple[int, int]:
        """The bytes that a checksum is over: IPv4's the header, all others what is behind, too."""
        start = self.starts[place[0]]
        if self.names[place[0]] != "IP":
            return start, len(self.base)
        return start, (*self.starts, self.signature)[place[0] + 1]

    @staticmethod
    def _follows(checksum: _Bits, covered: range, found: _Located) -> bool:
        """A field in front of what a checksum is over can be of its pseudo-header."""
        return found.bits.last in covered or (found.bits.last < covered.start and checksum.last in found.followers)

    def _compared_from(self) -> int:
        """The innermost IP header, or what is behind Ethernet and its tags."""
        inner = [start for name, start in zip(self.names, self.starts, strict=True) if name in _IP]
        behind = next((at for at, name in enumerate(self.names) if at and name not in _TAGS), len(self.names))
        return inner[-1] if inner else (*self.starts, self.signature)[behind]

    def _changeable(self, located: Sequence[_Located]) -> Iterator[tuple[int, int]]:
        """What routers change in the innermost IP header, and what ``rewritten`` names with its checksums."""
        begin = self._compared_from()
        inner = next((at for at in reversed(range(len(self.names))) if self.names[at] in _IP), None)
        if inner is not None and self.names[inner] == "IP":
            yield from ((begin + 1, 1), (begin + 8, 1), (begin + 10, 2))  # DSCP and ECN, TTL, checksum
        elif inner is not None:
            labelled = any(each.place == (inner, "fl") for each in located)
            yield from ((begin, 2 if labelled else 4), (begin + 7, 1))  # traffic class and flow label, hop limit
        for found in map(self.locate, self.stack.rewritten):
            places = [(found.bits.first, found.bits.last - found.bits.first + 1)]
            for place, bits in self.sums.items():
                if self._follows(bits, range(*self._covered(place)), found):
                    places.append((bits.first, bits.bits // 8))
            yield from (each for each in places if each[0] >= begin)

    def _verify(self, program: FrameProgram, located: Sequence[_Located]) -> None:
        """Compare with what scapy builds, at several combinations, each with another signature."""
        last = program.combinations - 1
        for template, frame in enumerate(program.templates):
            for combination in sorted({0, min(1, last), last // 3, last // 2, last}):
                signature = bytes((combination * 37 + template + at * at) % 256 for at in range(TEST_PAYLOAD_BYTES))
                changes = {
                    found.place: self.written(found.place, value.value(combination))
                    for found, value in zip(located, program.fields, strict=True)
                }
                built = self.build(changes, self._padding(signature, len(frame) + FCS_BYTES))
                sent = frame_of(program, template, combination, signature)
                if built != sent:
                    self._refuse(built, sent)

    def _refuse(self, built: bytes, sent: bytes) -> None:
        wrong = next(iter(_differing(built, sent)), 0)
        name = self._layer_at(wrong)
        known = [_named(self.layers, place) for place, bits in self.sums.items() if bits.first <= wrong <= bits.last]
        what = known[0] if known else f"byte {wrong} of the frame, in {name},"
        varied = listed([each.field for each in self.stack.vary]) or "the payload"
        raise ArgumentError(
            f"{self.stack.text}: {what} cannot be kept right while {varied} varies: vary something else, or write "
            "checksums='as given'"
        )


@lru_cache(maxsize=512)
def _program(
    stack: PacketStack,
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    source_mac: str,
    destination_mac: str,
    reverse: bool,
) -> FrameProgram:
    if len(stack.vary) > MOST_FIELDS:
        raise ArgumentError(f"{len(stack.vary)} fields vary; at most {MOST_FIELDS} can: give others a value")
    if stack.combinations >= 1 << 63:
        raise ArgumentError(f"the fields of {stack.text} have {stack.combinations:_} combinations: use fewer values")
    layers = _directed(stack._layers, source_mac, destination_mac, reverse=reverse)
    return _Compiler(stack, layers, reverse).program(sizes, order)


@lru_cache(maxsize=512)
def _header_bytes(stack: PacketStack) -> int:
    return len(_build(_directed(stack._layers, *_SOME_MACS, reverse=False), b""))


def _walk(packet: Any) -> Iterator[Any]:
    while packet:
        yield packet
        packet = packet.payload


def _differing(one: bytes, other: bytes) -> list[int]:
    return [at for at, (here, there) in enumerate(zip(one, other, strict=False)) if here != there]


def _named(layers: Sequence[_Layer], place: _Place) -> str:
    """``IP.dst``, or ``IP[2].dst`` of a second IP layer."""
    name = layers[place[0]][0].__name__
    number = Counter(kind.__name__ for kind, _ in layers[: place[0] + 1])[name]
    return f"{name}{f'[{number}]' if number > 1 else ''}.{place[1]}"


def _as_argument(error: Exception) -> ArgumentError:
    return ArgumentError(str(error))


_SHORT = {
    "MPLS": "mpls",
    "GTP_U_Header": "gtpu",
    "GENEVE": "geneve",
    "IPv6ExtHdrHopByHop": "hopopts",
    "IPv6ExtHdrDestOpt": "dstopts",
    "IPv6ExtHdrFragment": "fragment",
    "IPv6ExtHdrRouting": "routing",
    "IPv6ExtHdrSegmentRouting": "srv6",
}


def _label(names: Sequence[str]) -> str:
    """``qinq-tcp``: without Ethernet, IPv4, payload, and UDP with a tunnel behind it."""
    tags = sum(name in _TAGS for name in names)
    words = [{0: "", 1: "vlan"}.get(tags, "qinq")]
    for index, name in enumerate(names[1:], 1):
        carries = any(each != "Raw" for each in names[index + 1 :])
        if name in {*_TAGS, "IP", "Raw"} or (name == "UDP" and carries) or (name in _ETHERNET and index):
            continue
        word_of = _SHORT.get(name) or ("icmpv6" if name.startswith("ICMPv6") else name.lower().replace("_", ""))
        words.append(word_of)
    return "-".join(filter(None, words)) or ("ip" if "IP" in names else "ethernet")
