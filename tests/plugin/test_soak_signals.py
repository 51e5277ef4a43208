"""What ends a soak early, and what does not: on a simulated DUT, in time that passes 20 times as fast."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from user_project import CONFTEST, make_project, records

from pytest_nfvperf.adapters.process.process import wait_until

WIRING = """
import time
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Fast(VirtualClock):
    def sleep(self, seconds):
        time.sleep(seconds / 20)
        super().sleep(seconds)

class Backend(SimulatedBackend):
    def __init__(self, testbed):
        super().__init__(testbed, lambda: FakeGenerator(4e6))
        self.clock = Fast()

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed)
"""

SUITE = '''
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_soak(phy2phy, soak, sla):
    """Steps: soak. Verify: the SLA."""
    sla.check(soak.run(phy2phy, Traffic()))

def test_after():
    pass
'''

SLA = "schema: 1\nrules: [{where: {topology: phy2phy}, require: {lost_frames: '<= 0', rate_change: '>= -1 %'}}]\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    made = make_project(pytester, SUITE, CONFTEST + WIRING)
    (made.path / "mine" / "sla.yaml").write_text(SLA)
    return made.path


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Starts a run of so many virtual seconds, and waits until its soak has samples."""
    started: list[subprocess.Popen[str]] = []

    def run(seconds: int, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
        arguments = ["--nfv-soak-duration", f"{seconds} s", "--nfv-soak-load", "1 Mpps", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "mine", *arguments],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout if stdout != subprocess.PIPE else subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": ""},
        )
        started.append(process)
        wait_until(lambda: process.poll() is not None or rows(project) > 3, "samples of the soak", 30.0)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def rows(project: Path) -> int:
    files: Sequence[Path] = list((project / "reports").glob("2*/samples-*.jsonl"))
    return files[0].read_bytes().count(b"]\n") if files else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_it_writes_its_verdict_and_the_run_ends(
    project: Path, start: Start, number: signal.Signals
) -> None:
    process = start(10_000)
    process.send_signal(number)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert f"{number.name} during a soak; its verdict is on what there was until then" in output
    assert "at least 0 frames: ended after" in output
    assert "1 failed" in output
    verdicts = [record["data"] for record in records(project, "verdict")]
    assert [verdict["judgement"] for verdict in verdicts] == ["INCONCLUSIVE", "INCONCLUSIVE"]
    assert all(f"by {number.name}" in verdict["reason"] for verdict in verdicts)
    assert [record["test"] for record in records(project, "test")] == ["mine/test_mine.py::test_soak"]
    (soak,) = records(project, "soak")
    assert soak["data"]["rows"] == soak["data"]["soak"]["intervals"] > 3
    assert records(project, "run_end"), "the evidence is whole"
    assert (project / "reports" / "latest" / "report.html").exists()


def test_a_terminal_that_closes_ends_nothing(project: Path, start: Start) -> None:
    """It takes the output with it: that goes on in a file."""
    master, slave = pty.openpty()
    process = start(60, stdout=slave)
    os.close(slave)
    os.close(master)
    process.send_signal(signal.SIGHUP)

    assert process.wait(60) == 0
    assert [record["data"]["judgement"] for record in records(project, "verdict")] == ["PASS", "PASS"]
    log = (project / "reports" / "latest" / "terminal.log").read_text()
    assert "2 passed" in log
    (soak,) = records(project, "soak")
    assert soak["data"]["soak"]["interrupted"] == ""


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("duration", "12", "*--nfv-soak-duration: '12' has no unit: write '12 min' for the length of a soak*"),
        ("duration", "0.5 s", "*--nfv-soak-duration: '0.5 s' is too short: write at least '1 s'*"),
        ("load", "4 mpps", "*--nfv-soak-load: *4 Mpps*or write '80 %' of the NDR*"),
        ("load", "0 %", "*--nfv-soak-load: '0 %' is no load: write e.g. '4 Mpps' or '80 %'*"),
    ],
)
def test_what_cannot_be_soaked_is_said(project: Path, pytester: pytest.Pytester, option, text, message) -> None:
    result = pytester.runpytest_subprocess("mine", f"--nfv-soak-{option}", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_plan_of_twelve_hours_takes_no_time_and_no_disk(project: Path, pytester: pytest.Pytester) -> None:
    began = time.monotonic()
    result = pytester.runpytest_subprocess("mine", "--nfv-plan", "--nfv-profile", "full")
    result.stdout.fnmatch_lines(["*test_soak: about 12* h:*1 x soak 12 h*"])
    assert time.monotonic() - began < 60
    assert not (project / "reports").exists()


def test_samples_of_a_soak_are_whole(project: Path, start: Start) -> None:
    process = start(40)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    header, *lines = (project / "reports" / "latest" / "samples-soak-0001.jsonl").read_text().splitlines()
    assert json.loads(header)["columns"][0] == "t"
    assert [json.loads(line)[0] for line in lines] == [pytest.approx(1.6 * number) for number in range(1, 26)]
