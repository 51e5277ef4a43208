"""Studies on a simulated rig whose truth is known: what they find, when they stop, what they say when they cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_bench import CEILING, Bench

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure import measurements
from pytest_nfvperf.measure.alternation import Schedule, read_blocks
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.measure.streams import StreamRun
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.measure.streams import StreamResult, StreamSpec
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.session.slas import SlaFailure

DISTURBED = StreamRun(
    "stream-0001", StreamResult(StreamSpec(), (), invalid=(InvalidReason(Reason.STRETCHED_TIME, "x"),)), None
)


def chains(*numbers):
    return [Subject(str(number), bridge_chain(number)) for number in numbers]


def test_each_chain_has_its_samples_and_its_ratio_to_one_bridge():
    bench = Bench(lambda bridges: 4e6 * (1 - 0.02 * (bridges - 1)))

    one, two, nine = bench.study().forwarding_rate("bridges", chains(1, 2, 9), Traffic(frame_size=64))

    assert [outcome.label["bridges"] for outcome in (one, two, nine)] == ["1", "2", "9"]
    assert {outcome.label["topology"] for outcome in (one, two, nine)} == {"chain"}
    assert one.sampled("forwarding_rate").median == pytest.approx(4e6, rel=0.02)
    assert one.relatives == ()
    ratio = nine.relative("forwarding_rate")
    assert (ratio.baseline, ratio.ratio) == ((("bridges", "1"),), pytest.approx(0.84, rel=0.02))
    assert ratio.low < 0.84 < ratio.high
    assert ratio.confidence >= 0.983
    assert ratio.smallest_detectable < 0.03
    assert nine.sampled("packet_time").median == pytest.approx(1e9 / (2 * 4e6 * 0.84), rel=0.02)
    assert set(nine.sampled("forwarding_rate").evidence) <= set(nine.trials)


def test_the_last_subject_has_the_slope_over_the_series():
    bench = Bench(lambda bridges: 4e6 * (1 - 0.02 * (bridges - 1)))

    *others, last = bench.study().forwarding_rate("bridges", chains(1, 2, 4, 9), Traffic(frame_size=64))

    assert all(outcome.slopes == () for outcome in others)
    slope = next(found for found in last.slopes if found.metric == "forwarding_rate")
    assert slope.share == pytest.approx(-0.02, rel=0.1)
    assert slope.share_low < -0.02 < slope.share_high
    assert slope.value == pytest.approx(-80_000, rel=0.1)
    seen = {(o.metric, o.unit) for o in last.figures}
    assert {("forwarding_rate_slope", "ratio"), ("forwarding_rate_slope", "pps"), ("packet_time_slope", "ns")} <= seen


def test_what_counts_nothing_has_no_slope():
    outcomes = (
        Bench(lambda _: 4e6)
        .study()
        .forwarding_rate(
            "mirror", [Subject(name, bridge_chain(1)) for name in ("off", "on", "both")], Traffic(frame_size=64)
        )
    )
    assert outcomes[-1].slopes == ()
    assert outcomes[1].relative("forwarding_rate").baseline == (("mirror", "off"),)


def test_rounds_go_forward_and_backward_and_every_reading_is_built_anew():
    bench = Bench(lambda _: 4e6)

    bench.study().forwarding_rate("bridges", chains(1, 2, 4), Traffic(frame_size=64))

    assert bench.order == [1, 2, 4, 4, 2, 1, 1, 2, 4, 4, 2, 1, 1, 2, 4]
    assert bench.quiet == [False] * 3 + [True] * 12, "only the first build of a chain goes on record"


def test_a_verdict_that_is_open_is_measured_on_at_the_planned_looks_only():
    bench = Bench(lambda bridges: 4e6 * (1 if bridges == 1 else 0.95), noise=0.01)
    sla = bench.sla("forwarding_rate", ">= 95 % of {bridges: 1}")
    looks = []

    def decided(outcome):
        looks.append(len(outcome.sampled("forwarding_rate").values))
        return sla.decided(outcome)

    outcomes = bench.study(decided).forwarding_rate("bridges", chains(1, 9), Traffic(frame_size=64))

    assert sorted(set(looks)) == [5, 10, 15, 20]
    with pytest.raises(SlaFailure) as failure:
        sla.check_each(outcomes)
    text = " ".join(str(failure.value).split())
    assert "INCONCLUSIVE" in text
    assert "; the interval neither shows nor refutes >= 95 %" in text
    assert "rests on: 20 readings in interleaved rounds" in text
    assert "would have shown" in text


def test_a_clear_verdict_needs_no_more_than_five_rounds():
    bench = Bench(lambda bridges: 4e6 * (1 if bridges == 1 else 0.8))
    sla = bench.sla("forwarding_rate", ">= 95 % of {bridges: 1}")

    outcomes = bench.study(sla.decided).forwarding_rate("bridges", chains(1, 2, 9), Traffic(frame_size=64))

    assert len(bench.order) == 15
    with pytest.raises(SlaFailure) as failure:
        sla.check_each(outcomes)
    assert str(failure.value).count("1 FAIL") == 2, "every subject that did not pass is shown"


def test_without_an_undisturbed_window_whole_trials_tell_ratios_and_no_rate_that_fails(monkeypatch):
    read = measurements._reading
    monkeypatch.setattr(measurements, "_undisturbed_rate", lambda _: None)
    monkeypatch.setattr(measurements, "_reading", lambda *a, **k: replace(read(*a, **k), slowdown=1.3))
    bench = Bench(lambda bridges: 4e6 if bridges == 1 else 3e6)
    sla = bench.sla("forwarding_rate", ">= 60 % of {bridges: 1}")
    outcomes = bench.study(sla.decided).forwarding_rate("bridges", chains(1, 9), Traffic(frame_size=64))
    assert len(bench.order) == 10, "five rounds of whole trials tell enough"
    assert [outcome.missing for outcome in outcomes] == [{}, {}]
    assert "whole trials" in outcomes[1].notes[-1]
    sla.check_each(outcomes)

    close = bench.sla("forwarding_rate", ">= 75 % of {bridges: 1}")
    assert not close.decided(outcomes[1]), "more readings may tell the ratio, though the rate is a bound"

    modest, demanding = bench.sla("forwarding_rate", ">= 2 Mpps"), bench.sla("forwarding_rate", ">= 8 Mpps")
    modest.check_each(outcomes)
    with pytest.raises(SlaFailure) as failure:
        demanding.check_each(outcomes)
    text = " ".join(str(failure.value).split())
    assert "INCONCLUSIVE" in text
    assert "the machine disturbed most readings from end to end" in text


def test_the_budget_ends_the_rounds():
    bench = Bench(lambda bridges: 4e6 * (1 if bridges == 1 else 0.95), noise=0.01)
    tight = type(QUICK)("quick", comparison_trial_s=5.0, comparison_budget_s=70.0, warmup_s=0.5)

    bench.study(lambda _: False, tight).forwarding_rate("bridges", chains(1, 9), Traffic(frame_size=64))

    assert len(bench.order) == 14, "five rounds take 53 s; the seventh is the last to begin within 70 s"


def test_a_dut_that_takes_all_is_generator_limited_and_its_ratio_open():
    bench = Bench(lambda bridges: 20e6 if bridges == 1 else 4e6)
    sla = bench.sla("forwarding_rate", ">= 95 % of {bridges: 1}")

    one, nine = bench.study(sla.decided).forwarding_rate("bridges", chains(1, 9), Traffic(frame_size=64))

    assert one.sampled("forwarding_rate").bound is Bound.AT_LEAST
    assert "generator-limited" in one.sampled("forwarding_rate").why
    ratio = nine.relative("forwarding_rate")
    assert (ratio.low, ratio.why[:28]) == (0.0, "baseline: generator-limited:")
    assert ratio.high == pytest.approx(4 / 9, rel=0.05)
    with pytest.raises(SlaFailure, match="1 FAIL"):
        sla.check_each([one, nine])


def test_a_load_that_the_generator_cannot_hold_is_lowered_for_all():
    bench = Bench(lambda _: 4e6, ceiling_fps=6e6)  # what it can do against this DUT, below its ceiling of 9e6

    outcomes = bench.study().forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))

    loads = [spec.load_fps for spec in bench.generator.specs if spec.purpose == "forwarding rate"]
    assert set(loads) == {round(9e6 * 0.9**4)}
    assert [outcome.sampled("forwarding_rate").bound for outcome in outcomes] == [Bound.EXACT] * 2
    assert all(spec.saturating for spec in bench.generator.specs)


def test_a_rig_that_is_never_valid_gives_up_after_a_few_readings():
    bench = Bench(lambda _: 4e6, invalid_every=1, ceiling_fps=None)

    with pytest.raises(InvalidTrialsError, match="skipped_frames"):
        bench.study().forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))
    assert len(bench.order) == 5


def test_two_bands_are_named():
    values = iter([4.0e6, 4.4e6] * 100)
    bench = Bench(lambda _: next(values), noise=0.0005)

    outcomes = bench.study().forwarding_rate("bridges", chains(1, 1), Traffic(frame_size=64))

    assert any("forwarding_rate falls into two bands: " in note for outcome in outcomes for note in outcome.notes)


class TestTcp:
    def test_goodput_and_the_cpus_of_both_ends(self):
        bench = Bench(lambda _: 4e6)
        subjects = [Subject(str(n), bridge_chain(n, ends="namespace", link="veth")) for n in (1, 2, 4)]

        one, two, four = bench.study().tcp_throughput("bridges", subjects, streams=4)

        assert one.sampled("tcp_throughput").median == pytest.approx(2e9, rel=0.01)
        assert one.sampled("sender_cores").median == pytest.approx(1.0)
        assert one.sampled("receiver_cores").median == pytest.approx(0.8)
        assert one.sampled("datapath_cores") is None, "a simulated datapath has no counters: absent, not 0"
        assert (one.label["streams"], one.algorithm) == ("4", "tcp")
        assert two.relative("tcp_throughput").ratio == pytest.approx(1.0)
        assert [slope.metric for slope in four.slopes][:1] == ["tcp_throughput"]
        assert len([record for record in bench.sink.records if record.kind == "stream"]) == 15
        assert set(one.sampled("tcp_throughput").evidence) == set(one.trials)
        assert {(a.namespace, a.address, b.address) for a, b in bench.streams.ends} == {
            ("ns-end0", "198.18.0.1", "198.18.0.2")
        }

    def test_a_spoiled_run_is_repeated_and_stays_in_the_evidence(self):
        bench = Bench(lambda _: 4e6)
        bench.streams.invalid_every = 4

        one, two = bench.study().tcp_throughput(
            "bridges", [Subject(str(n), bridge_chain(n, ends="namespace")) for n in (1, 2)]
        )

        assert len(one.sampled("tcp_throughput").values) == len(two.sampled("tcp_throughput").values) == 5
        assert len(one.trials) + len(two.trials) == 13
        repeats = [r.data["repeat_of"] for r in bench.sink.records if r.kind == "stream" and r.data["repeat_of"]]
        assert len(repeats) == 3

    def test_a_chain_without_namespaces(self):
        with pytest.raises(TestbedError, match=r"chain-1.* has no two namespaces with addresses"):
            Bench(lambda _: 4e6).study().tcp_throughput("bridges", chains(1, 2))


def test_time_in_which_the_generator_was_absent_is_taken_off_the_rate():
    """3 % of the frames were skipped: for 3 % of the time nothing was offered, and nothing could be forwarded."""

    class Absent(FakeGenerator):
        def run_trial(self, spec):
            result = super().run_trial(spec)
            counts = tuple(
                replace(c, skipped=round(c.intended * 0.03), refused=c.refused - round(c.intended * 0.03))
                for c in result.counts
            )
            return replace(result, counts=counts)

    bench = Bench(lambda _: 4e6 * 0.97)
    bench.generator = Absent(1e6, clock=bench.clock, ceiling_fps=CEILING)

    one, _ = bench.study().forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))

    assert one.sampled("forwarding_rate").median == pytest.approx(4e6, rel=1e-4)


def test_what_was_read_before_the_rig_got_worse_is_kept():
    def take(number, block, left):
        if block >= 6:
            raise InvalidTrialsError([DISTURBED])
        return Reading({"x": 1.0}, "t")

    found = read_blocks(2, lambda _: None, take, Schedule(5, 1e9), enough=lambda _: False, elapsed_s=lambda: 0.0)

    assert [sum(map(len, found.readings(subject))) for subject in (0, 1)] == [6, 6]
