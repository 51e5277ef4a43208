"""Frames, mixes and flows, as bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.utils import wrpcap

from pytest_nfvperf.adapters.generators.embedded.build import source_dir
from pytest_nfvperf.adapters.generators.frames import (
    SIGNATURE_BYTES,
    intended_frames,
    mix_order,
    program_of,
    streams,
    trial_request,
)
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.frame_program import frame_at, permuted
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic, Vxlan
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, streams_of
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.frame_support import innermost, ip_of, rebuilt

MAC_A, MAC_B = "02:00:00:00:00:01", "02:00:00:00:00:02"
PORTS = {"a": GeneratorPort("a", "x", MAC_A), "b": GeneratorPort("b", "x", MAC_B)}
BOTH = (Direction("a", "b"), Direction("b", "a"))


VXLANS = [None, Vxlan(vni=42), Vxlan(src_ip="2001:db8::1", dst_ip="2001:db8::2")]


@st.composite
def any_traffic(draw: st.DrawFn) -> Traffic:
    kind = Traffic(9216, vlan=draw(st.none() | st.integers(1, 4094)), vxlan=draw(st.sampled_from(VXLANS)))
    kind = kind.over_ipv6() if draw(st.booleans()) else kind
    return replace(kind, frame_size=draw(st.integers(kind.least_frame_size, 9216)))


def template(traffic: Traffic, direction: int = 0) -> bytes:
    return bytes.fromhex(streams(streams_of(traffic, BOTH, 1, 1), BOTH, PORTS)[direction]["templates"][0])


@given(any_traffic())
def test_a_frame_is_what_scapy_makes_of_its_fields(traffic: Traffic) -> None:
    data = template(traffic)
    assert len(data) == traffic.frame_size - 4
    frame = Ether(data)
    assert (frame.src, frame.dst, frame[Dot1Q].vlan if Dot1Q in frame else None) == (MAC_A, MAC_B, traffic.vlan)
    inner = innermost(frame)
    assert (ip_of(inner).src, ip_of(inner).dst) == (traffic.src_ip, traffic.dst_ip)
    assert (inner[UDP].sport, inner[UDP].dport) == (0xC020, 7)
    assert (inner[UDP].chksum == 0) == (traffic.ip_version == 4)
    assert data.endswith(bytes(inner[UDP].payload))
    assert traffic.header_bytes == len(data) - len(inner[UDP].payload)
    behind = traffic.header_bytes + SIGNATURE_BYTES
    assert data[behind:] == bytes(at % 256 for at in range(behind, len(data)))
    assert rebuilt(data) == data


@given(any_traffic().filter(lambda traffic: traffic.vxlan))
def test_a_vxlan_is_around_the_frame(traffic: Traffic) -> None:
    frame, vxlan = Ether(template(traffic)), traffic.vxlan
    assert vxlan is not None
    assert (ip_of(frame).src, ip_of(frame).dst, frame[VXLAN].vni, frame[VXLAN].flags.Instance) == (
        vxlan.src_ip,
        vxlan.dst_ip,
        vxlan.vni,
        True,
    )
    assert (frame[UDP].sport, frame[UDP].dport, frame[UDP].chksum) == (49152, 4789, 0)
    inner = frame[VXLAN].payload
    assert (inner.src, inner.dst) == (vxlan.inner_src_mac, vxlan.inner_dst_mac)


def test_on_the_way_back_the_tunnels_ends_change_sides() -> None:
    there, back = (Ether(template(Traffic(128, vxlan=VXLANS[1]), direction)) for direction in (0, 1))
    assert (there[IP].src, there[IP].dst) == (back[IP].dst, back[IP].src) == ("192.0.2.1", "192.0.2.2")
    inner, returned = there[VXLAN].payload, back[VXLAN].payload
    assert (inner.src, inner.dst, inner[IP].src) == (returned.dst, returned.src, returned[IP].dst)


@pytest.mark.parametrize("traffic", [Traffic(vlan=5), Traffic(84, vlan=5).over_ipv6(), Traffic(110, vxlan=Vxlan())])
def test_the_smallest_frame_has_room_for_the_signature(traffic: Traffic) -> None:
    assert traffic.least_frame_size == traffic.frame_size
    assert traffic.header_bytes + SIGNATURE_BYTES == traffic.frame_size - 4


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
    there, back = (
        Ether(bytes.fromhex(s["templates"][0])) for s in streams(streams_of(traffic, BOTH, 1, 1), BOTH, PORTS)
    )
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
    there, back = (
        Ether(bytes.fromhex(s["templates"][0])) for s in streams(streams_of(Traffic(), BOTH, 1, 1), BOTH, PORTS)
    )
    assert [(f.src, f.dst) for f in (there, back)] == [(MAC_A, MAC_B), (MAC_B, MAC_A)]


@given(flows=st.integers(1, 1 << 24), traffic=st.sampled_from([Traffic(), Traffic(84).over_ipv6()]), data=st.data())
def test_flows_stay_in_their_network_and_ports(flows: int, traffic: Traffic, data: st.DataObject) -> None:
    program = program_of(replace(traffic, flows=flows), BOTH[0], PORTS, reverse=False)
    flow = data.draw(st.integers(0, flows - 1) | st.just(flows - 1))
    sent, last = (Ether(frame_at(program, number, bytes(14))) for number in (flow, flows - 1))
    first = int(ip_address(traffic.src_ip))
    addresses = min(flows, 0xFFFE)
    assert program.combinations == flows
    assert int(ip_address(ip_of(sent).src)) == first + flow % addresses
    assert sent[UDP].sport == 0xC020 + flow // addresses
    assert int(ip_address(ip_of(last).src)) >> 16 == first >> 16
    assert last[UDP].sport >= 0xC020


VARIED = [kind for kind in (Traffic(256), Traffic(256, vlan=7)) for kind in (kind, kind.over_ipv6())]


@given(
    flows=st.sampled_from([1, 2, 1000, 70_000, 1 << 24]),
    traffic=st.sampled_from(VARIED),
    vxlan=st.sampled_from(VXLANS),
    number=st.integers(0, 1 << 30),
    signature=st.binary(min_size=14, max_size=14),
)
def test_every_flows_frame_has_right_checksums(
    flows: int, traffic: Traffic, vxlan: Vxlan | None, number: int, signature: bytes
) -> None:
    """As scapy computes them for what it parses, whatever the signature is."""
    program = program_of(replace(traffic, vxlan=vxlan, flows=flows), BOTH[0], PORTS, reverse=False)
    sent = frame_at(program, number, signature)
    assert rebuilt(sent) == sent
    assert bytes(innermost(Ether(sent))[UDP].payload)[:14] == signature
    if vxlan and flows > 1:
        assert Ether(sent)[UDP].sport == 49152 + number % flows % 16384


@given(any_traffic(), st.integers(1, 70_000))
def test_a_receiver_knows_what_routers_change(traffic: Traffic, flows: int) -> None:
    """TTL, traffic class and flow label with what follows from them, and all in front of the innermost IP header."""
    (stream,) = streams(streams_of(replace(traffic, flows=flows), BOTH[:1], 1, 1), BOTH[:1], PORTS)
    at = stream["compared_from"]
    assert at + {4: 28, 6: 48}[traffic.ip_version] == traffic.header_bytes == stream["signatures"][0]
    routed = Ether(bytes.fromhex(stream["templates"][0]))
    header = ip_of(innermost(routed))
    if traffic.ip_version == 4:
        header.ttl, header.tos, header.chksum = 1, 255, None
    else:
        header.hlim, header.tc, header.fl = 1, 255, 0xFFFFF
    came, sent = bytes(routed), bytes.fromhex(stream["templates"][0])
    changed = {n for n in range(at, len(sent)) if came[n] != sent[n]}
    allowed = {n for first, count in stream["changeable"] for n in range(first, first + count)}
    assert changed <= allowed
    assert len(allowed) == {4: 4, 6: 5}[traffic.ip_version]


def test_the_engine_has_the_same_random_order() -> None:
    """The places that its own test holds template.c to."""
    lines = (source_dir() / "tests/test_permute.c").read_text()
    known = re.findall(r"^\t\{(\d+), (\d+)u, \{([\d, ]+)\}\},$", lines, re.MULTILINE)
    assert len(known) == 8
    for listed in known:
        count, seed, positions = int(listed[0]), int(listed[1]), [int(position) for position in listed[2].split(",")]
        numbers = (0, 1, 2, 3, count // 2, count - 1)
        assert [permuted(number % count, count, seed) for number in numbers] == positions


def test_a_load_without_a_frame_is_a_mistake_of_the_user() -> None:
    with pytest.raises(ConfigError, match=r"1 frames/s for 0.5 s makes no frame"):
        trial_request(TrialSpec(Traffic(), 1, 0.5, BOTH), PORTS)


@pytest.mark.parametrize(("ratio", "directions", "frames"), [(0.0, BOTH, 0), (0.005, BOTH, 50), (0.005, BOTH[:1], 25)])
def test_frames_that_may_be_refused_are_a_share_of_all_directions(ratio, directions, frames):
    request = trial_request(TrialSpec(Traffic(), 1000, 5.0, directions, give_up_loss=ratio), PORTS)
    assert request["most_refused"] == frames


def test_without_a_goal_a_trial_goes_on_to_its_end():
    assert "most_refused" not in trial_request(TrialSpec(Traffic(), 1000, 5.0, BOTH), PORTS)


def test_learning_takes_only_the_frames_of_a_capture_that_it_sends(tmp_path: Path) -> None:
    frames = [bytes(Ether() / IP(src="198.18.0.1", dst="198.19.0.1") / UDP() / bytes(60 + at % 7)) for at in range(50)]
    wrpcap(str(tmp_path / "it.pcap"), [Ether(frame) for frame in frames])
    traffic = Traffic.from_pcap(tmp_path / "it.pcap")
    (whole,) = streams(streams_of(traffic, BOTH[:1], 1000, 1 << 20), BOTH[:1], PORTS)
    for count in (1, 10, 49):
        (some,) = streams(streams_of(traffic, BOTH[:1], 1000, count, learning=True), BOTH[:1], PORTS)
        sent = [whole["templates"][whole["order"][number]] for number in range(count)]
        assert [some["templates"][number] for number in some["order"]] == sent
        assert len(some["templates"]) == len(some["signatures"]) == len(some["balances"]) == len(set(sent)) <= 7
