"""Topologies in pictures: nothing overlaps or is left out, and the page draws each one once."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from PIL import Image

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.page_parts import as_file, to_png
from pytest_nfvperf.adapters.report.topology_chart import FLOW, Box, DrawnLine, Layout, topology_chart
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology import compose as catalogue
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, namespace, nic
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology, all_ports
from tests.examples import examples
from tests.sample_run import SampleRun, small_run, write_sample
from tests.topologies import EXAMPLES, topologies

ROUNDING = 1e-6


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def svg_of(topology: Topology, **fields: object) -> str:
    kinds = {port.name: "vhost-user" for port in topology.ports}
    svg = topology_chart(TopologyData(topology, "dpdk", port_kinds=kinds, **fields), topology.name)
    assert svg
    return svg


def flows(topology: Topology) -> list[DrawnLine]:
    return [line for line in Layout(topology, {}).lines if line.kind == FLOW]


def edges(box: Box) -> tuple[float, float, float, float]:
    return (box.x - box.width / 2, box.y - box.height / 2, box.x + box.width / 2, box.y + box.height / 2)


def overlap(one: Box, other: Box) -> bool:
    a, b = edges(one), edges(other)
    apart_x = a[2] <= b[0] + ROUNDING or b[2] <= a[0] + ROUNDING
    apart_y = a[3] <= b[1] + ROUNDING or b[3] <= a[1] + ROUNDING
    return not (apart_x or apart_y)


def touches(box: Box, point: tuple[float, float]) -> bool:
    """On the edge of the box, give or take the hundredth of an inch by which a wire's mark is wide."""
    x0, y0, x1, y1 = edges(box)
    inside = x0 - 0.01 <= point[0] <= x1 + 0.01 and y0 - 0.01 <= point[1] <= y1 + 0.01
    on_edge = min(abs(point[0] - x0), abs(point[0] - x1), abs(point[1] - y0), abs(point[1] - y1)) < 0.01
    return inside and on_edge


def check(topology: Topology, layout: Layout) -> None:
    for one, other in combinations(layout.boxes, 2):
        assert not overlap(one, other), (one.lines, other.lines)
    for box in layout.boxes:
        x0, y0, x1, y1 = edges(box)
        assert 0 <= x0 <= x1 <= layout.width
        assert 0 <= y0 <= y1 <= layout.height
    wires = [line for line in layout.lines if line.kind != FLOW]
    for line in layout.lines:
        for end in (line.points[0], line.points[-1]):
            assert any(touches(box, end) for box in layout.boxes), line
    names = {box.lines[0] for box in layout.boxes}
    owners = {p.owner if p.role is PortRole.FORWARDER else p.name for p in topology.ports}
    tunnels = {tunnel.port for tunnel in topology.tunnels}
    behind = {one.namespace for one in topology.behind} - {nic.namespace for nic in topology.nics}
    assert names == {*topology.bridges, *owners, *(space.name for space in topology.namespaces), *tunnels} - behind
    assert len(wires) == len(all_ports(topology)) - len(topology.patches) - len(topology.veths)  # a link has two ends


@given(topologies())
def test_boxes_stand_apart_and_every_wire_ends_at_two_of_them(topology: Topology) -> None:
    check(topology, Layout(topology, {}))


@pytest.mark.parametrize("name", sorted({*EXAMPLES} - {"chain-64", "fan"}))
def test_examples(name: str) -> None:
    topology = EXAMPLES[name]
    check(topology, Layout(topology, {}))
    shown = texts(svg_of(topology))
    assert topology.name in shown
    assert {"DUT", "dpdk", "datapath"} <= set(shown)


@settings(max_examples=examples(10), deadline=None)
@given(topologies())
def test_any_topology_can_be_drawn_and_all_pictures_have_one_width_or_more(topology: Topology) -> None:
    svg = topology_chart(TopologyData(topology, "netdev"), "x")
    if Layout(topology, {}).width > 26:
        assert svg == "", "nobody could read it"
        return
    assert int(ET.fromstring(svg).get("width")) >= 998
    assert to_png(as_file([svg])).startswith(b"\x89PNG")


def test_what_a_reader_sees_of_a_routed_network() -> None:
    shown = texts(svg_of(EXAMPLES["routed"]))
    for text in (
        "r",
        "router",
        "eth1 10.2.0.254/24",
        "TSO off",
        "VLAN 7",
        "default route by 10.1.0.254",
        "learns MACs",
    ):
        assert text in shown
    assert "veth pair" in shown
    assert "OpenFlow flow" not in shown


def test_who_shares_the_generators_port_is_in_its_box() -> None:
    boxes = {box.lines[0]: " ".join(box.lines) for box in Layout(EXAMPLES["bgp"], {}).boxes}
    assert boxes["dpdk2"] == "dpdk2 generator behind it bird: eth0 12.12.12.2/30, VLAN 177"


@pytest.mark.parametrize("name", ["chain-64", "fan"])
def test_what_would_be_too_wide_to_read_is_not_drawn(name: str) -> None:
    assert topology_chart(TopologyData(EXAMPLES[name], "netdev"), name) == ""


def test_a_namespace_with_very_many_addresses() -> None:
    addresses = [f"10.0.0.{n}/24" for n in range(1, 40)]
    shown = texts(svg_of(compose("t", namespace("ns", "br0", *addresses), nic("ns", "br0", name="eth1"))))
    assert "… 35 more" in shown


def test_flows_are_drawn_once_for_both_ways() -> None:
    assert len(flows(catalogue.pvvp())) == 3
    assert len(flows(catalogue.bridge_chain(5))) == 5
    assert flows(EXAMPLES["node"]) == []


def test_the_paper_behind_a_name_follows_dark_mode() -> None:
    svg = svg_of(catalogue.phy2phy())
    assert "var(--paper, white)" in svg
    assert "currentColor" in svg


def test_a_png_is_on_white_paper_with_dark_letters() -> None:
    picture = Image.open(io.BytesIO(to_png(as_file([svg_of(catalogue.phy2phy())])))).convert("RGB")
    assert picture.getpixel((0, 0)) == (255, 255, 255)
    assert (27, 31, 39) in {colour for _, colour in picture.getcolors(1 << 24)}


def test_names_are_escaped() -> None:
    assert "&lt;b&gt;" in svg_of(compose("<b>", endpoint("p0", "br0")))


def test_the_page_draws_each_topology_once_and_links_it_with_its_tests(tmp_path) -> None:
    run = read_run(write_sample(tmp_path, small_run()))
    page = render_report(run, tmp_path / "out", pictures=True).read_text()
    deployed = [test for test in run.tests.values() if test.topologies]
    assert len(deployed) == 2
    section = page[page.index('<section id="topologies">') :].partition("</section>")[0]
    assert section.count("<svg") == 1
    assert "phy2phy · dpdk datapath" in section
    assert "p0 &lt;-&gt; p1" in section
    assert len(re.findall(r'<a href="#test-\d+">', section)) == 2
    assert page.count('Topology: <a href="#topology-1">phy2phy · dpdk datapath</a>') == 2
    assert [path.name for path in (tmp_path / "out/charts").glob("topology*.png")] == ["topology-1-phy2phy.png"]


def test_the_same_topology_on_two_datapaths_is_two_and_many_are_folded(tmp_path) -> None:
    sample = SampleRun()
    sample.build(("phy2phy",), (64,))
    sample.start_test("test_x.py::test_x", (("suite", "s"), ("topology", "t"), ("frame_size", "64")), "")
    plain = TopologyData(catalogue.phy2phy(), "netdev")
    for deployed in (plain, replace(plain, datapath="system"), replace(plain, dut=Dut("netdev", userspace_tso=True))):
        sample.add(deployed)
    sample.add(TopologyData(catalogue.pvp(), "netdev"))
    page = render_report(read_run(write_sample(tmp_path, sample.records)), tmp_path / "out").read_text()
    titles = re.findall(r'id="topology-\d+"( open)?>\s*<summary><b>([^<]*)</b>', page)
    assert titles == [
        ("", "phy2phy · dpdk datapath"),
        ("", "phy2phy · netdev datapath"),
        ("", "phy2phy · system datapath"),
        ("", "phy2phy · netdev datapath · userspace TSO"),
        ("", "pvp · netdev datapath"),
    ]
