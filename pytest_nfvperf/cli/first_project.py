"""Projects that ``nfvperf init``, ``nfvperf demo`` and ``nfvperf suites`` write."""

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
_RECIPES = _PACKAGE / "docs" / "examples" / "ci"
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
_INI = """[pytest]
testpaths = suites
addopts = -ra
{testbed}"""
_SUITE = '''"""A first suite: how much goes through one bridge, and what is lost at a load that it must carry."""

from pytest_nfvperf import Traffic, sweep


@sweep("frame_size", [64, 1518], quick={64})
def test_throughput(frame_size, phy2phy, search, sla):
    """Search the highest load without loss (NDR) and with at most 0.5 % of it (PDR); judge by sla.yaml."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))


def test_fixed_load(phy2phy, search, sla):
    """Send 50,000 frames a second in each direction for two seconds; judge by sla.yaml."""
    # phy2phy.deployment.built.ovs("ofctl", "add-flow", "br0", "in_port=p0,actions=drop")  # a fault, to see it fail
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 50e3, 2.0))
'''
_SLA = """# What the suite must reach: modest, so that any machine of two cores passes. State your own limits.
schema: 1
rules:
  - where: {test: test_throughput}
    require:
      pdr: ">= 0.1 Mpps"
  - where: {test: test_fixed_load}
    require:
      loss_ratio: {at: 50 kpps, limit: "<= 0.1 %"}
"""
CONFTEST = '''"""The fixtures that the suites use."""

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
'''
_DEMO_CONFTEST = '''"""The fixtures that the suites use, and a simulated DUT: no packet is sent."""

import pytest

from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
simulated = FakeGenerator(capacity_fps=4e6, noise=0.003)


def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: simulated)


@pytest.fixture
def busy_machine():
    """Other programs take the generator's CPU: it sends every tenth frame of a trial too late to count."""
    simulated.invalid_every = 1
    yield
    simulated.invalid_every = None
'''
_DEMO_SUITE = '''"""Three tests of a simulated DUT that forwards 4 Mpps per direction: one of each verdict."""

from pytest_nfvperf import Traffic


def test_throughput(phy2phy, search, sla):
    """Search the highest load without loss (NDR) and with at most 0.5 % of it (PDR): the SLA asks for less."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64), latency=True))


def test_promised_rate(phy2phy, search, sla):
    """The same search, where the SLA asks for more than the DUT forwards."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))


def test_busy_machine(busy_machine, phy2phy, search, sla):
    """A fixed load from a generator that is disturbed: whatever is lost says nothing about the DUT."""
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 50e3, 2.0))
'''
_DEMO_SLA = """# What the simulated DUT must reach. Change a limit, and run pytest again.
schema: 1
rules:
  - where: {test: test_throughput}
    require:
      ndr: ">= 3 Mpps"
      latency_p99: {at: 50 % of pdr, limit: "<= 100 us"}
  - where: {test: test_promised_rate}
    require:
      ndr: ">= 5 Mpps"
  - where: {test: test_busy_machine}
    require:
      loss_ratio: {at: 50 kpps, limit: "<= 0.1 %"}
"""
_DEMO_TESTBED = """# testbed
# No machine is like this one: the hook in conftest.py simulates what is named here.
schema: 1
name: simulated
dut:
  ports: [{name: p0, kind: vhost-user}, {name: p1, kind: vhost-user}]
links: [[generator.0, dut.p0], [generator.1, dut.p1]]
cpus: {housekeeping: [0], pmd: [1], generator: [2]}
"""
_SUITES_INI = """[pytest]
addopts = -ra
# What most people wait for comes first, what takes a minute by itself comes last.
nfv_suite_order =
    throughput/test_frame_sizes.py throughput chaining pods mirror tuning cost routing nic endurance
"""
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
    files = {
        "conftest.py": CONFTEST,
        "pytest.ini": _INI.format(testbed=f"nfv_testbed = {_TESTBED}\n" if testbed else ""),
        "suites/first/test_first.py": _SUITE,
        "suites/first/sla.yaml": _SLA,
        **_recipes("suites", ci),
        ".gitignore": _IGNORED,
    }
    lines = [_write(target, {**files, _TESTBED: testbed} if testbed else files)]
    lines.append("The gate tests the OVS that its runner has installed. For a tree of OVS: init --for ovs-tree")
    if missing:
        lines += ["This machine cannot measure yet:", *(f"  {line}" for line in missing)]
        lines.append("set it up: python -m pytest_nfvperf.adapters.host.setup && nfvperf build")
    enter = "" if target.resolve() == Path.cwd() else f"cd {target} && "
    return "\n".join([*lines, f"run: {enter}pytest{' --nfv-plan' if missing else ''}"])


def write_demo(target: Path) -> None:
    """Write a project with a simulated DUT, of which one test passes, one fails, and one is inconclusive.

    Raises:
        ConfigError: as of ``write_project``.
    """
    files = {
        "conftest.py": _DEMO_CONFTEST,
        "pytest.ini": _INI.format(testbed=f"nfv_testbed = {_TESTBED}\n"),
        _TESTBED: _DEMO_TESTBED,
        "suites/demo/test_demo.py": _DEMO_SUITE,
        "suites/demo/sla.yaml": _DEMO_SLA,
    }
    _write(target, files)


def write_ovs_gate(target: Path, ci: str) -> str:
    """Write the CI files of a gate that compares each change of an Open vSwitch tree with what it is based on.

    Raises:
        ConfigError: no tree of Open vSwitch; or as of ``write_project``.
    """
    if not (target / "vswitchd/ovs-vswitchd.c").is_file():
        raise ConfigError(f"{target} is no tree of Open vSwitch: it has no vswitchd/ovs-vswitchd.c")
    recipes = _recipes("ovs-tree", ci)
    written = _write(target, recipes)
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


def _write(target: Path, files: Mapping[str, str]) -> str:
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


def _recipes(purpose: str, ci: str) -> Mapping[str, str]:
    return {name: (_RECIPES / recipe).read_text(encoding="utf-8") for name, recipe in CI_FILES[purpose][ci].items()}


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
    files = {"conftest.py": CONFTEST, "pytest.ini": _SUITES_INI}
    folders = {name: _PACKAGE / name for name in ("suites", "docs")}
    _refuse_to_replace(target, (*folders, *files))
    try:
        for name, source in folders.items():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise ConfigError(f"cannot copy the suites to {target}: {error}") from error
    _write(target, files)
    return (
        f"copied to {target}: suites/ with an sla.yaml in each, docs/, conftest.py and pytest.ini\n"
        f"run: cd {target} && pytest suites/ --nfv-profile smoke"
    )
