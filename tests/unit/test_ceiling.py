"""The rig's ceiling where something disturbs its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import ceiling_of, directions
from pytest_nfvperf.adapters.host.kept_file import KeptFile
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.runs.ceilings import CachedCeilings, Ceiling

TRUE_FPS = 14.8e6
ONE_WAY = Traffic(bidirectional=False)


@dataclass
class DisturbedRig:
    """Takes a share of what is due, in trials of these numbers."""

    disturbed: range
    left: float = 0.5
    trials: int = 0

    def run_trial(self, spec: TrialSpec) -> SimpleNamespace:
        self.trials += 1
        share = self.left if self.trials in self.disturbed else 1.0
        return SimpleNamespace(received_fps=min(spec.load_fps, TRUE_FPS) * share)


@pytest.mark.parametrize("disturbed", [range(0), range(1, 6), range(2, 7), range(2, 11), range(8, 14)])
def test_a_disturbance_of_five_trials_does_not_cap_the_ceiling(disturbed):
    rig = DisturbedRig(disturbed)
    assert ceiling_of(rig, ONE_WAY, directions(ONE_WAY)) == pytest.approx(TRUE_FPS)  # type: ignore[arg-type]
    assert rig.trials < 40


def test_no_frame_at_all_is_an_error():
    with pytest.raises(TestbedError, match="no frame came back"):
        ceiling_of(DisturbedRig(range(1000), left=0), ONE_WAY, directions(ONE_WAY))  # type: ignore[arg-type]


def test_a_ceiling_that_does_not_last_is_not_kept(tmp_path: Path) -> None:
    found = [Ceiling(3e6, lasting=False), Ceiling(9e6)]
    ceilings = CachedCeilings(
        KeptFile(tmp_path / "ceilings.json", "here"), "vhost-user", lambda _traffic, _ways: found.pop(0)
    )
    assert ceilings.measure(Traffic(), 2) == 3e6
    assert ceilings.cached(Traffic(), 2) is None
    assert ceilings.measure(Traffic(), 2) == 9e6
    assert ceilings.cached(Traffic(), 2) == 9e6
