"""Mirrors on a real OVS with DPDK: what is copied, what is counted, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.ovs.offload import read_share
from pytest_nfvperf.adapters.ovs.ovsdb import Ovsdb
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.hw_offload import FlowPlace
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.frame_route import copy_counts
from pytest_nfvperf.model.topology.parts import endpoint, mirror, monitor, path, vnf
from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import mirror_output
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.loss_rig import LiveLoss, LossRig, loss_rig
from tests.functional.ovs_support import needs_hugepages, needs_root, started

pytestmark = [needs_root, needs_hugepages]

FPS = 20_000
WIRE = (endpoint("p0", "br0"), endpoint("p1", "br0"), monitor("m0", "br0"))


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "dpdk") as ovs, loss_rig(journal, ovs) as made:
        yield made


def mirrored(*mirrors: Mirror, crossed: bool = True) -> Topology:
    return compose("m", *WIRE, *([path("p0", "p1")] if crossed else []), *mirrors)


def copies(result: TrialResult) -> int:
    return sum(seen.copies for seen in result.monitors)


def sent_without_loss(live: LiveLoss, traffic: Traffic | None = None) -> TrialResult:
    result = live.trial(FPS, traffic=traffic).result
    assert result.received == result.sent > 0, result.invalid  # skipped frames of a busy machine do not matter
    return result


def test_every_crossing_of_a_chain_is_copied(rig: LossRig) -> None:
    chain = compose("chain", *WIRE, vnf("v1", "br0"), vnf("v2", "br0"), path("p0", "v1", "v2", "p1"))
    with rig.deployment(replace(chain, mirrors=(mirror("all", "br0", "m0"),))) as live:
        result = sent_without_loss(live)
        assert copies(result) == 3 * result.sent
        assert "mirror all: select_all output_port=m0" in live.built.configuration()


@pytest.mark.parametrize("crossed", [True, False])
def test_a_mirror_by_flows_copies_as_one_by_ovsdb(rig: LossRig, crossed: bool) -> None:
    by_flows = mirror("all", "br0", "m0", by=MirrorMethod.FLOW)
    with rig.deployment(mirrored(by_flows, crossed=crossed)) as live:
        result = sent_without_loss(live)
        assert copies(result) == result.sent
        with pytest.raises(ValueError, match="mirrors by flows do not change while it is deployed: build it again"):
            live.built.set_mirrors(())


@pytest.mark.parametrize("by", MirrorMethod)
@pytest.mark.parametrize(("selected", "seen"), [({"select_src": ("p0",)}, 1), ({"select_src": ("p1",)}, 0)])
def test_selected_ports(rig: LossRig, by: MirrorMethod, selected: dict[str, tuple[str, ...]], seen: int) -> None:
    with rig.deployment(mirrored(mirror("some", "br0", "m0", by=by, **selected))) as live:  # type: ignore[arg-type]
        result = sent_without_loss(live)
        assert copies(result) == seen * result.sent


@pytest.mark.parametrize(("vlan", "seen"), [(7, 1), (8, 0)])
def test_selected_vlans(rig: LossRig, vlan: int, seen: int) -> None:
    with rig.deployment(mirrored(mirror("vlan", "br0", "m0", select_vlan=(7,)))) as live:
        result = sent_without_loss(live, Traffic(vlan=vlan, bidirectional=False))
        assert copies(result) == seen * result.sent


def test_copies_in_a_vlan_of_their_own(rig: LossRig) -> None:
    """Copies to a VLAN leave by the ports that carry it: m0 is a trunk, and sees the tag."""
    with rig.deployment(mirrored(mirror("rspan", "br0", output_vlan=99, select_src=("p0",)))) as live:
        result = live.trial(FPS).result
        assert copies(result) == result.sent


def test_snaplen_cuts_copies_alone(rig: LossRig) -> None:
    with rig.deployment(mirrored(mirror("short", "br0", "m0", snaplen=80))) as live:
        result = sent_without_loss(live, Traffic(frame_size=512, bidirectional=False))
        (seen,) = result.monitors
        assert (seen.received, seen.truncated, seen.corrupted) == (result.sent, result.sent, 0)
        assert seen.received_bytes == result.sent * 84


@pytest.mark.parametrize("kind", [PortKind.AF_PACKET, PortKind.AF_XDP])
def test_copies_to_sockets_of_the_host(rig: LossRig, kind: PortKind) -> None:
    """AF_XDP at both ends of a veth pair: OVS's own driver, or DPDK's, sends, and an AF_XDP socket receives."""
    output = mirror_output(kind)
    to_host = compose("host", *WIRE[:2], path("p0", "p1"), output, mirror("all", "br0", output.name))
    with rig.deployment(to_host) as live:
        device = live.built.attachments()[output.name]
        assert str(device).startswith(f"net_{kind},iface=")
        trial = live.trial(FPS)
    assert trial.result.received == trial.result.sent > 2_000
    assert copies(trial.result) == trial.result.sent
    assert trial.ledger is not None
    assert trial.ledger.branches[0].unexplained == 0


def test_mirrors_change_while_frames_have_flows(rig: LossRig) -> None:
    """OVS 3.1 would go on with the flows that it has."""
    with rig.deployment(mirrored()) as live:
        assert copies(sent_without_loss(live)) == 0
        live.built.set_mirrors([mirror("all", "br0", "m0")])
        result = sent_without_loss(live)
        assert copies(result) == result.sent
        live.built.set_mirrors([])
        assert copies(sent_without_loss(live)) == 0


def test_a_monitor_that_stops_reading_loses_copies_and_no_frame(rig: LossRig) -> None:
    """Where it happened and why is on a branch of its own: forwarded frames are not concerned."""
    silent = compose("m", *WIRE[:2], monitor("m0", "br0", unread=True), path("p0", "p1"), mirror("all", "br0", "m0"))
    with rig.deployment(silent) as live:
        trial = live.trial(FPS)
        assert trial.result.received == trial.result.sent > 2_000
        assert trial.ledger is not None
        (branch,) = trial.ledger.branches
        hop = next(hop for hop in branch.hops if hop.name == "m0 tx")
        (full,) = hop.losses
        assert (full.reason, hop.unexplained, trial.ledger.lost) == ("ovs_tx_failure_drops", 0, 0)
        moved = {delta.name: delta.delta for delta in trial.ledger.deltas}
        counted = copy_counts(silent, trial.result, moved)
        assert (counted.expected, counted.received) == (trial.result.sent, 0)
        assert counted.dropped == {"m0.tx_dropped": full.frames}
        assert counted.unexplained == hop.left <= 1_024, "what its ring holds"


def set_hw_offload(db: Ovsdb, enabled: str) -> None:
    db.refresh()
    db.transact(lambda _: db.root.setkey("other_config", "hw-offload", enabled), f"hw-offload={enabled}", 10.0)


def test_no_flow_of_a_virtual_port_is_offloaded(rig: LossRig) -> None:
    with rig.deployment(mirrored()) as live:
        set_hw_offload(rig.ovs.instance.db, "false")
        sent_without_loss(live)
        share = read_share(rig.ovs.instance)
        assert (share.full, share.partial, share.tc) == (0, 0, 0)
        assert share.software == len(share.flows) >= 1
        assert {flow.place for flow in share.flows} == {FlowPlace.SOFTWARE}
        assert "in_port(p0)" in " ".join(share.examples)
        assert live.built.not_offloaded() == "other_config:hw-offload is not true"


def test_offload_of_ports_that_cannot_is_told(rig: LossRig) -> None:
    db = rig.ovs.instance.db
    with rig.deployment(mirrored()) as live:
        set_hw_offload(db, "true")
        try:
            sent_without_loss(live)
            why = live.built.not_offloaded()
        finally:
            set_hw_offload(db, "false")
    assert why is not None
    assert why.startswith("hw-offload is on, but 0 of "), why
    assert "not in hardware: recirc_id(0),in_port(p0)" in why
    assert "(OVS says: p0: No suitable flow API found.)" in why
