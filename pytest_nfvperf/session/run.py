"""What one pytest process knows and owns: testbed, SLAs, evidence and the rig.

Everything is made when first needed, so that collecting tests costs nothing and changes nothing::

    NfvSession
      rig         Rig               datapath, generator and topology; the first use locks the machine, or shares it
      recorder    Recorder          evidence; the run record comes first, and is written again as more becomes known
      measured    MeasuredSubjects  what relations of SLAs compare
      slas        Slas              the rules in force, by test file
      comparison  Comparison        only in a run that compares sides

A test that measures has the machine to itself; functional tests share it. An OVS polls also between tests. So a shared
rig is closed before a test measures.
"""

from __future__ import annotations

import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pytest_nfvperf import __version__
from pytest_nfvperf.adapters.evidence import hdr
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, evidence_file, samples_in
from pytest_nfvperf.adapters.process.process import Interrupts
from pytest_nfvperf.adapters.report.junit import junit_properties
from pytest_nfvperf.adapters.report.subjects import title
from pytest_nfvperf.adapters.report.texts import deployed_title, topology_drawing
from pytest_nfvperf.backends.base import Backend
from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.config.traffic_file import GivenTraffic
from pytest_nfvperf.features import Point
from pytest_nfvperf.measure.alternation import SideBySide
from pytest_nfvperf.measure.clocks import TimeLimit
from pytest_nfvperf.measure.flood import Floods
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.measurements import check_time
from pytest_nfvperf.measure.measurer import measured_labels
from pytest_nfvperf.measure.outage import Outages, OutageTime
from pytest_nfvperf.measure.rig import LiveTopology, Rig, RigParts
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.soak import Soaker, find_loads
from pytest_nfvperf.measure.streams import StreamRunner
from pytest_nfvperf.measure.study import Decided, Study
from pytest_nfvperf.measure.trials import (
    Context,
    DeployedOn,
    InvalidTrialsError,
    Profiling,
    Recorder,
    RunLocations,
    Trial,
    as_it_is,
)
from pytest_nfvperf.model.display import storable
from pytest_nfvperf.model.disturbance.cpu_distance import ObservedBands
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.comparison import CPU_BANDS, rig_facts
from pytest_nfvperf.model.evidence.conclusion import (
    WHEN_THE_RUN_ENDED,
    TestConclusion,
    TestFacts,
    conclude_test,
    out_of_time,
)
from pytest_nfvperf.model.evidence.records import (
    STEPS,
    AttachmentData,
    LedgerData,
    RunData,
    RunEndData,
    Span,
    TestData,
    TestEndData,
    TopologyData,
)
from pytest_nfvperf.model.measure.compare import ComparisonData
from pytest_nfvperf.model.measure.cpu_profile import profile_text
from pytest_nfvperf.model.measure.hw_offload import OFFLOAD_RULE
from pytest_nfvperf.model.measure.ledger import ledger_text, loss_sort_key
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import PROFILES, Profile
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.sla.judge import requirement_text
from pytest_nfvperf.model.sla.rules import Rule, no_line_rate
from pytest_nfvperf.model.sla.verdict import Baseline
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut, GeneratorInfo, with_nodes
from pytest_nfvperf.model.testbed.topology_text import port_kinds
from pytest_nfvperf.model.topology.frame_route import line_rate_fps
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.ports.machine import Progress, RunEnd, Sink
from pytest_nfvperf.session.comparison import Comparison
from pytest_nfvperf.session.last_run import LastRun, TestOnRig, key_of
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure, Slas, load_baseline

CPU_PROFILES = Point[Callable[[Callable[[], RigParts], Path, Context], Profiling]]("profiles")
"""Repeats a run under a profiler, by the option; made from the rig, the run's directory and the context of runs."""


def with_bands(data: RunData, observed: ObservedBands) -> RunData:
    """The run record with the CPU bands of its trials in the fingerprint, for the end of the run."""
    bands = {"near": (observed.near_trials, observed.near_ns), "far": (observed.far_trials, observed.far_ns)}
    shown: dict[str, Any] = {
        name: {"trials": trials, "median_ns": median_ns} for name, (trials, median_ns) in bands.items() if trials
    }
    if observed.moved_trials:
        shown["moved_trials"] = observed.moved_trials
    return replace(data, fingerprint={**data.fingerprint, CPU_BANDS: shown})


class NfvSession:
    """The fixture ``nfv_session``: state of one pytest process.

    Args:
        run_dir: this run's directory under the results; shared by xdist workers.
        worker: xdist worker name, "" without xdist.
        sinks: take records after the evidence file.
        traffic: what is sent in place of the tests' own; None: theirs.

    Attributes:
        deployed: what the running test deployed, by topology and DUT; whoever starts a test clears it.
        since_last: what the running test measured beside its last run.
        selected: node ids of all tests of the run; None until the first of them is about to run.
        awaited: rules that a selected test must be judged by: what each selects, by its location.
        not_for_testbed: node ids of tests that are not selected because the testbed lacks what they need, by reason.
        test_file: file of the running test, whose SLA is in force; None before the first.
        interrupted: the signal that ended a soak: the run ends after this test; "" without one.
        functional: the running test judges no rate; whoever starts a test sets it.
        rig_suspect: a signal interrupted work on the testbed; whoever begins a test replaces the rig.
        time_limit: of the run, from now on. ``not_begun``: how many tests it kept from being begun.
        stopping: how the run ends when a signal asks it to.
        comparison: None unless the run compares sides.
        run_id: of each record.
        resumes: evidence files of killed processes whose run this one continues.
    """

    def __init__(
        self,
        options: Options,
        backend: Backend,
        run_dir: Path,
        worker: str,
        progress: Progress,
        sinks: Sequence[Sink] = (),
        traffic: GivenTraffic | None = None,
    ) -> None:
        self.options = options
        self.backend = backend
        self.run_dir = run_dir
        self.worker = worker
        self.traffic = traffic
        self.profile: Profile = PROFILES[options.profile]
        if options.soak_duration_s is not None:
            self.profile = replace(self.profile, soak_s=options.soak_duration_s)
        if options.time_limit_s is not None:
            self.profile = replace(self.profile, time_limit_s=options.time_limit_s)
        limited = options.compare is None and not (options.plan or options.virtual_time)
        self.time_limit = TimeLimit(self.profile.time_limit_s if limited else options.time_limit_s, backend.clock)
        self.slas = Slas(options)
        self.measured = MeasuredSubjects()
        self.deployed: dict[DeployedOn, TopologyData] = {}
        self.since_last: list[ComparisonData] = []
        self.interrupted = ""
        self.rig_suspect = False
        self.functional = False
        self.test_file: Path | None = None
        self.selected: tuple[str, ...] | None = None
        self.not_begun = 0
        self.awaited: dict[str, str] = {}
        self.not_for_testbed: dict[str, tuple[str, ...]] = {}
        self.stopping = RunEnd()
        self.comparison: Comparison | None = None
        if options.compare is not None:
            close_rig = lambda: self.rig.close()  # noqa: E731, PLW0108 - there is no rig yet
            self.comparison = Comparison(options.compare, options, close_rig)
        self.run_id = run_dir.name
        self.resumes: tuple[str, ...] = ()
        self._progress, self._sinks = progress, tuple(sinks)
        self._started = time.monotonic()
        self._statuses: Counter[str] = Counter()
        self._last_status = ""
        self._rig: Rig | None = None
        self._rig_is_shared = False
        self._described = (False, False)  # DUT, generator
        self._run_data: RunData | None = None

    @cached_property
    def baseline(self) -> Baseline | None:
        """The run that --nfv-baseline names; None without one, ConfigError for one that cannot be read."""
        path = self.options.baseline
        return None if path is None else load_baseline(path, self.fingerprint())

    def fingerprint(self) -> Mapping[str, Any]:
        """What must be equal for figures of two runs to be compared: the machine, and what is sent."""
        sent = {} if self.traffic is None else {"traffic": self.traffic.identity}
        return {**self.backend.fingerprint(), **sent}

    @cached_property
    def recorder(self) -> Recorder:
        """Evidence of this process, whose file is created now. A plan leaves none, nor a run of fixtures alone."""
        if self.options.plan or self.options.setup_only:
            return Recorder("plan", [], self.backend.clock)
        writer = EvidenceWriter(evidence_file(self.run_dir, self.worker))
        recorder = Recorder(self.run_id, [writer, *self._sinks], self.backend.clock, self.worker, hdr.encode)
        self._emit_run_data(recorder)
        return recorder

    def _emit_run_data(
        self, recorder: Recorder, dut: DatapathInfo | None = None, generator: GeneratorInfo | None = None
    ) -> None:
        """Write the run record. DUT and generator are None as long as they are unknown."""
        options, testbed = self.options, self.backend.testbed
        self._run_data = RunData(
            tool_version=__version__,
            python=platform.python_version(),
            argv=tuple(sys.argv),
            profile=options.profile,
            testbed=testbed,
            testbed_yaml=yaml_of_testbed(testbed),
            fingerprint=dict(self.fingerprint()),
            dut=dut,
            generator=generator,
            sla=(*map(str, options.slas), *options.packs),
            selected=self.selected,
            compare=options.compare,
            resumes=self.resumes,
            not_for_testbed=self.not_for_testbed,
            awaited={} if self.profile is PROFILES["smoke"] or self.comparison else self.awaited,
        )
        recorder.emit(self._run_data)

    @cached_property
    def _context(self) -> Context:
        instead = as_it_is if self.traffic is None else self.traffic.replacement_for
        virtual = self.options.virtual_time
        context = Context(
            self.recorder,
            self._progress,
            self.backend.clock,
            time_limit=self.time_limit,
            virtual=virtual,
            replacement_for=instead,
        )
        if not self.options.profile_cpu or self.options.plan or virtual:
            return context
        make = CPU_PROFILES.part("--nfv-profile-cpu")
        return replace(context, profiling=make(lambda: self.rig.parts, self.run_dir, context))

    @cached_property
    def can_share(self) -> bool:
        """Whether functional tests of other processes can run on this machine at the same time."""
        return self.options.compare is None and self.backend.can_share

    @property
    def rig(self) -> Rig:
        """The rig for the running test. The first use locks the machine, and removes what dead runs left."""
        with self.recorder.stopwatch.of(Span.WAITING):  # for the machine, which another run may have
            if self._rig is None:
                self._rig = self._make_rig()
            elif self._rig_is_shared and not self.functional:
                try:
                    self._rig.close()
                finally:
                    self.backend.close()
                self._rig = self._make_rig()
        return self._rig

    def _make_rig(self) -> Rig:
        self._rig_is_shared = self.functional and self.can_share
        return Rig(self.backend.shared_parts() if self._rig_is_shared else self.backend.parts(), self._context)

    def take_machine(self) -> None:
        """Lock the machine and begin the journal, for what is made or changed before a topology is."""
        _ = self.rig

    def live(self, topology: Topology, dut: Dut = TESTBED_DUT) -> LiveTopology:
        return self._live_on(self.rig, topology, dut)

    def _live_on(self, rig: Rig, topology: Topology, dut: Dut) -> LiveTopology:
        live = rig.live(topology, self.profile.invalid_trial_budget, dut)
        # Write the run record again as soon as the DUT is known, and then the generator.
        known = (True, self.rig.generator_info is not None)
        if self._described < known:
            self._described = known
            self._emit_run_data(self.recorder, self.rig.datapath().info(), self.rig.generator_info)
        kinds = port_kinds(live.topology, live.datapath_kind, self.backend.testbed)
        info, sending = live.datapath_info, dict(live.sending)
        deployed = TopologyData(live.as_deployed, live.datapath_kind, live.dut, kinds, info, sending)
        if deployed not in self.deployed.values():
            self.recorder.emit(deployed)
        self.deployed[live.topology, live.dut] = deployed
        name = f"OVS configuration: {deployed_title(deployed)}"
        self.recorder.emit(AttachmentData(name, text=live.deployment.built.configuration()))
        return live

    def refuse_lacking(self, topology: Topology, dut: Dut) -> None:
        """Raise UnavailableError with the reason where this testbed cannot have the topology on this DUT."""
        dut = with_nodes(dut, topology)
        lacking = self.backend.lacks(dut) or self.backend.lacks_roles(topology, dut)
        if lacking is not None:
            raise UnavailableError(lacking)

    def side_by_side(self, subjects: Sequence[DeployedOn]) -> SideBySide | None:
        """Deploys all subjects at once, one of which works at a time; None where the testbed has only one DUT."""
        if not SideBySide.possible(self.rig, subjects):
            return None
        noted: set[DeployedOn] = set()

        def deploy(rig: Rig, topology: Topology, dut: Dut) -> LiveTopology:
            if (topology, dut) in noted:
                return rig.live(topology, self.profile.invalid_trial_budget, dut)
            noted.add((topology, dut))
            return self._live_on(rig, topology, dut)

        return SideBySide(self.rig, deploy)

    def failed_on(self, error: BaseException) -> list[TopologyData]:
        """The deployed topologies that a failure of the running test is about; at least one."""
        return failed_on(error, self.deployed, self._context.locations)

    def search(self, labels: Mapping[str, str]) -> Search:
        if self.comparison is not None:
            return self.comparison.search(self._study(labels, lambda _: True), self.backend.estimate_search_s)
        return Search(*self._search_settings(labels))

    def floods(self, labels: Mapping[str, str]) -> Floods:
        return Floods(*self._search_settings(labels))

    def _search_settings(self, labels: Mapping[str, str]) -> tuple[Any, ...]:
        check_time("a search", virtual=self.options.virtual_time)
        return (
            self.profile,
            labels,
            partial(self._limits_to_judge, labels),
            self.backend.estimate_search_s,
            partial(self._limits_to_judge, labels, remeasured=True),
            self.options.repeat,
            self._context.replacement_for,
        )

    def soaker(self, labels: Mapping[str, str]) -> Soaker:
        check_time("a soak", virtual=self.options.virtual_time)
        search = self.search(labels)

        def loads(live: LiveTopology, traffic: AnyTraffic, given_fps: float | None) -> tuple[float, ...]:
            asked = self.options.soak_load if given_fps is None else SoakLoad(fps=given_fps)
            return find_loads(asked, live, traffic, search)

        open_samples = None if self.options.plan else samples_in(self.run_dir)
        return Soaker(self.profile, labels, self._context, open_samples, self._take_signals, self._interrupt, loads)

    def _take_signals(self) -> Interrupts:
        return Interrupts((Path() if self.options.plan else self.run_dir) / "terminal.log", self.stopping.ask_soak)

    def _interrupt(self, signal_name: str) -> None:
        self.interrupted = signal_name

    def study(self, labels: Mapping[str, str], decided: Decided) -> Study:
        """Comparisons of one test. ``decided``: whether more readings cannot change the SLA's verdict."""
        study = self._study(labels, decided)
        return study if self.comparison is None else self.comparison.study(study)

    def _study(self, labels: Mapping[str, str], decided: Decided) -> Study:
        return Study(self.profile, labels, self, self._limits_of, self.stream_runner, decided, self._context)

    def outages(self, labels: Mapping[str, str]) -> Outages:
        """What events cost, in one test."""
        check_time("an outage", virtual=self.options.virtual_time)
        sides = None if self.comparison is None else self.comparison.study(self._study(labels, lambda _: True))

        def on_each_side(live: LiveTopology, figure: OutageTime) -> Outcome:
            assert sides is not None
            return sides.on_each_side(live.topology, live.dut, figure, {})

        compared = on_each_side if sides is not None else None
        return Outages(self.profile, labels, self._context, compared, simulated=self.options.plan)

    def only_alone(self, what: str) -> None:
        """Raise UnavailableError in a run that compares sides: ``what`` cannot alternate between them."""
        if self.comparison is not None:
            raise UnavailableError(f"not compared: {what} cannot alternate between sides")

    def stream_runner(self) -> StreamRunner:
        """Runs TCP and UDP streams. Unless the testbed says otherwise, both ends may use all its CPUs.

        UnavailableError with the reason where the testbed has no engine for them.
        """
        if (lacking := self.backend.lacks_streams()) is not None:
            raise UnavailableError(lacking)
        check_time("a stream's goodput", virtual=self.options.virtual_time)
        rig, cpus, ends = self.rig, self.backend.testbed.cpus, self.backend.testbed.streams
        every = tuple(sorted({*cpus.housekeeping, *cpus.pmd, *cpus.generator, *cpus.vnf}))
        return StreamRunner(
            rig.streams(),
            self._context,
            self.profile.invalid_trial_budget,
            rig.parts,
            (ends.client_cpus or every, ends.server_cpus or every),
            rig.parts.make_cpu_accounting(),
        )

    def redeploy(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:
        """Rebuild a topology even if it is deployed. ``quiet``: its configuration is on record already."""
        self.rig.remove_topology()
        if quiet:
            return self.rig.live(topology, self.profile.invalid_trial_budget, dut)
        return self.live(topology, dut)

    def sla_check(self, test_file: Path) -> SlaCheck:
        rules, inconclusive = self.rules_in_force(test_file), self.options.inconclusive
        ledger = partial(bounding_text, trials=self._context.trials)
        profile = partial(profile_text, profiles=self._context.profiles)
        baseline = lambda: self.baseline  # noqa: E731 - it is read when a limit is a share of it
        return SlaCheck(rules, self.measured, self.recorder, ledger, inconclusive, baseline, profile, self._gate)

    @cached_property
    def last_run(self) -> LastRun:
        """What the tests of this run are compared with. The tests are selected by now."""
        tests = frozenset(map(storable, self.selected or ()))
        return LastRun(self.run_dir, tests, self.options.fail_below, self.baseline)

    def _gate(self, outcomes: Sequence[Outcome]) -> tuple[Rule, Baseline] | None:
        return self.last_run.gate(outcomes, self._test_on_rig)

    @property
    def _test_on_rig(self) -> TestOnRig | None:
        """The running test; None in a run that is compared with no earlier one."""
        if self._run_data is None or self.options.plan or self.comparison is not None:
            return None
        return storable(self.recorder.test), rig_facts(self._run_data, self.deployed.values())

    def compare_with_last(self) -> None:
        """Record what the running test measured beside its last run, or why it is not compared."""
        known = [key_of(each) for each in self.since_last]
        for outcome in (one for one in self.outcomes if key_of(one) not in known):
            if (found := self.last_run.compare(outcome, self._test_on_rig)) is not None:
                self.since_last.append(found)
                self.recorder.emit(found)

    def rules_in_force(self, test_file: Path) -> tuple[Rule, ...]:
        """Rules that judge the tests of this file: the SLA's, and those that the testbed itself adds."""
        if self.options.plan or self.comparison:
            return ()
        return (*self.slas.rules_for(test_file), *((OFFLOAD_RULE,) if self.backend.testbed.ovs.hw_offload else ()))

    def begin_test(self, node_id: str, data: TestData) -> None:
        if data.attempt > 1:
            self._statuses[self._last_status] -= 1
        self.recorder.test = node_id
        self._progress.begin(title(dict(data.labels)))
        self._context.begin_test()
        self.deployed.clear()
        self.since_last.clear()
        self.recorder.emit(data)

    def junit_properties(self) -> list[tuple[str, str]]:
        return junit_properties(self.outcomes, self.recorder.verdicts, self.since_last)

    @property
    def outcomes(self) -> list[Outcome]:
        """What the running test has measured so far."""
        return [*self.recorder.outcomes]

    def _unchecked(self, end: TestEndData) -> TestEndData:
        """Say of a test that passed without a verdict which rule is about what it measured."""
        if end.status != "passed" or end.reason or self.recorder.verdicts or self.test_file is None:
            return end
        measured = [(outcome.label, {seen.metric for seen in outcome.figures}) for outcome in self.outcomes]
        gate = self._gate(self.outcomes)
        for rule in (*self.rules_in_force(self.test_file), *([] if gate is None else gate[:1])):
            metrics = dict(rule.require).keys()
            if any(metrics & seen and rule.without_class().matches(labels) for labels, seen in measured):
                return replace(end, reason=f"measured; {rule.source} would apply, and nothing called sla.check()")
        return end

    def end_test(self, end: TestEndData) -> TestConclusion:
        self._progress.clear()
        end = self._unchecked(end)
        self._count(end)
        conclusion = self._conclude(end)
        try:
            for ledger in complete_ledgers(self.outcomes, self._context.trials):
                self.recorder.emit(ledger)
            self.recorder.emit(end)
        finally:
            self.recorder.test = ""
        return conclusion

    def correct_end(self, node_id: str, end: TestEndData) -> TestConclusion:
        """Replace the end of the last test: another plugin changed its report, and what pytest reports counts."""
        self._statuses[self._last_status] -= 1
        self._count(end)
        self.recorder.test = node_id
        conclusion = self._conclude(end)
        self.recorder.emit(end)
        self.recorder.test = ""
        return conclusion

    def _conclude(self, end: TestEndData) -> TestConclusion:
        recorder = self.recorder
        return conclude_test(
            TestFacts(
                recorder.test,
                status=end.status,
                cause=end.cause,
                reason=end.reason,
                verdicts=tuple(recorder.verdicts),
                errors=tuple(error.message for error in recorder.errors),
                measured=bool(recorder.outcomes),
            )
        )

    def conclude_interrupted(self) -> TestConclusion:
        """Conclude a test that cannot end because the run ends."""
        errors = tuple(error.message for error in self.recorder.errors)
        return conclude_test(TestFacts(self.recorder.test, reason=WHEN_THE_RUN_ENDED, errors=errors))

    def _count(self, end: TestEndData) -> None:
        self._statuses[end.status] += 1
        self._last_status = end.status

    def broken(self, error: TestbedError) -> TestbedError:
        """Record that the testbed broke in the running test. Returns the error to show, such as which process died."""
        return error if self._rig is None else self._rig.broken(self.recorder.test, error)

    def recover_rig(self) -> None:
        """Before a test: if a signal interrupted the one before, take down everything that the run has made.

        No variable knows what the rig, or its making, may have left. Closing the backend removes everything that the
        journal lists.

        Raises:
            TestbedError: something cannot be removed.
        """
        if not self.rig_suspect:
            return
        self.rig_suspect = False
        interrupted, self._rig = self._rig, None
        try:
            if interrupted is not None:
                interrupted.interrupted()
        finally:
            self.backend.close()
        if interrupted is not None:
            fresh = self._make_rig()
            fresh.adopt_failures_of(interrupted)
            self._rig = fresh

    def abandon(self) -> None:
        """Kill at once what this run started on the machine; stop gently only what must restore somebody else's.

        Called from a signal handler, at any moment. ``close`` removes what is left.
        """
        self.backend.abandon()

    def close(self, exit_status: int, reason: str = "") -> None:
        """Take the rig down and finish the evidence. Can be called twice.

        Args:
            exit_status: pytest's own.
            reason: what ended the run before its time.
        """
        stopping = self.stopping
        try:
            with stopping.long_close():
                if self._rig is not None:
                    self._rig.close()
        finally:
            with stopping.undisturbed():
                try:
                    self.backend.close()
                finally:
                    if "recorder" in self.__dict__:  # it was made, and is not closed yet
                        self._end_evidence(exit_status, reason)

    def _end_evidence(self, exit_status: int, reason: str) -> None:
        """Write the last records and close the file, even if writing fails: an open file looks running."""
        seconds = time.monotonic() - self._started
        recorder = self.recorder
        del self.recorder
        with ExitStack() as ending:
            ending.callback(recorder.close)
            limit_s = self.time_limit.limit_s if self.not_begun else None
            if limit_s is not None:
                reason = reason or out_of_time(self.not_begun, limit_s)
            ending.callback(recorder.emit, RunEndData(exit_status, seconds, dict(+self._statuses), reason, limit_s))
            bands = self._rig.observed_bands if self._rig is not None else None
            if bands is not None and self._run_data is not None:
                recorder.emit(with_bands(self._run_data, bands))

    def _limits_of(self, live: LiveTopology, traffic: AnyTraffic, *, remeasured: bool = False) -> Limits:
        directions = len(live.topology.directions) if traffic.bidirectional else 1
        of_ports, of_underlays = self.backend.line_rate_bps(), self.backend.testbed.underlay_line_rate_bps
        return Limits(
            ceiling_fps=self.rig.ceiling_fps(live, traffic, directions, remeasured=remeasured),
            line_rate_fps=line_rate_fps(live.topology, traffic, directions, of_ports, of_underlays),
        )

    def _limits_to_judge(
        self, labels: Mapping[str, str], live: LiveTopology, traffic: AnyTraffic, *, remeasured: bool = False
    ) -> Limits:
        """The limits of a search. ConfigError where a rule wants a share of a line rate that the ports lack."""
        limits = self._limits_of(live, traffic, remeasured=remeasured)
        if limits.line_rate_fps is None and self.test_file is not None:
            subject = {**labels, **measured_labels(live, traffic)}
            selecting = [rule for rule in self.slas.rules_for(self.test_file) if rule.matches(subject)]
            shares = [(rule, *one) for rule in selecting for one in rule.require if one[1].unit == "line_ratio"]
            for rule, metric, limit in shares:
                why = f"{requirement_text(metric, limit)} can never be judged: {no_line_rate(metric)}"
                raise ConfigError(f"{rule.source}.require.{metric}: {why}")
        return limits


# The running test: a failure names the topologies that it is about; the ledger of a lossy trial says what bounds a
# result.

MOST_DRAWN = 2
"""Further topologies are only named: the report draws them all."""


def bounding(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Trial | None:
    """The lossy valid trial of the lowest load that has a ledger; None where there is none."""
    own = [trials[key] for outcome in outcomes for key in outcome.trials if key in trials]
    lossy = [trial for trial in own if trial.result.valid and trial.result.judgement.counted.lost > 0 and trial.ledger]
    return min(lossy, key=lambda trial: loss_sort_key(trial.result.spec), default=None)


def bounding_text(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> str | None:
    worst = bounding(outcomes, trials)
    if worst is None or worst.ledger is None:
        return None
    return f"{worst.id}, {worst.result.spec.load_text} per direction\n{ledger_text(worst.ledger)}"


def complete_ledgers(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Iterator[LedgerData]:
    """Complete ledgers of trials that bound a result, where the trial's own record has only a short one."""
    found = {trial.id: trial for outcome in outcomes if (trial := bounding([outcome], trials)) is not None}
    for trial in found.values():
        if trial.result.spec.purpose in STEPS and trial.ledger is not None:
            yield LedgerData(trial.id, trial.ledger)


def failed_on(
    error: BaseException, deployed: Mapping[DeployedOn, TopologyData], locations: RunLocations
) -> list[TopologyData]:
    """The topologies on which the failed trials and runs were measured; else the one deployed, or used, last.

    ``deployed`` has all topologies of the test, in order, and at least one.
    """
    failed_runs: Sequence[str] = ()
    if isinstance(error, SlaFailure):
        failed_runs = error.runs
    elif isinstance(error, InvalidTrialsError):
        failed_runs = [trial.id for trial in error.trials]
    topologies = [deployed[deployed_on] for deployed_on in locations.of(failed_runs) if deployed_on in deployed]
    if topologies:
        return [topology for number, topology in enumerate(topologies) if topology not in topologies[:number]]
    if locations.last is not None and locations.last in deployed:
        return [deployed[locations.last]]
    return [list(deployed.values())[-1]]


def sections(topologies: Sequence[TopologyData]) -> Iterator[tuple[str, str]]:
    """Titles and texts for the message of a failure."""
    for topology in topologies[:MOST_DRAWN]:
        yield f"topology {deployed_title(topology)}", topology_drawing(topology)
    others = [deployed_title(topology) for topology in topologies[MOST_DRAWN:]]
    if others:
        yield "topologies", f"It failed on these, too, which the report draws: {'; '.join(others)}"
