"""Callgrind's output as stacks, where two versions differ, the tables, and the pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from pytest_nfvperf.features.profile.callgrind import stacks
from pytest_nfvperf.features.profile.costs import (
    UNNAMED,
    FunctionProfile,
    below,
    difference_lines,
    differences,
    profile_lines,
)
from pytest_nfvperf.features.profile.flame_graph import function_flame_graph

WRITTEN = """# callgrind format
version: 1
positions: line
events: Ir
summary: 999

ob=/prefix/sbin/ovs-vswitchd
fl=lib/dpif-netdev.c
fn=input.isra.0'process'run'main
12 30
+3 10
cfi=lib/hash.c
cfn=hash'input'process'run'main
calls=4 77
12 500

fl=lib/hash.c
fn=hash'input'process'run'main
77 500

fn=process'run'main
5 100
cfn=input.isra.0'process'run'main
calls=2 12
6 540

fn=timer'2'timer'run'main
9 1000

fn=0x0000000000123450'process'run'main
1 8
"""
ROOT = "process"


def test_costs_are_of_the_function_itself_and_stacks_begin_outside() -> None:
    found = below(stacks(WRITTEN.splitlines(keepends=True)), ROOT)
    assert found == (
        (("process",), 100),
        (("process", UNNAMED), 8),
        (("process", "input"), 40),
        (("process", "input", "hash"), 500),
    )


def test_recursions_are_levels_of_the_stack() -> None:
    every = dict(stacks(WRITTEN.splitlines()))
    assert every["main", "run", "timer", "timer"] == 1000


OLD = FunctionProfile("old", 100, ((("process",), 10_000), (("process", "gone"), 2_000), (("process", "same"), 5_000)))
NEW = FunctionProfile(
    "new",
    200,
    ((("process",), 20_000), (("process", "hash"), 30_000), (("process", "same"), 10_000), (("process", "a<b"), 80)),
)


def test_the_largest_difference_comes_first_and_small_ones_are_left_out() -> None:
    assert [(cost.name, cost.before, cost.after) for cost in differences(OLD, NEW)] == [
        ("hash", 0.0, 150.0),
        ("gone", 20.0, 0.0),
    ]


def test_the_table_says_what_differs() -> None:
    said = difference_lines(OLD, NEW, 1)
    assert said[0].startswith(
        "new against old: 300 instructions a packet in Open vSwitch's own code, before 170: +130 "
    )
    assert said[2] == "       0.0       150.0      +150.0  hash"
    assert said[3] == "1 more functions differ, by -20.0 instructions a packet together"
    assert difference_lines(OLD, OLD, 5)[-1] == "no function differs by 0.5 instructions a packet or more"


def test_one_version_has_a_table_of_its_own_and_stripped_programs_are_said() -> None:
    assert profile_lines(OLD, 1) == [
        "old: 170 instructions a packet in Open vSwitch's own code",
        "     100.0   58.8%  process",
    ]
    stripped = FunctionProfile("x", 1, (((UNNAMED,), 10),))
    assert profile_lines(stripped, 1)[-1].startswith("100% of the instructions of x are in functions without a name")


SVG = "{http://www.w3.org/2000/svg}"


def test_boxes_are_as_wide_as_now_and_coloured_by_what_they_cost_more() -> None:
    picture = ET.fromstring(function_flame_graph(NEW, OLD))
    boxes = {box.findtext(f"{SVG}title"): box.find(f"{SVG}rect") for box in picture.iter(f"{SVG}g")}
    whole = boxes["all: 300.4 instructions a packet, +130.4"]
    grown = boxes["hash: 150.0 instructions a packet, +150.0"]
    same = boxes["same: 50.0 instructions a packet, +0.0"]
    assert whole is not None
    assert grown is not None
    assert same is not None
    assert float(grown.attrib["width"]) == pytest.approx(float(whole.attrib["width"]) / 2, rel=0.01)
    assert grown.attrib["fill"] == "hsl(0 85% 60%)"
    assert same.attrib["fill"] == "hsl(0 0% 95%)"
    heading = picture.findtext(f"{SVG}text") or ""
    assert heading == "new: 300 instructions a packet; red: more than old (170), blue: less"


def test_one_version_has_a_picture_of_its_own() -> None:
    picture = function_flame_graph(OLD)
    assert "old: 170 instructions a packet<" in picture
    assert "same: 50.0 instructions a packet<" in picture
    assert "a&lt;b" in function_flame_graph(NEW)
