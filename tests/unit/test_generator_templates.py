"""Frames, mixes and flows, as bytes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from pytest_nfvperf.adapters.generators.templates import (
    SIGNATURE_BYTES,
    build_frame,
    intended_frames,
    mix_order,
    signature_offset,
    streams,
    trial_request,
)
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic import IMIXES, Traffic
from pytest_nfvperf.model.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

MAC_A, MAC_B = "02:00:00:00:00:01", "02:00:00:00:00:02"
PORTS = {"a": GeneratorPort("a", "x", MAC_A), "b": GeneratorPort("b", "x", MAC_B)}
BOTH = (Direction("a", "b"), Direction("b", "a"))


@given(size=st.integers(64, 9216), vlan=st.none() | st.integers(1, 4094))
def test_frame_has_its_size_and_right_checksums(size: int, vlan: int | None) -> None:
    data = build_frame(size, MAC_A, MAC_B, "198.18.0.1", "198.19.0.1", vlan)
    assert len(data) == size - 4
    frame = Ether(data)
    assert (frame.src, frame.dst) == (MAC_A, MAC_B)
    assert (frame[Dot1Q].vlan if vlan is not None else None) == vlan
    ip = frame[IP]
    given_checksum = ip.chksum
    del ip.chksum
    assert IP(bytes(ip)).chksum == given_checksum
    assert frame[UDP].chksum == 0
    assert ip.len == frame[UDP].len + 20 == size - 4 - 14 - (4 if vlan is not None else 0)
    behind = signature_offset(vlan) + SIGNATURE_BYTES
    assert data[behind:] == bytes(at % 256 for at in range(behind, len(data)))


def test_the_smallest_tagged_frame_has_room_for_the_signature() -> None:
    assert signature_offset(5) + SIGNATURE_BYTES == 60


@pytest.mark.parametrize("name", sorted(IMIXES))
def test_mix_keeps_its_weights_and_spreads_them(name: str) -> None:
    recipe = IMIXES[name].recipe
    order = mix_order(recipe)
    assert [order.count(index) for index in range(len(recipe))] == [weight for _, weight in recipe]
    longest_run = max(len(run) for run in "".join(map(str, order * 2)).replace("1", " ").replace("2", " ").split())
    assert longest_run <= 3


def test_mix_that_is_too_fine_is_named() -> None:
    with pytest.raises(ConfigError, match="may sum up to 256, not 300"):
        mix_order(((64, 299), (128, 1)))


@given(load=st.integers(1, 10**8), tenths=st.integers(1, 36000))
def test_intended_is_exact_on_decimals(load: int, tenths: int) -> None:
    assert intended_frames(load, tenths / 10) == Fraction(load * tenths, 10).__floor__()


def test_the_way_back_swaps_addresses() -> None:
    traffic = Traffic(src_mac="02:00:00:00:0a:01", dst_mac="02:00:00:00:0a:02", src_ip="10.0.0.1", dst_ip="10.9.0.1")
    there, back = (Ether(bytes.fromhex(s["templates"][0])) for s in streams(traffic, BOTH, PORTS, 1, 1))
    assert (there.src, there.dst, there[IP].src, there[IP].dst) == (
        traffic.src_mac,
        traffic.dst_mac,
        "10.0.0.1",
        "10.9.0.1",
    )
    assert (back.src, back.dst, back[IP].src, back[IP].dst) == (
        traffic.dst_mac,
        traffic.src_mac,
        "10.9.0.1",
        "10.0.0.1",
    )


def test_macs_are_the_ports_by_default() -> None:
    there, back = (Ether(bytes.fromhex(s["templates"][0])) for s in streams(Traffic(), BOTH, PORTS, 1, 1))
    assert [(f.src, f.dst) for f in (there, back)] == [(MAC_A, MAC_B), (MAC_B, MAC_A)]


@given(flows=st.integers(1, 1 << 24))
def test_flows_stay_in_their_network_and_ports(flows: int) -> None:
    made = streams(Traffic(flows=flows), BOTH[:1], PORTS, 1, 1)[0]["flows"]
    last = made["first_address"] + made["addresses"] - 1
    assert made["count"] == flows
    assert made["addresses"] <= flows
    assert made["first_address"] >> 16 == last >> 16
    assert last & 0xFFFF <= 0xFFFE
    assert made["first_port"] + (flows - 1) // made["addresses"] <= 65535


def test_a_load_without_a_frame_is_a_mistake_of_the_user() -> None:
    with pytest.raises(ConfigError, match=r"1 frames/s for 0.5 s makes no frame"):
        trial_request(TrialSpec(Traffic(), 1, 0.5, BOTH), PORTS)
