"""Several classes of traffic at once, each with its own frames, share of the load, and counts.

A class is one stream in each direction in which it is sent. The load of a trial is that of a direction: the rates and
frame counts of its classes add up to it exactly.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from pytest_nfvperf.model.arguments import shown_value
from pytest_nfvperf.model.display import format_connections, format_fps, format_ratio, listed, unknown_word
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames, ScriptStep
from pytest_nfvperf.model.traffic.traffic import WIRE_OVERHEAD_BYTES, Traffic

MOST_CLASSES = 8
"""The embedded engine holds buffers for as many streams on a port."""

Sends = Literal["both", "forward", "reverse"]

_SENDS = ("both", "forward", "reverse")
_SHARE = re.compile(r"(?P<number>\d+(\.\d+)?) ?(?P<unit>%|[kM]?(pps|conn/s))", re.ASCII)
_FPS = {
    f"{prefix}{unit}": factor for prefix, factor in (("", 1), ("k", 10**3), ("M", 10**6)) for unit in ("pps", "conn/s")
}
_SHARE_WORDS = "a share of the load, such as '10 %' or 0.1, or a fixed load, such as '100 kpps'"
_ROUNDING = Fraction(1, 10**9)
"""Shares such as 1/3 are floats, whose sum may differ from 1 by this much."""


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class of a mix.

    Attributes:
        name: "" for a traffic that is no mix, and so has one class.
        share: of the load that is left by classes with a fixed one, 0..1; 0 for those.
        fixed_fps: frames/s per direction whatever the load is; None for a class that has a share.
        sends: in which directions.
    """

    name: str
    traffic: Traffic
    share: float
    fixed_fps: int | None = None
    sends: Sends = "both"

    def in_direction(self, *, reverse: bool) -> bool:
        return self.sends == "both" or (self.sends == "reverse") == reverse

    @property
    def load_text(self) -> str:
        """``10 %`` or ``100 kpps``, of a conversation ``100 kconn/s``."""
        shown = format_connections if self.traffic.is_conversation else format_fps
        return format_ratio(self.share) if self.fixed_fps is None else shown(self.fixed_fps)


@dataclass(frozen=True, slots=True, init=False)
class TrafficMix:
    """Classes of traffic that are sent at once: ``TrafficMix(voice=(Traffic(...), "10 %"), bulk=(Traffic(...), 0.9))``.

    It is given wherever a Traffic is. Each class is ``(traffic, share)`` or ``(traffic, share, direction)``: a share of
    the load ("10 %", 0.1), or a fixed load per direction in frames/s ("100 kpps"), of a conversation in connections/s
    ("1 kconn/s"); and "forward", "reverse" or "both", by default what the traffic's ``bidirectional`` says. The shares
    of each direction add up to 100 %.

    Attributes:
        classes: 1 to 8, in the order in which they were written.

    Raises ArgumentError for anything else, with what to write instead.
    """

    classes: tuple[TrafficClass, ...]
    is_conversation: ClassVar[bool] = False

    def __init__(self, **classes: Any) -> None:
        if not 1 <= len(classes) <= MOST_CLASSES:
            raise ArgumentError(
                f"TrafficMix(): {len(classes)} classes, and 1 to {MOST_CLASSES} can be sent: write each as "
                "name=(traffic, share), such as voice=(Traffic(), '10 %')"
            )
        self._set(_class_of(name, entry) for name, entry in classes.items())

    def __str__(self) -> str:
        return self.label

    def _set(self, classes: Iterable[TrafficClass]) -> None:
        object.__setattr__(self, "classes", tuple(classes))
        for reverse in self._reverses:
            sending = self.sending(reverse)
            total = sum(map(_exact, sending), Fraction())
            if abs(total - 1) > _ROUNDING:
                where = f" of direction {'reverse' if reverse else 'forward'}" if len(self._reverses) > 1 else ""
                parts = ", ".join(f"{each.name} {each.load_text}" for each in sending)
                raise ArgumentError(
                    f"TrafficMix(): the shares{where} add up to {format_ratio(float(total))}, not 100 % "
                    f"({parts or 'no class sends there'}): the load of a direction is all that its classes send"
                )

    def _with(self, classes: Iterable[TrafficClass]) -> TrafficMix:
        mix = object.__new__(TrafficMix)
        mix._set(classes)
        return mix

    @property
    def _reverses(self) -> tuple[bool, ...]:
        return (False, True) if self.bidirectional else (False,)

    def __getitem__(self, name: str) -> TrafficClass:
        """The class of this name; ConfigError for another one, with those that there are."""
        named = next((traffic_class for traffic_class in self.classes if traffic_class.name == name), None)
        if named is None:
            raise unknown_word(name, "class", [traffic_class.name for traffic_class in self.classes])
        return named

    @property
    def bidirectional(self) -> bool:
        """True if any class sends in the reverse direction, too."""
        return any(each.sends != "forward" for each in self.classes)

    @property
    def combinations(self) -> int:
        """Flows, or what packets' fields make, of all classes together, per direction."""
        return sum(each.traffic.combinations for each in self.classes)

    @property
    def largest_frame_size(self) -> int:
        """Bytes with FCS; the ports' MTU must carry it."""
        return max(each.traffic.largest_frame_size for each in self.classes)

    @property
    def fixed_fps(self) -> int:
        """Frames/s of the classes with a fixed load, in the direction that has more of them."""
        return max(map(self._fixed_frames, self._reverses))

    @property
    def mean_frame_size(self) -> float:
        """Mean bytes a frame, with FCS, of the load that classes share; fixed loads are not in it."""
        means = [self._mean(reverse) for reverse in self._reverses]
        return sum(means) / len(means)

    def sending(self, reverse: bool) -> list[TrafficClass]:
        return [each for each in self.classes if each.in_direction(reverse=reverse)]

    def _mean(self, reverse: bool, extra: int = 0) -> float:
        return sum(each.share * (each.traffic.mean_frame_size + extra) for each in self.sending(reverse))

    @property
    def frame_label(self) -> str:
        """``64+1518``, as tables name it."""
        return "+".join(dict.fromkeys(each.traffic.frame_label for each in self.classes))

    @property
    def headers_label(self) -> str | None:
        """That of all classes if they have the same, else ``ipv4+vxlan``."""
        labels = dict.fromkeys(each.traffic.headers_label for each in self.classes)
        return next(iter(labels)) if len(labels) == 1 else "+".join(label or "ipv4" for label in labels)

    @property
    def shape_label(self) -> str:
        """What a generator's own ceiling depends on, short enough for a file's name: ``mix4-1a2b3c4d``.

        It is measured without the classes of a fixed load, which any load must exceed.
        """
        shapes = [(each.traffic.shape_label, each.share, each.sends) for each in self.without_fixed().classes]
        return f"mix{len(shapes)}-{zlib.crc32(repr(shapes).encode()):08x}"

    @property
    def label(self) -> str:
        """``voice+bulk``: the classes, as a subject's label ``classes``."""
        return "+".join(each.name for each in self.classes)

    def over_ipv6(self) -> TrafficMix:
        """The same mix with IPv6 addresses of RFC 5180's range."""
        return self._with(replace(each, traffic=each.traffic.over_ipv6()) for each in self.classes)

    def one_way(self) -> TrafficMix:
        """What the mix sends in the forward direction."""
        return self._with(replace(each, sends="forward") for each in self.sending(reverse=False))

    def without_hold(self) -> TrafficMix:
        """The same mix with connections that are closed at once."""
        return self._with(replace(each, traffic=each.traffic.without_hold()) for each in self.classes)

    @property
    def hold_s(self) -> float:
        return max(each.traffic.hold_s for each in self.classes)

    def without_fixed(self) -> TrafficMix:
        """The classes that share the load."""
        return self._with(each for each in self.classes if each.fixed_fps is None)

    def raising(self, name: str, maximum_fps: float) -> TrafficMix:
        """The mix in which this class takes all of a load that the others leave: they keep their share of the maximum.

        ArgumentError for a class that is not there, or that does not send wherever the others do.
        """
        raised = self[name]
        if raised.fixed_fps is not None:
            raise ArgumentError(f"class {name!r} has a fixed load of {raised.load_text}: give it a share to raise it")
        if raised.sends != "both" and self.bidirectional:
            raise ArgumentError(
                f"class {name!r} is sent {raised.sends} only, and the load of both directions is raised"
            )
        return self._with(
            replace(each, share=1.0)
            if each.name == name
            else replace(each, share=0.0, fixed_fps=each.fixed_fps or max(1, round(maximum_fps * each.share)))
            for each in self.classes
        )

    def fixed_but(self, name: str) -> bool:
        """True if all other classes have a fixed load."""
        return all(each.fixed_fps is not None for each in self.classes if each.name != name)

    @property
    def raised(self) -> str:
        """The one class that has no fixed load; "" if several have none."""
        names = [each.name for each in self.classes if each.fixed_fps is None]
        return names[0] if len(names) == 1 < len(self.classes) else ""

    def bits_per_second(self, frames_per_second: float) -> float:
        """Layer-2 bit rate with FCS of this load, in bit/s; the mean of the directions."""
        rates = [
            self._fixed_bits(reverse, 0) + (frames_per_second - self._fixed_frames(reverse)) * 8 * self._mean(reverse)
            for reverse in self._reverses
        ]
        return sum(rates) / len(rates)

    def line_rate_fps(self, bits_per_second: float, encapsulation: int = 0) -> float:
        """Frames/s per direction that fill a link of this layer-1 bit rate, in the direction that fills it first."""
        extra = encapsulation + WIRE_OVERHEAD_BYTES
        return min(
            self._fixed_frames(reverse)
            + (bits_per_second - self._fixed_bits(reverse, extra)) / (8 * self._mean(reverse, extra))
            for reverse in self._reverses
        )

    def _fixed_frames(self, reverse: bool) -> int:
        return sum(each.fixed_fps or 0 for each in self.sending(reverse))

    def _fixed_bits(self, reverse: bool, extra: int) -> float:
        sending = self.sending(reverse)
        return sum((each.fixed_fps or 0) * (each.traffic.mean_frame_size + extra) * 8 for each in sending)


AnyTraffic = Traffic | TrafficMix
"""What can be sent. Both have what measuring needs: sizes, labels, flows, rates by line rate and bit rate."""


def classes_of(traffic: AnyTraffic) -> tuple[TrafficClass, ...]:
    """A mix's classes; of a traffic the one without a name."""
    if isinstance(traffic, TrafficMix):
        return traffic.classes
    return (TrafficClass("", traffic, 1.0, sends="both" if traffic.bidirectional else "forward"),)


def steps_of(traffic: AnyTraffic) -> tuple[ScriptStep, ...]:
    """Those of a conversation, whose load is connections a second; () of other frames, and of a mix."""
    source = traffic.frame_source if isinstance(traffic, Traffic) else None
    return source.steps if isinstance(source, ConversationFrames) else ()


def least_load_fps(traffic: AnyTraffic, duration_s: float) -> int:
    """Frames/s per direction of which each class sends a frame at least in a trial of this duration."""
    if isinstance(traffic, Traffic):
        return 1
    smallest = min(each.share for each in traffic.classes if each.fixed_fps is None)
    # Two frames by rate: the rate is rounded, and then the number of frames.
    return traffic.fixed_fps + math.ceil(math.ceil(2 / duration_s) / smallest)


@dataclass(frozen=True, slots=True)
class ClassStream:
    """What one class sends in one direction of a trial.

    Attributes:
        direction: its index among the trial's directions.
        reverse: it is the opposite of an earlier one.
        fps, frames: its part of the load, and of the frames due.
        receivers: indices of all directions in which its frames arrive: several of broadcast and multicast.
    """

    direction: int
    sent: TrafficClass
    reverse: bool
    fps: int
    frames: int
    receivers: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[ScriptStep, ...]:
        """Of a conversation; () of other frames."""
        return steps_of(self.sent.traffic)

    def by_receiver(self) -> tuple[ClassStream, ...]:
        """The stream once for each direction in which its frames arrive, with that as its direction."""
        return tuple(replace(self, direction=at) for at in self.receivers)


def class_streams(traffic: AnyTraffic, reverses: Sequence[bool], load_fps: int, frames: int) -> tuple[ClassStream, ...]:
    """The streams of a trial, direction by direction: those of each add up to ``load_fps`` and ``frames``.

    ``reverses``: of each direction whether it is the opposite of an earlier one. ConfigError for a load of which a
    class gets no frame.
    """
    if isinstance(traffic, Traffic):
        (only,) = classes_of(traffic)
        return tuple(ClassStream(number, only, reverse, load_fps, frames) for number, reverse in enumerate(reverses))
    made: list[ClassStream] = []
    for number, reverse in enumerate(reverses):
        sending = traffic.sending(reverse)
        if not sending:
            raise ConfigError(f"no class of {traffic.label} is sent in reverse: give one the direction 'both'")
        rates = _rates(sending, load_fps)
        counts = shares(frames, rates)
        for index, traffic_class in enumerate(sending):
            if traffic_class.fixed_fps is not None and not counts[index] and max(counts) > 1:
                # No higher load gives a slow class with a fixed load a frame in a short trial.
                counts[counts.index(max(counts))] -= 1
                counts[index] = 1
        for traffic_class, fps, count in zip(sending, rates, counts, strict=True):
            if not fps or not count:
                raise ConfigError(
                    f"{frames} frames at {load_fps} frames/s leave none for class {traffic_class.name!r} "
                    f"({traffic_class.load_text}): use a higher load or a longer duration"
                )
            made.append(ClassStream(number, traffic_class, reverse, fps, count))
    return tuple(made)


def learning_streams(traffic: AnyTraffic, reverses: Sequence[bool], fps: int, frames: int) -> tuple[ClassStream, ...]:
    """Streams from which bridges learn: so many frames of each class in every direction, whoever sends there later."""
    return tuple(
        ClassStream(number, traffic_class, reverse, fps, frames)
        for number, reverse in enumerate(reverses)
        for traffic_class in classes_of(traffic)
        if not (reverse and steps_of(traffic_class.traffic))  # its answers are sent there
    )


def shares(frames: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Divide a number of frames by weight, with largest remainders: the shares add up."""
    total = sum(weights)
    exact = [Fraction(frames) * weight / total for weight in weights]
    dealt = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda at: (dealt[at] - exact[at], at))
    for at in by_remainder[: frames - sum(dealt)]:
        dealt[at] += 1
    return dealt


def _rates(sending: Sequence[TrafficClass], load_fps: int) -> list[int]:
    fixed = sum(each.fixed_fps or 0 for each in sending)
    if load_fps <= fixed:
        names = listed([f"{each.name} ({each.load_text})" for each in sending if each.fixed_fps is not None])
        raise ConfigError(
            f"a load of {format_fps(load_fps)} is no more than the fixed loads of {names}, {format_fps(fixed)}, and "
            "leaves nothing for the other classes: use a higher load"
        )
    shared = iter(shares(load_fps - fixed, [_exact(each) for each in sending if each.fixed_fps is None]))
    return [next(shared) if each.fixed_fps is None else each.fixed_fps for each in sending]


def _exact(sent: TrafficClass) -> Fraction:
    """The share as the user wrote it, not as its float."""
    return Fraction(repr(sent.share))


def _class_of(name: str, entry: Any) -> TrafficClass:
    if not isinstance(entry, (tuple, list)) or not 2 <= len(entry) <= 3:
        raise ArgumentError(
            f"TrafficMix(): {name} is {entry!r:.80}: write (traffic, share), such as (Traffic(), '10 %')"
        )
    traffic, share, *sends = entry
    if not isinstance(traffic, Traffic):
        raise ArgumentError(
            f"TrafficMix(): {name} sends {traffic!r:.80}: write a Traffic, such as Traffic(frame_size=64)"
        )
    direction: Any = sends[0] if sends else "both" if traffic.bidirectional else "forward"
    if direction not in _SENDS:
        raise ArgumentError(f"TrafficMix(): {name} is sent {shown_value(direction)}: write one of {listed(_SENDS)}")
    if direction != "forward" and steps_of(traffic):
        raise ArgumentError(f"TrafficMix(): {name} is a conversation, which is sent 'forward': leave {direction!r} out")
    return TrafficClass(name, traffic, *_share_of(name, share), sends=direction)


def _share_of(name: str, given: Any) -> tuple[float, int | None]:
    """A share, or a fixed load, as the user wrote it."""
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given <= 1:
        return float(given), None
    match = _SHARE.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is not None:
        number = Fraction(match["number"])
        if match["unit"] == "%" and 0 < number <= 100:
            return float(number / 100), None
        fps = number * _FPS.get(match["unit"], 0)
        if fps >= 1 and fps.denominator == 1:
            return 0.0, int(fps)
    advice = f"'{given} %'" if isinstance(given, (int, float)) and 1 < given <= 100 else _SHARE_WORDS
    raise ArgumentError(f"TrafficMix(): the share of {name} is {shown_value(given)}: write {advice}")
