"""Topologies for tests: any that can be built, for hypothesis, and one of each sort by name."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from pytest_nfvperf.features.routing.model import BgpPathPlan
from pytest_nfvperf.model.topology import compose as catalogue
from pytest_nfvperf.model.topology.compose import Part, compose
from pytest_nfvperf.model.topology.parts import (
    behind,
    endpoint,
    mirror,
    monitor,
    namespace,
    namespaces,
    patch,
    path,
    router,
    tunnel,
    veth,
    vnf,
)
from pytest_nfvperf.model.topology.ports import Offloads, Port, Vlan
from pytest_nfvperf.model.topology.topology import Topology

VLANS = st.none() | st.builds(Vlan, st.none() | st.integers(1, 4094), st.lists(st.integers(1, 4094)).map(tuple))
OFFLOADS = st.builds(Offloads, *[st.none() | st.booleans()] * 5)


@st.composite
def strings(draw: st.DrawFn) -> list[Part]:
    """Bridges in a row with any names, joined by patch and veth links, two endpoints and VNFs; and a path over all."""
    names = draw(st.permutations([f"br{n}" for n in range(draw(st.integers(1, 8)))]))
    links = [draw(st.sampled_from([patch, veth]))(*draw(st.permutations(pair))) for pair in pairwise(names)]
    at = sorted(draw(st.lists(st.sampled_from(range(len(names))), max_size=3)))
    vnfs = [vnf(f"v{n}", names[index]) for n, index in enumerate(at)]
    stops = [f"v{n}" for n in range(len(at))]
    return [*links, *vnfs, endpoint("p0", names[0]), endpoint("p1", names[-1]), path("p0", *stops, "p1")]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any sort of part, on a few bridges, with or without flows."""
    if draw(st.booleans()):
        return compose("string", *draw(strings()))
    bridges = [f"br{n}" for n in range(draw(st.integers(1, 4)))]
    on = st.sampled_from(bridges)
    spaces = [
        namespace(f"ns{n}", draw(on), f"198.18.0.{n + 1}/24", offloads=draw(OFFLOADS), vlan=draw(VLANS), mtu=1400)
        for n in range(draw(st.integers(0, 3)))
    ]
    parts: list[Part] = [*bridges, *spaces, *(patch(*pair) for pair in pairwise(bridges) if draw(st.booleans()))]
    parts += [endpoint("p0", draw(on), vlan=draw(VLANS), mtu=9000), monitor("m0", draw(on))][: draw(st.integers(0, 2))]
    if any(isinstance(part, Port) for part in parts) and draw(st.booleans()):
        addresses = draw(st.sampled_from([(), ("10.9.0.1/24",)]))
        parts += [behind("p0", "host", *addresses, vlan=draw(st.none() | st.just(7)))]
    if draw(st.booleans()):
        parts += [tunnel(draw(on), local="192.0.2.1", remote="192.0.2.2", key=draw(st.integers(0, 4095)))]
    if draw(st.booleans()):
        parts += [router("r", {name: f"10.{n}.0.254/24" for n, name in enumerate(bridges)}, mtu=1400)]
    made = compose("any", *parts)
    return replace(made, tunnels=tuple(replace(t, mtu=1400) for t in made.tunnels))


EXAMPLES = {
    "bgp": BgpPathPlan().topology(),
    "phy2phy": catalogue.phy2phy(),
    "pvvp": catalogue.pvvp(mtu=9000),
    "one way": catalogue.phy2phy(bidirectional=False),
    "chain-9": catalogue.bridge_chain(9, link="veth", ends="namespace"),
    "chain-64": catalogue.bridge_chain(64),
    "routed": compose(
        "routed",
        namespace("left", "brA", "10.1.0.1/24", gateway="10.1.0.254", offloads=Offloads(tso=False)),
        namespace("right", "brB", "10.2.0.1/24", gateway="10.2.0.254", vlan=Vlan(tag=7)),
        router("r", {"brA": "10.1.0.254/24", "brB": "10.2.0.254/24"}),
    ),
    "fan": compose("fan", namespaces(*(f"ns{n}" for n in range(200)), bridge="br0")),
    "node": compose(
        "node",
        endpoint("p0", "br-ex"),
        patch("br-ex", "br-int"),
        tunnel("br-int", local="10.0.0.1", remote="10.0.0.2", key=5),
        namespaces("pod1", "pod2", "pod3", bridge="br-int", mtu=1450),
    ),
    "mirror": compose(
        "mirror",
        endpoint("p0", "br0"),
        endpoint("p1", "br0", mtu=9000, vlan=Vlan(tag=5)),
        vnf("vnf1", "br0", mode="mac"),
        vnf("vnf2", "br0", mode="mac"),
        monitor("m0", "br0"),
        path("p0", "vnf1", "vnf2", "p1"),
        mirror("all", "br0", "m0"),
    ),
    "triangle": compose(
        "triangle",
        endpoint("p0", "brA"),
        endpoint("p1", "brC"),
        patch("brA", "brB"),
        veth("brB", "brC", mtu=9000),
        patch("brA", "brC", vlan=Vlan(tag=7)),
        vnf("fw", "brA", "brC"),
    ),
}
