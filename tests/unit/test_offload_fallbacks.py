"""A pass with a silent fallback to software is a FAIL that names the flows, and says why they are not in hardware."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.ovs.offload import FlowCounter, explain, log_time, parse_flow, reasons_in
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.bounds import with_offload
from pytest_nfvperf.model.measure.hw_offload import (
    OFFLOAD_RULE,
    DatapathFlow,
    FlowPlace,
    OffloadedFrames,
    OffloadShare,
    fallback_text,
    offload_share,
    offloaded_frames,
    share_of_nodes,
)
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure
from tests.config_support import parse_sla

# As OVS 3.1 and 3.5 write them by dpctl/dump-flows -m --names.
_FIELDS = (
    "skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),recirc_id(0),dp_hash(0/0),"
    "in_port({port}),packet_type(ns=0,id=0),eth(src=02:4e:46:00:00:10/00:00:00:00:00:00,"
    "dst=02:4e:46:00:00:11/00:00:00:00:00:00),eth_type(0x0800),ipv4(src=198.18.0.1/0.0.0.0,dst=198.19.0.1/0.0.0.0,"
    "proto=17/0,tos=0/0,ttl=64/0,frag=no),udp(src=49184/0,dst=7/0), packets:{packets}, bytes:5940, used:0.1s"
)


def line(port="dpdk0", layer="dp:ovs", packets=99, ufid="0", used="0.1s"):
    fields = _FIELDS.format(port=port, packets=packets).replace("used:0.1s", f"used:{used}")
    end = "actions:dpdk1, dp-extra-info:miniflow_bits(5,1)"
    return f"ufid:{ufid * 8}-0000-0000-0000-000000000000, {fields}, {layer}, {end}"


HARDWARE = line(layer="offloaded:yes, dp:dpdk")
PARTIAL = line(layer="offloaded:partial, dp:ovs")
TC = line("eth0", layer="dp:tc")
SOFTWARE = line("dpdk1", packets=1486556)
SHORT = (
    "recirc_id(0),in_port(dpdk1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no), packets:1486556, bytes:5940, "
    "used:0.1s, actions:dpdk1"
)
_PATTERN = "transfer pattern eth type is 0x0800 has_vlan is 0 / ipv4 fragment_offset is 0x0 / end actions count / end"
LOG = f"""2026-11-21T07:21:51Z|00100|netdev_offload_dpdk(hw_offload6)|DBG|dpdk1: rte_flow creation failed: 16 (no room).
2026-11-21T07:21:51Z|00101|netdev_offload_dpdk(hw_offload6)|DBG|dpdk1: Failed flow:   flow create 1 {_PATTERN}
2026-11-21T07:21:51Z|00102|netdev_offload_dpdk(hw_offload6)|DBG|dpdk0: rte_flow 0x1   flow create 0 {_PATTERN}
2026-11-21T07:21:51Z|00103|bridge|WARN|something else"""
NEWER_LOG = (
    "2026-11-21T07:21:51Z|00100|netdev_offload_dpdk(hw_offload6)|DBG|dpdk1: rte_flow creation failed [16 (no (more) "
    f"room)]:   flow create 1 {_PATTERN}"
)
REFUSED = f"dpdk1: rte_flow creation failed: 16 (no room). Failed flow: flow create 1 {_PATTERN}"


def outcome(share, **labels):
    given = {"suite": "s", "test": "t", "topology": "phy2phy", "offload": "on", **labels}
    return with_offload(Outcome(tuple(given.items()), "fixed-load", 64.0, 2, trials=("trial-0002",)), share)


def check(*rules):
    return SlaCheck([*rules, OFFLOAD_RULE], MeasuredSubjects(), Recorder("run", [], VirtualClock()), lambda _: None)


def share(*lines, log=""):
    reasons = list(reasons_in(log))
    return offload_share(list(explain(map(parse_flow, lines), reasons)), reasons)


def failure(*args, rules=()):
    with pytest.raises(SlaFailure) as caught:
        check(*rules).check(outcome(*args))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (HARDWARE, FlowPlace.HARDWARE),
        (PARTIAL, FlowPlace.PARTIAL),
        (TC, FlowPlace.TC),
        (line("eth0", layer="offloaded:yes, dp:tc"), FlowPlace.HARDWARE),
        (SOFTWARE, FlowPlace.SOFTWARE),
        (SOFTWARE.replace(", dp:ovs", ""), FlowPlace.SOFTWARE),
    ],
)
def test_a_flow_is_where_ovs_says(text, place):
    assert parse_flow(text).place is place


def test_a_flow_is_shown_without_what_it_does_not_look_at():
    assert (parse_flow(SOFTWARE).text, parse_flow(SOFTWARE).packets) == (SHORT, 1486556)
    exact = SOFTWARE.replace("src=198.18.0.1/0.0.0.0", "src=10.0.0.0/255.0.0.0").replace("dst=7/0", "dst=7")
    assert "ipv4(src=10.0.0.0/255.0.0.0,frag=no),udp(dst=7), packets:" in parse_flow(exact).text


def test_all_in_hardware_passes():
    found = share(HARDWARE, HARDWARE)
    (verdict,) = check().check(outcome(found))
    assert verdict.judgement is Judgement.PASS
    assert verdict.confidence == "2 of 2 flows in hardware, 0 matched there only, 0 in software"
    assert fallback_text([found, None]) == ""


def test_one_flow_that_fell_back_fails_and_ovs_says_why():
    text = failure(share(HARDWARE, SOFTWARE, log=LOG))
    assert "FAIL     offloaded_flows >= 100 %" in text
    assert "rule: dut.ovs.hw_offload: true" in text
    assert "Hardware offload:\n  1 of 2 flows in hardware, 0 matched there only, 1 in software" in text
    assert f"not in hardware: {SHORT}\n    OVS says: {REFUSED}" in text
    assert "in hardware: recirc_id(0),in_port(dpdk0)" in text
    assert "something else" not in text


def test_newer_versions_write_cause_and_flow_in_one_line():
    (flow,) = share(SOFTWARE, log=NEWER_LOG).flows
    assert flow.reasons == (f"dpdk1: rte_flow creation failed [16 (no (more) room)]: flow create 1 {_PATTERN}",)


def test_a_line_about_other_addresses_is_not_about_this_flow():
    other = LOG.replace("eth type is", "eth src is 02:4e:46:00:00:77 type is")
    (flow,) = share(SOFTWARE, log=other).flows
    assert flow.reasons == ()
    exact = SOFTWARE.replace("02:4e:46:00:00:10/00:00:00:00:00:00", "02:4e:46:00:00:77")
    (flow,) = share(exact, log=other).flows
    assert "src is 02:4e:46:00:00:77" in flow.reasons[0]


def test_matched_in_hardware_only_is_no_pass():
    text = failure(share(HARDWARE, PARTIAL))
    assert "1 of 2 flows in hardware, 1 matched there only, 0 in software" in text
    assert "matched in hardware, acted on in software: recirc_id(0),in_port(dpdk0)" in text


@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        ("none", "the NIC or its driver refused them, or hw-tc-offload is off (ethtool -K)"),
        ("skip_hw", "tc_policy skip_hw keeps flows out of the NIC: write none, or skip_sw"),
        ("skip_sw", "tc_policy skip_sw should have refused these flows"),
    ],
)
def test_in_tc_is_neither_hardware_nor_software(policy, advice):
    found = replace(share(HARDWARE, TC), tc_policy=policy)
    assert (found.full, found.tc, found.software, found.ratio) == (1, 1, 0, 0.5)
    text = failure(found)
    assert "1 of 2 flows in hardware, 0 matched there only, 0 in software, 1 in tc, not in hardware" in text
    assert "in tc, not in hardware: recirc_id(0),in_port(eth0)" in text
    assert advice in text
    assert "OVS logs no reason" not in text


def test_without_a_word_in_the_log_it_says_where_to_look():
    assert "OVS logs no reason: the ports have no offload" in fallback_text([OffloadShare(0, 0, 1, ("a flow",))])


def test_no_flow_and_nobody_who_looked_never_pass():
    nothing = outcome(OffloadShare(0, 0, 0))
    assert nothing.figures == ()
    assert nothing.missing == {"offloaded_flows": "the datapath had no flow right after the measurement"}
    for each in (nothing, outcome(None)):
        with pytest.raises(SlaFailure) as caught:
            check().check(each)
        assert "INCONCLUSIVE" in str(caught.value)


def test_without_offload_nothing_is_asked():
    assert check().check(outcome(None, offload="off")) == ()


# Frames, beside flows: a NIC that forgets a flow, and counters that lie.


def frames(software=0, counted=1000, sent=1000, received=1000, trial="trial-0002"):
    return OffloadedFrames(trial, sent, received, software, counted)


def test_frames_in_software_fail_although_ovs_says_that_the_flows_are_in_hardware():
    text = failure(share(HARDWARE).with_frames([frames(), frames(software=300, trial="trial-0003")]))
    assert "FAIL     offloaded_frames >= 90 %   70 %" in text
    assert "PASS     offloaded_flows >= 100 %" in text
    assert "70 % of the frames stayed in hardware: trial-0003: 1,000 frames sent, 1,000 received, 300 handled" in text


@pytest.mark.parametrize(
    ("counted", "error"), [(1000, 0.0), (970, 0.0), (950, 0.01), (0, 0.96), (2000, 1.0), (None, None)]
)
def test_counters_must_lie_between_the_frames_received_and_those_sent(counted, error):
    found = frames(counted=counted, received=960)
    assert found.counter_error == (None if error is None else pytest.approx(error))


def test_counters_that_lie_fail():
    text = failure(share(HARDWARE).with_frames([frames(counted=2000)]))
    assert "FAIL     flow_counter_error <= 1 %  100 %" in text
    assert "the NIC's flow counters are wrong by 100 %: trial-0002: 1,000 frames sent" in text
    assert "the flows' counters say 2,000" in text


def test_what_nobody_counted_is_missing_and_not_zero():
    changes = {"flows.packets": 990, "flows.removed": 0, "pmd.packets_received": 7}
    assert offloaded_frames("t", 1000, 990, changes, alone=True) == OffloadedFrames("t", 1000, 990, 7, 990)
    removed = offloaded_frames("t", 1000, 990, changes | {"flows.removed": 1}, alone=True)
    assert (removed.counted, removed.counter_error) == (None, None)
    kernel = offloaded_frames("t", 1000, 990, {"flows.packets": 990}, alone=True)
    assert (kernel.software, kernel.in_hardware) == (None, None)
    assert offloaded_frames("t", 1000, 990, changes, alone=False) is None
    assert offloaded_frames("t", 1000, 990, {}, alone=True) is None


class Dumps:
    """A control socket with one dump of flows after another."""

    def __init__(self, *dumps):
        self.dumps = list(dumps)

    def call(self, command, *_):
        return f"flows: {len(self.dumps[0])}" if command == "dpctl/show" else "\n".join(self.dumps.pop(0))


def test_flows_that_come_and_go_are_counted_on():
    idle = line(ufid="1", packets=70, used="9.0s")
    counter = FlowCounter(
        Dumps(
            [line(packets=10), idle],
            [line(packets=15), line(ufid="2", packets=4)],  # the idle one was removed, and another came
            [line(packets=15)],
            [line(packets=1)] * 1001,
        )
    )
    first, second, third = (counter.read() for _ in range(3))
    assert second["flows.packets"] - first["flows.packets"] == 5 + 4
    assert (first["flows.removed"], second["flows.removed"], third["flows.removed"]) == (0, 0, 1)
    assert counter.read() == {}


# The flows that a user expects in hardware.

LISTED = """
schema: 1
rules:
  - where: {{offload: "on"}}
    require: {{offloaded_flows: {{limit: ">= 100 %", flows: {flows}}}}}
"""


def listed(*flows):
    return parse_sla(LISTED.format(flows=list(flows))).rules


def test_only_the_listed_flows_are_expected_in_hardware():
    found = share(HARDWARE, SOFTWARE)
    (verdict,) = check(*listed("in_port(dpdk0),ipv4(frag=no)")).check(outcome(found))
    assert (verdict.judgement, verdict.confidence) == (Judgement.PASS, "1 of 1 expected flows in hardware")
    assert verdict.requirement == "offloaded_flows >= 100 % of the flows in_port(dpdk0),ipv4(frag=no)"


def test_a_listed_flow_in_software_or_absent_fails_by_its_name():
    text = failure(share(HARDWARE, SOFTWARE), rules=listed("in_port(dpdk0)", "eth_type(0x0800)", "in_port(p9)"))
    assert "33.33 %" in text
    assert "1 of 3 expected flows in hardware; not in hardware: eth_type(0x0800); no" in " ".join(text.split())
    assert "such flow: in_port(p9)" in " ".join(text.split())


def test_too_many_flows_to_list_are_no_proof_that_one_is_absent():
    found = replace(share(HARDWARE), full=2000)
    text = failure(found, rules=listed("in_port(p9)"))
    assert "INCONCLUSIVE" in text
    assert "1999 flows of the datapath are not listed: in_port(p9) may be among them" in " ".join(text.split())


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{ndr: {limit: ">= 4 Mpps", flows: [a]}}', "ndr is not about single flows: leave 'flows' out"),
        ('{offloaded_flows: {limit: ">= 1 %", flows: []}}', "flows is []: write e.g. flows: ['in_port(dpdk0)"),
        ('{offloaded_flows: {limit: ">= 1 %", flows: ["in_port dpdk0"]}}', "flow 'in_port dpdk0' is no list of fields"),
    ],
)
def test_a_slip_in_the_list_is_answered(written, message):
    with pytest.raises(ConfigError, match=r"rules\[0\]\.require") as caught:
        parse_sla(f"schema: 1\nrules:\n  - require: {written}\n")
    assert message in str(caught.value)


TAP_LOG = """\
2026-11-28T06:32:06.173Z|00129|netdev_offload|INFO|dpdk1: No suitable flow API found.
2026-11-28T06:37:12.944Z|00011|netdev_offload_dpdk(hw_offload6)|DBG|Cannot find netdev for odp port 5
2026-11-28T06:37:12.944Z|00012|netdev_offload_dpdk(hw_offload6)|DBG|dpdk0: rte_flow 0x7f   flow create 0 / end"""


def test_a_reason_without_a_port_is_about_the_flow_of_the_next_line():
    assert list(reasons_in(TAP_LOG)) == [
        "dpdk1: No suitable flow API found.",
        "dpdk0: Cannot find netdev for odp port 5",
    ]


def test_reasons_of_flows_that_are_gone_are_left_out():
    assert list(reasons_in(TAP_LOG, "2026-11-28T06:32:06.174Z")) == ["dpdk0: Cannot find netdev for odp port 5"]


def test_the_time_is_written_as_ovs_writes_it():
    now = log_time()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", now)
    (kept,) = reasons_in(f"{now}|00011|netdev_offload|INFO|dpdk0: No suitable flow API found.", now)
    assert kept == "dpdk0: No suitable flow API found."


def test_a_line_about_no_flow_in_hardware_has_the_reason_for_each():
    silent = OffloadShare(0, 1, 0, flows=(DatapathFlow("in_port(vm1)", FlowPlace.PARTIAL),))
    told = replace(silent.flows[0], reasons=("an older one", "vm1: no"))
    assert silent.none_in_hardware() == (
        "0 of 1 flows offloaded, 1 partially; "
        "matched in hardware, acted on in software: in_port(vm1) (OVS logs no reason)"
    )
    assert "in_port(vm1) (OVS says: vm1: no)" in replace(silent, flows=(told,)).none_in_hardware()


def test_the_flows_of_all_nodes_count():
    node1 = OffloadShare(1, 0, 0, flows=(DatapathFlow("in_port(left)", FlowPlace.HARDWARE),), complaints=("up1: no",))
    node2 = OffloadShare(
        0, 0, 1, ("in_port(up2)",), ("up2: no",), flows=(DatapathFlow("in_port(up2)", FlowPlace.SOFTWARE),)
    )
    both = share_of_nodes({"node1": node1, "node2": node2})
    assert str(both) == "1 of 2 flows in hardware, 0 matched there only, 1 in software"
    assert [flow.text for flow in both.flows] == ["in_port(up2)", "in_port(left)"]
    assert both.examples == ("in_port(up2)",)
    assert both.complaints == ("node1: up1: no", "node2: up2: no")
    assert both.ratio == 0.5
