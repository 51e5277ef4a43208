"""The wall clock is set by an hour or a year while things are measured: what is measured does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.ovs_support import needs_root
from tests.stepped_clock import HOUR_S, YEAR_S, make

pytestmark = needs_root
MORE = pytest.mark.thorough("another step")

CONNECTS = """
import os, sys, threading, time
from pathlib import Path
from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine
from pytest_nfvperf.adapters.generators.program_pairs import ProgramPair
from pytest_nfvperf.model.measure.streams import ConnectSpec
from tests.functional.stream_support import pair
from tests.stepped_clock import FILE, step

true, tries = ProgramPair.wait_client, []

def wait_client(run, *arguments):
    tries.append(run)
    if len(tries) > int(sys.argv[2]):
        return true(run, *arguments)
    clock = threading.Timer(0.3, step, (Path(os.environ[FILE]), int(sys.argv[1]) * len(tries)))
    clock.start()
    try:
        return true(run, *arguments)
    finally:
        clock.join()  # on a busy machine it may come late, but it comes within this try

ProgramPair.wait_client = wait_client
with pair() as joined:
    before = time.time()
    found = Iperf2Engine(joined.journal).run(ConnectSpec(duration_s=1), joined.client, joined.server)
    assert abs(time.time() - before) > 3000, "the clock was not set"
    print(len(tries), found.times.max_ns < 1e9, 0 < found.mean_ns < 1e9)
"""


def within_a_clock(directory: Path, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A Python process, with all its children, whose clock can be set."""
    argv = [sys.executable, "-c", script, *map(str, arguments)]
    environment = os.environ | make(directory)
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, cwd=Path.cwd())


@pytest.mark.parametrize("by_s", [-HOUR_S, *(pytest.param(by_s, marks=MORE) for by_s in (HOUR_S, YEAR_S, -YEAR_S))])
def test_connects_that_iperf_timed_across_a_step_are_made_again(tmp_path: Path, by_s: int) -> None:
    """Steps: set the clock while iperf 2, which times by it, connects. Verify: it does so again; times are true."""
    done = within_a_clock(tmp_path, CONNECTS, by_s, 1)
    assert (done.returncode, done.stdout) == (0, "2 True True\n"), done.stderr


def test_a_clock_that_never_rests_is_told(tmp_path: Path) -> None:
    done = within_a_clock(tmp_path, CONNECTS, HOUR_S, 3)
    assert done.returncode == 1
    assert "the machine's clock was set while iperf timed connects by it, 3 times in a row, last by +3,600.0 s" in (
        done.stderr
    )
