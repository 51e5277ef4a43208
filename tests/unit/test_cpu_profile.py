"""perf's output as folded stacks, what a profile says of them, and the flame graph."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from pytest_nfvperf.adapters.profiling.perf_script import stacks
from pytest_nfvperf.adapters.report.flame_graph import flame_graph
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile, folded

TEXT = """ovs-vswitchd
        ffffffff81a1b2c3 copy_user+0x12
        ffffffff81a1b2d4 packet_rcv
            55d0c0ffee00 netdev_linux_rxq_recv

iperf3
            7f0000000000 [unknown]

ovs-vswitchd
        ffffffff81a1b2c4 copy_user
        ffffffff81a1b2d4 packet_rcv
            55d0c0ffee00 netdev_linux_rxq_recv

odd;name

"""
PROFILE = CpuProfile("cpu-clock", (0, 1), folded(stacks(TEXT)))
SVG = "{http://www.w3.org/2000/svg}"


def test_stacks_begin_with_the_process_and_end_with_what_ran() -> None:
    assert PROFILE.folded == (
        (("iperf3", "[unknown]"), 1),
        (("odd:name", "[unknown]"), 1),
        (("ovs-vswitchd", "netdev_linux_rxq_recv", "packet_rcv", "copy_user"), 2),
    )
    assert PROFILE.samples == 4
    assert "ovs-vswitchd;netdev_linux_rxq_recv;packet_rcv;copy_user 2\n" in PROFILE.text()


def test_the_functions_that_ran_most_come_first_and_missing_symbols_are_said() -> None:
    assert PROFILE.top(1) == (("ovs-vswitchd", "copy_user", 0.5),)
    told = PROFILE.summary()
    assert told.startswith("4 samples of cpu-clock on CPU 0, 1\n 50.0%  ovs-vswitchd: copy_user\n")
    assert "50.0% of the samples are in functions without a name: install the debug symbols" in told


def test_where_all_have_names_nothing_is_missing() -> None:
    assert "without a name" not in CpuProfile("cycles", (1,), ((("a", "b"), 3),)).summary()


def test_boxes_are_as_wide_as_their_share_and_stand_on_their_callers() -> None:
    picture = ET.fromstring(flame_graph(PROFILE, "pod1 -> pod2"))
    boxes = {box.findtext(f"{SVG}title"): box.find(f"{SVG}rect") for box in picture.iter(f"{SVG}g")}
    whole, half = boxes["all: 100.0%, 4 samples"], boxes["copy_user: 50.0%, 2 samples"]
    below = boxes["packet_rcv: 50.0%, 2 samples"]
    assert whole is not None
    assert half is not None
    assert below is not None
    assert float(half.attrib["width"]) == pytest.approx(float(whole.attrib["width"]) / 2, rel=0.01)
    assert float(half.attrib["y"]) < float(below.attrib["y"]) < float(whole.attrib["y"])


def test_names_are_escaped_and_an_empty_profile_is_a_picture() -> None:
    odd = CpuProfile("cycles", (0,), ((("a<b>", "operator&"), 1),))
    assert "a&lt;b&gt;" in flame_graph(odd, "x")
    empty = CpuProfile("cycles", (0,), ())
    ET.fromstring(flame_graph(empty, "<nothing>"))
    assert empty.unknown_share == 0.0
