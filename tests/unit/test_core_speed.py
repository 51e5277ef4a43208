"""The speed of a core of its own: by this run's looks, or an earlier one's where this one saw shared cores only."""

from __future__ import annotations

from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.trial_results import FEWEST_LOOKS, CoreSpeed
from pytest_nfvperf.adapters.process.outputs import StoredValueFile

ALONE, SHARED = 1600, 2200


def after(stored: StoredValueFile | None, *looks: int) -> CoreSpeed:
    speed = CoreSpeed(stored)
    for cycles in looks:
        speed.add([cycles] * FEWEST_LOOKS)
    return speed


def test_a_run_on_shared_cores_only_knows_of_earlier_runs_what_a_core_of_its_own_does(tmp_path: Path) -> None:
    stored = StoredValueFile(tmp_path / "core-speeds.json", "this machine")
    after(stored, ALONE, SHARED).keep()
    assert after(stored).cycles == ALONE
    shared = after(stored, SHARED)
    assert shared.cycles == ALONE
    shared.keep()
    assert after(stored).cycles == ALONE, "what it saw teaches later runs nothing"
    assert after(StoredValueFile(tmp_path / "core-speeds.json", "another machine"), SHARED).cycles == SHARED


def test_what_a_run_saw_itself_counts_where_it_is_as_fast_or_faster(tmp_path: Path) -> None:
    stored = StoredValueFile(tmp_path / "core-speeds.json", "this machine")
    after(stored, SHARED).keep()
    for cycles in (ALONE, 1610):
        found = after(stored, cycles)
        assert found.cycles == cycles
        found.keep()
        assert stored.read() == cycles


def test_a_few_looks_are_not_kept(tmp_path: Path) -> None:
    stored = StoredValueFile(tmp_path / "core-speeds.json", "this machine")
    speed = CoreSpeed(stored)
    speed.add([SHARED] * (FEWEST_LOOKS - 1))
    speed.keep()
    assert stored.read() is None
    assert after(None, SHARED).cycles == SHARED


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "core-speeds.json"
    path.write_text('{"this machine": "fast"}')
    assert after(StoredValueFile(path, "this machine")).cycles == 0
