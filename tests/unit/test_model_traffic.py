"""Traffic: sizes, rates and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.traffic import (
    IMIXES,
    MAX_FRAME_SIZE,
    MIN_FRAME_SIZE,
    RFC2544_FRAME_SIZES,
    Imix,
    Traffic,
    Vxlan,
    check_mtu,
)


@pytest.mark.parametrize("size", [63, 0, -64, 9217])
def test_frame_sizes_that_ethernet_does_not_have(size):
    asked = "write a whole number from 64 to 9216 bytes with FCS, or an IMIX such as IMIXES"
    with pytest.raises(ConfigError, match=rf"^Traffic\(\): frame_size is {size}: {asked}"):
        Traffic(frame_size=size)


@pytest.mark.parametrize("size", ["64", "rfc2544", 64.5, None, True])
def test_a_frame_size_that_is_no_number_of_bytes_is_refused_with_what_to_write(size):
    with pytest.raises(
        ConfigError,
        match=f"frame_size is {re.escape(repr(size))}: write a whole number from 64 to 9216 bytes with FCS, or an IMIX",
    ):
        Traffic(frame_size=size)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flows": 0}, r"^Traffic\(\): flows is 0: write a whole number from 1 to 16_777_216$"),
        ({"flows": (1 << 24) + 1}, r"^Traffic\(\): flows is 16777217: write a whole number from 1 to 16_777_216$"),
        ({"vlan": 0}, r"^Traffic\(\): vlan is 0: write a whole number from 1 to 4094, or None$"),
        ({"vlan": 4095}, r"^Traffic\(\): vlan is 4095: write a whole number from 1 to 4094, or None$"),
    ],
)
def test_what_else_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Traffic(**fields)


IPV6_TUNNEL = Vxlan(src_ip="2001:db8::1", dst_ip="2001:db8::2")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"frame_size": 64, "vxlan": Vxlan()},
            (
                "VXLAN over IPv4 needs at least 110 bytes (with FCS), and the traffic has frames of 64: Ethernet 14, "
                "IPv4, UDP, VXLAN and inner Ethernet 50, IPv4 and UDP 28, test payload 14, FCS 4"
            ),
        ),
        (
            {"frame_size": IMIXES["simple"], "vxlan": IPV6_TUNNEL, "vlan": 7},
            (
                "tagged VXLAN over IPv6 needs at least 134 bytes (with FCS), and the traffic has frames of 64: "
                "Ethernet 14, 802.1Q 4, IPv6, UDP, VXLAN and inner Ethernet 70, IPv4 and UDP 28, test payload 14, FCS 4"
            ),
        ),
        (
            {"frame_size": 79, "src_ip": "2001:2::1", "dst_ip": "2001:2::2"},
            (
                "IPv6 needs at least 80 bytes (with FCS), and the traffic has frames of 79: Ethernet 14, "
                "IPv6 and UDP 48, test payload 14, FCS 4"
            ),
        ),
        (
            {"dst_ip": "2001:2::2"},
            "src_ip 198.18.0.1 is IPv4, and dst_ip 2001:2::2 is IPv6: write two of one version",
        ),
        (
            {"src_ip": "198.18.0"},
            "Traffic(): src_ip is '198.18.0': write an IPv4 or IPv6 address, such as '198.18.0.1'",
        ),
    ],
)
def test_what_headers_do_not_go_into_a_frame_is_a_mistake_of_the_user(fields, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Traffic(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vni": 1 << 24}, r"^Vxlan\(\): vni is 16777216: write a whole number from 0 to 16_777_215$"),
        ({"src_ip": "2001:db8::1"}, r"^VXLAN: src_ip 2001:db8::1 is IPv6, and dst_ip 192\.0\.2\.2 is IPv4: write two"),
        (
            {"inner_src_mac": "2:1"},
            r"^Vxlan\(\): inner_src_mac is '2:1': write a MAC address, such as '02:00:00:00:00:01'$",
        ),
    ],
)
def test_what_a_vxlan_cannot_have(fields, message):
    with pytest.raises(ConfigError, match=message):
        Vxlan(**fields)


@pytest.mark.parametrize(
    ("traffic", "name", "label", "least"),
    [
        (Traffic(), "IPv4", None, 64),
        (Traffic(vlan=7), "tagged IPv4", None, 64),
        (Traffic(80).over_ipv6(), "IPv6", "ipv6", 80),
        (Traffic(110, vxlan=Vxlan()), "VXLAN over IPv4", "vxlan", 110),
        (Traffic(150, vxlan=Vxlan()).over_ipv6(), "VXLAN over IPv4 with IPv6 inside", "vxlan-ipv6", 130),
        (Traffic(150, vxlan=IPV6_TUNNEL), "VXLAN over IPv6", "vxlan6", 130),
        (Traffic(150, vxlan=IPV6_TUNNEL).over_ipv6(), "VXLAN over IPv6 with IPv6 inside", "vxlan6-ipv6", 150),
    ],
)
def test_headers_are_named_and_have_their_length(traffic, name, label, least):
    assert (traffic.headers_name, traffic.headers_label, traffic.least_frame_size) == (name, label, least)
    assert traffic.shape_label == "-".join(filter(None, (str(traffic.frame_size), label)))


def test_bad_mixes():
    with pytest.raises(ValueError, match=r"^IMIX 'x' has no frame sizes$"):
        Imix("x", ())
    with pytest.raises(ValueError, match=r"^IMIX 'x': weight of 64 must be at least 1, not 0$"):
        Imix("x", ((64, 0),))
    with pytest.raises(ValueError, match="frame size 63 is outside"):
        Imix("x", ((63, 1),))


def test_a_mix_is_shown_with_its_recipe():
    assert str(IMIXES["simple"]) == "imix-simple (7:4:1 of 64/594/1518, mean 361.8)"
    traffic = Traffic(frame_size=IMIXES["simple"])
    assert (traffic.frame_label, traffic.largest_frame_size) == ("imix-simple", 1518)
    assert traffic.mean_frame_size == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)


@pytest.mark.parametrize(
    ("size", "line_rate", "fps"), [(64, 10e9, 14_880_952.38), (1518, 10e9, 812_743.82), (64, 100e9, 148_809_523.8)]
)
def test_line_rate_is_the_field_s(size, line_rate, fps):
    """RFC 2544's well-known maxima: preamble, SFD and gap are counted."""
    assert Traffic(frame_size=size).line_rate_fps(line_rate) == pytest.approx(fps)


def test_bit_rates_are_layer_2_with_fcs():
    assert Traffic(frame_size=1500).bits_per_second(2.03e6) == pytest.approx(24.36e9)


@pytest.mark.parametrize("size", RFC2544_FRAME_SIZES)
def test_rfc2544_sizes_fit_a_standard_port(size):
    check_mtu(Traffic(frame_size=size), 1500)


@pytest.mark.parametrize(
    ("traffic", "mtu", "needed", "most"),
    [
        (Traffic(frame_size=1519), 1500, 1501, 1518),
        (Traffic(frame_size=9000), 1500, 8982, 1518),
        (Traffic(frame_size=1523, vlan=7), 1500, 1501, 1522),
        (Traffic(frame_size=Imix("x", ((64, 9), (2000, 1)))), 1500, 1982, 1518),
    ],
)
def test_frames_above_the_mtu(traffic, mtu, needed, most):
    with pytest.raises(
        ValueError, match=rf"needs an MTU of {needed}, but the port has {mtu}: send at most {most} bytes"
    ):
        check_mtu(traffic, mtu)


def test_a_tag_needs_no_mtu():
    check_mtu(Traffic(frame_size=1522, vlan=7), 1500)


SIZES = st.integers(MIN_FRAME_SIZE, MAX_FRAME_SIZE)


@given(SIZES, st.floats(1e6, 1e12))
def test_line_rate_never_exceeds_the_line(size, line_rate):
    traffic = Traffic(frame_size=size)
    assert traffic.bits_per_second(traffic.line_rate_fps(line_rate)) < line_rate


@given(st.lists(st.tuples(SIZES, st.integers(1, 100)), min_size=1, max_size=6))
def test_a_mix_lies_between_its_sizes(recipe):
    mix = Imix("any", tuple(recipe))
    sizes = [size for size, _ in recipe]
    assert min(sizes) - 1e-9 <= mix.mean_size <= max(sizes) + 1e-9
    assert Traffic(frame_size=mix).largest_frame_size == max(sizes)
