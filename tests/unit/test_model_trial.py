"""Trials, histograms and records: counts are kept, rates are computed, nothing is clamped."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.records import Record, RecordKind, plain
from pytest_nfvperf.model.measure.ledger import CounterDelta, CounterSnapshot, deltas
from pytest_nfvperf.model.topology.links import Crossing
from pytest_nfvperf.model.topology.ports import Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from tests.sample_trials import counts_of

ONE_WAY = Direction("p0", "p1")
OTHER_WAY = Direction("p1", "p0")


def spec(**fields):
    return TrialSpec(**({"traffic": Traffic(), "load_fps": 1000, "duration_s": 1.0, "directions": (ONE_WAY,)} | fields))


def counts(direction=ONE_WAY, *, sent=1000, received=1000, **fields):
    return counts_of(direction, sent=sent, received=received, **fields)


def result(*directions, invalid=()):
    return TrialResult(
        spec(directions=tuple(c.direction for c in directions) or (ONE_WAY,)), directions, RigHealth(), invalid
    )


@pytest.mark.parametrize("load", [0, -1])
def test_negative_and_zero_loads(load):
    with pytest.raises(ValueError, match=rf"^load must be at least 1 frame/s per direction, not {load}$"):
        spec(load_fps=load)


@pytest.mark.parametrize("duration", [0, -1.0, math.nan, math.inf])
def test_durations_that_are_none(duration):
    with pytest.raises(ValueError, match=rf"^duration must be above 0 s, not {duration}$"):
        spec(duration_s=duration)


def test_a_trial_goes_somewhere():
    with pytest.raises(ValueError, match=r"^a trial needs at least one direction$"):
        spec(directions=())


def test_sums_over_directions():
    trial = result(counts(refused=10, received=990), counts(OTHER_WAY, sent=500, received=500, elapsed_ns=5 * 10**8))
    assert (trial.intended, trial.offered, trial.sent, trial.received, trial.lost) == (1510, 1510, 1500, 1490, 20)
    assert trial.loss_ratio == pytest.approx(20 / 1510)
    assert trial.offered_fps == pytest.approx((1010 + 1000) / 2)
    assert trial.received_fps == pytest.approx((990 + 1000) / 2)


def test_refused_frames_are_the_dut_s_loss():
    assert counts(sent=900, refused=100, received=900).lost == 100


def test_more_received_than_sent_is_not_hidden():
    assert result(counts(received=1001)).lost == -1
    assert result(counts(received=1001)).loss_ratio < 0


def test_nothing_offered_is_no_ratio_and_no_time_no_rate():
    assert result(counts(sent=0, received=0)).loss_ratio is None
    assert result(counts(elapsed_ns=0)).offered_fps is None


def test_validity():
    reason = InvalidReason(Reason.SKIPPED_FRAMES, "1200 of 1,000,000")
    assert result(counts()).valid
    assert not result(counts(), invalid=(reason,)).valid
    assert str(reason) == "skipped_frames: 1200 of 1,000,000"


def test_latency_of_both_directions():
    one, other = Histogram(((100, 1),), 100, 100), Histogram(((100, 2), (300, 1)), 90, 280)
    merged = result(counts(latency=one), counts(OTHER_WAY, latency=other)).latency
    assert merged == Histogram(((100, 3), (300, 1)), 90, 280)
    assert result(counts()).latency is None


class TestHistogram:
    def test_percentiles_are_recorded_values(self):
        histogram = Histogram(tuple((value, 1) for value in range(1, 1001)), 1, 1000)
        assert [histogram.percentile_ns(p) for p in (0, 50, 99, 99.9, 100)] == [1, 500, 990, 999, 1000]

    def test_the_extremes_are_exact(self):
        histogram = Histogram(((1023, 2),), 1001, 1019)
        assert (histogram.percentile_ns(0), histogram.percentile_ns(100)) == (1019, 1019)

    def test_without_samples(self):
        assert Histogram((), 0, 0).percentile_ns(50) is None
        assert Histogram.merged([]) is None
        assert Histogram.merged([Histogram((), 0, 0)]) == Histogram((), 0, 0)

    @pytest.mark.parametrize("percentile", [-1, 100.1])
    def test_no_such_percentile(self, percentile):
        with pytest.raises(ValueError, match=rf"percentile must be 0\.\.100, not {percentile}"):
            Histogram(((1, 1),), 1, 1).percentile_ns(percentile)

    @given(st.dictionaries(st.integers(1, 10**9), st.integers(1, 50), min_size=1, max_size=20), st.floats(0, 100))
    def test_against_the_definition(self, buckets, percentile):
        """The smallest value at or below which that share of the samples lies."""
        histogram = Histogram(tuple(sorted(buckets.items())), min(buckets), max(buckets))
        value = histogram.percentile_ns(percentile)
        at_or_below = sum(count for bucket, count in buckets.items() if bucket <= value)
        below = sum(count for bucket, count in buckets.items() if bucket < value)
        need = histogram.total * percentile / 100
        assert value in buckets
        assert at_or_below >= need - 1e-6
        assert below < need + 1e-6 or below == 0

    @given(st.lists(st.dictionaries(st.integers(1, 100), st.integers(1, 9), min_size=1), min_size=1, max_size=4))
    def test_merging_keeps_every_sample(self, parts):
        histograms = [Histogram(tuple(sorted(part.items())), min(part), max(part)) for part in parts]
        merged = Histogram.merged(histograms)
        assert merged.total == sum(histogram.total for histogram in histograms)
        assert (merged.min_ns, merged.max_ns) == (min(map(min, parts)), max(map(max, parts)))


class TestTopology:
    P0 = Port("p0", "br0", PortRole.ENDPOINT, "02:00:00:00:00:01")
    P1 = Port("p1", "br0", PortRole.ENDPOINT, "02:00:00:00:00:02")
    VNF = Port("v0", "br0", PortRole.FORWARDER, "02:00:00:00:00:03")

    def build(self, *ports, bridges=("br0",), crossings=(), directions=()):
        return Topology("t", bridges, ports, crossings, directions)

    def test_a_port_used_twice(self):
        with pytest.raises(ValueError, match=r"^topology 't': port 'p0' is used twice$"):
            self.build(self.P0, self.P0)

    def test_an_unknown_bridge(self):
        with pytest.raises(ValueError, match="port 'p0' is on unknown bridge 'br0'"):
            self.build(self.P0, bridges=("br1",))

    def test_a_crossing_to_nowhere(self):
        with pytest.raises(ValueError, match="crossing uses 'p9', which is not a port of 'br0'"):
            self.build(self.P0, crossings=(Crossing("br0", "p0", "p9"),))

    def test_a_direction_from_a_vnf(self):
        with pytest.raises(ValueError, match="direction v0->p0 uses 'v0', not an endpoint"):
            self.build(self.P0, self.VNF, directions=(Direction("v0", "p0"),))

    def test_ports_by_name(self):
        topology = self.build(self.P0, self.P1, directions=(ONE_WAY, OTHER_WAY))
        assert topology.port("p1") is self.P1
        with pytest.raises(KeyError, match="topology 't' has no port 'p9'"):
            topology.port("p9")


def test_counters_that_both_snapshots_have():
    before = CounterSnapshot("ovs", 1, (("a", 5), ("b", 7), ("gone", 1)))
    after = CounterSnapshot("ovs", 2, (("a", 8), ("b", 6), ("new", 1)))
    assert deltas(before, after) == (CounterDelta("a", 3, False), CounterDelta("b", -1, True))


def test_a_record_is_one_line_of_json():
    trial = result(counts(latency=Histogram(((100, 1),), 100, 100)), invalid=(InvalidReason(Reason.BURST, "64"),))
    record = Record(RecordKind.TRIAL, "trial-1", "run", "test_x", 5, plain(trial))
    line = json.loads(json.dumps(record.to_json()))
    assert (line["schema"], line["kind"], line["id"], line["time_ns"]) == (3, "trial", "trial-1", 5)
    assert line["data"]["counts"][0]["latency"]["counts"] == [[100, 1]]
    assert line["data"]["invalid"] == [{"code": "burst", "detail": "64"}]
    assert line["data"]["spec"]["directions"] == [{"tx": "p0", "rx": "p1"}]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "wrong"),
        ({"key": "a.b"}, "a.b: wrong"),
        ({"file": "f", "key": "a"}, "f: a: wrong"),
        ({"file": "f", "key": "a", "line": 3}, "f:3: a: wrong"),
        ({"line": 3}, "wrong"),
    ],
)
def test_a_config_error_says_where(where, text):
    assert str(ConfigError("wrong", **where)) == text


def test_a_testbed_error_shows_its_evidence():
    error = TestbedError("ovs-vswitchd died", evidence={"log": "last line\n", "stderr": ""})
    assert str(error) == "ovs-vswitchd died\n--- log ---\nlast line"
