"""The frame program of a packet's layers: where its fields and checksums are, and that scapy builds the same.

A user's packet is used by its methods only (``fields``, ``payload``, ``bytes()``, ``/``): this module imports no scapy.
A field or a checksum is found by building the packet twice and looking at which bits differ. Knowledge of layers is
needed only for what a checksum is over. The program is compared with what scapy builds, at several combinations.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from pytest_nfvperf.model.arguments import INTEGER, Allowed, checked, shown_value, whole
from pytest_nfvperf.model.display import how_many, listed, unknown_word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.traffic.frame_program import (
    FCS_BYTES,
    MOST_CHANGEABLE,
    MOST_CHECKSUMS,
    MOST_FIELDS,
    MOST_RANDOM,
    TEST_PAYLOAD_BYTES,
    Checksum,
    FrameProgram,
    Order,
    VaryingField,
    frame_of,
)

Layer = tuple[type[Any], dict[str, Any]]
"""A layer's class, and the fields that are set."""

FIELD_NAME = re.compile(r"(\w+)(?:\[([1-9]\d*)\])?\.(\w+)")
ETHERNET, TAGS, IP = {"Ether", "Dot3"}, {"Dot1Q", "Dot1AD"}, {"IP", "IPv6"}

_FieldRef = tuple[int, str]
"""A field: its layer's index, and its name."""

_CARRIED = {*ETHERNET, *IP, "ARP", "MPLS", "PPP", "LLC"}
"""Layers that a tunnel carries: ports in front of them stay, since the destination port names the tunnel."""
_CHECKSUMS = re.compile(r"chksum|cksum|checksum")
_COMPUTED = re.compile(r"\w*(chksum|cksum|checksum|len|length)|ihl|dataofs")
"""Names of fields that scapy computes, if their default is None."""
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_SIDES = (("src", "dst"), ("psrc", "pdst"), ("hwsrc", "hwdst"))
_ADDRESSES = {"IP": ("198.18.0.1", "198.19.0.1"), "IPv6": ("2001:2::1", "2001:2:0:8000::1")}
"""RFC 2544 appendix C.2.2 and RFC 5180: where the packet leaves them open, which scapy would take from the host."""
_TUNNEL_ENDS = {"IP": ("192.0.2.1", "192.0.2.2"), "IPv6": ("2001:2::1", "2001:2:0:8000::1")}
_INNER_MACS = ("02:00:00:00:0d:01", "02:00:00:00:0d:02")

_FIELD = Allowed(
    "a field as scapy names it, such as 'IP.dst' or 'IP[2].src'",
    lambda value: isinstance(value, str) and bool(FIELD_NAME.fullmatch(value)),
)
_FIRST = Allowed(
    "the field's first value, such as '198.18.0.1' or 1024",
    lambda value: isinstance(value, (int, str)) and not isinstance(value, bool),
)

_STEP = Allowed("a whole number other than 0", lambda value: INTEGER.accepts(value) and 0 < abs(value) <= 1 << 63)


@checked()
@dataclass(frozen=True, slots=True)
class Vary:
    """A field of a traffic's packet that differs from frame to frame.

    Attributes:
        field: as scapy names it: ``IP.dst``, ``IP[2].src`` (of the second IP layer), ``GTP_U_Header.teid``.
        count: how many values it takes.
        first: the first of them; None means the packet's.
        step: between values, below 0 to count down. Of an IPv6 address the lowest 64 bits count.
        order: ``up``, or a fixed ``random`` one in which nothing repeats.
    """

    field: Annotated[str, _FIELD]
    count: Annotated[int, whole(1, (1 << 32) - 1)]
    first: Annotated[int | str, _FIRST] | None = None
    step: Annotated[int, _STEP] = 1
    order: Order = "up"


@dataclass(frozen=True, slots=True)
class PacketSettings:
    """What a traffic says of its packet; attributes as of Traffic."""

    vary: tuple[Vary, ...] = ()
    together: bool = True
    checksums: Literal["right", "as given"] = "right"
    rewritten: tuple[str, ...] = ()

    @property
    def combinations(self) -> int:
        """Frames until the fields begin again."""
        counts = [each.count for each in self.vary]
        return math.prod(counts) if self.together else math.lcm(*counts)

    @property
    def as_given(self) -> bool:
        return self.checksums == "as given"


def compile_program(
    settings: PacketSettings,
    layers: Sequence[Layer],
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    macs: tuple[str, str],
    *,
    reverse: bool,
) -> FrameProgram:
    """One direction's frames of these layers. ArgumentError for what cannot be sent as the settings ask.

    Args:
        settings: of the packet.
        layers: as the user set them, without what scapy computes.
        sizes: of the templates, bytes with FCS.
        order: indexes into them.
        macs: source and destination on the DUT's link, if the packet leaves them open.
        reverse: addresses and ports change sides.
    """
    if len(settings.vary) > MOST_FIELDS:
        raise ArgumentError(f"{len(settings.vary)} fields vary; at most {MOST_FIELDS} can: give the others one value")
    if settings.combinations >= 1 << 63:
        text = " / ".join(map(name_of, layers))
        raise ArgumentError(f"the fields of {text} have {settings.combinations:_} combinations: use fewer values")
    if (random := sum(vary.count for vary in settings.vary if vary.order == "random")) > MOST_RANDOM:
        raise ArgumentError(
            f"{random:_} values are in random order, of all fields together; at most {MOST_RANDOM:_} can be: "
            "use fewer, or order='up'"
        )
    if any(vary.first is not None for vary in settings.vary):
        layers = _Layout(completed(layers, macs)).with_firsts(settings.vary, layers)
    sides = [_swapped(layers, index) if reverse else {} for index in range(len(layers))]
    return _Compiler(settings, completed(layers, macs, reverse=reverse), sides).program(sizes, order)


# Layers, and packets of them.


def name_of(layer: Layer) -> str:
    return layer[0].__name__


def completed(layers: Sequence[Layer], macs: tuple[str, str], *, reverse: bool = False) -> list[Layer]:
    """The layers of one direction with all addresses."""
    made = list[Layer]()
    for index, (kind, fields) in enumerate(layers):
        name, given = kind.__name__, {key: value for key, value in fields.items() if value is not None}
        defaults: Mapping[str, str] = {}
        if name in IP:
            ends = _TUNNEL_ENDS if IP.intersection(map(name_of, layers[index + 1 :])) else _ADDRESSES
            defaults = dict(zip(("src", "dst"), ends[name], strict=True))
        elif name in ETHERNET and index:
            defaults = dict(zip(("src", "dst"), _INNER_MACS, strict=True))
        elif name == "ARP":
            defaults = dict(zip(("psrc", "pdst"), _ADDRESSES["IP"], strict=True))
        given = {**defaults, **given}
        if reverse and (sides := _swapped([*layers[:index], (kind, given), *layers[index + 1 :]], index)):
            ports = {port: getattr(kind(), port) for port in ("sport", "dport") if port in sides}
            given = {sides.get(key, key): value for key, value in (ports | given).items()}
        if index == 0:
            given = {"src": macs[0], "dst": _group_mac(layers) or macs[1]} | given
        elif name == "ARP":
            given = {"hwsrc": macs[0]} | given
        made.append((kind, given))
    return made


def _swapped(layers: Sequence[Layer], index: int) -> dict[str, str]:
    """What changes sides in a layer on the way back. A group stays the destination, and so does a tunnel's port."""
    pairs, (kind, fields) = dict(_SIDES), layers[index]
    if kind.__name__ not in {*ETHERNET, *IP, "ARP"}:
        ends = [each for each in layers[:index] if name_of(each) in IP][-1:]
        carries = _CARRIED.intersection(map(name_of, layers[index + 1 :]))
        fixed = carries or (ends and _is_group(ends[0][1].get("dst"))) or not hasattr(kind(), "sport")
        pairs = {} if fixed else {"sport": "dport"}
    elif _is_group(fields.get("dst") or (None if index else _group_mac(layers))):
        pairs = {}
    return pairs | {there: here for here, there in pairs.items()}


def _is_group(address: Any) -> bool:
    """A multicast or broadcast address, which can be nobody's source."""
    known = _address(address)
    if known is None or isinstance(known, int):
        return bool((known or 0) >> 40 & 1)
    return known.is_multicast or address == "255.255.255.255"


def _group_mac(layers: Sequence[Layer]) -> str | None:
    """The MAC address of the group that the outermost IP layer sends to (RFC 1112, RFC 2464), or None."""
    address = next((fields.get("dst") for kind, fields in layers if kind.__name__ in IP), None)
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


def _chain(layers: Sequence[Layer], payload: bytes, changes: Mapping[_FieldRef, Any]) -> Any:
    """The scapy packet of these layers."""
    made = [
        kind(**fields | {name: value for (changed_layer, name), value in changes.items() if changed_layer == index})
        for index, (kind, fields) in enumerate(layers)
    ]
    if payload:
        made[-1] = made[-1] / payload
    for outer, inner in reversed(list(pairwise(made))):
        outer.add_payload(inner)
    for layer in made:
        layer.explicit = 1  # its fields have one value each: scapy builds it without another copy
    return made[0]


def build(layers: Sequence[Layer], payload: bytes = b"", changes: Mapping[_FieldRef, Any] | None = None) -> bytes:
    """The layers' bytes, as scapy builds them with other values in some fields. ArgumentError if it cannot."""
    try:
        return bytes(_chain(layers, payload, changes or {}))
    except Exception as error:  # scapy raises anything for values that it cannot build
        text, reason = " / ".join(map(name_of, layers)), " ".join(str(error).splitlines()[:2])
        raise ArgumentError(f"scapy cannot build {text}: {reason}") from error


def _walk(packet: Any) -> Iterator[Any]:
    while packet:
        yield packet
        packet = packet.payload


def _differing(frame: bytes, other: bytes) -> list[int]:
    return [offset for offset, (here, there) in enumerate(zip(frame, other, strict=False)) if here != there]


def named(layers: Sequence[Layer], ref: _FieldRef) -> str:
    """``IP.dst``, or ``IP[2].dst`` of a second IP layer."""
    name = layers[ref[0]][0].__name__
    number = Counter(kind.__name__ for kind, _ in layers[: ref[0] + 1])[name]
    return f"{name}{f'[{number}]' if number > 1 else ''}.{ref[1]}"


def is_computed(kind: type[Any], name: str) -> bool:
    """A length or a checksum, which scapy computes unless it is set."""
    return bool(_COMPUTED.fullmatch(name)) and getattr(kind(), name, 0) is None


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

    def value(self, frame: bytes) -> int:
        return int.from_bytes(frame[self.first : self.last + 1], "big") >> self.low & ((1 << self.bits) - 1)

    def overlaps(self, other: _Bits) -> bool:
        """Some bit is of both."""
        ends = [(-8 * each.last + each.low, -8 * each.last + each.low + each.bits) for each in (self, other)]
        return max(begin for begin, _ in ends) < min(end for _, end in ends)


@dataclass(frozen=True, slots=True)
class _Located:
    """A field and its bits. ``followers``: bytes of checksums that change with it."""

    name: str
    ref: _FieldRef
    bits: _Bits
    followers: frozenset[int]


class _Layout:
    """Layers as scapy builds them: what a field is in them."""

    def __init__(self, layers: Sequence[Layer], payload: bytes = b"") -> None:
        self.text = " / ".join(map(name_of, layers))
        self.layers = layers
        self.payload = payload
        self.names = [name_of(layer) for layer in layers]
        self.base = build(layers, payload)
        self.objects = list(_walk(_chain(layers, payload, {})))[: len(layers)]

    def field_ref(self, name: str) -> _FieldRef:
        """ArgumentError for a field that there is not, with the layers or fields that there are."""
        match = FIELD_NAME.fullmatch(name)
        if match is None:
            raise ArgumentError(f"{name!r} is no field: write one as scapy names it, such as 'IP.dst' or 'IP[2].src'")
        layer, number, attribute = match[1], int(match[2] or 1), match[3]
        indexes = [index for index, kind in enumerate(self.names) if kind == layer]
        if not indexes:
            raise unknown_word(layer, f"layer of {self.text}", list(dict.fromkeys(self.names)))
        if number > len(indexes):
            raise ArgumentError(f"{name!r}: {self.text} has {how_many(len(indexes), 'layer')} {layer}")
        fields = [field.name for field in self.layers[indexes[number - 1]][0].fields_desc]
        if attribute not in fields:
            raise unknown_word(attribute, f"field of {layer}", fields)
        return indexes[number - 1], attribute

    def with_firsts(self, varied: Sequence[Vary], layers: Sequence[Layer]) -> list[Layer]:
        """The layers with the first value of each field that varies."""
        made = [(kind, dict(fields)) for kind, fields in layers]
        for vary in varied:
            index, name = ref = self.field_ref(vary.field)
            if vary.first is None:
                continue
            first: Any = vary.first
            if isinstance(first, int):
                bits = self.bits_of(ref)
                if not 0 <= first < 1 << bits:
                    raise ArgumentError(
                        f"{vary.field} has {bits} bits, 0 to {(1 << bits) - 1:_}: first cannot be {first:_}"
                    )
                first = self.written(ref, first, low_bits=128)
            elif isinstance(self.value(ref), str) and type(_address(self.value(ref))) is not type(_address(first)):
                raise ArgumentError(f"{vary.field}: first is {first!r}: write an address like {self.value(ref)}")
            made[index][1][name] = first
        return made

    def value(self, ref: _FieldRef) -> Any:
        return self.objects[ref[0]].getfieldval(ref[1])

    def bits_of(self, ref: _FieldRef) -> int:
        """A field's bits."""
        address = _address(self.value(ref))
        if address is not None:
            return 48 if isinstance(address, int) else address.max_prefixlen
        described = self.objects[ref[0]].get_field(ref[1])
        size = getattr(described, "size", None)
        return abs(size) if isinstance(size, int) else int(described.sz * 8)

    def number(self, ref: _FieldRef, name: str) -> int:
        """A field's value as a number."""
        value = self.value(ref)
        address = _address(value)
        try:
            return int(value if address is None else address)
        except (TypeError, ValueError):
            wrong = "has no value" if value is None else f"is {shown_value(value)}, no number or address"
            raise ArgumentError(f"{name} cannot vary: in the packet it {wrong}; write first=...") from None

    def written(self, ref: _FieldRef, number: int, *, low_bits: int = 64) -> Any:
        """The inverse of :meth:`number`: the value as scapy takes it. ``low_bits``: that it replaces in an address."""
        address = _address(self.value(ref))
        if address is None:
            return number
        if isinstance(address, int):
            return number.to_bytes(6, "big").hex(":")
        low = (1 << min(low_bits, address.max_prefixlen)) - 1
        return str(type(address)(int(address) & ~low | number & low))


def _address(value: Any) -> int | ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A MAC address as a number, or an IP address; None for anything else."""
    if not isinstance(value, str):
        return None
    if _MAC.fullmatch(value):
        return int(value.replace(":", ""), 16)
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


class _Compiler(_Layout):
    """Finds where the fields of one direction are. ``sides``: by layer, fields that changed sides."""

    def __init__(self, settings: PacketSettings, layers: Sequence[Layer], sides: Sequence[Mapping[str, str]]) -> None:
        super().__init__(layers, bytes(TEST_PAYLOAD_BYTES))
        if not self.base.endswith(self.payload):
            raise ArgumentError(
                f"{self.text} ends with a trailer behind its payload, where frames are padded: "
                "leave the layer out that adds it"
            )
        self.settings = settings
        self.sides = sides
        self.signature = len(self.base) - len(self.payload)
        self.starts = list(self._begins())[::-1]
        self.sums = dict(self._checksums())
        self.sum_bytes = {at for bits in self.sums.values() for at in range(bits.first, bits.last + 1)}
        self._check_signed()

    def field_ref(self, name: str) -> _FieldRef:
        """The field that is of this side in this direction."""
        index, attribute = super().field_ref(name)
        return index, self.sides[index].get(attribute, attribute)

    def build(self, changes: Mapping[_FieldRef, Any], payload: bytes | None = None) -> bytes:
        return build(self.layers, self.payload if payload is None else payload, changes)

    def _begins(self) -> Iterator[int]:
        """Where the layers begin, the innermost first: built in one pass, as scapy does."""
        built = self.payload
        for layer in reversed(self.objects):
            built = layer.post_build(layer.self_build(), built)
            yield len(self.base) - len(built)

    def _checksums(self) -> Iterator[tuple[_FieldRef, _Bits]]:
        """Checksums that scapy computes; inner ones first. Without those that are not in the frame, such as GRE's."""
        refs = [
            (index, field.name)
            for index, layer in enumerate(self.objects)
            for field in layer.fields_desc
            if _CHECKSUMS.fullmatch(field.name)
            and layer.getfieldval(field.name) is None
            and self.bits_of((index, field.name)) in {16, 32}
        ]
        # With all of them set, none follows from another one.
        lasts = _differing(*(self.build(dict.fromkeys(refs, value)) for value in (0, 1)))
        for ref in reversed(refs):
            start, end = (*self.starts, self.signature)[ref[0] : ref[0] + 2]
            if offsets := [offset for offset in lasts if start <= offset < end]:
                yield ref, _Bits(offsets[-1], 0, self.bits_of(ref))

    def _check_signed(self) -> None:
        """ArgumentError if the signature changes more than checksums that are known."""
        other = self.build({}, b"\x01" + self.payload[1:])
        unknown = set(_differing(self.base, other)) - {self.signature} - self.sum_bytes
        if unknown and not self.settings.as_given:
            raise ArgumentError(
                f"{self._layer_at(min(unknown))} has a checksum that cannot be kept right, in byte {min(unknown)} of "
                "the frame: leave the layer out, or write checksums='as given'"
            )

    def _layer_at(self, offset: int) -> str:
        return self.names[max(0, sum(start <= offset for start in self.starts) - 1)]

    def locate(self, name: str) -> _Located:
        """The bits of a field. ArgumentError for one that cannot vary by itself."""
        ref = self.field_ref(name)
        if is_computed(self.layers[ref[0]][0], ref[1]) and not self.settings.as_given:
            raise ArgumentError(f"{name} cannot vary: scapy computes it; write checksums='as given' to send it anyway")
        value = self.number(ref, name)
        frame = self.build({ref: self.written(ref, value ^ 1)})
        if len(frame) != len(self.base):
            raise ArgumentError(f"{name} cannot vary: frames get another length with it")
        differing = _differing(self.base, frame)
        changed = [offset for offset in differing if offset not in self.sum_bytes]
        if not changed:
            raise ArgumentError(f"{name} cannot vary: the frame does not have it, or scapy computes it")
        difference = self.base[changed[0]] ^ frame[changed[0]]
        if len(changed) > 1 or difference.bit_count() > 1:
            others = list(dict.fromkeys(map(self._layer_at, changed)))
            raise ArgumentError(
                f"{name} cannot vary: other bytes of {listed(others)} follow from it; vary another field, or set what "
                "follows and write checksums='as given'"
            )
        bits = _Bits(changed[0], difference.bit_length() - 1, self.bits_of(ref))
        if bits.value(self.base) != value & ((1 << bits.bits) - 1):
            raise ArgumentError(f"{name} cannot vary: the frame does not store it as one number, highest byte first")
        return _Located(name, ref, bits, frozenset(differing) - {changed[0]})

    # What a generator is told of them.

    def program(self, sizes: tuple[int, ...], order: tuple[int, ...]) -> FrameProgram:
        """ArgumentError where scapy builds something else than this program."""
        located = [self.locate(varying.field) for varying in self.settings.vary]
        self._check_overlaps(located)
        rewritten = list(map(self.locate, self.settings.rewritten))
        changeable = tuple(dict.fromkeys(self._changeable(located, rewritten)))
        if len(changeable) > MOST_CHANGEABLE:
            raise ArgumentError(
                f"rewritten: its fields and their checksums are in {len(changeable)} places of the frame, and at most "
                f"{MOST_CHANGEABLE} can change: name fewer"
            )
        # A receiver judges a checksum only by fields that the checksum lists: so as fields of one value.
        for rewritten_field in rewritten:
            if len(located) < MOST_FIELDS and not any(
                rewritten_field.bits.overlaps(varying.bits) for varying in located
            ):
                located.append(rewritten_field)
        fields = tuple(self._fields(located))
        sums = self._sums(located)
        if len(sums) > MOST_CHECKSUMS:
            raise ArgumentError(f"{self.text} has {len(sums)} checksums; at most {MOST_CHECKSUMS} are kept right")
        templates = tuple(self.build({}, self._padding(bytes(TEST_PAYLOAD_BYTES), size)) for size in sizes)
        program = FrameProgram(
            templates=templates,
            signatures=(self.signature,) * len(templates),
            order=order,
            fields=fields,
            checksums=sums,
            combinations=self.settings.combinations,
            compared_from=self._compared_from(),
            changeable=changeable,
        )
        self._verify(program, located)
        return program

    def _padding(self, signature: bytes, size: int) -> bytes:
        behind = self.signature + len(signature)
        return signature + bytes(offset % 256 for offset in range(behind, size - FCS_BYTES))

    def _check_overlaps(self, located: Sequence[_Located]) -> None:
        for index, one in enumerate(located):
            for other in located[:index]:
                if one.bits.overlaps(other.bits):
                    raise ArgumentError(f"vary: {other.name} and {one.name} are the same bits: leave one out")

    def _fields(self, located: Sequence[_Located]) -> Iterator[VaryingField]:
        every = 1
        of_one_value = [Vary(rewritten_field.name, 1) for rewritten_field in located[len(self.settings.vary) :]]
        for seed, (vary, located_field) in enumerate(zip((*self.settings.vary, *of_one_value), located, strict=True)):
            bits = replace(located_field.bits, bits=min(64, located_field.bits.bits))
            first = bits.value(self.base)
            last, most = first + vary.step * (vary.count - 1), (1 << bits.bits) - 1
            if not 0 <= last <= most:
                raise ArgumentError(
                    f"{vary.field} has {bits.bits} bits, at most {most:_}: {vary.count:_} values from {first:_} on by "
                    f"{vary.step:_} reach {last:_}; begin lower, or use fewer"
                )
            offset, size = self._window(bits)
            yield VaryingField(
                name=named(self.layers, located_field.ref),
                offset=offset,
                size=size,
                shift=8 * (offset + size - 1 - bits.last) + bits.low,
                bits=bits.bits,
                first=first,
                step=vary.step % (1 << 64),
                count=vary.count,
                every=every,
                order=vary.order,
                seed=seed,
            )
            every *= vary.count if self.settings.together else 1

    def _window(self, bits: _Bits) -> tuple[int, int]:
        """Offset and size: as small as can be, in front of the signature, at an even offset where there is one."""
        size = next(each for each in (1, 2, 4, 8) if each > bits.last - bits.first)
        offsets = range(max(0, bits.last + 1 - size), min(bits.first, self.signature - size) + 1)
        return max(offsets, key=lambda offset: (offset % 2 == 0, offset)), size

    def _sums(self, located: Sequence[_Located]) -> tuple[Checksum, ...]:
        made = list[Checksum]()
        for ref, bits in self.sums.items():
            start, end = self._covered(ref)
            covered = range(start, end)
            made.append(
                Checksum(
                    name=named(self.layers, ref),
                    kind="internet" if bits.bits == 16 else "crc32c",
                    offset=bits.first,
                    start=start,
                    end=0,
                    fields=tuple(n for n, each in enumerate(located) if self._follows(bits, covered, each)),
                    checksums=tuple(n for n, each in enumerate(made) if each.offset in covered),
                    signature=end > self.signature,
                    never_zero=self.names[ref[0]].startswith("UDP"),
                )
            )
        return tuple(made)

    def _covered(self, ref: _FieldRef) -> tuple[int, int]:
        """The bytes that a checksum is over: IPv4's the header, all others what is behind, too."""
        start = self.starts[ref[0]]
        if self.names[ref[0]] != "IP":
            return start, len(self.base)
        return start, (*self.starts, self.signature)[ref[0] + 1]

    @staticmethod
    def _follows(checksum: _Bits, covered: range, field: _Located) -> bool:
        """A field in front of what a checksum is over can be of its pseudo-header."""
        return field.bits.last in covered or (field.bits.last < covered.start and checksum.last in field.followers)

    def _compared_from(self) -> int:
        """The innermost IP header, or what is behind Ethernet and its tags."""
        inner = [start for name, start in zip(self.names, self.starts, strict=True) if name in IP]
        behind = next((at for at, name in enumerate(self.names) if at and name not in TAGS), len(self.names))
        return inner[-1] if inner else (*self.starts, self.signature)[behind]

    def _changeable(self, located: Sequence[_Located], rewritten: Sequence[_Located]) -> Iterator[tuple[int, int]]:
        """What routers change in the innermost IP header, and what ``rewritten`` names with its checksums."""
        begin = self._compared_from()
        inner = next((index for index in reversed(range(len(self.names))) if self.names[index] in IP), None)
        if inner is not None and self.names[inner] == "IP":
            yield from ((begin + 1, 1), (begin + 8, 1), (begin + 10, 2))  # DSCP and ECN, TTL, checksum
        elif inner is not None:
            labelled = any(field.ref == (inner, "fl") for field in located)
            yield from ((begin, 2 if labelled else 4), (begin + 7, 1))  # traffic class and flow label, hop limit
        for field in rewritten:
            spans = [(field.bits.first, field.bits.last - field.bits.first + 1)]
            for ref, bits in self.sums.items():
                if self._follows(bits, range(*self._covered(ref)), field):
                    spans.append((bits.first, bits.bits // 8))
            yield from (ref for ref in spans if ref[0] >= begin)

    def _verify(self, program: FrameProgram, located: Sequence[_Located]) -> None:
        """Compare with what scapy builds, at several combinations, each with another signature.

        Of the reverse direction two are enough: its fields and checksums are in the same places.
        """
        last = program.combinations - 1
        chosen = {0, last} if any(self.sides) else {0, min(1, last), last // 3, last // 2, last}
        for template, frame in enumerate(program.templates):
            for combination in sorted(chosen):
                signature = bytes(
                    (combination * 37 + template + offset * offset) % 256 for offset in range(TEST_PAYLOAD_BYTES)
                )
                changes = {
                    field.ref: self.written(field.ref, value.value(combination))
                    for field, value in zip(located, program.fields, strict=True)
                }
                built = self.build(changes, self._padding(signature, len(frame) + FCS_BYTES))
                sent = frame_of(program, template, combination, signature)
                wrong = _differing(built, sent)
                if self.settings.as_given:  # of checksums that cannot be kept right, the template's stay
                    wrong = [
                        offset
                        for offset in wrong
                        if any(field.bits.first <= offset <= field.bits.last for field in located)
                    ]
                if wrong:
                    self._refuse(wrong[0])

    def _refuse(self, wrong: int) -> None:
        name = self._layer_at(wrong)
        checksums = [named(self.layers, ref) for ref, bits in self.sums.items() if bits.first <= wrong <= bits.last]
        what = checksums[0] if checksums else f"byte {wrong} of the frame, in {name},"
        varied = listed([vary.field for vary in self.settings.vary]) or "the payload"
        raise ArgumentError(
            f"{self.text}: {what} cannot be kept right while {varied} varies: vary something else, or write "
            "checksums='as given'"
        )
