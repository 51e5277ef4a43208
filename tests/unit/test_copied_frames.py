"""Captured copies against what was sent: each byte, each crossing, each sequence number."""

from __future__ import annotations

import struct

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf.adapters.generators.frames import Addresses, build_frame, check_frames, legs_of
from pytest_nfvperf.model.topology.compose import pvvp
from pytest_nfvperf.model.topology.workloads import vm_chain
from pytest_nfvperf.model.traffic.frame_program import frame_at
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import Direction

CHAIN = vm_chain(2)
DIRECTION = Direction("p0", "p0")
SENT = Traffic(frame_size=96, bidirectional=False)
LEGS = legs_of(CHAIN, DIRECTION, SENT)


def copy(leg: int, number: int, trial: int = 3) -> bytes:
    made = build_frame(96, Addresses(LEGS[leg].source, LEGS[leg].destination, SENT.src_ip, SENT.dst_ip))
    return made[:42] + struct.pack("<HBBIIH", 0x664E, trial, 0x80, number, 12345, 7) + made[56:]


def changed(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes([value]) + frame[at + 1 :]


def test_legs_have_the_addresses_of_their_crossings() -> None:
    assert [(leg.source[-2:], leg.destination[-2:]) for leg in LEGS] == [("10", "01"), ("01", "02"), ("02", "10")]
    unchanged = legs_of(pvvp(), Direction("p0", "p1"), SENT)
    assert len({(leg.source, leg.destination) for leg in unchanged}) == 1, "VNFs in mode io leave addresses as they are"


def test_numbers_tell_duplicates_from_losses() -> None:
    frames = [copy(0, 0), copy(0, 1), copy(0, 2), copy(1, 0), copy(1, 0), copy(1, 2), copy(2, 5)]
    found = check_frames(frames, CHAIN, DIRECTION, SENT)
    assert [(leg.copies, leg.duplicated) for leg in found.legs] == [(3, 0), (2, 1), (1, 0)]
    assert (found.others, found.wrong) == (0, ())


def test_frames_of_other_trials_and_others_are_apart() -> None:
    stranger = changed(copy(0, 0), 5, 0x55)
    found = check_frames([copy(0, 9, trial=2), b"\xff" * 60, b"short", stranger, copy(0, 0)], CHAIN, DIRECTION, SENT)
    assert (found.legs[0].copies, found.others) == (1, 4)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (changed(copy(1, 0), 90, 0xEE), "byte 90 is 0xee in place of 0x5a"),
        (copy(1, 0)[:80], "84 bytes with FCS in place of 96"),
        (copy(1, 0) + b"\0", "97 bytes with FCS in place of 96"),
        (changed(copy(1, 0), 29, 9), "Ether / IP / UDP 198.18.0.9:49184 > 198.19.0.1:echo / Raw in place of"),
    ],
)
def test_a_frame_that_is_not_as_sent_is_told(frame: bytes, message: str) -> None:
    (wrong,) = check_frames([frame], CHAIN, DIRECTION, SENT).wrong
    assert wrong.startswith(message)


def test_cut_copies_are_compared_as_far_as_they_go() -> None:
    assert check_frames([copy(0, 0)[:64]], CHAIN, DIRECTION, SENT, snaplen=64).wrong == ()
    assert check_frames([copy(0, 0)], CHAIN, DIRECTION, SENT, snaplen=64).wrong == ("96 bytes with FCS in place of 68",)


def test_frames_of_a_packet_have_checksums_of_their_own() -> None:
    traffic = Traffic(packet=Ether() / IP() / UDP(sport=50000, dport=9999), vary=[Vary("UDP.sport", 5)])
    leg = legs_of(CHAIN, DIRECTION, traffic)[0]
    assert traffic.frame_source is not None
    program = traffic.frame_source.program(
        (64,), (0,), source_mac=leg.source, destination_mac=leg.destination, reverse=False
    )
    sent = [
        frame_at(program, number, struct.pack("<HBBIIH", 0x664E, 3, 0x80, number, 9 * number, 7)) for number in range(9)
    ]
    assert check_frames(sent, CHAIN, DIRECTION, traffic).wrong == ()
    assert Ether(sent[3])[UDP].sport == 50003
    (wrong,) = check_frames([changed(sent[3], 35, 0x35)], CHAIN, DIRECTION, traffic).wrong
    assert wrong.startswith("Ether / IP / UDP 198.18.0.1:49973 > 198.19.0.1:9999")


def test_legs_have_the_addresses_that_the_packet_sets() -> None:
    traffic = Traffic(packet=Ether(src="02:00:00:00:55:01", dst="02:00:00:00:55:02") / IP() / UDP())
    leg = legs_of(pvvp(), Direction("p0", "p1"), traffic)[0]
    assert (leg.source, leg.destination) == ("02:00:00:00:55:01", "02:00:00:00:55:02")


@pytest.mark.parametrize("traffic", [Traffic(flows=2), Traffic(frame_size=IMIXES["simple"])])
def test_mixtures_cannot_be_held_against_one_frame(traffic: Traffic) -> None:
    with pytest.raises(ValueError, match="send one flow of one size"):
        check_frames([], CHAIN, DIRECTION, traffic)
