"""What one pytest process knows and owns: testbed, SLAs, evidence and the rig.

Everything is made when first needed, so that collecting tests costs nothing and changes nothing::

    NfvSession
      machine     Machine     whose the machine is while a test runs; makes the rig
      recorder    Recorder    evidence; the record of the run is its first, and is written again as more becomes known
      measured    Measured    what relations of SLAs compare
      slas        Slas        the rules in force, by test file
      comparison  Comparison  of a run that compares sides; else None

A test that measures has the machine to itself; functional tests share it. An OVS polls also between tests. So what was
taken to be shared is given back before it is taken to measure.
"""

from __future__ import annotations

import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
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
from pytest_nfvperf.adapters.report.texts import deployed_title
from pytest_nfvperf.backends.base import Abandons, Backend, SharesMachine
from pytest_nfvperf.config.testbed_file import testbed_to_yaml
from pytest_nfvperf.features import Point
from pytest_nfvperf.measure.cpu_placement import DeployedOn
from pytest_nfvperf.measure.instructions import check_time
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.rig import LiveTopology, Rig, RigParts
from pytest_nfvperf.measure.search import Search, measured_labels
from pytest_nfvperf.measure.side_by_side import SideBySide, SubjectDeployer
from pytest_nfvperf.measure.soak import Soaker
from pytest_nfvperf.measure.soak_load import find_loads
from pytest_nfvperf.measure.streams import Profiling, StreamRunner
from pytest_nfvperf.measure.study import Decided, Study
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.conclusion import TestConclusion
from pytest_nfvperf.model.evidence.records import (
    AttachmentData,
    RunData,
    RunEndData,
    TestData,
    TestEndData,
    TopologyData,
)
from pytest_nfvperf.model.measure.cpu_profile import profile_text
from pytest_nfvperf.model.measure.offloading import OFFLOAD_RULE
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import PROFILES, Profile
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.sla.judge import requirement_text
from pytest_nfvperf.model.sla.rules import Rule, no_line_rate
from pytest_nfvperf.model.sla.verdict import Baseline, Verdict
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut, GeneratorInfo, Testbed
from pytest_nfvperf.model.topology.frame_route import line_rate_fps
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.cpu_placement import ObservedBands
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.evidence import Progress, Sink
from pytest_nfvperf.ports.machine import RunEnd
from pytest_nfvperf.session.comparing import Comparison
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.running_test import (
    bounding_text,
    complete_ledgers,
    conclude_running,
    failed_on,
    topology_data,
)
from pytest_nfvperf.session.sla_check import MeasuredSubjects, SlaCheck
from pytest_nfvperf.session.slas import Slas, load_baseline


class Machine:
    """Of one pytest process.

    Args:
        backend: takes the machine.
        alone: share it with nobody.

    Attributes:
        functional: the running test judges no rate; whoever starts a test sets it.
    """

    def __init__(self, backend: Backend, *, alone: bool) -> None:
        self.functional = False
        self._backend = backend
        self._alone = alone
        self._shared = False

    @cached_property
    def can_share(self) -> bool:
        """Whether functional tests of other processes can run at the same time."""
        return not self._alone and isinstance(self._backend, SharesMachine) and self._backend.can_share

    def room(self) -> int:
        """For how many rigs there is memory now; 0 where the machine cannot be shared."""
        return self._backend.room() if self.can_share and isinstance(self._backend, SharesMachine) else 0

    def rig(self, now: Rig | None, context: Context) -> Rig:
        """The rig for the running test: the current one, unless it is shared and the test measures."""
        if now is not None and self._shared and not self.functional:
            try:
                now.close()
            finally:
                self._backend.close()
            now = None
        if now is not None:
            return now
        return self._made(context)

    def anew(self, now: Rig | None, context: Context) -> Rig | None:
        """The rig after something broke off what was done on it, or to get it, at an unknown place.

        What it may have left is in no variable: the end of the journal removes all that is noted there.
        """
        try:
            if now is not None:
                now.interrupted()
        finally:
            if isinstance(self._backend, SharesMachine):
                self._backend.close()
        if now is None or not isinstance(self._backend, SharesMachine):
            return now  # there was none, or nothing real in it
        rig = self._made(context)
        rig.adopt_failures_of(now)
        return rig

    def _made(self, context: Context) -> Rig:
        self._shared = self.functional and self.can_share
        if self._shared and isinstance(self._backend, SharesMachine):
            return Rig(self._backend.shared_parts(), context)
        return Rig(self._backend.parts(), context)


CPU_BANDS = "cpu_bands"
"""Of the fingerprint: in which bands of CPU distance the trials were. It tells of a run, not of its machine."""


def run_data(
    options: Options,
    backend: Backend,
    selected: tuple[str, ...] | None,
    dut: DatapathInfo | None = None,
    generator: GeneratorInfo | None = None,
    *,
    resumes: tuple[str, ...] = (),
) -> RunData:
    """The record of a run on this backend. ``selected``, ``dut`` and ``generator``: as far as they are known yet.

    ``resumes``: evidence files of the processes that it goes on with.
    """
    return RunData(
        tool_version=__version__,
        python=platform.python_version(),
        argv=tuple(sys.argv),
        profile=options.profile,
        testbed=backend.testbed,
        testbed_yaml=testbed_to_yaml(backend.testbed),
        fingerprint=dict(backend.fingerprint()),
        dut=dut,
        generator=generator,
        sla=(*map(str, options.slas), *options.packs),
        selected=selected,
        compare=options.compare,
        resumes=resumes,
    )


def with_bands(data: RunData, seen: ObservedBands) -> RunData:
    """The run record with the CPU bands of its trials in the fingerprint, for the end of the run."""
    return replace(data, fingerprint={**data.fingerprint, CPU_BANDS: _plain(seen)})


def _plain(seen: ObservedBands) -> dict[str, Any]:
    """A band without trials is absent."""
    bands = {"near": (seen.near_trials, seen.near_ns), "far": (seen.far_trials, seen.far_ns)}
    shown: dict[str, Any] = {
        name: {"trials": trials, "median_ns": median_ns} for name, (trials, median_ns) in bands.items() if trials
    }
    return shown | ({"moved_trials": seen.moved_trials} if seen.moved_trials else {})


CPU_PROFILES = Point[Callable[[RigParts, Path, Context], Profiling]]("profiles")
"""What does a run once more under a profiler, by the option; from the rig, the run's directory and what runs need."""


def stream_runner(
    rig: Rig, context: Context, repeats: int, testbed: Testbed, profile: Profiling | None
) -> StreamRunner:
    """Unless the testbed says otherwise, both ends may use all its CPUs.

    Args:
        rig: whose engine sends.
        context: evidence, progress and time.
        repeats: how often an invalid run is repeated.
        testbed: says which CPUs the ends may use.
        profile: does a run once more under a profiler; None: nobody asks.
    """
    cpus = testbed.cpus
    every = tuple(sorted({*cpus.housekeeping, *cpus.pmd, *cpus.generator, *cpus.vnf}))
    asked = testbed.streams
    of_ends = asked.client_cpus or every, asked.server_cpus or every
    make = rig.parts.make_cpu_accounting
    accounting = make() if make is not None else None
    requests, connects = rig.parts.make_requests, rig.parts.make_connects
    return StreamRunner(rig.streams(), context, repeats, of_ends, accounting, requests, profile, connects)


class NfvSession:
    """The fixture ``nfv_session``: state of one pytest process.

    Args:
        options: what the user asked for.
        backend: makes testbeds real (or simulated, for a plan).
        run_dir: this run's directory under the results; shared by xdist workers.
        worker: xdist worker name, "" without xdist.
        progress: shows a running search.
        sinks: take records after the evidence file.

    Attributes:
        slas: the SLA files in force.
        deployed: what was deployed in the running test, by topology and DUT; whoever starts a test clears it.
        selected: node ids of all tests that the run is about; None until the first of them is about to run.
        test_file: of the running test, whose SLA is in force; None before the first.
        interrupted: the signal that ended a soak, for the run to end after its test; "" as long as there was none.
        rig_suspect: a signal's handler broke off what was done on the testbed; whoever begins a test starts anew.
        stopping: how the run ends when a signal asks it to; None where nothing is measured.
        comparison: of a run that compares sides; else None.
        resumes: evidence files of processes that were killed, which this one goes on with.
        machine: whose it is while a test runs.
    """

    def __init__(
        self,
        options: Options,
        backend: Backend,
        run_dir: Path,
        worker: str,
        progress: Progress,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.options = options
        self.backend = backend
        self.run_dir = run_dir
        self.worker = worker
        self.profile: Profile = _profile(options)
        self.slas = Slas(options)
        self.measured = MeasuredSubjects()
        self.deployed: dict[DeployedOn, TopologyData] = {}
        self.interrupted = ""
        self.rig_suspect = False
        self.test_file: Path | None = None
        self.selected: tuple[str, ...] | None = None
        self.stopping: RunEnd | None = None
        self.comparison: Comparison | None = None
        self.resumes: tuple[str, ...] = ()
        self.machine = Machine(backend, alone=options.compare is not None)
        self._progress, self._sinks = progress, tuple(sinks)
        self._started = time.monotonic()
        self._statuses: Counter[str] = Counter()
        self._last_status = ""
        self._rig: Rig | None = None
        self._described = (False, False)  # DUT, generator
        self._run_data: RunData | None = None

    @cached_property
    def baseline(self) -> Baseline | None:
        """The run that --nfv-baseline names; None without one, ConfigError for one that cannot be read."""
        path = self.options.baseline
        return None if path is None else load_baseline(path, self.backend.fingerprint())

    @cached_property
    def recorder(self) -> Recorder:
        """Evidence of this process, whose file is created now. A plan leaves none."""
        if self.options.plan:
            return Recorder("plan", [], self.backend.clock)
        writer = EvidenceWriter(evidence_file(self.run_dir, self.worker))
        recorder = Recorder(self.run_dir.name, [writer, *self._sinks], self.backend.clock, self.worker, hdr.encode)
        self._run_data = run_data(self.options, self.backend, self.selected, resumes=self.resumes)
        recorder.emit(self._run_data)
        return recorder

    @cached_property
    def _context(self) -> Context:
        return Context(self.recorder, self._progress, self.backend.clock, virtual=self.options.virtual_time)

    @property
    def rig(self) -> Rig:
        """The rig. Its first use locks the machine, and removes what dead runs left."""
        self._rig = self.machine.rig(self._rig, self._context)
        return self._rig

    def take_machine(self) -> None:
        """Lock it and begin the journal, before something is made or changed ahead of a topology."""
        _ = self.rig

    def live(self, topology: Topology, dut: Dut = TESTBED_DUT) -> LiveTopology:
        """The topology, deployed on the rig."""
        return self._live_on(self.rig, topology, dut)

    def _live_on(self, rig: Rig, topology: Topology, dut: Dut) -> LiveTopology:
        live = rig.live(topology, self.profile.invalid_trial_budget, dut)
        self._describe()
        title = self._note_topology(live)
        self.recorder.emit(AttachmentData(f"OVS configuration: {title}", text=live.deployment.built.configuration()))
        return live

    def side_by_side(self) -> SideBySide:
        """Deploys several topologies at once, one of which works at a time. The caller closes it."""
        noted: set[tuple[Topology, Dut]] = set()

        def deploy(rig: Rig, topology: Topology, dut: Dut) -> LiveTopology:
            if (topology, dut) in noted:
                return rig.live(topology, self.profile.invalid_trial_budget, dut)
            noted.add((topology, dut))
            return self._live_on(rig, topology, dut)

        return SideBySide(self.rig, deploy)

    def _note_topology(self, live: LiveTopology) -> str:
        deployed = topology_data(live, self.backend.testbed)
        if deployed not in self.deployed.values():
            self.recorder.emit(deployed)
        self.deployed[live.topology, live.dut] = deployed
        return deployed_title(deployed)

    def failed_on(self, error: BaseException) -> list[TopologyData]:
        """The deployed topologies that a failure of the running test is about; at least one."""
        return failed_on(error, self.deployed, self._context.places)

    def search(self, labels: Mapping[str, str]) -> Search:
        if self.comparison is not None:
            return self.comparison.search(labels, self._limits_of, self._context)
        check_time("a search", virtual=self.options.virtual_time)
        return Search(
            self.profile,
            labels,
            partial(self._limits_to_judge, labels),
            self.backend.estimate_search_s,
            partial(self._limits_to_judge, labels, anew=True),
            self.options.repeat,
        )

    def soaker(self, labels: Mapping[str, str]) -> Soaker:
        check_time("a soak", virtual=self.options.virtual_time)
        search = self.search(labels)

        def loads(live: LiveTopology, traffic: Traffic, given_fps: float | None) -> tuple[float, ...]:
            asked = self.options.soak_load if given_fps is None else SoakLoad(fps=given_fps)
            return find_loads(asked, live, traffic, search)

        open_samples = None if self.options.plan else samples_in(self.run_dir)
        return Soaker(self.profile, labels, self._context, open_samples, self._take_signals, self._interrupt, loads)

    def _take_signals(self) -> Interrupts:
        return Interrupts((Path() if self.options.plan else self.run_dir) / "terminal.log", self._ask)

    def _interrupt(self, signal_name: str) -> None:
        self.interrupted = signal_name

    def _ask(self, signal_name: str) -> None:
        if self.stopping is not None:
            self.stopping.ask_soak(signal_name)

    def study(
        self, labels: Mapping[str, str], deploy: SubjectDeployer, streams: Callable[[], StreamRunner], decided: Decided
    ) -> Study:
        """Comparisons of one test. ``decided``: whether more readings cannot change the SLA's verdict."""
        if self.comparison is not None:
            return self.comparison.study(labels, deploy, self._limits_of, streams, self._context)
        return Study(self.profile, labels, deploy, self._limits_of, streams, decided, self._context)

    def only_alone(self, what: str) -> None:
        """Raise UnavailableError in a run that compares sides: ``what`` cannot alternate between them."""
        if self.comparison is not None:
            raise UnavailableError(f"not compared: {what} cannot alternate between sides")

    def stream_runner(self) -> StreamRunner:
        """Runs TCP and UDP streams. Unless the testbed says otherwise, both ends may use all its CPUs."""
        check_time("a stream's goodput", virtual=self.options.virtual_time)
        profile = None
        if self.options.profile_cpu:
            profile = CPU_PROFILES.part("--nfv-profile-cpu")(self.rig.parts, self.run_dir, self._context)
        return stream_runner(self.rig, self._context, self.profile.invalid_trial_budget, self.backend.testbed, profile)

    def anew(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:
        """Rebuild a topology even if it is deployed. ``quiet``: its configuration is on record already."""
        self.rig.remove_topology()
        if quiet:
            return self.rig.live(topology, self.profile.invalid_trial_budget, dut)
        return self.live(topology, dut)

    def sla_check(self, test_file: Path) -> SlaCheck:
        rules, inconclusive = self.rules_in_force(test_file), self.options.inconclusive
        ledger = partial(bounding_text, trials=self._context.trials)
        profile = partial(profile_text, profiles=self._context.profiles)
        return SlaCheck(rules, self.measured, self.recorder, ledger, inconclusive, lambda: self.baseline, profile)

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
        self.recorder.findings.clear()
        self._context.begin_test()
        self.deployed.clear()
        self.recorder.emit(data)

    def junit_properties(self) -> list[tuple[str, str]]:
        """What the running test found so far, as JUnit properties."""
        findings = self.recorder.findings
        verdicts = [finding for finding in findings if isinstance(finding, Verdict)]
        outcomes = [finding for finding in findings if isinstance(finding, Outcome)]
        return [pair for outcome in outcomes for pair in junit_properties(outcome, verdicts)]

    def end_test(self, end: TestEndData) -> TestConclusion:
        self._progress.clear()
        self._count(end)
        became = conclude_running(self.recorder, end)
        outcomes = [finding for finding in self.recorder.findings if isinstance(finding, Outcome)]
        try:
            for ledger in complete_ledgers(outcomes, self._context.trials):
                self.recorder.emit(ledger)
            self.recorder.emit(end)
        finally:
            self.recorder.test = ""
        return became

    def correct_end(self, node_id: str, end: TestEndData) -> TestConclusion:
        """Replace the end of the last test: another plugin changed its report, and what pytest reports counts."""
        self._statuses[self._last_status] -= 1
        self._count(end)
        self.recorder.test = node_id
        became = conclude_running(self.recorder, end)
        self.recorder.emit(end)
        self.recorder.test = ""
        return became

    def _count(self, end: TestEndData) -> None:
        self._statuses[end.status] += 1
        self._last_status = end.status

    def broken(self, error: TestbedError) -> TestbedError:
        """Note that the testbed broke in the running test. Returns the error to show, such as which process died."""
        return error if self._rig is None else self._rig.broken(self.recorder.test, error)

    def recover_rig(self) -> None:
        """Before a test: where the one before was broken off at an unknown place, take down all that the run has made.

        Raises:
            TestbedError: something cannot be removed.
        """
        if not self.rig_suspect:
            return
        self.rig_suspect = False
        rig, self._rig = self._rig, None
        self._rig = self.machine.anew(rig, self._context)

    @property
    def recording(self) -> bool:
        return "recorder" in self.__dict__

    def abandon(self) -> None:
        """Stop at once all that this run started on the machine, gently only where it must restore somebody else's.

        Called from a signal handler, at any moment. ``close`` removes what is left.
        """
        if isinstance(self.backend, Abandons):
            self.backend.abandon()

    def close(self, exit_status: int, reason: str = "") -> None:
        """Take the rig down and finish the evidence. Can be called twice.

        Args:
            exit_status: pytest's own.
            reason: what ended the run before its time.
        """
        patience, undisturbed = (
            (self.stopping.patience, self.stopping.undisturbed) if self.stopping else (nullcontext, nullcontext)
        )
        try:
            with patience():
                if self._rig is not None:
                    self._rig.close()
        finally:
            with undisturbed():
                self._finish(exit_status, reason)

    def _finish(self, exit_status: int, reason: str) -> None:
        try:
            self.backend.close()
        finally:
            if self.recording:
                self._end_evidence(exit_status, reason)

    def _end_evidence(self, exit_status: int, reason: str) -> None:
        """Write the last records and close the file, even if writing fails: an open file looks running."""
        seconds = time.monotonic() - self._started
        recorder = self.recorder
        del self.recorder
        with ExitStack() as ending:
            ending.callback(recorder.close)
            ending.callback(recorder.emit, RunEndData(exit_status, seconds, dict(+self._statuses), reason))
            self._tell_bands(recorder)

    def _tell_bands(self, recorder: Recorder) -> None:
        seen = self._rig.observed_bands if self._rig is not None else None
        if seen is not None and self._run_data is not None:
            recorder.emit(with_bands(self._run_data, seen))

    def _limits_of(self, live: LiveTopology, traffic: Traffic, *, anew: bool = False) -> Limits:
        directions = len(live.topology.directions) if traffic.bidirectional else 1
        of_ports, of_underlays = self.backend.line_rate_bps(), self.backend.testbed.underlay_line_rate_bps
        return Limits(
            ceiling_fps=self.rig.ceiling_fps(live, traffic, directions, anew=anew),
            line_rate_fps=line_rate_fps(live.topology, traffic, directions, of_ports, of_underlays),
        )

    def _limits_to_judge(
        self, labels: Mapping[str, str], live: LiveTopology, traffic: Traffic, *, anew: bool = False
    ) -> Limits:
        """The limits of a search. ConfigError where a rule wants a share of a line rate that the ports lack."""
        limits = self._limits_of(live, traffic, anew=anew)
        if limits.line_rate_fps is None and self.test_file is not None:
            subject = {**labels, **measured_labels(live, traffic)}
            selecting = [rule for rule in self.slas.rules_for(self.test_file) if rule.matches(subject)]
            shares = [(rule, *one) for rule in selecting for one in rule.require if one[1].unit == "line_ratio"]
            for rule, metric, limit in shares:
                why = f"{requirement_text(metric, limit)} can never be judged: {no_line_rate(metric)}"
                raise ConfigError(f"{rule.source}.require.{metric}: {why}")
        return limits

    def _describe(self) -> None:
        """Write the run record again as soon as the DUT is known, and then the generator."""
        known = (True, self.rig.generator_info is not None)
        if self._described < known:
            self._described = known
            dut = self.rig.datapath().info()
            self._run_data = run_data(
                self.options, self.backend, self.selected, dut, self.rig.generator_info, resumes=self.resumes
            )
            self.recorder.emit(self._run_data)


def _profile(options: Options) -> Profile:
    profile = PROFILES[options.profile]
    return profile if options.soak_duration_s is None else replace(profile, soak_s=options.soak_duration_s)
