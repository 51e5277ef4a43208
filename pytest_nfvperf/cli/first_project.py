"""Projects that ``nfvperf init``, ``nfvperf demo`` and ``nfvperf suites`` write; docs/examples has their files."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine import machine_checks
from pytest_nfvperf.adapters.machine.machine_checks import CheckState
from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.display import how_many, listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError

_PACKAGE = Path(pytest_nfvperf.__file__).parent
_EXAMPLES = _PACKAGE / "docs" / "examples"
CI_FILES = {
    "suites": {
        "github": {".github/workflows/datapath.yml": "github.yml"},
        "gitlab": {".gitlab-ci.yml": "gitlab-ci.yml"},
        "jenkins": {"Jenkinsfile": "Jenkinsfile"},
        "zuul": {".zuul.yaml": "zuul-gate-jobs.yaml", "playbooks/datapath.yaml": "zuul-gate.yaml"},
    },
    "ovs-tree": {
        "github": {".github/workflows/datapath.yml": "github-ovs-tree.yml"},
        "gitlab": {".gitlab-ci.yml": "gitlab-ovs-tree.yml"},
        "jenkins": {"Jenkinsfile": "Jenkinsfile-ovs-tree"},
        "zuul": {".zuul.yaml": "zuul-ovs-tree-jobs.yaml", "playbooks/datapath.yaml": "zuul-ovs-tree.yaml"},
    },
}
"""By what the gate is for, and by system: each file where the system looks for it, and its recipe in the documents."""
_EXTRA_DIST = "\nEXTRA_DIST = \\\n"
_TESTBED = "testbed.yaml"
_IGNORED = ".venv/\n__pycache__/\n.pytest_cache/\nreports/\njunit.xml\n"
_HEAD = """# testbed
# This machine as `nfvperf init` found it: a private Open vSwitch, and the embedded generator on its two ports.
# On another machine delete the file and its line in pytest.ini: without a file nfvperf looks at the machine itself.
"""


def write_project(target: Path, ci: str = "github") -> str:
    """Write the files of a project that passes at once, and say what to do next.

    A machine that cannot measure yet gets no testbed file, because it would describe a machine that is not set up.

    Args:
        target: the directory. Files of other names may be in it.
        ci: a system of ``CI_FILES``.

    Raises:
        ConfigError: a file exists already, or the directory cannot be written. Nothing was written in the first case.
    """
    testbed, missing = _testbed_of_this_machine()
    files = {**example("first"), **_recipes("suites", ci), ".gitignore": _IGNORED}
    if testbed:
        files |= {"pytest.ini": f"{files['pytest.ini']}nfv_testbed = {_TESTBED}\n", _TESTBED: testbed}
    lines = [write_files(target, files)]
    lines.append("The gate tests the OVS that its runner has installed. For a tree of OVS: init --for ovs-tree")
    if missing:
        lines += ["This machine cannot measure yet:", *(f"  {line}" for line in missing)]
        lines.append("set it up: python -m pytest_nfvperf.adapters.host.setup && nfvperf build")
    enter = "" if target.resolve() == Path.cwd() else f"cd {target} && "
    return "\n".join([*lines, f"run: {enter}pytest{' --nfv-plan' if missing else ''}"])


def write_ovs_gate(target: Path, ci: str) -> str:
    """Write the CI files of a gate that compares each change of an Open vSwitch tree with what it is based on.

    Raises:
        ConfigError: no tree of Open vSwitch; or as of ``write_project``.
    """
    if not (target / "vswitchd/ovs-vswitchd.c").is_file():
        raise ConfigError(f"{target} is no tree of Open vSwitch: it has no vswitchd/ovs-vswitchd.c")
    recipes = _recipes("ovs-tree", ci)
    written = write_files(target, recipes)
    makefile = target / "Makefile.am"
    text = makefile.read_text(encoding="utf-8") if makefile.is_file() else ""
    if _EXTRA_DIST in text:  # make of Open vSwitch fails if a file is in git and not in the distribution
        ours = "".join(f"\t{name} \\\n" for name in recipes)
        makefile.write_text(text.replace(_EXTRA_DIST, _EXTRA_DIST + ours, 1), encoding="utf-8")
        written += ", and their names to EXTRA_DIST of Makefile.am"
    return (
        f"{written}\nThe gate builds and runs the code of each change as root, on the runner.\n"
        f"Read in {next(iter(recipes))} for whom that is safe, and what the runner needs."
    )


def write_files(target: Path, files: Mapping[str, str]) -> str:
    """Returns what was written, for a person; ConfigError as of ``write_project``."""
    _refuse_to_replace(target, files)
    try:
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the project to {target}: {error}") from error
    return f"wrote to {target}: {listed(files)}"


def _refuse_to_replace(target: Path, names: Iterable[str]) -> None:
    there = [name for name in names if os.path.lexists(target / name)]
    if there:
        raise ConfigError(f"{target} has {listed(there)} already, and nothing is replaced: choose another directory")


def _testbed_of_this_machine() -> tuple[str, list[str]]:
    """The testbed file, "" if this machine cannot measure yet; and a line for each thing that it lacks."""
    try:
        testbed = discover_testbed()
    except TestbedError as error:
        return "", [str(error)]
    missing = [
        f"{check.name}: {check.seen}{f'; {check.advice}' if check.advice else ''}"
        for check in machine_checks.checks(testbed)
        if check.needed and check.state is CheckState.MISSING
    ]
    return "" if missing else _HEAD + yaml_of_testbed(testbed), missing


def example(name: str) -> dict[str, str]:
    """The files of an example, as they are in a project."""
    folder = _EXAMPLES / "projects" / name
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def _recipes(purpose: str, ci: str) -> Mapping[str, str]:
    files = CI_FILES[purpose][ci].items()
    return {name: (_EXAMPLES / "ci" / recipe).read_text(encoding="utf-8") for name, recipe in files}


def list_suites(package: Path = _PACKAGE) -> str:
    folder = package / "suites"
    lines = []
    for suite in sorted(path for path in folder.iterdir() if (path / "sla.yaml").is_file()):
        trees = [ast.parse(file.read_text(encoding="utf-8")) for file in suite.glob("test_*.py")]
        functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
        tests = how_many(sum(function.name.startswith("test_") for function in functions), "test")
        lines.append(f"{suite.name:<12} {', '.join([tests, *(file.name for file in sorted(suite.glob('*.yaml')))])}")
    return "\n".join(
        [
            f"The suites that came with nfvperf are in {folder}:",
            *(f"  {line}" for line in lines),
            "To run and change them, copy them with their SLAs, published figures and documents:",
            "  nfvperf suites --copy acceptance && cd acceptance && pytest suites/ --nfv-profile smoke",
        ]
    )


def copy_suites(target: Path) -> str:
    """Copy suites and documents, with the two files that pytest needs.

    Raises:
        ConfigError: a file exists already, or the directory cannot be written.
    """
    files = example("copied")
    folders = {name: _PACKAGE / name for name in ("suites", "docs")}
    _refuse_to_replace(target, (*folders, *files))
    try:
        for name, source in folders.items():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "projects"))
    except OSError as error:
        raise ConfigError(f"cannot copy the suites to {target}: {error}") from error
    write_files(target, files)
    return (
        f"copied to {target}: suites/ with an sla.yaml in each, docs/, conftest.py and pytest.ini\n"
        f"run: cd {target} && pytest suites/ --nfv-profile smoke"
    )
