"""``--nfv-profile-cpu``: an extra, unmeasured run of what was measured, with a profile of where the cycles went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.adapters.report.flame_graph import flame_graph
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.ports.cpu_profiler import CpuProfiler
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.runs.rig_parts import RigParts

FOLDER = "profiles"


class Profiles:
    """Writes profiles beside the evidence: folded stacks, a flame graph, and the functions that ran most.

    Args:
        profiler: samples; None where this testbed has none.
        run_dir: the run's directory.
        recorder: takes the attachments.
    """

    def __init__(self, profiler: CpuProfiler | None, run_dir: Path, recorder: Recorder) -> None:
        self._profiler = profiler
        self._run_dir = run_dir
        self._recorder = recorder

    def __call__(self, name: str, work: Callable[[], object]) -> None:
        """Do ``work`` once more under the profiler; where it cannot be profiled the evidence says why.

        ``name``: the record that it repeats, such as "stream-0004"; files are called after it.
        """
        title = f"CPU profile of {name}"
        if self._profiler is None:
            self._recorder.emit(AttachmentData(title, text="this testbed has no profiler for the CPUs of its DUT"))
            return
        try:
            profile = self._profiler.record(work)
        except UnavailableError as error:
            self._recorder.emit(AttachmentData(title, text=f"not possible here: {error}"))
            return
        folder = self._run_dir / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.folded").write_text(profile.text(), encoding="utf-8")
        (folder / f"{name}.svg").write_text(flame_graph(profile, name), encoding="utf-8")
        self._recorder.emit(AttachmentData(title, text=profile.summary()))
        self._recorder.emit(
            AttachmentData(f"flame graph of {name}", path=f"{FOLDER}/{name}.svg", media_type="image/svg+xml")
        )
        self._recorder.emit(AttachmentData(f"folded stacks of {name}", path=f"{FOLDER}/{name}.folded"))


def profiles(parts: RigParts, run_dir: Path, recorder: Recorder) -> Profiles:
    """Those of a rig."""
    return Profiles(parts.make_profiler() if parts.make_profiler is not None else None, run_dir, recorder)
