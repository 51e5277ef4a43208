"""What the DUT's own counters say against a trial."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.adapters.net.interface_counters import LinkCollector, LinkReading, LinkWatch
from pytest_nfvperf.model.disturbance import validity as trial_validity
from pytest_nfvperf.model.disturbance.trial import OF_THE_LOAD, InvalidReason, Reason, TrialResult, load_too_high
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WitnessWindows
from pytest_nfvperf.model.errors import GeneratorError, TestbedError
from pytest_nfvperf.model.measure.ledger import HopKind, PathStage, frame_path, ledger_of
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, RigHealth, TrialSpec
from pytest_nfvperf.ports.datapath import LinkOutage
from tests.sample_trials import counts_of

DIRECTION = Direction("p0", "p1")
SPEC = TrialSpec(Traffic(64), 1_000_000, 1.0, (DIRECTION,))
MS = 1_000_000


def trial(lost: int, *, saturating: bool = False) -> TrialResult:
    """One million frames offered in a second, so many of them lost."""
    count = counts_of(DIRECTION, sent=1_000_000, received=1_000_000 - lost)
    return TrialResult(replace(SPEC, saturating=saturating), (count,), RigHealth())


COUNTS = trial(0).counts[0]


def of_counts(counts: DirectionCounts) -> TrialResult:
    return replace(trial(0), counts=(counts,))


def changed(**counters: int) -> dict[str, int]:
    return {f"pmd-sched.{name}": delta for name, delta in counters.items()}


def reasons_of(result: TrialResult, moved: dict[str, int]) -> tuple[InvalidReason, ...]:
    return trial_validity.testbed_reasons(result, moved, {})


def test_loss_that_fits_into_the_time_off_the_cpu_is_the_hosts() -> None:
    (reason,) = reasons_of(trial(3000), changed(kept_off_ns=2 * MS))

    assert reason.code is Reason.DUT_CPU_STOLEN
    assert reason.detail == (
        "the host kept PMD threads off their CPU for 2.00 ms, which explains up to 3000 lost frames; 3000 were lost"
    )


@pytest.mark.parametrize(("lost", "kept_off_ns"), [(3001, 2 * MS), (0, 2 * MS), (30, 99_999)])
def test_more_loss_or_none_or_next_to_no_time_off_the_cpu_is_the_duts(lost: int, kept_off_ns: int) -> None:
    assert reasons_of(trial(lost), changed(kept_off_ns=kept_off_ns)) == ()


def test_the_least_time_off_the_cpu_that_counts() -> None:
    (reason,) = reasons_of(trial(30), changed(kept_off_ns=100_000))
    assert reason.code is Reason.DUT_CPU_STOLEN


def test_what_the_duts_own_main_thread_took_does_not_count() -> None:
    assert reasons_of(trial(3000), changed(kept_off_ns=500 * MS, beside_run_ns=500 * MS)) == ()
    assert reasons_of(trial(3000), changed(kept_off_ns=5 * MS, beside_run_ns=9 * MS)) == ()
    (reason,) = reasons_of(trial(3000), changed(kept_off_ns=502 * MS, beside_run_ns=500 * MS))
    assert "kept PMD threads off their CPU for 2.00 ms" in reason.detail


def test_a_saturating_trial_may_not_lack_a_hundredth_of_its_cpu() -> None:
    result = trial(400_000, saturating=True)
    assert reasons_of(result, changed(kept_off_ns=10 * MS)) == ()
    (reason,) = reasons_of(result, changed(kept_off_ns=11 * MS))
    assert reason.detail == (
        "the host kept PMD threads off their CPU for 11.00 ms, above 1% of the trial, so its rate is too low"
    )


@pytest.mark.parametrize(
    ("lost", "saturating", "throttled_ns"), [(3000, False, 2 * MS), (1, False, 100_000), (400_000, True, 11 * MS)]
)
def test_a_quota_that_kept_the_dut_off_its_cpus(lost: int, saturating: bool, throttled_ns: int) -> None:
    result = trial(lost, saturating=saturating)
    (reason,) = reasons_of(result, changed(throttled_ns=throttled_ns))
    assert (reason.code, "quota" in reason.detail) == (Reason.DUT_CPU_STOLEN, True)


@pytest.mark.parametrize(
    ("lost", "saturating", "throttled_ns"),
    [(3001, False, 2 * MS), (0, False, 500 * MS), (1, False, 99_999), (400_000, True, 9 * MS)],
)
def test_a_quota_that_explains_too_little_or_harmed_nothing(lost: int, saturating: bool, throttled_ns: int) -> None:
    assert reasons_of(trial(lost, saturating=saturating), changed(throttled_ns=throttled_ns)) == ()


def test_one_frame_that_the_generator_did_not_read_is_its_own_loss() -> None:
    changes = {f"{DIRECTION.rx}.far.ring_drops": 1}
    assert [one.code for one in reasons_of(trial(1), changes)] == [Reason.TESTER_DROPS]


def test_a_counter_that_fell_and_a_link_that_was_lost() -> None:
    fell, down = trial_validity.testbed_reasons(trial(0), {"p1.link_losses": 2}, {"p0.rx_packets": 7})
    assert (fell.code, fell.detail) == (Reason.COUNTER_WENT_BACK, "p0.rx_packets fell by 7")
    assert (down.code, down.detail) == (Reason.LINK_DOWN, "p1 lost its link 2x meanwhile")


@pytest.mark.parametrize("counter", ["socket_drops", "ring_drops", "xdp_drops"])
def test_frames_that_the_generator_did_not_read_are_its_own_loss(counter: str) -> None:
    others = {f"{DIRECTION.tx}.far.{counter}": 9}
    changes = {f"{DIRECTION.rx}.far.{counter}": 7} | others
    (reason,) = reasons_of(trial(8), changes)
    assert reason.code is Reason.TESTER_DROPS
    assert reason.detail == (
        f"{DIRECTION}: the generator did not read its socket on {DIRECTION.rx} in time ({counter} 7), 8 frames are "
        "missing: send less, or give the generator CPUs of its own"
    )
    assert reasons_of(trial(0), changes) == (), "they were others' frames"
    assert reasons_of(trial(8), others) == ()


@pytest.mark.parametrize(
    ("lost_s", "restored_s", "expected"),
    [
        (10.8, 12.8, "the DUT's port p0 (dpdk0) lost its link 0.8 s after the trial began, for 2.0 s"),
        (10.8, None, "the DUT's port p0 (dpdk0) lost its link 0.8 s after the trial began, and has none yet"),
        (4.0, 10.5, "the DUT's port p0 (dpdk0) had no link as the trial began, for 6.5 s"),
        (4.0, None, "the DUT's port p0 (dpdk0) had no link as the trial began, and has none yet"),
    ],
)
def test_a_port_without_link_says_when_and_how_long(lost_s: float, restored_s: float | None, expected: str) -> None:
    restored_ns = None if restored_s is None else round(restored_s * 1e9)
    outage = LinkOutage("p0", "dpdk0", round(lost_s * 1e9), restored_ns)
    reason = outage.reason("the DUT's", 10_000_000_000)
    assert (reason.code, reason.detail) == (Reason.LINK_DOWN, expected)


class Links:
    """Links that a test sets; each look takes those of the moment."""

    def __init__(self) -> None:
        self.now = {("p0", "dpdk0"): LinkReading(up=True), ("p1", "ens1"): LinkReading(up=True, losses=3)}

    def set(self, port: str, device: str, up: bool, losses: int | None = None) -> None:
        self.now = {**self.now, (port, device): LinkReading(up, losses)}


def test_a_watch_sees_links_that_come_back_between_two_looks() -> None:
    links = Links()
    watch = LinkWatch(lambda: links.now)
    collector = LinkCollector(list, lambda: [watch])
    watch.start()
    assert watch.outages() == []
    links.set("p0", "dpdk0", up=False)
    links.set("p1", "ens1", up=True, losses=5)
    first, second = watch.outages()
    assert (first.port, first.device, first.restored_ns) == ("p0", "dpdk0", None)
    assert (second.port, second.device) == ("p1", "ens1"), "the kernel counted what nobody saw"
    assert second.restored_ns is not None
    links.set("p0", "dpdk0", up=True)
    ended, _ = watch.outages()
    assert ended.restored_ns is not None
    assert ended.restored_ns > ended.lost_ns == first.lost_ns
    assert collector.snapshot().as_dict() == {"p0.link_losses": 1, "p1.link_losses": 1}
    assert collector.outages(ended.restored_ns) == (ended,), "the other one was over before"
    watch.close()
    assert len(watch.outages()) == 2, "what was seen stays known"


def test_a_watch_of_an_ovs_that_died_ends() -> None:
    def read() -> dict[tuple[str, str], LinkReading]:
        raise TestbedError("no links from br0.mgmt")

    watch = LinkWatch(read)
    watch.start()
    assert watch.outages() == []
    watch.close()


@pytest.mark.parametrize(("goal", "inconclusive"), [(0.0, True), (0.002, True), (0.003, False), (None, True)])
def test_a_goal_that_was_met_although_the_cpu_was_taken_is_met(goal: float | None, *, inconclusive: bool) -> None:
    result = trial(3000)
    reasons = reasons_of(replace(result, spec=replace(result.spec, give_up_loss=goal)), changed(kept_off_ns=2 * MS))
    assert bool(reasons) is inconclusive


def windowed(lost: int, waited_ns: tuple[int, ...], took_ns: int = 0, undisturbed: int = 100) -> TrialResult:
    """The same in 100 windows, each of which lost an equal share; so many were undisturbed."""
    zeros, each = (0,) * 100, (10_000,) * 100
    speed = (1600,) * undisturbed + (2200,) * (100 - undisturbed)
    missing = (lost // 100,) * 100
    thread = ThreadWindows(zeros, each, zeros, zeros, each, missing, zeros, speed)
    seen = WitnessWindows(1, zeros, speed, waited_ns, took_ns)
    return replace(trial(lost), windows=Windows(10 * MS, (thread,), (seen,), 1600))


def test_where_waits_are_dated_a_loss_is_not_explained_by_their_sum() -> None:
    stolen = changed(kept_off_ns=2 * MS)
    assert reasons_of(windowed(3000, waited_ns=(0,) * 100), stolen) == ()
    (reason,) = reasons_of(windowed(3000, waited_ns=()), stolen)
    assert reason.code is Reason.DUT_CPU_STOLEN, "on a kernel that does not tell a thread's waits"


def test_where_little_was_undisturbed_the_sum_counts_without_what_our_witnesses_took() -> None:
    few = windowed(3000, waited_ns=(0,) * 100, undisturbed=5)
    assert reasons_of(few, changed(kept_off_ns=2 * MS)) != ()
    ours = windowed(3000, waited_ns=(0,) * 100, took_ns=2 * MS, undisturbed=5)
    assert reasons_of(ours, changed(kept_off_ns=2 * MS)) == ()


def test_counts_that_cannot_be_make_a_trial_invalid_whichever_generator_says_them() -> None:
    negative = replace(COUNTS, duplicated=-3, sent_bytes=-1)
    assert [str(each) for each in trial_validity.generator_reasons(of_counts(negative))] == [
        "impossible_counts: p0->p1: below 0: duplicated -3, sent_bytes -1"
    ]
    more = replace(COUNTS, received=COUNTS.sent + 1)
    assert [each.code for each in trial_validity.generator_reasons(of_counts(more))] == [Reason.MORE_RECEIVED_THAN_SENT]
    less = replace(COUNTS, sent=COUNTS.intended // 2, received=0)
    assert [str(each) for each in trial_validity.generator_reasons(of_counts(less))] == [
        "unsent: 50 % of the frames due were offered, limit 96 %"
    ]
    assert trial_validity.generator_reasons(of_counts(COUNTS)) == ()


@pytest.mark.parametrize("count", ["12", None, 1.5, True, float("nan")])
def test_a_count_that_is_no_whole_number_is_the_generators_fault(count: Any) -> None:
    with pytest.raises(GeneratorError, match=r"p0->p1: the generator says received = .*: a whole number belongs there"):
        trial_validity.generator_reasons(of_counts(replace(COUNTS, received=count)))


@pytest.mark.parametrize(
    ("left", "received", "valid"), [(1000, 0, False), (500, 0, False), (499, 0, True), (1000, 1, True), (0, 0, True)]
)
def test_no_dut_loses_what_its_last_port_sent(left: int, received: int, valid: bool) -> None:
    """Seen on a NIC that filters by MAC: every frame "lost", and the DUT's own port had sent them all."""
    hops = [PathStage("p0 generator", HopKind.GENERATOR, 1000), PathStage("p1 tx", HopKind.PORT, left)]
    ledger = ledger_of([frame_path("p0->p1", 1000, [*hops, PathStage("p1 generator", HopKind.GENERATOR, received)])])
    found = trial_validity.unreceived(ledger.ends)
    assert (found == ()) == valid
    if not valid:
        assert f"the DUT's last port sent {left} frames of 1000 offered, and the generator received none" in str(found)


def test_what_each_reason_leaves_of_a_trial() -> None:
    """docs/explanation/measuring-method.md lists those of which the counts hold; nothing reports BURST today."""
    of_the_load = {Reason.SKIPPED_FRAMES, Reason.FELL_BEHIND, Reason.UNSENT}
    of_the_rig = {Reason.LATE_POLL, Reason.DUT_CPU_STOLEN, Reason.CPU_MOVED, Reason.BURST}
    assert of_the_load == OF_THE_LOAD
    for reason in Reason:
        result = replace(trial(0), invalid=(InvalidReason(reason, "x"),))
        assert result.judgement.counts_hold is (reason in of_the_load | of_the_rig), reason
        assert result.judgement.certain_drops(by_flow=3, by_rule=5) == (3 if result.judgement.counts_hold else 0)
    lower = {Reason.FELL_BEHIND, Reason.UNSENT, Reason.STRETCHED_TIME, Reason.TESTER_DROPS}
    assert {reason for reason in Reason if load_too_high([InvalidReason(reason, "x")])} == lower
