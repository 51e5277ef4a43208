"""Captures as traffic: frames of pcap and pcapng files, in their order and sizes, each signed where it has room.

Timestamps are not used: a capture is sent at our load. A frame is walked header by header (:func:`walk`), as far as
switches and tunnels look. What follows is payload, which the signature overwrites; checksums over it are made right
again.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.capture_file import read_capture
from pytest_nfvperf.model.traffic.frame_program import FrameProgram
from pytest_nfvperf.model.traffic.packet import RecordedFrames

_FCS, _LEAST, _SIGNATURE = 4, 64, 14  # bytes; sizes are with FCS


# Walking headers: where payload begins, which checksums cover it, and which fields change sides on the way back.


class CoveredChecksum(NamedTuple):
    """An internet checksum: of the 2 bytes at ``offset``, over ``start`` to ``end``, and ``pseudo`` more."""

    offset: int
    start: int
    end: int
    pseudo: int = 0
    never_zero: bool = False


class AddressPair(NamedTuple):
    """Source and destination, by offset and length; ``kind``: mac, ip or port."""

    kind: str
    source: int
    destination: int
    size: int
    outermost: bool = False


@dataclass(slots=True)
class Walked:
    """What a frame is.

    Attributes:
        layers: the headers, as scapy names them.
        payload, end: where payload behind the innermost header begins and ends; Ethernet's padding is behind ``end``.
        checksums: that cover the payload, outer ones first.
        others: header checksums, which do not.
        pairs: addresses and ports.
        unsignable: why its payload must not be overwritten; "" where it may.
    """

    layers: list[str] = field(default_factory=list)
    payload: int = 0
    end: int = 0
    checksums: list[CoveredChecksum] = field(default_factory=list)
    others: list[CoveredChecksum] = field(default_factory=list)
    pairs: list[AddressPair] = field(default_factory=list)
    unsignable: str = ""


class _ShortHeaderError(Exception):
    """A header that the frame has no room for, or that contradicts itself."""


_TAGS = {0x8100: "Dot1Q", 0x88A8: "Dot1AD", 0x9100: "Dot1Q", 0x9200: "Dot1Q"}
_TUNNEL_PORTS = {4789: "VXLAN", 6081: "GENEVE", 2152: "GTP_U_Header"}
_ETHERNET_TYPES = {0x0800: "IP", 0x86DD: "IPv6", 0x6558: "Ether"}
_EXTENSIONS = {0: "IPv6ExtHdrHopByHop", 43: "IPv6ExtHdrRouting", 60: "IPv6ExtHdrDestOpt"}


def walk(frame: bytes) -> Walked:
    """Find the headers of an Ethernet frame without FCS."""
    found = Walked(end=len(frame))
    try:
        _walk_ethernet(frame, 0, found)
    except (_ShortHeaderError, struct.error, IndexError):
        found.unsignable = f"{found.layers[-1] if found.layers else 'Ethernet'} header that is incomplete"
    return found


def _u16(frame: bytes, at: int) -> int:
    value: int = struct.unpack_from(">H", frame, at)[0]
    return value


def _inside(found: Walked, at: int) -> int:
    if at > found.end:
        raise _ShortHeaderError
    found.payload = at
    return at


def _walk_ethernet(frame: bytes, at: int, found: Walked) -> None:
    found.layers.append("Ether")
    found.pairs.append(AddressPair("mac", at + 6, at, 6, outermost=at == 0))
    kind, at = _u16(frame, at + 12), _inside(found, at + 14)
    while kind in _TAGS:
        found.layers.append(_TAGS[kind])
        kind, at = _u16(frame, at + 2), _inside(found, at + 4)
    if kind == 0x8864:
        found.layers += ["PPPoE", "PPP"]
        kind, at = {0x21: 0x0800, 0x57: 0x86DD}.get(_u16(frame, at + 6), 0), _inside(found, at + 8)
    if kind in {0x8847, 0x8848}:
        _walk_mpls(frame, at, found)
    elif kind == 0x0806:
        _walk_arp(frame, at, found)
    elif kind < 0x0600:
        found.end = min(found.end, at + kind)
        found.unsignable = "LLC (an IEEE 802.3 length in place of a type)"
    else:
        _walk_type(frame, kind, at, found, f"EtherType {kind:#06x}")


def _walk_type(frame: bytes, kind: int, at: int, found: Walked, otherwise: str) -> None:
    if kind == 0x0800:
        _walk_ipv4(frame, at, found)
    elif kind == 0x86DD:
        _walk_ipv6(frame, at, found)
    elif kind == 0x6558:
        _walk_ethernet(frame, at, found)
    else:
        found.unsignable = otherwise


def _walk_mpls(frame: bytes, at: int, found: Walked) -> None:
    last = False
    while not last:
        found.layers.append("MPLS")
        last, at = bool(frame[at + 2] & 1), _inside(found, at + 4)
    version = frame[at] >> 4 if at < found.end else 0
    if version in {4, 6}:
        _walk_type(frame, {4: 0x0800, 6: 0x86DD}[version], at, found, "")
    elif version == 0 and at + 18 <= found.end:  # a control word (RFC 4448), then Ethernet
        _walk_ethernet(frame, _inside(found, at + 4), found)
    else:
        found.unsignable = "MPLS with an unknown payload"


def _walk_arp(frame: bytes, at: int, found: Walked) -> None:
    found.layers.append("ARP")
    hardware, protocol = frame[at + 4], frame[at + 5]
    sender, target = at + 8, at + 8 + hardware + protocol
    found.pairs += [
        AddressPair("mac", sender, target, hardware),
        AddressPair("ip", sender + hardware, target + hardware, protocol, outermost=True),
    ]
    found.end = _inside(found, target + hardware + protocol)
    found.unsignable = "ARP"


def _walk_ipv4(frame: bytes, at: int, found: Walked) -> None:
    outermost = not {"IP", "IPv6"} & {*found.layers}
    found.layers.append("IP")
    header, total = (frame[at] & 15) * 4, _u16(frame, at + 2)
    if frame[at] >> 4 != 4 or header < 20 or total < header or at + total > found.end:
        raise _ShortHeaderError
    found.end = at + total
    found.pairs.append(AddressPair("ip", at + 12, at + 16, 4, outermost))
    found.others.append(CoveredChecksum(at + 10, at, at + header))
    flags = _u16(frame, at + 6)
    if flags & 0x3FFF:  # more fragments, or not the first
        _inside(found, at + header)
        found.unsignable = "IPv4 fragment"
        return
    pseudo = _sum(frame[at + 12 : at + 20]) + frame[at + 9] + total - header
    _walk_protocol(frame, frame[at + 9], _inside(found, at + header), found, pseudo, 4)


def _walk_ipv6(frame: bytes, at: int, found: Walked) -> None:
    outermost = not {"IP", "IPv6"} & {*found.layers}
    found.layers.append("IPv6")
    length, following, start = _u16(frame, at + 4), frame[at + 6], at + 40
    if frame[at] >> 4 != 6 or start + length > found.end:
        raise _ShortHeaderError
    found.end = start + length
    found.pairs.append(AddressPair("ip", at + 8, at + 24, 16, outermost))
    place = _inside(found, start)
    while following in _EXTENSIONS:
        found.layers.append(_EXTENSIONS[following])
        following, place = frame[place], _inside(found, place + (frame[place + 1] + 1) * 8)
    if following == 44:
        found.unsignable = "IPv6 fragment"
        return
    pseudo = _sum(frame[at + 8 : at + 40]) + following + found.end - place
    _walk_protocol(frame, following, place, found, pseudo, 6)


def _walk_protocol(frame: bytes, protocol: int, at: int, found: Walked, pseudo: int, version: int) -> None:
    if protocol == 6:
        found.layers.append("TCP")
        found.pairs.append(AddressPair("port", at, at + 2, 2))
        found.checksums.append(CoveredChecksum(at + 16, at, found.end, pseudo))
        _inside(found, at + max(20, (frame[at + 12] >> 4) * 4))
    elif protocol == 17:
        _walk_udp(frame, at, found, pseudo, version)
    elif protocol in {1, 58}:
        _walk_icmp(frame, at, found, pseudo, six=protocol == 58)
    elif protocol == 47:
        _walk_gre(frame, at, found)
    elif protocol in {4, 41}:
        _walk_type(frame, {4: 0x0800, 41: 0x86DD}[protocol], at, found, "")
    elif protocol == 50:
        found.layers.append("ESP")
        _inside(found, at + 8)
    elif protocol == 132:
        found.layers.append("SCTP")
        found.unsignable = "SCTP (its CRC32c cannot be kept right)"
    else:
        found.unsignable = f"IP protocol {protocol}"


def _walk_udp(frame: bytes, at: int, found: Walked, pseudo: int, version: int) -> None:
    found.layers.append("UDP")
    tunnel = _TUNNEL_PORTS.get(_u16(frame, at + 2), "")
    # The destination port says which tunnel it is: both stay as they are on the way back.
    if not tunnel:
        found.pairs.append(AddressPair("port", at, at + 2, 2))
    if _u16(frame, at + 6) or (version == 6 and not tunnel):  # RFC 768, RFC 6935: where it may be left out
        found.checksums.append(CoveredChecksum(at + 6, at, found.end, pseudo, never_zero=True))
    inside = _inside(found, at + 8)
    if tunnel:
        _walk_tunnel(frame, tunnel, inside, found)


def _walk_tunnel(frame: bytes, tunnel: str, at: int, found: Walked) -> None:
    if tunnel == "VXLAN" and frame[at] & 0x08:
        found.layers.append(tunnel)
        _walk_ethernet(frame, _inside(found, at + 8), found)
    elif tunnel == "GENEVE" and frame[at] >> 6 == 0:
        found.layers.append(tunnel)
        kind, inside = _u16(frame, at + 2), _inside(found, at + 8 + (frame[at] & 0x3F) * 4)
        _walk_type(frame, kind, inside, found, f"GENEVE with EtherType {kind:#06x}")
    elif tunnel == "GTP_U_Header" and frame[at] >> 5 == 1:
        found.layers.append(tunnel)
        _walk_gtp_u(frame, at, found)


def _walk_gtp_u(frame: bytes, at: int, found: Walked) -> None:
    """3GPP TS 29.281 section 5."""
    has_options, following = frame[at] & 7, 0
    inside = _inside(found, at + (12 if has_options else 8))
    if has_options & 4:
        following = frame[at + 11]
    while following:
        length = frame[inside] * 4
        if not length:
            raise _ShortHeaderError
        inside = _inside(found, inside + length)
        following = frame[inside - 1]
    if frame[at + 1] != 255:
        found.unsignable = "GTP-U signalling"
        return
    version = frame[inside] >> 4 if inside < found.end else 0
    _walk_type(frame, {4: 0x0800, 6: 0x86DD}.get(version, 0), inside, found, "GTP-U with an unknown payload")


def _walk_icmp(frame: bytes, at: int, found: Walked, pseudo: int, *, six: bool) -> None:
    name, echoes = ("ICMPv6", {128, 129}) if six else ("ICMP", {0, 8})
    found.layers.append(name)
    found.checksums.append(CoveredChecksum(at + 2, at, found.end, pseudo if six else 0))
    kind = frame[at]
    _inside(found, at + 8)
    if kind not in echoes:
        found.unsignable = f"{name} type {kind}"


def _walk_gre(frame: bytes, at: int, found: Walked) -> None:
    """RFC 2784 and RFC 2890."""
    found.layers.append("GRE")
    flags, kind = _u16(frame, at), _u16(frame, at + 2)
    if flags & 0x4007:
        found.unsignable = "GRE with routing, or of another version"
        return
    length = 4 + 4 * sum(bool(flags & flag) for flag in (0x8000, 0x2000, 0x1000))
    if flags & 0x8000:
        found.checksums.append(CoveredChecksum(at + 4, at, found.end))
    _walk_type(frame, kind, _inside(found, at + length), found, f"GRE with EtherType {kind:#06x}")


# Checksums and addresses of one frame.


def _sum(data: bytes) -> int:
    """The ones' complement sum of 16-bit words (RFC 1071), modulo 65535."""
    return int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF


def _make_right(frame: bytearray, checksum: CoveredChecksum) -> None:
    at, _, end, pseudo, never_zero = checksum
    frame[at : at + 2] = b"\0\0"
    total = (_sum(bytes(frame[checksum.start : end])) + pseudo) % 0xFFFF
    # A sum of bytes that are not all zero is never 0, but 65535, which is the same modulo 65535.
    value = 0xFFFF - (total or 0xFFFF)
    frame[at : at + 2] = (value or (0xFFFF if never_zero else 0)).to_bytes(2, "big")


class SignablePlace(NamedTuple):
    """Where a frame has its signature; ``checksum``: the one that the signature changes, or None."""

    signature: int
    checksum: CoveredChecksum | None


def place_of(found: Walked, size: int) -> SignablePlace | str:
    """Where a frame of ``size`` bytes can be signed; else the class of frames that it belongs to, for a person."""
    innermost = found.layers[-1] if found.layers else "Ethernet"
    starts = [] if found.unsignable else [(found.payload, found.end)]
    for start, end in [*starts, (found.end, size)]:  # payload, else what is behind it: Ethernet's padding
        signature = start + start % 2
        covering = [each for each in found.checksums if each.end > signature]
        # Padding of an inner frame is inside the outer one, whose end it must not cross.
        if signature + _SIGNATURE <= min([end, *(each.end for each in covering)]):
            return SignablePlace(signature, covering[-1] if covering else None)
    return found.unsignable or f"{innermost} with less than {_SIGNATURE} bytes of payload"


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


# The frames of a capture as traffic.


@dataclass(frozen=True, slots=True)
class CapturedFrames:
    """A frame source: the frames of a capture, in their order. Made by :func:`captured_frames`.

    Attributes:
        file: name of the capture, without its directory.
        digest: of the frames as they are sent.
        sizes: ``(size with FCS, frames of it)``, the smallest first.
        left_out: frames that cannot be signed, by class, the most frequent first.
        headers: stacks of headers with their frames, the most frequent first.
        deepest: most bytes in front of a signature.
        rewritten: which addresses are not the capture's: "macs", "ips".
        frames: padded, with zeros for the signature.
    """

    file: str
    digest: str
    sizes: tuple[tuple[int, int], ...]
    left_out: tuple[tuple[str, int], ...] = ()
    headers: tuple[tuple[str, int], ...] = ()
    deepest: int = 0
    rewritten: tuple[str, ...] = ()
    frames: tuple[bytes, ...] = field(default=(), repr=False, compare=False)

    @property
    def combinations(self) -> int:
        """1: no field varies."""
        return 1

    @property
    def frame_sizes(self) -> tuple[tuple[int, int], ...]:
        return self.sizes

    @property
    def least_frame_size(self) -> int:
        return self.sizes[0][0]

    @property
    def header_bytes(self) -> int:
        """What stands in front of the signature, at most."""
        return self.deepest

    @property
    def count(self) -> int:
        """Frames that are sent, until they begin again."""
        return sum(frames for _, frames in self.sizes)

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
        return f"{text}; {self.left_out_text}" if self.left_out else text

    @property
    def left_out_text(self) -> str:
        """``left out, because they cannot be signed: 12 TCP with less than 14 bytes of payload``; "" for none."""
        if not self.left_out:
            return ""
        return f"left out, because they cannot be signed: {_listed(self.left_out)}"

    def program(
        self,
        sizes: Sequence[int],  # noqa: ARG002 - a capture has its own sizes and order
        order: Sequence[int],  # noqa: ARG002
        *,
        source_mac: str,
        destination_mac: str,
        reverse: bool,
    ) -> FrameProgram:
        """One direction's frames."""
        macs = (source_mac, destination_mac) if "macs" in self.rewritten else ("", "")
        return _program_of(self.frames, macs, reverse)

    def recorded(self) -> RecordedFrames:
        return RecordedFrames(
            label=self.label,
            text=self.text,
            layers=self.layers,
            header_bytes=self.header_bytes,
            least_frame_size=self.least_frame_size,
            combinations=self.combinations,
            frame=self.frames[0].hex(),
            frame_sizes=self.frame_sizes,
        )


_MOST_SHOWN = 4


@lru_cache(maxsize=4)
def _program_of(frames: tuple[bytes, ...], macs: tuple[str, str], reverse: bool) -> FrameProgram:
    templates: dict[bytes, int] = {}
    order, places = list[int](), list[tuple[int, tuple[int, bool]]]()
    for frame in frames:
        directed, place = _directed(frame, macs, reverse)
        number = templates.setdefault(directed, len(templates))
        if number == len(places):
            covered = place.checksum
            places.append((place.signature, (covered.offset, covered.never_zero) if covered else (0, False)))
        order.append(number)
    return FrameProgram(
        tuple(templates),
        tuple(signature for signature, _ in places),
        tuple(order),
        balances=tuple(balance for _, balance in places),
        compared_from=min(signature for signature, _ in places),
    )


def _directed(frame: bytes, macs: tuple[str, str], reverse: bool) -> tuple[bytes, SignablePlace]:
    """The frame in one direction. Addresses and ports that change sides leave every checksum as it is."""
    found, made = walk(frame), bytearray(frame)
    if reverse:
        for kind, source, destination, size, _ in found.pairs:
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
    place = place_of(found, len(frame))
    if isinstance(place, str):
        raise AssertionError(f"a frame that cannot be signed: {place}")
    return bytes(made), place


def _is_group(kind: str, address: bytes) -> bool:
    if kind == "mac":
        return bool(address[0] & 1)
    return kind == "ip" and (address[0] == 0xFF or (len(address) == 4 and address[0] >> 4 == 0xE))


def captured_frames(
    file: str | Path,
    *,
    rewrite_macs: bool = True,
    rewrite_addresses: bool = False,
    checksums: str = "right",
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
        padded = data.ljust(_LEAST - _FCS, b"\0")
        found = walk(padded)
        place = place_of(found, len(padded))
        if isinstance(place, str):
            left_out[place] += 1
            continue
        headers[" / ".join(found.layers)] += 1
        sizes[len(padded) + _FCS] += 1
        deepest = max(deepest, place.signature)
        frames.append(_prepared(padded, found, place, new.of if new else None, everything=checksums == "right"))
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
    frame: bytes, found: Walked, place: SignablePlace, renamed: Callable[..., bytes] | None, *, everything: bool
) -> bytes:
    """The frame with zeros for its signature, its new addresses, and its checksums right."""
    made = bytearray(frame)
    made[place.signature : place.signature + _SIGNATURE] = bytes(_SIGNATURE)
    if renamed is not None:
        for kind, source, destination, size, outermost in found.pairs:
            if kind == "ip" and outermost and size in {4, 16}:
                made[source : source + size] = renamed(frame[source : source + size], destination=False)
                made[destination : destination + size] = renamed(
                    frame[destination : destination + size], destination=True
                )
        found = walk(bytes(made))  # pseudo-headers have changed
    checksums = found.checksums if place.checksum else []
    if everything or renamed is not None:
        checksums = [*found.others, *found.checksums]
    for checksum in sorted(checksums, key=lambda each: -each.offset):  # inner ones first
        _make_right(made, checksum)
    return bytes(made)
