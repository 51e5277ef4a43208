"""What the user asked for, as frozen data. The plugin reads it off pytest's command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.model.measure.soak import SoakLoad

if TYPE_CHECKING:  # every pytest run imports this
    from pytest_nfvperf.model.measure.compare import ComparisonSettings

PACK = "published"


def is_pack(given: str) -> bool:
    """Whether it names an SLA pack ("published:S1") rather than a file."""
    return given == PACK or given.startswith(f"{PACK}:")


@dataclass(frozen=True, slots=True)
class GivenTestbed:
    """A testbed file. Those with one label are alike: a test runs on any of them, and once for each label.

    ``tags``: of a place of a labgrid coordinator, "nic=cx6,speed=100g"; then ``path`` is the directory that has a
    testbed file for each place, named as the place.
    """

    path: Path
    label: str = ""
    tags: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for.

    Attributes:
        testbeds: testbed files; empty for the embedded testbed. A process takes one that nobody uses.
        profile: smoke, quick, gate, full or soak.
        slas: SLA files that replace the ``sla.yaml`` beside each suite.
        packs: as ``slas``, by name: "published:S1".
        ovs: OVS to test, each as WHERE (the testbed's own) or NAME=WHERE (for tests that ask for it by name).
        results: directory under which each run gets one of its own.
        keep: leave the run directory (logs, sockets, database) when the run ends.
        plan: list trials and the estimated time, send nothing.
        inconclusive: "fail" or "warn".
        report: render the HTML page at the end.
        soak_duration_s: length of soaks instead of the profile's, s; None for the profile's.
        soak_load: their load: frames/s per direction or a share of the NDR.
        repeat: how often NDR, PDR and throughput are searched.
        resume: directory of a run that was killed, to go on with; None: this is a run of its own.
        baseline: results of an earlier run that limits may be a share of; None: there is none.
        compare: the sides to compare; None in a run that does not.
        compare_rounds: count instructions of each side so often, no more, and of the baseline once; None: as needed.
        compare_blocks: a comparison by the clock ends at the first look at so many; None: when it tells something.
        profile_cpu: run streams once more, unmeasured, with a profile of where the cycles go.
        wait_s: how long to wait for a testbed, or for CPUs, that another run uses, s.
        virtual_time: count instructions instead of measuring by the clock.
        root: pytest's rootdir, which reports name SLA files from.
        record: directory for recordings of the conversation with the generator; None: it is not recorded.
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
