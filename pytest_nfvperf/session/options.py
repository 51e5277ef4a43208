"""The user's options as frozen data. The plugin reads them from pytest's command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.model.measure.soak import SoakLoad

if TYPE_CHECKING:  # every pytest run imports this
    from pytest_nfvperf.model.measure.compare import ComparisonSettings

PACK = "published"


def is_pack(given: str) -> bool:
    """True for an SLA pack ("published:S1"), False for a file."""
    return given == PACK or given.startswith(f"{PACK}:")


@dataclass(frozen=True, slots=True)
class GivenTestbed:
    """A testbed file. A test runs once for each label, on any testbed with that label.

    ``tags`` select a place of a labgrid coordinator, "nic=cx6,speed=100g"; then ``path`` is a directory with a testbed
    file for each place, named like the place.
    """

    path: Path
    label: str = ""
    tags: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options.

    Attributes:
        testbeds: testbed files; empty for the embedded testbed. A process locks a free one.
        profile: smoke, quick, gate, full or soak.
        slas: SLA files that replace the ``sla.yaml`` beside each suite.
        packs: SLA packs that replace it, by name: "published:S1".
        ovs: OVS to test, each as WHERE (the testbed's own) or NAME=WHERE (for tests that name it).
        results: parent of the runs' result directories.
        keep: keep the run directory (logs, sockets, database) when the run ends.
        plan: list trials and the estimated time, send nothing.
        inconclusive: "fail" or "warn".
        report: render the HTML page at the end.
        soak_duration_s: length of soaks instead of the profile's, s; None for the profile's.
        soak_load: load of soaks: frames/s per direction or a share of the NDR.
        repeat: number of searches for NDR, PDR and throughput.
        resume: directory of a killed run to continue; None for a new run.
        baseline: results of an earlier run that limits may be a share of; None without one.
        compare: the sides to compare; None in a run that compares none.
        compare_rounds: rounds that count instructions of each side, with one of the baseline; None: as needed.
        compare_blocks: a comparison by the clock ends at this number of blocks; None: when it is conclusive.
        profile_cpu: repeat streams unmeasured, with a profile of where the cycles go.
        wait_s: longest wait for a testbed, or for CPUs, that another run uses, s.
        virtual_time: count instructions instead of measuring by the clock.
        root: pytest's rootdir, which reports name SLA files from.
        record: directory for recordings of the conversation with the generator; None: no recording.
    """

    testbeds: tuple[GivenTestbed, ...]
    profile: str
    slas: tuple[Path, ...]
    packs: tuple[str, ...]
    ovs: tuple[str, ...]
    results: Path
    keep: bool
    plan: bool
    inconclusive: str
    report: bool
    soak_duration_s: float | None = None
    soak_load: SoakLoad = field(default_factory=SoakLoad)
    record: Path | None = None
    repeat: int = 1
    baseline: Path | None = None
    compare: ComparisonSettings | None = None
    compare_rounds: int | None = None
    compare_blocks: int | None = None
    wait_s: float = 1800.0
    profile_cpu: bool = False
    resume: Path | None = None
    virtual_time: bool = False
    root: Path = field(default_factory=Path.cwd)

    @property
    def labels(self) -> tuple[str, ...]:
        """The testbeds' labels in their order; ("",) where they have none."""
        return tuple(dict.fromkeys(testbed.label for testbed in self.testbeds)) or ("",)
