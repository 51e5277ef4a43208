"""Two machines that pytest reaches over ssh: how much sooner a suite ends there than on one of them.

Each machine is a namespace of this one with an sshd in it; pytest runs in a third. They share CPUs and disk, so what
needs a CPU to itself gains nothing here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.model.display import format_elapsed
from pytest_nfvperf.model.errors import TestbedError
from tests.ssh_machines import ssh_machines

_NAMES = ("one", "two")
_SUITES = Path(__file__).parents[1] / "suites"
_SIMULATED = """
import time
import pytest
from pytest_nfvperf import Traffic
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))

@pytest.fixture(autouse=True)
def takes_its_time():
    yield
    time.sleep(3)  # the simulated trials take none
"""
_TEST = """
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("frame_size", [64, 128, 256, 512, 1024])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
"""


@dataclass(frozen=True, slots=True)
class _Taken:
    """``seconds``: of the whole command. ``fates``: what became of each test."""

    seconds: float
    fates: Mapping[str, str]


def two_machines() -> list[Figure]:
    """Simulated suites, and those tests on real OVS that measure no rate."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nfvperf-bench-")))
        home = stack.enter_context(_machines(folder))
        simulated, functional = folder / "simulated", folder / "suites"
        _write_simulated(simulated)
        shutil.copytree(_SUITES, functional)
        options = ("-m", "nfv_functional", "--nfv-profile", "full")
        return [
            _figure("simulated suites", _both(home, folder, simulated), 0.55),
            _figure("functional tests of the suites", _both(home, folder, functional, *options), 0.6),
        ]


def _figure(what: str, taken: Sequence[_Taken], most: float) -> Figure:
    alone, together = taken
    share = together.seconds / alone.seconds
    same = alone.fates == together.fates
    detail = (
        f"{len(alone.fates)} tests: {format_elapsed(together.seconds)}, and {format_elapsed(alone.seconds)} on one; "
    )
    detail += "same verdicts" if same else f"verdicts differ: {together.fates} and {alone.fates}"
    return Figure(
        f"{what} on two machines over ssh", f"{share:.2f} of one's time", f"<= {most}", same and share <= most, detail
    )


def _both(home: LiveNamespace, folder: Path, suite: Path, *options: str) -> list[_Taken]:
    return [_taken(home, folder, _NAMES[:number], suite, options) for number in (1, 2)]


def _taken(home: LiveNamespace, folder: Path, machines: Sequence[str], suite: Path, options: Sequence[str]) -> _Taken:
    """Run it on these machines, from ``home``."""
    specs = [
        f"--tx=ssh={name}//ssh_config={folder}/{name}.ssh//python={sys.executable}//chdir={folder}/{name}"
        for name in machines
    ]
    given = ["-p", "pytest_nfvperf.fixtures.all", "-p", "no:cacheprovider", "--nfv-report=none", *options]
    arguments = ("--dist=load", *specs, f"--rsyncdir={suite}", *given, os.fspath(suite))
    command = ["nsenter", f"--net={home.path}", sys.executable, "-m", "pytest", *arguments]
    began = time.monotonic()
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    latest = folder / "reports" / "latest"
    if not latest.exists():
        raise TestbedError(f"pytest ended with {ended.returncode}, and measured nothing: {ended.stdout}{ended.stderr}")
    found = conclude(read_run(latest.resolve()))
    print(f"  {', '.join(machines)}: {format_elapsed(seconds)}, {ended.stdout.splitlines()[-1]}", flush=True)
    return _Taken(seconds, {test.node_id: str(test.fate) for test in found.tests})


def _write_simulated(folder: Path) -> None:
    for name in ("throughput", "chaining", "mirror", "overlay"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"test_{name}.py").write_text(_TEST)
    (folder / "conftest.py").write_text(_SIMULATED)


@contextmanager
def _machines(folder: Path) -> Iterator[LiveNamespace]:
    """The namespace from which both can be reached."""
    for name in _NAMES:
        (folder / name).mkdir()
    with closing(open_journal()) as journal, ssh_machines(journal, folder, _NAMES) as reachable:
        yield reachable.home
