"""When the rig owns up: each reason at its limit, just inside and just outside."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.disturbance.validity import RingPort, engine_reasons, most_skipped
from pytest_nfvperf.model.disturbance.windows import SelectedWindows
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, NicCounts, RigHealth, TrialSpec
from pytest_nfvperf.ports.generator import RX_DESCRIPTORS
from tests.sample_trials import counts_of

DIRECTION = Direction("a", "b")
GOOD = counts_of(DIRECTION, sent=1_000_000)
STREAM = {"fell_behind": 0, "highest_seq": 1_000_000, "beyond_window": 0}
HEALTH = RigHealth(longest_poll_gap_ns=10_000_000)
SPEC = TrialSpec(Traffic(64), 1_000_000, 1.0, (DIRECTION,))


def ring_ports(
    foreign: dict[str, int] | None = None, *, back_pressure: bool = True, tx_descriptors: int = 512
) -> dict[str, RingPort]:
    sender = RingPort({}, back_pressure, tx_descriptors, RX_DESCRIPTORS)
    return {"a": sender, "b": replace(sender, foreign=foreign or {})}


def reasons(
    *,
    counts: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    health: RigHealth = HEALTH,
    foreign: dict[str, int] | None = None,
    back_pressure: bool = True,
    tx_descriptors: int = 512,
    cpus: tuple[int, ...] = (),
    nics: tuple[NicCounts, ...] = (),
) -> list[tuple[Reason, str]]:
    ports = ring_ports(foreign, back_pressure=back_pressure, tx_descriptors=tx_descriptors)
    stream = (dataclasses.replace(GOOD, **(counts or {})), STREAM | (facts or {}))
    judged = engine_reasons(SPEC, [stream], ports, health, nics=nics, cpus=cpus)
    return [(reason.code, reason.detail) for reason in judged]


@pytest.mark.parametrize(
    ("windowed", "refused", "valid"), [(True, 50_000, True), (True, 0, False), (False, 50_000, False)]
)
def test_a_loss_that_says_nothing_is_valid_though_the_generator_fell_behind_too(
    windowed: bool, refused: int, valid: bool
) -> None:
    """Seen: a search that ended for six such trials in a row, in a core that the host shared all the time."""
    window_s = 0.005 if windowed else None
    spec = TrialSpec(
        Traffic(frame_size=64), 1_000_000, 1.0, (DIRECTION,), residual_s=0.1, purpose="t", window_s=window_s
    )
    sent = 800_000 - refused
    behind = replace(GOOD, sent=sent, received=sent, refused=refused, skipped=200_000)
    facts = STREAM | {"fell_behind": 200_000, "highest_seq": sent}
    still = replace(GOOD, direction=Direction("b", "a"))  # the other way lost nothing
    judged = engine_reasons(spec, [(behind, facts), (still, STREAM)], ring_ports(), HEALTH)
    assert [reason.code for reason in judged] == ([] if valid else [Reason.FELL_BEHIND])


def test_a_good_trial_is_valid() -> None:
    assert reasons() == []


def test_refused_frames_are_the_duts_loss() -> None:
    half = {"sent": 500_000, "received": 500_000, "refused": 500_000}
    assert reasons(counts=half, facts={"highest_seq": 500_000}) == []


def test_skipped_frames_name_the_cpu_and_the_remedy() -> None:
    ((_, detail),) = reasons(counts={"skipped": 50_000}, cpus=(0,))

    assert detail == (
        "a->b: 50000 of 1000000 frames (5.00%) were due while the generator was not running, limit 0.50%; other work "
        "took CPU 0 from it: let nothing else run there, or give the generator CPUs of its own "
        "('cpus: {generator: [...]}' in the testbed file)"
    )
    ((_, detail),) = reasons(counts={"skipped": 50_000}, cpus=(2, 3))
    assert "other work took CPUs 2, 3 from it" in detail


def test_skipped_up_to_the_limit_is_forgiven() -> None:
    assert reasons(counts={"skipped": 5_000}) == []
    assert reasons(counts={"skipped": 5_001}) == [
        (
            Reason.SKIPPED_FRAMES,
            "a->b: 5001 of 1000000 frames (0.50%) were due while the generator was not running, limit 0.50%",
        )
    ]


def test_falling_behind_is_another_reason() -> None:
    assert [code for code, _ in reasons(counts={"skipped": 6_000}, facts={"fell_behind": 5_500})] == [
        Reason.FELL_BEHIND
    ]
    both = reasons(counts={"skipped": 20_000}, facts={"fell_behind": 8_000})
    assert [code for code, _ in both] == [Reason.SKIPPED_FRAMES, Reason.FELL_BEHIND]


@pytest.mark.parametrize("fell_behind", range(0, 5_002, 1_000))
def test_beyond_the_limit_there_is_always_a_reason(fell_behind: int) -> None:
    assert reasons(counts={"skipped": 5_001}, facts={"fell_behind": fell_behind}) != []


def test_more_received_than_sent() -> None:
    assert reasons(counts={"received": 1_000_001}, facts={"highest_seq": 1_000_001}) == [
        (Reason.MORE_RECEIVED_THAN_SENT, "a->b: sent 1000000, received 1000001, highest number 1000001")
    ]
    assert [code for code, _ in reasons(facts={"highest_seq": 1_000_001})] == [Reason.MORE_RECEIVED_THAN_SENT]


def test_what_a_dut_did_to_frames_makes_no_trial_invalid() -> None:
    wrong = {"corrupted": 1, "duplicated": 7, "out_of_order": 3, "elsewhere": (("a", 2),)}
    assert reasons(counts=wrong, foreign={"misdirected": 2}) == []


def test_frames_beyond_the_window() -> None:
    assert [code for code, _ in reasons(facts={"beyond_window": 1})] == [Reason.FOREIGN_FRAMES]


def test_bystanders_are_no_reason_others_are() -> None:
    assert reasons(foreign={"arp": 3, "ipv6": 9, "lldp": 1, "stp": 2}) == []
    assert reasons(foreign={"arp": 3, "other_trial": 1, "other": 0}) == [
        (Reason.FOREIGN_FRAMES, "b: received frames not of this trial: 3 arp, 1 other_trial")
    ]


LOST = {"received": 999_000}


def test_a_late_poll_explains_a_loss_only_where_the_ring_overflows() -> None:
    assert reasons(counts=LOST) == []  # half of the ring in flight at most
    assert [code for code, _ in reasons(counts=LOST, tx_descriptors=1024)] == [Reason.LATE_POLL]
    assert reasons(counts=LOST, back_pressure=False) == [
        (Reason.LATE_POLL, "a->b: not polled for 10.0 ms, 10000 frames; the ring holds 1024")
    ]
    assert reasons(back_pressure=False) == []  # nothing was lost
    for gap_ns, codes in ((1_024_000, []), (1_025_000, [Reason.LATE_POLL])):  # a ring is full with 1,024 frames
        told = reasons(counts=LOST, back_pressure=False, health=RigHealth(longest_poll_gap_ns=gap_ns))
        assert [code for code, _ in told] == codes


def test_a_very_long_gap_spoils_any_trial() -> None:
    assert reasons(health=RigHealth(longest_poll_gap_ns=250_000_000)) == []
    assert reasons(health=RigHealth(longest_poll_gap_ns=1_000_000_000)) == [
        (Reason.LATE_POLL, "the generator did not run for 1000.0 ms, limit 250 ms")
    ]


def test_what_is_not_known_is_no_reason() -> None:
    assert reasons(counts=LOST, back_pressure=False, health=RigHealth()) == []


def test_a_saturating_trial_may_miss_more_since_its_time_is_taken_off():
    assert most_skipped(SPEC, 0.005) == 0.005
    assert most_skipped(replace(SPEC, saturating=True), 0.005) == 0.05
    assert most_skipped(replace(SPEC, saturating=True), 0.1) == 0.1


@pytest.mark.parametrize(
    ("skipped", "fell_behind", "codes"),
    [(900_000, 900_000, []), (900_000, 400_000, []), (900_000, 399_999, [Reason.SKIPPED_FRAMES])],
)
def test_an_overload_may_be_more_than_the_generator_sends_while_it_runs(
    skipped: int, fell_behind: int, codes: list[Reason]
) -> None:
    """Windows tell whether the generator was the limit. Half of the time it must have been there."""
    spec = TrialSpec(Traffic(64), 1_000_000, 1.0, (DIRECTION,), window_s=0.005, saturating=True)
    count = dataclasses.replace(GOOD, sent=100_000, received=100_000, skipped=skipped)
    facts = STREAM | {"fell_behind": fell_behind, "highest_seq": 100_000}
    judged = engine_reasons(spec, [(count, facts)], ring_ports(back_pressure=False), HEALTH)
    assert [reason.code for reason in judged] == codes


def judged_timestamped(timestamped: SelectedWindows, **counts: Any) -> list[Reason]:
    """Of a trial with so many undisturbed windows."""
    spec = TrialSpec(Traffic(64), 1_000_000, 1.0, (DIRECTION,), window_s=0.01)
    count, health = dataclasses.replace(GOOD, **counts), RigHealth(longest_poll_gap_ns=100_000_000)
    facts = STREAM | {"highest_seq": count.sent}
    judged = engine_reasons(spec, [(count, facts)], ring_ports(back_pressure=False), health, timestamped)
    return [reason.code for reason in judged]


def test_where_losses_are_dated_absences_are_no_reason() -> None:
    undisturbed = SelectedWindows(windows=60, of=100, due=600_000, offered=600_000, lost=0)
    assert judged_timestamped(undisturbed, skipped=200_000, sent=800_000, received=700_000) == []


def test_a_load_that_is_not_held_in_undisturbed_windows_is_too_high() -> None:
    undisturbed = SelectedWindows(windows=60, of=100, due=600_000, offered=587_999, lost=0)
    assert judged_timestamped(undisturbed) == [Reason.FELL_BEHIND]
    held = SelectedWindows(windows=60, of=100, due=600_000, offered=588_001, lost=0)
    assert judged_timestamped(held) == []


@pytest.mark.parametrize(("lost", "codes"), [(50_000, [Reason.FELL_BEHIND]), (50_001, [])])
def test_a_load_of_which_the_dut_loses_more_than_was_left_out_is_too_high_for_it(
    lost: int, codes: list[Reason]
) -> None:
    undisturbed = SelectedWindows(windows=60, of=100, due=600_000, offered=550_000, lost=lost)
    assert judged_timestamped(undisturbed) == codes


@pytest.mark.parametrize(("skipped", "codes"), [(5_000, []), (5_001, [Reason.SKIPPED_FRAMES])])
def test_a_trial_that_was_disturbed_most_of_the_time_is_judged_as_one_without_windows(
    skipped: int, codes: list[Reason]
) -> None:
    stream = (replace(GOOD, skipped=skipped), STREAM)
    found = engine_reasons(replace(SPEC, window_s=0.01), [stream], ring_ports(), HEALTH)
    assert [reason.code for reason in found] == codes


LOST = {"received": 998_130}
NO_RX_OF_SENDER = NicCounts("a", rx_missed=9, tx_errors=0)


@pytest.mark.parametrize(
    ("nic", "named"),
    [
        (NicCounts("b", rx_missed=1870, rx_errors=0, tx_errors=0, rx_nombuf=0), "b rx_missed 1870"),
        (NicCounts("b", rx_missed=0, rx_errors=3, rx_nombuf=12), "b rx_errors 3, b rx_nombuf 12"),
        (NicCounts("b", rx_nombuf=1), "b rx_nombuf 1"),  # a VF's driver counts nothing else
        (NicCounts("a", tx_errors=1870), "a tx_errors 1870"),
    ],
)
def test_what_the_generators_own_nic_lost_is_not_the_duts(nic: NicCounts, named: str) -> None:
    ((code, detail),) = reasons(counts=LOST, nics=(nic,))
    assert code is Reason.TESTER_DROPS
    assert detail == (
        f"a->b: the generator's own NIC lost frames ({named}), 1870 are missing: send less, or give the generator more "
        "descriptors or CPUs of its own"
    )


def test_a_nic_that_lost_nothing_of_the_trial_leaves_it_valid() -> None:
    """Frames of others are missed now and then; what the sender's port misses is not this direction's."""
    assert reasons(nics=(NicCounts("b", rx_missed=5),)) == []
    assert reasons(counts={"refused": 7}, nics=(NicCounts("b", rx_missed=5),)) == []
    assert reasons(counts=LOST, nics=(NO_RX_OF_SENDER, NicCounts("b", rx_missed=0, tx_errors=7))) == []
    assert reasons(counts=LOST, nics=(NicCounts("b"),)) == []


def test_a_nics_counter_that_fell_is_a_reason_by_itself() -> None:
    assert reasons(nics=(NicCounts("b", rx_missed=-4),)) == [
        (Reason.COUNTER_WENT_BACK, "the generator's own counters fell: b rx_missed by 4")
    ]
