"""TRex streams: frames add up to the frames due, rates to the load, and limits are said before the start."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf.adapters.generators.frames import intended_frames
from pytest_nfvperf.features.trex.child_process import stream_of
from pytest_nfvperf.features.trex.stream_plan import TrexPort, check_streams, port_number, streams
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.mix import TrafficMix, shares
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import IMIXES, Imix, Traffic, Vxlan
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.frame_support import innermost, ip_of, rebuilt

MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
PORTS = {
    name: TrexPort(number, GeneratorPort(name, str(number), mac, mtu=9000), speed_bps=100e9)
    for number, (name, mac) in enumerate(zip("ab", MACS, strict=True))
}
DIRECTIONS = (Direction("a", "b"), Direction("b", "a"))
TRAFFICS = [
    Traffic(),
    Traffic(vlan=7),
    Traffic(frame_size=IMIXES["simple"]),
    Traffic(flows=1000),
    Traffic(flows=70_000),
    Traffic(frame_size=128, flows=3, vlan=7, vxlan=Vxlan()),
    Traffic(frame_size=84, flows=1000).over_ipv6(),
]


@given(st.integers(1, 20_000_000), st.floats(0.01, 100), st.sampled_from(TRAFFICS), st.booleans())
def test_frames_and_rates_add_up_exactly(load: int, duration: float, traffic: Traffic, latency: bool) -> None:
    frames = intended_frames(load, duration)
    spec = TrialSpec(traffic, load, duration, DIRECTIONS, latency=latency)
    if frames < 1:
        with pytest.raises(ConfigError, match="makes no frame"):
            streams(spec, PORTS)
        return
    for index in (0, 1):
        made = [stream for stream in streams(spec, PORTS) if stream["sent"] == index]
        assert sum(stream["frames"] for stream in made) == frames
        assert sum(stream["fps"] for stream in made) == pytest.approx(load)
        # They end together: each has as many frames as its rate makes in the time.
        assert [stream["frames"] / stream["fps"] for stream in made] == pytest.approx([frames / load] * len(made))


@given(st.integers(0, 10**9), st.lists(st.integers(1, 256), min_size=1, max_size=8))
def test_shares_add_up_and_are_off_by_less_than_one(frames: int, weights: list[int]) -> None:
    dealt = shares(frames, weights)
    assert sum(dealt) == frames
    for share, weight in zip(dealt, weights, strict=True):
        assert abs(share - frames * weight / sum(weights)) < 1


SIZES = Imix("sizes", ((96, 7), (570, 4), (1518, 1)))


def test_each_class_of_a_mix_has_its_streams() -> None:
    mix = TrafficMix(
        voice=(Traffic(frame_size=128, vlan=10), "10 %"),
        bulk=(Traffic(frame_size=IMIXES["simple"]), "90 %", "forward"),
        back=(Traffic(packet=Ether() / IP() / TCP(), vary=[Vary("IP.dst", 9)], frame_size=96), "90 %", "reverse"),
    )
    spec = TrialSpec(mix, 10_000, 1.0, DIRECTIONS)
    sent = spec.streams(10_000)
    made = streams(spec, PORTS)
    assert [(one.sent.name, one.reverse) for one in sent] == [
        *(("voice", False), ("bulk", False)),
        *(("voice", True), ("back", True)),
    ]
    for index, one in enumerate(sent):
        own = [stream for stream in made if stream["sent"] == index]
        assert sum(stream["frames"] for stream in own) == one.frames
        assert sum(stream["fps"] for stream in own) == pytest.approx(one.fps)
        assert {stream["port"] for stream in own} == {int(one.reverse)}
        assert sum(stream["latency"] for stream in own) == 1
    assert len({stream["id"] for stream in made}) == len(made)


def test_a_packet_has_a_stream_for_each_size_and_one_of_latency_frames() -> None:
    traffic = Traffic(packet=Ether() / IP() / TCP(), vary=[Vary("TCP.sport", 7, 1024)], frame_size=SIZES)
    made = streams(TrialSpec(traffic, 1000, 1.0, DIRECTIONS[:1]), PORTS)
    assert [(len(one["frame"]) // 2 + 4, one["latency"]) for one in made] == [
        *((96, False), (570, False), (1518, False)),
        (96, True),
    ]
    assert sum(one["frames"] for one in made) == 1000
    begins = [one["fields"]["variables"][0]["begin"] for one in made]  # of the bits that differ
    assert begins == [sum(one["frames"] for one in made[:at]) % 7 for at in range(4)]


def test_every_stream_has_a_number_of_its_own() -> None:
    numbers = [stream["id"] for stream in streams(TrialSpec(TRAFFICS[2], 10_000, 1.0, DIRECTIONS), PORTS)]
    assert len(numbers) == len(set(numbers)) == 8  # three sizes and latency, twice


def test_the_way_back_has_the_addresses_swapped() -> None:
    there, back = (
        bytes.fromhex(stream["frame"])
        for stream in streams(TrialSpec(Traffic(), 100, 1.0, DIRECTIONS, latency=False), PORTS)
    )
    assert (there[:6], there[6:12]) == (back[6:12], back[:6])
    assert (there[26:30], there[30:34]) == (back[30:34], back[26:30])


def test_a_gateways_mac_is_sent_to() -> None:
    routed = {**PORTS, "a": dataclasses.replace(PORTS["a"], gateway_mac="02:00:00:00:99:99")}
    frame = streams(TrialSpec(Traffic(), 100, 1.0, DIRECTIONS[:1], latency=False), routed)[0]["frame"]
    assert frame.startswith("020000009999")


def test_a_tagged_latency_frame_has_room_for_number_and_time() -> None:
    latency = [
        stream for stream in streams(TrialSpec(Traffic(vlan=7), 1000, 1.0, DIRECTIONS), PORTS) if stream["latency"]
    ]
    assert {len(stream["frame"]) // 2 for stream in latency} == {46 + 16}


@pytest.mark.parametrize(
    ("flows", "fields"),
    [
        (1, {}),
        (
            2,
            {
                "counters": [
                    {"offset": 26, "bytes": 4, "first": 0xC6120001, "last": 0xC6120002, "begin": 0, "down": False}
                ],
                "ipv4": [14],
            },
        ),
        (
            70_000,
            {
                "pairs": {
                    "first_address": "198.18.0.1",
                    "last_address": "198.18.255.254",
                    "first_port": 0xC020,
                    "last_port": 0xC021,
                    "flows": 70_000,
                    "address_at": 26,
                    "port_at": 34,
                },
                "ipv4": [14],
            },
        ),
    ],
)
def test_flows_are_field_ranges(flows: int, fields: dict[str, object]) -> None:
    assert streams(TrialSpec(Traffic(flows=flows), 100_000, 1.0, DIRECTIONS), PORTS)[0]["fields"] == fields


def frames_of_flows(made: list[dict[str, Any]], flows: int) -> list[int]:
    """How many frames each flow has, as the server counts the first counter of each stream round."""
    found = [0] * flows
    for one in made:
        (counter, *_) = one["fields"]["counters"]
        begin, values = counter["begin"], counter["last"] - counter["first"] + 1
        assert values == flows
        whole, rest = divmod(one["frames"], flows)
        for flow in range(flows):
            found[flow] += whole + ((flow - begin) % flows < rest)
    return found


@given(
    st.integers(10, 2_000_000),
    st.floats(0.1, 10),
    st.integers(2, 300),
    st.sampled_from(
        [
            Traffic(),
            Traffic(frame_size=IMIXES["simple"]),
            Traffic(vlan=7),
            Traffic(frame_size=128, vxlan=Vxlan()),
            Traffic(frame_size=101).over_ipv6(),
        ]
    ),
)
def test_no_flow_has_more_than_one_frame_more_than_another(
    load: int, duration: float, flows: int, traffic: Traffic
) -> None:
    """Latency frames, a tenth of all, are of every flow: one that is dropped weighs what its share is."""
    spec = TrialSpec(dataclasses.replace(traffic, flows=flows), load, duration, DIRECTIONS)
    if intended_frames(load, duration) < 1:
        return
    for index in (0, 1):
        made = [stream for stream in streams(spec, PORTS) if stream["sent"] == index]
        assert any(stream["latency"] for stream in made)
        found = frames_of_flows(made, flows)
        assert sum(found) == intended_frames(load, duration)
        assert max(found) - min(found) <= 1


def test_a_drop_flow_for_one_of_a_hundred_weighs_one_percent() -> None:
    made = streams(TrialSpec(Traffic(flows=100), 10_000, 2.0, DIRECTIONS[:1]), PORTS)
    assert [(stream["frames"], stream["latency"]) for stream in made] == [(18_000, False), (2000, True)]
    assert set(frames_of_flows(made, 100)) == {200}


def test_latency_frames_over_ipv6_keep_number_and_time() -> None:
    """What keeps the checksum of the others is where a latency frame has its number."""
    made = streams(TrialSpec(Traffic(frame_size=101, flows=7).over_ipv6(), 1000, 1.0, DIRECTIONS[:1]), PORTS)
    assert [len(stream["fields"]["counters"]) for stream in made] == [2, 1]


def test_the_child_begins_where_it_is_told() -> None:
    counter = {"offset": 26, "bytes": 4, "first": 10, "last": 19, "begin": 3}
    made = stream_of(
        FakeApi(),
        {
            "latency": True,
            "id": 7,
            "frame": "00" * 60,
            "fps": 1.0,
            "frames": 5,
            "start_after_us": 0,
            "fields": {"counters": [{**counter, "down": False}, {**counter, "down": True}], "ipv4": [14]},
        },
    )
    variables = [one for one in made["packet"]["vm"] if "init_value" in one]
    assert [(one["op"], one["init_value"]) for one in variables] == [("inc", 13), ("dec", 16)]


class FakeApi:
    """Keeps what the client library's classes are made with."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **given: list(args[0]) if args else given


IN_VXLAN6 = Vxlan(src_ip="2001:db8::1", dst_ip="2001:db8::2")


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(frame_size=99, flows=65_534).over_ipv6(),
        Traffic(frame_size=128, flows=16_384, vxlan=Vxlan()),
        Traffic(frame_size=135, flows=16_384, vlan=7, vxlan=Vxlan()).over_ipv6(),
        Traffic(frame_size=160, flows=50, vxlan=IN_VXLAN6).over_ipv6(),
    ],
    ids=lambda traffic: traffic.shape_label,
)
def test_what_the_server_counts_up_leaves_frames_right(traffic: Traffic) -> None:
    stream = streams(TrialSpec(traffic, 100_000, 1.0, DIRECTIONS, latency=False), PORTS)[1]
    last = traffic.flows - 1
    sent = [as_sent(stream, number) for number in (0, 1, last // 2, last)]
    assert [rebuilt(data) if traffic.ip_version == 6 else data for data in sent] == sent
    frames = [Ether(data) for data in sent]
    sources = [ipaddress.ip_address(ip_of(innermost(frame)).src) for frame in frames]
    first = ipaddress.ip_address(traffic.dst_ip)
    assert sources == [first, first + 1, first + last // 2, first + last]
    if traffic.vxlan:
        assert [frame[UDP].sport - 49152 for frame in frames] == [0, 1, last // 2, last]


def as_sent(stream: Mapping[str, Any], number: int) -> bytes:
    """What the server makes of the template for a frame; it works out the IPv4 checksum itself."""
    frame = bytearray.fromhex(stream["frame"])
    for counter in stream["fields"]["counters"]:
        value = counter["last"] - number if counter["down"] else counter["first"] + number
        frame[counter["offset"] : counter["offset"] + counter["bytes"]] = value.to_bytes(counter["bytes"], "big")
    return bytes(frame)


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (
            Traffic(frame_size=84, flows=65_535).over_ipv6(),
            "at most 65534 flows of IPv6 from these addresses, not 65535",
        ),
        (Traffic(frame_size=128, flows=20_000, vxlan=Vxlan()), "at most 16384 flows of VXLAN over IPv4 from these"),
        (Traffic(frame_size=128, flows=9, src_ip="10.0.255.250", dst_ip="10.1.0.1", vxlan=Vxlan()), "at most 5 flows"),
    ],
)
def test_more_flows_than_it_can_are_a_mistake_of_the_user(traffic: Traffic, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^TRex sends {message}.*: use fewer, or the embedded generator$"):
        streams(TrialSpec(traffic, 100_000, 1.0, DIRECTIONS), PORTS)


def test_beyond_the_line_rate_is_said_before_the_start() -> None:
    slow = {name: dataclasses.replace(port, speed_bps=10e9, virtual=True) for name, port in PORTS.items()}
    with pytest.raises(ConfigError, match=r"15.0 Mpps on port 'a' fill 10\.08 Gbit/s .* takes a virtual port for"):
        streams(TrialSpec(Traffic(), 15_000_000, 1.0, DIRECTIONS), slow)


def test_the_line_rate_itself_can_be_asked_for() -> None:
    slow = {name: dataclasses.replace(port, speed_bps=10e9) for name, port in PORTS.items()}
    assert streams(TrialSpec(Traffic(), int(Traffic().line_rate_fps(10e9)), 1.0, DIRECTIONS), slow)


def stream(**changes: object) -> dict[str, object]:
    return {"port": 0, "latency": False, "frame": "00" * 60, "fps": 1.0, **changes}


def test_too_many_streams_are_said_before_the_start() -> None:
    with pytest.raises(ConfigError, match="129 latency streams are more than the 128 of a TRex server"):
        check_streams([stream(latency=True)] * 129, PORTS.values())
    few = dataclasses.replace(PORTS["a"], counters=127)
    with pytest.raises(ConfigError, match="128 streams need a counter each, and this TRex has 127"):
        check_streams([stream()] * 128, [few])
    with pytest.raises(ConfigError, match="1024 streams need a counter each, and this TRex has 1023"):
        check_streams([stream()] * 1024, [PORTS["a"]])


def test_a_short_latency_frame_is_said_before_the_start() -> None:
    with pytest.raises(ConfigError, match=r"pads a latency frame of 63 bytes and never counts it: send at least 64"):
        check_streams([stream(latency=True, frame="00" * 59)], PORTS.values())


def test_a_port_that_is_no_number_is_a_mistake_of_the_user() -> None:
    with pytest.raises(ConfigError, match=r"port 'a' is reached by 'net_ring', but TRex knows its ports by number"):
        port_number(GeneratorPort("a", "net_ring", MACS[0]))
