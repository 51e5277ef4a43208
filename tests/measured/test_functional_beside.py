"""Functional tests on workers of one real machine: at once, each on an OVS of its own; who measures has it alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.process.lock import MeasurementLock

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces, hugepages, Open vSwitch")

SUITE = """
import json, os, signal, time
from pathlib import Path
import pytest
from pytest_nfvperf import bridge_chain

BASE = Path(os.environ["NFVPERF_RUN_DIR"])

def shared():
    return [json.loads(path.read_text())["shared"] for path in sorted(BASE.glob("measure-cpu*.lock"))]

def switches():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\\0")
        except OSError:
            continue
        if b"ovs-vswitchd" in command[0] and any(os.fsencode(BASE) in word for word in command):
            found.append(path)
    return found

def preferences():  # nice values of the OVS' sessions; sched(7) has the file
    return {int((path.parent / "autogroup").read_text().split()[-1]) for path in switches()}

@pytest.mark.nfv_functional
@pytest.mark.parametrize("one", range(%(at_once)d))
def test_functional(one, deploy):
    deploy(bridge_chain(one + 1))
    assert preferences() == {0} or Path("died").exists()
    assert shared() and (all(shared()) or Path("died").exists())  # a repetition may be on the worker that measures
    Path(f"runs-{one}").touch()
    deadline = time.monotonic() + 60
    while len(list(Path().glob("runs-*"))) < %(at_once)d:
        assert time.monotonic() < deadline, "the other functional test did not begin meanwhile"
        time.sleep(0.01)
    if %(dies)r and one and not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("one", range(2))
def test_measuring(one, deploy):
    deploy(bridge_chain(one + 1))
    assert shared() and not any(shared())
    assert len(switches()) == 1
    assert preferences() == {-20}
"""
CACHE = build.default_cache_dir()
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def base() -> Iterator[Path]:
    """Of these runs: their lock is free at the end, and nothing but the locks is left."""
    path = Path(f"/run/nfvperf-beside-{os.getpid()}")
    build.build()
    path.mkdir()
    yield path
    cpus = discover_testbed().cpus
    MeasurementLock({*cpus.pmd, *cpus.generator}, "after1", base=path).close()
    for lock in path.glob("*.lock"):
        lock.unlink()
    path.rmdir()


@pytest.fixture
def run(base: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run on the embedded testbed, of functional tests that wait for each other, and of two that measure."""
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))

    def started(*options: str, at_once: int = 2, dies: bool = False) -> pytest.RunResult:
        make_project(pytester, SUITE % {"at_once": at_once, "dies": dies}, CONFTEST)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-report=none", *options)

    return started


def spans(directory: Path) -> dict[str, tuple[int, int]]:
    """When each test of the newest run began and ended, ns, by the evidence of all workers."""
    begun: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for file in (directory / "reports" / "latest").glob("evidence*.jsonl"):
        for record in map(json.loads, file.read_text().splitlines()):
            name = record["test"].split("::")[-1]
            if record["kind"] == "test":
                begun[name] = record["time_ns"]
            elif record["kind"] == "test_end":
                found[name] = (begun[name], record["time_ns"])
    return found


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_functional_tests_overlap_and_measuring_ones_overlap_with_nothing(run: Run, pytester: pytest.Pytester) -> None:
    run("-n", "2").assert_outcomes(passed=4)
    found = spans(pytester.path)
    assert overlap(found["test_functional[0]"], found["test_functional[1]"])
    for measuring in ("test_measuring[0]", "test_measuring[1]"):
        assert [name for name, span in found.items() if name != measuring and overlap(span, found[measuring])] == []


@pytest.mark.thorough("another run with workers")
def test_a_killed_worker_leaves_neither_the_lock_nor_its_switch_to_who_measures(run: Run) -> None:
    result = run("-n", "2", dies=True)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["nfvperf: gw? died while it ran *test_functional?1?: the test is repeated"])


@pytest.mark.thorough("another run with workers")
def test_without_workers_the_machine_is_taken_anew_to_measure(run: Run) -> None:
    run(at_once=1).assert_outcomes(passed=3)
