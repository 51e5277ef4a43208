"""What a load, or a class of it, says that the generator did not wholly offer; and counts that need no load."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.measure.load_series import loss_of_trial, trial_of_frames, with_trials
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import ClassCounts, TrialSpec, sum_of_classes
from pytest_nfvperf.session.slas import SlaFailure
from tests.outcomes import measured
from tests.unit.test_never_wrong import Row, trial_of
from tests.unit.test_search_algorithms import measurer_on
from tests.unit.test_searches_by_windows import CAPACITY, FULL, SHARED, windows_of
from tests.unit.test_traffic_classes import VOICE_AND_BULK, Rig


@pytest.mark.parametrize(("left_out", "lost"), [(300, 0), (1800, 0), (1800, 10)])
def test_a_class_that_was_short_of_its_load_passes_nothing(left_out, lost):
    """Seen: "class voice: 0 lost of 65,582" of 80,000 that were due, Accepted."""
    trial = trial_of([Row(left_out // 100, 0, 0, shared=False, absent=False)] * 100)
    whole = trial.result.counts[0]
    voice = replace(whole, intended=10_000, sent=10_000 - left_out, received=10_000 - left_out - lost, skipped=left_out)
    bulk = replace(whole, intended=90_000, sent=90_000, received=90_000, skipped=0)
    classes = (ClassCounts("voice", (voice,)), ClassCounts("bulk", (bulk,)))
    result = replace(trial.result, classes=classes, counts=(sum_of_classes([voice, bulk]),))
    trial = replace(trial, result=result)
    outcome = measured(Outcome((), "fixed-load", 64.0, 1, trials=(trial.id,)), losses=[loss_of_trial(trial)])
    outcome = with_trials(outcome, VOICE_AND_BULK, [trial])
    rule = Rule((("class", ("voice",)),), (("loss_ratio", parse_limit("loss_ratio", "<= 0")),), "s")
    (verdict,) = judge([rule], outcome.label, outcome.figures, lambda _: None, outcome.missing)
    expected = Judgement.FAIL if lost else Judgement.PASS if left_out < 400 else Judgement.INCONCLUSIVE
    assert verdict.judgement is expected


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_so_many_frames_are_counted_though_the_machine_leaves_a_tenth_out(loss):
    rig = Rig(5e6, invalid_every=1, loss_ratio=loss)
    outcome = rig.search.loss_of(rig.live, Traffic(frame_size=128), 2000)
    (trial,) = outcome.trials
    result = rig.bench.context.trials[trial].result
    assert all(count.skipped and count.offered >= 2000 for count in result.counts)
    (point,) = outcome.loss_curve
    assert (point.lost_frames, outcome.missing) == (result.lost, {})
    check = rig.check({}, {"lost_frames": "<= 0"})
    with pytest.raises(SlaFailure, match="1 FAIL") if loss else nullcontext():
        check.check(outcome)
    with pytest.raises(InvalidTrialsError):
        rig.search.loss_at(rig.live, Traffic(frame_size=128), 1000, 1.0)


@dataclass
class OnAStarvedHost(FakeGenerator):
    """Its DUT loses the frames of windows in which the host took its core, and one of each other one if it ``drops``.

    The generator always leaves frames out. ``taken``: every so many windows; 0: none.
    """

    taken: int = 0
    drops: bool = False

    def simulated(self, spec: TrialSpec) -> TrialResult:
        made, length_s = super().simulated(spec), spec.window_s or 0.01
        count, number_of_directions = round(spec.duration_s / length_s), len(spec.directions)
        due = round(spec.load_fps * length_s) * number_of_directions
        speed = [SHARED if self.taken and at % self.taken == 1 else FULL for at in range(count)]
        missing = [due if each == SHARED else int(self.drops) for each in speed]
        first = 10 if spec.window_s is None else 0  # who counts no windows has no idea whose loss it is
        lost = sum(missing) // number_of_directions + first
        counts = tuple(replace(each, received=each.sent - lost) for each in made.counts)
        windows = None if spec.window_s is None else windows_of(length_s, due, [due] * count, missing, speed)
        kept = InvalidReason(Reason.SKIPPED_FRAMES, "other work took the CPU")
        return replace(made, counts=counts, windows=windows, invalid=(kept,))


@pytest.mark.parametrize(
    ("taken", "drops", "expected"),
    [(0, False, Judgement.PASS), (0, True, Judgement.FAIL), (9, False, Judgement.INCONCLUSIVE)],
)
def test_frames_lost_while_the_machine_was_kept_busy_are_counted_again_in_windows(taken, drops, expected):
    """Seen in a starved virtual lab: "232 lost of 2,177" was a FAIL of the DUT, whose CPU the host had taken."""
    measurer = measurer_on(OnAStarvedHost(CAPACITY, taken=taken, drops=drops))
    try:
        trial = trial_of_frames(measurer, 2000)
    except InvalidTrialsError:
        assert expected is Judgement.INCONCLUSIVE
        return
    outcome = measured(Outcome((), "frames", 64.0, 2, trials=(trial.id,)), losses=[loss_of_trial(trial)])
    rule = Rule((), (("loss_ratio", parse_limit("loss_ratio", "<= 0")),), "s")
    (verdict,) = judge([rule], {}, outcome.figures, lambda _: None, outcome.missing)
    assert verdict.judgement is expected


def test_frames_that_were_not_sent_are_counted_again_without_windows():
    """The rig is graded by windows: a virtual lab whose generator is slow was "too disturbed to trust"."""

    class LeavesOutHalf(FakeGenerator):
        def simulated(self, spec: TrialSpec) -> TrialResult:
            made = super().simulated(spec)
            half = [each.intended // 2 for each in made.counts]
            counts = [
                replace(each, skipped=each.intended - sent, sent=sent, received=sent)
                for each, sent in zip(made.counts, half, strict=True)
            ]
            return replace(made, counts=tuple(counts), invalid=(InvalidReason(Reason.SKIPPED_FRAMES, "slow"),))

    generator = LeavesOutHalf(CAPACITY)
    trial = trial_of_frames(measurer_on(generator), 2000)
    assert trial.result.lost == 0
    assert [spec.window_s for spec in generator.specs] == [None, None]
