"""A run that compares sides: what its tests measure, what it records, and each test's result.

A side is a version of Open vSwitch, by its name in ``Dut.version``. Each topology and traffic of a test is measured on
every side, as subjects of a study (measure/study.py). A side that does not start, or dies, is left out with the reason,
and the others are measured without it.

Tests' own SLAs are not judged. Instead each side of each comparison has a verdict: FAIL where it is slower or does not
work, INCONCLUSIVE where the readings decide nothing, PASS where it is the same or faster. Exit status, reports, JUnit
and Allure follow as they do from an SLA.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from pytest_nfvperf.measure.alternation import BlockReadings
from pytest_nfvperf.measure.call_arguments import Live, Sent
from pytest_nfvperf.measure.measurements import (
    LARGER,
    ConnectionRate,
    CountedInstructions,
    ForwardingRate,
    Measurement,
    Subject,
    check_time,
)
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.search import EstimateOf, Search, check_counted
from pytest_nfvperf.measure.study import MeasuredSubject, RunningStudy, Study, figure_of
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import format_value, how_many
from pytest_nfvperf.model.errors import DutFailure, NfvperfError, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import ErrorData
from pytest_nfvperf.model.measure.compare import (
    ComparisonData,
    ComparisonSettings,
    MetricComparison,
    Noise,
    ReadingMethod,
    SideFigures,
    SideState,
    Word,
    compare_metric,
    unread_metric,
)
from pytest_nfvperf.model.measure.outcome import Outcome, unique_notes
from pytest_nfvperf.model.metrics import HIGHER, metric_of
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.slas import InconclusiveWarning, SlaFailure

SIDE = "side"
"""The label that the outcomes of a comparison differ in."""

AGAIN = " (again)"
"""Ends the name of the baseline's second reading in rounds, which shows how much equal sides differ."""

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


class SideLostError(NfvperfError):
    """A side could not be measured; the others may be. ``reason``: why it has no figures."""

    def __init__(self, side: str, state: SideState, error: NfvperfError) -> None:
        super().__init__(f"side {side!r} is {state}: {error}")
        self.side, self.state, self.error = side, state, error
        self.reason = str(error) if state is SideState.UNAVAILABLE else str(error).strip().partition("\n")[0]


@dataclass(eq=False, repr=False)
class GuardedStudy(Study):
    """A study that names the subject of an error, and reads the baseline twice where it works in rounds.

    ``floors``: by metric, the difference of these two. ``reads_again``: False where no noise floor is needed.
    """

    floors: dict[str, Noise] = field(default_factory=dict)
    reads_again: bool = True

    def _in_rounds(self, work: RunningStudy) -> tuple[Outcome, ...]:
        if not self.reads_again:
            return super()._in_rounds(work)
        first = work.subjects[0]
        again = MeasuredSubject(replace(first.subject, value=first.subject.value + AGAIN), first.figure)
        *outcomes, _ = super()._in_rounds(
            replace(work, subjects=(*work.subjects, again), started=work.clock.monotonic())
        )
        return tuple(outcomes)

    def _outcomes(self, work: RunningStudy, readings: BlockReadings) -> tuple[Outcome, ...]:
        outcomes = super()._outcomes(work, readings)
        if outcomes[-1].label[work.per].endswith(AGAIN):
            self.floors = {ratio.metric: (ratio.low or None, ratio.high) for ratio in outcomes[-1].relatives}
        return outcomes

    @contextmanager
    def _noting(self, measured: MeasuredSubject) -> Iterator[None]:
        with super()._noting(measured):
            try:
                yield
            except DutFailure as error:
                raise SideLostError(measured.subject.value, SideState.FAILED, error) from error
            except TestbedError as error:
                raise SideLostError(measured.subject.value, SideState.BROKEN, error) from error


class Comparison:
    """The comparisons of a run.

    Args:
        settings: the sides, the baseline first, and the margin within which they are the same.
        options: of the run.
        close_rig: takes down the run's own rig; the next deployment starts it again.

    Attributes:
        made: the running test's comparisons so far, since ``begin_test``.
    """

    def __init__(self, settings: ComparisonSettings, options: Options, close_rig: Callable[[], None]) -> None:
        self.settings = settings
        self.made: list[ComparisonData] = []
        self._options, self._close_rig = options, close_rig
        self._verdicts: list[Verdict] = []
        self._broken: dict[str, list[SideLostError]] = {}

    @property
    def blocks(self) -> int | None:
        """The first look after so many blocks (in rounds: readings) is the last; None: while the budget lasts."""
        return None if self._options.virtual_time else self._options.compare_blocks

    def begin_test(self) -> None:
        self.made.clear()
        self._verdicts.clear()

    def on_baseline(self, dut: Dut) -> Dut:
        """The DUT of what a test itself deploys, with the baseline's version.

        Raises:
            UnavailableError: the test names a version of its own.
        """
        if dut.version is not None and dut.version != self.settings.baseline.name:
            raise UnavailableError(
                f"not compared: the test itself names the version {dut.version!r} of Open vSwitch, and so is about that"
            )
        return dut if dut.kind == "linux-bridge" else replace(dut, version=self.settings.baseline.name)

    def search(self, study: Study, estimate_of: EstimateOf) -> Search:
        """The search of a test that ``study`` is of, too."""
        sides = self.study(study)
        return ComparedSearch(study.profile, study.labels, study._limits_of, estimate_of, sides=sides)

    def study(self, study: Study) -> ComparedStudy:
        """Compares the sides in what ``study`` measures."""
        lost = {name: errors[-1] for name, errors in self._broken.items() if len(errors) >= TRIES}
        return ComparedStudy(**vars(study), run=self, lost_before=lost)

    def guarded(self, study: Study, labels: Mapping[str, str], figure: Measurement) -> GuardedStudy:
        """The study that compares the sides in one figure. ``labels``: in addition to the test's own."""
        profile = replace(study.profile, comparison_budget_s=study.profile.comparison_budget_s * BUDGETS)
        rounds = self._options.compare_blocks if self._options.virtual_time else None
        if rounds is not None:
            profile = replace(profile, comparison_repeats=rounds, comparison_budget_s=0.0)
        guarded = GuardedStudy(
            profile,
            {**study.labels, **labels},
            study._deploy,
            study._limits_of,
            study._streams,
            lambda outcome: self._is_decided(guarded, figure, outcome),
            study._context,
            reads_again=rounds is None,
        )
        return guarded

    def reset(self) -> None:
        """Close what a broken side has left of the run's own rig."""
        with suppress(TestbedError):
            self._close_rig()

    def _is_decided(self, study: GuardedStudy, figure: Measurement, outcome: Outcome) -> bool:
        """True when more readings would not change the word. The baseline and its second reading have none."""
        if not outcome.relatives or outcome.label[SIDE].endswith(AGAIN) or self._has_all(outcome):
            return True
        found = self._metrics(study, figure, outcome)
        return all(metric.word is not Word.CANNOT_TELL or metric.why for metric in found if metric.decides)

    def _has_all(self, outcome: Outcome) -> bool:
        """True when it has the requested number of blocks; in rounds each reading is one."""
        of_turns = [ratio.pairing.blocks for ratio in outcome.relatives if ratio.pairing]
        of_rounds = [len(samples.values) for samples in outcome.samples]
        return self.blocks is not None and max(of_turns or of_rounds) >= self.blocks

    def record_all_lost(
        self, recorder: Recorder, labels: Mapping[str, str], lost: Mapping[str, SideLostError]
    ) -> NfvperfError:
        """Returns the error that ends the test."""
        sides = tuple(SideFigures(name, error.state, error.reason) for name, error in lost.items())
        own = tuple(sorted(labels.items()))
        data = ComparisonData(own, "", ReadingMethod.ROUNDS, self.settings.baseline.name, sides)
        self._record(recorder, data, {}, lost)
        last = list(lost.values())[-1]
        if last.state is SideState.FAILED:
            return DutFailure(f"{last.side}: {last.reason}")
        return SideLostError(last.side, last.state, last.error)  # without the traceback of an earlier test

    def record_measured(
        self, study: GuardedStudy, figure: Measurement, outcomes: Sequence[Outcome], lost: Mapping[str, SideLostError]
    ) -> Outcome:
        """Record the comparison; returns the baseline's outcome."""
        baseline, by_side = outcomes[0], {outcome.label[SIDE]: outcome for outcome in outcomes}
        if _is_dead(baseline, main := _main_metric(figure)):
            raise DutFailure(
                f"{main} of the baseline {self.settings.baseline.name!r} is 0: nothing can be compared with it"
            )
        sides = [
            SideFigures(side.name, lost[side.name].state, lost[side.name].reason)
            if side.name in lost
            else self._figures(study, figure, baseline, by_side[side.name])
            for side in self.settings.sides[1:]
        ]
        alternated = any(ratio.pairing for outcome in outcomes for ratio in outcome.relatives)
        data = ComparisonData(
            labels=tuple((name, value) for name, value in baseline.labels if name != SIDE),
            algorithm=baseline.algorithm,
            how=ReadingMethod.ALTERNATING if alternated else ReadingMethod.ROUNDS,
            baseline=self.settings.baseline.name,
            sides=tuple(sides),
            elapsed_s=baseline.elapsed_s,
            notes=unique_side_notes(outcomes),
        )
        self._record(study._context.recorder, data, by_side, lost)
        return baseline

    def _figures(self, study: GuardedStudy, figure: Measurement, baseline: Outcome, own: Outcome) -> SideFigures:
        name, main = own.label[SIDE], _main_metric(figure)
        if _is_dead(own, main):
            of, theirs = own.sampled(main), baseline.sampled(main)
            observed = format_value(of.median if of else 0.0, theirs.unit if theirs else "pps")
            usual = format_value(theirs.median, theirs.unit) if theirs else "-"
            return SideFigures(
                name, SideState.FAILED, f"{main} is {observed}, where {baseline.label[SIDE]} has {usual}"
            )
        return SideFigures(name, metrics=self._metrics(study, figure, own))

    def _metrics(self, study: GuardedStudy, figure: Measurement, own: Outcome) -> tuple[MetricComparison, ...]:
        found = []
        for samples in own.samples:
            if metric_of(samples.metric).compared:
                ratio = own.relative(samples.metric)
                noise = study.floors.get(samples.metric, (None, None))
                if ratio is not None and ratio.pairing is not None:
                    noise = (ratio.pairing.noise_low, ratio.pairing.noise_high)
                decides = samples.metric == _main_metric(figure)
                found.append(compare_metric(samples, ratio, noise, self.settings.margin, decides=decides))
        if not any(metric.decides for metric in found):
            main = _main_metric(figure)
            found.insert(0, unread_metric(main, figure.units[main]))
        return tuple(found)

    def _record(
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
        return Verdict(
            judgement=judgement,
            requirement=wanted,
            metric="",
            limit=None,
            unit="ratio",
            observed=None,
            margin=None,
            reason=reason,
            rule=RULE,
            subject=labels,
        )
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


def _main_metric(figure: Measurement) -> str:
    """The first that sides can be compared in: the subject of the study."""
    return next(metric for metric in figure.units if metric_of(metric).compared)


def _is_dead(outcome: Outcome, metric: str) -> bool:
    samples = outcome.sampled(metric)
    return samples is not None and samples.median <= 0


def unique_side_notes(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Each note of the outcomes once, with its sides unless it is about all."""
    return tuple(f"{sides}: {note}" if sides else note for note, sides in unique_notes(outcomes, SIDE))


# ``search`` and ``study`` of a run that compares: each measurement compares all sides, and returns the baseline's
# outcome. The rate at maximum offered load replaces a search or a loss curve: its readings alternate between
# sides in a tenth of a second, where a search takes ten.


def _compare_instead(method: Any) -> Any:
    """A measurement of Search that compares, and refuses what that refuses. Its load does not matter to a rate."""
    call = f"search.{method.__name__}"

    @checked(call)
    @wraps(method)
    def compared(self: ComparedSearch, live: Live, traffic: Sent, *_: Any, **__: Any) -> Outcome:
        check_counted(call, traffic)
        return self._compared(live, traffic)

    return compared


@dataclass(eq=False, repr=False)
class ComparedSearch(Search):
    """Measurements of one test: the rate of every side at overload, or in virtual time its instructions a packet."""

    sides: ComparedStudy = field(kw_only=True)
    _known: dict[tuple[Topology, Dut, AnyTraffic], Outcome] = field(default_factory=dict, init=False)

    def _compared(self, live: LiveTopology, traffic: AnyTraffic) -> Outcome:
        """The baseline's outcome."""
        if live.service_starters:
            raise UnavailableError("not compared: daemons run on its topology, and each side would need its own")
        key = (live.topology, live.dut, traffic)
        if key not in self._known:
            rate = _at_overload(ForwardingRate(traffic, self.profile, self._limits_of))
            figure = CountedInstructions(traffic) if self.sides._context.virtual else rate
            self._known[key] = self.sides.on_each_side(live.topology, live.dut, figure, {})
        return self._known[key]

    ndr_pdr, throughput, loss_curve, back_to_back, loss_at, connection_rate = map(
        _compare_instead,
        (
            *(Search.ndr_pdr, Search.throughput, Search.loss_curve, Search.back_to_back, Search.loss_at),
            Search.connection_rate,
        ),
    )

    def concurrent(self, *_: Any, **__: Any) -> Outcome:
        raise UnavailableError("not compared: it is a number of connections, not a rate: compare a connection_rate")


@dataclass(eq=False, repr=False)
class ComparedStudy(Study):
    """Studies of one test: each of their subjects on every side, one after the other.

    ``lost_before``: sides that are not tried again in this run.
    """

    run: Comparison = field(kw_only=True)
    lost_before: Mapping[str, SideLostError] = field(kw_only=True)

    def compare(self, per: str, subjects: Sequence[Subject], figure: Measurement) -> tuple[Outcome, ...]:
        """Returns the baseline's outcome of each subject. In virtual time instructions a packet replace a rate."""
        if self._context.virtual and isinstance(figure, ForwardingRate):
            figure = CountedInstructions(figure.traffic)
        check_time(next(iter(figure.units)), virtual=self._context.virtual)
        return tuple(
            self.on_each_side(
                subject.topology, subject.dut, _at_overload(figure_of(subject, figure)), {per: subject.value}
            )
            for subject in subjects
        )

    def on_each_side(self, topology: Topology, dut: Dut, figure: Measurement, labels: Mapping[str, str]) -> Outcome:
        """Measure the figure on every side; returns the baseline's outcome.

        Each side's version replaces that of ``dut``. ``labels`` distinguish the topology from others of the same test.

        Raises:
            UnavailableError: no Open vSwitch, or what it needs.
            TestbedError, DutFailure: of the baseline.
            SideLostError: all other sides are lost, which is recorded.
            InvalidTrialsError: the rig disturbed too much.
        """
        if dut.kind == "linux-bridge":
            raise UnavailableError("not compared: a Linux bridge has no Open vSwitch in it")
        settings, lost = self.run.settings, dict(self.lost_before)
        duts = {side.name: replace(dut, version=side.name) for side in settings.sides}
        self._refuse_lacking(topology, duts, lost)
        while True:  # each pass either ends, or has one side less
            subjects = [Subject(name, topology, version) for name, version in duts.items() if name not in lost]
            if len(subjects) < 2:
                raise self.run.record_all_lost(self._context.recorder, labels, lost)
            try:
                study = self.run.guarded(self, labels, figure)
                return self.run.record_measured(study, figure, study.compare(SIDE, subjects, figure), lost)
            except SideLostError as failure:
                if failure.side == settings.baseline.name:
                    raise failure.error from failure
                if failure.state is SideState.BROKEN:
                    self.run.reset()
                lost[failure.side] = failure

    def _refuse_lacking(self, topology: Topology, duts: Mapping[str, Dut], lost: dict[str, SideLostError]) -> None:
        for name, dut in duts.items():
            try:
                self._deploy.refuse_lacking(topology, dut)
            except UnavailableError as error:
                if name == self.run.settings.baseline.name:
                    raise
                lost[name] = SideLostError(name, SideState.UNAVAILABLE, error)


def _at_overload(figure: Measurement) -> Measurement:
    """A new figure, of frames that grow where a side outpaces the generator, or of connections; others as they are.

    UnavailableError for connections that are held.
    """
    if not isinstance(figure, ForwardingRate):
        return figure
    if figure.traffic.hold_s:
        raise UnavailableError("not compared: held connections say nothing at overload")
    if figure.traffic.is_conversation:
        return ConnectionRate(figure.traffic, figure.profile, figure.limits_of)
    return ForwardingRate(figure.traffic, figure.profile, figure.limits_of, larger=LARGER, before=figure.before)
