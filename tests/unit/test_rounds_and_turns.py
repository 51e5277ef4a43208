"""Rounds and turns by one engine: random readings through both, against the definitions of either kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from pytest_nfvperf.measure.alternation import (
    FEWEST_BLOCKS,
    LATER_TURNS,
    LOOK_CONFIDENCE,
    LOOKS,
    MAX_DISTURBED_READINGS,
    BlockReadings,
    Schedule,
    Turn,
    read_blocks,
)
from pytest_nfvperf.measure.comparison_fields import comparison_fields
from pytest_nfvperf.measure.same_speed import paired_ratio, speed_estimate
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.windows import WindowRate
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.statistics import Bound, Samples, bounded_ratio, relative, slope

UNITS = {"forwarding_rate": "pps", "packet_time": "ns"}
BASELINE = (("bridges", "1"),)
FEWEST_ROUNDS, TURNS = 5, 2
ROUNDS = Schedule(FEWEST_ROUNDS, 1e9)
IN_TURNS = Schedule(FEWEST_BLOCKS, 1e9, TURNS)
SEEDS = range(20)

Call = tuple[int, int, int]
"""Subject, block, and readings still to come at least."""


@dataclass
class DisturbedTrial:
    """What InvalidTrialsError wants of a trial."""

    id: str = "trial-1"
    result: Any = None

    def __post_init__(self) -> None:
        reason = type("R", (), {"code": "cpu_moved", "__str__": lambda _: "cpu_moved"})()
        self.result = type("T", (), {"invalid": (reason,)})()


def error() -> InvalidTrialsError:
    return InvalidTrialsError([DisturbedTrial()])


def read(
    schedule: Schedule, subjects: int, disturbs: Callable[[int], bool] = lambda _: False, *, enough: bool = False
) -> tuple[BlockReadings | InvalidTrialsError, list[Call], list[int]]:
    """Readings or the error, the calls, and how many calls there were at each look. ``disturbs``: the call so many."""
    calls: list[Call] = []
    looks: list[int] = []

    def take(subject: int, block: int, left: int) -> Reading:
        calls.append((subject, block, left))
        if disturbs(len(calls)):
            raise error()
        return Reading({"forwarding_rate": 1.0}, f"trial-{len(calls)}")

    def looked(_: BlockReadings) -> bool:
        looks.append(len(calls))
        return enough

    try:
        found = read_blocks(subjects, lambda _: None, take, schedule, enough=looked, elapsed_s=lambda: len(calls))
    except InvalidTrialsError as raised:
        return raised, calls, looks
    return found, calls, looks


def calls_of_rounds(subjects: int) -> Iterator[Call]:
    for number in range(FEWEST_ROUNDS * LOOKS[-1]):
        look = FEWEST_ROUNDS * (number // FEWEST_ROUNDS + 1)
        for index in range(subjects):
            subject = index if number % 2 == 0 else subjects - 1 - index
            yield subject, number, (look - number) * subjects - index


def calls_of_turns(subjects: int) -> Iterator[Call]:
    shuffle = random.Random(1)
    for number in range(FEWEST_BLOCKS * LOOKS[-1]):
        turns = TURNS if number < FEWEST_BLOCKS else LATER_TURNS * TURNS
        left = (FEWEST_BLOCKS * (number // FEWEST_BLOCKS + 1) - number) * turns * subjects
        order = list(range(subjects))
        for turn in range(turns):
            if turn % 2 == 0:
                shuffle.shuffle(order)
            for subject in order if turn % 2 == 0 else reversed(order):
                yield subject, number, left
                left -= 1


@pytest.mark.parametrize("subjects", [2, 3, 5])
def test_rounds_go_there_and_back_and_turns_in_random_orders(subjects: int) -> None:
    found, calls, looks = read(ROUNDS, subjects)
    assert calls == list(calls_of_rounds(subjects))
    assert looks == [FEWEST_ROUNDS * subjects * factor for factor in LOOKS]
    assert isinstance(found, BlockReadings)
    assert (found.paired, found.confidence) == (False, LOOK_CONFIDENCE)

    found, calls, looks = read(IN_TURNS, subjects)
    assert calls == list(calls_of_turns(subjects))
    first = FEWEST_BLOCKS * TURNS * subjects
    assert looks == [first + first * LATER_TURNS * more for more in range(len(LOOKS))]
    assert isinstance(found, BlockReadings)
    assert (found.paired, found.confidence) == (True, LOOK_CONFIDENCE)


@pytest.mark.parametrize(("schedule", "blocks"), [(ROUNDS, FEWEST_ROUNDS), (IN_TURNS, FEWEST_BLOCKS)])
def test_both_end_at_the_first_look_that_is_enough(schedule: Schedule, blocks: int) -> None:
    found, _, looks = read(schedule, 2, enough=True)
    assert isinstance(found, BlockReadings)
    assert (len(found.blocks), len(looks)) == (blocks, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_end_at_one_disturbed_reading_too_many_and_turns_go_on(seed: int) -> None:
    bad = set(random.Random(seed).sample(range(1, 60), 6))
    last = sorted(bad)[MAX_DISTURBED_READINGS]
    found, calls, _ = read(ROUNDS, 3, lambda call: call in bad)
    assert len(calls) == last, "at once, in the middle of a round"
    by_subject = [
        [at for at, call in enumerate(calls, 1) if call[0] == subject and at not in bad] for subject in range(3)
    ]
    if isinstance(found, BlockReadings):
        kept = [[each.evidence for block in found.readings(subject) for each in block] for subject in range(3)]
        assert kept == [[f"trial-{at}" for at in own] for own in by_subject]
    assert isinstance(found, BlockReadings) == (min(map(len, by_subject)) >= FEWEST_ROUNDS)

    turns, calls, _ = read(IN_TURNS, 3, lambda call: call in bad)
    assert isinstance(turns, BlockReadings)
    assert dict(turns.dropped) == {"cpu_moved": len(bad)}
    assert sum(len(own) for subject in range(3) for own in turns.readings(subject)) == len(calls) - len(bad)


@pytest.mark.parametrize("schedule", [ROUNDS, IN_TURNS])
@pytest.mark.parametrize("failing", [0, 9])
def test_an_error_of_a_block_that_begins_ends_the_comparison(schedule: Schedule, failing: int) -> None:
    """The rig's ceiling is measured there: a comparison without it would say nothing, however much was read."""

    def begin(block: int) -> None:
        if block == failing:
            raise error()

    def take(subject: int, block: int, left: int) -> Reading:
        return Reading({"forwarding_rate": 1.0}, "trial-1")

    with pytest.raises(InvalidTrialsError):
        read_blocks(2, begin, take, schedule, enough=lambda _: False, elapsed_s=lambda: 0.0)


def random_turns(seed: int, blocks: int, turns: int, *, window_rates: bool = False) -> list[list[Turn]]:
    """Of three subjects and a second build of the first; some are disturbed or bounds only."""
    chance = random.Random(seed)

    def reading(subject: int, evidence: str) -> Reading | None:
        rate = 1e6 * (1 - 0.1 * (subject % 3)) * chance.lognormvariate(0, 0.02)
        bound = {"forwarding_rate": (Bound.AT_LEAST, "generator-limited")} if chance.random() < 0.2 else {}
        windows = [WindowRate(rate * chance.gauss(1, 0.01), 0, 0) for _ in range(8)] if window_rates else []
        values = {"forwarding_rate": rate, "packet_time": 1e9 / rate}
        made = Reading(values, evidence, bound, {"forwarding_rate": windows} if window_rates else {})
        return None if chance.random() < 0.05 else made

    return [
        [[reading(at, f"{block}-{turn}-{at}") for at in range(4)] for turn in range(turns)] for block in range(blocks)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_of_rounds_are_those_of_independent_readings(seed: int) -> None:
    blocks = [[turn[:3] for turn in block] for block in random_turns(seed, 10, 1)]
    fields = comparison_fields("bridges", ["1", "2", "3"], UNITS, BlockReadings(blocks, paired=False))
    expected = []
    for number in range(3):
        own = [reading for (turn,) in blocks if (reading := turn[number]) is not None]
        evidence = tuple(reading.evidence for reading in own)
        exact = (Bound.EXACT, "")
        bound = next((reading.bounds["forwarding_rate"] for reading in own if reading.bounds), exact)
        values = {metric: tuple(reading.values[metric] for reading in own) for metric in UNITS}
        rate = Samples("forwarding_rate", "pps", values["forwarding_rate"], evidence, *bound)
        expected.append((rate, Samples("packet_time", "ns", values["packet_time"], evidence, *exact)))
    assert [each["samples"] for each in fields] == expected
    assert [each["relatives"] for each in fields[1:]] == [
        tuple(relative(own, base, BASELINE, LOOK_CONFIDENCE) for own, base in zip(samples, expected[0], strict=True))
        for samples in expected[1:]
    ]
    assert [each["slopes"] for each in fields] == [
        (),
        (),
        tuple(
            slope([(at + 1.0, samples[metric]) for at, samples in enumerate(expected)], "bridges", LOOK_CONFIDENCE)
            for metric in (0, 1)
        ),
    ]


def block_medians(blocks: list[list[Turn]], subject: int, metric: str) -> list[float]:
    """Median of subject over baseline, of each block with a pair."""
    pairs = [[(a, b) for turn in block if (a := turn[0]) and (b := turn[subject])] for block in blocks]
    return [median(b.values[metric] / a.values[metric] for a, b in block) for block in pairs if block]


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_of_turns_are_those_of_pairs_by_block(seed: int) -> None:
    blocks = random_turns(seed, FEWEST_BLOCKS, 3)
    fields = comparison_fields("bridges", ["1", "2", "3"], UNITS, BlockReadings(blocks))
    samples = [each["samples"] for each in fields]
    for number, (rate, _) in enumerate(samples):
        read_by_block = [[each for turn in block if (each := turn[number])] for block in blocks]
        rates = [[each.values["forwarding_rate"] for each in block] for block in read_by_block if block]
        nearest = [min(block, key=lambda value, block=block: abs(value - median(block))) for block in rates]
        assert rate.values == tuple(nearest)
        bounds = sum("forwarding_rate" in each.bounds for block in read_by_block for each in block)
        assert (rate.bound is Bound.AT_LEAST) == (bounds > sum(map(len, rates)) / 4)
        assert bool(rate.why) == (rate.bound is Bound.AT_LEAST)
    for number in (1, 2):
        for at, metric in enumerate(UNITS):
            ratio = fields[number]["relatives"][at]
            of_pairs = paired_ratio(block_medians(blocks, number, metric), LOOK_CONFIDENCE)
            plain = bounded_ratio(of_pairs, samples[number][at], samples[0][at], BASELINE)
            noise = paired_ratio(block_medians(blocks, 3, metric), LOOK_CONFIDENCE)
            assert (ratio.ratio, ratio.why) == (plain.ratio, plain.why)
            assert (ratio.pairing.noise_low, ratio.pairing.noise_high) == (noise.low, noise.high)
            assert ratio.pairing.ratios == tuple(block_medians(blocks, number, metric))
            assert ratio.low == plain.low / ratio.pairing.bias
            assert ratio.high == (None if plain.high is None else plain.high * ratio.pairing.bias)
    middles = [each.median for each in samples[0]]
    for at, metric in enumerate(UNITS):
        series = [(1.0, [middles[at]] * FEWEST_BLOCKS)]
        series += [
            (count, [r * middles[at] for r in block_medians(blocks, int(count) - 1, metric)]) for count in (2.0, 3.0)
        ]
        line = [(count, Samples(metric, UNITS[metric], tuple(values), ())) for count, values in series]
        expected, found = slope(line, "bridges", LOOK_CONFIDENCE), fields[2]["slopes"][at]
        assert expected is not None
        assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)


def test_turns_whose_windows_know_the_cores_speed_are_compared_at_the_same_speed() -> None:
    blocks = random_turns(3, FEWEST_BLOCKS, TURNS, window_rates=True)
    _, second, _ = comparison_fields("bridges", ["1", "2", "3"], UNITS, BlockReadings(blocks))
    rate = second["relatives"][0]

    def windows(block: list[Turn], pairs_of: int, at: int) -> list[WindowRate]:
        """Of the subject ``at``, in turns that have the baseline and the subject ``pairs_of``."""
        both = [turn for turn in block if turn[0] is not None and turn[pairs_of] is not None]
        return [window for turn in both if (each := turn[at]) for window in each.window_rates["forwarding_rate"]]

    window_rates = [([*windows(block, 1, 0), *windows(block, 3, 3)], windows(block, 1, 1)) for block in blocks]
    expected = speed_estimate(window_rates, LOOK_CONFIDENCE)
    assert expected is not None
    assert rate.ratio == expected.value
    assert rate.confidence == expected.confidence
