"""One sender and several receivers: each is counted, simulated and by the engine."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.generators.embedded.trial_results import (
    trial_result,
)
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.generators.frames import streams
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, streams_of
from pytest_nfvperf.ports.generator import GeneratorPort

TO_MANY = (Direction("p0", "p1"), Direction("p0", "p2"))
THREE = {name: GeneratorPort(name, "", f"02:00:00:00:00:0{end}") for end, name in enumerate(("p0", "p1", "p2"))}
GROUP = Traffic(dst_mac="01:00:5e:00:00:01", dst_ip="224.0.0.1", bidirectional=False)


def test_one_stream_goes_to_all_receivers_of_a_sender():
    (made,) = streams(streams_of(GROUP, TO_MANY, 1000, 100), TO_MANY, THREE)
    assert (made["tx"], made["rx"], made["fps"], made["frames"]) == ("p0", ["p1", "p2"], 1000, 100)
    both = (Direction("p0", "p1"), Direction("p1", "p0"))
    assert [each["rx"] for each in streams(streams_of(Traffic(), both, 1000, 100), both, THREE)] == ["p1", "p0"]


def test_two_directions_of_a_sender_to_one_address_are_refused():
    with pytest.raises(
        ConfigError, match="two directions send on port 'p0' to one address; give each direction a port"
    ):
        streams(streams_of(Traffic(bidirectional=False), TO_MANY, 1000, 100), TO_MANY, THREE)


def test_each_receiver_is_counted():
    made = FakeGenerator(1e9, loss_ratio=0.01)
    made.attach(list(THREE.values()))
    result = made.run_trial(TrialSpec(GROUP, 10_000, 1.0, TO_MANY))
    assert [(str(each.direction), each.offered, each.lost) for each in result.counts] == [
        ("p0->p1", 10_000, 100),
        ("p0->p2", 10_000, 100),
    ]


def test_the_engine_s_counts_of_each_receiver_are_those_of_its_direction():
    row = dict.fromkeys(("refused", "skipped", "fell_behind", "duplicated", "out_of_order", "beyond_window"), 0)
    row |= {"intended": 100, "sent": 100, "sent_bytes": 6400, "elapsed_ns": 10**9, "longest_lateness_ns": 0}
    row |= {
        "misdirected": {"p0": 5},
        "largest_burst": 1,
        "corrupted": 0,
        "received": 100,
        "received_bytes": 6400,
        "highest_seq": 100,
    }
    row["receivers"] = {"p1": {}, "p2": {"received": 90, "received_bytes": 5760, "highest_seq": 99}}
    foreign = {"foreign": {"other": 0}}
    worker = {"longest_poll_gap_ns": 1, "preemptions": 0, "elapsed_ns": 1, "busy_ns": 1}
    answer = {"streams": [row], "ports": {"p1": foreign, "p2": foreign}, "workers": [worker]}
    spec = TrialSpec(GROUP, 100, 1.0, TO_MANY, latency=False)
    result = trial_result(spec, answer, THREE, dict.fromkeys(THREE, False))
    assert [(str(each.direction), each.received) for each in result.counts] == [("p0->p1", 100), ("p0->p2", 90)]
    assert (result.offered, result.lost, result.valid) == (200, 10, True)
    assert [each.elsewhere for each in result.counts] == [(("p0", 5),), ()], "a stream's, and counted once"


def test_classes_to_many_are_counted_at_each_receiver():
    made = FakeGenerator(1e9, class_loss={"b": 0.1})
    made.attach(list(THREE.values()))
    mix = TrafficMix(a=(GROUP, 0.5), b=(GROUP, 0.5))
    result = made.run_trial(TrialSpec(mix, 1000, 1.0, TO_MANY))
    assert {each.name: [count.lost for count in each.counts] for each in result.classes} == {"a": [0, 0], "b": [50, 50]}
    assert [each.offered for each in result.counts] == [1000, 1000]
