"""A pass with a silent fallback to software is a FAIL that names the flows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.ovs.rows import offload_share
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.measure.hw_offload import OFFLOAD_RULE, OffloadShare, fallback_text
from pytest_nfvperf.model.measure.observe import observations, unmeasured
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.session.sla_check import MeasuredSubjects, SlaCheck, SlaFailure

HARDWARE = (
    "in_port(2),eth(src=02:4e:46:00:00:10,dst=02:4e:46:00:00:11),eth_type(0x0800),ipv4(frag=no), packets:99, "
    "bytes:5940, used:0.1s, offloaded:yes, dp:tc, actions:3"
)
SOFTWARE = (
    "recirc_id(0),in_port(3),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no), packets:1486556, "
    "bytes:89193360, used:0.091s, actions:2"
)
LOG = """2026-11-21T07:21:51Z|00100|netdev_offload_dpdk|WARN|dpdk0: flow create failed: Operation not supported
2026-11-21T07:21:51Z|00101|bridge|WARN|something else"""


def outcome(share, **labels):
    given = {"suite": "s", "test": "t", "topology": "phy2phy", "offload": "on", **labels}
    return Outcome(tuple(given.items()), "fixed-load", 64.0, 2, trials=("trial-0002",), offload=share)


def check():
    return SlaCheck([OFFLOAD_RULE], MeasuredSubjects(), Recorder("run", [], VirtualClock()), lambda _: None)


def state(full=(), partial=(), none=()):
    return {"full": list(full), "partial": list(partial), "none": list(none)}


def test_all_in_hardware_passes():
    share = offload_share(state(full=[HARDWARE, HARDWARE]), "")
    (verdict,) = check().check(outcome(share))
    assert verdict.judgement is Judgement.PASS
    assert verdict.confidence == "2 of 2 flows in hardware, 0 matched there only, 0 in software"
    assert fallback_text([share, None]) == ""


@pytest.mark.parametrize("kind", ["none", "partial"])
def test_one_flow_that_fell_back_fails_and_is_named(kind):
    share = offload_share(state(full=[HARDWARE], **{kind: [SOFTWARE]}), LOG)
    with pytest.raises(SlaFailure) as caught:
        check().check(outcome(share))
    text = str(caught.value)
    assert "FAIL     offloaded_flows >= 100 %" in text
    assert "rule: dut.ovs.hw_offload: true" in text
    assert "Hardware offload fell back to software:\n  1 of 2 flows in hardware" in text
    assert f"not in hardware: {SOFTWARE}" in text
    assert "OVS says: 2026-11-21T07:21:51Z|00100|netdev_offload_dpdk|WARN|dpdk0: flow create failed" in text
    assert "something else" not in text


def test_without_a_word_in_the_log_it_says_where_to_look():
    assert "OVS logs no reason: the ports have no offload" in fallback_text([OffloadShare(0, 0, 1, (SOFTWARE,))])


def test_no_flow_and_nobody_who_looked_never_pass():
    nothing = outcome(OffloadShare(0, 0, 0))
    assert observations(nothing) == ()
    assert unmeasured(nothing) == {"offloaded_flows": "the datapath had no flow right after the measurement"}
    for each in (nothing, replace(nothing, offload=None)):
        with pytest.raises(SlaFailure) as caught:
            check().check(each)
        assert "INCONCLUSIVE" in str(caught.value)


def test_without_offload_nothing_is_asked():
    assert check().check(outcome(None, offload="off")) == ()
