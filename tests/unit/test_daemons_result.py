"""Whose a missed deadline of routing daemons is: the DUT's, or the machine's that did not let them run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_nfvperf.adapters.host.cpu_account import cpu_waits, longest_wait
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing import paths as subject
from pytest_nfvperf.features.routing.paths import judged_wait
from pytest_nfvperf.model.errors import DeadlineError, DutFailure, InconclusiveError, TestbedError

SPIN = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


@pytest.fixture
def missed(monkeypatch: pytest.MonkeyPatch):
    """A deadline of a tenth of a second that passes while the daemons waited for so long."""

    def miss(waited_s: float) -> None:
        monkeypatch.setattr(subject, "longest_wait", lambda before, now: ("bgpd", waited_s))
        with judged_wait(lambda: {"bgpd": os.getpid()}):
            try:
                wait_until(lambda: None, "Established", 0.1, last_seen=lambda: "Active")
            except DeadlineError as error:
                error.evidence["bgpd.log"] = "hold timer expired"
                raise

    return miss


def test_daemons_that_could_run_missed_it_themselves(missed) -> None:
    with pytest.raises(DutFailure, match=r"waited 0\.1 s for Established; last seen: Active") as caught:
        missed(0.0)
    assert "--- bgpd.log ---\nhold timer expired" in str(caught.value)


def test_daemons_without_a_cpu_say_nothing_about_the_dut(missed) -> None:
    with pytest.raises(
        InconclusiveError, match=r"last seen: Active\. But bgpd was ready and waited 90\.0 ms of \d+ ms for a CPU"
    ):
        missed(0.09)


def test_what_broke_stays_broken() -> None:
    with pytest.raises(TestbedError, match="bgpd was killed"), judged_wait(dict):
        raise TestbedError("bgpd was killed")


def test_a_process_that_shares_its_cpu_is_seen_to_wait() -> None:
    """Two that never sleep on one CPU: each waits about half of the time."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        pids = {f"process {number}": process.pid for number, process in enumerate(spinning)}
        before = cpu_waits(pids)
        wait_until(lambda: longest_wait(before, cpu_waits(pids))[1] > 0.1, "one of two to wait for 0.1 s", 10)
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_nobody_waits_in_a_plan() -> None:
    assert longest_wait({}, {}) == ("nobody", 0.0)  # no process, and a kernel that tells of no CPU
