"""CPU profiles of a run's measurements (``--nfv-profile-cpu``): perf samples call stacks while they run again.

Streams: on all CPUs that they use. Packets: the DUT's poll-mode threads, at overload, with the CPU's own counts of
instructions and cache misses where the kernel offers them.
"""

from __future__ import annotations

import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, wait_until
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.features.profile.flame_graph import differential_flame_graph, flame_graph
from pytest_nfvperf.measure.limits import OVERLOAD
from pytest_nfvperf.measure.rig import LiveTopology, RigParts
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.disturbance.trial import COUNTED
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.cpu_profile import (
    CPU_COUNTERS,
    UNKNOWN,
    CpuProfile,
    folded,
    profiled_run,
    without_name,
)
from pytest_nfvperf.model.measure.ledger import counter_deltas
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.traffic.trial import TrialSpec

_FIELDS = "comm,ip,sym,dso"
_FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<symbol>.*?\S)(?: \((?P<object>\S+)(?: \(deleted\))?\))?\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_NUMBERS = re.compile(r"/id:\d*$|(?<=\.so)\.[\d.]+$")
"""Of a thread of OVS ("pmd-c01/id:8") and of a library's version: they differ between two runs of the same work."""
_PROGRAM = "perf"
_COUNTERS = Path("/sys/bus/event_source/devices/cpu")
"""The CPU's own performance counters; virtual machines often have none."""
_HERTZ, _HERTZ_OF_COPIES = 499, 331
"""No divisors of the kernel's tick rate: otherwise work of each tick would be sampled always, or never."""
_UNWINDING = ("--call-graph", "dwarf,65528", "-m", "32M")
"""Packaged programs have no frame pointers, but unwind tables. perf copies as much stack as it can: of 40 KiB all
samples reached the root while OVS's exact-match cache served, and five in six without that cache. The buffer holds what
a second takes."""
_START_DEADLINE_S, _END_DEADLINE_S, _READ_DEADLINE_S = 30.0, 20.0, 60.0
_FOLDER, _SVG = "profiles", "image/svg+xml"
_TRIAL_S, _EMPTYING_S = 3.0, 0.02
_TAKES_S = 3 * _TRIAL_S
"""With perf's start and the reading of what it recorded."""


def stacks(text: str) -> Iterator[tuple[str, ...]]:
    """Parse perf-script(1): each sample's process name, then its functions from the outermost to the one that ran.

    A sample is a line, a line for each caller, and an empty line. Adjacent functions without a name become one: in a
    program without frame pointers perf finds up to 127 of them, and none is true.
    """
    comm, frames = "", list[str]()
    for line in [*text.splitlines(), ""]:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(_function(frame["symbol"], frame["object"] or UNKNOWN))
        elif line.strip():
            comm = _NUMBERS.sub("", line.strip()).replace(";", ":")
        elif comm:
            named = ((name, list(same)) for name, same in groupby(reversed(frames or [UNKNOWN])))
            yield (comm, *(each for name, same in named for each in (same[:1] if without_name(name) else same)))
            comm, frames = "", []


def _function(symbol: str, binary: str) -> str:
    """A function's name; of one without a name that of its binary in brackets."""
    name = _OFFSET.sub("", symbol) if symbol != UNKNOWN else f"[{_NUMBERS.sub('', Path(binary).name.strip('[]'))}]"
    return name.replace(";", ":")


def counts(text: str) -> dict[str, int]:
    """Parse perf-stat(1) with ``-x ,``: counts by event, without those that the kernel does not have.

    A processor with two kinds of cores counts an event on each ("cpu_core/cycles/"): their sum.
    """
    found = Counter[str]()
    for number, _, event, *_ in (line.split(",") for line in text.splitlines() if line.count(",") > 2):
        if number.isdecimal():
            found[event.strip("/").rpartition("/")[2]] += int(number)
    return dict(found)


class PerfProfiler:
    """A ports.machine.Profiler. ``cpus``: to sample, unless there are ``pollers``. ``own_cpus``: for perf itself."""

    def __init__(
        self,
        journal: Journal,
        cpus: Iterable[int],
        pollers: Sequence[Poller] = (),
        own_cpus: Sequence[int] = (),
        program: str = _PROGRAM,
    ) -> None:
        self._journal = journal
        self._cpus = tuple(sorted({poller.cpu for poller in pollers} or cpus))
        self._threads = tuple(str(poller.thread) for poller in pollers)
        self._own_cpus = own_cpus
        self._program = program
        self._folder = journal.directory / "perf"

    def __call__(self, work: Callable[[], object]) -> CpuProfile:
        """Sample during ``work``.

        Raises:
            UnavailableError: perf is not installed, the kernel does not permit it (with its own words), or what it
                recorded cannot be read.
        """
        if shutil.which(self._program) is None:
            raise UnavailableError(not_installed(self._program))
        event = "cycles" if _COUNTERS.exists() else "cpu-clock"
        data, counted = self._folder / "data", self._folder / "counts"
        started: list[ManagedProcess] = []
        try:
            self._folder.mkdir()
            with _unavailable_if_it_fails():
                if self._threads:  # first: it does not say when it begins to count
                    started.append(self._start("stat", "-x", ",", "-e", ",".join(CPU_COUNTERS), "-o", str(counted)))
                # Copies of stacks are in memory until they are read: as many in all, however many threads.
                rate = _HERTZ_OF_COPIES // len(self._threads) if self._threads else _HERTZ
                started.append(self._start("record", "-e", event, "-F", str(rate), "-o", str(data)))
                _await_start(started[-1], data)
            work()
            with _unavailable_if_it_fails():
                for process in started:
                    _end(process)
                script = ["script", "--no-inline", "-i", str(data), "-F", _FIELDS]
                text = run([*self._perf, *script], deadline_s=_READ_DEADLINE_S)
            found = folded(stack for stack in stacks(text) if stack[0] != "swapper")
            return CpuProfile(event, self._cpus, found, counts(counted.read_text()) if counted.exists() else {})
        finally:
            for process in started:
                process.stop()
            shutil.rmtree(self._folder)

    @property
    def _perf(self) -> list[str]:
        """It keeps copies of programs and of the vDSO, by default in ~/.debug for good."""
        return [self._program, "--buildid-dir", str(self._folder / "programs")]

    def _start(self, command: str, *arguments: str) -> ManagedProcess:
        """Start perf on the threads, or the CPUs."""
        unwinding = _UNWINDING if command == "record" else ()
        of_threads = [*unwinding, "-t", ",".join(self._threads)]
        where = of_threads if self._threads else ["-g", "-a", "-C", ",".join(map(str, self._cpus))]
        argv, log = [*self._perf, command, *arguments, *where], self._folder / f"{command}.log"
        return spawn(self._journal, f"perf {command}", argv, log=log, cpus=self._own_cpus)


@contextmanager
def _unavailable_if_it_fails() -> Iterator[None]:
    """Around what perf does: if it fails there is no profile, and what was measured before stands."""
    try:
        yield
    except TestbedError as error:
        raise UnavailableError(error.message) from error


def _await_start(process: ManagedProcess, data: Path) -> None:
    wait_until(
        lambda: not process.running() or (data.exists() and data.stat().st_size > 0),
        f"perf to write to {data}",
        _START_DEADLINE_S,
        interval_s=0.01,
    )
    if not process.running():
        raise UnavailableError(f"perf record is refused: {' '.join(process.log_tail().split())[:300]}")


def _end(process: ManagedProcess) -> None:
    if process.running():
        process.popen.send_signal(signal.SIGINT)
    wait_until(lambda: not process.running(), "perf record to end after SIGINT", _END_DEADLINE_S, interval_s=0.01)
    if process.popen.returncode not in {0, -signal.SIGINT, 128 + signal.SIGINT}:
        raise TestbedError(
            f"perf record ended with status {process.popen.returncode}", evidence={"perf record": process.log_tail()}
        )


class Profiles:
    """``--nfv-profile-cpu``: repeats measurements under a profiler, and writes profiles next to the evidence.

    A profile has folded stacks, a flame graph, and the functions that ran most. In a comparison each subject also gets
    a differential flame graph against the baseline. ``parts``: of the rig that the run has by then.
    """

    def __init__(self, parts: Callable[[], RigParts], run_dir: Path, context: Context) -> None:
        self._parts = parts
        self._run_dir = run_dir
        self._context = context
        self._recorder = context.recorder
        self._taken = context.profiles

    def __call__(self, name: str, what: str, work: Callable[[], object]) -> None:
        """Do ``work`` once more under the profiler; if that is impossible the evidence says why.

        ``name``: of the record that it repeats, such as "stream-0004", and of the files. ``what``: the measurement.
        """
        shown = f"{name}, {what}"
        try:
            self._record(name, shown, self._parts().make_profiler()(work))
        except UnavailableError as error:
            self._recorder.emit(AttachmentData(f"CPU profile of {shown}", text=f"not possible here: {error}"))

    def packets(self, live: LiveTopology, outcome: Outcome, subject: str = "") -> Outcome:
        """Send the traffic of an outcome's heaviest trial once more, at overload, and sample the poll-mode threads.

        The trial has no record, so no figure or verdict can rest on it. Once a test for each topology and traffic; not
        for counted frames, whose load is calm on purpose.
        """
        tried = [trial for key in outcome.trials if (trial := self._context.trials.get(key)) is not None]
        specs = {trial.id: trial.result.spec for trial in tried if trial.result.spec.purpose != COUNTED}
        if not specs or self._has(name := max(specs, key=lambda key: (specs[key].saturating, specs[key].load_fps))):
            return outcome
        overload = 0.0 if outcome.line_rate_fps is not None else OVERLOAD * (outcome.ceiling_fps or 0.0)
        spec = replace(
            specs[name],
            load_fps=round(max(specs[name].load_fps, overload)),
            duration_s=_TRIAL_S,
            residual_s=_EMPTYING_S,
            purpose="CPU profile",
            saturating=True,
            latency=False,
            window_s=None,
            give_up_loss=None,
        )
        what = (name, f"{live.name} on {live.datapath_kind}", subject, f"at {spec.load_text}")
        try:
            profile = self._of_pollers(live, spec)
        except UnavailableError as error:
            return replace(outcome, notes=(*outcome.notes, f"no CPU profile: {error}"))
        self._record(name, ", ".join(filter(None, what)), profile)
        return outcome

    def _has(self, name: str) -> bool:
        """Whether the traffic of this trial was profiled on its topology."""
        runs, located = self._context.trials, self._context.locations.of
        same = (runs[known] for known in self._taken if known in runs and located([known]) == located([name]))
        return any(trial.result.spec.traffic == runs[name].result.spec.traffic for trial in same)

    def _of_pollers(self, live: LiveTopology, spec: TrialSpec) -> CpuProfile:
        """UnavailableError where the DUT has no poll-mode threads, the overload may do harm, or time is scarce."""
        pollers = [poller for collector in live.deployment.collectors for poller in collector.pollers()]
        generator, changed, why = live.deployment.generator, dict[str, int](), ""
        if not pollers or generator is None:
            why = f"the datapath {live.datapath_kind} has no poll-mode threads on this machine"
        elif live.deployment.services:
            why = "its overload could end the sessions of the daemons on this topology"
        elif self._context.time_limit.spare_s < _TAKES_S:
            why = "the run has no time to spare: give it more by --nfv-time-limit"
        if why or generator is None:
            raise UnavailableError(why)

        def work() -> None:
            before = live.counters()
            generator.run_trial(spec)
            changed.update({change.name: change.delta for change in counter_deltas(before, live.counters())})

        live.learn(spec.traffic)
        self._context.progress.trial_started(spec.purpose, spec.load_text, spec.duration_s, None)
        profile = self._parts().make_profiler(pollers)(work)
        self._context.progress.trial_finished(None, True)
        live.deployment.check_alive()
        return replace(profile, counts={**profile.counts, **changed})

    def _record(self, name: str, shown: str, profile: CpuProfile) -> None:
        title = f"CPU profile of {shown}"
        self._taken[name] = profile
        self._recorder.emit(AttachmentData(title, text=profile.summary()))
        self._attach(f"flame graph of {shown}", f"{name}.svg", flame_graph(profile, shown), _SVG)
        self._attach(f"folded stacks of {shown}", f"{name}.folded", profile.text())

    def compare(self, per: str, outcomes: Sequence[Outcome]) -> None:
        """Compare each subject's profile with the baseline's; skips subjects without one.

        ``per``: the label that they differ in. ``outcomes``: the baseline's first.
        """
        found = [(outcome.label[per], profiled_run(outcome, self._taken)) for outcome in outcomes]
        before_name, before = found[0]
        for after_name, after in found[1:]:
            if before is not None and after is not None:
                title = f"{per}: {after_name} against {before_name}"
                (first, old), (second, new) = before, after
                self._recorder.emit(AttachmentData(f"what changed, {title}", text=new.changes_text(old)))
                picture = differential_flame_graph(old, new, title)
                self._attach(f"differential flame graph, {title}", f"{second}-against-{first}.svg", picture, _SVG)

    def _attach(self, title: str, file: str, text: str, media_type: str = "text/plain") -> None:
        folder = self._run_dir / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
        self._recorder.emit(AttachmentData(title, path=f"{_FOLDER}/{file}", media_type=media_type))
