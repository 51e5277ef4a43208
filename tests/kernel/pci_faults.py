"""Random faults on the virtual lab's NICs: tests/kernel/test_pci_faults.py boots it and reads the results.

The rig's faults are a link that goes and comes, and a generator that is stopped. The DUT's is a switch that is stopped.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.measure.ledger import TESTER_DROPS
from tests.kernel.pci_scenarios import OVS_LINK_WATCH_S, flap, lab_testbed, live_on, rig_of, run_trial, stop_switch

SEED = int(os.environ.get("NFV_FAULTS_SEED", "1"))
FAULTS = int(os.environ.get("NFV_FAULTS", "200"))
SIZES = (64, 128, 512, 1518)
GENERATOR_ENDS = ("gen0", "gen1")
LINK_ENDS = ("dut0", "dut1", *GENERATOR_ENDS)
OWN_CODES = {Reason.SKIPPED_FRAMES, Reason.FELL_BEHIND, Reason.LATE_POLL, Reason.TESTER_DROPS}
"""Why a trial of a generator that was stopped is invalid."""
KINDS = ("none", "switch", "switch", "tester", "tester", "link")


@dataclass(frozen=True)
class Fault:
    """What goes wrong in one trial.

    Attributes:
        kind: "none", "switch" (stopped), "tester" (stopped) or "link" (down for a time).
        end: whose link goes down.
        after_s, seconds: when it begins, after the trial's start, and how long it lasts.
    """

    number: int
    kind: str
    end: str
    size: int
    after_s: float
    seconds: float

    @property
    def trial_s(self) -> float:
        return self.after_s + self.seconds + (2.0 if self.kind == "link" else 1.0)

    def run(self, rig: Rig) -> None:
        if self.kind == "switch":
            stop_switch(rig, self.after_s, self.seconds)
        elif self.kind == "tester":
            stop_tester(self.after_s, self.seconds)
        elif self.kind == "link":
            flap(self.end, self.after_s, self.seconds)


def faults() -> list[Fault]:
    chance = random.Random(SEED)
    drawn = []
    for number in range(FAULTS):
        kind = chance.choice(KINDS)
        end, size, after_s = chance.choice(LINK_ENDS), chance.choice(SIZES), chance.uniform(0.1, 0.8)
        seconds = chance.uniform(0.05, 1.0)
        if kind == "link":  # OVS looks at the links of its ports every five seconds only
            seconds = chance.uniform(0.2, 1.5) if end in GENERATOR_ENDS else chance.uniform(OVS_LINK_WATCH_S + 0.5, 7.0)
        drawn.append(Fault(number, kind, end, size, after_s, seconds))
    return drawn


def stop_tester(after_s: float, seconds: float) -> None:
    (engine,) = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm") if _is_engine(path)]
    time.sleep(after_s)
    os.kill(engine, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(engine, signal.SIGCONT)


def _is_engine(comm: Path) -> bool:
    try:
        return comm.read_text().strip() == "nfvperf-gen"
    except OSError:
        return False  # ended meanwhile


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with rig_of(lab_testbed()) as made:
        yield made


@pytest.fixture(scope="module")
def live(rig: Rig) -> LiveTopology:
    return live_on(rig)


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: f"{fault.number}-{fault.kind}")
def test_each_lost_frame_has_its_owner(rig: Rig, live: LiveTopology, fault: Fault) -> None:
    trial = run_trial(live, fault.size, fault.trial_s, meanwhile=lambda: fault.run(rig))
    check_owner(fault, trial)


def check_owner(fault: Fault, trial: Trial) -> None:
    """What the DUT lost is in the ledger once; what the rig lost makes the trial invalid."""
    result, ledger = trial.result, trial.ledger
    assert ledger is not None
    shown = (fault, result.invalid, ledger)
    codes = {reason.code for reason in result.invalid}
    if fault.kind == "link":
        whose = "the generator's port" if fault.end in GENERATOR_ENDS else "the DUT's port"
        assert any(each.code is Reason.LINK_DOWN and whose in each.detail for each in result.invalid), shown
    if fault.kind == "tester" and result.lost > 0:
        assert codes & OWN_CODES, shown
    if fault.kind == "none":
        assert result.lost == 0 or result.invalid, shown
    if fault.kind == "switch":
        explained = sum(line.frames for line in ledger.lines)
        assert explained == result.lost, shown
        assert (ledger.unaccounted, ledger.foreign, ledger.dropped((TESTER_DROPS,))) == (0, 0, 0), shown
