"""The recipes for CI systems: their form, and what their shell parts do, run with simulated measurements."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_nfvperf.adapters.host import setup
from pytest_nfvperf.cli.first_project import CI_FILES
from tests.plugin.compare_project import SUITE, sides_project
from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

pytestmark = pytest.mark.thorough("what the recipes do takes minutes; whoever changes docs/examples/ci runs this file")
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


def shell_of_zuul() -> list[str]:
    (play,) = yaml.safe_load((RECIPES / "zuul-gate.yaml").read_text())
    return [text.removeprefix("set -e\n") for text in zuul_tasks(play["tasks"])]


SHELLS = {"github": shell_of_github, "gitlab": shell_of_gitlab, "jenkins": shell_of_jenkins, "zuul": shell_of_zuul}


FILES = sorted(path.name for path in RECIPES.glob("*.yml"))


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_is_of_the_form_that_its_system_asks_for(name: str) -> None:
    check_form(RECIPES / name, {"github": "github-workflows", "gitlab": "gitlab-ci"}[re.split(r"[.-]", name)[0]])


def check_form(file: Path, schema: str) -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*checker, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("system", "badge"), [("github", "FAIL"), ("gitlab", "INCONCLUSIVE"), ("jenkins", "PASS"), ("zuul", "FAIL")]
)
def test_a_gate_ends_with_the_runs_status_and_tells_why(system: str, badge: str, pytester: pytest.Pytester) -> None:
    """The steps for measuring and telling, by the shell that runs them there."""
    limit, status = GATES[badge]
    project(pytester, SEARCH)
    (pytester.path / "mine").rename(pytester.path / "suites")
    (pytester.path / "suites/sla.yaml").write_text(SLA.format(limit=limit))
    (pytester.path / ".venv").symlink_to(Path(sys.prefix))
    _, measure, tell = SHELLS[system]()
    environment = {**os.environ, "PROFILE": "quick", "GITHUB_STEP_SUMMARY": "summary.md", "OUTPUT": "out"}
    steps = [subprocess.run(["bash", "-e", "-c", text], check=False, env=environment) for text in (measure, tell)]
    assert [step.returncode for step in steps] == [status, 0]
    assert f"**{badge}**" in (pytester.path / "summary.md").read_text()
    assert (pytester.path / "junit.xml").is_file()
    assert (pytester.path / "reports/latest/report.html").is_file()
    assert (pytester.path / "out/reports/latest/report.html").is_file() == (system == "zuul")


def steps_of(name: str) -> dict[str, str]:
    """The shell of each named step of a workflow."""
    steps = [step for job in recipe(name)["jobs"].values() for step in job["steps"]]
    return {step["name"]: step["run"] for step in steps if "run" in step}


def shell(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-e", "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def git(*words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *settings, *words], capture_output=True, text=True, check=True).stdout.strip()


def github_blocks(case: str) -> list[str]:
    return list(steps_of(f"github-{case}.yml").values())


def gitlab_blocks(case: str) -> list[str]:
    found = recipe(f"gitlab-{case}.yml")
    jobs = [job for job in found.values() if isinstance(job, dict) and "script" in job]
    blocks = []
    for written in jobs:
        job = {**found.get(written.get("extends"), {}), **written}
        blocks += ["\n".join([*job["before_script"], *job["script"]]), "\n".join(job.get("after_script", []))]
    return blocks


def jenkins_blocks(case: str) -> list[str]:
    return re.findall(r"'''(.*?)'''", (RECIPES / f"Jenkinsfile-{case}").read_text(), re.DOTALL)


def zuul_tasks(tasks: list[dict[str, Any]]) -> Iterator[str]:
    for task in tasks:
        if "block" in task:
            yield from zuul_tasks([*task["block"], *task["always"]])
        else:
            yield task["ansible.builtin.shell"]


def zuul_blocks(case: str) -> list[str]:
    names = ("ovs-tree",) if case == "ovs-tree" else ("set-up", case, "results")
    plays = [yaml.safe_load((RECIPES / f"zuul-{name}.yaml").read_text()) for name in names]
    return [text for (play,) in plays for text in zuul_tasks(play["tasks"])]


BLOCKS = {"github": github_blocks, "gitlab": gitlab_blocks, "jenkins": jenkins_blocks, "zuul": zuul_blocks}
RUN_BY = {"github": "bash -e -c", "gitlab": "bash -e -o pipefail -c", "jenkins": "sh -xe -c", "zuul": "/bin/bash -c"}
CASES = ("ovs-tree", "vendor", "lab")
ZUUL_GATE = {name for name in CI_FILES["suites"]["zuul"] if name.startswith("playbooks/")}
ZUUL_CASES = {
    f"playbooks/{path.name}"
    for path in RECIPES.glob("zuul-*.yaml")
    if not path.name.startswith(("zuul-gate", "zuul-ovs-tree"))
}
TOOL = """#!/bin/sh
echo "${0##*/} $*" >> notes
case "$*" in
    "history add"*) touch history/run.json ;;
    "$FAILS"*) exit 1 ;;
esac
mkdir -p reports/latest
"""
"""Stands in for Python and what it would install: notes how it is called, and fails if it is told to."""


def a_tree(root: Path) -> list[str]:
    """Make a tree with a change, and with a remote that has a history; return its base and its change."""
    git("init", "--quiet")
    commits = []
    for number in range(4):
        if number == 2:
            git("switch", "--quiet", "--create", "change")
        git("commit", "--quiet", "--allow-empty", "--message", str(number))
        commits.append(git("rev-parse", "HEAD"))
    git("remote", "add", "origin", ".")
    git("update-ref", "refs/remotes/origin/main", commits[1])
    git("init", "--quiet", "--bare", "remote")
    git("clone", "--quiet", "remote", "history")
    git("-C", "history", "switch", "--quiet", "--orphan", "acceptance-history")
    git("-C", "history", "commit", "--quiet", "--allow-empty", "--message", "Begin")
    git("-C", "history", "push", "--quiet", "--set-upstream", "origin", "acceptance-history")
    for name in ("bin/python3", "bin/gh", *(f".venv/bin/{tool}" for tool in ("python", "pip", "nfvperf", "pytest"))):
        tool = root / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(TOOL)
        tool.chmod(0o755)
    return [commits[1], commits[3]]


def run_recipe(root: Path, system: str, case: str, fails: str = "nothing") -> tuple[list[int], list[str]]:
    """Run the shell of a recipe as its system does; return each block's status, and what was called, each once."""
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "FAILS": fails}
    environment |= {"GITHUB_ENV": "env", "GITHUB_STEP_SUMMARY": "step.md", "GITHUB_BASE_REF": "main"}
    environment |= {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CHANGE_TARGET": "main"}
    environment |= {"NFVPERF_WHEELS": "/the/wheels", "COMMENTS": "comments", "COMMENT": "comment"}
    environment |= {"BRANCH": "main", "UPSTREAM": ".", "GIT_URL": "remote", "HISTORY_URL": "remote", "OUTPUT": "out"}
    environment |= {"TESTBED": "" if case == "ovs-tree" else "lab.yaml", "SLA": "sla.yaml", "NAME": "cx6"}
    (root / "env").touch()
    statuses = []
    for block in BLOCKS[system](case):
        environment |= dict(line.split("=", 1) for line in (root / "env").read_text().splitlines())
        command = [*RUN_BY[system].split(), block]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        statuses.append(done.returncode)
    calls = (root / "notes").read_text().replace("from-nfvperf", "acceptance").replace(",history]", "]")
    calls = "\n".join(line for line in calls.splitlines() if not line.startswith("gh "))
    return statuses, list(dict.fromkeys(calls.splitlines()))


SUITES, RATES = "acceptance/suites", "acceptance/suites/throughput"
LAB, KEEPS = "--nfv-testbed lab.yaml", "--nfv-results reports"
MEASURES = {
    "ovs-tree": (
        "nfvperf ovs add git:{base} --source .",
        "nfvperf ovs add git:{change} --source .",
        f"nfvperf compare base=git:{{base}} change=git:{{change}} -- {RATES} -k test_ndr_pdr and 64 {KEEPS}",
        "nfvperf ovs remove git:*",
    ),
    "vendor": (
        f"pytest {SUITES}/nic {RATES} {LAB} --nfv-sla sla.yaml --nfv-profile gate {KEEPS} --junitxml junit.xml",
        "nfvperf history add reports/latest --history history",
        "nfvperf history check --history history --metric forwarding_rate",
        f"pytest {SUITES}/endurance {LAB} --nfv-soak-duration 4 h {KEEPS}",
    ),
    "lab": (f"pytest {SUITES} {LAB} {KEEPS} --junitxml junit.xml",),
}
DOCTOR = {"ovs-tree": "nfvperf doctor", "vendor": "nfvperf doctor --testbed lab.yaml"}
SETS_UP = (
    "python3 -m venv .venv",
    "pip install --quiet --find-links /the/wheels pytest-nfvperf[charts,xdist]",
    f"python -m {setup.__spec__.name}",
    "nfvperf build",
    "nfvperf suites --copy acceptance",
    "nfvperf show --markdown reports/latest",
)


@pytest.mark.parametrize("system", list(BLOCKS))
@pytest.mark.parametrize("case", CASES)
def test_a_recipe_measures_the_same_on_each_system(system: str, case: str, pytester: pytest.Pytester) -> None:
    """The commits, the history and its branch are real; what measures notes how it is called."""
    base, change = a_tree(pytester.path)
    statuses, calls = run_recipe(pytester.path, system, case)
    assert set(statuses) == {0}
    calls = [call.removesuffix(" --junitxml junit.xml") for call in calls] if case == "ovs-tree" else calls
    expected = [call.format(base=base, change=change) for call in MEASURES[case]]
    assert [call for call in calls if call in expected] == expected
    assert sorted(set(calls) - set(expected)) == sorted({*SETS_UP, DOCTOR.get(case, DOCTOR["vendor"])})
    if case == "vendor":
        assert git("-C", "remote", "ls-tree", "--name-only", "acceptance-history") == "run.json"
        added = git("-C", "remote", "log", "-1", "--format=%an %s", "acceptance-history")
        assert added.startswith("acceptance Add 20")
    if system == "zuul":
        assert sorted(path.name for path in Path("out").iterdir()) == ["reports", "summary.md"]


@pytest.mark.parametrize("system", list(BLOCKS))
@pytest.mark.parametrize(("case", "fails"), [("ovs-tree", "compare "), ("vendor", "history check"), ("lab", "doctor")])
def test_a_recipe_fails_where_a_step_of_it_fails(system: str, case: str, fails: str, pytester: pytest.Pytester) -> None:
    """A change that is slower, a figure that became worse, a machine that is not ready. Builds go all the same."""
    a_tree(pytester.path)
    statuses, calls = run_recipe(pytester.path, system, case, fails)
    assert sorted(statuses) == [0] * (len(statuses) - 1) + [1]
    assert ("nfvperf ovs remove git:*" in calls) == (case == "ovs-tree")


@pytest.mark.parametrize(
    ("file", "playbooks"),
    [("zuul.yaml", ZUUL_CASES), ("zuul-gate-jobs.yaml", ZUUL_GATE), ("zuul-ovs-tree-jobs.yaml", ZUUL_GATE)],
)
def test_zuul_has_a_job_for_each_playbook(file: str, playbooks: set[str]) -> None:
    listed = yaml.safe_load((RECIPES / file).read_text())
    jobs = {each["job"]["name"]: each["job"] for each in listed if "job" in each}
    named = [job[key] for job in jobs.values() for key in ("pre-run", "run", "post-run") if key in job]
    assert playbooks == set(named)
    (project_jobs,) = [each["project"] for each in listed if "project" in each]
    assert {name for pipeline in project_jobs.values() for name in pipeline["jobs"]} == {
        name for name in jobs if not jobs[name].get("abstract")
    }


def test_an_ovs_tree_fails_if_the_change_is_slower_and_shows_the_table(pytester: pytest.Pytester) -> None:
    of_64 = 'import pytest\n@pytest.mark.parametrize("size", [64])\ndef test_ndr_pdr(size, '
    sides_project(pytester, SUITE.replace("def test_ndr_pdr(", of_64))
    (pytester.path / "acceptance/suites").mkdir(parents=True)
    (pytester.path / "mine").rename(pytester.path / "acceptance/suites/throughput")
    (pytester.path / ".venv").symlink_to(Path(sys.prefix))
    steps = steps_of("github-ovs-tree.yml")
    *_, compare = steps["Build both commits, and compare"].splitlines()
    done = shell(re.sub(r'"base=\S+" "change=\S+"', "base=installed slow=installed", compare))
    assert done.returncode == 1, done.stdout + done.stderr
    assert shell(steps["Summary"], GITHUB_STEP_SUMMARY="step.md").returncode == 0
    table = (pytester.path / "step.md").read_text()
    assert table == (pytester.path / "summary.md").read_text()
    assert "| ❌ |" in table
    assert re.search(r"\| slow \| forwarding rate \|.* Mpps \| 0\.8\d+ \(.*\) \|.*\| \*\*slower\*\* \|", table), table


GH = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys

place, words = pathlib.Path("comments.json"), sys.argv[2:]
there = json.loads(place.read_text())
paths = [word for word in words if word.startswith("repos/")]
bodies = [word.removeprefix("body=@") for word in words if word.startswith("body=@")]
if "--jq" in words:
    jq = ["jq", "--raw-output", words[words.index("--jq") + 1]]
    print(subprocess.run(jq, input=place.read_text(), capture_output=True, text=True, check=True).stdout, end="")
elif "--method" in words:
    (edited,) = [each for each in there if paths == [f"repos/o/ovs/issues/comments/{each['id']}"]]
    edited["body"] = pathlib.Path(*bodies).read_text()
else:
    assert paths == ["repos/o/ovs/issues/7/comments"]
    text = pathlib.Path(*bodies).read_text()
    there.append({"id": 100 + len(there), "user": {"type": "Bot"}, "body": text})
place.write_text(json.dumps(there))
"""
"""Stands in for GitHub's command line and the comments of one pull request."""


def test_a_pull_request_has_one_comment_which_each_push_edits(pytester: pytest.Pytester) -> None:
    """Steps: two pushes, among comments of a person who quotes ours and of another workflow."""
    others = [
        {"id": 1, "user": {"type": "User"}, "body": "<!-- datapath comparison -->\nquoted"},
        {"id": 2, "user": {"type": "Bot"}, "body": "of another workflow"},
    ]
    comments = pytester.path / "comments.json"
    comments.write_text(json.dumps(others))
    gh = pytester.path / "bin/gh"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    step = recipe("github-ovs-tree.yml")["jobs"]["comment"]["steps"][-1]
    names = {"github.repository": "o/ovs", "github.event.number": "7", "github.token": "t"}
    environment = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: names[found[1]], text) for name, text in step["env"].items()
    }
    for summary in ("slower", "same"):
        (pytester.path / "summary.md").write_text(f"{summary}\n")
        done = shell(step["run"], PATH=f"{gh.parent}:{os.environ['PATH']}", **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        *left, ours = json.loads(comments.read_text())
        assert left == others
        assert ours["body"] == f"<!-- datapath comparison -->\n{summary}\n"


def test_no_code_of_a_pull_request_meets_a_token_that_may_write() -> None:
    workflow = recipe("github-ovs-tree.yml")
    compare, comment = workflow["jobs"]["compare"], workflow["jobs"]["comment"]
    assert (workflow["permissions"], compare.get("permissions")) == ({"contents": "read"}, None)
    assert compare["steps"][0]["with"]["persist-credentials"] is False
    assert comment["permissions"] == {"pull-requests": "write"}
    assert "self-hosted" not in comment["runs-on"]
    assert [step for step in comment["steps"] if "checkout" in step.get("uses", "")] == []


PLAYBOOKS = [f"zuul-{name}.yaml" for name in ("gate", "lab", "ovs-tree", "results", "set-up", "vendor")]
NIGHTLY = [*PLAYBOOKS, "Containerfile", "github-vendor.yml", "gitlab-vendor.yml", "Jenkinsfile-vendor"]
"""Recipes that run no proposed change by themselves."""
OWN_BRANCHES = {
    "github": "github.event.pull_request.head.repo.full_name == github.repository",
    "gitlab": "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID",
}


@pytest.mark.parametrize("name", sorted({path.name for path in RECIPES.iterdir()} - set(NIGHTLY)))
def test_a_recipe_that_runs_proposed_changes_says_for_whom_that_is_safe(name: str) -> None:
    text = (RECIPES / name).read_text()
    assert re.search(
        r"^(#|//) (For whom: |.*for whom that is safe, see docs/tutorial/a-ci-gate\.md)", text, re.MULTILINE
    )
    system = re.split(r"[.-]", name)[0]
    assert system not in OWN_BRANCHES or OWN_BRANCHES[system] in text, "forks are left out"


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


def test_all_set_up_alike_and_with_what_there_is() -> None:
    steps = {name: _lines(shell()[0]) for name, shell in SHELLS.items()}
    assert steps["github"] == steps["gitlab"] == steps["jenkins"] == steps["zuul"]
    modules = {module for line in steps["github"] for module in re.findall(r"-m (pytest_nfvperf\S+)", line)}
    assert modules == {setup.__spec__.name}


def test_the_image_is_made_by_the_same_steps() -> None:
    image = (RECIPES / "Containerfile").read_text().replace("/opt/nfvperf/bin", ".venv/bin")
    for step in _lines(shell_of_github()[0])[1:-1]:
        assert f"RUN {step}" in image
    assert "python3 -m venv" in image


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
