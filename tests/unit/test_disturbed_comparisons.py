"""What readings of a comparison say where the machine disturbed most of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf.measure.alternation import FEWEST_BLOCKS, BlockReadings
from pytest_nfvperf.measure.comparison_fields import FEWEST_UNDISTURBED, comparison_fields
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.statistics import Bound

UNITS = {"forwarding_rate": "pps", "cycles_per_packet": "cycles"}
DISTURBED = {"forwarding_rate": "every window was disturbed"}
ROUNDS = 6


def readings_of(rate: float, undisturbed: int, rounds: int = ROUNDS, slowdown: float | None = 1.1) -> list[Reading]:
    """Of so many rounds; the whole trials are 10 % slower than the undisturbed windows."""
    found = []
    for number in range(rounds):
        own = rate * (1 + number / 1000)
        whole, cycles = {"forwarding_rate": own * 0.9}, {"cycles_per_packet": 300.0}
        if number < undisturbed:
            seen = Reading({"forwarding_rate": own, **cycles}, f"trial-{number}", whole=whole, slowdown=slowdown)
        else:
            seen = Reading(cycles, f"trial-{number}", whole=whole, missing=DISTURBED, slowdown=slowdown)
        found.append(seen)
    return found


def found(of_readings: Sequence[Sequence[Reading]]) -> list[dict]:
    rounds = BlockReadings([[turn] for turn in zip(*of_readings, strict=True)], paired=False)
    return comparison_fields("overlay", ["none", "vxlan"], UNITS, rounds)


def test_undisturbed_windows_are_compared_where_there_are_enough() -> None:
    baseline, vxlan = found([readings_of(2e6, ROUNDS), readings_of(1e6, FEWEST_UNDISTURBED)])
    assert baseline["samples"][0].values[0] == 2e6
    assert len(vxlan["samples"][0].values) == FEWEST_UNDISTURBED
    assert vxlan["relatives"][0].ratio == pytest.approx(0.5, rel=0.01)
    assert vxlan["notes"] == ()


@pytest.mark.parametrize("undisturbed", range(FEWEST_UNDISTURBED))
def test_whole_trials_of_all_are_compared_where_one_subject_was_disturbed(undisturbed: int) -> None:
    baseline, vxlan = found([readings_of(2e6, ROUNDS), readings_of(1e6, undisturbed)])
    ratio = vxlan["relatives"][0]
    assert baseline["samples"][0].values[0] == pytest.approx(1.8e6), "of the baseline, too"
    assert len(vxlan["samples"][0].values) == ROUNDS
    assert 0.45 < ratio.low < 0.5 < ratio.high < 0.55
    assert ratio.why == ""
    assert vxlan["missing"] == {}
    rate, cycles = vxlan["samples"]
    assert rate.bound is Bound.AT_LEAST, "what it did not let the DUT show is not known"
    assert "the machine disturbed" in rate.why
    assert (cycles.bound, cycles.why) == (Bound.EXACT, ""), "cycles are counted, whatever the machine did"
    note = ("the machine disturbed most readings from end to end: values are of whole trials",)
    assert baseline["notes"] == vxlan["notes"] == note


@pytest.mark.parametrize("slowed", [1.1, 1.1 * 1.05, 1.1 / 1.05])
def test_a_ratio_is_wider_by_what_the_machine_slowed_one_subject_more(slowed: float) -> None:
    _, vxlan = found([readings_of(2e6, 0), readings_of(1e6, 0, slowdown=slowed)])
    _, alike = found([readings_of(2e6, 0), readings_of(1e6, 0)])
    wide, exact = vxlan["relatives"][0], alike["relatives"][0]
    more = max(slowed, 1.1) / min(slowed, 1.1)
    assert (wide.low, wide.high) == (pytest.approx(exact.low / more), pytest.approx(exact.high * more))


@pytest.mark.parametrize("slowdowns", [(1.1, 1.4), (1.9, 1.1), (None, 1.1), (None, None)])
def test_bounds_that_the_machine_slowed_differently_have_no_ratio(slowdowns: tuple[float | None, float | None]) -> None:
    baseline, own = (readings_of(rate, 0, slowdown=each) for rate, each in zip((2e6, 1e6), slowdowns, strict=True))
    ratio = found([baseline, own])[1]["relatives"][0]
    assert (ratio.low, ratio.high) == (0.0, None)
    assert "did not slow both alike" in ratio.why


def test_what_no_reading_tells_of_the_whole_trial_is_missing_with_the_reason() -> None:
    bare = [Reading({"cycles_per_packet": 300.0}, f"trial-{number}", missing=DISTURBED) for number in range(ROUNDS)]
    _, vxlan = found([readings_of(2e6, ROUNDS), bare])
    assert [each.metric for each in vxlan["samples"]] == ["cycles_per_packet"]
    assert vxlan["missing"] == DISTURBED
    assert vxlan["notes"] == ()


@pytest.mark.parametrize("undisturbed", [0, 1, FEWEST_UNDISTURBED, FEWEST_BLOCKS])
def test_in_turns_a_ratio_stands_though_no_reading_of_a_subject_was_undisturbed(undisturbed: int) -> None:
    """Ratios there are of windows, or of whole trials in the same turn; what a rate is, undisturbed windows say."""
    baseline = readings_of(2e6, FEWEST_BLOCKS, FEWEST_BLOCKS)
    subject = readings_of(1e6, undisturbed, FEWEST_BLOCKS)
    turns = BlockReadings([[list(turn)] for turn in zip(baseline, subject, baseline, strict=True)])
    of_baseline, of_subject = comparison_fields("bridges", ["1", "2"], UNITS, turns)
    rate, ratio = of_subject["samples"][0], of_subject["relatives"][0]
    assert (rate.metric, ratio.metric) == ("forwarding_rate", "forwarding_rate")
    assert ratio.low == pytest.approx(ratio.high) == pytest.approx(0.5)
    whole = undisturbed < FEWEST_UNDISTURBED
    assert rate.values[0] == pytest.approx(0.9e6 if whole else 1e6)
    for each in (rate, of_baseline["samples"][0]):
        assert each.bound is (Bound.AT_LEAST if whole else Bound.EXACT)
    assert bool(of_subject["notes"]) == whole
    assert of_subject["missing"] == {}
