"""Rules of bridges that learn: what they become in OpenFlow, how they are drawn, and what cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.net.linux_bridge import refuse_impossible
from pytest_nfvperf.adapters.ovs.openflow import OpenFlow, pipeline, with_numbers, without_access_list
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.bridges import BridgeRules, rules
from pytest_nfvperf.model.topology.compose import compose, phy2phy
from pytest_nfvperf.model.topology.parts import endpoint, path, tunnel
from pytest_nfvperf.model.topology.topology import node_topology
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from pytest_nfvperf.model.traffic.trial import Direction

PORTS = {"tun1": 3, "tun2": 3}


def test_a_bridge_without_rules_has_no_tables():
    assert pipeline(vm_to_vm("vxlan"), "br-int1", PORTS) == []
    assert pipeline(phy2phy(), "br0", {}) == []


def test_an_access_list_drops_where_nobody_sends_and_lets_the_rest_on():
    made = vm_to_vm("none", acl=3)
    flows = pipeline(made, "br-int1", PORTS)
    assert flows[:2] == [f"table=0,priority=100,udp,nw_dst=100.64.0.{n},actions=drop" for n in (0, 1)]
    assert flows[3:] == [
        "table=0,priority=0,actions=goto_table:1",
        "table=1,priority=0,actions=goto_table:3",
        "table=3,priority=0,actions=NORMAL",
    ]
    assert without_access_list(flows).splitlines()[0].endswith("(3 rules of the access list)")
    assert pipeline(made, "br-phy1", PORTS) == []


def test_a_rule_that_reads_addresses_goes_ahead_of_the_rest():
    made = compose("read", endpoint("p0", "br0"), endpoint("p1", "br0"), rules("br0", acl=1, by_address=True))
    flows = pipeline(made, "br0", {})
    assert [flow.partition(",actions")[0] for flow in flows[1:4]] == [
        "table=0,priority=1,ip",
        "table=0,priority=1,ipv6",
        "table=0,priority=0",
    ]
    assert flows[1].endswith("move:NXM_OF_IP_DST[]->NXM_NX_REG2[],goto_table:1")
    assert "access list of 1 rule, reads both addresses" in topology_text(made)


def test_a_bridge_answers_for_an_endpoint_but_not_the_endpoint_itself():
    ends = endpoint("p0", "br0", mac="02:00:00:00:00:01"), endpoint("p1", "br0")
    flows = pipeline(compose("answers", *ends, rules("br0", answers="p0")), "br0", {"p0": 4})
    assert flows[0] == "table=0,priority=60,in_port=4,actions=goto_table:1"
    assert "set_field:02:00:00:00:00:01->arp_sha" in flows[1]
    assert flows[2] == "table=0,priority=55,icmp6,icmpv6_type=135,ipv6_src=::,actions=goto_table:1"
    assert flows[3].endswith("set_field:136->icmpv6_type,goto_table:5")
    assert flows[4].endswith("set_field:02:00:00:00:00:01->nd_tll,in_port")
    with pytest.raises(ValueError, match="bridge 'br0' answers for 'p7', which is no endpoint on it"):
        compose("wrong", *ends, rules("br0", answers="p7"))


def test_conntrack_commits_what_is_new():
    flows = pipeline(vm_to_vm("none", zone=7), "br-int2", PORTS)
    assert "table=1,priority=10,ip,actions=ct(zone=7,table=2)" in flows
    assert "table=2,priority=10,ct_state=+trk+new,ipv6,actions=ct(commit,zone=7),goto_table:3" in flows


def test_each_vni_is_sent_by_its_hash_and_taken_by_its_number():
    flows = pipeline(vm_to_vm("vxlan", key=10, vnis=2), "br-int1", PORTS)
    assert "table=3,priority=10,in_port=3,tun_id=11,actions=NORMAL" in flows
    assert "table=3,priority=5,in_port=3,actions=drop" in flows
    assert "table=4,priority=0,reg0=1,actions=set_field:11->tun_id,NORMAL" in flows
    assert "table=3,priority=0,actions=NORMAL" not in flows


def test_rules_stand_on_the_node_of_their_bridge_and_are_drawn():
    made = vm_to_vm("geneve", vnis=1000, acl=1000, zone=7)
    assert made.name == "vm-to-vm geneve 1000 VNIs access list of 1,000 rules, conntrack zone 7"
    assert node_topology(made, "node2").rules == (BridgeRules("br-int2", 1000, 7),)
    text = topology_text(made)
    assert "learns MAC addresses; access list of 1,000 rules, conntrack zone 7)" in text
    assert "geneve 42..1041 from 198.19.0.1" in text


ONE_WAY = Direction("p0", "p1")
LEARNS = (endpoint("p0", "br0"), endpoint("p1", "br0"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((*LEARNS, rules("br1")), "rules are for unknown bridge 'br1'"),
        ((*LEARNS, rules("br0", acl=1), rules("br0", zone=1)), "bridge 'br0' has rules twice: give acl and zone in"),
        ((*LEARNS, rules("br0", acl=-1)), "an access list has 0..4194304 rules, not -1"),
        ((*LEARNS, rules("br0", zone=65536)), "conntrack has no zone 65536: 0..65535"),
        ((*LEARNS, rules("br0", acl=1), path("p0", "p1")), "bridge 'br0' has a path, and rules or a tunnel of many"),
    ],
)
def test_rules_that_cannot_be(parts, message):
    with pytest.raises(ValueError, match="topology 't': ") as caught:
        compose("t", *parts)
    assert message in str(caught.value)


@pytest.mark.parametrize("keys", [0, 65537, 1 << 24])
def test_keys_that_cannot_be(keys):
    with pytest.raises(ValueError, match=r"has 1\.\.65536 keys of those that there are, not"):
        vm_to_vm("vxlan", vnis=keys)


def test_without_an_overlay_there_are_no_vnis():
    with pytest.raises(ValueError, match="without an overlay there are no VNIs, and 2 are asked for"):
        vm_to_vm("none", vnis=2)


def test_a_tunnel_of_many_keys_is_alone_on_its_bridge():
    one = tunnel("br0", local="10.9.0.1", remote="10.9.0.2", port="t1", keys=2)
    other = tunnel("br0", local="10.9.0.1", remote="10.9.0.3", port="t2")
    with pytest.raises(ValueError, match="bridge 'br0' has a tunnel of many keys, and another one"):
        compose("t", endpoint("p0", "br0", mtu=1400), endpoint("p1", "br0", mtu=1400), one, other)


def test_own_lines_stand_on_any_bridge_and_are_drawn():
    """On one with a path, too, where a port then need not be on the path."""
    text = """
        priority=200,in_port=p2,actions=p1   # a port that is on no path

        meter=1,pktps,bands=type=drop,rate=10
        group_id=2,type=all,bucket=output:p1
    """
    made = compose("own", *LEARNS, endpoint("p2", "br0"), path("p0", "p1"), ONE_WAY, rules("br0", flows=text))
    own = ("priority=200,in_port=p2,actions=p1", "meter=1,pktps,bands=type=drop,rate=10",
           "group_id=2,type=all,bucket=output:p1")  # fmt: skip
    assert made.rules == (BridgeRules("br0", flows=own),)
    assert [line.strip() for line in topology_text(made).splitlines()][-3:] == list(own)
    assert pipeline(made, "br0", {}) == []
    assert rules("br0", flows=list(own)) == made.rules[0]
    learns = compose("both", *LEARNS, rules("br0", acl=1, flows=own[0].replace("p2", "p0")))
    assert "access list of 1 rule)\n" in topology_text(learns)
    assert "priority=200,in_port=p0,actions=p1" in topology_text(learns)
    assert len(pipeline(learns, "br0", {})) == 4


def test_a_line_that_is_no_flow_is_refused():
    with pytest.raises(ConfigError, match=r"rules\('br0'\): 'priority=1,in_port=p0' has no 'actions='"):
        rules("br0", flows=["in_port=p1,actions=drop", "priority=1,in_port=p0"])


@pytest.mark.parametrize(
    ("line", "numbered"),
    [
        ("priority=9,in_port=p0,ip,actions=p1", "priority=9,in_port=1,ip,actions=2"),
        ("in_port=p0 actions=output:p1,a-long.name,drop", "in_port=1 actions=output:2,3,drop"),
        ("in_port=p0,actions=resubmit(p1,2),clone(output:p0)", "in_port=1,actions=resubmit(2,2),clone(output:1)"),
        ("actions=output(port=p0,max_len=64),local", "actions=output(port=1,max_len=64),local"),
        ("group_id=1,type=ff,bucket=watch_port:p1,actions=p1", "group_id=1,type=ff,bucket=watch_port:2,actions=2"),
        ("actions=bundle(eth_src,0,hrw,ofport,slaves:p0,p1)", "actions=bundle(eth_src,0,hrw,ofport,slaves:1,2)"),
        (
            "in_port=eth7,nw_dst=10.0.0.1,actions=set_field:5->reg0",
            "in_port=eth7,nw_dst=10.0.0.1,actions=set_field:5->reg0",
        ),
    ],
)
def test_ports_have_the_topologys_names(line, numbered):
    assert with_numbers(line, {"p0": 1, "p1": 2, "a-long.name": 3}) == numbered


OFCTL = """
import sys
from pathlib import Path

name, lines = sys.argv[3], sys.stdin.read().splitlines()
calls = Path(sys.argv[4].removeprefix("unix:")).with_name("calls")
first = not calls.exists()
calls.open("a").write(f"{name} {sys.argv[5:]} {lines}\\n")
for number, line in enumerate([*lines, *sys.argv[5:]], 1):
    if "wrong" in line:
        sys.exit(f"ovs-ofctl: -:{number}: unknown keyword wrong")
    if "reset" in line:
        sys.exit("ovs-ofctl: unix:br0.mgmt: failed to connect to socket (Connection refused)")
    if "closed" in line and (first or "always" in line):
        sys.exit("ovs-ofctl: connecting to unix:br0.mgmt (Broken pipe)")
    if "group:9" in line:
        sys.exit("Error OFPBAC_BAD_OUT_GROUP for: OFPT_FLOW_MOD")
"""


def openflow(directory: Path) -> OpenFlow:
    return OpenFlow([sys.executable, "-c", OFCTL], directory)


def test_own_lines_are_added_as_what_they_are_with_what_they_need_first(tmp_path):
    flows = [
        "in_port=p0,actions=meter:1,group:2",
        "group_id=2,type=all,bucket=output:p1",
        "meter=1,kbps,band=type=drop",
    ]
    openflow(tmp_path).add_own(rules("br0", flows=flows), {"p0": 4, "p1": 5})
    assert (tmp_path / "calls").read_text().splitlines() == [
        "add-meter ['meter=1,kbps,band=type=drop'] []",
        "add-groups ['--bundle', '-'] ['group_id=2,type=all,bucket=output:5']",
        "add-flows ['--bundle', '-'] ['in_port=4,actions=meter:1,group:2']",
    ]


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        (
            ["actions=drop", "wrong=1,actions=drop"],
            "refuses 'wrong=1,actions=drop': ovs-ofctl: -:2: unknown keyword wrong",
        ),
        (["actions=drop", "actions=group:9"], "refuses 'actions=drop; actions=group:9': Error OFPBAC_BAD_OUT_GROUP"),
        (["meter=1,wrong"], "ovs-ofctl add-meter br0 refuses 'meter=1,wrong': "),
    ],
)
def test_what_ovs_refuses_is_the_authors_mistake(tmp_path, flows, message):
    with pytest.raises(ConfigError) as caught:
        openflow(tmp_path).add_own(rules("br0", flows=flows), {})
    assert message in str(caught.value)


def test_an_ovs_that_does_not_answer_is_not(tmp_path):
    with pytest.raises(TestbedError, match="exited with status 1"):
        openflow(tmp_path).add_own(rules("br0", flows="reset,actions=drop"), {})


def test_ovs_ofctl_is_run_once_more_when_ovs_closes_its_connection(tmp_path):
    openflow(tmp_path).command("add-flows", "br0", "-", lines=["closed"])
    assert (tmp_path / "calls").read_text() == "add-flows ['-'] ['closed']\n" * 2
    with pytest.raises(TestbedError, match="exited with status 1"):
        openflow(tmp_path).command("add-flows", "br0", "-", lines=["closed always"])


def test_a_linux_bridge_has_no_openflow_rules():
    with pytest.raises(ConfigError, match="'br0' has OpenFlow rules, which only Open vSwitch has"):
        refuse_impossible(compose("t", *LEARNS, rules("br0", acl=1)))
