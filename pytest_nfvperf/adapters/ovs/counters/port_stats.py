"""Port counters of a bridge, fresh, by one OpenFlow 1.4 request (7.3.5.6).

The OVSDB's ``statistics`` column is refreshed every 5 s at best and ``dpctl/show`` lacks the reasons
of drops. An OFPMP_PORT_STATS request makes vswitchd read the ports at once and
carries OVS's custom counters (``ovs_tx_failure_drops``, ...) in an experimenter property.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pytest_nfvperf.adapters.ovs.openflow.multipart import Question

_ANY_PORT = struct.Struct("!I4x")
PORT_STATS = Question(4, _ANY_PORT.pack(0xFFFFFFFF))
_STATS = struct.Struct("!HxxIII8Q")  # length, port, duration s and ns, the counters
_STANDARD = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
_PROPERTY = struct.Struct("!HH")  # type, length
_EXPERIMENTER = struct.Struct("!HHII")  # ..., experimenter, type
_EXPERIMENTER_TYPE = 0xFFFF
_INTEL, _CUSTOM = 0x0000AA01, 2
_CUSTOM_HEADER_BYTES = 16
_UNKNOWN = (1 << 64) - 1


def parse_port_stats(body: bytes) -> dict[int, dict[str, int]]:
    """Counters of every port of a bridge, by OpenFlow port number; a counter that the port lacks is absent."""
    ports: dict[int, dict[str, int]] = {}
    while body:
        length, port, _, _, *counters = _STATS.unpack_from(body)
        known = {name: value for name, value in zip(_STANDARD, counters, strict=True) if value != _UNKNOWN}
        for properties in _custom_properties(body[_STATS.size : length]):
            known.update(_custom_counters(properties))
        ports[port] = known
        body = body[length:]
    return ports


def _custom_properties(properties: bytes) -> Iterator[bytes]:
    """The properties that carry OVS's custom counters."""
    while properties:
        kind, length = _PROPERTY.unpack_from(properties)
        if kind == _EXPERIMENTER_TYPE and _EXPERIMENTER.unpack_from(properties)[2:] == (_INTEL, _CUSTOM):
            yield properties[:length]
        properties = properties[-(-length // 8) * 8 :]  # each is padded to 8 bytes


def _custom_counters(prop: bytes) -> Iterator[tuple[str, int]]:
    """Counters as (length byte, name, 64-bit value), as many as the property's header says."""
    (count,) = struct.unpack_from("!H", prop, _CUSTOM_HEADER_BYTES - 2)
    at = _CUSTOM_HEADER_BYTES
    for _ in range(count):
        length = prop[at]
        name = prop[at + 1 : at + 1 + length].rstrip(b"\0").decode("ascii", errors="replace")
        (value,) = struct.unpack_from("!Q", prop, at + 1 + length)
        at += 1 + length + 8
        if value != _UNKNOWN:
            yield name, value
