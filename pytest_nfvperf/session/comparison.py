"""A run that compares sides: what its tests measure, what it records, and each test's result.

Tests' own SLAs are not judged. Instead each side of each comparison has a verdict: FAIL where it is slower or does not
work, INCONCLUSIVE where the readings decide nothing, PASS where it is the same or faster. Exit status, reports, JUnit
and Allure follow as they do from an SLA.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pytest_nfvperf.measure.compare_sides import (
    SIDE,
    ComparedSearch,
    ComparedStudy,
    GuardedStudy,
    SideComparison,
    SideLostError,
)
from pytest_nfvperf.measure.limits import LimitsOf
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.side_by_side import SubjectDeployer
from pytest_nfvperf.measure.streams import StreamRunner
from pytest_nfvperf.measure.study import Decided, Study
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import NfvperfError, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import ErrorData
from pytest_nfvperf.model.measure.compare import (
    ComparisonData,
    ComparisonSettings,
    MetricComparison,
    SideFigures,
    SideState,
    Word,
)
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.metrics import HIGHER
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.sla_check import InconclusiveWarning, SlaFailure

RULE = "nfvperf compare"
TRIES = 2
"""Tests in which a side may break before it is left out of the run."""

BUDGETS = 1.5
"""Of the time that the profile gives to a comparison inside a test: here the test is only the comparison."""

_JUDGEMENTS = {
    Word.SLOWER: Judgement.FAIL,
    Word.CANNOT_TELL: Judgement.INCONCLUSIVE,
    Word.SAME: Judgement.PASS,
    Word.FASTER: Judgement.PASS,
}


class SidesBrokenError(NfvperfError):
    """Sides of a comparison did not start or died; the others were measured. The testbed itself works."""


class Comparison:
    """The comparisons of a run.

    Args:
        estimate_s: how long a search takes.
        deploy: builds a subject for searches, which build nothing by themselves.
        streams: makes the runner of streams for searches.
        close_rig: takes down the run's own rig; the next deployment starts it again.

    Attributes:
        made: the running test's comparisons so far, since ``begin_test``.
    """

    def __init__(
        self,
        comparing: ComparisonSettings,
        options: Options,
        profile: Profile,
        estimate_s: Callable[[Profile], float],
        deploy: SubjectDeployer,
        streams: Callable[[], StreamRunner],
        close_rig: Callable[[], None],
    ) -> None:
        self.comparing = comparing
        self.made: list[ComparisonData] = []
        self._options, self._profile, self._estimate_s = options, profile, estimate_s
        self._deploy, self._streams, self._close_rig = deploy, streams, close_rig
        self._verdicts: list[Verdict] = []
        self._broken: dict[str, list[SideLostError]] = {}

    def begin_test(self) -> None:
        self.made.clear()
        self._verdicts.clear()

    def on_baseline(self, dut: Dut) -> Dut:
        """The DUT of what a test itself deploys, with the baseline's version.

        Raises:
            UnavailableError: the test names a version of its own.
        """
        if dut.version is not None and dut.version != self.comparing.baseline.name:
            raise UnavailableError(
                f"not compared: the test itself names the version {dut.version!r} of Open vSwitch, and so is about that"
            )
        return dut if dut.kind == "linux-bridge" else replace(dut, version=self.comparing.baseline.name)

    def search(self, labels: Mapping[str, str], limits_of: LimitsOf, context: Context) -> Search:
        sides = self._sides(labels, self._deploy, limits_of, self._streams, context)
        virtual = self._options.virtual_time
        return ComparedSearch(self._profile, labels, limits_of, self._estimate_s, sides=sides, virtual=virtual)

    def study(
        self,
        labels: Mapping[str, str],
        deploy: SubjectDeployer,
        limits_of: LimitsOf,
        streams: Callable[[], StreamRunner],
        context: Context,
    ) -> Study:
        sides = self._sides(labels, deploy, limits_of, streams, context)
        decided: Decided = lambda _: True  # noqa: E731 - SideComparison decides for each subject
        return ComparedStudy(self._profile, labels, deploy, limits_of, streams, decided, context, sides=sides)

    def _sides(
        self,
        labels: Mapping[str, str],
        deploy: SubjectDeployer,
        limits_of: LimitsOf,
        streams: Callable[[], StreamRunner],
        context: Context,
    ) -> SideComparison:
        profile = replace(self._profile, comparison_budget_s=self._profile.comparison_budget_s * BUDGETS)
        blocks, rounds = self._options.compare_blocks, None
        if self._options.virtual_time:
            blocks, rounds = None, blocks
        if rounds is not None:
            profile = replace(profile, comparison_repeats=rounds, comparison_budget_s=0.0)

        def make(more: Mapping[str, str], decided: Decided) -> GuardedStudy:
            study = GuardedStudy(profile, {**labels, **more}, deploy, limits_of, streams, decided, context)
            study.reads_again = rounds is None
            return study

        lost = {name: each[-1] for name, each in self._broken.items() if len(each) >= TRIES}
        take = partial(self._take, context.recorder)
        return SideComparison(self.comparing, make, deploy.check, take, self._reset, lost, blocks)

    def _reset(self) -> None:
        with suppress(TestbedError):
            self._close_rig()

    def _take(
        self,
        recorder: Recorder,
        data: ComparisonData,
        outcomes: Mapping[str, Outcome],
        lost: Mapping[str, SideLostError],
    ) -> None:
        """Record a comparison, with a verdict for each side, or an error where it broke."""
        self.made.append(data)
        recorder.emit(data)
        for side in data.sides:
            if side.state in {SideState.BROKEN, SideState.UNAVAILABLE}:
                self._note_broken(recorder, side, lost[side.side])
                continue
            labels = outcomes[side.side].labels if side.side in outcomes else (*data.labels, (SIDE, side.side))
            verdict = side_verdict(side, data.baseline, tuple(sorted(labels)))
            self._verdicts.append(verdict)
            recorder.emit(verdict)

    def _note_broken(self, recorder: Recorder, side: SideFigures, lost: SideLostError) -> None:
        evidence = lost.error.evidence if isinstance(lost.error, TestbedError) else {}
        known = self._broken.setdefault(side.side, [])
        known.append(lost)
        again = " (it broke in earlier tests, and was not tried again)" if len(known) > TRIES else ""
        message = f"side {side.side!r} is {side.state}: {side.reason}{again}"
        recorder.emit(ErrorData(type(lost.error).__name__, message, dict(evidence)))

    def judge(self) -> None:
        """Raise the test's result after its body has passed. A plan has no figures to judge.

        Raises:
            UnavailableError: it compared nothing: the test is skipped.
            SidesBrokenError: a side did not start or died.
            SlaFailure: a side is slower or does not work, or the readings decide nothing; the message lists all sides.
        """
        if not self.made:
            raise UnavailableError(
                "not compared: the test passed, and measured nothing by search or study that sides could be compared in"
            )
        if self._options.plan:
            return
        sides = [side for data in self.made for side in data.sides]
        broken = [side for side in sides if side.state in {SideState.BROKEN, SideState.UNAVAILABLE}]
        text = "\n".join(line for data in self.made for line in comparison_lines(data))
        if broken:
            names = ", ".join(dict.fromkeys(f"{side.side!r} is {side.state}: {side.reason}" for side in broken))
            raise SidesBrokenError(f"side {names}\n{text}")
        judgements = {verdict.judgement for verdict in self._verdicts}
        if Judgement.FAIL in judgements:
            raise SlaFailure(text, Judgement.FAIL)
        if Judgement.INCONCLUSIVE not in judgements:
            return
        if self._options.inconclusive != "warn":
            raise SlaFailure(text, Judgement.INCONCLUSIVE)
        warnings.warn(InconclusiveWarning(text), stacklevel=2)


def side_verdict(side: SideFigures, baseline: str, labels: tuple[tuple[str, str], ...]) -> Verdict:
    """The verdict on a side that was measured, or does not work."""
    metric = side.deciding
    if side.state is SideState.FAILED or metric is None:
        reason = side.reason or "its figure could not be read"
        judgement = Judgement.FAIL if side.state is SideState.FAILED else Judgement.INCONCLUSIVE
        wanted = f"{side.side} works as {baseline} does"
        return Verdict(judgement, wanted, "", None, "ratio", None, None, reason, RULE, subject=labels)
    beyond = "below" if metric.better == HIGHER else "above"
    pairs, blocks = how_many(metric.pairs, "pair"), how_many(metric.blocks, "block")
    return Verdict(
        judgement=_JUDGEMENTS[metric.word],
        requirement=f"{metric.metric} of {side.side} not {beyond} {baseline}'s",
        metric=metric.metric,
        limit=1.0,
        unit="ratio",
        observed=metric.ratio,
        margin=_margin(metric),
        reason=f"{metric.word}: {metric.reason}",
        rule=RULE,
        confidence=f"{pairs} in {blocks} of fresh builds" if metric.blocks else "",
        subject=labels,
    )


def _margin(metric: MetricComparison) -> float | None:
    """None also where the ratio is only a bound, which does not decide."""
    is_bound = metric.word is Word.CANNOT_TELL and (metric.low is None or metric.high is None)
    if metric.ratio is None or is_bound:
        return None
    return metric.ratio - 1 if metric.better == HIGHER else 1 - metric.ratio


def comparison_lines(data: ComparisonData) -> list[str]:
    lines = []
    for side in data.sides:
        metric = side.deciding
        if side.state is not SideState.MEASURED or metric is None:
            lines.append(f"{side.side} against {data.baseline}: {side.state}: {side.reason}")
        else:
            lines.append(f"{side.side} against {data.baseline}: {metric.word} in {metric.metric}: {metric.reason}")
    return lines
