"""Who makes the turns of polling threads short: there with a real-time priority, frozen, ended, or not permitted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.process import process_state
from pytest_nfvperf.adapters.process.wakeups import ShortTurns
from pytest_nfvperf.model.errors import TestbedError
from tests.functional.ovs_support import clean_run, needs_root, until

pytestmark = needs_root

CPU = min(os.sched_getaffinity(0))


def test_one_process_a_cpu_goes_before_all_else_there() -> None:
    with clean_run() as journal:
        turns = ShortTurns(journal, [CPU], "nodes")
        try:
            (pid,) = turns.pids()
            assert os.sched_getscheduler(pid) == os.SCHED_FIFO
            assert os.sched_getaffinity(pid) == {CPU}
            before = turns.run_ns()[CPU]
            assert until(lambda: turns.run_ns()[CPU] > before)
            turns.freeze()
            assert process_state(pid).startswith("T")
            turns.thaw()
            assert until(lambda: not process_state(pid).startswith("T"))
            turns.check_alive()
        finally:
            turns.close()
            turns.close()
        assert process_state(pid) == "gone"


def test_none_where_nobody_shares() -> None:
    with clean_run() as journal:
        assert not ShortTurns(journal, (), "nodes").active


def test_without_the_right_to_a_real_time_priority_turns_stay_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unprivileged = tmp_path / "python"
    unprivileged.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-sys_nice {sys.executable} "$@"\n')
    unprivileged.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(unprivileged))
    with clean_run() as journal:
        turns = ShortTurns(journal, [CPU], "nodes")
        assert (turns.active, turns.pids()) == (False, ())


def test_one_that_ends_otherwise_breaks_the_testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such interpreter >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with clean_run() as journal, pytest.raises(TestbedError, match=rf"short turns on CPU {CPU} .*status 3"):
        ShortTurns(journal, [CPU], "nodes")
