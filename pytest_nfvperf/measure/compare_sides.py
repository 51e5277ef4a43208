"""Sides of a comparison: versions and settings of OVS, compared by any measurement of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from pytest_nfvperf.measure.alternation import BlockReadings
from pytest_nfvperf.measure.call_arguments import Live, Sent
from pytest_nfvperf.measure.forwarding import LARGER, ForwardingRate
from pytest_nfvperf.measure.instructions import CountedInstructions, check_time
from pytest_nfvperf.measure.measurements import Measurement, Subject
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.study import Decided, MeasuredSubject, RunningStudy, Study, figure_of
from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import format_value
from pytest_nfvperf.model.errors import DutFailure, NfvperfError, TestbedError, UnavailableError
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
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic

# One topology with one traffic is measured on every side, as subjects of a study (measure/study.py). A side is a
# version of Open vSwitch, by its name in ``Dut.version``. One that does not start, or dies, is left out with the
# reason, and the others are measured without it.

SIDE = "side"
"""The label that the outcomes of a comparison differ in."""

AGAIN = " (again)"
"""Ends the name of the baseline's second reading in rounds, which shows how much equal sides differ."""


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

    def _outcomes(self, work: RunningStudy, found: BlockReadings) -> tuple[Outcome, ...]:
        outcomes = super()._outcomes(work, found)
        if outcomes[-1].label[work.per].endswith(AGAIN):
            self.floors = {each.metric: (each.low or None, each.high) for each in outcomes[-1].relatives}
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


MakeStudy = Callable[[Mapping[str, str], Decided], GuardedStudy]
"""Makes a study. Arguments: labels in addition to the test's own; whether an outcome is decided."""


@dataclass(slots=True)
class SideComparison:
    """Compares the sides on what one test measures.

    Attributes:
        check: see ``SubjectDeployer.check``.
        record: takes each comparison with the outcome of each side, and the lost sides.
        reset: closes what a broken side has left of the run's own rig.
        lost_before: sides that are not tried again in this run.
        blocks: the first look after this many (in rounds: readings) is the last; None: while the budget lasts.
    """

    comparing: ComparisonSettings
    make_study: MakeStudy
    check: Callable[[Topology, Dut], None]
    record: Callable[[ComparisonData, Mapping[str, Outcome], Mapping[str, SideLostError]], None]
    reset: Callable[[], None]
    lost_before: Mapping[str, SideLostError] = field(default_factory=dict)
    blocks: int | None = None

    def of(self, topology: Topology, dut: Dut, figure: Measurement, labels: Mapping[str, str]) -> Outcome:
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
        lost: dict[str, SideLostError] = dict(self.lost_before)
        duts = {side.name: replace(dut, version=side.name) for side in self.comparing.sides}
        self._check(topology, duts, lost)
        while True:  # each pass either ends, or has one side less
            subjects = [Subject(name, topology, of) for name, of in duts.items() if name not in lost]
            if len(subjects) < 2:
                raise self._record_all_lost(labels, lost)
            try:
                return self._measured(subjects, figure, labels, lost)
            except SideLostError as failure:
                if failure.side == self.comparing.baseline.name:
                    raise failure.error from failure
                if failure.state is SideState.BROKEN:
                    self.reset()
                lost[failure.side] = failure

    def _measured(
        self,
        subjects: Sequence[Subject],
        figure: Measurement,
        labels: Mapping[str, str],
        lost: Mapping[str, SideLostError],
    ) -> Outcome:
        study = self.make_study(labels, lambda outcome: self._is_decided(study, figure, outcome))
        return self._record_measured(study, figure, study.compare(SIDE, subjects, figure), lost)

    def _record_all_lost(self, labels: Mapping[str, str], lost: Mapping[str, SideLostError]) -> NfvperfError:
        """Returns the error that ends the test."""
        sides = tuple(SideFigures(name, each.state, each.reason) for name, each in lost.items())
        own = tuple(sorted(labels.items()))
        self.record(ComparisonData(own, "", ReadingMethod.ROUNDS, self.comparing.baseline.name, sides), {}, lost)
        last = list(lost.values())[-1]
        if last.state is SideState.FAILED:
            return DutFailure(f"{last.side}: {last.reason}")
        return SideLostError(last.side, last.state, last.error)  # without the traceback of an earlier test

    def _check(self, topology: Topology, duts: Mapping[str, Dut], lost: dict[str, SideLostError]) -> None:
        for name, dut in duts.items():
            try:
                self.check(topology, dut)
            except UnavailableError as error:
                if name == self.comparing.baseline.name:
                    raise
                lost[name] = SideLostError(name, SideState.UNAVAILABLE, error)

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

    def _record_measured(
        self, study: GuardedStudy, figure: Measurement, outcomes: Sequence[Outcome], lost: Mapping[str, SideLostError]
    ) -> Outcome:
        """Record the comparison; returns the baseline's outcome."""
        baseline, by_side = outcomes[0], {outcome.label[SIDE]: outcome for outcome in outcomes}
        if _is_dead(baseline, main := _main_metric(figure)):
            raise DutFailure(
                f"{main} of the baseline {self.comparing.baseline.name!r} is 0: nothing can be compared with it"
            )
        sides = [
            SideFigures(side.name, lost[side.name].state, lost[side.name].reason)
            if side.name in lost
            else self._figures(study, figure, baseline, by_side[side.name])
            for side in self.comparing.sides[1:]
        ]
        alternated = any(ratio.pairing for outcome in outcomes for ratio in outcome.relatives)
        data = ComparisonData(
            labels=tuple((name, value) for name, value in baseline.labels if name != SIDE),
            algorithm=baseline.algorithm,
            how=ReadingMethod.ALTERNATING if alternated else ReadingMethod.ROUNDS,
            baseline=self.comparing.baseline.name,
            sides=tuple(sides),
            elapsed_s=baseline.elapsed_s,
            notes=unique_side_notes(outcomes),
        )
        self.record(data, by_side, lost)
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
                found.append(compare_metric(samples, ratio, noise, self.comparing.margin, decides=decides))
        if not any(metric.decides for metric in found):
            main = _main_metric(figure)
            found.insert(0, unread_metric(main, figure.units[main]))
        return tuple(found)


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
# outcome. The forwarding rate at maximum offered load replaces an NDR or a loss curve: its readings alternate between
# sides in a tenth of a second, where a search takes ten.


def _compare_instead(method: Any) -> Any:
    """A measurement of Search that compares, and refuses what that refuses. Its load does not matter to a rate."""

    @checked(f"search.{method.__name__}")
    @wraps(method)
    def compared(self: ComparedSearch, live: Live, traffic: Sent, *_: Any, **__: Any) -> Outcome:
        return self._compared(live, traffic)

    return compared


@dataclass(eq=False, repr=False)
class ComparedSearch(Search):
    """Measurements of one test: the forwarding rate of every side, or in virtual time its instructions a packet."""

    sides: SideComparison = field(kw_only=True)
    virtual: bool = field(kw_only=True)
    _known: dict[tuple[Topology, Dut, AnyTraffic], Outcome] = field(default_factory=dict, init=False)

    def _compared(self, live: LiveTopology, traffic: AnyTraffic) -> Outcome:
        """The baseline's outcome."""
        if live.service_starters:
            raise UnavailableError("not compared: daemons run on its topology, and each side would need its own")
        key = (live.topology, live.dut, traffic)
        if key not in self._known:
            rate = ForwardingRate(traffic, self.profile, self._limits_of, larger=LARGER)
            figure = CountedInstructions(traffic) if self.virtual else rate
            self._known[key] = self.sides.of(live.topology, live.dut, figure, {})
        return self._known[key]

    ndr_pdr, throughput, loss_curve, back_to_back, loss_at = map(
        _compare_instead, (Search.ndr_pdr, Search.throughput, Search.loss_curve, Search.back_to_back, Search.loss_at)
    )


@dataclass(eq=False, repr=False)
class ComparedStudy(Study):
    """Studies of one test: each of their subjects on every side, one after the other."""

    sides: SideComparison = field(kw_only=True)

    def compare(self, per: str, subjects: Sequence[Subject], figure: Measurement) -> tuple[Outcome, ...]:
        """Returns the baseline's outcome of each subject. In virtual time instructions a packet replace a rate."""
        if self._context.virtual and isinstance(figure, ForwardingRate):
            figure = CountedInstructions(figure.traffic)
        check_time(next(iter(figure.units)), virtual=self._context.virtual)
        return tuple(
            self.sides.of(each.topology, each.dut, _with_larger_frames(figure_of(each, figure)), {per: each.value})
            for each in subjects
        )


def _with_larger_frames(figure: Measurement) -> Measurement:
    """A new figure, whose frames grow where a side outpaces the generator."""
    if not isinstance(figure, ForwardingRate):
        return figure
    return ForwardingRate(figure.traffic, figure.profile, figure.limits_of, larger=LARGER)
