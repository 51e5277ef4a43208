"""Ctrl-C, SIGTERM and SIGHUP end a run in time and in order: on a simulated DUT, whose trials take their time."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from user_project import CONFTEST, make_project, records

WIRING = """
import time
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Slow(VirtualClock):
    def sleep(self, seconds):
        time.sleep(seconds / 5)
        super().sleep(seconds)

class Backend(SimulatedBackend):
    def __init__(self, testbed):
        super().__init__(testbed, lambda: FakeGenerator(4e6))
        self.clock = Slow()

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed)
"""

HEADER = "import time\nimport pytest\nfrom pytest_nfvperf.model.traffic.traffic import Traffic\n"
ONE_TRIAL = "search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 1.0)"
TRIALS = f"""
def test_first(phy2phy, search):
    {ONE_TRIAL}

def test_long(phy2phy, search):
    print("long", flush=True)
    while True:
        {ONE_TRIAL}

def test_never(phy2phy, search):
    {ONE_TRIAL}
"""
STUBBORN = f"""
def test_stubborn(phy2phy, search):
    {ONE_TRIAL}
    for _ in range(MANY):
        try:
            print("long", flush=True)
            time.sleep(60)
        except BaseException:
            pass
"""
SLOW_END = f"""
@pytest.fixture
def slow():
    yield
    print("long", flush=True)
    time.sleep(60)

def test_end(phy2phy, search, slow):
    {ONE_TRIAL}
"""

PRINTING = f"""
@pytest.fixture
def prints():
    yield
    try:
        print("never shown", flush=True)
    finally:
        open("ended", "w").close()

def test_end(phy2phy, search, prints):
    print("long", flush=True)
    while True:
        {ONE_TRIAL}
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(pytester: pytest.Pytester) -> Iterator[Start]:
    """Starts a run in a process group of its own, and returns once a test has printed "long"."""
    started: list[subprocess.Popen[str]] = []

    def run(
        suite: str,
        *arguments: str,
        until: str = "long",
        signals: str = "--default-signal=INT,HUP",
        stdout: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        make_project(pytester, HEADER + suite, CONFTEST + WIRING)
        process = subprocess.Popen(
            ["env", signals, sys.executable, "-m", "pytest", "mine", "-s", *arguments],
            cwd=pytester.path,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": ""},
        )
        started.append(process)
        assert process.stdout is None or any(until in line for line in process.stdout)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


MORE = pytest.mark.thorough("the other signal; each is in make test")
INT_MORE = [pytest.param(signal.SIGINT, marks=MORE), signal.SIGTERM]
TERM_MORE = [signal.SIGINT, pytest.param(signal.SIGTERM, marks=MORE)]


@pytest.mark.parametrize(
    ("suite", "number"),
    [
        pytest.param(TRIALS, signal.SIGINT, id="trials-SIGINT"),
        pytest.param(TRIALS, signal.SIGTERM, id="trials-SIGTERM", marks=MORE),
        pytest.param(TRIALS, signal.SIGHUP, id="trials-SIGHUP"),
        pytest.param(STUBBORN.replace("MANY", "3"), signal.SIGINT, id="stubborn-SIGINT", marks=MORE),
        pytest.param(STUBBORN.replace("MANY", "3"), signal.SIGTERM, id="stubborn-SIGTERM"),
    ],
)
def test_a_run_that_is_asked_to_stop_says_so_and_writes_its_report(
    pytester: pytest.Pytester, start: Start, suite: str, number: signal.Signals
) -> None:
    """A test that catches everything is interrupted until it gives up."""
    process = start(suite)
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    who = "Ctrl-C" if number is signal.SIGINT else number.name
    assert f"\nstopping: {who}; what was started is taken down, the report is being written" in output
    assert "Traceback" not in output
    assert records(pytester.path, "run_end")[-1]["data"]["exit_status"] == pytest.ExitCode.INTERRUPTED
    assert (pytester.path / "reports" / "latest" / "report.html").exists()


@pytest.mark.parametrize("number", TERM_MORE)
def test_what_is_slow_at_the_end_is_broken_off(pytester: pytest.Pytester, start: Start, number: signal.Signals) -> None:
    """The signal comes when all tests have passed, and one fixture takes a minute to end."""
    process = start(SLOW_END)
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "stopping: " in output
    assert "Traceback" not in output
    assert (pytester.path / "reports" / "latest" / "report.html").exists()


def test_ctrl_c_once_more_ends_at_once(start: Start) -> None:
    process = start(STUBBORN.replace("MANY", "1000"))
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout is not None
    assert any("stopping: Ctrl-C" in line for line in process.stdout)
    asked = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)

    assert time.monotonic() - asked < 1.0
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "stopped at once: Ctrl-C again; the next run, or `nfvperf clean`, removes what is left" in output
    assert "Traceback" not in output


def test_sigterm_once_more_changes_nothing(pytester: pytest.Pytester, start: Start) -> None:
    """Make passes it on to its children, which had it from who sent it to make's group."""
    process = start(TRIALS)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert output.count("stopping: ") == 1
    assert (pytester.path / "reports" / "latest" / "report.html").exists()


def test_a_closed_terminal_changes_nothing_where_sighup_is_ignored(pytester: pytest.Pytester, start: Start) -> None:
    """As nohup(1) does."""
    process = start(TRIALS.replace("while True", "for _ in range(2)"), signals="--ignore-signal=HUP")
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == pytest.ExitCode.OK, output
    assert "stopping: " not in output


def test_what_a_run_made_is_taken_down_without_its_terminal(pytester: pytest.Pytester, start: Start) -> None:
    """Steps: close the terminal, which answers each write with EIO then, at two signals: of the kernel, of the shell.
    Verify: fixtures that print at their end have ended, and there is a report."""
    terminal, ours = pty.openpty()
    process = start(PRINTING, stdout=ours, until="")
    os.close(ours)
    while b"long" not in os.read(terminal, 1 << 16):
        pass
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)

    assert process.wait(20) == pytest.ExitCode.INTERRUPTED
    assert (pytester.path / "ended").exists()
    assert records(pytester.path, "run_end")[-1]["data"]["exit_status"] == pytest.ExitCode.INTERRUPTED
    assert (pytester.path / "reports" / "latest" / "report.html").exists()


def test_a_test_that_does_not_end_is_ended(start: Start) -> None:
    process = start(STUBBORN.replace("MANY", "1000"))
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "stopped at once: the running test does not end" in output


def test_a_run_that_measures_nothing_keeps_its_signals(pytester: pytest.Pytester, start: Start) -> None:
    """The plugin is loaded in every pytest of the environment."""
    process = start("def test_it():\n    print('long', flush=True)\n    time.sleep(60)\n")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == -signal.SIGTERM
    assert "stopping" not in output


@pytest.mark.parametrize("number", [*INT_MORE, signal.SIGHUP])
def test_workers_stop_with_their_controller(pytester: pytest.Pytester, start: Start, number: signal.Signals) -> None:
    """The controller has the terminal and hears the signal; its worker ends and leaves its evidence.

    A terminal that closes tells all processes of its group.
    """
    process = start(TRIALS, "-n", "1", "-v", until="PASSED")
    (os.killpg if number is signal.SIGHUP else os.kill)(process.pid, number)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "stopping: " in output
    assert "Traceback" not in output
    assert (pytester.path / "reports" / "latest" / "report.html").exists()
