"""Where a traffic's frames come from, if not from its short form: packets that scapy builds, captures, evidence."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pytest_nfvperf.model.arguments import shown_value
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.traffic.captures import (
    SignatureLayout,
    Walked,
    make_right,
    read_capture,
    signature_layout,
    walk,
)
from pytest_nfvperf.model.traffic.frame_program import FCS_BYTES, TEST_PAYLOAD_BYTES, FrameProgram
from pytest_nfvperf.model.traffic.packet_program import (
    ETHERNET,
    TAGS,
    Layer,
    PacketSettings,
    build,
    compile_program,
    completed,
    is_computed,
    named,
)

LEAST_FRAME_SIZE = 64
_SOME_MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
"""Of frames that are shown or checked before the ports are known."""


@dataclass(frozen=True, slots=True)
class RecordedFrames:
    """A frame source as evidence keeps it: to be shown, not to be sent.

    Attributes:
        label, text, layers, header_bytes, least_frame_size, combinations, frame_sizes: as of FrameSource.
        command: the packet as scapy writes it; "" for another source.
        steps: of a conversation, by name.
        frame: one frame without FCS, as hex: of the smallest size sent, up to the signature, which is zeros.
    """

    label: str
    text: str
    layers: tuple[str, ...]
    header_bytes: int
    least_frame_size: int
    combinations: int
    frame: str
    frame_sizes: tuple[tuple[int, int], ...] = ()
    command: str = ""
    steps: tuple[str, ...] = ()

    def program(self, *_: Any, **__: Any) -> NoReturn:
        written = f": build it again as {self.command}" if self.command else ""
        raise ConfigError(f"{self.text} was read from evidence, which describes frames and cannot send them{written}")

    def recorded(self, _: int, /) -> RecordedFrames:
        return self


@dataclass(frozen=True, slots=True)
class PacketStack:
    """A packet that scapy builds, with fields that vary. Two are equal if their texts are.

    Attributes:
        command: the packet as scapy writes it: ``Ether()/IP()/TCP(dport=80)``.
        settings: as of Traffic.
    """

    command: str
    settings: PacketSettings
    _layers: tuple[Layer, ...] = field(default=(), repr=False, compare=False)
    frame_sizes: ClassVar[tuple[tuple[int, int], ...]] = ()

    @staticmethod
    def of(packet: Any, settings: PacketSettings) -> PacketStack:
        """Take over a scapy packet. ArgumentError for one that cannot be sent, or a field that cannot vary."""
        layers = _without_computed(_layers_of(packet), as_given=settings.as_given)
        return PacketStack(packet.command(), settings, layers)._checked()

    def varied(self, settings: PacketSettings) -> PacketStack:
        """The same packet with other settings; ArgumentError as of :meth:`of`."""
        return self if settings == self.settings else replace(self, settings=settings)._checked()

    def _checked(self) -> PacketStack:
        """Find mistakes where the traffic is written: when tests are collected."""
        for reverse in (False, True):
            _program(self, (self.least_frame_size,), (0,), _SOME_MACS, reverse)
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
    def combinations(self) -> int:
        return self.settings.combinations

    def program(
        self, sizes: Sequence[int], order: Sequence[int], *, source_mac: str, destination_mac: str, reverse: bool
    ) -> FrameProgram:
        return _program(self, tuple(sizes), tuple(order), (source_mac, destination_mac), reverse)

    def recorded(self, size: int, /) -> RecordedFrames:
        return _recorded(self, size)


@lru_cache(maxsize=512)
def _program(
    stack: PacketStack, sizes: tuple[int, ...], order: tuple[int, ...], macs: tuple[str, str], reverse: bool
) -> FrameProgram:
    return compile_program(stack.settings, stack._layers, sizes, order, macs, reverse=reverse)


@lru_cache(maxsize=512)
def _header_bytes(stack: PacketStack) -> int:
    return len(build(completed(stack._layers, _SOME_MACS)))


@lru_cache(maxsize=512)
def _recorded(stack: PacketStack, size: int) -> RecordedFrames:
    frame = _program(stack, (size,), (0,), _SOME_MACS, False).templates[0]
    return _described(stack, frame[: stack.least_frame_size - FCS_BYTES])


def _described(source: PacketStack | CapturedFrames, frame: bytes) -> RecordedFrames:
    known = {name: getattr(source, name) for name in RecordedFrames.__dataclass_fields__ if hasattr(source, name)}
    return RecordedFrames(**known | {"frame": frame.hex()})


# Taking over the user's packet.


def _layers_of(packet: Any) -> tuple[Layer, ...]:
    if isinstance(packet, type) or not all(hasattr(packet, name) for name in ("command", "copy", "fields", "payload")):
        raise ArgumentError(
            f"packet is {shown_value(packet)}: write a packet that scapy builds, such as Ether()/IP()/UDP()"
        )
    layers, layer = list[Layer](), packet.copy()
    while layer and type(layer).__name__ != "Padding":  # what is behind the last layer is false; we pad by ourselves
        layers.append((type(layer), dict(layer.fields)))
        layer = layer.payload
    first, text = layers[0][0].__name__, " / ".join(kind.__name__ for kind, _ in layers)
    if first not in ETHERNET:
        raise ArgumentError(f"the packet begins with {first}: put Ether() in front, as it is on the DUT's link")
    for kind, fields in layers:
        if name := next((key for key, value in fields.items() if _is_volatile(value)), None):
            raise ArgumentError(f"{kind.__name__}.{name} is random: give it a value, and write vary=[Vary(...)]")
    if len(list(islice(iter(packet), 2))) > 1:
        raise ArgumentError(f"a field of {text} has several values: give it one, and write vary=[Vary(...)]")
    return tuple(layers)


def _is_volatile(value: Any) -> bool:
    """A value that scapy makes anew for each packet."""
    return any(kind.__name__ == "VolatileValue" for kind in type(value).__mro__)


def _without_computed(layers: tuple[Layer, ...], *, as_given: bool) -> tuple[Layer, ...]:
    """Leave out lengths and checksums that are those which scapy computes; ArgumentError for others."""
    for index, (kind, fields) in enumerate(layers):
        for name, value in fields.items():
            if value is None or not is_computed(kind, name):
                continue
            rest = {key: each for key, each in fields.items() if key != name}
            without = (*layers[:index], (kind, rest), *layers[index + 1 :])
            frame, computed = (build(completed(each, _SOME_MACS)) for each in (layers, without))
            if frame == computed:
                return _without_computed(without, as_given=as_given)
            if not as_given and (kind.__name__, name, value) != ("UDP", "chksum", 0):  # RFC 768: no checksum
                raise ArgumentError(
                    f"{named(layers, (index, name))} is set to {value}, which is wrong for this packet: leave it out, "
                    "so that it is right in every frame, or write checksums='as given'"
                )
    return layers


_SHORT = {
    "GTP_U_Header": "gtpu",
    "GTPPDUSessionContainer": "",
    "IPv6ExtHdrHopByHop": "hopopts",
    "IPv6ExtHdrDestOpt": "dstopts",
    "IPv6ExtHdrFragment": "fragment",
    "IPv6ExtHdrRouting": "routing",
    "IPv6ExtHdrSegmentRouting": "srv6",
    "SNAP": "",
}
_UNSAID = {*TAGS, *ETHERNET, "IP", "Raw", "PPP"}


def _label(names: Sequence[str]) -> str:
    """``qinq-tcp``: without Ethernet, IPv4 and payload, nor UDP with a tunnel behind it."""
    tags = sum(name in TAGS for name in names)
    words = [{0: "", 1: "vlan"}.get(tags, "qinq")]
    for index, name in enumerate(names):
        if name in _UNSAID or (name == "UDP" and set(names[index + 1 :]) - {"Raw"}):
            continue
        families = [family for family in ("icmpv6", "sctp") if name.lower().startswith(family)]
        said = families[0] if families else _SHORT.get(name, name.lower().replace("_", ""))
        words += [said] if said not in words else []
    return "-".join(filter(None, words)) or ("ip" if "IP" in names else "ethernet")


# Captures: their frames in their order and sizes, each signed where it has room, at our load.

_FIRST = {4: ("198.18.0.1", "198.19.0.1"), 16: ("2001:2::1", "2001:2:0:8000::1")}
"""Source and destination, by length: RFC 2544 appendix C.2.2 and RFC 5180."""
_MOST_ADDRESSES = 65_534


class _NewAddresses:
    """Gives each address of a capture one of our own, the first one first: as many hosts as there were."""

    def __init__(self, name: str) -> None:
        self._known: dict[tuple[bool, bytes], bytes] = {}
        self._count = Counter[tuple[bool, int]]()
        self._name = name

    def of(self, address: bytes, *, destination: bool) -> bytes:
        key = (destination, address)
        if key not in self._known:
            number = self._count[destination, len(address)]
            if number == _MOST_ADDRESSES:
                raise ConfigError(
                    f"has more than {_MOST_ADDRESSES:,} addresses to rewrite: leave rewrite_addresses out",
                    file=self._name,
                )
            self._count[destination, len(address)] += 1
            first = ipaddress.ip_address(_FIRST[len(address)][destination])
            self._known[key] = (first + number).packed
        return self._known[key]


@dataclass(frozen=True, slots=True)
class CapturedFrames:
    """The frames of a capture, in their order. Made by :func:`captured_frames`.

    Attributes:
        file: name of the capture, without its directory.
        digest: of the frames as they are sent.
        frame_sizes: ``(size with FCS, frames of it)``, the smallest first.
        left_out: frames that cannot be signed, by class, the most frequent first.
        headers: stacks of headers with their frames, the most frequent first.
        header_bytes: most bytes in front of a signature.
        combinations: one, because no field varies.
        rewritten: which addresses are not the capture's: "macs", "ips".
        frames: padded, with zeros for the signature.
    """

    file: str
    digest: str
    frame_sizes: tuple[tuple[int, int], ...]
    left_out: tuple[tuple[str, int], ...] = ()
    headers: tuple[tuple[str, int], ...] = ()
    header_bytes: int = 0
    rewritten: tuple[str, ...] = ()
    frames: tuple[bytes, ...] = field(default=(), repr=False, compare=False)
    combinations: ClassVar[int] = 1

    @property
    def least_frame_size(self) -> int:
        return self.frame_sizes[0][0]

    @property
    def count(self) -> int:
        """Frames that are sent, until they begin again."""
        return sum(frames for _, frames in self.frame_sizes)

    @property
    def layers(self) -> tuple[str, ...]:
        """The headers of the most frequent stack."""
        return tuple(self.headers[0][0].split(" / ")) if self.headers else ()

    @property
    def label(self) -> str:
        """``dns-http`` of dns_http.pcapng."""
        return re.sub(r"[^a-z0-9]+", "-", Path(self.file).stem.lower()).strip("-") or "capture"

    @property
    def text(self) -> str:
        """What it is, for a person: frames, headers, and what is left out."""
        known = [f"{frames} {stack}" for stack, frames in self.headers[:_MOST_SHOWN]]
        rest = self.count - sum(frames for _, frames in self.headers[:_MOST_SHOWN])
        text = f"{how_many(self.count, 'frame')} of {self.file}: {', '.join(known + [f'{rest} others'] * bool(rest))}"
        return f"{text}; left out, because they cannot be signed: {_listed(self.left_out)}" if self.left_out else text

    def program(self, *_: Any, source_mac: str, destination_mac: str, reverse: bool) -> FrameProgram:
        """One direction's frames, in the capture's own sizes and order."""
        macs = (source_mac, destination_mac) if "macs" in self.rewritten else ("", "")
        return _program_of(self.frames, macs, reverse)

    def recorded(self, _: int, /) -> RecordedFrames:
        return _described(self, self.frames[0])


_MOST_SHOWN = 4


@lru_cache(maxsize=4)
def _program_of(frames: tuple[bytes, ...], macs: tuple[str, str], reverse: bool) -> FrameProgram:
    templates: dict[bytes, int] = {}
    order, positions = list[int](), list[tuple[int, tuple[int, bool]]]()
    for frame in frames:
        directed, layout = _directed(frame, macs, reverse)
        number = templates.setdefault(directed, len(templates))
        if number == len(positions):
            covered = layout.checksum
            positions.append((layout.signature, (covered.offset, covered.never_zero) if covered else (0, False)))
        order.append(number)
    return FrameProgram(
        tuple(templates),
        tuple(signature for signature, _ in positions),
        tuple(order),
        balances=tuple(balance for _, balance in positions),
        compared_from=min(signature for signature, _ in positions),
    )


def _directed(frame: bytes, macs: tuple[str, str], reverse: bool) -> tuple[bytes, SignatureLayout]:
    """The frame in one direction. Addresses and ports that change sides leave every checksum as it is."""
    walked, made = walk(frame), bytearray(frame)
    if reverse:
        for kind, source, destination, size, _ in walked.pairs:
            if _is_group(kind, frame[destination : destination + size]):
                continue  # which can be nobody's source
            made[source : source + size], made[destination : destination + size] = (
                frame[destination : destination + size],
                frame[source : source + size],
            )
    source_mac, destination_mac = (bytes.fromhex(mac.replace(":", "")) for mac in macs)
    if source_mac:
        made[6:12] = source_mac
        if not made[0] & 1:  # multicast and broadcast stay
            made[:6] = destination_mac
    layout = signature_layout(walked, len(frame))
    if isinstance(layout, str):
        raise AssertionError(f"a frame that cannot be signed: {layout}")
    return bytes(made), layout


def _is_group(kind: str, address: bytes) -> bool:
    if kind == "mac":
        return bool(address[0] & 1)
    return kind == "ip" and (address[0] == 0xFF or (len(address) == 4 and address[0] >> 4 == 0xE))


def captured_frames(
    file: str | Path, *, rewrite_macs: bool = True, rewrite_addresses: bool = False, checksums: str = "right"
) -> CapturedFrames:
    """The frames of a capture that can be signed.

    Args:
        file: pcap or pcapng, of Ethernet.
        rewrite_macs: frames go from and to the generator's ports; else from and to the capture's MAC addresses.
        rewrite_addresses: the outermost IP addresses become 198.18.0.0/15's (RFC 2544) or 2001:2::/48's (RFC 5180), as
            many as there were.
        checksums: "right": all are computed anew, since captures of a sender often have what its NIC should fill in;
            "as given": only those over the signature.

    Raises:
        ConfigError: the file cannot be used (:func:`read_capture`), or no frame of it can be signed.
    """
    path = Path(file)
    new = _NewAddresses(str(path)) if rewrite_addresses else None
    frames, left_out, headers, sizes, deepest = list[bytes](), Counter[str](), Counter[str](), Counter[int](), 0
    for data in read_capture(path):
        padded = data.ljust(LEAST_FRAME_SIZE - FCS_BYTES, b"\0")
        walked = walk(padded)
        layout = signature_layout(walked, len(padded))
        if isinstance(layout, str):
            left_out[layout] += 1
            continue
        headers[" / ".join(walked.layers)] += 1
        sizes[len(padded) + FCS_BYTES] += 1
        deepest = max(deepest, layout.signature)
        frames.append(_prepared(padded, walked, layout, new.of if new else None, everything=checksums == "right"))
    if not frames:
        raise ConfigError(
            f"has no frame that can be signed, and unsigned ones cannot be counted: {_listed(left_out.most_common())}",
            file=str(path),
        )
    options = [name for name, given in (("macs", rewrite_macs), ("ips", rewrite_addresses)) if given]
    return CapturedFrames(
        path.name,
        hashlib.sha256(b"".join(len(frame).to_bytes(2, "big") + frame for frame in frames)).hexdigest()[:16],
        tuple(sorted(sizes.items())),
        tuple(left_out.most_common()),
        tuple(headers.most_common()),
        deepest,
        tuple(options),
        tuple(frames),
    )


def _listed(counted: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted)


def _prepared(
    frame: bytes, walked: Walked, layout: SignatureLayout, renamed: Callable[..., bytes] | None, *, everything: bool
) -> bytes:
    """The frame with zeros for its signature, its new addresses, and its checksums right."""
    made = bytearray(frame)
    made[layout.signature : layout.signature + TEST_PAYLOAD_BYTES] = bytes(TEST_PAYLOAD_BYTES)
    if renamed is not None:
        for kind, source, destination, size, outermost in walked.pairs:
            if kind == "ip" and outermost and size in {4, 16}:
                made[source : source + size] = renamed(frame[source : source + size], destination=False)
                made[destination : destination + size] = renamed(
                    frame[destination : destination + size], destination=True
                )
        walked = walk(bytes(made))  # pseudo-headers have changed
    checksums = walked.checksums if layout.checksum else []
    if everything or renamed is not None:
        checksums = [*walked.others, *walked.checksums]
    for checksum in sorted(checksums, key=lambda covered: -covered.offset):  # inner ones first
        make_right(made, checksum)
    return bytes(made)
