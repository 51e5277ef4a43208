"""Studies whose subjects differ in what they are sent, on a simulated rig."""

from __future__ import annotations

from itertools import groupby

import pytest
from simulated_bench import Bench, OneBench

from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic


def test_each_subject_can_have_a_traffic_of_its_own():
    bench = Bench(lambda _: 4e6)
    sizes = [Subject(str(size), bridge_chain(1), traffic=Traffic(frame_size=size)) for size in (64, 256)]

    small, large = bench.study().forwarding_rate("frame_size", sizes, Traffic())

    assert [(each.label["frame_size"], each.mean_frame_size) for each in (small, large)] == [("64", 64), ("256", 256)]
    assert large.relative("forwarding_rate").baseline == (("frame_size", "64"),)
    trials = [record.data["result"]["spec"] for record in bench.sink.records if record.kind == "trial"]
    assert {spec["traffic"].get("frame_size", 64) for spec in trials} == {64, 256}


def test_side_by_side_each_traffic_is_first_sent_to_the_baseline():
    bench = OneBench(lambda _: 4e6)
    sizes = [Subject(str(size), bridge_chain(1), traffic=Traffic(frame_size=size)) for size in (64, 256)]

    small, large = bench.study().forwarding_rate("frame_size", sizes, Traffic())

    trials = [record.data["result"]["spec"] for record in bench.sink.records if record.kind == "trial"]
    begun = [spec["traffic"].get("frame_size", 64) for spec in trials[:2]]
    assert (begun, bench.ran[:2]) == ([64, 256], [None, 0]), "ceilings are read while no other DUT runs"
    assert [(each.label["frame_size"], each.mean_frame_size) for each in (small, large)] == [("64", 64), ("256", 256)]
    assert large.relative("forwarding_rate").ratio == pytest.approx(1.0, rel=0.02)


def test_after_the_first_block_the_baseline_is_built_when_it_is_first_read_like_all_others():
    bench = OneBench(lambda _: 4e6)
    bench.study().forwarding_rate("bridges", [Subject(str(number), bridge_chain(1)) for number in (1, 2)], Traffic())
    blocks = [list(ran) for begins, ran in groupby(bench.ran, lambda number: number is None) if not begins]
    with_copy_of_the_baseline = 3
    assert {len(block) for block in blocks[1:]} == {with_copy_of_the_baseline * QUICK.comparison_turns}
    assert {block[0] for block in blocks[1:]} == {0, 1, 2}


def test_a_figure_with_one_traffic_for_all_refuses_another():
    ends = bridge_chain(1, ends="namespace")
    subjects = [Subject("a", ends), Subject("b", ends, traffic=Traffic(frame_size=256))]
    with pytest.raises(ValueError, match="has one traffic for all: the subject 'b' cannot have its own"):
        Bench(lambda _: 4e6).study().tcp_throughput("kind", subjects)
