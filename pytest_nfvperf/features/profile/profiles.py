"""CPU profiles of a run's measurements, written next to the evidence: ``--nfv-profile-cpu``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_nfvperf.features.profile.flame_graph import differential_flame_graph, flame_graph
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.measure.streams import Profiling
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.cpu_profile import profiled_run
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.ports.machine import Profiler

_FOLDER = "profiles"


class Profiles:
    """``--nfv-profile-cpu``: repeats measurements under a profiler, and writes profiles next to the evidence.

    A profile has folded stacks, a flame graph, and the functions that ran most. In a comparison each subject also gets
    a differential flame graph against the baseline. ``make_profiler``: UnavailableError if this testbed has none.
    """

    def __init__(self, make_profiler: Callable[[], Profiler], run_dir: Path, context: Context) -> None:
        self._make_profiler = make_profiler
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
            profile = self._make_profiler()(work)
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


def profiles(parts: RigParts, run_dir: Path, context: Context) -> Profiling:
    return Profiles(parts.make_profiler, run_dir, context)
