"""Comparisons in turns: order, disturbed readings, looks and budget; and what is made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import pytest

from pytest_nfvperf.measure.alternation import (
    FEWEST_BLOCKS,
    LATER_TURNS,
    LATEST_LOOK,
    LOOK_CONFIDENCE,
    BlockReadings,
    Schedule,
    Turn,
    read_blocks,
)
from pytest_nfvperf.measure.comparison_fields import comparison_fields
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.mirror_cost import MirrorCost, MirrorLoad
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.windows import WindowRate
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import CONFIDENCE, Bound, Relative
from pytest_nfvperf.model.traffic.traffic import Traffic

UNITS = {"forwarding_rate": "pps", "packet_time": "ns"}


@dataclass
class DisturbedTrial:
    """What InvalidTrialsError wants of a trial."""

    id: str = "trial-1"
    result: Any = None

    def __post_init__(self) -> None:
        reason = type("R", (), {"code": "cpu_moved", "__str__": lambda _: "cpu_moved: 100 ns before, 300 ns after"})()
        self.result = type("T", (), {"invalid": (reason,)})()


@dataclass
class Bench:
    """Notes who is read, and takes a second for each."""

    rates: tuple[float, ...] = (10.0, 10.0)
    disturbs: Callable[[int, int], bool] = lambda _subject, _number: False
    clock: float = 0.0
    order: list[list[int]] = field(default_factory=list)
    number: int = 0

    def begin(self, block: int) -> None:
        assert block == len(self.order)
        self.order.append([])

    def take(self, subject: int, block: int, left: int) -> Reading:
        assert left > 0
        assert block == len(self.order) - 1
        self.order[-1].append(subject)
        self.number += 1
        self.clock += 1
        if self.disturbs(subject, self.number):
            raise InvalidTrialsError([DisturbedTrial()])
        return Reading({"forwarding_rate": self.rates[subject]}, f"trial-{self.number}")

    def run(self, turns: int = 2, budget_s: float = 1e9, enough: bool = True) -> BlockReadings:
        return read_blocks(
            len(self.rates),
            self.begin,
            self.take,
            Schedule(FEWEST_BLOCKS, budget_s, turns),
            enough=lambda _: enough,
            elapsed_s=lambda: self.clock,
        )


def test_each_second_turn_goes_the_other_way() -> None:
    bench = Bench((1.0,) * 4)
    bench.run(turns=4)
    for block in bench.order:
        first, second, third, fourth = (block[at : at + 4] for at in range(0, 16, 4))
        assert second == first[::-1]
        assert fourth == third[::-1]
        assert sorted(first) == sorted(third) == [0, 1, 2, 3]
    assert len({tuple(block) for block in bench.order}) > 1


def test_a_carried_verdict_needs_the_fewest_blocks() -> None:
    assert len(Bench().run().blocks) == FEWEST_BLOCKS


def test_an_open_verdict_is_looked_at_again_until_the_last_look_or_the_budget() -> None:
    found = Bench().run(enough=False).blocks
    assert [len(block) for block in found] == FEWEST_BLOCKS * [2] + 3 * FEWEST_BLOCKS * [2 * LATER_TURNS], "turns"
    three_more = 4 * FEWEST_BLOCKS + 3 * 4 * LATER_TURNS
    assert len(Bench().run(enough=False, budget_s=three_more).blocks) == FEWEST_BLOCKS + 3


def test_a_first_look_near_the_end_of_the_budget_is_none() -> None:
    """It could save little time, and an only look needs no more than 95 %."""
    first_look_s = 2 * 2 * FEWEST_BLOCKS
    early = Bench().run(budget_s=first_look_s / LATEST_LOOK + 1)
    assert (len(early.blocks), early.looks) == (FEWEST_BLOCKS, True)
    assert early.confidence == LOOK_CONFIDENCE
    late = Bench().run(budget_s=first_look_s / LATEST_LOOK)
    assert len(late.blocks) > FEWEST_BLOCKS, "goes on although its verdict is carried"
    assert (late.looks, late.confidence) == (False, CONFIDENCE)
    over = Bench().run(budget_s=1)
    assert (len(over.blocks), over.confidence) == (FEWEST_BLOCKS, CONFIDENCE)


def test_a_disturbed_reading_costs_its_pair_and_is_counted() -> None:
    found = Bench(disturbs=lambda subject, number: subject == 1 and number < 5).run()
    assert [len(pairs) for pairs in found.pairs(1)][:2] == [0, 2]
    assert len(found.blocks) == FEWEST_BLOCKS + 1  # a block without a pair is made up for
    assert dict(found.dropped) == {"cpu_moved": 2}


def test_a_rig_that_disturbs_all_gives_up_when_the_time_is_over() -> None:
    bench = Bench(disturbs=lambda _subject, _number: True)
    with pytest.raises(InvalidTrialsError, match="cpu_moved"):
        bench.run(budget_s=100)
    assert bench.clock >= 100


def alternating(ratio: float, blocks: int = 10, machine: float = 0.5) -> BlockReadings:
    """A subject and the baseline twice, on a machine whose windows are slower by ``machine`` half of the time."""
    chance = random.Random(3)

    def reading(rate: float) -> Reading:
        alone = [WindowRate(rate * chance.gauss(1, 0.02), 0, 0) for _ in range(6)]
        shared = [WindowRate(rate * machine * chance.gauss(1, 0.02), 0.4, 0.4) for _ in range(chance.randrange(12))]
        return Reading(
            {"forwarding_rate": alone[0].value}, "trial-1", window_rates={"forwarding_rate": [*alone, *shared]}
        )

    turns = [[[reading(10), reading(10 * ratio), reading(10)] for _ in range(4)] for _ in range(blocks)]
    return BlockReadings(turns, errors=3 * [InvalidTrialsError([DisturbedTrial()])])


def test_a_difference_is_found_whatever_the_machine_did_meanwhile() -> None:
    _, subject = comparison_fields("bridges", ["1", "2"], UNITS, alternating(0.95))
    (ratio,) = subject["relatives"]
    assert ratio.low < 0.95 < ratio.high < 1
    assert ratio.high - ratio.low < 0.04
    assert ratio.baseline == (("bridges", "1"),)
    pairing = ratio.pairing
    assert (pairing.blocks, pairing.pairs, pairing.dropped) == (10, 40, (("cpu_moved", 3),))
    assert pairing.noise_low < 1 < pairing.noise_high
    assert pairing.bias == 1


def test_the_same_is_not_called_different() -> None:
    _, subject = comparison_fields("bridges", ["1", "2"], UNITS, alternating(1.0))
    assert subject["relatives"][0].low < 1 < subject["relatives"][0].high


def test_a_baseline_that_differs_from_itself_widens_the_interval() -> None:
    found = alternating(1.0)
    slower = [[[turn[0], turn[1], _scaled(turn[2], 0.8)] for turn in block] for block in found.blocks]
    _, subject = comparison_fields("bridges", ["1", "2"], UNITS, BlockReadings(slower))
    ratio = subject["relatives"][0]
    assert ratio.pairing.noise_high < 0.85
    assert ratio.pairing.bias == pytest.approx(1 / ratio.pairing.noise_high)
    assert ratio.low < 0.9
    assert ratio.high > 1.15


def test_both_builds_of_the_baseline_tell_what_it_does() -> None:
    """Where fresh builds differ by two percent, two of the baseline in each block make ratios more exact."""
    chance = random.Random(29)
    both, one = [], []
    for _ in range(12):
        built = [_rebuilt(block, chance) for block in alternating(1.0, blocks=12, machine=1.0).blocks]
        once: list[list[Turn]] = [[(turn[0], turn[1], None) for turn in block] for block in built]
        both.append(_ratio(built))
        one.append(_ratio(once))
    assert fmean(each.high - each.low for each in both) < 0.95 * fmean(each.high - each.low for each in one)


def _rebuilt(block: Sequence[Turn], chance: random.Random) -> list[Turn]:
    paces = [chance.gauss(1, 0.02) for _ in range(3)]
    return [[reading and _scaled(reading, pace) for reading, pace in zip(turn, paces, strict=True)] for turn in block]


def _ratio(blocks: list[list[Turn]]) -> Relative:
    return comparison_fields("bridges", ["1", "2"], UNITS, BlockReadings(blocks))[1]["relatives"][0]


def _scaled(reading: Reading, factor: float) -> Reading:
    window_rates = {
        metric: [replace(window, value=window.value * factor) for window in windows]
        for metric, windows in reading.window_rates.items()
    }
    return Reading(dict(reading.values), reading.evidence, window_rates=window_rates)


def test_one_reading_in_four_may_be_a_bound_only() -> None:
    def limited(every: int) -> list[list[list[Reading]]]:
        made = alternating(1.0).blocks
        number = 0
        for block in made:
            for turn in block:
                number += 1
                if number % every == 0:
                    bounds = {"forwarding_rate": (Bound.AT_LEAST, "generator-limited")}
                    turn[1] = replace(turn[1], evidence="t", bounds=bounds)
        return made

    few, many = (comparison_fields("bridges", ["1", "2"], UNITS, BlockReadings(limited(every)))[1] for every in (5, 2))
    few_bound, many_bound = few["samples"][0], many["samples"][0]
    assert (few_bound.bound, few_bound.why) == (Bound.EXACT, "")
    assert (many_bound.bound, many_bound.why) == (Bound.AT_LEAST, "generator-limited")
    assert many["relatives"][0].high is None


def test_a_slope_leaves_the_same_block_out_of_all_subjects() -> None:
    """A block in which one subject was disturbed holds no pair of it, and shifts no other block into its place."""
    found = alternating(0.9)
    wide = [
        [[turn[0], _scaled(turn[0], 0.9), _scaled(turn[0], 0.8), turn[2]] for turn in block] for block in found.blocks
    ]
    for turn in wide[2]:
        turn[1] = None
    *_, last = comparison_fields("bridges", ["1", "2", "3"], UNITS, BlockReadings(wide))
    (slope,) = last["slopes"]
    assert slope.share == pytest.approx(-0.1, abs=0.01)
    assert slope.share_high - slope.share_low < 0.02


def test_mirrors_are_loaded_by_a_share_of_what_passed_without_one_whatever_the_windows() -> None:
    trial = type("Trial", (), {"result": type("Result", (), {"received_fps": 4e6})()})()
    cost = MirrorCost(Traffic(), QUICK, lambda *_: Limits(None, None), MirrorLoad(share=0.1), lambda *_: 0.0)
    cost._note_forwarded(trial, Reading({}, "trial-1"))
    cost._note_forwarded(trial, Reading({"forwarding_rate": 7e6}, "trial-2"))
    assert cost.forwarded == [4e6, 7e6]
