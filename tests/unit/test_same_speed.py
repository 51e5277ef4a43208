"""The ratio of two subjects at the same speed of the cores, whatever the machine did to either."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.measure.same_speed import (
    AT_ITS_BEST,
    WindowBlock,
    ratios_by_block,
    separable_rigs,
    speed_estimate,
    speed_ratio,
)
from pytest_nfvperf.model.disturbance.windows import WindowRate


def side(
    rate: float, windows: int, chance: random.Random, shared: float = 0.5, noise: float = 0.03
) -> list[WindowRate]:
    """Windows of a DUT that shared cores slow, for ``shared`` of the time, by more than the probe and not evenly."""
    made = []
    for _ in range(windows):
        generator, dut = (chance.uniform(0.1, 0.9) if chance.random() < shared else 0.0 for _ in range(2))
        pace = math.exp(-0.2 * (generator > 0) - 0.5 * dut - 0.2 * generator * dut)
        made.append(WindowRate(rate * pace * chance.lognormvariate(0, noise), generator, dut))
    return made


def block(ratio: float, chance: random.Random, spread: float = 0.0, windows: int = 32) -> WindowBlock:
    """One of fresh builds: those of a DUT differ by ``spread``."""
    a, b = (chance.lognormvariate(0, spread) for _ in range(2))
    return side(a, windows, chance), side(ratio * b, windows, chance)


def test_one_that_met_slower_cores_is_not_called_slower_for_it() -> None:
    chance = random.Random(1)
    blocks = [(side(10.0, 40, chance, shared=0.2), side(9.0, 40, chance, shared=0.7)) for _ in range(10)]
    assert speed_ratio(blocks) == pytest.approx(0.9, rel=0.01)


def test_a_quiet_machine_is_the_plain_ratio() -> None:
    blocks = [
        ([WindowRate(10.0, 0, 0), WindowRate(10.2, 0, 0)] * 10, [WindowRate(9.0, 0, 0), WindowRate(9.18, 0, 0)] * 10)
    ] * 8
    assert speed_ratio(blocks) == pytest.approx(0.9)
    assert ratios_by_block(blocks) == pytest.approx((0.9,) * 8)


def test_a_few_windows_in_which_something_else_happened_change_nothing() -> None:
    chance = random.Random(2)
    blocks = [block(0.95, chance) for _ in range(8)]
    disturbed = [(a, [*b[:28], *(WindowRate(window.value * 0.3, 0, 0) for window in b[28:])]) for a, b in blocks]
    assert speed_ratio(disturbed) == pytest.approx(speed_ratio(blocks), rel=0.005)


def test_too_few_windows_have_no_ratio() -> None:
    few, many = [WindowRate(1.0, 0, 0)] * 11, [WindowRate(1.0, 0, 0)] * 12
    assert speed_ratio([(few, many)]) is None
    assert speed_ratio([(many, [*few, WindowRate(0.0, 0, 0)])]) is None
    assert speed_ratio([(many, many)]) == pytest.approx(1)
    assert speed_estimate([]) is None
    assert ratios_by_block([(few, many)]) == ()


def test_one_that_was_always_read_on_slow_cores_has_no_ratio_to_one_that_never_was() -> None:
    fast, slow = [WindowRate(1.0, 0, 0)] * 40, [WindowRate(0.5, 0.5, 0.5)] * 40
    assert speed_ratio([(fast, slow)]) is None
    assert speed_ratio([([*fast, *slow], [*fast, *slow])]) == pytest.approx(1)


@given(st.integers(0, 1000), st.floats(0.5, 2.0))
def test_the_ratio_follows_a_common_factor_and_turns_round(seed: int, factor: float) -> None:
    blocks = [block(1.0, random.Random(seed), windows=16) for _ in range(2)]
    found = speed_ratio(blocks)
    assert found is not None
    scaled = [(a, [WindowRate(w.value * factor, w.generator_slowed, w.dut_slowed) for w in b]) for a, b in blocks]
    assert speed_ratio(scaled) == pytest.approx(found * factor)
    assert speed_ratio([(b, a) for a, b in blocks]) == pytest.approx(1 / found)


def test_each_block_has_its_ratio_at_the_speed_that_all_blocks_tell() -> None:
    chance = random.Random(3)
    blocks = [block(ratio, chance, windows=200) for ratio in (0.8, 0.9, 1.0)]
    assert ratios_by_block([*blocks, ([], [])]) == pytest.approx((0.8, 0.9, 1.0), rel=0.02)


@pytest.mark.parametrize("blocks", [8, 32])
def test_the_interval_over_blocks_holds_the_truth_as_often_as_it_says(blocks: int) -> None:
    """A true ratio of 0.95, builds that differ by 2 %, windows by 3 %, cores that are shared half of the time."""
    chance = random.Random(7)
    held = 0
    for _ in range(60):
        found = speed_estimate([block(0.95, chance, spread=0.02, windows=24) for _ in range(blocks)])
        assert found is not None
        held += found.low <= 0.95 <= found.high
    assert 52 <= held <= 60


def test_an_interval_is_narrower_than_what_the_speed_alone_does() -> None:
    """Shared cores take up to half of the rate here; the ratio is known within two percent all the same."""
    chance = random.Random(5)
    found = speed_estimate([block(0.95, chance, spread=0.01) for _ in range(32)])
    assert found is not None
    assert found.high - found.low < 0.02


def test_few_blocks_bound_nothing() -> None:
    found = speed_estimate([([WindowRate(1.0, 0, 0)] * 12, [WindowRate(1.0, 0, 0)] * 12)] * 4)
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(1), 0, math.inf)


def slowed_now_and_then(blocks: list[WindowBlock], chance: random.Random) -> list[WindowBlock]:
    """What no witness sees makes a build in four up to a tenth slower, of either subject."""

    def met(windows: list[WindowRate]) -> list[WindowRate]:
        pace = 1 - chance.uniform(0, 0.1) * (chance.random() < 0.25)
        return [replace(each, value=each.value * pace) for each in windows]

    return [(met(a), met(b)) for a, b in blocks]


def test_what_slows_some_builds_of_either_errs_least_at_their_best() -> None:
    chance = random.Random(17)
    made = [[block(0.98, chance, spread=0.003, windows=24) for _ in range(10)] for _ in range(40)]
    disturbed = [slowed_now_and_then(blocks, chance) for blocks in made]
    at_best, middle = (
        _error([speed_ratio(each, best=best) for each in disturbed], 0.98) for best in (AT_ITS_BEST, 0.5)
    )
    assert at_best < 0.75 * middle


def _error(ratios: list[float | None], truth: float) -> float:
    """Root of the mean square."""
    return math.sqrt(fmean((ratio - truth) ** 2 for ratio in ratios if ratio is not None))


def test_one_that_slows_itself_half_of_the_time_is_told_by_its_middle() -> None:
    """At their best both are the same: a revalidator that stops the DUT now and then must not go unseen."""
    chance = random.Random(19)
    blocks = [block(1.0, chance, windows=40) for _ in range(10)]
    halted = [(a, [replace(w, value=w.value * (0.85 if at % 2 else 1)) for at, w in enumerate(b)]) for a, b in blocks]
    assert speed_ratio(halted) == pytest.approx(0.99, abs=0.015)
    found = speed_estimate(halted)
    assert found is not None
    assert found.value == pytest.approx(0.925, abs=0.02)
    assert found.high < 0.95


def test_where_the_generator_was_the_limit_of_the_best_windows_the_middle_tells() -> None:
    """The generator sends no more than 1.0: at their best, DUTs of 1.0 and 0.95 would look alike."""

    def seen(rate: float, chance: random.Random) -> list[WindowRate]:
        could = [rate * chance.lognormvariate(0, 0.04) for _ in range(40)]
        return [WindowRate(min(each, 1.0), 0, 0, unrefused=each > 1.0) for each in could]

    chance = random.Random(31)
    blocks = [(seen(1.0, chance), seen(0.95, chance)) for _ in range(10)]
    found, middle = speed_ratio(blocks), speed_ratio(blocks, best=0.5)
    assert found == pytest.approx(middle, abs=0.01)
    assert found is not None
    assert found < 0.98
    hidden = [([replace(w, unrefused=False) for w in a], [replace(w, unrefused=False) for w in b]) for a, b in blocks]
    assert speed_ratio(hidden) == pytest.approx(0.99, abs=0.015), "what it would tell"


def test_a_time_is_at_its_best_where_it_is_short() -> None:
    chance = random.Random(23)
    rates = slowed_now_and_then([block(0.95, chance, windows=24) for _ in range(10)], chance)
    times = [([replace(w, value=1 / w.value) for w in a], [replace(w, value=1 / w.value) for w in b]) for a, b in rates]
    rate, time = speed_estimate(rates), speed_estimate(times, best=1 - AT_ITS_BEST)
    assert rate is not None
    assert time is not None
    assert time.value == pytest.approx(1 / rate.value)
    assert time.low == pytest.approx(1 / rate.high)


RIGS, SLOW = 5, 0.925


def turned(number: int, a: list[WindowRate], b: list[WindowRate]) -> WindowBlock:
    """A block of a comparison of four subjects and the baseline's second build: rigs change from block to block."""

    def on(rig: int, windows: list[WindowRate]) -> list[WindowRate]:
        pace = SLOW if rig == RIGS - 1 else 1.0
        return [replace(each, value=each.value * pace, rig=rig) for each in windows]

    return on(number % RIGS, a), on((number + 1) % RIGS, b)


def test_a_rig_that_is_slower_than_the_others_is_no_subjects_doing() -> None:
    """Seen: one of five rigs 7.5 % slower than the others for a whole comparison."""
    chance = random.Random(11)
    blocks = [turned(number, *block(0.985, chance, spread=0.01)) for number in range(24)]
    found, without = (speed_estimate(each) for each in (blocks, [_unmarked(each) for each in blocks]))
    assert found is not None
    assert without is not None
    assert found.value == pytest.approx(0.985, rel=0.01)
    assert found.low <= 0.985 <= found.high
    assert found.high - found.low < 0.75 * (without.high - without.low)
    ratios = ratios_by_block(blocks)
    assert max(ratios) / min(ratios) < 1.08


def _unmarked(one: WindowBlock) -> WindowBlock:
    a, b = ([replace(each, rig=None) for each in side] for side in one)
    return a, b


def test_an_interval_holds_as_often_as_it_says_where_rigs_are_told_apart() -> None:
    chance = random.Random(13)
    held = 0
    for _ in range(60):
        blocks = [turned(number, *block(0.95, chance, spread=0.02, windows=24)) for number in range(16)]
        assert separable_rigs(blocks) == tuple(range(RIGS))
        found = speed_estimate(blocks)
        assert found is not None
        held += found.low <= 0.95 <= found.high
    assert 52 <= held <= 60


def test_rigs_are_told_apart_once_each_carried_both_subjects_often_enough() -> None:
    one = [WindowRate(1.0, 0, 0)] * 12
    blocks = [turned(number, one, one) for number in range(16)]
    assert separable_rigs(blocks[:14]) == ()
    assert separable_rigs(blocks) == tuple(range(RIGS))
    assert separable_rigs([*blocks, (one, one)]) == (), "one whose rig is not known"
    assert separable_rigs([(one, one)] * 16) == ()
    assert separable_rigs([]) == ()
