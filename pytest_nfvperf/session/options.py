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
    """A testbed file. A test runs once for each label, on any testbed with that label."""

    path: Path
    label: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """One field an option of plugin/options.py, whose help says what it does.

    Attributes:
        testbeds: empty for the embedded testbed. A process locks a free one.
        slas: files that replace the ``sla.yaml`` beside each suite.
        packs: SLA packs that replace it, by name: "published:S1".
        results: parent of the runs' result directories.
        report: render the HTML page at the end.
        time_limit_s, soak_duration_s: None for the profile's.
        fail_below: least share of a figure of an earlier run, and which run: "last", or as the user named it.
        resume: directory of the run to continue; None for a new run.
        compare: the sides; None in a run that compares none.
        compare_blocks: None: until the comparison is conclusive.
        traffic: what is sent in place of the tests' own traffic; None: theirs.
        setup_only: pytest only sets fixtures up (--setup-only, --setup-plan): no test runs, so nothing is recorded.
        root: pytest's rootdir, which reports name SLA files from.
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
    time_limit_s: float | None = None
    soak_duration_s: float | None = None
    soak_load: SoakLoad = field(default_factory=SoakLoad)
    record: Path | None = None
    repeat: int = 1
    baseline: Path | None = None
    fail_below: tuple[float, str] | None = None
    compare: ComparisonSettings | None = None
    compare_blocks: int | None = None
    wait_s: float = 1800.0
    profile_cpu: bool = False
    resume: Path | None = None
    virtual_time: bool = False
    traffic: Path | None = None
    setup_only: bool = False
    root: Path = field(default_factory=Path.cwd)

    @property
    def labels(self) -> tuple[str, ...]:
        """The testbeds' labels in their order; ("",) where they have none."""
        return tuple(dict.fromkeys(testbed.label for testbed in self.testbeds)) or ("",)
