"""Series of a history: what belongs together, what a change means, and which acknowledgement is about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.features.history.series import (
    Acknowledgement,
    ChangeMeaning,
    HistoryFigure,
    Step,
    changes,
    machines,
    series_of,
    why_not,
)
from pytest_nfvperf.model.metrics import HIGHER, LOWER, metric_of
from tests.history_support import LABELS, entry, series

PDR, BITS = HistoryFigure("pdr", "pps", 4e6), HistoryFigure("pdr", "bps", 2e9)
P99 = HistoryFigure("latency_p99", "ns", 9e4, "90 % of pdr")
FALL = Step(8, 4.0, 3.6, 0.001)
KNOWN = Acknowledgement("test_rate", "pdr", "run-09", "the new checksum costs that")


def test_a_series_is_a_subject_a_metric_a_load_and_a_machine() -> None:
    entries = [entry(number, PDR, BITS, P99, fingerprint={"cpu_model": "EPYC"}) for number in (2, 1)]
    entries.append(entry(3, PDR, fingerprint={"cpu_model": "Xeon"}))
    found = [(each.what, each.machine, [point.run.run for point in each.points]) for each in series_of(entries)]
    assert found == [
        ("latency_p99 at 90 % of pdr", 1, ["run-01", "run-02"]),
        ("pdr", 1, ["run-01", "run-02"]),
        ("pdr", 2, ["run-03"]),
    ]
    assert [machine.differs for machine in machines(entries)] == [(), ("cpu_model: EPYC then, Xeon now",)]


def test_a_machine_that_comes_back_goes_on_with_its_series() -> None:
    cpus = ("EPYC", "Xeon", "EPYC")
    entries = [entry(number, PDR, fingerprint={"cpu_model": cpu}) for number, cpu in enumerate(cpus, 1)]
    assert [(each.machine, len(each.points)) for each in series_of(entries)] == [(1, 2), (2, 1)]


def test_a_name_leaves_out_what_all_have_in_common() -> None:
    common = {**dict(LABELS), "profile": "gate", "flows": "1"}
    entries = [entry(1, PDR, labels=common), entry(2, PDR, labels={**common, "flows": "1000"})]
    one, many = sorted(series_of(entries), key=lambda each: len(each.name))
    assert (one.name, many.name) == ("throughput/test_rate phy2phy 64", "throughput/test_rate phy2phy 64 flows=1000")
    assert many.full_name == "throughput/test_rate phy2phy 64 flows=1000 profile=gate"
    assert many.is_about("phy2phy 64 flows=1000", "pdr")
    assert many.is_about("profile=gate")
    assert not many.is_about("pvp")
    assert not many.is_about("", "ndr")


@pytest.mark.parametrize(
    ("metric", "better"),
    [("pdr", HIGHER), ("latency_p99", LOWER), ("cycles_per_packet", LOWER), ("mirror_rate", HIGHER), ("own", None)],
)
def test_which_way_is_better(metric: str, better: str | None) -> None:
    assert metric_of(metric).better == better


@pytest.mark.parametrize(
    ("better", "direction", "counts"),
    [(HIGHER, ChangeMeaning.WORSE, True), (LOWER, ChangeMeaning.BETTER, False), (None, ChangeMeaning.CHANGED, False)],
)
def test_a_change_for_the_worse_counts(better: str | None, direction: ChangeMeaning, counts: bool) -> None:
    (change,) = changes(series([4.0] * 8 + [3.6] * 4), [FALL], better, [])
    assert (change.run, change.direction, change.counts) == ("run-09", direction, counts)


def test_a_change_that_was_mended_does_not_count() -> None:
    fall, rise = changes(series([4.0] * 8 + [3.6] * 4 + [4.0] * 4), [FALL, Step(12, 3.6, 3.98, 0.001)], HIGHER, [])
    assert fall.recovered
    assert not fall.counts
    assert rise.direction is ChangeMeaning.BETTER
    half, _ = changes(series([4.0] * 8 + [3.6] * 4 + [3.8] * 4), [FALL, Step(12, 3.6, 3.8, 0.001)], HIGHER, [])
    assert half.counts


@pytest.mark.parametrize(
    ("known", "acknowledged"),
    [
        (KNOWN, True),
        (replace(KNOWN, at="run-11"), True),
        (replace(KNOWN, at="run-12"), False),
        (replace(KNOWN, at="run-99"), False),
        (replace(KNOWN, metric="ndr"), False),
        (replace(KNOWN, test="pvp"), False),
    ],
)
def test_an_acknowledgement_is_about_one_change(known: Acknowledgement, acknowledged: bool) -> None:
    (change,) = changes(series([4.0] * 8 + [3.6] * 5), [FALL], HIGHER, [known])
    assert (change.acknowledged == known, change.counts) == (acknowledged, not acknowledged)


def test_a_further_fall_is_not_acknowledged_with_the_first() -> None:
    first, second = changes(
        series([4.0] * 8 + [3.6] * 2 + [3.0] * 4), [FALL, Step(10, 3.6, 3.0, 0.001)], HIGHER, [KNOWN]
    )
    assert (first.counts, second.counts) == (False, True)


def test_why_nothing_can_be_said() -> None:
    assert why_not(series([4.0] * 5)) == "too few runs: 5 of 6"
    assert why_not(series([4.0] * 9 + [0.0])) == "a value of 0 or below has no ratio"
    assert why_not(series([4.0] * 6)) == ""
