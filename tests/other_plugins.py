"""Other people's pytest plugins beside ours: installed apart from the tests' own environment, loaded one at a time.

They come from ``[project.optional-dependencies] plugins``. None of them is loaded into this project's own runs: pytest
would find them in the environment by itself (pytest-randomly alone would shuffle every run). So they lie in a folder of
their own, which the runs in question have in PYTHONPATH.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestResult
from tests.plugin.test_mistakes import SIMULATED

ROOT = Path(__file__).parents[1]
GROUP = "plugins"
_INSTALL_DEADLINE_S = 600

OBSERVER = """
import json
import os
import pytest

TOLD = {"tests": {}, "phases": []}

@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    "What pytest is told of a test, whoever shows it."
    TOLD["phases"].append([report.nodeid, report.when, report.outcome])
    gravity = ["passed", "skipped", "failed"]
    if report.outcome not in gravity:
        TOLD["tests"].pop(report.nodeid, None)  # it is repeated
        return
    before = TOLD["tests"].get(report.nodeid, "passed")
    TOLD["tests"][report.nodeid] = max(before, report.outcome, key=gravity.index)

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    "pytest's own status, before any plugin has its say."
    if not hasattr(session.config, "workerinput"):
        TOLD["exit_status"] = int(exitstatus)
        TOLD["pid"] = os.getpid()
        (session.config.rootpath / "told.json").write_text(json.dumps(TOLD))
"""
"""Of conftest.py: writes down what pytest itself makes of the run, for the comparison with what we make of it."""

_RESULTS = {
    "passed": {TestResult.PASSED},
    "failed": {TestResult.FAILED, TestResult.INCONCLUSIVE, TestResult.BROKEN, TestResult.USAGE},
    "skipped": {TestResult.SKIPPED, TestResult.XFAIL},
}
_JUNIT = {"passed": set(), "failed": {"failure", "error"}, "skipped": {"skipped"}}


def requirements() -> list[str]:
    """The plugins, as pyproject.toml asks for them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"][GROUP])


def installed() -> Path:
    """The folder to import them from, filled when the list or this environment's pytest is another than before."""
    wanted = requirements()
    versions = {name: importlib.metadata.version(name) for name in ("pytest", "pluggy", "pytest-xdist")}
    key = hashlib.sha256(json.dumps([wanted, sys.version_info[:2], versions]).encode()).hexdigest()[:12]
    directory = default_cache_dir() / "test-plugins" / key
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").is_file():
            shutil.rmtree(directory, ignore_errors=True)
            _install(wanted, directory)
            (directory / "complete").touch()
    return _site_packages(directory)


def _site_packages(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"


def _install(wanted: list[str], directory: Path) -> None:
    """An environment on top of this one: what is here already is neither installed again nor replaced."""
    venv.create(directory, with_pip=False)
    here = Path(pytest.__file__).parents[1]
    (_site_packages(directory) / "beside.pth").write_text(f"{here}\n")
    fixed = directory / "constraints.txt"
    pairs = {(found.metadata["Name"], found.version) for found in importlib.metadata.distributions(path=[str(here)])}
    fixed.write_text("".join(f"{name}=={version}\n" for name, version in sorted(pairs) if name != "pytest-nfvperf"))
    command = [sys.executable, "-m", "pip", "--python", str(directory / "bin/python"), "install", "--quiet"]
    command += ["--disable-pip-version-check", "--constraint", str(fixed), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_DEADLINE_S, check=False)
    if done.returncode != 0:
        pytest.fail(
            "cannot install the plugins of other people that these tests load beside ours (pyproject.toml, "
            f"optional dependencies {GROUP!r}); pip needs a package index once: {done.stderr.strip()[-2000:]}",
            pytrace=False,
        )


@dataclass(slots=True)
class BothRuns:
    """A user's project, whose pytest loads other plugins beside ours."""

    pytester: pytest.Pytester
    loads: list[str] = field(default_factory=list)

    def write(self, suite: str, sla: str = "", backend: str = SIMULATED) -> None:
        """The project: a simulated DUT of 4 Mpps."""
        make_project(self.pytester, suite, CONFTEST + backend + OBSERVER)
        if sla:
            (self.pytester.path / "mine/sla.yaml").write_text(sla)

    def run(self, *arguments: str, plugins: tuple[str, ...]) -> Compared:
        """Run it with these plugins, by the names of their entry points, and no others."""
        loads = [word for name in ("nfvperf", *plugins) for word in ("-p", name)]
        result = self.pytester.runpytest_subprocess(
            *loads, "--nfv-report", "none", "--junitxml", "junit.xml", *arguments
        )
        return Compared(result, self.pytester.path)


class Compared:
    """What pytest made of a run, and what we make of it."""

    def __init__(self, result: pytest.RunResult, project: Path) -> None:
        self.result = result
        self.project = project
        assert (project / "told.json").is_file(), result.stdout.str() + result.stderr.str()
        self.pytest: dict[str, Any] = json.loads((project / "told.json").read_text())

    @property
    def evidence(self) -> RunEvidence:
        """Of the run."""
        return read_run(self.project / "reports/latest")

    @property
    def conclusion(self) -> RunConclusion:
        """Ours, of the evidence."""
        return conclude(self.evidence)

    def junit(self) -> dict[str, list[ET.Element]]:
        """Testcases by name."""
        found: dict[str, list[ET.Element]] = {}
        for case in ET.parse(self.project / "junit.xml").iter("testcase"):
            found.setdefault(str(case.get("name")), []).append(case)
        return found

    def agree(self) -> None:
        """Exit status, evidence, JUnit and summary say of each test what pytest says."""
        results = {test.node_id: test.result for test in self.conclusion.tests}
        assert set(results) == set(self.pytest["tests"])
        for node_id, outcome in self.pytest["tests"].items():
            assert results[node_id] in _RESULTS[outcome], (node_id, outcome, results[node_id])
        self._junit_agrees()
        assert self.result.ret == self.conclusion.exit_status
        assert (self.result.ret == 0) == (self.pytest["exit_status"] == 0)
        shown = self.result.stdout.str() + self.result.stderr.str()
        assert f"nfvperf: {self.conclusion.last_line}" in shown, shown
        for trial in _records(self.evidence, "trial"):
            assert trial["test"] in results, trial

    def _junit_agrees(self) -> None:
        cases = self.junit()
        for node_id, outcome in self.pytest["tests"].items():
            (case,) = cases.pop(node_id.rpartition("::")[2])
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            assert kinds <= _JUNIT[outcome], (node_id, outcome, kinds)
            assert bool(kinds) == bool(_JUNIT[outcome]), (node_id, outcome, kinds)
        assert not cases


def _records(run: RunEvidence, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted(run.path.glob("evidence*.jsonl")) for line in file.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def trials_by_test(compared: Compared) -> dict[str, int]:
    """How many trials each test has, those of all attempts."""
    counts: dict[str, int] = {}
    for trial in _records(compared.evidence, "trial"):
        counts[trial["test"]] = counts.get(trial["test"], 0) + 1
    return counts
