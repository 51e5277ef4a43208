"""Doctor measures how far this machine's CPUs are apart, and leaves a run alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.machine_checks import CheckState, distance_check
from pytest_nfvperf.adapters.process.journal import RUN_DIR_VARIABLE
from pytest_nfvperf.model.errors import GeneratorError
from tests.functional.ovs_support import needs_root
from tests.functional.test_lock import holder

pytestmark = needs_root

KNOWN = [100.0, 105.0, 110.0, 15_000.0, 15_100.0, 15_200.0]
"""A machine whose far band is so far away that every real way is near."""


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of all runs, with nothing in it."""
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    return tmp_path


def test_this_machines_cpus_are_measured_and_judged(base: Path) -> None:
    cpus = discover_testbed().cpus
    check = distance_check(None, lambda testbed: KNOWN)
    assert check.state is CheckState.OK, check
    found = re.match(rf"CPU {cpus.generator[0]} and CPU {cpus.pmd[0]} are (\d+) ns apart: near", check.seen)
    assert found is not None, check.seen
    assert 5 < int(found[1]) < 5_000
    assert "two bands: near 100 .. 110 ns, far 15000 .. 15200 ns" in check.seen
    assert [path.name for path in base.iterdir() if not path.name.endswith(".lock")] == []


def test_a_far_way_is_a_note_that_says_what_to_do(base: Path) -> None:
    check = distance_check(None, lambda testbed: [1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    assert check.state is CheckState.WARN
    assert "ns apart: far" in check.seen
    assert re.search(r"take CPU \d+ \(\d+ ns|no core of the same NUMA node is free and nearer", check.advice)


def test_while_a_run_measures_nothing_is_started_and_the_run_is_named(base: Path) -> None:
    with holder(base, "1,2") as other:
        check = distance_check(None, lambda testbed: KNOWN)
    assert (check.state, check.seen) == (CheckState.WARN, "not measured")
    assert f"is being measured by another run: pid {other.pid}, run other1" in check.advice
    assert list(base.rglob("*doctor.log")) == []


def test_without_the_generator_it_says_what_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise GeneratorError("the embedded generator is not built for this machine: run `nfvperf build`")

    monkeypatch.setattr(build, "find", missing)
    check = distance_check(None, lambda testbed: KNOWN)
    assert (check.state, check.seen) == (CheckState.WARN, "not measured")
    assert "run `nfvperf build`" in check.advice
