"""Events on a real OVS: it takes the change, frames pass, and ``undo`` leaves it as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pytest_nfvperf import events
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.nodes_datapath import NodesDatapath
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ArgumentError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose, node
from pytest_nfvperf.model.topology.parts import bond, endpoint, namespace, path, tunnel, underlay
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.ovs_support import (
    MACS,
    far_ends,
    frame,
    frames_on,
    live_on,
    needs_root,
    send_tcp,
    testbed,
    until,
)

pytestmark = needs_root

OWN = """
    cookie=0x7,priority=200,dl_type=0x88b5,in_port=p0,actions=meter:3,group:7
    group_id=7,type=all,bucket=output:p1
    meter=3,kbps,bands=type=drop,rate=100000
"""
ENDS = [endpoint(name, "br0", mac=mac) for name, mac in zip(("p0", "p1"), MACS, strict=True)]
EDGE = compose("edge", *ENDS, path("p0", "p1"), Direction("p0", "p1"), rules("br0", flows=OWN))


@pytest.fixture(scope="module")
def built(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    made = ovs.build(EDGE)
    made.wait_ready(10)
    yield made
    made.close()


def passes(built: BuiltOvsTopology, text: bytes) -> bool:
    first, second = far_ends(built)
    sent = frame(MACS[1], MACS[0], text)
    with frames_on(first) as sender, frames_on(second) as receiver:
        receiver.settimeout(0.3)
        sender.send(sent)
        try:
            return receiver.recv(100) == sent
        except TimeoutError:
            return False


def state(built: BuiltOvsTopology) -> str:
    """Its configuration without what counts up: port numbers of added ports stay, times and packets do not."""
    dumps = [built.ovs("ofctl", f"dump-{what}", "br0") for what in ("groups", "meters")]
    flows = built.ovs("ofctl", "dump-flows", "br0", "--no-stats")
    text = re.sub(
        r"(duration|n_packets|n_bytes|xid)=\w+[,)]?|hit:\d+ missed:\d+|pmd usage: .*", "", built.configuration()
    )
    return re.sub(
        r"\(xid=\w+\)|(hits|masks|lookups|flows|missed|lost|hit/pkt|cache)[: ][^\n]*",
        "",
        "\n".join([text, flows, *dumps]),
    )


CASES: list[tuple[Callable[[Any], Any], tuple[str, ...], str, str]] = [
    (
        partial(events.add_flows, flows=1000, bundle=True),
        ("ofctl", "dump-aggregate", "br0"),
        "flow_count=3\n",
        "flow_count=1003\n",
    ),
    (partial(events.add_flows, flows=20), ("ofctl", "dump-aggregate", "br0"), "flow_count=3\n", "flow_count=23\n"),
    (
        partial(events.change_rule, line="group_id=7,type=all,bucket=output:p1,bucket=output:p0"),
        ("ofctl", "dump-groups", "br0"),
        "actions=output:\\d+\n",
        "actions=output:\\d+,bucket=",
    ),
    (
        partial(events.change_rule, line="meter=3,kbps,bands=type=drop,rate=5000"),
        ("ofctl", "dump-meters", "br0"),
        "rate=100000\\b",
        "rate=5000\\b",
    ),
    (events.add_port, ("vsctl", "list-ports", "br0"), "^p0\np1\n$", "^nfv-added\np0\np1\n$"),
]


@pytest.mark.parametrize(("make", "asked", "before", "during"), CASES)
def test_a_change_and_back(
    ovs: OvsDatapath,
    built: BuiltOvsTopology,
    make: Callable[[Any], Any],
    asked: tuple[str, ...],
    before: str,
    during: str,
) -> None:
    earlier = state(built)
    event = make(live_on(ovs, built))
    assert re.search(before, built.ovs(*asked))
    assert state(built) == earlier
    for _ in range(2):  # an invalid trial is repeated
        event.act()
        assert re.search(during, built.ovs(*asked))
        assert passes(built, b"during")
        event.undo()
        event.undo()
        assert re.search(before, built.ovs(*asked))
        assert state(built) == earlier
    assert passes(built, b"after")


@pytest.mark.parametrize("bundle", [False, True])
def test_flows_are_replaced_by_themselves(ovs: OvsDatapath, built: BuiltOvsTopology, bundle: bool) -> None:
    event = events.replace_flows(live_on(ovs, built), bundle=bundle)
    earlier = state(built)
    assert until(lambda: min(ages(built)) > 0.3)
    event.act()
    assert max(ages(built)) < 0.3  # they are new flows
    assert state(built) == earlier
    assert passes(built, b"after")


def ages(built: BuiltOvsTopology) -> list[float]:
    """Of the bridge's flows, in s."""
    return [float(age) for age in re.findall(r"duration=([\d.]+)s", built.ovs("ofctl", "dump-flows", "br0"))]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (partial(events.change_rule, line="group_id=7,type=some,bucket=output:p0"), "some"),
        (partial(events.change_rule, line="group_id=7,type=all,bucket=output:p9"), "p9"),
        (partial(events.change_rule, line="meter=3,kbps,bands=type=lose,rate=1"), "lose"),
    ],
)
def test_what_ovs_refuses_is_refused_before_anything_is_measured(
    ovs: OvsDatapath, built: BuiltOvsTopology, make: Callable[[Any], Any], says: str
) -> None:
    earlier = state(built)
    with pytest.raises(ArgumentError, match=says):
        make(live_on(ovs, built))
    assert state(built) == earlier


def test_the_link_of_a_veth_pair(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    event = events.link_down(live_on(ovs, built), "p1")
    assert passes(built, b"before")
    event.act()
    assert not passes(built, b"during")
    event.undo()
    built.wait_ready(5)
    assert passes(built, b"after")


def test_a_datapath_without_polling_threads(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    for make in (events.change_pmd_cpus, events.rebalance_rxqs):
        with pytest.raises(UnavailableError, match="no polling threads"):
            make(live_on(ovs, built))


def tunnelled() -> Any:
    def one(number: int) -> Any:
        local, remote = (f"172.31.0.{end}" for end in (number, 3 - number))
        ends = namespace(f"pod{number}", f"int{number}", f"10.1.0.{number}/24", mtu=1400)
        between = tunnel(f"int{number}", local=local, remote=remote, kind="geneve", key=7, port=f"tun{number}")
        return node(f"node{number}", ends, between, f"phy{number}")

    return compose("tunnelled", one(1), one(2), underlay("phy1", "phy2", ports=("up1", "up2")))


def test_a_tunnel_that_is_cut_is_seen_by_bfd(journal: Journal) -> None:
    nodes = NodesDatapath.start(testbed("netdev"), journal, Dut("netdev", nodes=("node1", "node2")), name="bfd")
    try:
        built = nodes.build(tunnelled())
        built.wait_ready(5)
        states = [
            partial(built.node(f"node{number}").ovs, "vsctl", "get", "Interface", f"tun{number}", "bfd", "bfd_status")
            for number in (1, 2)
        ]
        pods = [built.netns(f"pod{number}") for number in (1, 2)]
        assert send_tcp(*pods, "10.1.0.2", b"before") == b"before"
        for _ in range(2):  # each trial has its own
            event = events.cut_tunnel(live_on(nodes, built), "tun2", every_ms=50)
            assert event.undo is not None
            event.act()
            assert all(until(lambda each=each: "state=down" in each(), 2) for each in states)
            with pytest.raises((TimeoutError, OSError)):
                send_tcp(*pods, "10.1.0.2", b"during", wait_s=0.3)
            event.undo()
            assert [each().splitlines()[0] for each in states] == ["{}", "{}"]
            assert send_tcp(*pods, "10.1.0.2", b"after") == b"after"
        with pytest.raises(UnavailableError, match="no tunnel between two nodes"):
            events.cut_tunnel(live_on(nodes, built), "pod1-eth0")
        built.close()
    finally:
        nodes.close()


BONDED = compose("bonded", endpoint("p0", "br0", mac=MACS[0]), bond("bond0", "br0", ("m0", "m1")), "br0")


def test_a_bond_goes_on_by_the_other_member(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    built.close()
    made = ovs.build(BONDED)
    made.wait_ready(5)
    try:
        assert "bond_mode: active-backup" in made.ovs("appctl", "bond/show", "bond0")
        first, *members = " ".join(str(device) for device in made.attachments().values()).split()
        ends = [end.partition("iface=")[2] for end in (first, *members)]

        def arrives() -> list[str]:
            """The members at which a frame from p0 arrives."""
            with frames_on(ends[0]) as sender, frames_on(ends[1]) as one, frames_on(ends[2]) as other:
                sent = frame(BONDED.port("bond0").mac, MACS[0], b"to the bond")
                sender.send(sent)
                return [name for name, end in (("m0", one), ("m1", other)) if came(end, sent)]

        used = arrives()
        assert used in (["m0"], ["m1"])
        event = events.link_down(live_on(ovs, made), "bond0")  # all of it: frames pass by none
        event.act()
        assert arrives() == []
        assert event.undo is not None
        event.undo()
        made.wait_ready(5)
        used = arrives()
        made.set_link(used[0], up=False)
        other = [{"m0": "m1", "m1": "m0"}[used[0]]]
        assert until(lambda: arrives() == other, 5)
        made.set_link(used[0], up=True)
        assert until(lambda: len(arrives()) == 1, 5)
    finally:
        made.close()


def came(end: Any, sent: bytes) -> bool:
    end.settimeout(0.2)
    try:
        return end.recv(100) == sent  # type: ignore[no-any-return]
    except TimeoutError:
        return False
