"""Flows, groups and meters of an author's on a real OVS: there after each build; what OVS refuses is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, patch, path
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.ovs_support import MACS, far_ends, frame, frames_on, needs_root, started

pytestmark = needs_root

LONG = "a-patch-port-with-a-long-name"
OWN = f"""
    priority=200,dl_type=0x88b5,in_port=p0,actions=meter:3,group:7,{LONG}
    group_id=7,type=all,bucket=output:p2      # nobody else sends there
    meter=3,kbps,bands=type=drop,rate=100000
"""


def edge(flows: str = OWN) -> Topology:
    """Two bridges; what comes in by p0 leaves by the long patch port, and a copy by p2."""
    return compose(
        "edge",
        *(endpoint(name, "br0", mac=mac) for name, mac in zip(("p0", "p2"), MACS, strict=True)),
        patch("br0", "br1", ports=(LONG, "back")),
        endpoint("p1", "br1"),
        path("p0", "p1"),
        Direction("p0", "p1"),
        rules("br0", flows=flows),
    )


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", "own") as running:
        yield running


@pytest.fixture
def built(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    made = ovs.build(edge())
    made.wait_ready(10)
    yield made
    made.close()


def holds_all(built: BuiltOvsTopology) -> bool:
    dumps = "".join(built.ovs("ofctl", f"dump-{what}", "br0") for what in ("flows", "groups", "meters"))
    flow = f"actions=meter:3,group:7,output:{built.ofports()[LONG]}"
    return all(part in dumps for part in (flow, "group_id=7,type=all", "meter=3 kbps", "priority=100"))


@pytest.mark.parametrize("killed", [False, True])
def test_they_are_there_after_the_build_and_after_a_restart(
    ovs: OvsDatapath, built: BuiltOvsTopology, killed: bool
) -> None:
    assert holds_all(built)
    ovs.restart(killed=killed)
    assert holds_all(built)


def test_frames_pass_them(built: BuiltOvsTopology) -> None:
    p0, p2, p1 = far_ends(built)
    sent = frame(MACS[1], MACS[0], b"own")
    with frames_on(p0) as sender, frames_on(p1) as receiver, frames_on(p2) as copies:
        sender.send(sent)
        assert receiver.recv(100) == sent
        assert copies.recv(100) == sent


@pytest.mark.parametrize(
    ("flows", "refused", "said"),
    [
        ("priority=1,actions=drop\nin_port=p0,foo=1,actions=drop", "'in_port=p0,foo=1,actions=drop'", "foo"),
        ("in_port=p0,actions=p7", "'in_port=p0,actions=p7'", "p7"),
        ("in_port=p0,actions=group:9", "", "OFPBAC_BAD_OUT_GROUP"),
        ("group_id=7,type=some,bucket=output:p0", "'group_id=7,type=some,bucket=output:p0'", "some"),
        ("meter=1,kbps,bands=type=lose,rate=1", "meter=1,kbps,bands=type=lose,rate=1", "lose"),
    ],
)
def test_a_line_that_ovs_refuses_is_the_authors_mistake(ovs: OvsDatapath, flows: str, refused: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ovs.build(edge(flows))
    assert refused in str(caught.value)
    assert said in str(caught.value)
    ovs.build(edge()).close()  # nothing of it is left


def test_programs_of_ovs_run_on_the_dut(built: BuiltOvsTopology) -> None:
    built.ovs("vsctl", "set", "bridge", "br0", "other_config:mac-aging-time=77")
    assert "77" in built.ovs("vsctl", "get", "bridge", "br0", "other_config:mac-aging-time")
    assert "br0" in built.ovs("appctl", "dpif/show")
    built.ovs("ofctl", "add-flow", "br0", f"priority=300,in_port={LONG},actions=p0")
    assert "priority=300" in built.ovs("ofctl", "dump-flows", "br0")
    for wrong in (("vsctl", "no-such-command"), ("appctl", "no/such"), ("ofctl", "add-flow", "br0", "x"), ("ofctl",)):
        with pytest.raises(ConfigError, match=wrong[-1]):
            built.ovs(*wrong)


def test_a_dead_ovs_is_no_mistake_of_the_authors(journal: Journal) -> None:
    with started(journal, "netdev", "dead") as running:
        made = running.build(edge())
        running.instance.vswitchd.popen.kill()  # type: ignore[attr-defined]
        running.instance.vswitchd.popen.wait()  # type: ignore[attr-defined]
        for call in (("appctl", "dpif/show"), ("ofctl", "dump-flows", "br0")):
            with pytest.raises(TestbedError, match="ovs-vswitchd"):
                made.ovs(*call)
