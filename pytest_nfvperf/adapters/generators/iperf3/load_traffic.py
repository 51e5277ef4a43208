"""What iperf3 can send as a load generator, and what it must refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from pytest_nfvperf.adapters.generators.iperf3.command import udp_options
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.stream_measurement import MAX_STREAMS
from pytest_nfvperf.model.traffic.headers import HEADER_BYTES
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, Imix, Traffic
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.stream_engine import StreamEnd

_IPV4_BYTES = 20
_UDP_BYTES = 8
OVERHEAD_BYTES = HEADER_BYTES + _IPV4_BYTES + _UDP_BYTES + FCS_BYTES
"""A 64-byte frame carries 18 bytes of UDP payload, two more than iperf3 needs for its own header."""

_INSTEAD = "use the embedded generator (generator.engine: embedded) or TRex"
_DEVICE_KEYS = ("namespace", "address", "interface")
_INTERFACE_DECIDES = ("src_mac", "dst_mac", "src_ip", "dst_ip")


def stream_end(port: GeneratorPort) -> StreamEnd:
    """The end that a port's device names: ``namespace=NAME,address=IPV4,interface=NAME``; ConfigError otherwise."""
    given = dict(part.partition("=")[::2] for part in port.device.split(","))
    if sorted(given) != sorted(_DEVICE_KEYS) or not all(given.values()):
        raise ConfigError(
            f"port {port.name!r}: iperf3 needs a device 'namespace=NAME,address=IPV4,interface=NAME', "
            f"not {port.device!r}; for other devices {_INSTEAD}"
        )
    if ":" in given["address"]:
        raise ConfigError(
            f"port {port.name!r}: iperf3 counts frames of IPv4 only, not of {given['address']}; {_INSTEAD}, or measure "
            "streams, which may be of IPv6"
        )
    return StreamEnd(**given)


def check_traffic_kind(traffic: Traffic) -> None:
    """Raise ConfigError for what iperf3 cannot send: its packets are the kernel's, not templates."""
    for problem in _problems(traffic):
        raise ConfigError(f"iperf3 {problem}; {_INSTEAD}")


def _problems(traffic: Traffic) -> Iterator[str]:
    if isinstance(traffic.frame_size, Imix):
        yield f"sends frames of one size, not {traffic.frame_size}"
    if traffic.flows > MAX_STREAMS:
        yield f"sends at most {MAX_STREAMS} flows, one a stream, not {traffic.flows}"
    if traffic.vlan is not None:
        yield f"does not tag frames with VLAN {traffic.vlan}; give it a VLAN interface"
    if traffic.vxlan is not None:
        yield "does not put frames in a VXLAN"
    default = {field.name: field.default for field in fields(Traffic)}
    for name in _INTERFACE_DECIDES:
        if getattr(traffic, name) != default[name]:
            yield f"cannot send with {name} {getattr(traffic, name)}: the addresses are those of the interfaces"


def load_options(traffic: Traffic, load_fps: int, frames: int) -> list[str]:
    """A client that sends so many frames, at this rate over all its streams.

    By number (``--blockcount``) rather than by time, which iperf3 takes in whole seconds.
    """
    payload = round(traffic.mean_frame_size) - OVERHEAD_BYTES
    bitrate = max(1, round(load_fps * payload * 8 / traffic.flows))
    count = ["--blockcount", str(frames), "--length", str(payload), "--parallel", str(traffic.flows)]
    return [*udp_options(bitrate), *count]
