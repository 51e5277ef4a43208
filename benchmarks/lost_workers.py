"""A worker of pytest-xdist is killed at a random moment, twenty times: what is lost, and what every test became."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.evidence.conclusion import TestResult

_RUNS, _TESTS, _WORKERS = 20, 24, 2
_SEED = 2544
_LONGEST_S = 4.0
"""From a worker's start to its end is about that: moments are even over its time."""

_CONFTEST = """
import os
from pathlib import Path
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend
pytest_plugins = ["pytest_nfvperf.fixtures.all"]

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        Path(f"{config.workerinput['workerid']}.pid").write_text(str(os.getpid()))
"""
_SUITE = """
import time
from pathlib import Path
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("number", range({tests}))
def test_ndr_pdr(number, phy2phy, search, sla):
    outcome = search.ndr_pdr(phy2phy, Traffic(frame_size=64, flows=number + 1))
    with Path("finished").open("a") as file:
        file.write("".join(trial + "\\n" for trial in outcome.trials))
    time.sleep(0.2)  # the simulated trials take no time
    sla.check(outcome)
"""
_SLA = "schema: 1\nrules:\n  - {where: {}, require: {ndr: '>= 3 Mpps'}}\n"
_TESTBED = "schema: 1\nname: bed-{number}\ndut: {{ovs: {{instance: private, datapath: netdev}}}}\n"


@dataclass(frozen=True, slots=True)
class _Ended:
    """``killed``: a worker was there to kill. ``finished``, ``kept``: trials. ``judged``: tests that passed."""

    killed: bool
    finished: int
    kept: int
    judged: int


def lost_workers() -> list[Figure]:
    """Finished trials that the evidence has, and tests that have a verdict."""
    moments = random.Random(_SEED)  # noqa: S311 - moments, no secret
    ended = [_ended(moments.uniform(0.0, _LONGEST_S), moments.choice(range(_WORKERS))) for _ in range(_RUNS)]
    finished, kept = sum(one.finished for one in ended), sum(one.kept for one in ended)
    judged = sum(one.judged for one in ended)
    killed = f"{how_many(sum(one.killed for one in ended), 'worker')} killed in {_RUNS} runs"
    return [
        Figure(
            "trials that finished and are in the evidence", f"{kept:,} of {finished:,}", "all", kept == finished, killed
        ),
        Figure(
            "tests with a verdict", f"{judged} of {_RUNS * _TESTS}", "all", judged == _RUNS * _TESTS, f"seed {_SEED}"
        ),
    ]


def _ended(moment_s: float, worker: int) -> _Ended:
    """One run, of which this worker is killed so many seconds after it began."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        _write(directory)
        beds = [f"--nfv-testbed={directory}/bed-{number}.yaml" for number in range(_WORKERS)]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "mine",
            "-n",
            str(_WORKERS),
            "-p",
            "no:cacheprovider",
            "--nfv-report=none",
            *beds,
        ]
        with (directory / "output").open("w") as output:
            running = subprocess.Popen(command, cwd=directory, stdout=output, stderr=output)
        pid = directory / f"gw{worker}.pid"
        wait_until(lambda: pid.exists() and pid.read_text(), f"worker {worker}", 60.0)
        try:
            running.wait(moment_s)
        except subprocess.TimeoutExpired:
            killed = _kill(int(pid.read_text()))
        else:
            killed = False
        running.wait()
        last = (directory / "output").read_text().strip().splitlines()[-1]
        print(f"  {'killed' if killed else 'ended'} after {moment_s:.1f} s: {last}", flush=True)
        return _looked_at(directory, killed)


def _kill(pid: int) -> bool:
    """False where it has ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _looked_at(directory: Path, killed: bool) -> _Ended:
    run = read_run((directory / "reports" / "latest").resolve())
    marker = directory / "finished"
    finished = marker.read_text().split() if marker.exists() else []
    written = "".join(file.read_text() for file in run.path.glob("evidence-*.jsonl"))
    kept = sum(f'"id":"{trial}"' in written for trial in finished)
    judged = sum(test.result is TestResult.PASSED for test in conclude(run).tests)
    return _Ended(killed, len(finished), kept, judged)


def _write(directory: Path) -> None:
    (directory / "conftest.py").write_text(_CONFTEST)
    (directory / "mine").mkdir()
    (directory / "mine" / "sla.yaml").write_text(_SLA)
    (directory / "mine" / "test_mine.py").write_text(_SUITE.format(tests=_TESTS))
    for number in range(_WORKERS):
        (directory / f"bed-{number}.yaml").write_text(_TESTBED.format(number=number))
