"""Connection tracking as parts of a topology: what becomes of it, and what is refused before anything is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.net.linux_bridge import refuse_impossible
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, deltas
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.compose import compose, node
from pytest_nfvperf.model.topology.connections import connection_rules, connections, dnat, load_balancer, snat
from pytest_nfvperf.model.topology.parts import endpoint, path, underlay
from pytest_nfvperf.model.topology.topology import Topology, node_topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress

WIRE = (endpoint("p0", "br0"), endpoint("p1", "br0"))
BETWEEN = {"client": "p0", "server": "p1"}
AFAR = connections("br0", client="q0", server="q1", zone=2)


def tracked(*parts: Any) -> Topology:
    return compose("tracked", *WIRE, path("p0", "p1"), *parts)


def flows(topology: Topology) -> list[str]:
    return [line for one in connection_rules(topology.connections) for line in one.flows]


def test_frames_are_looked_up_and_then_forwarded_as_without() -> None:
    found = flows(tracked(connections("br0", **BETWEEN, zone=7, server_ports=(80,), mark=3)))
    assert "table=0,in_port=p0,reg14=0/0x1,priority=39000,tcp6,tp_dst=80,actions=ct(zone=7,table=100)" in found
    assert "table=0,in_port=p1,reg14=0/0x1,priority=39000,udp,tp_src=80,actions=ct(zone=7,table=101)" in found
    done = "load:1->NXM_NX_REG14[0],resubmit(,0)"
    commit = f"ct(commit,zone=7,exec(set_field:0x3->ct_mark)),{done}"
    assert f"table=100,in_port=p0,ip,priority=10,ct_state=+trk+new,actions={commit}" in found
    assert f"table=101,in_port=p1,ip,priority=20,ct_state=+trk+est,ct_mark=0x3,actions={done}" in found
    assert not [line for line in found if "in_port=p1" in line and "commit" in line]


def test_two_zones_are_passed_backwards_by_the_answers() -> None:
    nat = snat("fd00::1-fd00::8", (1024, 65535)), dnat("fd00::99", 80)
    found = flows(tracked(connections("br0", **BETWEEN, zone=7, second_zone=8, nat=nat)))
    new = [line.partition("actions=")[2] for line in found if "+new,actions=ct" in line]
    assert new[0] == "ct(commit,zone=7,nat(dst=[fd00::99]:80)),ct(zone=8,nat,table=101)"
    assert new[1].startswith("ct(commit,zone=8,nat(src=[fd00::1]-[fd00::8]:1024-65535)),load")
    assert "table=0,in_port=p1,reg14=0/0x1,priority=39000,ipv6,actions=ct(zone=8,nat,table=102)" in found
    assert "table=102,in_port=p1,ipv6,priority=20,ct_state=+trk+est,actions=ct(zone=7,nat,table=103)" in found
    assert not [line for line in found if ",ip," in line]


def test_parts_have_tables_and_groups_of_their_own() -> None:
    more = endpoint("q0", "br0"), endpoint("q1", "br0"), path("q0", "q1")
    two = load_balancer("br0", **BETWEEN, port=80), load_balancer("br0", client="q0", server="q1", zone=2)
    found = flows(compose("two", *WIRE, path("p0", "p1"), *more, *two, *tracked().directions))
    assert [line.partition(",")[0] for line in found if "type=select" in line] == [
        "group_id=1313210368",
        "group_id=1313210369",
    ]
    assert {line.partition(",")[0] for line in found if "in_port=q" in line} == {"table=0", "table=105", "table=106"}
    assert "bucket=ct(commit,zone=1,table=104,nat(dst=198.19.0.4:80))" in found[0]


def test_they_are_drawn_and_stand_on_the_node_of_their_bridge() -> None:
    part = connections("br0", **BETWEEN, limit=5000, nat=dnat("10.0.0.1", 80), timeouts={"tcp_close": 1})
    drawn = topology_text(tracked(part))
    assert "connections from p0 to p1, zone 1: nat(dst=10.0.0.1:80), limit 5,000, tcp_close=1 s" in drawn
    far = node("n2", endpoint("q0", "br1"), endpoint("q1", "br1"), connections("br1", client="q0", server="q1"))
    made = compose("two", node("n1", *WIRE, part), far, underlay("br0", "br1"), *tracked().directions)
    assert [node_topology(made, name).connections for name in ("n1", "n2")] == [(part,), made.connections[1:]]


def test_what_there_is_may_become_less() -> None:
    before, after = (
        CounterSnapshot("ovs", 0, (("connections.zone7", n), ("n1.connections", n), ("pmd.connections_x", n)))
        for n in (5, 3)
    )
    assert [one.went_back for one in deltas(before, after)] == [False, False, True]


def test_the_dut_forgets_connections_before_each_trial_and_repeat() -> None:
    generator, happened = FakeGenerator(1e6, clock=VirtualClock()), list[str]()
    topology = tracked()
    generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
    context = Context(Recorder("r", [], generator.clock), Progress(), generator.clock)
    flush = partial(happened.append, "flush")
    runner = TrialRunner(generator, [], check_alive=lambda: None, context=context, flush=flush)
    spec = TrialSpec(Traffic(), 1000, 1.0, topology.directions)
    runner.run(spec)
    for anywhere in (True, False):
        runner.run_once(spec, begins=partial(happened.append, "begin"), anywhere=anywhere)
    assert happened == ["flush", "flush", "begin", "flush", "begin"]


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: connections("br0", **BETWEEN, zone=65536), r"zone is 65536: write a whole number from 0 to 65535"),
    (lambda: connections("br0", **BETWEEN, limit=0), r"limit is 0: write a whole number from 1 to"),
    (lambda: connections("br0", **BETWEEN, most_connections=0), r"most_connections is 0: write"),
    (lambda: connections("br0", **BETWEEN, timeouts={"tcp_closed": 1}), r"timeouts is .* keys: tcp_syn_sent, "),
    (lambda: connections("br0", **BETWEEN, zone=7, second_zone=7), "zone and second_zone are both 7: give two"),
    (lambda: snat("198.51.100.8-198.51.100.1"), "its last, 198.51.100.1, is before 198.51.100.8"),
    (lambda: snat("198.51.100.1-fd00::1"), "must be both IPv4 or both IPv6"),
    (lambda: snat("198.51.100.0/24"), "write an address, or '198.51.100.1-198.51.100.8'"),
    (lambda: dnat("10.0.0.1", (80, 79)), r"ports 80 to 79 are none: write \(79, 80\)"),
    (lambda: dnat("10.0.0.1", 0), "ports is 0: write"),
    (lambda: connections("br0", **BETWEEN, nat=(snat("10.0.0.1"), snat("10.0.0.2"))), "nat has src twice"),
    (lambda: connections("br0", **BETWEEN, nat=(snat("10.0.0.1"), dnat("10.0.0.2"))), "give a second_zone="),
    (
        lambda: connections("br0", **BETWEEN, nat=(snat("10.0.0.1"), dnat("fd00::2")), second_zone=2),
        "NAT is of IPv4 or of IPv6: its addresses are of both",
    ),
    (lambda: connections("br0", **BETWEEN, nat=dnat("10.0.0.1", 81), server_ports=(80,)), "leave out server_ports"),
    (lambda: load_balancer("br0", **BETWEEN, backends=0), "backends is 0: write a whole number from 1 to 256"),
    (lambda: load_balancer("br0", **BETWEEN, backends=("10.0.0.1", "10.0.0.1")), "1 to 256 different addresses"),
    (lambda: load_balancer("br0", **BETWEEN, backends=()), "different addresses, not none"),
    (lambda: load_balancer("br0", **BETWEEN, backends=("10.0.0.1", "10.0.0.3"), by="range"), "one after the other"),
    (lambda: load_balancer("br0", **BETWEEN, source=snat("10.0.0.1")), "give a second_zone="),
    (lambda: load_balancer("br0", **BETWEEN, source=dnat("10.0.0.1"), second_zone=2), r"source is snat\(\.\.\.\)"),
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_what_cannot_be_is_one_sentence(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([connections("br7", **BETWEEN)], "its bridge 'br7' is unknown; there are: br0"),
        ([connections("br0", client="p0", server="p7")], "'p7' is no port of 'br0'; there are: p0, p1"),
        ([connections("br0", client="p0", server="p0")], "client and server are one port"),
        ([connections("br0", **BETWEEN), connections("br0", **BETWEEN, zone=2)], "port 'p0' has two parts"),
        ([connections("br0", **BETWEEN, second_zone=2), AFAR], "zone 2 is used twice"),
        (
            [connections("br0", **BETWEEN, most_connections=5), replace(AFAR, most_connections=6)],
            "most_connections is 5, 6, and a datapath has one number",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_topology_is_refused_with_it(parts: list[Any], said: str) -> None:
    ends = endpoint("q0", "br0"), endpoint("q1", "br0")
    with pytest.raises(ArgumentError, match="topology 'wrong': ") as caught:
        compose("wrong", *WIRE, *ends, *tracked().directions, *parts)
    assert said in str(caught.value)


def test_a_linux_bridge_tracks_none() -> None:
    with pytest.raises(ConfigError, match="it has connections from p0 to p1, zone 1; take an OVS datapath"):
        refuse_impossible(tracked(connections("br0", **BETWEEN)))
