"""What died is told, with what was seen of it first."""

from __future__ import annotations

from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.trials import underlying_death
from pytest_nfvperf.model.errors import TestbedError

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
