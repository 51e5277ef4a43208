"""What a TRex server says of itself and of a port, and what follows from it for a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, WIRE_OVERHEAD_BYTES
from pytest_nfvperf.ports.generator import GeneratorPort

MAX_LATENCY_STREAMS = 128
"""Of one server: each has a ring of sequence numbers there."""

MAX_FLOW_COUNTERS = 1023
"""Of one server without hardware counters; a NIC may have fewer."""

MIN_LATENCY_BYTES = 60
"""Without FCS. The server pads a shorter one and then does not count it."""


@dataclass(frozen=True, slots=True)
class TrexPort:
    """A port that we hold.

    Attributes:
        number: TRex's.
        port: as attached.
        speed_bps: layer-1 bit rate; that of a virtual port is a fiction.
        virtual: af_packet, memif, virtio and their kind.
        counters: flow statistics ids it can count; None when the server does not say.
        gateway_mac: what ARP found; None for ports without a route.
    """

    number: int
    port: GeneratorPort
    speed_bps: float | None = None
    virtual: bool = False
    counters: int | None = None
    gateway_mac: str | None = None


def port_of(port: GeneratorPort, answer: Mapping[str, Any]) -> TrexPort:
    """The child's answer to ``attach``."""
    speed = answer.get("speed_gbps")
    return TrexPort(
        number=port_number(port),
        port=port,
        speed_bps=None if not speed else float(speed) * 1e9,
        virtual=answer["virtual"],
        counters=answer.get("counters"),
        gateway_mac=answer.get("gateway_mac"),
    )


def addressed(ports: Mapping[str, TrexPort]) -> dict[str, GeneratorPort]:
    """The attached ports; one that asked a gateway sends to the gateway's MAC."""
    return {
        name: replace(held.port, eth_peer=held.gateway_mac) if held.gateway_mac else held.port
        for name, held in ports.items()
    }


def port_number(port: GeneratorPort) -> int:
    """TRex's number of a port. ConfigError for a device that is none."""
    if not port.device.isdecimal():
        raise ConfigError(
            f"port {port.name!r} is reached by {port.device!r}, but TRex knows its ports by number: cable it in the "
            "testbed file, e.g. 'links: [[generator.0, dut.dpdk0]]'"
        )
    return int(port.device)


def check_streams(streams: Sequence[Mapping[str, Any]], ports: Iterable[TrexPort]) -> None:
    """Raise ConfigError for what the server would refuse only when it starts, or count wrongly."""
    held = {port.number: port for port in ports}
    _check_counters(streams, held)
    for stream in streams:
        size = len(stream["frame"]) // 2
        if stream["latency"] and size < MIN_LATENCY_BYTES:
            raise ConfigError(
                f"TRex pads a latency frame of {size + FCS_BYTES} bytes and never counts it: send at least "
                f"{MIN_LATENCY_BYTES + FCS_BYTES} bytes (with FCS), or measure without latency"
            )
    for number in sorted({stream["port"] for stream in streams}):
        _check_line_rate([stream for stream in streams if stream["port"] == number], held[number])


def _check_counters(streams: Sequence[Mapping[str, Any]], ports: Mapping[int, TrexPort]) -> None:
    latency = sum(stream["latency"] for stream in streams)
    if latency > MAX_LATENCY_STREAMS:
        raise ConfigError(
            f"{latency} latency streams are more than the {MAX_LATENCY_STREAMS} of a TRex server: use fewer "
            "directions, or measure without latency"
        )
    counted = len(streams) - latency
    most = min([port.counters for port in ports.values() if port.counters], default=MAX_FLOW_COUNTERS)
    if counted > min(most, MAX_FLOW_COUNTERS):
        raise ConfigError(
            f"{counted} streams need a counter each, and this TRex has {min(most, MAX_FLOW_COUNTERS)}: use a mix of "
            "fewer sizes, or fewer directions"
        )


def _check_line_rate(streams: Sequence[Mapping[str, Any]], port: TrexPort) -> None:
    if port.speed_bps is None:
        return
    wire = sum(stream["fps"] * (len(stream["frame"]) // 2 + FCS_BYTES + WIRE_OVERHEAD_BYTES) * 8 for stream in streams)
    if wire > port.speed_bps * (1 + 1e-9):
        rate = format_fps(sum(stream["fps"] for stream in streams))
        fiction = ", which is what TRex takes a virtual port for" if port.virtual else ""
        raise ConfigError(
            f"{rate} on port {port.port.name!r} fill {wire / 1e9:.4g} Gbit/s on the wire, and TRex port {port.number} "
            f"has {port.speed_bps / 1e9:g} Gbit/s{fiction}: lower the load, or write the port's line_rate into the "
            "testbed file so that searches stay below it"
        )
