"""A study: one figure on several subjects, measured in one test until their ratios are known well enough.

Readings alternate in short turns where all subjects can be deployed at once, else in rounds of fresh builds
(measure/alternation.py). Either way what differs from build to build, such as memory layout, is within the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Unpack

from pytest_nfvperf.measure.alternation import (
    FEWEST_BLOCKS,
    BlockReadings,
    Schedule,
    SideBySide,
    SubjectDeployer,
    read_blocks,
)
from pytest_nfvperf.measure.call_arguments import (
    DurationS,
    Label,
    OneTraffic,
    Sent,
    WholeLoad,
    check_load,
    check_sendable,
)
from pytest_nfvperf.measure.comparison_fields import comparison_fields, merge_fields, rig_is_the_limit
from pytest_nfvperf.measure.flood import forget_flows
from pytest_nfvperf.measure.limits import LimitsOf
from pytest_nfvperf.measure.load_series import share_after, with_trials
from pytest_nfvperf.measure.measurements import (
    ConnectionRate,
    CountedInstructions,
    ForwardingRate,
    Measurement,
    Subject,
    check_time,
)
from pytest_nfvperf.measure.mirror_cost import MirrorCost, MirrorLoad
from pytest_nfvperf.measure.outage import PATIENCE_S, Happening, OutageTime
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.soak import ndr_to_share
from pytest_nfvperf.measure.streams import Ends, ReconnectTime, StreamRunner, StreamSettings, TcpThroughput
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.arguments import Allowed, checked, one, several
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.measure.bounds import completed, sampled, with_offload
from pytest_nfvperf.model.measure.hw_offload import OffloadShare, worst_share
from pytest_nfvperf.model.measure.outcome import Outcome, Reading
from pytest_nfvperf.model.measure.profile import Profile, estimate_search_s
from pytest_nfvperf.model.measure.streams import ConnectSpec, RequestSpec, StreamSpec
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.traffic import FrameBytes
from pytest_nfvperf.ports.machine import Clock

Decided = Callable[[Outcome], bool]
"""True when more repeats would not change the SLA's verdict on an outcome."""

_TOPOLOGY_CHANGE_S = 0.2

_FIGURE = Allowed(
    "a Measurement, such as LoadCost(traffic, profile, 1_000_000)",
    lambda value: isinstance(value, Measurement),
)
_SUBJECT = one(Subject, "a Subject, such as Subject('1', bridge_chain(1))")
_Subjects = Annotated[Sequence[Subject], several(_SUBJECT, least=1)]


@dataclass(slots=True)
class MeasuredSubject:
    """A subject, what is measured of it, and what is known so far.

    Attributes:
        labels: of the last reading.
        trials: ids of all, including warm-ups and disturbed ones.
        shares: of flows in hardware, after each reading.
        cores: CPUs of the DUT's poll-mode threads.
    """

    subject: Subject
    figure: Measurement
    labels: dict[str, str] = field(default_factory=dict)
    trials: list[str] = field(default_factory=list)
    shares: list[OffloadShare] = field(default_factory=list)
    cores: int = 0

    def describe(self, live: LiveTopology) -> None:
        self.labels = self.figure.labels(live)
        self.cores = live.datapath_info.cores


@dataclass(slots=True)
class RunningStudy:
    """A comparison in progress. ``started``: by its clock."""

    per: str
    subjects: Sequence[MeasuredSubject]
    clock: Clock
    started: float

    def elapsed_s(self) -> float:
        return self.clock.monotonic() - self.started


@dataclass(eq=False, repr=False)
class Study:
    """The fixture ``study``: comparisons of one test.

    Every method takes ``per``, the label that subjects differ in, such as "bridges"; and ``subjects``, the baseline
    first.

    Attributes:
        labels: identify the test in SLAs and reports.
        _decided: whether more readings cannot change the SLA's verdict.
    """

    profile: Profile
    labels: Mapping[str, str]
    _deploy: SubjectDeployer
    _limits_of: LimitsOf
    _streams: Callable[[], StreamRunner]
    _decided: Decided
    _context: Context

    @checked("study.forwarding_rate")
    def forwarding_rate(
        self,
        per: Label,
        subjects: _Subjects,
        traffic: Sent,
        *,
        larger: Sequence[FrameBytes] = (),
        new_flows: bool = False,
    ) -> tuple[Outcome, ...]:
        """Forwarding rate at maximum offered load (RFC 2285), and PMD cycles a packet, of each subject.

        ``larger``: larger frame sizes in bytes, tried in this order where the generator and not a subject is the limit.
        ValueError where a subject has a traffic of its own. ``new_flows``: the datapath's megaflows are removed before
        each reading, so that each flow begins anew.
        """
        if larger and any(subject.traffic is not None for subject in subjects):
            raise ArgumentError("larger frames are for subjects that are all sent the same: give each its own traffic")
        if traffic.is_conversation:
            raise ArgumentError("study.forwarding_rate() counts frames: of a conversation take study.connection_rate()")
        figure = ForwardingRate(traffic, self.profile, self._limits_of, larger=larger)
        return self.compare(per, subjects, replace(figure, before=forget_flows) if new_flows else figure)

    @checked("study.connection_rate")
    def connection_rate(self, per: Label, subjects: _Subjects, conversation: OneTraffic) -> tuple[Outcome, ...]:
        """Connections a second that each subject brings to their end, while more are opened than it takes.

        ``conversation``: what ``Conversation.tcp()``, ``.udp()`` or ``.icmp()`` returned.
        """
        sent = [conversation, *(subject.traffic for subject in subjects if subject.traffic is not None)]
        if not all(each.is_conversation for each in sent):
            raise ArgumentError("study.connection_rate(): write a conversation, such as Conversation.tcp()")
        if any(each.hold_s for each in sent):
            raise ArgumentError("study.connection_rate(): held connections say nothing at overload: leave hold_s out")
        return self.compare(per, subjects, ConnectionRate(conversation, self.profile, self._limits_of))

    @checked("study.mirror_cost")
    def mirror_cost(
        self, per: Label, subjects: _Subjects, traffic: OneTraffic, load: MirrorLoad
    ) -> tuple[Outcome, ...]:
        """Forwarding rate with and without mirrors, and how complete they are, of each subject.

        The baseline has no mirror. ``load``: at which completeness is read, in addition to maximum offered load.
        """
        return self.compare(per, subjects, MirrorCost(traffic, self.profile, self._limits_of, load, self._find_ndr))

    def _find_ndr(self, live: LiveTopology, traffic: AnyTraffic) -> float:
        search = Search(self.profile, self.labels, self._limits_of, lambda of: estimate_search_s(of, of.goals))
        return ndr_to_share(live, traffic, search, "give a rate, or a share of the forwarding rate")

    @checked("study.tcp_throughput")
    def tcp_throughput(
        self,
        per: Label,
        subjects: _Subjects,
        streams: int = 1,
        *,
        ends: Ends | None = None,
        **settings: Unpack[StreamSettings],
    ) -> tuple[Outcome, ...]:
        """Goodput of parallel TCP streams between two namespaces, and the CPUs it took.

        Args:
            per: the label that the subjects differ in.
            subjects: the baseline first.
            streams: in parallel, in each direction.
            ends: the namespaces, the client's first, as ``("pod1", "pod2")``; None: the first one and the last.
            settings: of the streams: ``direction``, ``buffer_bytes``, ``window_bytes``, ``mss_bytes``, ``congestion``.
        """
        runner = self._streams()
        # Omitted: slow start, and the bridges' learning.
        duration_s, omit_s = self.profile.comparison_stream_s, self.profile.comparison_omit_s
        spec = StreamSpec(streams=streams, duration_s=duration_s, omit_s=omit_s, **settings)
        return self.compare(per, subjects, TcpThroughput(runner, spec, ends))

    @checked("study.response_time")
    def response_time(
        self,
        per: Label,
        subjects: _Subjects,
        *,
        ends: Ends | None = None,
        message_bytes: int = 64,
        load_per_s: int | None = None,
    ) -> tuple[Outcome, ...]:
        """Time from a request to its response over one TCP connection; arguments and ``ends`` as of ``tcp_throughput``.

        ``message_bytes``: of a request and of its response. ``load_per_s``: requests a second; None: the next one when
        the last one was answered. UnavailableError, with what to install, where nothing sends requests.
        """
        spec = RequestSpec(message_bytes, max(1, round(self.profile.comparison_stream_s)), load_per_s)
        return self.compare(per, subjects, self._streams().response_time(spec, ends))

    @checked("study.connect_rate")
    def connect_rate(
        self, per: Label, subjects: _Subjects, *, ends: Ends | None = None, connects: int = 5000
    ) -> tuple[Outcome, ...]:
        """How many TCP connections one client opens a second, one after the other, and how long each connect takes.

        Arguments and ``ends`` as of ``tcp_throughput``. ``connects``: in a reading. UnavailableError, with what to
        install, where nothing connects.
        """
        spec = ConnectSpec(connects, max(1, round(self.profile.comparison_stream_s)))
        return self.compare(per, subjects, self._streams().connect_rate(spec, ends))

    @checked("study.reconnect_time")
    def reconnect_time(
        self, per: Label, subjects: _Subjects, *, ends: Ends | None = None, killed: bool = False
    ) -> tuple[Outcome, ...]:
        """How long a restart of OVS interrupts two namespaces; arguments and ``ends`` as of ``tcp_throughput``.

        ``killed``: by SIGKILL, as in a crash; else by an orderly exit. DutFailure where the namespaces do not
        reach each other again, UnavailableError where we may not restart the DUT.
        """
        return self.compare(per, subjects, ReconnectTime(self._context, ends, killed))

    @checked("study.outage")
    def outage(
        self,
        per: Label,
        subjects: _Subjects,
        event: Happening,
        traffic: Sent,
        load_fps: WholeLoad,
        *,
        patience_s: DurationS = PATIENCE_S,
    ) -> tuple[Outcome, ...]:
        """For how long an event blocks frames of each subject, which is built anew for each; as the fixture ``outage``.

        ``event``: makes it on each subject, such as ``events.restart``. ``load_fps``: frames/s per direction.
        ``patience_s``: if frames do not pass again so long after the event, the outage did not end.
        """
        check_load("study.outage", traffic, load_fps, patience_s)
        figure = OutageTime(traffic, self.profile, self._context, event, load_fps, patience_s)
        return self.compare(per, subjects, figure)

    @checked("study.instructions_per_packet")
    def instructions_per_packet(self, per: Label, subjects: _Subjects, traffic: Sent) -> tuple[Outcome, ...]:
        """Instructions that each subject spends on a packet, in virtual time (``--nfv-virtual-time``)."""
        return self.compare(per, subjects, CountedInstructions(traffic))

    @checked("study.compare")
    def compare(self, per: Label, subjects: _Subjects, figure: Annotated[Measurement, _FIGURE]) -> tuple[Outcome, ...]:
        """Measure a figure on all subjects, in alternating turns where they can be deployed at once, else in rounds.

        There are at least FEWEST_BLOCKS blocks of turns, or the profile's ``comparison_repeats`` rounds. There are
        more, up to planned looks, while the SLA's verdict is open and the profile's ``comparison_budget_s`` lasts.

        Returns:
            An outcome a subject, already in the evidence; the last one has the slopes.

        Raises:
            InvalidTrialsError: the rig disturbed too many readings.
            UnavailableError: a figure of the clock in virtual time, or the other way round; says what to do.
            ValueError: a subject has a traffic of its own, which this figure cannot have.
        """
        check_time(next(iter(figure.units)), virtual=self._context.virtual)
        subjects, figure = self._sending_instead(subjects, figure)
        for subject in subjects:
            if (traffic := subject.traffic or figure.sent) is not None:
                check_sendable("study", subject.topology, traffic)
        for subject in subjects:
            self._deploy.refuse_lacking(subject.topology, subject.dut)
        clock, measured = self._context.clock, [MeasuredSubject(each, figure_of(each, figure)) for each in subjects]
        work = RunningStudy(per, measured, clock, clock.monotonic())
        side_by_side = self._deploy.side_by_side(_copies(subjects)) if figure.takes_turns else None
        if side_by_side is not None:
            with side_by_side as rigs:
                outcomes = self._profiled(work, self._alternating(work, rigs), rigs.run)
        else:
            outcomes = self._profiled(work, self._in_rounds(work), partial(self._rebuilt, work))
        for outcome in outcomes:
            self._context.recorder.emit(outcome)
        if self._context.profiling is not None:
            self._context.profiling.compare(per, outcomes)
        return outcomes

    def _rebuilt(self, work: RunningStudy, number: int) -> LiveTopology:
        subject = work.subjects[number].subject
        return self._deploy.redeploy(subject.topology, subject.dut, quiet=True)

    def _profiled(
        self, work: RunningStudy, outcomes: Sequence[Outcome], live_of: Callable[[int], LiveTopology]
    ) -> tuple[Outcome, ...]:
        """The outcomes of packets, after one more trial of each under the profiler where one is requested."""
        profiling = self._context.profiling
        if profiling is None or work.subjects[0].figure.sent is None:
            return tuple(outcomes)
        found = []
        for number, outcome in enumerate(outcomes):
            with self._noting(work.subjects[number]):
                found.append(profiling.packets(live_of(number), outcome, f"{work.per} {outcome.label[work.per]}"))
        return tuple(found)

    def _budget_s(self) -> float:
        """The profile's, as far as no other test of the run needs that time."""
        return min(self.profile.comparison_budget_s, self._context.time_limit.spare_s)

    def _sending_instead(
        self, subjects: Sequence[Subject], figure: Measurement
    ) -> tuple[Sequence[Subject], Measurement]:
        """The same with the traffic of ``--nfv-traffic``, if there is one and the figure can send another one."""
        instead = self._context.replacement_for
        own = figure.sent
        if not figure.own_traffic or own is None or instead(own) == own:
            return subjects, figure
        changed = [each if each.traffic is None else replace(each, traffic=instead(each.traffic)) for each in subjects]
        return changed, figure.sending(instead(own))

    def _in_rounds(self, work: RunningStudy) -> tuple[Outcome, ...]:
        """Every reading has a build of its own."""

        def take(number: int, block: int, left: int) -> Reading:
            measured = work.subjects[number]
            subject, figure = measured.subject, measured.figure
            with self._noting(measured):
                live = self._deploy.redeploy(subject.topology, subject.dut, quiet=block > 0)
                measured.describe(live)
                reading = figure.read(live, left * (figure.reading_s + _TOPOLOGY_CHANGE_S))
                self._note_share(live, measured)
                return reading

        found = read_blocks(
            len(work.subjects),
            lambda _: None,  # each deployment removes the one before
            take,
            Schedule(self.profile.comparison_repeats, self._budget_s()),
            enough=lambda so_far: self._all_decided(work, so_far),
            elapsed_s=work.elapsed_s,
        )
        return self._outcomes(work, found)

    def _alternating(self, work: RunningStudy, rigs: SideBySide) -> tuple[Outcome, ...]:
        """All subjects are deployed at once, with a second build of the baseline for the noise floor.

        Where the rig was the limit in too many readings, and there are larger frames, measure again with those.
        """
        found = self._take_turns(work, rigs)
        figure = work.subjects[0].figure  # all subjects have the same one, if its frames can become larger
        while _should_grow(figure, work, found):
            figure.grow()
            found = self._take_turns(work, rigs)
        return self._outcomes(work, found)

    def _take_turns(self, work: RunningStudy, rigs: SideBySide) -> BlockReadings:
        copies = _copies([each.subject for each in work.subjects])
        ready: set[tuple[int, int]] = set()

        def take(number: int, block: int, left: int) -> Reading:
            subject = number % len(work.subjects)
            measured = work.subjects[subject]
            figure = measured.figure
            with self._noting(measured):
                live = rigs.run(number)
                remaining_s = left * figure.reading_s
                if (block, number) not in ready:
                    figure.begin(live, remaining_s)
                    ready.add((block, number))
                measured.describe(live)
                reading = figure.turn(live, remaining_s)
                self._note_share(live, measured)
                return reading.on_rig(rigs.rig_of(number))

        def begin_block(number: int) -> None:
            rigs.begin_block(copies, number)
            if number > 0:
                return  # each is built and made ready when it is first read
            # The baseline first: to measure the rig's ceiling takes the CPUs of DUTs that do not run yet. Each traffic
            # has a ceiling of its own.
            first = rigs.run(0)
            shared = {id(each.figure): each.figure for each in work.subjects}  # by subjects without own traffic
            for figure in shared.values():
                figure.begin(first, None)
            self._grow(work, rigs)
            ready.add((0, 0))

        return read_blocks(
            len(copies),
            begin_block,
            take,
            Schedule(FEWEST_BLOCKS, self._budget_s(), self.profile.comparison_turns),
            enough=lambda so_far: self._all_decided(work, so_far),
            elapsed_s=work.elapsed_s,
            give_up=lambda so_far: _should_grow(work.subjects[0].figure, work, so_far),
        )

    def _grow(self, work: RunningStudy, rigs: SideBySide) -> None:
        """Make frames larger until no subject outpaces the rig. The baseline is ready already."""
        figure = work.subjects[0].figure
        while figure.grows and self._outpaced(work, figure, rigs):
            figure.grow()
            figure.begin(rigs.run(0), None)  # the ceiling of another traffic can be measured only there

    def _outpaced(self, work: RunningStudy, figure: Measurement, rigs: SideBySide) -> bool:
        for number in range(1, len(work.subjects)):
            if figure.outpaced:
                break
            with self._noting(work.subjects[number]):
                figure.begin(rigs.run(number), None)
        return figure.outpaced

    def _all_decided(self, work: RunningStudy, found: BlockReadings) -> bool:
        return all(self._decided(outcome) for outcome in self._outcomes(work, found))

    def _outcomes(self, work: RunningStudy, readings: BlockReadings) -> tuple[Outcome, ...]:
        values = [measured.subject.value for measured in work.subjects]
        fields_of_all = comparison_fields(work.per, values, work.subjects[0].figure.units, readings)
        elapsed_s = work.elapsed_s()
        outcomes = []
        for measured, fields in zip(work.subjects, fields_of_all, strict=True):
            figure = measured.figure
            outcome = Outcome(
                labels=self._labels({**measured.labels, work.per: measured.subject.value}),
                trials=tuple(measured.trials),
                cores=measured.cores,
                **merge_fields(figure.facts(), {**fields, "algorithm": figure.name, "elapsed_s": elapsed_s}),
            )
            outcome = with_trials(sampled(outcome), figure.sent, self._context.trials.values())
            outcomes.append(completed(with_offload(outcome, worst_share(measured.shares))))
        return tuple(outcomes)

    @contextmanager
    def _noting(self, measured: MeasuredSubject) -> Iterator[None]:
        known = self._runs()
        try:
            yield
        finally:
            measured.trials += [run for run in self._runs() if run not in known]

    def _note_share(self, live: LiveTopology, measured: MeasuredSubject) -> None:
        if share := share_after(live, self.labels):
            measured.shares.append(share)

    def _runs(self) -> dict[str, None]:
        """Ids of all trials and runs of streams, requests and connects so far, in order."""
        return dict.fromkeys([*self._context.trials, *self._context.streams, *self._context.others])

    def _labels(self, measured: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Measured labels replace a test's own, except for the name of its topology."""
        own = {name: self.labels[name] for name in ("topology",) if name in self.labels}
        return tuple(sorted({**self.labels, **measured, **own}.items()))


def figure_of(subject: Subject, figure: Measurement) -> Measurement:
    """The figure with the subject's own traffic, if it has one; ArgumentError where the figure takes one for all."""
    if subject.traffic is None:
        return figure
    if not figure.own_traffic:
        raise ArgumentError(f"{figure.name} has one traffic for all: the subject {subject.value!r} cannot have its own")
    return figure.sending(subject.traffic)


def _should_grow(figure: Measurement, work: RunningStudy, found: BlockReadings) -> bool:
    """True where the rig was the limit of a subject, and there are larger frames to try."""
    if not figure.has_larger:
        return False
    metric = next(iter(figure.units))
    return any(rig_is_the_limit(metric, found.readings(number)) for number in range(len(work.subjects)))


def _copies(subjects: Sequence[Subject]) -> list[tuple[Topology, Dut]]:
    return [(subject.topology, subject.dut) for subject in (*subjects, subjects[0])]
