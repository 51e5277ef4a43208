"""Which load a soak takes on a machine that others use, too; and how it breaks off."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.measure.soak import find_loads
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.profile import GATE
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import RigHealth, TrialSpec
from tests.sample_trials import counts_of
from tests.unit.test_traffic_classes import FOUR, soaker_of
from tests.unit.test_traffic_classes import Rig as Simulated
from tests.unit.test_windows import ALONE, SHARED, windows

WINDOWS = 100
NDR_FPS = 500_000


class Rig:
    """Of each trial's frames a tenth is lost; in the windows in which a core was shared, or in the others."""

    def __init__(self, *, while_shared: bool) -> None:
        self.while_shared = while_shared
        self.topology = phy2phy()
        self.profile = GATE
        self.runner = self
        self.searched = False

    def learn(self, traffic: Traffic) -> None: ...

    def ceiling_fps(self, *_: object) -> None: ...

    def run_once(self, spec: TrialSpec) -> Any:
        shared = [at < WINDOWS // 2 for at in range(WINDOWS)]
        lost = [20 if shares == self.while_shared else 0 for shares in shared]
        speed = [SHARED if shares else ALONE for shares in shared]
        made = windows([100] * WINDOWS, speed=speed, sent=[100] * WINDOWS, refused=lost)
        sent, missing = 100 * WINDOWS, sum(lost)
        counts = counts_of(spec.directions[0], sent=sent - missing, refused=missing)
        return SimpleNamespace(result=replace(TrialResult(spec, (counts,), RigHealth()), windows=made))

    def ndr_pdr(self, *_: object) -> Any:
        self.searched = True
        goal = SimpleNamespace(reported_fps=NDR_FPS)
        return SimpleNamespace(goal=lambda _: goal, trials=())


def loads(rig: Any) -> tuple[float, ...]:
    return find_loads(SoakLoad(), rig, Traffic(), rig)


def test_where_only_the_machine_loses_frames_the_lowest_load_is_taken_without_a_search() -> None:
    rig = Rig(while_shared=True)
    assert loads(rig) == (1e6,)
    assert not rig.searched


def test_a_dut_that_loses_frames_at_the_lowest_load_is_soaked_below_its_ndr() -> None:
    rig = Rig(while_shared=False)
    assert loads(rig) == (NDR_FPS * 0.8,)
    assert rig.searched


def test_a_soak_that_breaks_off_reads_its_trial_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader has real-time priority until then: it would keep it for the rest of the run."""
    rig = Simulated(5e6)
    started: list[Any] = []
    start = rig.bench.generator.start_trial
    monkeypatch.setattr(rig.bench.generator, "start_trial", lambda *of: started.append(start(*of)) or started[0])

    def broken() -> None:
        raise ValueError("of somebody else")

    rig.live.deployment.check_alive = broken
    with pytest.raises(ValueError, match="of somebody else"):
        soaker_of(rig).run(rig.live, FOUR)
    assert started[0].result().counts[0].sent < 10 * 100_000, "it was stopped, and has its result"
