"""Where a traffic's frames come from, if not from its short form: packets that scapy builds, captures, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

from pytest_nfvperf.model.arguments import shown_value
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.traffic.frame_program import FCS_BYTES, TEST_PAYLOAD_BYTES, FrameProgram
from pytest_nfvperf.model.traffic.packet_program import (
    ETHERNET,
    TAGS,
    Layer,
    PacketSettings,
    Vary,
    build,
    compile_program,
    completed,
    is_computed,
    named,
)

__all__ = ["LEAST_FRAME_SIZE", "FrameSource", "PacketStack", "RecordedFrames", "Vary"]

LEAST_FRAME_SIZE = 64
_SOME_MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
"""Of frames that are shown or checked before the ports are known."""


@runtime_checkable
class FrameSource(Protocol):
    """Where a traffic's frames come from.

    Attributes:
        label: short, for tables and test ids: ``qinq-tcp``.
        text: for a person: ``Ether / Dot1AD / Dot1Q / IP / TCP``.
        layers: names of the layers, outer ones first.
        header_bytes: what stands in front of the signature, at most.
        least_frame_size: the smallest frame that it can fill, bytes with FCS.
        frame_sizes: ``((frame_size, weight), ...)``, bytes with FCS, where the source and not ``Traffic.frame_size``
            says how large its frames are; () otherwise.
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
    def frame_sizes(self) -> tuple[tuple[int, int], ...]: ...
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

    def recorded(self) -> RecordedFrames:
        """What evidence keeps of it."""


@dataclass(frozen=True, slots=True)
class RecordedFrames:
    """A frame source as evidence keeps it: to be shown, not to be sent.

    Attributes:
        label, text, layers, header_bytes, least_frame_size, combinations, frame_sizes: as of FrameSource.
        command: the packet as scapy writes it; "" for another source.
        frame: one frame without FCS, as hex: of the smallest size, the signature as zeros.
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

    def program(
        self,
        sizes: Sequence[int],  # noqa: ARG002 - as of FrameSource
        order: Sequence[int],  # noqa: ARG002
        *,
        source_mac: str,  # noqa: ARG002
        destination_mac: str,  # noqa: ARG002
        reverse: bool,  # noqa: ARG002
    ) -> NoReturn:
        written = f": build it again as {self.command}" if self.command else ""
        raise ConfigError(f"{self.text} was read from evidence, which describes frames and cannot send them{written}")

    def recorded(self) -> RecordedFrames:
        return self


@dataclass(frozen=True, slots=True)
class PacketStack:
    """A packet that scapy builds, with fields that vary: a FrameSource. Two are equal if their texts are.

    Attributes:
        command: the packet as scapy writes it: ``Ether()/IP()/TCP(dport=80)``.
        settings: as of Traffic.
    """

    command: str
    settings: PacketSettings
    _layers: tuple[Layer, ...] = field(default=(), repr=False, compare=False)

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
        settings = PacketSettings(tuple(vary), together, checksums, tuple(rewritten))
        layers = _without_computed(_layers_of(packet), as_given=settings.as_given)
        return PacketStack(packet.command(), settings, layers)._checked()

    def varied(self, settings: PacketSettings) -> PacketStack:
        """The same packet with other settings; ArgumentError as of :meth:`of`."""
        return self if settings == self.settings else replace(self, settings=settings)._checked()

    def _checked(self) -> PacketStack:
        """Find mistakes where the traffic is written: when tests are collected."""
        _program(self, (self.least_frame_size,), (0,), _SOME_MACS, False)
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
    def frame_sizes(self) -> tuple[tuple[int, int], ...]:
        return ()

    @property
    def combinations(self) -> int:
        return self.settings.combinations

    def program(
        self, sizes: Sequence[int], order: Sequence[int], *, source_mac: str, destination_mac: str, reverse: bool
    ) -> FrameProgram:
        return _program(self, tuple(sizes), tuple(order), (source_mac, destination_mac), reverse)

    def recorded(self) -> RecordedFrames:
        return _recorded(self)


@lru_cache(maxsize=512)
def _program(
    stack: PacketStack, sizes: tuple[int, ...], order: tuple[int, ...], macs: tuple[str, str], reverse: bool
) -> FrameProgram:
    return compile_program(stack.settings, stack._layers, sizes, order, macs, reverse=reverse)


@lru_cache(maxsize=512)
def _header_bytes(stack: PacketStack) -> int:
    return len(build(completed(stack._layers, _SOME_MACS)))


@lru_cache(maxsize=512)
def _recorded(stack: PacketStack) -> RecordedFrames:
    frame = _program(stack, (stack.least_frame_size,), (0,), _SOME_MACS, False).templates[0]
    return RecordedFrames(
        label=stack.label,
        text=stack.text,
        layers=stack.layers,
        header_bytes=stack.header_bytes,
        least_frame_size=stack.least_frame_size,
        combinations=stack.combinations,
        frame=frame.hex(),
        command=stack.command,
    )


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
