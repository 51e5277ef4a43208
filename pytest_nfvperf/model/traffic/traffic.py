"""What is sent: frame sizes, mixes, flows and directions.

Frame sizes include the FCS, as RFC 2544 section 9 counts them: a 64-byte frame is 60 bytes in memory. Line rate counts
20 bytes more on the wire for preamble, start-of-frame delimiter and inter-frame gap (IEEE 802.3). With VXLAN the size
is the outer frame's, because RFC 2544 counts what is on the DUT's link. The inner frame is smaller by the headers
around it, and has no FCS.
"""

from __future__ import annotations

import ipaddress
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.arguments import INTEGER, MAC, UNICAST_MAC, Allowed, Ip, checked, one, several, whole
from pytest_nfvperf.model.display import unknown_word
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.traffic import frame_program
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames, FrameSource
from pytest_nfvperf.model.traffic.packet import (
    LEAST_FRAME_SIZE,
    CapturedFrames,
    PacketStack,
    RecordedFrames,
    captured_frames,
)
from pytest_nfvperf.model.traffic.packet_program import PacketSettings, Vary

# Headers of test frames: how long they are, and the VXLAN that can be around a frame (RFC 7348).

HEADER_BYTES = 14
"""Ethernet: two MAC addresses and the type."""

VLAN_TAG_BYTES = 4
_TAG_TYPES = (b"\x81\x00", b"\x88\xa8")
"""802.1Q and 802.1ad, where Ethernet has its type."""

UDP_BYTES = 8
IP_BYTES = {4: 20, 6: 40}
"""By IP version; without options and extension headers."""

VXLAN_BYTES = 8
VXLAN_PORT = 4789
"""RFC 7348 section 5: the outer UDP destination port."""

VXLAN_SOURCE_PORTS = range(49152, 65536)
"""RFC 7348 section 5: the dynamic range, of which the outer UDP source port is taken."""

_MAX_VNI = (1 << 24) - 1


def ip_version(address: str) -> int:
    """4 or 6; ConfigError for what is no IP address."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError as error:
        raise ConfigError(f"{address!r} is no IPv4 or IPv6 address") from error


def same_ip_version(name: str, address: str, other_name: str, other: str) -> None:
    """Raise ConfigError for two addresses that cannot be those of one packet."""
    if ip_version(address) != ip_version(other):
        raise ConfigError(
            f"{name} {address} is IPv{ip_version(address)}, and {other_name} {other} is IPv{ip_version(other)}: "
            "write two of one version"
        )


@checked()
@dataclass(frozen=True, slots=True)
class Vxlan:
    """The VXLAN around every frame of a traffic (RFC 7348): outer IP and UDP, VXLAN, and the inner frame's Ethernet.

    Its outer UDP checksum is 0, over IPv6 too (RFC 6935 allows it for tunnels).

    Attributes:
        vni: VXLAN network identifier, 0..16777215.
        src_ip, dst_ip: of the tunnel's ends, both IPv4 or both IPv6; the other direction swaps them.
        inner_src_mac, inner_dst_mac: of the inner frame; on the way back they change sides.
    """

    vni: Annotated[int, whole(0, _MAX_VNI)] = 1
    src_ip: Ip = "192.0.2.1"
    dst_ip: Ip = "192.0.2.2"
    inner_src_mac: Annotated[str, MAC] = "02:00:00:00:0d:01"
    inner_dst_mac: Annotated[str, MAC] = "02:00:00:00:0d:02"

    def __post_init__(self) -> None:
        same_ip_version("VXLAN: src_ip", self.src_ip, "dst_ip", self.dst_ip)

    @property
    def ip_version(self) -> int:
        """4 or 6: of the outer addresses."""
        return ip_version(self.src_ip)

    @property
    def header_bytes(self) -> int:
        """What it adds to a frame: outer IP and UDP, VXLAN, inner Ethernet."""
        return IP_BYTES[self.ip_version] + UDP_BYTES + VXLAN_BYTES + HEADER_BYTES

    def reversed(self) -> Vxlan:
        """The VXLAN of the other direction."""
        return Vxlan(self.vni, self.dst_ip, self.src_ip, self.inner_dst_mac, self.inner_src_mac)


# Traffic: what is sent to the DUT.

FCS_BYTES, TEST_PAYLOAD_BYTES = frame_program.FCS_BYTES, frame_program.TEST_PAYLOAD_BYTES
WIRE_OVERHEAD_BYTES = 20
MIN_FRAME_SIZE = LEAST_FRAME_SIZE
MAX_FRAME_SIZE = 9216

IPV6_SOURCE, IPV6_DESTINATION = "2001:2::1", "2001:2:0:8000::1"
"""Of RFC 5180's range for benchmarks, 2001:2::/48."""

RFC2544_FRAME_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""RFC 2544 section 9.1, Ethernet, in bytes with FCS."""


def check_frame_size(size: int) -> None:
    """Raise ValueError for a frame size (bytes with FCS) that Ethernet does not have."""
    if not MIN_FRAME_SIZE <= size <= MAX_FRAME_SIZE:
        raise ArgumentError(f"frame size {size} is outside {MIN_FRAME_SIZE}..{MAX_FRAME_SIZE} bytes (with FCS)")


FrameBytes = Annotated[int, whole(MIN_FRAME_SIZE, MAX_FRAME_SIZE, "bytes with FCS")]
_RECIPE = Allowed(
    "pairs of frame size and weight, such as ((64, 7), (1518, 1))",
    several(several(INTEGER, 2, 2)).accepts,
)


@checked()
@dataclass(frozen=True, slots=True)
class Imix:
    """A mix of frame sizes, sent in a fixed interleaved order.

    ``recipe``: ``((frame_size, weight), ...)``, sizes in bytes with FCS. The field's IMIXes are incompatible, so a mix
    is always shown with its recipe and mean size.
    """

    name: str
    recipe: Annotated[tuple[tuple[int, int], ...], _RECIPE]

    def __post_init__(self) -> None:
        if not self.recipe:
            raise ArgumentError(f"IMIX {self.name!r} has no frame sizes")
        for size, weight in self.recipe:
            check_frame_size(size)
            if weight < 1:
                raise ArgumentError(f"IMIX {self.name!r}: weight of {size} must be at least 1, not {weight}")

    @property
    def mean_size(self) -> float:
        """Mean frame size in bytes with FCS."""
        total = sum(weight for _, weight in self.recipe)
        return sum(size * weight for size, weight in self.recipe) / total

    def __str__(self) -> str:
        sizes = "/".join(str(size) for size, _ in self.recipe)
        weights = ":".join(str(weight) for _, weight in self.recipe)
        return f"imix-{self.name} ({weights} of {sizes}, mean {self.mean_size:.1f})"


class _Mixes(dict[str, Imix]):
    """Mixes by name; a name that none has is answered with those that there are."""

    def __missing__(self, name: object) -> NoReturn:
        raise unknown_word(str(name), "IMIX", list(self))


IMIXES: Mapping[str, Imix] = _Mixes(
    (mix.name, mix)
    for mix in (
        Imix("simple", ((64, 7), (594, 4), (1518, 1))),
        Imix("cisco570", ((64, 7), (570, 4), (1518, 1))),
        Imix("spirent512", ((64, 7), (512, 4), (1518, 1))),
    )
)
"""The mixes known by name."""


_SHORT_FORM = ("flows", "vlan", "src_mac", "dst_mac", "src_ip", "dst_ip", "vxlan")
PROFILES = Point[Callable[..., Any]]("traffic")
"""Makes traffic of another generator's files, by its name."""
_PACKET_FORM = ("vary", "together", "checksums", "rewritten")


@checked()
@dataclass(frozen=True, slots=True)
class Traffic:
    """One offered traffic profile; the load is given apart from it.

    Frames are Ethernet, an optional VLAN tag or VXLAN, IP and UDP, or what ``packet`` says.

    Attributes:
        frame_size: bytes with FCS, or a mix.
        bidirectional: both directions at once, each at the load.
        flows: distinct 5-tuples per direction. They differ in the lowest two bytes of the source address (from RFC 2544
            appendix C.2.2's test range), beyond 65,534 also in UDP source port. With VXLAN these are the inner headers.
            The outer UDP source port differs with them, in up to 16,384 values (RFC 7348 section 5), so that RSS can
            spread the flows.
        vlan: 802.1Q tag of every frame, or None; of a VXLAN's outer frame. Its 4 bytes are inside the frame size.
        src_mac, dst_mac: override the addresses that the topology would give; None means the MACs of the sending and
            the receiving generator port. In a VXLAN the outer frame's.
        src_ip, dst_ip: first addresses, both IPv4 or both IPv6; RFC 2544's 198.18.0.0/15 by default. In a VXLAN the
            inner ones.
        vxlan: the VXLAN that every frame is in, or None.
        packet: what scapy builds, ``Ether() / Dot1Q(vlan=20) / IP() / TCP(dport=80)``, in place of ``flows``, ``vlan``,
            ``vxlan`` and the addresses; the traffic keeps it as a FrameSource. Addresses that it leaves open are those
            that a traffic without it has. The reverse direction swaps addresses and ports at every layer, but a group
            stays the destination, and so does a port that names a tunnel.
        vary: fields of the packet that differ from frame to frame.
        together: they are counted jointly, all combinations, the first field fastest; False: each takes its next value
            with every frame.
        checksums: ``right``: lengths and checksums are kept right; ``as given``: those that the packet sets are sent.
        rewritten: fields of the packet that the DUT may rewrite, such as ``IP.src`` and ``TCP.sport`` behind a NAT.
            Their checksums must follow; of more than eight fields that vary or are rewritten, those of the first eight.

    Raises ConfigError where the frames are too small for the headers, addresses do not fit together, or the packet
    cannot be sent as it is asked for.
    """

    frame_size: (
        FrameBytes
        | Annotated[Imix, one(Imix, "an IMIX such as IMIXES['simple'] or Imix('mine', ((64, 7), (1518, 1)))")]
    ) = 64
    bidirectional: bool = True
    flows: Annotated[int, whole(1, 1 << 24)] = 1
    vlan: Annotated[int, whole(1, 4094)] | None = None
    src_mac: Annotated[str, UNICAST_MAC] | None = None
    dst_mac: Annotated[str, MAC] | None = None
    src_ip: Ip = "198.18.0.1"
    dst_ip: Ip = "198.19.0.1"
    vxlan: Vxlan | None = None
    packet: RecordedFrames | Any = None
    vary: tuple[Vary, ...] = ()
    together: bool = True
    checksums: Literal["right", "as given"] = "right"
    rewritten: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        same_ip_version("src_ip", self.src_ip, "dst_ip", self.dst_ip)
        object.__setattr__(self, "vary", tuple(self.vary))
        object.__setattr__(self, "rewritten", tuple(self.rewritten))
        object.__setattr__(self, "packet", self._frame_source())
        if self.smallest_frame_size < self.least_frame_size:
            raise ConfigError(
                f"{self.headers_name} needs at least {self.least_frame_size} bytes (with FCS), and the traffic has "
                f"frames of {self.smallest_frame_size}: {self._least_in_words()}"
            )

    def _frame_source(self) -> FrameSource | None:
        """The packet as it is kept; ConfigError for arguments that do not go together."""
        defaults = {each.name: each.default for each in fields(Traffic)}
        names = _SHORT_FORM if self.packet is not None else _PACKET_FORM
        changed = next((name for name in names if getattr(self, name) != defaults[name]), None)
        if changed and self.packet is None:
            raise ArgumentError(f"Traffic(): {changed} is of a packet: write packet=Ether()/IP()/UDP(), too")
        if changed:
            raise ArgumentError(f"Traffic(): {changed} and packet exclude each other: write it into the packet")
        if self.packet is None:
            return None
        settings = PacketSettings(self.vary, self.together, self.checksums, self.rewritten)
        if isinstance(self.packet, PacketStack):
            return self.packet.varied(settings)
        if not isinstance(self.packet, FrameSource):
            return PacketStack.of(self.packet, settings)
        other = next((name for name in _PACKET_FORM if getattr(self, name) != defaults[name]), None)
        if isinstance(self.packet, ConversationFrames) and self.bidirectional:
            raise ArgumentError("Traffic(): a conversation has both directions itself: write bidirectional=False")
        if other and isinstance(self.packet, (CapturedFrames, ConversationFrames)):
            raise ArgumentError(f"Traffic(): {other} is for a packet that scapy builds, not for {self.packet.text}")
        return self.packet

    @staticmethod
    def from_pcap(
        file: str | Path,
        *,
        rewrite_macs: bool = True,
        rewrite_addresses: bool = False,
        checksums: Literal["right", "as given"] = "right",
        bidirectional: bool = True,
    ) -> Traffic:
        """The frames of a pcap or pcapng file, in their order and sizes, over and over.

        Frames without room for a signature are left out; ``traffic.packet.left_out`` counts them by class.

        Args:
            file: of Ethernet, at most 65,536 frames.
            rewrite_macs: frames go from and to the generator's ports; else as in the file.
            rewrite_addresses: the outermost IP addresses become those of RFC 2544 and RFC 5180, as many as there were.
            checksums: "right": all are computed anew; "as given": those of the file, but where the signature is.
            bidirectional: the reverse direction sends the same frames with addresses and ports swapped.

        Raises ConfigError, with the file, for one that cannot be used, and where no frame can be signed.
        """
        options = {"rewrite_macs": rewrite_macs, "rewrite_addresses": rewrite_addresses}
        return Traffic(packet=captured_frames(file, checksums=checksums, **options), bidirectional=bidirectional)

    @staticmethod
    def from_trex(
        file: str | Path,
        tunables: Mapping[str, Any] | None = None,
        *,
        direction: int = 0,
        frame_size: int | Imix | None = None,
    ) -> Any:
        """What an STL profile of TRex sends: a Traffic, or a TrafficMix if it has several streams.

        The profile runs in a process of its own, without TRex. Its rates are shares of the load, its payload is
        signature and pattern, and all checksums are right.

        Args:
            file: the profile.
            tunables: its options by name, without dashes.
            direction: 0 or 1, as its get_streams() takes it.
            frame_size: in place of the profile's, where its frames have no room for the signature.

        Raises ConfigError, with file and line, for what the profile cannot do, and with the stream for bursts, variable
        sizes and whatever else a traffic cannot do.
        """
        return PROFILES.part("trex")(file, tunables, direction, frame_size)

    @property
    def frame_source(self) -> FrameSource | None:
        """Where its frames come from; None: from its own short form."""
        return self.packet

    @property
    def is_conversation(self) -> bool:
        """Its load is connections a second, and its trials count connections."""
        return bool(getattr(self.packet, "steps", ()))

    @property
    def ip_version(self) -> int:
        """4 or 6: of the innermost addresses."""
        if self.packet is not None:
            return 6 if ([name for name in self.packet.layers if name in {"IP", "IPv6"}] or [""])[-1] == "IPv6" else 4
        return ip_version(self.src_ip)

    @property
    def combinations(self) -> int:
        """Frames until headers begin again: flows, or what the packet's fields make."""
        return self.packet.combinations if self.packet is not None else self.flows

    @property
    def header_bytes(self) -> int:
        """All headers of a frame, from the first MAC address to the signature."""
        if self.packet is not None:
            return self.packet.header_bytes
        tag = VLAN_TAG_BYTES if self.vlan is not None else 0
        around = self.vxlan.header_bytes if self.vxlan else 0
        return HEADER_BYTES + tag + around + IP_BYTES[self.ip_version] + UDP_BYTES

    @property
    def least_frame_size(self) -> int:
        """Smallest frame that holds the headers and :data:`TEST_PAYLOAD_BYTES`, bytes with FCS."""
        if self.packet is not None:
            return self.packet.least_frame_size
        return max(MIN_FRAME_SIZE, self.header_bytes + TEST_PAYLOAD_BYTES + FCS_BYTES)

    @property
    def is_tagged(self) -> bool:
        """Frames begin with a VLAN tag behind their addresses."""
        return self.packet.layers[1:2] in {("Dot1Q",), ("Dot1AD",)} if self.packet else self.vlan is not None

    @property
    def vlans(self) -> tuple[int, ...]:
        """VLANs of the frames' outermost tags, without repeats; 0: frames without a tag."""
        if self.packet is None:
            return (self.vlan or 0,)
        shown = self.packet.recorded(self.smallest_frame_size).frame
        frames = self.packet.frames if isinstance(self.packet, CapturedFrames) else ()
        tags = [frame[12:16] for frame in frames or (bytes.fromhex(shown),)]
        vlans = {int.from_bytes(tag[2:], "big") & 0xFFF if tag[:2] in _TAG_TYPES else 0 for tag in tags}
        for vary in self.vary:
            if self.is_tagged and vary.field == f"{self.packet.layers[1]}.vlan":
                vlans = {first + vary.step * number for first in vlans for number in range(vary.count)}
        return tuple(sorted(vlans))

    @property
    def headers_name(self) -> str:
        """``IPv6``, ``tagged VXLAN over IPv4 with IPv6 inside``, ``Ether / MPLS / IP / TCP``: for a person."""
        if self.packet is not None:
            return self.packet.text
        name = f"IPv{self.ip_version}"
        if self.vxlan:
            name = f"VXLAN over IPv{self.vxlan.ip_version}" + (" with IPv6 inside" if self.ip_version == 6 else "")
        return f"tagged {name}" if self.vlan is not None else name

    @property
    def headers_label(self) -> str | None:
        """``ipv6``, ``vxlan``, ``vxlan6-ipv6`` (over IPv6, IPv6 inside), ``qinq-tcp`` (of a packet); None: IPv4."""
        if self.packet is not None:
            return self.packet.label
        inside = "ipv6" if self.ip_version == 6 else ""
        around = {4: "vxlan", 6: "vxlan6"}[self.vxlan.ip_version] if self.vxlan else ""
        return "-".join(filter(None, (around, inside))) or None

    @property
    def mean_frame_size(self) -> float:
        """Mean bytes per frame, with FCS."""
        if self.packet is not None and self.packet.frame_sizes:
            return statistics.fmean(*zip(*self.packet.frame_sizes, strict=True))
        return self.frame_size.mean_size if isinstance(self.frame_size, Imix) else float(self.frame_size)

    @property
    def largest_frame_size(self) -> int:
        """Largest frame in bytes with FCS; the ports' MTU must carry it."""
        return max(self._frame_sizes)

    @property
    def bytes_beyond_mtu(self) -> int:
        """Bytes of a frame that a port's MTU does not count: Ethernet, its outermost tag and FCS."""
        return HEADER_BYTES + FCS_BYTES + (VLAN_TAG_BYTES if self.is_tagged else 0)

    @property
    def smallest_frame_size(self) -> int:
        """Smallest frame in bytes with FCS."""
        return min(self._frame_sizes)

    @property
    def _frame_sizes(self) -> Sequence[int]:
        if self.packet is not None and self.packet.frame_sizes:
            return [size for size, _ in self.packet.frame_sizes]
        return [size for size, _ in self.frame_size.recipe] if isinstance(self.frame_size, Imix) else [self.frame_size]

    @property
    def sizes_text(self) -> str:
        """``256 bytes with FCS``, ``60 .. 1518 bytes with FCS, 361.8 in the mean``: of all frames, for a person."""
        low, high = self.smallest_frame_size, self.largest_frame_size
        several = f" .. {high} bytes with FCS, {self.mean_frame_size:.1f} in the mean"
        return f"{low}{several if low < high else ' bytes with FCS'}"

    @property
    def frame_label(self) -> str:
        """``64`` or ``imix-simple``, as tables and selectors name it; ``own`` where the packets say it themselves."""
        if self.packet is not None and self.packet.frame_sizes:
            return "own"
        return f"imix-{self.frame_size.name}" if isinstance(self.frame_size, Imix) else str(self.frame_size)

    @property
    def shape_label(self) -> str:
        """Frame size and headers, ``64``, ``128-qinq-tcp-vary2``: what a generator's own ceiling depends on."""
        varying = f"vary{len(self.vary)}" if self.vary else None
        digest = getattr(self.packet, "digest", "")[:6]  # captures of one name can be others
        return "-".join(filter(None, (self.frame_label, self.headers_label, varying, digest)))

    def over_ipv6(self) -> Traffic:
        """The same traffic with IPv6 addresses of RFC 5180's range; ArgumentError for one that has a packet."""
        return replace(self, src_ip=IPV6_SOURCE, dst_ip=IPV6_DESTINATION)

    @property
    def hold_s(self) -> float:
        """How long each connection of a conversation is held open."""
        return self.packet.hold_s if isinstance(self.packet, ConversationFrames) else 0.0

    def without_hold(self) -> Traffic:
        """The same with connections that are closed at once."""
        return replace(self, packet=replace(self.packet, hold_s=0.0)) if self.hold_s else self

    def _least_in_words(self) -> str:
        if self.packet is not None:
            return f"headers {self.header_bytes}, signature {TEST_PAYLOAD_BYTES}, FCS {FCS_BYTES}"
        parts = [f"Ethernet {HEADER_BYTES}", *(["802.1Q 4"] if self.vlan is not None else [])]
        if self.vxlan:
            parts.append(f"IPv{self.vxlan.ip_version}, UDP, VXLAN and inner Ethernet {self.vxlan.header_bytes}")
        parts += [f"IPv{self.ip_version} and UDP {IP_BYTES[self.ip_version] + UDP_BYTES}"]
        return f"{', '.join(parts)}, test payload {TEST_PAYLOAD_BYTES}, FCS {FCS_BYTES}"

    def bits_per_second(self, frames_per_second: float) -> float:
        """Layer-2 bit rate with FCS, in bit/s: what the field's Gbps figures count."""
        return frames_per_second * self.mean_frame_size * 8

    def line_rate_fps(self, bits_per_second: float, encapsulation: int = 0) -> float:
        """Frames/s per direction that fill a link of this layer-1 bit rate.

        ``encapsulation``: bytes by which each frame is longer on that link than as it is sent.
        """
        extra = encapsulation + WIRE_OVERHEAD_BYTES
        if isinstance(self.packet, ConversationFrames):
            return self.packet.line_rate(bits_per_second, extra)
        return bits_per_second / ((self.mean_frame_size + extra) * 8)


def check_mtu(traffic: Traffic, mtu: int) -> None:
    """Raise ValueError when the largest frame does not fit a port's MTU (bytes without header, tag and FCS)."""
    needed = traffic.largest_frame_size - traffic.bytes_beyond_mtu
    if needed > mtu:
        raise ArgumentError(
            f"frame size {traffic.largest_frame_size} needs an MTU of {needed}, but the port has {mtu}: "
            f"send at most {mtu + traffic.bytes_beyond_mtu} bytes (with FCS) or raise the port's mtu"
        )
