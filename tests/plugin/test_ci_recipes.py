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
from tests.plugin.compare_project import SUITE, sides_project
from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs/examples/ci"
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


FILES = sorted(path.name for path in RECIPES.glob("*.yml"))


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_is_of_the_form_that_its_system_asks_for(name: str) -> None:
    check_form(RECIPES / name, {"github": "github-workflows", "gitlab": "gitlab-ci"}[re.split(r"[.-]", name)[0]])


def check_form(file: Path, schema: str) -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*checker, str(file)], capture_output=True, text=True, check=False)
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


def steps_of(name: str) -> dict[str, str]:
    """The shell of each named step of a workflow."""
    (job,) = recipe(name)["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


def shell(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-e", "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def git(*words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *settings, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_an_ovs_tree_compares_the_change_with_its_merge_base(pytester: pytest.Pytester) -> None:
    """The commits of a real tree, a command that notes how it is called, and then a simulated comparison."""
    git("init", "--quiet")
    commits = []
    for number in range(4):
        if number == 2:
            git("switch", "--quiet", "--create", "change")
        git("commit", "--quiet", "--allow-empty", "--message", str(number))
        commits.append(git("rev-parse", "HEAD"))
    git("update-ref", "refs/remotes/origin/main", commits[1])
    environment, notes = pytester.path / "github-env", pytester.path / "notes"
    noting = pytester.path / ".venv/bin/nfvperf"
    noting.parent.mkdir(parents=True)
    noting.write_text(f'#!/bin/sh\necho "$*" >> {notes}\n')
    noting.chmod(0o755)
    steps = steps_of("github-ovs-tree.yml")
    assert shell(steps["Build both commits"], GITHUB_BASE_REF="main", GITHUB_ENV=str(environment)).returncode == 0
    assert notes.read_text().splitlines() == [f"ovs add git:{commits[at]} --source ." for at in (1, 3)]
    assert environment.read_text() == f"SIDES=base=git:{commits[1]} change=git:{commits[3]}\n"
    built = "\n".join(recipe("gitlab-ovs-tree.yml")["datapath comparison"]["script"][:-1])
    notes.unlink()
    assert shell(built, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main").returncode == 0
    assert notes.read_text().splitlines() == [f"ovs add git:{commits[at]} --source ." for at in (1, 3)]


def test_an_ovs_tree_fails_if_the_change_is_slower_and_shows_the_table(pytester: pytest.Pytester) -> None:
    of_64 = 'import pytest\n@pytest.mark.parametrize("size", [64])\ndef test_ndr_pdr(size, '
    sides_project(pytester, SUITE.replace("def test_ndr_pdr(", of_64))
    (pytester.path / "acceptance/suites").mkdir(parents=True)
    (pytester.path / "mine").rename(pytester.path / "acceptance/suites/throughput")
    (pytester.path / ".venv").symlink_to(Path(sys.prefix))
    steps = steps_of("github-ovs-tree.yml")
    done = shell(steps["Compare"], SIDES="base=installed slow=installed")
    assert done.returncode == 1, done.stdout + done.stderr
    assert shell(steps["Summary"], GITHUB_STEP_SUMMARY="step.md").returncode == 0
    table = (pytester.path / "step.md").read_text()
    assert table == (pytester.path / "summary.md").read_text()
    assert "| ❌ |" in table
    assert re.search(r"\| slow \| forwarding rate \|.* Mpps \| 0\.8\d+ \(.*\) \|.*\| \*\*slower\*\* \|", table), table


def test_the_action_runs_pytest_as_it_is_told_and_shows_the_result(pytester: pytest.Pytester) -> None:
    check_form(ROOT / "action.yml", "github-actions")
    project(pytester, SEARCH)
    (pytester.path / "mine/sla.yaml").write_text(SLA.format(limit=GATES["FAIL"][0]))
    (pytester.path / ".venv").symlink_to(Path(sys.prefix))
    *_, measure = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    files = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "step.md"}
    done = shell(measure["run"], ARGUMENTS="mine -k 'not nothing'", RESULTS="evidence", **files)
    assert done.returncode == 1, done.stderr
    assert (pytester.path / "output").read_text() == "status=1\n"
    assert "**FAIL**" in (pytester.path / "step.md").read_text()
    assert (pytester.path / "evidence/junit.xml").is_file()


def test_a_vendors_history_is_pushed_to_its_branch(pytester: pytest.Pytester) -> None:
    git("init", "--quiet", "--bare", "remote")
    git("clone", "--quiet", "remote", "history")
    git("-C", "history", "switch", "--quiet", "--orphan", "acceptance-history")
    git("-C", "history", "commit", "--quiet", "--allow-empty", "--message", "Begin")
    git("-C", "history", "push", "--quiet", "--set-upstream", "origin", "acceptance-history")
    adding = pytester.path / ".venv/bin/nfvperf"
    adding.parent.mkdir(parents=True)
    adding.write_text('#!/bin/sh\n[ "$1 $2" = "history add" ] && touch history/run.json || echo "$@"\n')
    adding.chmod(0o755)
    steps = steps_of("github-vendor.yml")
    kept = shell(steps["Keep the figures, also of a night that failed"], GITHUB_STEP_SUMMARY="step.md")
    assert kept.returncode == 0, kept.stderr
    assert git("-C", "remote", "ls-tree", "--name-only", "acceptance-history") == "run.json"
    assert git("-C", "remote", "log", "-1", "--format=%an %s", "acceptance-history").startswith("acceptance Add 20")
    assert (pytester.path / "step.md").read_text() == "show --markdown reports/latest\n"


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
