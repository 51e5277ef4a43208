"""Streams of a conversation as an engine takes them, written by hand: five frames of TCP over IPv4."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

SYN, RST, ACK, FIN = 0x02, 0x04, 0x10, 0x01
IP, TCP, SIGNATURE = 14, 34, 56
"""Where they begin in a frame; the signature stands in an option of TCP."""
_SHIFT = 12
"""A sequence number is the conversation's number, and so many bits for its bytes."""
_CLIENT, _SERVER = 0xC6120001, 0xC6130001


@dataclass(frozen=True)
class Step:
    """A frame of the conversation: who sends it, and what its numbers are beyond those of the conversation."""

    from_client: bool
    flags: int
    seq: int = 0
    ack: int = 0
    payload: int = 0


FIVE = (
    Step(True, SYN),
    Step(False, SYN | ACK, ack=1),
    Step(True, ACK | FIN, seq=1, ack=1, payload=20),
    Step(False, ACK | FIN, seq=1, ack=22, payload=100),
    Step(True, ACK, seq=22, ack=102),
)

HELD = (
    Step(True, SYN),
    Step(False, SYN | ACK, ack=1),
    Step(True, ACK, seq=1, ack=1, payload=20),
    Step(False, ACK, seq=1, ack=21, payload=100),
    Step(True, ACK | FIN, seq=21, ack=101),
    Step(False, ACK | FIN, seq=101, ack=22),
    Step(True, ACK, seq=22, ack=102),
)
CLOSE = 4
"""The step of HELD by which the client closes, at a time of its own."""


def internet_sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def template(step: Step) -> bytes:
    """The first frame of the step, whose signature is zeros and whose checksums are right."""
    ends = (_CLIENT, _SERVER) if step.from_client else (_SERVER, _CLIENT)
    ports = (1024, 80) if step.from_client else (80, 1024)
    option = struct.pack("!BB14x", 253, 16)
    payload = bytes(at & 0xFF for at in range(SIGNATURE + 14, SIGNATURE + 14 + step.payload))
    tcp = struct.pack("!HHIIBBHHH", *ports, step.seq, step.ack, 9 << 4, step.flags, 65535, 0, 0) + option + payload
    pseudo = struct.pack("!IIHH", *ends, 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", 0xFFFF - internet_sum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, *ends)
    ip = ip[:10] + struct.pack("!H", 0xFFFF - internet_sum(ip)) + ip[12:]
    macs = bytes.fromhex("020000000002020000000001")
    return (macs if step.from_client else macs[6:] + macs[:6]) + b"\x08\x00" + ip + tcp


def streams(
    client: str,
    server: str,
    steps: tuple[Step, ...] = FIVE,
    *,
    fps: int,
    frames: int,
    clients: int = 100,
    ports: int = 1000,
    learned: bool = True,
    held_ns: int = 0,
) -> list[dict[str, Any]]:
    """Each step answers the one before it. The server learns the client's address and port from what arrives.

    With ``held_ns`` the step CLOSE is sent so long after the opening, of conversations that have come so far.
    """

    def field(offset: int, size: int, first: int, step: int, count: int, every: int = 1) -> dict[str, Any]:
        values = {"first": first, "step": step, "count": count, "every": every}
        return {"offset": offset, "size": size, "bits": 8 * size, **values}

    found = []
    for index, step in enumerate(steps):
        address, port = (IP + 12, TCP) if step.from_client else (IP + 16, TCP + 2)
        fields = [field(address, 4, _CLIENT, 1, clients, ports), field(port, 2, 1024, 1, ports)]
        if learned and not step.from_client:
            fields = [{**one, "from": at - SIGNATURE} for one, at in zip(fields, (IP + 12, TCP), strict=True)]
        fields.append(field(TCP + 4, 4, step.seq, 1 << _SHIFT, 1 << 32 - _SHIFT))
        if step.flags & ACK:
            fields.append(field(TCP + 8, 4, step.ack, 1 << _SHIFT, 1 << 32 - _SHIFT))
        stream = {
            "tx": client if step.from_client else server,
            "rx": server if step.from_client else client,
            "templates": [template(step).hex()],
            "signatures": [SIGNATURE],
            "fields": fields,
            "checksums": [
                {"kind": "internet", "offset": IP + 10, "start": IP, "end": 0, "fields": [0]},
                {"kind": "internet", "offset": TCP + 16, "start": TCP, "end": 0, "fields": [*range(len(fields))]}
                | {"signature": True},
            ],
            "combinations": clients * ports * (1 << 32 - _SHIFT),
        }
        if index == 0:
            found.append(stream | {"fps": fps, "frames": frames})
        elif held_ns and index == CLOSE:
            found.append(stream | {"after": index - 1, "fps": fps, "frames": frames, "start_ns": held_ns})
        else:
            found.append(stream | {"answers": [index - 1]})
    return found
