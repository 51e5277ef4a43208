"""A pause after a trial that was kept_off of the DUT's CPU; none after others, nor again and again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.measure.clocks import Stopwatch, VirtualClock
from pytest_nfvperf.measure.trials import PAUSE_S, QuietWait
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec

RESULT = TrialResult(TrialSpec(Traffic(), 1000, 1.0, (Direction("p0", "p1"),)), (), RigHealth())


def after(*codes: Reason) -> TrialResult:
    return replace(RESULT, invalid=tuple(InvalidReason(code, "seen") for code in codes))


@pytest.mark.parametrize("codes", [(), (Reason.SKIPPED_FRAMES,), (Reason.LINK_DOWN, Reason.SKIPPED_FRAMES)])
def test_no_pause_where_nobody_took_the_pmds_cpu(codes: tuple[Reason, ...]) -> None:
    clock = VirtualClock()
    QuietWait(clock, Stopwatch(clock)).after(after(*codes))
    assert clock.monotonic() == 0


def test_one_pause_and_the_next_only_some_time_later() -> None:
    clock = VirtualClock()
    quiet_wait, off_cpu = QuietWait(clock, Stopwatch(clock)), after(Reason.SKIPPED_FRAMES, Reason.DUT_CPU_STOLEN)
    for _ in range(3):
        quiet_wait.after(off_cpu)
    assert clock.monotonic() == PAUSE_S
    clock.sleep(9)
    quiet_wait.after(off_cpu)
    assert clock.monotonic() == PAUSE_S + 9
    clock.sleep(1.1)
    quiet_wait.after(off_cpu)
    assert clock.monotonic() == pytest.approx(2 * PAUSE_S + 10.1)
