"""Workers of pytest-xdist: testbeds are leased, tests dealt, relations judged over workers, lost workers replaced."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

TESTBED = (
    "schema: 1\nname: {name}\ndut: {{ovs: {{instance: private, datapath: netdev}}}}\ngenerator: {{engine: embedded}}\n"
)

SUITE = """
import os, signal, time
from pathlib import Path
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("frame_size", {sizes})
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    {begin}
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
"""

DIES_ONCE = "died = Path('died'); dies = frame_size == 512 and not died.exists()\n    died.touch() if dies else None\n"
DIES_ONCE += "    os.kill(os.getpid(), signal.SIGKILL) if dies else None"
SIZES = [64, 128, 256, 512]
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """A run of a suite over frame sizes on simulated testbeds a.yaml and b.yaml."""

    def started(
        *options: str,
        sizes: tuple[int, ...] = (64, 128, 256, 512),
        begin: str = "",
        more: str = "",
        testbeds: str = "ab",
    ) -> pytest.RunResult:
        make_project(pytester, SUITE.format(sizes=SIZES, begin=begin or "pass") + more, CONFTEST + SIMULATED)
        for name in testbeds:
            (pytester.path / f"{name}.yaml").write_text(TESTBED.format(name=name))
        given = [f"--nfv-testbed={name}.yaml" for name in testbeds]
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-report", "none", *given, *options)

    return started


def measured(directory: Path) -> dict[str, set[str]]:
    """Tests of the newest run by the testbed on which they ended."""
    found: dict[str, set[str]] = {}
    for file in (directory / "reports" / "latest").glob("evidence-gw*.jsonl"):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        name = records[0]["data"]["testbed"]["name"]
        with_trials = {one["test"] for one in records if one["kind"] == "trial"}
        ended = {one["test"] for one in records if one["kind"] == "test_end"}
        if with_trials & ended:
            found[name] = found.get(name, set()) | (with_trials & ended)
    return found


def names(tests: set[str]) -> set[str]:
    return {test.split("::")[-1] for test in tests}


def test_tests_are_dealt_over_the_testbeds(run: Run, pytester: pytest.Pytester) -> None:
    run("-n", "2").assert_outcomes(passed=4)
    found = measured(pytester.path)
    assert set(found) == {"a", "b"}
    assert {len(tests) for tests in found.values()} == {2}


def test_nothing_measures_beside_a_test_that_does_not(run: Run, pytester: pytest.Pytester) -> None:
    """The plain tests see no worker begin to measure, although two are free for it; the third has no testbed."""
    slow = (
        "\n@pytest.mark.parametrize('one', range(2))\ndef test_plain(one):\n"
        "    time.sleep(0.4)\n    assert not Path('measuring').exists()\n"
    )
    run("-n", "3", begin="Path('measuring').touch()", more=slow).assert_outcomes(passed=6)
    assert set(measured(pytester.path)) == {"a", "b"}


RELATION = "schema: 1\nrules:\n  - {where: {frame_size: 512}, require: {ndr: '>= 90 % of {frame_size: 64}'}}\n"


def test_what_a_relation_compares_is_one_workers(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "sla.yaml").write_text(RELATION)
    run("-n", "2", "--nfv-sla", "sla.yaml").assert_outcomes(passed=4)
    (of_both,) = [tests for tests in measured(pytester.path).values() if "test_ndr_pdr[64]" in names(tests)]
    assert "test_ndr_pdr[512]" in names(of_both)


def test_a_mark_of_xdist_groups_tests(run: Run, pytester: pytest.Pytester) -> None:
    marked = "pytestmark = pytest.mark.xdist_group('mine')\n"
    run("-n", "2", "--dist", "loadgroup", more=marked).assert_outcomes(passed=4)
    ((_, tests),) = measured(pytester.path).items()
    assert names(tests) == {f"test_ndr_pdr[{size}]" for size in (64, 128, 256, 512)}


def test_a_lost_worker_costs_the_test_it_ran_and_no_more(run: Run, pytester: pytest.Pytester) -> None:
    """A relation whose other side a lost worker measured is judged all the same, and the test is repeated."""
    (pytester.path / "sla.yaml").write_text(RELATION)
    result = run("-n", "1", "--nfv-sla", "sla.yaml", begin=DIES_ONCE, testbeds="a")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["nfvperf: gw0 died while it ran mine/test_mine.py::test_ndr_pdr?512?: the test is repeated"]
    )
    assert re.search(r"worker gw0 died while it ran .*\[512\], which gw1 repeated", result.stdout.str())
    assert result.outlines[-1].startswith("nfvperf: Accepted: the one requirement met, all 4 selected tests passed")
    shown = subprocess.run(
        [sys.executable, "-m", "pytest_nfvperf.cli.main", "show"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0
    assert "worker gw0 died" in shown.stdout


def test_a_test_that_kills_its_worker_twice_is_broken(run: Run) -> None:
    dies = "os.kill(os.getpid(), signal.SIGKILL) if frame_size == 512 else None"
    result = run("-n", "2", begin=dies)
    assert result.ret == 11
    assert result.parseoutcomes()["passed"] == 3
    result.stdout.fnmatch_lines(
        [
            "nfvperf: gw? died while it ran *?512?, as gw? did before: it is not repeated again",
            "*1 failed, 3 passed, 1 lost*",
        ]
    )
    assert "test_ndr_pdr[512]: the workers that ran it died" in result.outlines[-1]


def starts(directory: Path, which: str) -> str:
    """An interpreter that starts at those times only: ``which`` is shell, of its number ``$n``; as a ``--tx``."""
    program = directory / "python"
    counted = f"echo >>{directory}/starts\nn=$(wc -l <{directory}/starts)"
    program.write_text(f'#!/bin/sh\n{counted}\n{which} || exit 1\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return f"popen//python={program}"


def test_a_worker_that_dies_as_it_starts_is_started_once_more(run: Run, pytester: pytest.Pytester) -> None:
    tx = starts(pytester.path, "[ $n != 2 ]")
    result = run("--dist=load", f"--tx=2*{tx}")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["nfvperf: gw1 died as it started (*): it is started once more"])
    assert set(measured(pytester.path)) == {"a", "b"}


@pytest.mark.parametrize("which", ["false", "[ $n = 1 ]"], ids=["at once", "in the place of one that died"])
def test_a_worker_that_cannot_be_started_breaks_the_testbed(run: Run, pytester: pytest.Pytester, which: str) -> None:
    tx = starts(pytester.path, which)
    result = run("--dist=load", f"--tx={tx}", begin=DIES_ONCE, testbeds="a")
    assert result.ret == 11
    result.stdout.fnmatch_lines(["*A worker cannot be started (*)*"])


def test_a_testbed_that_another_run_uses_is_waited_for(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "a.yaml").write_text(TESTBED.format(name="a"))
    with (pytester.path / "a.yaml").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = run("--nfv-wait", "200 ms", testbeds="a")
        assert result.ret == 4
        told = rf"nfvperf: waits up to 200 ms for a testbed that is free; in use: a.yaml by pid {os.getpid()}, command "
        assert re.search(told, result.stdout.str())
        assert "every testbed is in use: a.yaml by pid" in result.outlines[-1]
    run(testbeds="a").assert_outcomes(passed=4)


def test_remote_workers_are_refused_before_they_measure(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """A worker with a directory of its own, as one on another machine has: its results would be there."""
    make_project(pytester, SUITE.format(sizes=[64], begin="pass"), "")
    (pytester.path / "mine" / "conftest.py").write_text(SIMULATED)
    suite = pytester.path / "mine"
    given = ("-p", "no:cacheprovider", "-p", "pytest_nfvperf.fixtures.all", "--nfv-report=none")
    far = ("--dist=load", f"--tx=popen//chdir={tmp_path}", f"--rsyncdir={suite}")
    result = pytester.runpytest_subprocess(*given, *far, suite)
    assert result.ret == 4
    assert "start a run on each machine, and bring the results together (nfvperf site)" in result.outlines[-1]
    assert not (tmp_path / "reports").exists()


def test_different_testbeds_are_a_matrix_by_label(run: Run, pytester: pytest.Pytester) -> None:
    labelled = ["--nfv-testbed=slow=a.yaml", "--nfv-testbed=fast=b.yaml"]
    (pytester.path / "sla.yaml").write_text(
        "schema: 1\nrules:\n  - {where: {testbed: slow}, require: {ndr: '>= 3 Mpps'}}\n"
    )
    for name in "ab":
        (pytester.path / f"{name}.yaml").write_text(TESTBED.format(name=name))
    result = run("-n", "2", "--nfv-sla", "sla.yaml", *labelled, testbeds="")
    result.assert_outcomes(passed=8)
    for name, label in (("a", "slow"), ("b", "fast")):
        assert all(f"[{label}-" in test or f"-{label}]" in test for test in measured(pytester.path)[name])
        assert len(measured(pytester.path)[name]) == 4
    result = run(*labelled, testbeds="")
    assert result.ret == 4
    assert "testbeds of 2 labels (slow, fast) need a worker each: add -n 2 (pytest-xdist)" in result.outlines[-1]
    result = run(labelled[0], testbeds="b")
    assert "'b.yaml' has no label, and others have: write LABEL=b.yaml" in result.outlines[-1]
