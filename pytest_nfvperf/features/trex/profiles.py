"""STL profiles as traffic: each continuous stream is a class of it, and its rate is the class's share of the load."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.config.traffic_file import packet_of
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, TestbedError
from pytest_nfvperf.model.traffic.mix import MOST_CLASSES, AnyTraffic, TrafficMix
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import WIRE_OVERHEAD_BYTES, Imix, Traffic

MODULE = "pytest_nfvperf.features.trex.profile_child"
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
        vary = tuple(Vary(each["field"], each["count"], step=each["step"], order=each["order"]) for each in self.vary)
        size = self.size if frame_size is None else frame_size
        return Traffic(frame_size=size, packet=packet_of(self.packet, load), vary=vary, together=self.together)

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
        answer = json.loads(run([sys.executable, "-m", MODULE], deadline_s=_DEADLINE_S, stdin=request))
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
    made = [_traffic(each, load, frame_size) for each in streams]
    if len(made) == 1:
        return made[0]
    total = sum(each.frames for each in streams)
    names = [each.name if each.name.isidentifier() else f"stream{number}" for number, each in enumerate(streams, 1)]
    if len(set(names)) < len(names):
        names = [f"stream{number}" for number in range(1, len(names) + 1)]
    return TrafficMix(
        **{name: (sent, each.frames / total) for name, sent, each in zip(names, made, streams, strict=True)}
    )


def _traffic(stream: ProfileStream, load: Sequence[str], frame_size: int | Imix | None) -> Traffic:
    try:
        return stream.traffic(load, frame_size)
    except ConfigError as error:
        too_small = frame_size is None and not isinstance(error, ArgumentError)
        hint = "; give another frame_size for all streams" if too_small else ""
        raise ConfigError(f"stream {stream.name!r}: {error.message}{hint}") from error
