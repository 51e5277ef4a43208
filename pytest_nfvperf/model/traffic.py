"""What is sent: frame sizes, mixes, flows and directions.

Frame sizes include the FCS, as RFC 2544 section 9 counts them: a 64-byte frame
is 60 bytes in memory. Line rate counts 20 bytes more on the wire for preamble,
start-of-frame delimiter and inter-frame gap (IEEE 802.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FCS_BYTES = 4
HEADER_BYTES = 14
VLAN_TAG_BYTES = 4
WIRE_OVERHEAD_BYTES = 20
MIN_FRAME_SIZE = 64
MAX_FRAME_SIZE = 9216

RFC2544_FRAME_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""RFC 2544 section 9.1, Ethernet, in bytes with FCS."""

S1_FRAME_SIZES = (64, 128, 512, 1024, 1500)
"""The sweep of the RHOSO 18 BGP evaluation, in bytes with FCS."""


def check_frame_size(size: int) -> None:
    """Raise ValueError for a frame size (bytes with FCS) that Ethernet does not have."""
    if not MIN_FRAME_SIZE <= size <= MAX_FRAME_SIZE:
        raise ValueError(f"frame size {size} is outside {MIN_FRAME_SIZE}..{MAX_FRAME_SIZE} bytes (with FCS)")


@dataclass(frozen=True, slots=True)
class Imix:
    """A mix of frame sizes, sent in a fixed interleaved order.

    ``recipe`` is ``((frame_size, weight), ...)``, sizes in bytes with FCS. The field's
    IMIXes are incompatible, so a mix is always shown with its recipe and mean size.
    """

    name: str
    recipe: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.recipe:
            raise ValueError(f"IMIX {self.name!r} has no frame sizes")
        for size, weight in self.recipe:
            check_frame_size(size)
            if weight < 1:
                raise ValueError(f"IMIX {self.name!r}: weight of {size} must be at least 1, not {weight}")

    @property
    def mean_size(self) -> float:
        """Mean frame size in bytes with FCS."""
        total = sum(weight for _, weight in self.recipe)
        return sum(size * weight for size, weight in self.recipe) / total

    def __str__(self) -> str:
        sizes = "/".join(str(size) for size, _ in self.recipe)
        weights = ":".join(str(weight) for _, weight in self.recipe)
        return f"imix-{self.name} ({weights} of {sizes}, mean {self.mean_size:.1f})"


IMIXES = {
    mix.name: mix
    for mix in (
        Imix("simple", ((64, 7), (594, 4), (1518, 1))),
        Imix("cisco570", ((64, 7), (570, 4), (1518, 1))),
        Imix("spirent512", ((64, 7), (512, 4), (1518, 1))),
    )
}
"""The mixes that can be asked for by name."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """One offered traffic profile; the load is given apart from it.

    Attributes:
        frame_size: bytes with FCS, or a mix.
        bidirectional: both directions at once, each at the load.
        flows: distinct 5-tuples per direction. They differ in IPv4 source address
            (from RFC 2544 appendix C.2.2's test range) and UDP source port.
        vlan: 802.1Q tag of every frame, or None. The tag's 4 bytes are inside the frame size.
        src_mac, dst_mac: override the addresses that the topology would give; None means
            the MACs of the sending and the receiving generator port.
        src_ip, dst_ip: first IPv4 addresses; RFC 2544's 198.18.0.0/15 by default.
    """

    frame_size: int | Imix = 64
    bidirectional: bool = True
    flows: int = 1
    vlan: int | None = None
    src_mac: str | None = None
    dst_mac: str | None = None
    src_ip: str = "198.18.0.1"
    dst_ip: str = "198.19.0.1"

    def __post_init__(self) -> None:
        if isinstance(self.frame_size, int):
            check_frame_size(self.frame_size)
        if not 1 <= self.flows <= 1 << 24:
            raise ValueError(f"flows must be 1..{1 << 24}, not {self.flows}")
        if self.vlan is not None and not 1 <= self.vlan <= 4094:
            raise ValueError(f"VLAN id must be 1..4094, not {self.vlan}")

    @property
    def mean_frame_size(self) -> float:
        """Mean bytes per frame, with FCS."""
        return self.frame_size.mean_size if isinstance(self.frame_size, Imix) else float(self.frame_size)

    @property
    def largest_frame_size(self) -> int:
        """Largest frame in bytes with FCS; the ports' MTU must carry it."""
        if isinstance(self.frame_size, Imix):
            return max(size for size, _ in self.frame_size.recipe)
        return self.frame_size

    @property
    def frame_label(self) -> str:
        """``64`` or ``imix-simple``, as tables and selectors name it."""
        return f"imix-{self.frame_size.name}" if isinstance(self.frame_size, Imix) else str(self.frame_size)

    def with_frame_size(self, frame_size: int | Imix) -> Traffic:
        """The same traffic with another frame size."""
        return replace(self, frame_size=frame_size)

    def bits_per_second(self, frames_per_second: float) -> float:
        """Layer-2 bit rate with FCS, in bit/s: what the field's Gbps figures count."""
        return frames_per_second * self.mean_frame_size * 8

    def line_rate_fps(self, bits_per_second: float) -> float:
        """Frames/s per direction that fill a link of this layer-1 bit rate."""
        return bits_per_second / ((self.mean_frame_size + WIRE_OVERHEAD_BYTES) * 8)


def check_mtu(traffic: Traffic, mtu: int) -> None:
    """Raise ValueError when the largest frame does not fit a port's MTU (bytes without header, tag and FCS)."""
    overhead = HEADER_BYTES + FCS_BYTES + (VLAN_TAG_BYTES if traffic.vlan is not None else 0)
    needed = traffic.largest_frame_size - overhead
    if needed > mtu:
        raise ValueError(
            f"frame size {traffic.largest_frame_size} needs an MTU of {needed}, but the port has {mtu}: "
            f"send at most {mtu + overhead} bytes (with FCS) or raise the port's mtu"
        )
