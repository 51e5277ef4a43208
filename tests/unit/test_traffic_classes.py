"""Several classes of traffic at once: shares, streams, counts, verdicts and searches by class."""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_bench import CEILING, Bench

from pytest_nfvperf.adapters.evidence.hdr import encode
from pytest_nfvperf.adapters.evidence.reader import conclude, parse_line, read_run
from pytest_nfvperf.adapters.generators.checks import check_spec
from pytest_nfvperf.adapters.generators.embedded.trial_results import (
    EngineTrial,
    with_unfollowed,
)
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.generators.frames import intended_frames, streams
from pytest_nfvperf.adapters.report.charts import loss_chart
from pytest_nfvperf.adapters.report.datasheet import render_datasheet
from pytest_nfvperf.adapters.report.figures import class_figures
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.junit import junit_properties
from pytest_nfvperf.adapters.report.markdown import markdown
from pytest_nfvperf.adapters.report.summary_table import run_table
from pytest_nfvperf.adapters.report.texts import figures_text
from pytest_nfvperf.config.sla_file import load_sla, parse_limit
from pytest_nfvperf.features.export import export
from pytest_nfvperf.features.history.series import measured
from pytest_nfvperf.features.routing.convergence import Convergence
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.measurements import LoadCost, Subject
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.soak import Soaker, find_loads
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, InconclusiveError
from pytest_nfvperf.model.evidence.records import Cause, TestData, TestEndData, make_record, trial_data
from pytest_nfvperf.model.measure.bounds import class_loss_figures
from pytest_nfvperf.model.measure.ledger import FramePath, Hop, HopKind, ledger_of, ledger_text, with_classes
from pytest_nfvperf.model.measure.outcome import SearchStatus
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain, phy2phy
from pytest_nfvperf.model.traffic.mix import TrafficMix, class_streams, classes_of, least_load_fps, shares
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import (
    Direction,
    TrialSpec,
    streams_of,
)
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure, figures_by_subject
from tests.chart_rows import legend, rows
from tests.sample_run import run_data

ROOT = Path(__file__).parents[2]
BOTH = (Direction("p0", "p1"), Direction("p1", "p0"))
PORTS = {name: GeneratorPort(name, "", f"02:00:00:00:00:0{end}") for end, name in enumerate(("p0", "p1"))}
FOUR = TrafficMix(
    voice=(Traffic(frame_size=128, vlan=10), "10 %"),
    video=(Traffic(frame_size=512, vlan=20), "20 %"),
    bulk=(Traffic(frame_size=1518, vlan=30), "60 %"),
    rest=(Traffic(frame_size=64, vlan=40), "10 %"),
)
VOICE_AND_BULK = TrafficMix(voice=(Traffic(frame_size=128), "10 %"), bulk=(Traffic(frame_size=1518), "90 %"))


def generator(capacity_fps: float = 1e9, **settings) -> FakeGenerator:
    made = FakeGenerator(capacity_fps, **settings)
    made.attach(list(PORTS.values()))
    return made


# What can be written.


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "TrafficMix(): 0 classes, and 1 to 8 can be sent"),
        ({f"c{n}": (Traffic(), 1 / 9) for n in range(9)}, "TrafficMix(): 9 classes, and 1 to 8 can be sent"),
        (
            {"a": (Traffic(), "40 %"), "b": (Traffic(), "50 %")},
            "the shares of direction forward add up to 90 %, not 100 %",
        ),
        ({"a": (Traffic(), "40 %"), "b": (Traffic(), 0.7)}, "add up to 110 %, not 100 % (a 40 %, b 70 %)"),
        ({"a": (Traffic(bidirectional=False), 0.5)}, "TrafficMix(): the shares add up to 50 %, not 100 % (a 50 %)"),
        ({"a": (Traffic(), 1.0, "forward"), "b": (Traffic(), 0.1, "reverse")}, "of direction reverse add up to 10 %"),
        ({"a": (Traffic(), 10)}, "the share of a is 10: write '10 %'"),
        (
            {"a": (Traffic(), "ten")},
            "the share of a is 'ten': write a share of the load, such as '10 %' or 0.1, or a fixed",
        ),
        ({"a": (Traffic(), "0 %")}, "the share of a is '0 %': write a share of the load"),
        ({"a": (Traffic(), 1.0, "up")}, "a is sent 'up': write one of both, forward, reverse"),
        ({"a": Traffic()}, "write (traffic, share)"),
        ({"a": (64, 1.0)}, "a sends 64: write a Traffic, such as Traffic(frame_size=64)"),
    ],
)
def test_a_mix_that_cannot_be_sent_is_refused_with_what_to_write(classes, message):
    with pytest.raises(ArgumentError) as refused:
        TrafficMix(**classes)
    assert message in str(refused.value)


def test_a_mix_has_what_measuring_needs_of_a_traffic():
    assert VOICE_AND_BULK.mean_frame_size == pytest.approx(0.1 * 128 + 0.9 * 1518)
    assert VOICE_AND_BULK.line_rate_fps(10e9) == pytest.approx(10e9 / ((0.1 * 148 + 0.9 * 1538) * 8))
    assert VOICE_AND_BULK.bits_per_second(1000) == pytest.approx(1000 * VOICE_AND_BULK.mean_frame_size * 8)
    assert (FOUR.largest_frame_size, FOUR.combinations, FOUR.bidirectional) == (1518, 4, True)
    assert (VOICE_AND_BULK.frame_label, VOICE_AND_BULK.label, VOICE_AND_BULK.headers_label) == (
        *("128+1518", "voice+bulk"),
        None,
    )
    assert {each.traffic.ip_version for each in VOICE_AND_BULK.over_ipv6().classes} == {6}
    assert [each.name for each in classes_of(Traffic())] == [""]
    assert pickle.loads(pickle.dumps(FOUR)) == FOUR
    assert hash(FOUR) != hash(VOICE_AND_BULK)
    with pytest.raises(ConfigError, match="'vioce' is no class, did you mean 'voice'"):
        _ = FOUR["vioce"]


def test_thirds_add_up():
    assert TrafficMix(**{name: (Traffic(), 1 / 3) for name in "abc"}).label == "a+b+c"


def test_a_fixed_load_stays_whatever_the_load_is():
    mix = TrafficMix(voice=(Traffic(frame_size=128), "100 kpps"), bulk=(Traffic(frame_size=1518), "100 %"))
    for load in (150_000, 4_000_000):
        rates = {each.sent.name: each.fps for each in class_streams(mix, [False], load, load)}
        assert rates == {"voice": 100_000, "bulk": load - 100_000}
    full = mix.line_rate_fps(10e9)
    assert 100_000 * 148 * 8 + (full - 100_000) * 1538 * 8 == pytest.approx(10e9)
    with pytest.raises(ConfigError, match=r"no more than the fixed loads of voice \(100 kpps\)"):
        class_streams(mix, [False], 90_000, 90_000)


# What is sent.


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
    st.integers(1000, 10**9),
    st.integers(1, 10**7),
)
def test_rates_and_frames_of_the_classes_add_up_to_the_load_exactly(weights, load_fps, frames):
    total = sum(weights)
    mix = TrafficMix(**{f"c{at}": (Traffic(), weight / total) for at, weight in enumerate(weights)})
    try:
        made = class_streams(mix, [False, True], load_fps, frames)
    except ConfigError as error:
        assert "use a higher load or a longer duration" in str(error)  # noqa: PT017
        return
    for at in (0, 1):
        own = [stream for stream in made if stream.direction == at]
        assert (sum(each.fps for each in own), sum(each.frames for each in own)) == (load_fps, frames)
        for each in own:
            assert abs(each.fps - load_fps * each.sent.share) < 1
            assert abs(each.frames / frames - each.fps / load_fps) < 1 / frames + 1e-12


def test_shares_give_the_rest_to_the_largest_remainders():
    assert shares(10, [1, 1, 1]) == [4, 3, 3]
    assert sum(shares(12345, [7, 4, 1])) == 12345


def test_each_class_is_a_stream_in_each_direction_in_which_it_is_sent():
    mix = TrafficMix(
        both=(Traffic(vlan=1), "50 %"),
        down=(Traffic(vlan=2), "50 %", "forward"),
        up=(Traffic(vlan=3), "50 %", "reverse"),
    )
    made = streams(streams_of(mix, BOTH, 1000, 100), BOTH, PORTS)
    assert [(each["tx"], each["fps"], each["frames"], each["templates"][0][24:32]) for each in made] == [
        ("p0", 500, 50, "81000001"),
        ("p0", 500, 50, "81000002"),
        ("p1", 500, 50, "81000001"),
        ("p1", 500, 50, "81000003"),
    ]
    learned = streams(streams_of(mix, BOTH, 1000, 10, learning=True), BOTH, PORTS)
    assert [(each["tx"], each["frames"]) for each in learned] == [("p0", 10)] * 3 + [("p1", 10)] * 3


def test_a_traffic_is_sent_as_ever():
    (one, back) = streams(streams_of(Traffic(), BOTH, 1000, 100), BOTH, PORTS)
    assert (one["tx"], one["fps"], one["frames"], back["tx"]) == ("p0", 1000, 100, "p1")


def test_a_class_that_is_too_large_for_a_port_is_refused_before_anything_is_sent():
    mix = TrafficMix(small=(Traffic(), 0.5), jumbo=(Traffic(frame_size=9000), 0.5))
    with pytest.raises(ConfigError, match="frames of 9000 bytes do not fit port 'p0'"):
        generator().run_trial(TrialSpec(mix, 1000, 1.0, BOTH))


def test_more_streams_than_the_engine_has_are_refused():
    ways = tuple(Direction(f"a{n}", f"b{n}") for n in range(9))
    ports = {end: GeneratorPort(end, "", "02:00:00:00:00:01") for way in ways for end in (way.tx, way.rx)}
    mix = TrafficMix(**{f"c{n}": (Traffic(bidirectional=False), 1 / 8) for n in range(8)})
    with pytest.raises(ConfigError, match="8 classes in 9 directions are 72 streams, and 64 can be sent at once"):
        check_spec(ports, TrialSpec(mix, 1000, 1.0, ways))


# What is counted.


def test_the_counts_of_the_classes_add_up_and_only_the_class_that_loses_has_lost():
    result = generator(class_loss={"video": 0.01}).run_trial(TrialSpec(FOUR, 100_000, 1.0, BOTH))
    assert {each.name: (each.offered, each.lost) for each in result.classes} == {
        "voice": (20_000, 0),
        "video": (40_000, 400),
        "bulk": (120_000, 0),
        "rest": (20_000, 0),
    }
    assert (result.offered, result.lost) == (200_000, 400)
    for at in (0, 1):
        own = [each.counts[at] for each in result.classes]
        for name in ("intended", "sent", "received", "sent_bytes", "received_bytes"):
            assert getattr(result.counts[at], name) == sum(getattr(each, name) for each in own)
        assert result.counts[at].latency.total == sum(each.latency.total for each in own)
    assert result.of_class("video").loss_ratio == pytest.approx(0.01)


def ledger_of_trial(result):
    paths = [
        FramePath(str(each.direction), (Hop("br0", HopKind.DATAPATH, each.offered, each.received),))
        for each in result.counts
    ]
    return with_classes(ledger_of(paths), result)


def test_the_ledger_closes_as_a_whole_and_has_a_row_for_each_class():
    ledger = ledger_of_trial(generator(class_loss={"video": 0.01}).run_trial(TrialSpec(FOUR, 100_000, 1.0, BOTH)))
    assert sum(each.lost for each in ledger.classes) == ledger.lost == 400
    assert "  video  p0 -> p1: 20,000 offered, 19,800 received, 200 lost" in ledger_text(ledger).splitlines()
    plain = generator(loss_ratio=0.01).run_trial(TrialSpec(Traffic(), 100_000, 1.0, BOTH))
    assert "by class" not in ledger_text(ledger_of_trial(plain))


@pytest.mark.parametrize("purpose", ["search", "fixed load"])
def test_evidence_has_the_classes_and_is_read_back(purpose):
    result = generator(class_loss={"video": 0.01}).run_trial(TrialSpec(FOUR, 100_000, 1.0, BOTH, purpose=purpose))
    data = trial_data(result, wall_s=1.0, encode=encode, ledger=ledger_of_trial(result))
    record = make_record(data, id="trial-0001", run="r", test="t", time_ns=1)
    again = parse_line(json.dumps(record.to_json())).data
    assert again == data
    assert again.result.spec.traffic == FOUR
    assert [each.lost for each in again.result.classes] == [0, 400, 0, 0]
    assert ("p0->p1 of video" in data.hdr) == (purpose == "fixed load")


def test_evidence_of_one_traffic_has_no_word_of_classes():
    result = generator().run_trial(TrialSpec(Traffic(), 1000, 1.0, BOTH))
    record = make_record(trial_data(result, wall_s=1.0, encode=None), id="t", run="r", test="t", time_ns=1)
    assert "class" not in json.dumps(record.to_json())


# What is judged and searched.


class Rig:
    """A simulated rig with searches on it."""

    def __init__(self, capacity_fps: float, **settings) -> None:
        self.bench = Bench(lambda _: capacity_fps, noise=0.0, **settings)
        self.live = self.bench.redeploy(phy2phy(), TESTBED_DUT, quiet=True)
        self.search = Search(QUICK, {"suite": "mix"}, lambda *_: Limits(CEILING, None), lambda _: 0.0)

    def check(self, where, require):
        rule = Rule(
            tuple((name, (value,)) for name, value in where.items()),
            tuple(
                (metric, parse_limit(metric, *(text if isinstance(text, tuple) else (text,))))
                for metric, text in require.items()
            ),
            "sla.yaml:3: rules[0]",
        )
        return SlaCheck([rule], MeasuredSubjects(), self.bench.context.recorder, lambda _: None)


def test_loss_at_a_load_is_judged_by_class_and_the_failure_names_the_class_and_the_frames():
    rig = Rig(5e6, class_loss={"video": 0.01})
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    assert outcome.label["classes"] == "voice+video+bulk+rest"
    for name in ("voice", "bulk", "rest"):
        rig.check({"class": name}, {"loss_ratio": "<= 0", "lost_frames": "<= 0"}).check(outcome)
    with pytest.raises(SlaFailure) as failed:
        rig.check({"class": "video"}, {"lost_frames": "<= 0"}).check(outcome)
    assert "class video: lost_frames <= 0" in str(failed.value)
    assert "4,000 frames" in str(failed.value)
    assert "class video: 4,000 lost of 400,000" in " ".join(str(failed.value).split())
    with pytest.raises(SlaFailure, match="4,000 frames"):
        rig.check({}, {"lost_frames": "<= 0"}).check(outcome)  # all traffic: figures without the label


def test_a_rule_on_every_class_is_judged_on_each():
    rig = Rig(5e6, class_loss={"video": 0.01})
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    rule = Rule((("class", ("*",)),), (("lost_frames", parse_limit("lost_frames", "<= 0")),), "s")
    verdicts = judge([rule], outcome.label, outcome.figures, lambda _: None)
    assert [dict(each.subject)["class"] for each in verdicts] == ["voice", "video", "bulk", "rest"]
    assert [each.judgement for each in verdicts] == [Judgement.PASS, Judgement.FAIL, Judgement.PASS, Judgement.PASS]


def test_a_misspelt_class_does_not_look_like_a_pass():
    rig = Rig(5e6)
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    with pytest.raises(SlaFailure) as failed:
        rig.check({"class": "vioce"}, {"lost_frames": "<= 0"}).check(outcome)
    text = " ".join(str(failed.value).split())
    assert "there is no class vioce here; this traffic has the classes voice, video, bulk, rest" in text


def test_a_class_is_compared_with_another():
    rig = Rig(5e6, class_loss={"video": 0.02, "bulk": 0.01})
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    rig.check({"class": "bulk"}, {"loss_ratio": "<= 50 % of {class: video}"}).check(outcome)
    with pytest.raises(SlaFailure, match="200 %"):
        rig.check({"class": "video"}, {"loss_ratio": "<= 150 % of {class: bulk}"}).check(outcome)


def test_a_rule_about_a_class_matches_tests_before_they_show_their_classes():
    limit = (("lost_frames", parse_limit("lost_frames", "<= 0")),)
    rule = Rule((("class", ("voice",)), ("suite", ("mix",))), limit, "a")
    assert not rule.matches({"suite": "mix"})
    assert rule.without_class().matches({"suite": "mix"})
    assert not rule.without_class().matches({"suite": "other"})


def test_latency_of_each_class_is_a_figure():
    rig = Rig(5e6)
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    seen = [each for each in outcome.figures if each.metric == "latency_p99"]
    assert [each.of_class for each in seen] == ["", "voice", "video", "bulk", "rest"]


def test_a_search_raises_all_classes_in_their_shares():
    rig = Rig(5e6)
    outcome = rig.search.ndr_pdr(rig.live, VOICE_AND_BULK)
    ndr = outcome.figure("ndr", "pps")
    assert ndr.value == pytest.approx(5e6, rel=0.02)
    parts = {each.of_class: each.value for each in outcome.figures if (each.metric, each.unit) == ("ndr", "pps")}
    assert parts == {"": ndr.value, "voice": pytest.approx(ndr.value * 0.1), "bulk": pytest.approx(ndr.value * 0.9)}
    bits = {each.of_class: each.value for each in outcome.figures if (each.metric, each.unit) == ("ndr", "bps")}
    assert bits[""] == pytest.approx(bits["voice"] + bits["bulk"])
    rig.check({"class": "voice"}, {"loss_ratio": ("<= 0", "100 % of ndr")}).check(outcome)


@pytest.mark.parametrize("voice", ["10 %", "900 kpps"])
def test_a_search_raises_one_class_while_the_others_stay_fixed(voice):
    rig = Rig(5e6)
    mix = TrafficMix(voice=(Traffic(frame_size=128), voice), bulk=(Traffic(), 0.9 if voice == "10 %" else 1.0))
    outcome = rig.search.throughput(rig.live, mix, raise_only="bulk")
    assert outcome.label["raised"] == "bulk"
    figures = {e.of_class: e.value for e in outcome.figures if (e.metric, e.unit) == ("throughput", "pps")}
    assert figures["voice"] == 900_000  # 10 % of the ceiling, 9 Mpps
    assert figures["bulk"] == pytest.approx(5e6 - 900_000, rel=0.02)
    rates = {
        each.fps for spec in rig.bench.generator.specs for each in spec.streams(10**6) if each.sent.name == "voice"
    }
    assert rates == {900_000}


def test_a_goal_can_be_on_one_class_whatever_the_others_lose():
    rig = Rig(3e6, served_first=("voice",))
    half = TrafficMix(voice=(Traffic(), "50 %"), bulk=(Traffic(), "50 %"))
    whole = rig.search.throughput(rig.live, half)
    voice = rig.search.throughput(rig.live, half, judge_only="voice")
    assert whole.figure("throughput", "pps").value == pytest.approx(3e6, rel=0.02)
    assert voice.figure("throughput", "pps").value == pytest.approx(6e6, rel=0.02)
    assert (voice.label["judged"], voice.goals[0].goal.traffic_class) == ("voice", "voice")


@pytest.mark.parametrize("queues", [True, False])
def test_the_suite_s_own_limits_of_a_class_are_judged(queues):
    rig = Rig(3e6, served_first=("voice",) if queues else ())
    outcome = rig.search.ndr_pdr(rig.live, VOICE_AND_BULK, judge_only="voice")
    labels = {**outcome.label, "test": "test_voice_under_overload"}
    sla = load_sla(ROOT / "suites/throughput/sla.yaml")
    found = judge(sla.rules, labels, outcome.figures, lambda _: None)
    assert [each.requirement for each in found] == [
        "class voice: loss_ratio <= 0 at 100 % of ndr",
        "class voice: ndr >= 0.02 Mpps",
    ]
    assert {each.judgement for each in found} == {Judgement.PASS}
    ndr = outcome.figure("ndr", "pps").value
    assert ndr > 8e6 if queues else ndr == pytest.approx(3e6, rel=0.02)


@pytest.mark.parametrize(
    ("traffic", "arguments", "message"),
    [
        (
            Traffic(),
            {"raise_only": "bulk"},
            "raise_only names a class of a TrafficMix, and this traffic has no classes",
        ),
        (VOICE_AND_BULK, {"judge_only": "bluk"}, "'bluk' is no class, did you mean 'bulk'"),
        (
            TrafficMix(voice=(Traffic(), "1 kpps"), bulk=(Traffic(), 1.0)),
            {"raise_only": "voice"},
            "class 'voice' has a fixed load of 1.00 kpps: give it a share to raise it",
        ),
    ],
)
def test_what_no_search_can_raise_or_judge_is_refused(traffic, arguments, message):
    rig = Rig(5e6)
    with pytest.raises((ArgumentError, ConfigError)) as refused:
        rig.search.ndr_pdr(rig.live, traffic, **arguments)
    assert message in str(refused.value)
    assert not rig.bench.generator.specs


@pytest.mark.parametrize("call", ["ndr_pdr", "throughput", "loss_curve", "back_to_back"])
def test_a_traffic_that_a_port_cannot_carry_is_refused_by_the_call_as_the_author_wrote_it(call):
    rig = Rig(5e6)
    mix = TrafficMix(small=(Traffic(), 0.5), jumbo=(Traffic(frame_size=9000), 0.5))
    with pytest.raises(ArgumentError, match=rf"^search\.{call}\(\): port 'p0' of topology 'phy2phy': frame size 9000 "):
        getattr(rig.search, call)(rig.live, mix)


WITH_FIXED = TrafficMix(
    voice=(Traffic(frame_size=128), "10 %"), control=(Traffic(), "50 kpps"), bulk=(Traffic(frame_size=1518), "90 %")
)
SLOW = TrafficMix(keepalive=(Traffic(), "1 pps"), bulk=(Traffic(), 1.0))


@given(st.sampled_from([WITH_FIXED, SLOW, VOICE_AND_BULK, FOUR]), st.floats(0.001, 100), st.integers(0, 10**6))
def test_each_class_sends_at_the_least_load(mix, duration_s, more_fps):
    load_fps = least_load_fps(mix, duration_s) + more_fps
    made = class_streams(mix, [False], load_fps, intended_frames(load_fps, duration_s))
    assert (sum(each.fps for each in made), sum(each.frames for each in made)) == (
        load_fps,
        intended_frames(load_fps, duration_s),
    )


@pytest.mark.parametrize("algorithm", ["mlrsearch", "rfc2544", "tst009"])
def test_a_dut_that_forwards_less_than_the_fixed_loads_ends_a_search_below_its_minimum(algorithm):
    rig = Rig(20_000)
    search = rig.search.ndr_pdr if algorithm == "mlrsearch" else partial(rig.search.throughput, algorithm=algorithm)
    outcome = search(rig.live, WITH_FIXED)
    assert {goal.status for goal in outcome.goals} == {SearchStatus.BELOW_MINIMUM}
    least_fps = least_load_fps(WITH_FIXED, QUICK.initial_trial_s)
    assert least_fps <= min(spec.load_fps for spec in rig.bench.generator.specs) <= 1.02 * least_fps


def test_a_search_on_a_rig_that_sustains_nothing_ends_without_a_figure():
    rig = Rig(5e6)
    rig.bench.generator.ceiling_fps = 40_000
    for measure in (rig.search.ndr_pdr, rig.search.throughput, rig.search.loss_curve, rig.search.back_to_back):
        with pytest.raises(InconclusiveError, match=r"each class of a mix must send.*the rig sustains"):
            measure(rig.live, WITH_FIXED)


def test_a_loss_curve_ends_above_the_fixed_loads():
    mix = TrafficMix(control=(Traffic(), "4 Mpps"), bulk=(Traffic(), 1.0))
    rig = Rig(1e6)
    points = rig.search.loss_curve(rig.live, mix).loss_curve
    assert [point.load_fps for point in points] == [round(CEILING * share / 10) for share in range(10, 4, -1)]


def test_a_burst_has_frames_of_each_class():
    rig = Rig(1e6)
    assert rig.search.back_to_back(rig.live, SLOW).back_to_back is not None
    rare = TrafficMix(rare=(Traffic(), 0.00001), bulk=(Traffic(), 0.99999))
    assert rig.search.back_to_back(rig.live, rare).back_to_back is not None


def test_a_load_that_the_author_chose_is_never_raised():
    rig = Rig(5e6)
    for measure in (
        lambda: rig.search.loss_at(rig.live, WITH_FIXED, 50_000, 1.0),
        lambda: find_loads(SoakLoad(fps=50_000), rig.live, WITH_FIXED, rig.search),
        lambda: LoadCost(WITH_FIXED, QUICK, 50_000),
    ):
        with pytest.raises(
            ArgumentError, match=r"must send, and 50,000 frames/s for .+ leave one without a frame: give 50,\d+"
        ):
            measure()
    assert not rig.bench.generator.specs


def test_a_loss_that_may_be_the_machines_is_no_failure_of_a_class():
    rig = Rig(5e6, class_loss={"video": 0.01})
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    (loss,) = next(each for each in outcome.classes if each.name == "video").losses
    rule = Rule((("class", ("video",)),), (("lost_frames", parse_limit("lost_frames", "<= 0")),), "s")
    seen = tuple(class_loss_figures("video", loss, 0, "disturbed", ""))
    assert [v.judgement for v in judge([rule], outcome.label, seen, lambda _: None)] == [Judgement.INCONCLUSIVE]


# What is reported.


def reported(directory, rig: Rig, *rules, first=lambda: None):
    """The rig's records as a run on disk, with a test around them. ``first``: measured, and never judged."""
    sink, recorder = rig.bench.sink, rig.bench.context.recorder
    del sink.records[:]
    first()
    outcome = rig.search.loss_at(rig.live, FOUR, 1_000_000, 1.0)
    for where, require in rules:
        rig.check(where, require)._judge([outcome])
    data = TestData(labels=outcome.labels)
    begin = make_record(data, id="test-0001", run=recorder.run, test="t.py::test_mix", time_ns=1)
    end = make_record(
        TestEndData("failed", 1.0, cause=Cause.SLA), id="e-1", run=recorder.run, test=begin.test, time_ns=9
    )
    run = make_record(run_data(), id="run-0001", run=recorder.run, test="", time_ns=0)
    records = [run, begin, *(replace(each, test=begin.test) for each in sink.records), end]
    lines = "".join(json.dumps(each.to_json()) + "\n" for each in records)
    (directory / "evidence.jsonl").write_text(lines)
    return outcome, read_run(directory)


LOSSLESS = {"lost_frames": "<= 0"}


def test_reports_show_the_classes(tmp_path):
    rig = Rig(5e6, class_loss={"video": 0.01})
    outcome, run = reported(tmp_path, rig, ({"class": "voice"}, LOSSLESS), ({"class": "video"}, LOSSLESS))
    table = run_table(run, conclude(run), width=120)
    video = next(line for line in table.splitlines() if " video " in line)
    assert "4,000 of 400,000" in video
    assert video.rstrip().endswith("FAIL")
    assert next(line for line in table.splitlines() if " voice " in line).rstrip().endswith("PASS")
    assert "video lost 4,000 of 400,000" in figures_text([outcome])
    assert "video lost 4,000 of 400,000" in markdown(run, conclude(run))
    properties = dict(junit_properties([outcome]))
    assert properties["nfvperf.class.video.at 1.00 Mpps.lost"] == "4,000 of 400,000"
    render_report(run, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index("Frames of class video, ") < page.index("Classes of the traffic")
    assert ">4,000 of 400,000<" in page
    sheet = render_datasheet(run, tmp_path / "datasheet.html").read_text()
    assert re.search(r"<h2>Classes of the traffic.*>video<.*?>1.00 Mpps<.*?>4,000 of 400,000<", sheet, re.DOTALL)


def test_a_class_s_verdict_is_shown_only_in_rows_of_the_load_that_was_judged(tmp_path):
    rig = Rig(5e6)
    curve = partial(rig.search.loss_curve, rig.live, FOUR)  # at 9 Mpps all classes lose, and nothing judges that
    _, run = reported(tmp_path, rig, ({"class": "voice"}, LOSSLESS), first=curve)
    lines = run_table(run, conclude(run), width=120).splitlines()
    judged = {line.rstrip().endswith("PASS") for line in lines if " voice " in line and " 1.00 Mpps " in line}
    others = [line for line in lines if " voice " in line and " 1.00 Mpps " not in line]
    assert judged == {True}
    assert any(" 9.00 Mpps " in line for line in others)
    assert not [line for line in others if "PASS" in line]


def test_exports_have_the_classes(tmp_path):
    _, run = reported(tmp_path, Rig(5e6, class_loss={"video": 0.01}), ({"class": "video"}, LOSSLESS))
    export([run], tmp_path / "flat")
    with (tmp_path / "flat/classes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["id"] == list(run.trials)[-1]]
    assert [(row["class"], row["path"], row["lost"]) for row in rows if row["lost"] != "0"] == [
        ("video", "p0->p1", "2000"),
        ("video", "p1->p0", "2000"),
    ]
    with (tmp_path / "flat/figures.csv").open() as file:
        lost = {row["class"]: row["value"] for row in csv.DictReader(file) if row["metric"] == "lost_frames"}
    assert lost == {"": "4000.0", "voice": "0.0", "video": "4000.0", "bulk": "0.0", "rest": "0.0"}


def test_a_history_keeps_the_figures_of_classes_apart(tmp_path):
    _, run = reported(tmp_path, Rig(5e6, class_loss={"video": 0.01}))
    (subject,) = measured(figures_by_subject(run))
    found = {figure.of_class: figure.value for figure in subject.figures if figure.metric == "lost_frames"}
    assert found == {"": 4000, "voice": 0, "video": 4000, "bulk": 0, "rest": 0}


def test_the_loss_curve_draws_a_line_for_each_class():
    rig = Rig(5e6, class_loss={"video": 0.01})
    outcome = rig.search.loss_curve(rig.live, FOUR)
    chart = loss_chart(outcome.loss_curve, outcome.classes)
    for name in ("voice", "video", "bulk", "rest"):
        assert len(rows(chart, f"class {name}")) == len(outcome.loss_curve)
        assert f"class {name}" in legend(chart)


def soaker_of(rig: Rig) -> Soaker:
    signals = SimpleNamespace(asked="", stop=None)
    context = rig.bench.context
    rig.live.deployment.generator, rig.live.deployment.samplers = rig.bench.generator, ()
    profile, loads = replace(QUICK, soak_s=10.0), lambda *_: (100_000.0,)
    return Soaker(profile, {"suite": "mix"}, context, None, lambda: nullcontext(signals), lambda _: None, loads)


def test_a_soak_counts_the_classes():
    rig = Rig(5e6, class_loss={"video": 0.001})
    outcome = soaker_of(rig).run(rig.live, FOUR)
    lost = {each.name: each.losses[0].lost_frames for each in outcome.classes}
    assert lost == {"voice": 0, "video": 400, "bulk": 0, "rest": 0}


def test_a_study_has_the_rate_of_each_class():
    rig = Rig(5e6)
    rig.bench.generator.class_loss = {"voice": 0.5}
    mix = TrafficMix(voice=(Traffic(frame_size=128), "20 %"), bulk=(Traffic(), "80 %"))
    subjects = [Subject(str(number), bridge_chain(number)) for number in (1, 2)]
    for outcome in rig.bench.study().forwarding_rate("bridges", subjects, mix):
        rates = {e.of_class: e.value for e in outcome.figures if (e.metric, e.unit) == ("forwarding_rate", "pps")}
        assert rates["voice"] + rates["bulk"] == pytest.approx(rates[""], rel=0.001)
        assert rates["voice"] == pytest.approx(rates["bulk"] / 8, rel=0.01)  # a quarter of it, and half is lost
        bits = {e.of_class: e.value for e in outcome.figures if (e.metric, e.unit) == ("forwarding_rate", "bps")}
        assert bits["voice"] == pytest.approx(rates["voice"] * 128 * 8)
        rig.check({"class": "voice"}, {"forwarding_rate": ">= 0.1 Mpps"}).check(outcome)
        assert [row.name for row in class_figures(outcome)] == ["voice", "bulk"]
        with pytest.raises(SlaFailure, match="class voice: forwarding_rate >= 3 Mpps"):
            rig.check({"class": "voice"}, {"forwarding_rate": ">= 3 Mpps"}).check(outcome)


def test_the_cost_of_a_load_has_the_latency_of_each_class():
    rig = Rig(5e6)
    cost = LoadCost(VOICE_AND_BULK, QUICK, 100_000)
    for outcome in rig.bench.study().compare("bridges", [Subject("1", bridge_chain(1))], cost):
        seen = [each.of_class for each in outcome.figures if each.metric == "load_latency_p99"]
        assert seen == ["", "voice", "bulk"]


def test_a_reading_of_convergence_has_the_loss_of_each_class():
    rig = Rig(5e6, class_loss={"video": 0.01})
    convergence = Convergence({"suite": "mix"}, simulated=True)
    reading = convergence.read(rig.live, FOUR, [], 1.0)
    outcome = convergence.outcome(rig.live, FOUR, [reading], {}, loss_of=[reading])
    lost = {each.of_class: each.value for each in outcome.figures if each.metric == "lost_frames"}
    assert lost == {"": 400, "voice": 0, "video": 400, "bulk": 0, "rest": 0}


# The engine's answers.


class Lines:
    """An engine that answers these intervals."""

    def __init__(self, intervals) -> None:
        self._lines = iter({"interval": each} for each in intervals)

    def read(self, _what, _deadline_s):
        return next(self._lines)


def test_a_class_that_falls_silent_is_lost_an_interval_later():
    """The last interval is too short for a frame's way, so what was sent before it may still arrive."""
    mix = TrafficMix(voice=(Traffic(bidirectional=False), "10 %"), bulk=(Traffic(bidirectional=False), "90 %"))
    counted = dict.fromkeys(("refused", "skipped", "duplicated", "out_of_order", "corrupted"), 0)

    def interval(at_s, voice, bulk):
        rows = [counted | {"sent": sent, "received": seen, "highest_seq": seen} for sent, seen in (voice, bulk)]
        workers = [{"absent_ns": 0, "longest_poll_gap_ns": 0}]
        return {"at_ns": round(at_s * 1e9), "streams": rows, "workers": workers}

    trial = EngineTrial(
        Lines(
            [
                interval(1.0, (10, 10), (90, 89)),
                interval(2.0, (20, 10), (180, 180)),  # the first in which nothing of voice arrives
                interval(3.0, (30, 10), (270, 270)),
                interval(3.1, (31, 10), (279, 270)),
            ]
        ),
        1,
        1.0,
        0.0,
        class_streams(mix, [False], 100, 310),
        None,
    )
    intervals = [trial.next_interval() for _ in range(4)]
    assert [each.directions[0].lost for each in intervals] == [0, 0, 10, 10]
    assert {name: each.lost for name, each in intervals[-1].classes.items()} == {"voice": 10, "bulk": 0}
    with pytest.raises(StopIteration):  # there is no more: this thread gets its usual priority back
        trial.next_interval()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_no_answer_is_left_behind_where_a_trial_had_ended_when_it_was_to_stop():
    """Whoever converts the trial's answer asks the engine for its links, and would read the answer to ``stop``."""
    waiting = [{"id": 1, "ok": True}, {"id": 2, "ok": False, "code": "not_running", "error": "no trial runs"}]
    engine = SimpleNamespace(read=lambda *_: waiting.pop(0), send=lambda *_: 2)
    trial = EngineTrial(engine, 1, 1.0, 0.0, (), lambda answer: (answer["id"], len(waiting)))
    trial.abandon()
    assert trial.result() == (1, 0)


def test_frames_of_a_class_that_is_dropped_altogether_were_lost_when_they_were_sent():
    columns = {field.name: (0,) * 10 for field in fields(ThreadWindows)} | {"sent": (100,) * 10}
    windows = Windows(10_000_000, (ThreadWindows(**columns),), ())
    rows = [{"sent": 100, "highest_seq": 0}, {"sent": 900, "highest_seq": 900}]
    assert with_unfollowed(windows, rows, [0.1] * len(rows)).threads[0].missing == (10,) * 10
    half = [{"sent": 100, "highest_seq": 50}, {"sent": 900, "highest_seq": 900}]
    assert with_unfollowed(windows, half, [0.1] * len(half)).threads[0].missing == (0,) * 5 + (10,) * 5
    assert with_unfollowed(windows, rows, [0.05, 0.1]).threads[0].missing == (20,) * 5 + (0,) * 5  # it ended early


def test_a_class_that_ends_early_has_the_frames_of_its_time_and_the_others_all_of_theirs():
    mix = TrafficMix(victim=(Traffic(), "100 %"), attacker=(Traffic(), "1000 pps"))
    spec = TrialSpec(mix, 5000, 2.0, (Direction("p0", "p1"), Direction("p1", "p0")), ends=("attacker", 0.5))
    assert [(each.sent.name, each.frames) for each in spec.streams(10_000)] == [("victim", 8000), ("attacker", 500)] * 2


# One to many.
