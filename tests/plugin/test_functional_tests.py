"""Functional tests over workers that share a machine: they run at once, and before anything measures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

SUITE = """
import os, signal, time
from pathlib import Path
import pytest
from pytest_nfvperf import Traffic

def meet(one, others):
    Path(f"runs-{one}").touch()
    deadline = time.monotonic() + 30
    while len(list(Path().glob("runs-*"))) < others:
        assert time.monotonic() < deadline, "the other functional tests did not begin meanwhile"
        time.sleep(0.01)
    assert not Path("measuring").exists()

@pytest.mark.nfv_functional
@pytest.mark.parametrize("one", range(%(tests)d))
def test_functional(one, phy2phy):
    meet(one, %(at_once)d)

@pytest.mark.parametrize("frame_size", [64, 512])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    Path("measuring").touch()
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
"""

LITTLE_ROOM = SIMULATED.replace(
    "SimulatedBackend(testbed", "type('Small', (SimulatedBackend,), {'room': lambda self: 2})(testbed"
)
ROOM_LINE = (
    "nfvperf: functional tests run on 2 of 3 workers at once: the free hugepages have room for 2 private OVS with a "
    "generator each (nfvperf doctor says how to get more)"
)
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """A run on the embedded testbed, simulated: ``tests`` functional tests, of which ``at_once`` meet."""

    def started(
        *options: str, tests: int = 3, at_once: int = 3, conftest: str = SIMULATED, more: str = ""
    ) -> pytest.RunResult:
        make_project(pytester, SUITE % {"tests": tests, "at_once": at_once} + more, CONFTEST + conftest)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-report", "none", *options)

    return started


def workers_of(directory: Path, test: str) -> set[str]:
    """Which workers ran tests of this name in the newest run."""
    found = set()
    for file in (directory / "reports" / "latest").glob("evidence-gw*.jsonl"):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        if any(one["kind"] == "test_end" and f"::{test}[" in one["test"] for one in records):
            found.add(file.stem)
    return found


def test_they_run_on_all_workers_at_once_and_one_measures_after(run: Run, pytester: pytest.Pytester) -> None:
    """Each functional test waits for the two others, and sees that nothing has been measured."""
    run("-n", "3").assert_outcomes(passed=5)
    assert len(workers_of(pytester.path, "test_functional")) == 3
    assert len(workers_of(pytester.path, "test_ndr_pdr")) == 1


def test_without_room_for_all_fewer_run_at_once_and_a_line_says_so(run: Run, pytester: pytest.Pytester) -> None:
    result = run("-n", "3", at_once=2, conftest=LITTLE_ROOM)
    result.assert_outcomes(passed=5)
    assert len(workers_of(pytester.path, "test_functional")) == 2
    result.stdout.fnmatch_lines([ROOM_LINE])
    assert "functional tests run on" not in run("-n", "2", at_once=2, conftest=LITTLE_ROOM).stdout.str()


@pytest.mark.thorough("test_workers.py has how testbeds are dealt over workers")
def test_a_testbed_file_is_one_workers(run: Run, pytester: pytest.Pytester) -> None:
    """What others may do on a testbed that was leased, its lock says: nothing."""
    (pytester.path / "a.yaml").write_text(
        "schema: 1\nname: a\ndut: {ovs: {instance: private, datapath: netdev}}\ngenerator: {engine: embedded}\n"
    )
    run("-n", "2", "--nfv-testbed=a.yaml", at_once=1).assert_outcomes(passed=5)
    assert len(workers_of(pytester.path, "test_functional")) == 1


def test_a_functional_test_whose_worker_dies_is_repeated(run: Run, pytester: pytest.Pytester) -> None:
    dies = (
        "\n@pytest.mark.nfv_functional\n@pytest.mark.parametrize('one', [9])\ndef test_dies(one, phy2phy):\n"
        "    if not Path('died').exists():\n"
        "        Path('died').touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    assert not Path('measuring').exists()\n"
    )
    result = run("-n", "2", tests=2, at_once=1, more=dies)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        ["nfvperf: gw? died while it ran mine/test_mine.py::test_dies?9?: the test is repeated"]
    )


def test_those_that_a_relation_compares_stay_together(run: Run, pytester: pytest.Pytester) -> None:
    """A mark does not part what an SLA compares: such tests measure, as their other sides do."""
    judged = (
        "\n@pytest.mark.nfv_functional\n@pytest.mark.parametrize('frame_size', [64, 1518])\n"
        "def test_judged(frame_size, phy2phy, search, sla):\n"
        "    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))\n"
    )
    rule = "{where: {frame_size: 1518, test: test_judged}, require: {ndr: '>= 1 % of {frame_size: 64}'}}"
    (pytester.path / "sla.yaml").write_text(f"schema: 1\nrules:\n  - {rule}\n")
    run("-n", "3", "--nfv-sla", "sla.yaml", more=judged).assert_outcomes(passed=7)
    assert workers_of(pytester.path, "test_judged") == workers_of(pytester.path, "test_ndr_pdr")
