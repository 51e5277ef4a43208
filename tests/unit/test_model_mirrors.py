"""Mirrors as data: what they copy, how they are drawn, and the words in which a mistake is refused."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.ovs.rows import OFPP_NORMAL, flow_outputs
from pytest_nfvperf.adapters.report.topology_chart import nodes_of
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, mirror, monitor, namespace, path, vnf

WIRE = (endpoint("p0", "br0"), endpoint("p1", "br0"), monitor("m0", "br0"), path("p0", "p1"))
FLOW = MirrorMethod.FLOW

REFUSED = {
    "an output on another bridge": (
        (monitor("far", "br1"), mirror("all", "br0", "far")),
        "mirror 'all': its output 'far', which is on bridge 'br1', and a mirror sees 'br0' alone",
    ),
    "a selected port on another bridge": (
        (monitor("far", "br1"), mirror("all", "br0", "m0", select_src=("far",))),
        "mirror 'all': it selects 'far', which is on bridge 'br1', and a mirror sees 'br0' alone",
    ),
    "its own output": (
        (mirror("all", "br0", "m0", select_dst=("m0",)),),
        "mirror 'all': it selects frames of 'm0', its own output: it would copy its copies",
    ),
    "two mirrors to one output": (
        (mirror("one", "br0", "m0"), mirror("two", "br0", "m0", select_src=("p0",))),
        (
            "mirrors 'one' and 'two' both put copies on 'm0', where nobody could tell them apart: give each an output "
            "of its own, or make one mirror of both"
        ),
    ),
    "an unknown port": (
        (mirror("all", "br0", "m0", select_src=("p7",)),),
        "mirror 'all': it selects 'p7', which is no port of 'br0'; there are: p0, p1, m0",
    ),
    "an unknown output": (
        (mirror("all", "br0", "m7"),),
        "mirror 'all': its output 'm7', which is no port of 'br0'; there are: p0, p1, m0",
    ),
    "VLAN 4095": (
        (mirror("all", "br0", "m0", select_vlan=(7, 4095)),),
        "mirror 'all': it selects VLAN 4095, which is not in 1..4094 (0 for frames without one)",
    ),
    "output VLAN 4095": (
        (mirror("all", "br0", output_vlan=4095),),
        "mirror 'all': output VLAN 4095 is not in 1..4094",
    ),
    "no output": ((mirror("all", "br0"),), "mirror 'all': say either the output port or the output VLAN of its copies"),
    "two outputs": (
        (mirror("all", "br0", "m0", output_vlan=9),),
        "mirror 'all': say either the output port or the output VLAN of its copies",
    ),
    "nothing selected": (
        (Mirror("all", "br0", "m0"),),
        "mirror 'all': it selects nothing: say select_all, select_src, select_dst or select_vlan",
    ),
    "an output that frames cross to": (
        (mirror("all", "br0", "p1"),),
        (
            "mirror 'all': frames cross to or from 'p1', its output, which OVS keeps for copies: take a port that no "
            "path uses"
        ),
    ),
    "the same name": (
        (monitor("m1", "br0"), mirror("all", "br0", "m0"), mirror("all", "br0", "m1")),
        "mirror 'all' is used twice",
    ),
    "a short snaplen": (
        (mirror("all", "br0", "m0", snaplen=13),),
        "mirror 'all': snaplen 13 is not in 14..65535 bytes",
    ),
    "snaplen by flows": (
        (mirror("all", "br0", "m0", snaplen=64, by=FLOW),),
        "mirror 'all': a mirror by flows copies whole frames of ports to a port: VLANs and snaplen need one by OVSDB",
    ),
    "an unknown bridge": (
        ("br0", "br1", Mirror("all", "br7", "m0", select_all=True)),
        "mirror 'all': its bridge 'br7' is unknown; there are: br0, br1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str) -> None:
    parts, message = REFUSED[case]
    with pytest.raises(ValueError, match="topology 't'") as caught:
        compose("t", *parts, *WIRE)
    assert str(caught.value) == f"topology 't': {message}"


def test_no_flow_knows_where_a_learning_bridge_sends_a_frame() -> None:
    learning = (endpoint("p0", "br0"), monitor("m0", "br0"))
    with pytest.raises(ValueError, match="bridge 'br0' learns MAC addresses, so no flow knows where a frame leaves"):
        compose("t", *learning, mirror("to", "br0", "m0", select_dst=("p0",), by=FLOW))


@pytest.mark.parametrize(
    ("selected", "entry", "leaving", "vlan", "copied"),
    [
        ({}, "p0", "p1", 0, True),
        ({}, "p0", "m0", 0, False),
        ({}, "m0", "p0", 0, False),
        ({"select_src": ("p0",)}, "p0", "p1", 0, True),
        ({"select_src": ("p0",)}, "p1", "p0", 0, False),
        ({"select_dst": ("p0",)}, "p1", "p0", 0, True),
        ({"select_src": ("p0",), "select_dst": ("p0",)}, "p1", "p0", 0, True),
        ({"select_vlan": (7,)}, "p0", "p1", 7, True),
        ({"select_vlan": (7,)}, "p0", "p1", 0, False),
        ({"select_vlan": (0,)}, "p0", "p1", 0, True),
        ({"select_vlan": (7,), "select_src": ("p0",)}, "p1", "p0", 7, False),
    ],
)
def test_which_frames_are_copied(
    selected: dict[str, tuple[int, ...]], entry: str, leaving: str, vlan: int, copied: bool
) -> None:
    made = mirror("m", "br0", "m0", **selected)  # type: ignore[arg-type]
    assert made.copies(entry, leaving, vlan) is copied


def test_flows_of_a_mirror() -> None:
    numbers = {"p0": 1, "p1": 2, "m0": 3}
    crossed = compose("t", *WIRE, mirror("in", "br0", "m0", select_src=("p0",), by=FLOW))
    assert list(flow_outputs(crossed, "br0", numbers)) == [(1, (2, 3)), (2, (1,))]
    learning = compose("t", *WIRE[:3], mirror("in", "br0", "m0", select_src=("p0",), by=FLOW))
    assert list(flow_outputs(learning, "br0", numbers)) == [(1, (OFPP_NORMAL, 3)), (2, (OFPP_NORMAL,))]
    by_ovsdb = compose("t", *WIRE[:3], mirror("in", "br0", "m0"))
    assert list(flow_outputs(by_ovsdb, "br0", numbers)) == [], "OVS's own flow does it"


def test_mirrors_are_drawn() -> None:
    made = compose(
        "tap",
        *WIRE[:3],
        namespace("host", "br0"),
        vnf("v1", "br0"),
        mirror("some", "br0", "m0", select_src=("p0", "p1"), select_vlan=(7,), snaplen=64),
        mirror("all", "br0", "host-eth0", by=FLOW),
        mirror("far", "br0", output_vlan=99, select_dst=("p1",)),
        path("p0", "v1", "p1"),
    )
    assert topology_text(made).splitlines()[-4:] == [
        "     p0 <-> v1a, v1b <-> p1",
        "     mirror some -> m0: from p0, p1, in VLAN 7, first 64 bytes",
        "     mirror all -> host-eth0: every frame, by flows",
        "     mirror far -> VLAN 99: to p1",
    ]
    lines = {node.lines[0]: node.lines[2:] for node in nodes_of(made, {})}
    assert lines["m0"] == ("copies: from p0, p1,", "in VLAN 7, first 64", "bytes")
    assert lines["host"] == ("eth0", "copies: every frame,", "by flows")
