"""How much room a trial takes: the steps of a search are short, histograms stand once, and old files are still read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.evidence import hdr
from pytest_nfvperf.adapters.evidence.reader import parse_line, read_run
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.evidence.records import STEPS, LedgerData, TrialData, make_record, plain, trial_data
from pytest_nfvperf.model.measure.ledger import CounterDelta, LedgerLine, ledger_of
from pytest_nfvperf.model.measure.outcome import Cost
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram, compact_histogram
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Arrivals, RigHealth, TrialSpec, VnfCounts
from tests.sample_run import SampleRun, small_run, write_sample
from tests.sample_trials import DIRECTIONS, SampleTrials, latency_at

NODE = "suites/throughput/test_vnfs.py::test_ndr_pdr_pvvp[macswap-1518-10000 flows]"
COST = Cost("trial-0262", 1273.123456789012, 0.999123456789, 1.97123456789, 3.0012345678901, 3.0101234567, 0.0312345678)


def a_trial(purpose: str) -> tuple[TrialResult, TrialData]:
    """A lossy one through two VNFs, with all that the embedded generator tells; and its record's payload."""
    sample = SampleTrials()
    spec = TrialSpec(Traffic(1518, flows=10_000), 4_123_456, 3.0, DIRECTIONS, purpose=purpose)
    counts = tuple(
        replace(
            sample.direction_counts(spec, d, 4.0e6, 12_345), arrivals=Arrivals(1, 2_999_999_999, 1_234_567, 9_876_543)
        )
        for d in DIRECTIONS
    )
    vnfs = tuple(VnfCounts(f"v{n}a", f"v{n}b", 12_345_678, 12_345_678, 12_345, 0) for n in (1, 2))
    health = RigHealth(4_100_000, 5_812_345, 32, 12, 4_000_000, 0.8312345)
    result = TrialResult(
        spec, counts, health, vnfs=vnfs, started_ns=123_456_789_012_345, placement=CpuDistance(210, 215)
    )
    moved = tuple(CounterDelta(f"dpdkvhost{n}.ovs_tx_failure_drops", 12_345_678, False) for n in range(60))
    ledger = ledger_of([sample.path(count) for count in counts], moved)
    return result, trial_data(result, wall_s=3.1412345678901, encode=hdr.encode, ledger=ledger, cost=COST)


def written(payload: TrialData) -> str:
    record = make_record(payload, id="gw0-trial-0262", run="20261122-055033-24476", test=NODE, time_ns=17 * 10**17)
    return json.dumps(record.to_json(), ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("purpose", sorted(STEPS))
def test_a_step_of_a_search_takes_2_kb_at_most(purpose):
    result, payload = a_trial(purpose)

    line = written(payload)

    assert len(line) <= 2048
    assert payload.hdr == {}
    assert {count.latency for count in payload.result.counts} == {None}
    read = parse_line(line).data
    assert read == payload
    assert (read.result.lost, read.result.spec) == (result.lost, result.spec)
    assert LedgerLine("p1 tx", "ovs_tx_failure_drops", payload.ledger.lines[1].frames) in read.ledger.lines


def test_a_histogram_stands_once_where_latency_was_asked_for():
    result, payload = a_trial("latency at 50 % of pdr")

    assert set(payload.hdr) == {"p0->p1", "p0->p1 raw", "p1->p0", "p1->p0 raw"}
    assert max(len(count.latency.counts) for count in payload.result.counts) <= 24
    exact = hdr.exact_latency(parse_line(written(payload)).data)
    assert exact.counts == result.latency.counts
    assert len(json.dumps(json.loads(written(payload))["data"]["result"]["counts"])) < 3_000


def test_a_confirmation_has_percentiles_and_its_whole_ledger_but_no_exact_histogram():
    result, payload = a_trial("confirmation of ndr")

    assert payload.hdr == {}
    assert payload.ledger.paths
    shown = payload.result.counts[0].latency
    assert shown.percentile_ns(99) == result.counts[0].latency.percentile_ns(99)


@pytest.mark.parametrize("percentile", [0, 1, 50, 90, 99, 99.9, 99.99, 100])
def test_a_summary_has_the_exact_percentiles_that_people_look_at(percentile):
    histogram = latency_at(90, 0)

    short = compact_histogram(histogram)

    if percentile:
        assert short.percentile_ns(percentile) == histogram.percentile_ns(percentile)
    assert (short.total, short.min_ns, short.max_ns) == (histogram.total, histogram.min_ns, histogram.max_ns)
    assert len(short.counts) <= 24


def test_a_summary_of_nothing_is_nothing():
    assert compact_histogram(Histogram((), 0, 0)) == Histogram((), 0, 0)


def test_a_record_from_before_is_read():
    """All keys are there, with histograms in each trial, thinned and exact."""
    result, _ = a_trial("search")
    counts = tuple(
        replace(c, latency=coarse_histogram(c.latency), latency_raw=coarse_histogram(c.latency_raw))
        for c in result.counts
    )
    before = TrialData(
        replace(result, counts=counts), 3.0, None, COST, None, {"p0->p1": hdr.encode(result.counts[0].latency)}
    )
    line = make_record(before, id="trial-0001", run="r", test=NODE, time_ns=1).to_json() | {"data": plain(before)}

    assert parse_line(json.dumps(line)).data == before


def test_the_whole_ledger_of_a_step_comes_back_into_its_trial(tmp_path):
    records = small_run()
    write_sample(tmp_path, records)

    run = read_run(tmp_path)

    named = [record.data["trial"] for record in records if record.kind == "ledger"]
    assert named
    for trial in named:
        assert run.trials[trial].ledger.paths
        assert [test.trials[trial] for test in run.tests.values() if trial in test.trials] == [run.trials[trial]]
    steps = [key for key, trial in run.trials.items() if trial.result.spec.purpose in STEPS and key not in named]
    assert {run.trials[key].ledger.paths for key in steps} == {()}


def test_a_ledger_without_its_trial_is_left_alone(tmp_path):
    sample = SampleRun()
    sample.begin()
    sample.add(LedgerData("trial-0099", ledger_of([])))
    write_sample(tmp_path, sample.records)

    assert read_run(tmp_path).trials == {}
