"""Two CPUs that wake one another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_nfvperf.adapters.process.wakeups import RaisedPriority, exchange_wakeups
from pytest_nfvperf.model.errors import TestbedError


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_each_wakes_the_other_again_and_again() -> None:
    one, other = sorted(os.sched_getaffinity(0))[:2]
    assert exchange_wakeups(one, other) > 2


@pytest.mark.parametrize("cpus", [(0, 4095), (4095, 0)])
def test_a_cpu_that_is_not_there_is_reported(cpus: tuple[int, int]) -> None:
    with pytest.raises(TestbedError, match=f"{cpus[0]} {cpus[1]} 0.1 exited with status 1") as raised:
        exchange_wakeups(*cpus)
    assert "Invalid argument" in raised.value.evidence["stderr"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a real-time priority")
def test_a_priority_is_raised_until_its_end_and_not_that_of_what_is_started() -> None:
    raised = RaisedPriority()
    try:
        own = os.sched_getscheduler(0)
        child = subprocess.check_output([sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"], text=True)
    finally:
        raised.end()
    assert (own & ~os.SCHED_RESET_ON_FORK, int(child)) == (os.SCHED_RR, os.SCHED_OTHER)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
