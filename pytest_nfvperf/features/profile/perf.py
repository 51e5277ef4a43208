"""CPU profiles of a run's measurements (``--nfv-profile-cpu``): perf samples call stacks while they run again."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, wait_until
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.features.profile.flame_graph import differential_flame_graph, flame_graph
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.cpu_profile import UNKNOWN, CpuProfile, folded, profiled_run
from pytest_nfvperf.model.measure.outcome import Outcome

_FIELDS = "comm,ip,sym"
_FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<symbol>.*\S)\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_PROGRAM = "perf"
_COUNTERS = Path("/sys/bus/event_source/devices/cpu")
"""The CPU's own performance counters; virtual machines often have none."""
_HERTZ = 499
"""No divisor of the kernel's tick rate: otherwise work of each tick would be sampled always, or never."""
_START_DEADLINE_S, _END_DEADLINE_S, _READ_DEADLINE_S = 30.0, 20.0, 60.0
_FOLDER = "profiles"


def stacks(text: str) -> Iterator[tuple[str, ...]]:
    """Parse perf-script(1): each sample's process name, then its functions from the outermost to the one that ran.

    A sample is a line, a line for each caller, and an empty line. Adjacent functions without a name become one: in a
    program without frame pointers perf finds up to 127 of them, and none is true.
    """
    comm, frames = "", list[str]()
    for line in [*text.splitlines(), ""]:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(_OFFSET.sub("", frame["symbol"]).replace(";", ":"))
        elif line.strip():
            comm = line.strip().replace(";", ":")
        elif comm:
            named = ((name, list(same)) for name, same in groupby(reversed(frames or [UNKNOWN])))
            yield (comm, *(each for name, same in named for each in (same[:1] if name == UNKNOWN else same)))
            comm, frames = "", []


class PerfProfiler:
    """A ports.machine.Profiler. ``cpus``: to sample."""

    def __init__(self, journal: Journal, cpus: Iterable[int], program: str = _PROGRAM) -> None:
        self._journal = journal
        self._cpus = tuple(sorted(cpus))
        self._program = program

    def __call__(self, work: Callable[[], object]) -> CpuProfile:
        """Sample during ``work``.

        Raises:
            UnavailableError: perf is not installed, or the kernel does not permit it; with its own words.
            TestbedError: the recording cannot be read.
        """
        if shutil.which(self._program) is None:
            raise UnavailableError(not_installed(self._program))
        event = "cycles" if _COUNTERS.exists() else "cpu-clock"
        data = self._journal.directory / "perf.data"
        log = self._journal.directory / "perf.log"
        listed = ",".join(map(str, self._cpus))
        command = [self._program, "record", "-e", event, "-F", str(_HERTZ), "-a", "-C", listed, "-g", "-o", str(data)]
        process = spawn(self._journal, "perf record", command, log=log)
        try:
            _await_start(process, data)
            work()
            _end(process)
            text = run([self._program, "script", "-i", str(data), "-F", _FIELDS], deadline_s=_READ_DEADLINE_S)
            found = folded(stack for stack in stacks(text) if stack[0] != "swapper")
            return CpuProfile(event, self._cpus, found)
        finally:
            process.stop()
            for file in (data, data.with_name("perf.data.old"), log):
                file.unlink(missing_ok=True)


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
    a differential flame graph against the baseline.
    """

    def __init__(self, parts: RigParts, run_dir: Path, context: Context) -> None:
        self._parts = parts
        self._run_dir = run_dir
        self._recorder = context.recorder
        self._taken = context.profiles

    def __call__(self, name: str, what: str, work: Callable[[], object]) -> None:
        """Do ``work`` once more under the profiler; if that is impossible the evidence says why.

        ``name``: of the record that it repeats, such as "stream-0004", and of the files. ``what``: the measurement.
        """
        shown = f"{name}, {what}"
        title = f"CPU profile of {shown}"
        try:
            profile = self._parts.make_profiler()(work)
        except UnavailableError as error:
            self._recorder.emit(AttachmentData(title, text=f"not possible here: {error}"))
            return
        self._taken[name] = profile
        self._recorder.emit(AttachmentData(title, text=profile.summary()))
        self._picture(f"flame graph of {shown}", f"{name}.svg", flame_graph(profile, shown))
        self._write(f"{name}.folded", profile.text())
        self._recorder.emit(AttachmentData(f"folded stacks of {shown}", path=f"{_FOLDER}/{name}.folded"))

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
                self._picture(f"differential flame graph, {title}", f"{second}-against-{first}.svg", picture)

    def _picture(self, title: str, file: str, picture: str) -> None:
        self._write(file, picture)
        self._recorder.emit(AttachmentData(title, path=f"{_FOLDER}/{file}", media_type="image/svg+xml"))

    def _write(self, file: str, text: str) -> None:
        folder = self._run_dir / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
