"""% of line rate needs a line rate: what an underlay carries of frames, in each overlay."""

from __future__ import annotations

import pytest

from pytest_nfvperf.model.topology.compose import compose, node, phy2phy
from pytest_nfvperf.model.topology.frame_route import line_rate_fps
from pytest_nfvperf.model.topology.parts import endpoint, tunnel, underlay
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction

TEN_GBPS = 10e9
SMALL = Traffic(frame_size=64)


@pytest.mark.parametrize(
    ("overlay", "ip", "longer"),
    [("none", 4, 4), ("vxlan", 4, 50), ("geneve", 4, 50), ("gre", 4, 42), ("vxlan", 6, 70), ("gre", 6, 62)],
)
@pytest.mark.parametrize("size", [64, 1518])
def test_a_frame_takes_its_encapsulation_and_20_bytes_of_the_line(overlay, ip, longer, size):
    made = vm_to_vm(overlay, ip=ip, line_rate_bps=TEN_GBPS)
    found = line_rate_fps(made, Traffic(frame_size=size), 1, None, None)
    assert found == pytest.approx(TEN_GBPS / 8 / (size + longer + 20))


def test_64_bytes_in_a_vlan_and_in_vxlan_on_10_gbps():
    rates = [line_rate_fps(vm_to_vm(one, line_rate_bps=TEN_GBPS), SMALL, 1, None, None) for one in ("none", "vxlan")]
    assert rates == pytest.approx([14_204_545, 9_328_358], abs=1)


def test_both_ways_have_the_whole_link_each():
    made = vm_to_vm("vxlan", bidirectional=True)
    one, both = (line_rate_fps(made, SMALL, number_of_directions, None, TEN_GBPS) for number_of_directions in (1, 2))
    assert one == both == pytest.approx(9_328_358, abs=1)


def test_directions_that_go_the_same_way_share_it():
    wire = underlay("phy1", "phy2", ports=("up1", "up2"), line_rate_bps=TEN_GBPS)
    ends = [node(f"node{n}", endpoint(f"a{n}", f"phy{n}"), endpoint(f"b{n}", f"phy{n}")) for n in (1, 2)]
    made = compose("two", *ends, wire, Direction("a1", "a2"), Direction("b1", "b2"))
    assert line_rate_fps(made, SMALL, 1, None, None) == pytest.approx(14_880_952, abs=1)
    assert line_rate_fps(made, SMALL, 2, None, None) == pytest.approx(7_440_476, abs=1)


def test_the_slowest_link_is_full_first_and_the_topologys_own_rate_counts_more_than_the_testbeds():
    made = vm_to_vm("none", line_rate_bps=TEN_GBPS)
    assert line_rate_fps(made, SMALL, 1, 1e9, None) == pytest.approx(1e9 / 8 / 84)
    assert line_rate_fps(made, SMALL, 1, 100e9, 1e9) == pytest.approx(TEN_GBPS / 8 / 88)


def test_links_without_a_line_rate_have_none():
    assert line_rate_fps(vm_to_vm("vxlan"), SMALL, 1, None, None) is None
    assert line_rate_fps(phy2phy(), SMALL, 2, None, TEN_GBPS) is None


@pytest.mark.parametrize("rate", [0, -1.0, float("inf"), float("nan")])
def test_what_is_no_line_rate(rate):
    with pytest.raises(ValueError, match=r"underlay 'up1' - 'up2': .* is no line rate: write bit/s, such as 10e9"):
        vm_to_vm("none", line_rate_bps=rate)


def test_a_frame_in_a_tunnel_on_an_access_port_has_its_tag_inside():
    ends = [
        node(
            f"node{n}",
            endpoint(f"p{n}", f"int{n}", vlan=Vlan(7), mtu=1400),
            tunnel(f"int{n}", local=f"10.9.0.{n}", remote=f"10.9.0.{3 - n}", key=5, port=f"tun{n}"),
            f"phy{n}",
        )
        for n in (1, 2)
    ]
    made = compose("tagged", *ends, underlay("phy1", "phy2", line_rate_bps=TEN_GBPS))
    assert line_rate_fps(made, SMALL, 1, None, None) == pytest.approx(TEN_GBPS / 8 / (64 + 4 + 50 + 20))
