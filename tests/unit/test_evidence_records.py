"""What is written can be read back as the same objects, and matches the published schema."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_nfvperf.adapters.evidence import hdr
from pytest_nfvperf.adapters.evidence.reader import TestEvidence, evidence_schema, parse_line, schema_text
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.evidence.records import KINDS, RecordIds, RecordKind, make_record, trial_data
from pytest_nfvperf.model.fields import FORWARDING
from pytest_nfvperf.model.measure.ledger import FramePath, HopKind, Loss, PathStage, frame_path
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.streams import ConnectSpec, RequestSpec, StreamSpec
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from tests.examples import examples
from tests.sample_comparison import comparison_records
from tests.sample_run import SampleRun, small_run
from tests.sample_study import study_records
from tests.topologies import topologies

PUBLISHED = Path(__file__).parents[2] / "reports" / "schema" / "evidence.schema.json"

COUNT = st.integers(min_value=-(2**53), max_value=2**53)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
IMIX = st.builds(
    Imix,
    st.text(max_size=5),
    st.lists(st.tuples(st.integers(64, 9216), st.integers(1, 9)), min_size=1, max_size=3).map(tuple),
)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    """Histograms as a generator makes them: values are tops of 3-digit HdrHistogram buckets."""
    values = draw(st.dictionaries(st.integers(0, 10**12), st.integers(1, 10**9), max_size=30))
    exact = Histogram(tuple(sorted(values.items())), min(values, default=0), max(values, default=0), 9)
    return Histogram(coarse_histogram(exact, 3).counts, exact.min_ns, exact.max_ns, 3)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any valid value of a model type."""
    if kind in SPECIAL:
        return SPECIAL[kind]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return st.builds(kind, **{name: any_of(hint) for name, hint in typing.get_type_hints(kind).items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(arguments)
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        return st.one_of([any_of(argument) for argument in arguments])
    if typing.get_origin(kind) is tuple and arguments[-1] is Ellipsis:
        return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
    if typing.get_origin(kind) is tuple:
        return st.tuples(*[any_of(argument) for argument in arguments])
    if typing.get_origin(kind) is dict:
        return st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=2)
    return {
        Any: st.text(max_size=3),
        int: COUNT,
        float: FINITE,
        str: st.text(max_size=8),
        bool: st.booleans(),
        type(None): st.none(),
    }[kind]


SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    Histogram: histograms(),
    Imix: IMIX,
    Topology: topologies(),
    Traffic: st.builds(Traffic, frame_size=st.one_of(st.integers(64, 9216), IMIX), flows=st.integers(1, 1 << 24)),
    Tuning: st.builds(Tuning, emc_insert_inv_prob=st.none() | st.integers(0, 100), smc=st.none() | st.booleans()),
}
_CPUS = st.lists(st.integers(0, 8191), max_size=2).map(tuple)
SPECIAL[Dut] = st.builds(Dut, st.text(max_size=3) | st.none(), forwarding=st.none() | st.sampled_from(FORWARDING))
SPECIAL[CpuPlan] = st.builds(CpuPlan, _CPUS, _CPUS, _CPUS, _CPUS)
SPECIAL[TrialSpec] = st.builds(
    TrialSpec,
    SPECIAL[Traffic],
    st.integers(1, 10**9),
    st.floats(0.001, 1e6),
    st.lists(st.builds(Direction, st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=2).map(tuple),
)

SPECIAL[FramePath] = st.builds(
    frame_path,
    st.text(max_size=3),
    COUNT,
    st.lists(
        st.builds(
            PathStage,
            st.text(max_size=3),
            st.sampled_from(HopKind),
            COUNT,
            st.lists(st.builds(Loss, st.text(max_size=3), COUNT), max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=2,
    ),
)


SPECIAL[RequestSpec] = st.builds(
    RequestSpec, st.integers(14, 65_000), st.integers(1, 100), st.none() | st.integers(1, 10**6)
)

SPECIAL[ConnectSpec] = st.builds(ConnectSpec, st.integers(10, 25_000), st.integers(1, 100))

SPECIAL[StreamSpec] = st.builds(
    StreamSpec,
    streams=st.integers(1, 128),
    duration_s=st.floats(0.1, 100),
    direction=st.sampled_from(["forward", "reverse", "both"]),
)


def written_and_read(payload: Any) -> Any:
    """The payload after a trip through a line of evidence."""
    record = make_record(payload, id="x-0001", run="r", test="t", time_ns=1)
    return parse_line(json.dumps(record.to_json(), allow_nan=False)).data


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.__name__)
def test_every_payload_comes_back_as_it_was(kind: type) -> None:
    @settings(max_examples=examples(30), deadline=None)
    @given(any_of(kind))
    def check(payload: Any) -> None:
        assert written_and_read(payload) == payload

    check()


@settings(max_examples=examples(30), deadline=None)
@given(any_of(TrialResult))
def test_a_trial_result_comes_back_as_it_was(result: TrialResult) -> None:
    result = replace(result, windows=None)  # not kept as they are: tests/unit/test_searches_by_windows.py
    exact = {str(c.direction): c.latency for c in result.counts}
    data = written_and_read(trial_data(result, wall_s=1.0, encode=hdr.encode))
    assert data.result.lost == result.lost
    assert data.result.spec == result.spec
    assert data.result.invalid == result.invalid
    if len(exact) == len(result.counts):  # equal directions would share one name
        latency, kept = result.latency, hdr.exact_latency(data)
        assert (latency is None) == (kept is None)
        if latency is not None and kept is not None:
            assert (kept.counts, kept.min_ns, kept.max_ns) == (latency.counts, latency.min_ns, latency.max_ns)


def test_every_kind_of_record_has_a_payload() -> None:
    assert set(KINDS.values()) == set(RecordKind)


def test_the_reader_has_a_place_for_every_kind() -> None:
    collected = {each.name for each in dataclasses.fields(TestEvidence) if each.default_factory is dict}
    by_itself = {str(kind) for kind in RecordKind if not kind.collected_in}
    assert sorted(kind.collected_in for kind in RecordKind if kind.collected_in) == sorted(collected)
    assert by_itself == {"run", "test", "ledger", "test_end", "run_end"}


def test_text_is_not_taken_for_a_number() -> None:
    record = make_record(Outcome((), "mlrsearch", 64.0, 2), id="outcome-0001", run="r", test="", time_ns=1)
    line = record.to_json()
    line["data"]["directions"] = "2"
    with pytest.raises(ValidationError, match="directions"):
        parse_line(json.dumps(line))


def test_a_key_of_a_later_version_is_left_alone() -> None:
    record = make_record(Outcome((), "mlrsearch", 64.0, 2), id="outcome-0001", run="r", test="", time_ns=1)
    line = record.to_json()
    line["data"]["colour"] = "blue"
    assert parse_line(json.dumps(line)).data == Outcome((), "mlrsearch", 64.0, 2)


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == schema_text(), (
        "write it again: nfvperf schema evidence > reports/schema/evidence.schema.json"
    )


def test_every_record_of_a_run_matches_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(evidence_schema())
    seen = set()
    for record in [*small_run(), *study_records(), *comparison_records()]:
        validator.validate(json.loads(json.dumps(record.to_json())))
        seen.add(record.kind)
    assert seen == set(RecordKind)


def test_the_schema_refuses_what_is_not_evidence() -> None:
    validator = jsonschema.Draft202012Validator(evidence_schema())
    line = SampleRun().begin().to_json()
    del line["data"]["testbed"]
    assert not validator.is_valid(line)


@given(histograms())
@settings(max_examples=examples(50), deadline=None)
def test_a_histogram_survives_hdr_compression(histogram: Histogram) -> None:
    assert hdr.decode(hdr.encode(histogram)).counts == histogram.counts


@given(histograms())
@settings(max_examples=examples(50), deadline=None)
def test_thinning_keeps_the_count_and_moves_no_value_by_more_than_one_percent(histogram: Histogram) -> None:
    thin = coarse_histogram(histogram)
    assert thin.total == histogram.total
    for percentile in (1, 50, 99, 100):
        exact, kept = histogram.percentile_ns(percentile), thin.percentile_ns(percentile)
        if exact is not None and kept is not None:
            assert exact <= kept <= exact * 1.01 + 1


def test_a_latency_above_an_hour_is_refused() -> None:
    with pytest.raises(ValueError, match="above the 3600000000000 ns"):
        hdr.encode(Histogram(((10**13, 1),), 10**13, 10**13))


def test_ids_are_counted_by_kind_and_kept_apart_by_worker() -> None:
    ids = RecordIds()
    assert [ids.next(RecordKind.TRIAL), ids.next(RecordKind.VERDICT), ids.next(RecordKind.TRIAL)] == [
        "trial-0001",
        "verdict-0001",
        "trial-0002",
    ]
    assert RecordIds("gw1").next(RecordKind.TEST_END) == "gw1-test_end-0001"
