"""UPDATE messages in frames, as RFC 4271 has them."""

from __future__ import annotations

import struct

import pytest

from pytest_nfvperf.features.routing.route_agent import updates_in

KEEPALIVE = b"\xff" * 16 + b"\x00\x13\x04"


def message(kind: int, body: bytes) -> bytes:
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def update(withdrawn: bytes = b"", attributes: bytes = b"", announced: bytes = b"") -> bytes:
    lengths = (struct.pack("!H", len(part)) for part in (withdrawn, attributes))
    return message(2, next(lengths) + withdrawn + next(lengths) + attributes + announced)


def frame(
    payload: bytes, *, ports: tuple[int, int] = (45000, 179), options: bytes = b"", padding: bytes = b""
) -> bytes:
    tcp = struct.pack("!HHIIBBHHH", *ports, 0, 0, (5 + len(options) // 4) << 4, 0x18, 0, 0, 0) + options + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 1, 6, 0, b"\x0c\x0c\x0c\x02", b"\x0c\x0c\x0c\x01")
    return bytes(12) + b"\x08\x00" + ip + tcp + padding


CLIENTS, OTHERS = b"\x0f\xc6\x12", b"\x20\xc0\x00\x02\x01"  # 198.18.0.0/15, 192.0.2.1/32


def test_a_withdrawal_and_an_announcement() -> None:
    assert list(updates_in(frame(update(withdrawn=CLIENTS)))) == [(["198.18.0.0/15"], [])]
    announced = frame(update(attributes=b"\x40\x01\x01\x00", announced=CLIENTS + OTHERS), ports=(179, 45000))
    assert list(updates_in(announced)) == [([], ["198.18.0.0/15", "192.0.2.1/32"])]


def test_the_default_route_and_the_end_of_the_table() -> None:
    assert list(updates_in(frame(update(announced=b"\x00")))) == [([], ["0.0.0.0/0"])]
    assert list(updates_in(frame(update()))) == [([], [])]


def test_several_messages_of_one_segment_behind_options_and_padding() -> None:
    found = list(updates_in(frame(KEEPALIVE + update(withdrawn=OTHERS), options=bytes(20), padding=bytes(9))))
    assert found == [(["192.0.2.1/32"], [])]


@pytest.mark.parametrize(
    "other",
    [
        b"",
        bytes(60),
        frame(b""),
        frame(KEEPALIVE),
        frame(update(withdrawn=CLIENTS), ports=(1, 2)),
        frame(update(withdrawn=CLIENTS)[:-1]),
        frame(b"the rest of a message that began before"),
    ],
)
def test_what_is_none(other: bytes) -> None:
    assert list(updates_in(other)) == []
