"""Loss made on purpose on OVS with DPDK: the ledger names hop and reason, and every frame is accounted for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.measure.ledger import ledger_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, monitor, path, vnf
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.loss_rig import LossRig, loss_rig, losses
from tests.functional.ovs_support import needs_hugepages, needs_root, phy2phy, started

pytestmark = [needs_root, needs_hugepages]

CALM_FPS = 50_000


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "dpdk") as ovs, loss_rig(journal, ovs) as made:
        yield made


def test_without_loss_every_hop_has_the_same_count(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        ledger = live.ledger(CALM_FPS)
    assert (ledger.lost, ledger.lines, ledger.unexplained) == (0, (), 0)
    assert {hop.left for hop in ledger.paths[0].hops} == {ledger.offered}
    assert ledger.offered > 0
    assert len(ledger.paths[0].hops) == 5


def test_a_full_ring_because_the_dut_is_too_slow(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        ledger = live.ledger(60_000_000)
    refused = losses(ledger)["p0 generator", "refused"]
    assert refused > 0
    assert abs(ledger.unexplained) <= 0.001 * ledger.lost
    assert "DUT did not drain it" in ledger_text(ledger)


def test_a_full_ring_because_the_vnf_does_not_read(rig: LossRig) -> None:
    chain = compose("dead", endpoint("p0", "br0"), endpoint("p1", "br0"), vnf("v1", "br0"), path("p0", "v1", "p1"))
    with rig.deployment(chain, unread=("v1a", "v1b")) as live:
        ledger = live.ledger(CALM_FPS)
    dropped = losses(ledger)["v1a tx", "ovs_tx_failure_drops"]
    assert ledger.lost == ledger.offered
    assert ledger.lost - 1_024 <= dropped < ledger.lost, "all but what the ring holds"
    assert ledger.unexplained == ledger.lost - dropped
    (vnf_hop,) = [hop for hop in ledger.paths[0].hops if hop.unexplained]
    assert vnf_hop.name == "v1, v1b rx"


def test_a_drop_flow(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.add_flow(f"priority=200,ip,in_port={live.number('p0')},nw_src=0.0.0.1/0.0.0.1,actions=drop")
        ledger = live.ledger(CALM_FPS, traffic=Traffic(bidirectional=False, flows=2))
    assert 0 < ledger.lost < ledger.offered
    assert losses(ledger) == {("br0", "drop_action_of_pipeline"): ledger.lost}
    assert ledger.unexplained == 0
    assert "flow priority=200,in_port=p0,eth_type=0x800,ipv4_src=0.0.0.1/0.0.0.1 of br0" in ledger_text(ledger)


def test_copies_and_drops_are_told_apart(rig: LossRig) -> None:
    """Seen: half dropped by a flow, the others sent twice, and all that was lost "unexplained"."""
    with rig.deployment(phy2phy()) as live:
        live.add_flow(f"priority=200,ip,in_port={live.number('p0')},nw_src=0.0.0.1/0.0.0.1,actions=drop")
        p1 = live.number("p1")
        live.add_flow(f"priority=150,in_port={live.number('p0')},actions=output:{p1},output:{p1}")
        trial = live.trial(CALM_FPS, traffic=Traffic(bidirectional=False, flows=2))
    (counts,), ledger = trial.result.counts, trial.ledger
    assert ledger is not None
    assert counts.duplicated == counts.received > 0
    assert losses(ledger) == {("br0", "drop_action_of_pipeline"): ledger.lost}, ledger_text(ledger)
    assert (ledger.unexplained, ledger.foreign) == (0, 0), ledger_text(ledger)
    assert 0 < ledger.lost < ledger.offered
    assert trial.result.judgement.counts_hold, trial.result.invalid


def test_frames_that_come_back_to_their_sender_are_misdirected(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.add_flow(f"priority=200,in_port={live.number('p0')},actions=in_port")
        trial = live.trial(CALM_FPS)
    (counts,), ledger = trial.result.counts, trial.ledger
    assert ledger is not None
    assert (counts.received, counts.elsewhere) == (0, (("p0", counts.sent),))
    assert losses(ledger) == {("br0", "misdirected"): counts.sent}, ledger_text(ledger)
    assert trial.result.judgement.counts_hold, trial.result.invalid


def test_changed_content_is_counted_and_makes_no_trial_invalid(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        flow = f"priority=200,udp,in_port={live.number('p0')},nw_src=0.0.0.1/0.0.0.1"
        live.add_flow(f"{flow},actions=set_field:10.0.0.1->ip_dst,output:{live.number('p1')}")
        trial = live.trial(CALM_FPS, traffic=Traffic(bidirectional=False, flows=2))
    (counts,) = trial.result.counts
    assert counts.received == counts.sent
    assert abs(2 * (counts.corrupted or 0) - counts.sent) <= 1
    assert trial.result.judgement.counts_hold, trial.result.invalid


def test_a_full_connection_table_is_told_though_nothing_is_lost(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.rig.ovs.instance.ctl.call("dpctl/ct-set-maxconns", "10")
        try:
            live.add_flow(f"priority=200,udp,in_port={live.number('p0')},actions=ct(commit),output:{live.number('p1')}")
            ledger = live.ledger(CALM_FPS, 2.5, Traffic(bidirectional=False, flows=1000))
        finally:
            live.rig.ovs.instance.ctl.call("dpctl/ct-set-maxconns", "3000000")
    assert [(each.reason, each.frames > 0) for each in ledger.counted] == [("conntrack_full", True)]
    assert (ledger.lines, ledger.unexplained) == ((), 0), ledger_text(ledger)


def test_a_meter(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.ofctl("add-meter", "meter=7,pktps,bands=type=drop,rate=1000")
        live.add_flow(f"priority=200,in_port={live.number('p0')},actions=meter:7,output:{live.number('p1')}")
        ledger = live.ledger(CALM_FPS)
    assert set(losses(ledger)) == {("br0", "datapath_drop_meter")}
    assert ledger.lost > 0
    assert ledger.unexplained == 0
    assert "meter 7 of br0" in ledger_text(ledger)


def test_an_ingress_policer(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        (p0,) = [interface for interface, name in live.built.interface_names().items() if name == "p0"]
        live.vsctl("set", "Interface", p0, "ingress_policing_rate=8000", "ingress_policing_burst=800")  # kbit/s, kbit
        ledger = live.ledger(CALM_FPS)
    assert set(losses(ledger)) == {("p0 rx", "ovs_rx_qos_drops")}
    assert 0 < ledger.lost < ledger.offered
    assert (ledger.foreign, ledger.unexplained) == (0, 0), ledger_text(ledger)
    assert [hop.unexplained for hop in ledger.paths[0].hops] == [0] * 5, ledger_text(ledger)


def test_an_mtu_that_is_too_small(rig: LossRig) -> None:
    narrow = phy2phy()
    narrow = dataclasses.replace(narrow, ports=(narrow.ports[0], dataclasses.replace(narrow.ports[1], mtu=1000)))
    with rig.deployment(narrow) as live:
        ledger = live.ledger(CALM_FPS, traffic=Traffic(frame_size=1400, bidirectional=False))
    assert losses(ledger) == {("p1 tx", "ovs_tx_mtu_exceeded_drops"): ledger.offered}
    assert ledger.unexplained == 0


def test_a_vnf_that_drops_every_tenth_frame(rig: LossRig) -> None:
    chain = compose("chain", endpoint("p0", "br0"), endpoint("p1", "br0"), vnf("v1", "br0"), path("p0", "v1", "p1"))
    with rig.deployment(chain, drop_every=10) as live:
        ledger = live.ledger(CALM_FPS)
    assert losses(ledger) == {("v1", "dropped by the VNF"): ledger.lost}
    assert ledger.lost >= ledger.offered // 10 > 0
    assert ledger.unexplained == 0


def test_a_mirror_whose_output_is_not_read(rig: LossRig) -> None:
    mirrored = compose("m", endpoint("p0", "br0"), endpoint("p1", "br0"), monitor("m0", "br0"), path("p0", "p1"))
    with rig.deployment(mirrored, unread=("m0",)) as live:
        live.vsctl(
            *("--", "--id=@m", "get", "Port", "m0", "--", "--id=@i", "get", "Port", "p0"),
            *("--", "--id=@new", "create", "Mirror", "name=all", "select-src-port=@i", "output-port=@m"),
            *("--", "set", "Bridge", "br0", "mirrors=@new"),
        )
        live.forget_flows()
        ledger = live.ledger(CALM_FPS)
    assert (ledger.lost, ledger.lines, ledger.unexplained) == (0, (), 0), "the trial's own frames all came through"
    (copies,) = ledger.beside
    assert (copies.name, copies.entered, copies.unexplained) == ("m0 tx", ledger.offered, 0)
    (full,) = copies.losses
    assert full.reason == "ovs_tx_failure_drops"
    assert copies.left <= 1_024, "what the ring holds"
    assert full.frames == ledger.offered - copies.left


def test_an_upcall_storm(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.rig.ovs.instance.ctl.call("upcall/disable-megaflows")
        try:
            ledger = live.ledger(400_000, 0.5, Traffic(bidirectional=False, flows=200_000))
        finally:
            live.rig.ovs.instance.ctl.call("upcall/enable-megaflows")
    assert losses(ledger)["p0 generator", "refused"] > 1_000
    assert abs(ledger.unexplained) <= 0.001 * ledger.lost
    (storm,) = [note for note in ledger.notes if note.startswith("upcall storm: ")]
    assert "frames had no flow in the datapath" in storm
