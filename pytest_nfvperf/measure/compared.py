"""The readings of a comparison as fields of each subject's Outcome: samples, ratios, slopes and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_nfvperf.measure.alternation import (
    LOOK_CONFIDENCE,
    Against,
    Alternated,
    Paired,
    block_relative,
    block_samples,
    block_slope,
)
from pytest_nfvperf.model.measure.cpu_account import LOWER_BOUNDS, UPPER_BOUNDS
from pytest_nfvperf.model.measure.outcome import Reading, bands_note, relative, slope
from pytest_nfvperf.model.statistics import Relative, Samples, Slope

Units = Mapping[str, str]
"""Base unit of each metric."""

FEWEST_UNDISTURBED = 5
"""Readings of a subject, in rounds: so many of two subjects bound a ratio at the confidence of a look."""


def found_in_turns(per: str, values: Sequence[str], units: Units, found: Alternated) -> list[dict[str, Any]]:
    """Fields of readings that alternated; behind the subjects comes a second build of the baseline.

    Ratios are of windows at the same speed of the cores, to both builds of the baseline. Where a subject has too few
    undisturbed readings, whole trials are compared: the rate is at least so much. ``per``: the label that the subjects
    differ in; ``values``: of each subject, the baseline's first.
    """
    read = [found.readings(number) for number in range(len(values))]
    disturbed = _disturbed(units, [[each for block in own for each in block] for own in read])
    compared = [[[each.of_whole_trial(disturbed) for each in block] for block in own] for own in read]
    samples = [
        [each for metric, unit in units.items() if (each := block_samples(metric, unit, own))] for own in compared
    ]
    pairs: list[Paired] = [found.pairs(0, number) for number in range(len(values))]
    against = Against(((per, values[0]),), found.pairs(0, len(values)), tuple(found.dropped.most_common()))
    baseline = {each.metric: each for each in samples[0]}
    ratios = [
        tuple(
            ratio
            for own in samples[number]
            if own.metric in baseline
            and (ratio := block_relative(own, baseline[own.metric], pairs[number], against, found.confidence))
        )
        for number in range(1, len(values))
    ]
    slopes = _block_slopes(per, values, units, samples, pairs, found)
    readings = [[each for block in own for each in block] for own in compared]
    return _of_whole_trials(disturbed, _fields(_as_bounds(disturbed, samples), [(), *ratios], slopes, readings))


def found_in_rounds(
    per: str, values: Sequence[str], units: Units, readings: Sequence[Sequence[Reading]]
) -> list[dict[str, Any]]:
    """Fields of readings in rounds, each on a topology built for it; ``readings`` by subject.

    Where a subject has too few undisturbed readings, whole trials of all are compared: rounds alternate, so
    disturbances meet all alike, and ratios stand. A rate itself is then a lower bound.
    """
    disturbed = _disturbed(units, readings)
    compared = [[reading.of_whole_trial(disturbed) for reading in own] for own in readings]
    samples = [_samples(units, own) for own in compared]
    baseline = ((per, values[0]),)
    ratios = [_relatives(own, samples[0], baseline) if number else () for number, own in enumerate(samples)]
    slopes = _slopes(per, values, units, samples)
    return _of_whole_trials(disturbed, _fields(_as_bounds(disturbed, samples), ratios, slopes, compared))


_KEPT_WAITING = "the machine disturbed most readings from end to end"


def _disturbed(units: Units, readings: Sequence[Sequence[Reading]]) -> list[str]:
    """Metrics of which a subject has too few readings with undisturbed windows, and more whole trials that tell it."""
    return [metric for metric in units if any(_mostly_disturbed(metric, own) for own in readings)]


def _mostly_disturbed(metric: str, readings: Sequence[Reading]) -> bool:
    told = sum(metric in reading.values for reading in readings)
    return told < min(FEWEST_UNDISTURBED, sum(metric in reading.whole for reading in readings))


def _as_bounds(disturbed: Sequence[str], samples: Sequence[Sequence[Samples]]) -> list[list[Samples]]:
    return [[_as_bound(each) if each.metric in disturbed else each for each in own] for own in samples]


def _as_bound(samples: Samples) -> Samples:
    if samples.metric in LOWER_BOUNDS:
        return replace(samples, at_least=samples.at_least or _KEPT_WAITING)
    if samples.metric in UPPER_BOUNDS:
        return replace(samples, at_most=samples.at_most or _KEPT_WAITING)
    return samples


def _of_whole_trials(disturbed: Sequence[str], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    notes = (f"{_KEPT_WAITING}: what is told are whole trials",) if disturbed else ()
    return [together({"notes": notes}, fields) for fields in found]


def together(facts: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fields of a subject's Outcome, with the notes of both."""
    return {**facts, **found, "notes": (*facts.get("notes", ()), *found.get("notes", ()))}


def _fields(
    samples: Sequence[Sequence[Samples]],
    ratios: Sequence[tuple[Relative, ...]],
    slopes: tuple[Slope, ...],
    readings: Sequence[Sequence[Reading]],
) -> list[dict[str, Any]]:
    last = len(samples) - 1
    return [
        {
            "samples": tuple(own),
            "relatives": ratios[number],
            "slopes": slopes if number == last else (),
            "notes": tuple(filter(None, (bands_note(each) for each in own[:1]))),
            "missing": _missing(own, readings[number]),
        }
        for number, own in enumerate(samples)
    ]


def _missing(samples: Sequence[Samples], readings: Sequence[Reading]) -> tuple[tuple[str, str], ...]:
    """Metrics that none of a subject's readings could tell, each with the reason."""
    told = {each.metric for each in samples}
    why = {metric: reason for reading in readings for metric, reason in reading.missing.items()}
    return tuple((metric, reason) for metric, reason in sorted(why.items()) if metric not in told)


def _block_slopes(
    per: str,
    values: Sequence[str],
    units: Units,
    samples: Sequence[Sequence[Samples]],
    pairs: Sequence[Paired],
    read: Alternated,
) -> tuple[Slope, ...]:
    if not all(value.isdigit() for value in values):
        return ()
    found = []
    itself = read.pairs(0, len(values))
    for metric in units:
        series = [
            (float(value), each, pairs[number] if number else None)
            for number, (value, own) in enumerate(zip(values, samples, strict=True))
            for each in own
            if each.metric == metric
        ]
        if series and series[0][2] is None:
            found.append(block_slope(series, per, read.confidence, itself))
    return tuple(each for each in found if each is not None)


def _samples(units: Units, readings: Sequence[Reading]) -> tuple[Samples, ...]:
    found = []
    for metric, unit in units.items():
        with_it = [reading for reading in readings if metric in reading.values]
        if with_it:
            low = next((reading.at_least[metric] for reading in with_it if reading.at_least.get(metric)), "")
            high = next((reading.at_most[metric] for reading in with_it if reading.at_most.get(metric)), "")
            values = tuple(reading.values[metric] for reading in with_it)
            found.append(Samples(metric, unit, values, tuple(reading.evidence for reading in with_it), low, high))
    return tuple(found)


def _relatives(
    own: Sequence[Samples], baseline: Sequence[Samples], differing: tuple[tuple[str, str], ...]
) -> tuple[Relative, ...]:
    by_metric = {samples.metric: samples for samples in baseline}
    found = (
        relative(samples, by_metric[samples.metric], differing, LOOK_CONFIDENCE)
        for samples in own
        if samples.metric in by_metric
    )
    return tuple(ratio for ratio in found if ratio is not None)


def _slopes(per: str, values: Sequence[str], units: Units, samples: Sequence[Sequence[Samples]]) -> tuple[Slope, ...]:
    if not all(value.isdigit() for value in values):
        return ()
    found = []
    for metric in units:
        series = [
            (float(value), each)
            for value, own in zip(values, samples, strict=True)
            for each in own
            if each.metric == metric
        ]
        found.append(slope(series, per, LOOK_CONFIDENCE))
    return tuple(each for each in found if each is not None)
