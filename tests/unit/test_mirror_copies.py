"""Copies expected and received: every crossing counts, and whoever counted a loss is named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet

from pytest_nfvperf.adapters.report.figures import cell_of_metric
from pytest_nfvperf.adapters.report.subjects import median_text
from pytest_nfvperf.measure import mirror_cost
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.mirror_cost import MirrorCost, MirrorLoad, _lost_by_rig
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.measure.ledger import CounterDelta
from pytest_nfvperf.model.measure.outcome import Outcome, Reading
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import Samples
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.frame_route import CopyCounts, copy_counts
from pytest_nfvperf.model.topology.parts import endpoint, mirror, monitor, vnf
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import mirror_output, vm_chain
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, MonitorCounts, RigHealth, TrialSpec
from pytest_nfvperf.model.traffic.trial import VnfCounts as Vnf
from tests.outcomes import measured
from tests.sample_trials import counts_of

LOOP = Direction("p0", "p0")
FRAMES = st.integers(0, 10**12)


def result(sent: int, vnfs: tuple[int, ...], copies: int, vlan: int | None = None, output: str = "vm3") -> TrialResult:
    counts = counts_of(LOOP, sent=sent)
    seen = MonitorCounts(output, LOOP, "", copies, 0, 0, 0, 0, 0)
    return TrialResult(
        TrialSpec(Traffic(bidirectional=False, vlan=vlan), 1, 1.0, (LOOP,)),
        (counts,),
        RigHealth(),
        vnfs=tuple(Vnf(f"vm{n}", f"vm{n}", put, put, 0, 0) for n, put in enumerate(vnfs, 1)),
        monitors=(seen,) if copies else (),
    )


def chain(**selected: object) -> Topology:
    return vm_chain(2, mirror_output("virtual"), mirror("m", "br0", "vm3", **selected))  # type: ignore[arg-type]


@given(FRAMES, FRAMES, FRAMES, FRAMES, FRAMES)
def test_what_is_expected_is_received_dropped_or_unexplained(
    sent: int, first: int, second: int, copies: int, dropped: int
) -> None:
    found = copy_counts(chain(), result(sent, (first, second), copies), {"vm3.tx_dropped": dropped})
    assert found.expected == sent + first + second
    assert found.expected == found.received + sum(found.dropped.values()) + found.unexplained
    assert found.received == copies


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ({"select_src": ("p0",)}, 100),
        ({"select_src": ("vm1", "vm2")}, 90 + 80),
        ({"select_dst": ("vm1",)}, 100),
        ({"select_dst": ("vm2",)}, 90),
        ({"select_dst": ("p0",)}, 80),
        ({"select_vlan": (7,)}, 0),
        ({"select_vlan": (0,)}, 270),
    ],
)
def test_a_filter_expects_its_share(selected: dict[str, object], expected: int) -> None:
    assert copy_counts(chain(**selected), result(100, (90, 80), 0), {}).expected == expected


def test_frames_in_a_vlan() -> None:
    assert copy_counts(chain(select_vlan=(7,)), result(100, (90, 80), 0, vlan=7), {}).expected == 270


def test_vnfs_of_others_are_counted_where_their_frames_come_in() -> None:
    found = copy_counts(chain(), result(100, (), 250), {"vm1.rx_packets": 90, "vm2.rx_packets": 80})
    assert (found.expected, found.unexplained) == (270, 20)


def test_frames_that_a_policer_dropped_are_not_to_be_copied() -> None:
    found = copy_counts(chain(), result(100, (90, 80), 230), {"p0.ovs_rx_qos_drops": 40})
    assert (found.expected, found.unexplained) == (230, 0)


@pytest.mark.parametrize(
    ("received", "taken", "due"),
    [
        (60, 70, 70 + 90 + 80),  # 30 never came to the bridge, and 10 were lost behind it
        (95, 70, 95 + 90 + 80),  # the port's counter is late: only 5 are missing
        (60, 130, 100 + 90 + 80),  # the port counts frames of others too
    ],
)
def test_frames_lost_before_the_bridge_are_not_to_be_copied(received: int, taken: int, due: int) -> None:
    trial = result(100, (90, 80), 0)
    trial = replace(trial, counts=(replace(trial.counts[0], received=received),))
    assert copy_counts(chain(), trial, {"p0.rx_packets": taken}).expected == due


def test_a_tap_loses_copies_at_the_socket_behind_it() -> None:
    host = vm_chain(2, mirror_output("host"), mirror("m", "br0", "tap0"))
    found = copy_counts(
        host, result(100, (90, 80), 250, output="tap0"), {"tap0.far.socket_drops": 15, "tap0.tx_dropped": 5}
    )
    assert found.dropped == {"tap0.tx_dropped": 5, "tap0.far.socket_drops": 15}
    assert found.unexplained == 0


def packets(*layers: Packet, **more: Any) -> TrialResult:
    """The trial of ``result`` with a packet: 100 sent, 90 and 80 put by the VNFs."""
    packet = Ether()
    for each in (*layers, IP(), TCP()):
        packet /= each
    trial = result(100, (90, 80), 0)
    return replace(trial, spec=replace(trial.spec, traffic=Traffic(packet=packet, frame_size=128, **more)))


@pytest.mark.parametrize(
    ("layers", "copies"),
    [((Dot1Q(vlan=7),), 270), ((Dot1AD(vlan=7), Dot1Q(vlan=8)), 270), ((Dot1AD(vlan=8), Dot1Q(vlan=7)), 0), ((), 0)],
)
def test_a_packets_own_outermost_tag_is_its_vlan(layers: tuple[Packet, ...], copies: int) -> None:
    assert copy_counts(chain(select_vlan=(7,)), packets(*layers), {}).expected == copies


def test_vlans_of_a_tag_that_varies() -> None:
    trial = packets(Dot1Q(vlan=7), vary=[Vary("Dot1Q.vlan", count=3, step=2), Vary("IP.dst", count=5)])

    assert trial.spec.traffic.vlans == (7, 9, 11)
    assert copy_counts(chain(), trial, {}).expected == 270
    with pytest.raises(ValueError, match="frames are in 3 VLANs, and a mirror of 'vm-chain-2' selects by VLAN: send"):
        copy_counts(chain(select_vlan=(7,)), trial, {})


def test_a_way_that_nobody_knows_is_an_error() -> None:
    loose = compose(
        "loose",
        endpoint("p0", "br0"),
        endpoint("p1", "br0"),
        vnf("v1", "br0"),
        monitor("vm3", "br0"),
        mirror("m", "br0", "vm3"),
    )
    direction = Direction("p0", "p1")
    counts = replace(result(1, (), 0).counts[0], direction=direction)
    with pytest.raises(ValueError, match="topology 'loose' does not define the path of p0->p1"):
        copy_counts(loose, replace(result(1, (), 0), counts=(counts,)), {})


def test_an_output_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="output is 'cloud': write one of virtual, physical, host, af_packet, af_xdp"):
        mirror_output("cloud")


def test_a_load_is_a_share_or_a_rate() -> None:
    assert MirrorLoad(share=0.25).of(4e6) == 1e6
    assert MirrorLoad(fps=6e6).of(4e6) == 6e6
    with pytest.raises(ValueError, match="either a share of the forwarding rate or a rate in frames/s"):
        MirrorLoad()
    with pytest.raises(ValueError, match="share_of is 'pdr': write one of forwarding rate, ndr"):
        MirrorLoad(share=0.5, share_of="pdr")


def test_copies_of_nothing_are_no_copies() -> None:
    """A topology without a mirror: none of none is not all of them."""
    bare = copy_counts(vm_chain(2), result(100, (90, 80), 0), {})
    assert (bare.expected, bare.received) == (0, 0)
    assert "no mirror" in bare.missing
    assert not copy_counts(chain(), result(100, (90, 80), 270), {}).missing
    assert not copy_counts(chain(select_vlan=(7,)), result(100, (90, 80), 0), {}).missing, "nothing selected is a count"


def test_a_counter_that_is_missing_is_missing() -> None:
    found = copy_counts(chain(), result(100, (), 100), {"vm1.rx_packets": 90})
    assert found.uncounted == ("vm2.rx_packets",)
    assert "vm2.rx_packets" in found.missing


@pytest.mark.parametrize(("values", "figure"), [((1.0, 0.9937, 1.0), 0.9937), ((1.0, 1.002, 0.999), 1.002)])
def test_completeness_is_one_figure_everywhere(values: tuple[float, ...], figure: float) -> None:
    """The verdict's, the table's and the page's: the reading farthest from complete."""
    samples = Samples("mirror_completeness", "ratio", values, ("t1", "t2", "t3"))
    outcome = measured(Outcome((("case", "2a"),), "mirror-cost", 64.0, 1, samples=(samples,)))
    (seen,) = outcome.figures
    assert (seen.value, seen.low, seen.high, seen.confidence) == (figure, figure, figure, "worst of 3")
    assert cell_of_metric(outcome, "mirror_completeness") == f"{figure:.3%}"
    assert median_text(samples) == f"{figure:.3%} (worst)"


@pytest.mark.parametrize(
    ("copies", "gap_ms", "burst", "reasons"),
    [
        (269_000, 5.0, None, 1),
        (269_000, 1.0, None, 0),
        (269_000, 1.0, 390, 1),
        (269_000, 1.0, 300, 0),
        (269_000, 5.0, 390, 2),
        (270_000, 5.0, 390, 0),
        (269_000, None, None, 0),
    ],
)
def test_copies_that_a_monitor_did_not_read_in_time_are_the_rigs(
    copies: int, gap_ms: float | None, burst: int | None, reasons: int
) -> None:
    """Its ring holds 1024 of 270,000 copies in a second: 3.8 ms, or those of 379 frames."""
    seen = result(100_000, (90_000, 80_000), copies)
    gap_ns = None if gap_ms is None else int(gap_ms * 1e6)
    # Frames that wait for a DUT that takes none are late, and no burst.
    health = RigHealth(longest_poll_gap_ns=gap_ns, longest_lateness_ns=22_000_000, largest_burst=burst)
    found = _lost_by_rig(SimpleNamespace(topology=chain()), replace(seen, health=health), ())  # type: ignore[arg-type]
    assert len(found) == reasons
    assert all(one.code is Reason.LATE_POLL and "ring holds 1024" in one.detail for one in found)


@pytest.mark.parametrize(("copies", "said"), [(269_000, "138 copies found full the ring"), (270_000, "")])
def test_copies_that_found_the_generators_own_ring_full_are_the_rigs(copies: int, said: str) -> None:
    seen = replace(result(100_000, (90_000, 80_000), copies), health=RigHealth())
    output = next(mirror.output for mirror in chain().mirrors)
    drops = (CounterDelta(f"{output}.far.ring_drops", 138, went_back=False),)
    found = _lost_by_rig(SimpleNamespace(topology=chain()), seen, drops)  # type: ignore[arg-type]
    assert [one.code for one in found] == [Reason.LATE_POLL] * bool(said)
    assert all(said in one.detail and str(output) in one.detail for one in found)


def test_copies_at_the_set_load_are_counted_once_a_build_and_never_without_mirrors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps: three turns of a baseline, three of each of two builds with a mirror. Verify: counts, and metrics."""
    sent = SimpleNamespace(
        id="trial-1", result=SimpleNamespace(received_fps=4e6, counts=[SimpleNamespace(elapsed_ns=10**9)])
    )
    counted: list[object] = []
    monkeypatch.setattr(mirror_cost, "counted_trial", lambda live, *_: (counted.append(live), sent)[1])
    monkeypatch.setattr(mirror_cost, "copies_of", lambda *_: CopyCounts(100, 100, 100, 0, 0, {}))
    cost = MirrorCost(Traffic(), QUICK, lambda *_: Limits(None, None), MirrorLoad(share=0.1), lambda *_: 0.0)
    read = (sent, Reading({"forwarding_rate": 4e6}, "trial-1"))
    cost._forwarding = SimpleNamespace(turn_trial=lambda *_: read, load_fps=4e6)  # type: ignore[assignment]
    plain, mirrored = vm_chain(2), vm_chain(2, mirror_output("virtual"), mirror("m", "br0", "vm3"))
    builds = [SimpleNamespace(name=topology.name, topology=topology) for topology in (plain, mirrored, mirrored)]
    turns = [[cost.turn(build, None) for _ in range(3)] for build in builds]  # type: ignore[arg-type]
    assert counted == builds[1:]
    assert [set(reading.values) for reading in turns[0]] == [{"forwarding_rate"}] * 3
    for build in turns[1:]:
        assert ["mirror_completeness" in reading.values for reading in build] == [True, False, False]
        assert all("mirror_completeness_overloaded" in reading.values for reading in build)
