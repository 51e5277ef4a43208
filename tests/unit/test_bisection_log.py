"""The log of a bisection: goes on after kill -9, is refused for another question, and says what is wrong with it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bisect_support import TEST, figure

from pytest_nfvperf.features.bisect.events import LOG, Event, EventLog, Ran, Unusable, VersionComparison
from pytest_nfvperf.model.errors import ConfigError

ASKED = {"versions": ("a", "b", "c"), "arguments": ["suites/"], "confidence": 0.95}
EVENTS: list[Event] = [
    VersionComparison(0, 2, 8, (figure([-0.1, -0.12, -0.11]),)),
    Ran(1, (TEST,), (("other", "lost 3 frames"),), again=True),
    Unusable(1, "make failed: Füße"),
]

BISECTION = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from bisect_support import SimulatedVersions, series
from pytest_nfvperf.features.bisect.events import EventLog
from pytest_nfvperf.features.bisect.events import Question
from pytest_nfvperf.features.bisect.trials import bisect

class Slow(SimulatedVersions):
    def measure(self, ask):
        time.sleep(0.05)
        return super().measure(ask)

log = EventLog(Path(sys.argv[1]), {{"what": "sixteen"}})
question = Question(tuple(f"v{{version}}" for version in range(17)))
versions = Slow(series(17, 11, 0.9), seed=len(log.events))
print(len(log.events), "seen before", flush=True)
found = bisect(question, versions.measure, log.events, log.append)
print("culprit", found.step.candidates.first, found.step.confirmed, flush=True)
"""


def written(directory: Path) -> Path:
    log = EventLog(directory, ASKED)
    for event in EVENTS:
        log.append(event)
    log.close()
    return directory / LOG


def test_what_was_seen_is_read_back(tmp_path: Path) -> None:
    written(tmp_path)
    log = EventLog(tmp_path, ASKED)

    assert list(log.events) == EVENTS


def test_a_line_that_was_cut_off_is_left_out_and_taken_away(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    log = EventLog(tmp_path, ASKED)

    assert list(log.events) == EVENTS[:-1]
    log.append(EVENTS[-1])
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("arguments", ["suites/mirror"], "its arguments is ['suites/'], yours is ['suites/mirror']"),
        ("versions", ["a", "c"], "its versions is ['a', 'b', 'c'], yours is ['a', 'c']"),
        ("confidence", 0.99, "its confidence is 0.95, yours is 0.99"),
    ],
)
def test_another_question_is_refused_with_the_difference(tmp_path: Path, key: str, value: object, told: str) -> None:
    path = written(tmp_path)

    with pytest.raises(ConfigError) as refused:
        EventLog(tmp_path, {**ASKED, key: value})
    assert told in str(refused.value)
    assert str(path) in str(refused.value)
    assert "name another directory by --log" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", "Expecting value"),
        ('{"kind": "weather"}', "kind 'weather' is unknown"),
        ('{"kind": "unusable", "version": 1}', "Field required"),
        ("[]", "it is no object"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(ConfigError, match=told) as refused:
        EventLog(tmp_path, ASKED)
    assert f"{path}:5: " in str(refused.value)


def test_two_processes_do_not_write_one_log(tmp_path: Path) -> None:
    first = EventLog(tmp_path, ASKED)

    with pytest.raises(ConfigError, match="another bisection writes here"):
        EventLog(tmp_path, ASKED)
    first.close()
    EventLog(tmp_path, ASKED).close()


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.thorough("more random moments"))])
def test_a_bisection_that_is_killed_again_and_again_goes_on(tmp_path: Path, kills: int) -> None:
    """Each process sees all that the ones before saw, and the last one finds the culprit."""
    script = tmp_path / "bisection.py"
    script.write_text(BISECTION.format(tests=str(Path(__file__).parents[1])))
    moments = random.Random(2544)
    before = [_killed(script, tmp_path / "log", moments.uniform(0.0, 0.2)) for _ in range(kills)]
    last = subprocess.run([sys.executable, script, tmp_path / "log"], check=True, capture_output=True, text=True)

    assert before == sorted(before)
    assert int(last.stdout.split()[0]) >= before[-1]
    assert "culprit 11 True" in last.stdout
    lines = (tmp_path / "log" / LOG).read_text().splitlines()
    assert all(json.loads(line)["kind"] for line in lines)


def _killed(script: Path, log: Path, moment_s: float) -> int:
    """Kill it so long after it has begun to measure; returns how many observations it found in the log."""
    run = subprocess.Popen([sys.executable, script, log], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    told = run.stdout.readline()
    time.sleep(moment_s)  # a random moment, not a wait for something
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    return int(told.split()[0])
