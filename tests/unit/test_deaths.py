"""What died is told, with what was seen of it first; and parts that fail at their end keep no other from its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.rig import Deployment
from pytest_nfvperf.measure.trials import underlying_death
from pytest_nfvperf.model.errors import GeneratorError, TestbedError, run_all

SILENT = TestbedError("ovs-vswitchd does not answer", evidence={"socket": "Broken pipe"})
DEATH = TestbedError("ovs-vswitchd (pid 7) was killed by SIGKILL", evidence={"ovs-vswitchd.log": "the end"})


def dead_from(clock: VirtualClock, at_s: float):
    def check_alive() -> None:
        if clock.monotonic() >= at_s:
            raise DEATH

    return check_alive


def test_a_death_that_shows_a_little_later_is_the_cause():
    clock = VirtualClock()
    found = underlying_death(SILENT, dead_from(clock, 0.3), clock)
    assert found.message == f"{DEATH.message}; seen first as: {SILENT.message}"
    assert found.evidence == {"socket": "Broken pipe", "ovs-vswitchd.log": "the end"}
    assert found.__cause__ is SILENT


def test_a_dut_that_lives_on_leaves_the_error_as_it_was():
    clock = VirtualClock()
    assert underlying_death(SILENT, dead_from(clock, 60), clock) is SILENT
    assert clock.monotonic() < 1


def test_a_death_that_was_told_already_is_not_told_twice():
    told = TestbedError(f"during a trial: {DEATH.message}")
    assert underlying_death(told, dead_from(VirtualClock(), 0), VirtualClock()) is told


@pytest.mark.parametrize("first", [subprocess.TimeoutExpired("nfvperf-gen", 3.0), OSError("gone")])
def test_a_part_that_fails_in_whatever_way_keeps_no_other_from_its_end(first: Exception):
    """The generator's end once raised TimeoutExpired, and the DUT's was never tried."""
    closed: list[str] = []

    def fails(error: Exception) -> None:
        closed.append(type(error).__name__)
        raise error

    with pytest.raises(type(first)):
        run_all([lambda: fails(first), lambda: closed.append("DUT")])
    assert closed == [type(first).__name__, "DUT"]
    with pytest.raises(TestbedError, match="does not answer"):
        run_all([lambda: fails(first), lambda: fails(SILENT)])


class Part:
    """Part of a rig, whose end fails with this error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self._error = error

    def close(self) -> None:
        self.closed += 1
        if self._error is not None:
            raise self._error


def test_a_deployment_ends_every_part_although_each_fails():
    services = [Part(subprocess.TimeoutExpired("bird", 1.0)), Part(OSError("frr"))]
    vnfs, built = Part(SILENT), Part()
    deployment = Deployment(built, None, None, None, None, None, vnfs=vnfs, services=[*services])
    with pytest.raises(TestbedError, match="does not answer"):
        deployment.close()
    assert [part.closed for part in (*services, vnfs, built)] == [1, 1, 1, 1]
    assert not deployment.services


ANSWERS_AND_STAYS = """
import json, signal, sys, time
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "ok": True}), flush=True)
    if request["cmd"] == "quit":
        time.sleep(60)
"""


def test_an_engine_that_is_slow_at_its_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It answers ``quit`` and stays, as on an emulated CPU: that is no error of the run."""
    monkeypatch.setattr("pytest_nfvperf.adapters.generators.engine._QUIT_DEADLINE_S", 0.5)
    engine = Engine([sys.executable, "-c", ANSWERS_AND_STAYS], tmp_path / "engine.log")
    assert engine.command("hello", 10.0)["ok"]
    engine.close()
    assert not Path(f"/proc/{engine.pid}").exists()
    engine.close()
    with pytest.raises(GeneratorError, match="it was closed"):
        engine.command("hello", 1.0)
