"""The recipes for CI systems: their form, and what their shell parts do, run with simulated measurements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_nfvperf.adapters.host import setup
from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

RECIPES = Path(__file__).parents[2] / "docs/examples/ci"
SLA = "schema: 1\nrules:\n  - require: {{pdr: '{limit}'}}\n"
GATES = {"PASS": (">= 3.5 Mpps", 0), "FAIL": (">= 4.5 Mpps", 1), "INCONCLUSIVE": (">= 97 % of baseline", 10)}


def shell_of_jenkins() -> list[str]:
    return re.findall(r"'''(.*?)'''", (RECIPES / "Jenkinsfile").read_text(), re.DOTALL)


def shell_of_github() -> list[str]:
    (job,) = recipe("github.yml")["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def shell_of_gitlab() -> list[str]:
    job = recipe("gitlab-ci.yml")["datapath"]
    return ["\n".join(job[part]) for part in ("before_script", "script", "after_script")]


def recipe(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((RECIPES / name).read_text()))


SHELLS = {"github": shell_of_github, "gitlab": shell_of_gitlab, "jenkins": shell_of_jenkins}


@pytest.mark.parametrize(("name", "schema"), [("github.yml", "github-workflows"), ("gitlab-ci.yml", "gitlab-ci")])
def test_a_recipe_is_of_the_form_that_its_system_asks_for(name: str, schema: str) -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*checker, str(RECIPES / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("system", "badge"), [("github", "FAIL"), ("gitlab", "INCONCLUSIVE"), ("jenkins", "PASS")])
def test_a_gate_ends_with_the_runs_status_and_tells_why(system: str, badge: str, pytester: pytest.Pytester) -> None:
    """The steps for measuring and telling, by the shell that runs them there."""
    limit, status = GATES[badge]
    project(pytester, SEARCH)
    (pytester.path / "mine").rename(pytester.path / "suites")
    (pytester.path / "suites/sla.yaml").write_text(SLA.format(limit=limit))
    (pytester.path / ".venv").symlink_to(Path(sys.prefix))
    _, measure, tell = SHELLS[system]()
    environment = {**os.environ, "PROFILE": "quick", "GITHUB_STEP_SUMMARY": "summary.md"}
    steps = [subprocess.run(["bash", "-e", "-c", text], check=False, env=environment) for text in (measure, tell)]
    assert [step.returncode for step in steps] == [status, 0]
    assert f"**{badge}**" in (pytester.path / "summary.md").read_text()
    assert (pytester.path / "junit.xml").is_file()
    assert (pytester.path / "reports/latest/report.html").is_file()


def test_all_set_up_alike_and_with_what_there_is() -> None:
    steps = {name: _lines(shell()[0]) for name, shell in SHELLS.items()}
    assert steps["github"] == steps["gitlab"] == steps["jenkins"]
    modules = {module for line in steps["github"] for module in re.findall(r"-m (pytest_nfvperf\S+)", line)}
    assert modules == {setup.__spec__.name}


def test_the_image_is_made_by_the_same_steps() -> None:
    image = (RECIPES / "Containerfile").read_text().replace("/opt/nfvperf/bin", ".venv/bin")
    for step in _lines(shell_of_github()[0])[1:-1]:
        assert f"RUN {step}" in image
    assert "python3 -m venv" in image


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
