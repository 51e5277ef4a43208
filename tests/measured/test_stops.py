"""Real runs that are interrupted at random moments end in time, with their report, and leave nothing.

``python tests/stops.py`` does the same as often as asked.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from stops import SUITES, interrupt

from pytest_nfvperf.adapters.generators.embedded import build

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces, hugepages, Open vSwitch")

SEED = 2544
LATEST_S = 9.0


@pytest.fixture
def base() -> Iterator[Path]:
    path = Path(f"/run/nfvperf-stops-{os.getpid()}")
    build.build()
    path.mkdir()
    yield path
    for lock in path.glob("*.lock"):
        lock.unlink()
    path.rmdir()


def moments() -> list[tuple[str, str, float]]:
    """Each suite once, by signals in turn."""
    chance = random.Random(SEED)
    signals = ("SIGINT", "SIGTERM", "SIGKILL")
    return [(suite, signals[i % 3], round(chance.uniform(0.0, LATEST_S), 2)) for i, suite in enumerate(SUITES)]


@pytest.mark.thorough("random moments of whole suites")
@pytest.mark.parametrize(("suite", "number", "moment_s"), moments())
def test_interrupted_it_leaves_nothing(suite: str, number: str, moment_s: float, base: Path, tmp_path: Path) -> None:
    """Steps: start a suite, send the signal at a random moment. Verify: the line, the status, the report, nothing left.

    A run that is killed leaves what ``nfvperf clean``, as the next start, removes.
    """
    stop = interrupt(suite, number, moment_s, base, tmp_path)

    assert stop.left == [], stop
    if number != "SIGKILL" and stop.in_time_to_stop:
        assert stop.told_s is not None, stop.output
        assert stop.status == pytest.ExitCode.INTERRUPTED, stop.output
        assert stop.report or not stop.measured, stop.output
        assert "Traceback" not in stop.output
