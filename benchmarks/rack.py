"""What a rack takes of the machine that controls it: 40 simulated testbeds and 100,000 trials."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.table import Figure
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import TestbedError

_TESTBEDS, _TESTS, _SEARCHES = 40, 1_000, 9
"""A search of the simulated DUT takes 12 trials: 108,000 in all."""

_MOST_SHARE, _MOST_BYTES = 0.2, 500e6
_INTERVAL_S, _DEADLINE_S = 0.5, 1800.0

_CONFTEST = """
import pytest
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend
pytest_plugins = ["pytest_nfvperf.fixtures.all"]
def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""
_SUITE = """
import pytest
from pytest_nfvperf import Traffic
@pytest.mark.parametrize("number", range({tests}))
def test_ndr_pdr(number, phy2phy, search, sla):
    for flows in range({searches} * number + 1, {searches} * (number + 1) + 1):
        sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64, flows=flows)))
"""
_TESTBED = "schema: 1\nname: rack-{number}\ndut: {{ovs: {{instance: private, datapath: netdev}}}}\n"


@dataclass(slots=True)
class _Controller:
    """What pytest's own process took, without its workers. ``dealing``: as long as all workers were there."""

    cpu_s: float = 0.0
    most_bytes: int = 0
    dealing_s: float = 0.0
    dealing_cpu_s: float = 0.0
    dealing_bytes: int = 0
    whole_s: float = 0.0


def rack() -> list[Figure]:
    """Its controller's CPU and memory, how fast evidence is written, and what the report of all takes."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        command = _project(directory)
        controller = _watched(command, directory)
        folder = (directory / "reports" / "latest").resolve()
        trials = sum(_count(file, b'"kind":"trial"') for file in folder.glob("evidence-gw*.jsonl"))
        size = sum(file.stat().st_size for file in folder.glob("evidence-*.jsonl"))
        began = time.monotonic()
        run([sys.executable, "-m", "pytest_nfvperf.cli.main", "report", folder], deadline_s=_DEADLINE_S)
        report_s = time.monotonic() - began
        return _figures(controller, trials, size, report_s)


def _figures(controller: _Controller, trials: int, size: int, report_s: float) -> list[Figure]:
    what = f"{_TESTBEDS} simulated testbeds, {trials:,} trials"
    share = controller.dealing_cpu_s / controller.dealing_s
    rate = f"{trials / controller.dealing_s:.0f} trials/s, {size / controller.dealing_s / 1e6:.1f} MB/s"
    return [
        Figure(f"{what}: controller's CPU", f"{share:.1%} of a core", "< 20 %", share < _MOST_SHARE),
        Figure(
            f"{what}: controller's memory",
            f"{controller.dealing_bytes / 1e6:.0f} MB",
            "< 500 MB",
            controller.dealing_bytes < _MOST_BYTES,
            f"{controller.most_bytes / 1e6:.0f} MB while it concludes",
        ),
        Figure(f"{what}: evidence", rate, detail=f"{size / 1e6:.0f} MB in {format_seconds(controller.dealing_s)}"),
        Figure(
            f"{what}: from the last test to the last line", format_seconds(controller.whole_s - controller.dealing_s)
        ),
        Figure(f"{what}: report", format_seconds(report_s)),
    ]


def _project(directory: Path) -> list[str]:
    (directory / "rack").mkdir()
    (directory / "conftest.py").write_text(_CONFTEST)
    (directory / "rack" / "test_rack.py").write_text(_SUITE.format(tests=_TESTS, searches=_SEARCHES))
    given = []
    for number in range(_TESTBEDS):
        (directory / f"{number}.yaml").write_text(_TESTBED.format(number=number))
        given += ["--nfv-testbed", f"{number}.yaml"]
    options = ["-q", "-p", "no:cacheprovider", "--nfv-report", "none", "-n", str(_TESTBEDS)]
    return [sys.executable, "-m", "pytest", "rack", *options, *given]


def _watched(command: list[str], directory: Path) -> _Controller:
    """Run it, and look at its first process until it ends."""
    seen, began = _Controller(), time.monotonic()
    with (directory / "output").open("w") as output, subprocess.Popen(command, cwd=directory, stdout=output) as pytest:
        process = psutil.Process(pytest.pid)
        process.cpu_affinity([])  # the bench keeps itself off the CPUs that it measures on; its run may have them all
        while pytest.poll() is None:
            if time.monotonic() - began > _DEADLINE_S:
                pytest.kill()
                raise TestbedError(f"the run on {_TESTBEDS} testbeds took more than {format_seconds(_DEADLINE_S)}")
            _look(process, seen, time.monotonic() - began)
            time.sleep(_INTERVAL_S)
        seen.whole_s = time.monotonic() - began
    if pytest.returncode != 0:
        raise TestbedError(f"pytest ended with {pytest.returncode}: {(directory / 'output').read_text()[-2000:]}")
    return seen


def _look(process: psutil.Process, seen: _Controller, at_s: float) -> None:
    try:
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info().rss
        workers = len(process.children())
    except psutil.NoSuchProcess:
        return
    seen.cpu_s, seen.most_bytes = times.user + times.system, max(seen.most_bytes, memory)
    if workers >= _TESTBEDS or seen.dealing_s == 0:  # later its workers end, and it reads what they wrote
        seen.dealing_s, seen.dealing_cpu_s = at_s, seen.cpu_s
        seen.dealing_bytes = max(seen.dealing_bytes, memory)


def _count(file: Path, what: bytes) -> int:
    return sum(what in line for line in file.read_bytes().splitlines())
