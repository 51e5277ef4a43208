"""Faults that ``python -m benchmarks mutations`` plants: which are made of a source, and which of them are chosen."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from coverage import CoverageData

from benchmarks.mutants import AREAS, COUNT, Fault, chosen, faults_of
from tests.contexts import OUTCOMES, VARIABLE, without_context

PACKAGE = Path(__file__).parents[2] / "pytest_nfvperf"
SOURCE = '''
LIMIT = 3

class Thing:
    def __str__(self):
        return "ü" if self.big else "small"

    def check(self, given: "int" = 7):
        """At most 3."""
        if given > LIMIT and not self.big:
            raise ValueError(f"{given + 1} is above 3")
        return [each - 1 for each in self.parts if each]
'''


def planted(kind: str) -> list[str]:
    """The function's lines that differ with each fault of this kind."""
    source = SOURCE.encode()
    before = SOURCE.splitlines()
    faults = [fault for fault in faults_of("area", "thing.py", source) if fault.kind == kind]
    changed = [fault.planted(source).decode().splitlines() for fault in faults]
    return [line.strip() for lines in changed for line, old in zip(lines, before, strict=True) if line != old]


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("check left out", ["if False:"]),
        ("condition inverted", ["if (not (given > LIMIT and not self.big)):"]),
        ("and for or", ["if ((given > LIMIT) or (not self.big)):"]),
        ("bound moved", ["if (given >= LIMIT) and not self.big:"]),
        ("filter left out", ["return [each - 1 for each in self.parts if True]"]),
        ("sign changed", ["return [(each + (1)) for each in self.parts if each]"]),
        ("off by one", ["return [each - 2 for each in self.parts if each]"]),
    ],
)
def test_a_slip_changes_what_it_says(kind: str, lines: list[str]) -> None:
    assert planted(kind) == lines


def test_texts_and_constants_of_modules_are_left_alone() -> None:
    assert {fault.function for fault in faults_of("area", "thing.py", SOURCE.encode())} == {"Thing.check"}
    assert not any("3" in fault.old for fault in faults_of("area", "thing.py", SOURCE.encode()))


@pytest.fixture(scope="module")
def faults() -> list[Fault]:
    return chosen(PACKAGE)


def test_the_same_faults_are_chosen_evenly_each_time(faults: list[Fault]) -> None:
    assert chosen(PACKAGE) == faults
    assert len({fault.key for fault in faults}) == COUNT
    by_area = Counter(fault.area for fault in faults)
    assert by_area.keys() == AREAS.keys()
    assert max(by_area.values()) - min(by_area.values()) <= 1
    assert len({fault.kind for fault in faults}) >= 6


def test_each_is_a_change_of_the_source_that_can_be_compiled(faults: list[Fault]) -> None:
    for fault in faults:
        source = (PACKAGE / fault.file).read_bytes()
        assert ast.dump(ast.parse(fault.planted(source))) != ast.dump(ast.parse(source)), fault


def test_what_tests_start_knows_which_test_it_is_for(tmp_path: Path) -> None:
    """Steps: two tests with a fixture of the file, each starts a Python. Verify: names and outcomes are noted."""
    (tmp_path / "conftest.py").write_text(
        "from tests.contexts import register_plugins\n\ndef pytest_configure(config):\n    register_plugins(config)\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys\n"
        "import pytest\n\n"
        f"CODE = 'import os; print(os.environ[\"{VARIABLE}\"])'\n\n"
        "def told():\n"
        "    return subprocess.check_output([sys.executable, '-S', '-c', CODE], text=True).strip()\n\n"
        "@pytest.fixture(scope='module')\n"
        "def shared():\n"
        "    return told()\n\n"
        "def test_one(shared):\n"
        "    assert (shared, told()) == ('test_it.py', 'test_it.py::test_one')\n\n"
        "def test_two(shared):\n"
        f"    assert '{OUTCOMES}' not in os.environ\n"
        "    assert told() == 'nothing'\n"
    )
    config = tmp_path / "coveragerc"
    config.write_text(f"[run]\nparallel = true\ndata_file = {tmp_path}/data/coverage\ncontext = ${{{VARIABLE}-}}\n")
    (tmp_path / "data").mkdir()
    env = without_context(os.environ) | {
        "COVERAGE_PROCESS_START": str(config),
        OUTCOMES: str(tmp_path / "outcomes"),
        "PYTHONPATH": str(PACKAGE.parent),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:nfvperf", "-p", "no:xdist", "--rootdir", "."]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "assert 'test_it.py::test_two' == 'nothing'" in ran.stdout, ran.stdout + ran.stderr
    outcomes = json.loads((tmp_path / "outcomes").read_text())
    assert {name: passed for name, (_, passed) in outcomes.items()} == {
        "test_it.py::test_one": True,
        "test_it.py::test_two": False,
    }
    seen = CoverageData(str(tmp_path / "data/coverage"))
    for file in (tmp_path / "data").iterdir():
        part = CoverageData(str(file))
        part.read()
        seen.update(part)
    assert {"test_it.py", "test_it.py::test_one", "test_it.py::test_two"} <= seen.measured_contexts()
