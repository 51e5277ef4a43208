"""The wheel, used from a clean environment: what a third party gets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from user_project import ordinary_user

from tests.fresh.plan import TUTORIAL, tutorial_commands

ROOT = Path(__file__).parents[2]

SUITE = """
from pytest_nfvperf import Traffic

def test_mine(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
"""

SIMULATED = """
from pytest_nfvperf.backends.simulated import SimulatedTopology
from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

generator = FakeGenerator(capacity_fps=3.8e6)

def ovs(self, program, *arguments):
    generator.loss_ratio = 0.5 if arguments == ("add-flow", "br0", "in_port=p0,actions=drop") else 0.0
    return ""

def pytest_nfvperf_make_backend(config, testbed):
    SimulatedTopology.ovs = ovs
    return SimulatedBackend(testbed, lambda: generator)
"""
"""Its DUT loses every second frame once it has the tutorial's flow."""

CONFTEST = "pytest_plugins = ['pytest_nfvperf.fixtures.all']\n"


def run(*argv: str, cwd: Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # by way of an sdist, as an index would: what the sdist forgets, the wheel lacks
    run(sys.executable, "-m", "build", "--outdir", str(out), str(ROOT), cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_sources_fixtures_and_types(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert {"pytest_nfvperf/py.typed", "pytest_nfvperf/fixtures/parts.py", "pytest_nfvperf/native/meson.build"} <= set(
        names
    )
    modules = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pytest_nfvperf").rglob("*.py*")
        if path.suffix in {".py", ".pyi"}
    }
    assert not modules - set(names), "[tool.setuptools.packages.find] found not all"
    native = {Path(name).name for name in names if name.startswith("pytest_nfvperf/native/")}
    missing = {path.name for path in (ROOT / "pytest_nfvperf/native").rglob("*.[ch]")} - native
    assert not missing, f"sources that the wheel lacks: {missing}"
    templates = {path.name for path in (ROOT / "pytest_nfvperf/adapters/report/templates").iterdir()}
    assert templates <= {Path(name).name for name in names}
    projects = {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/examples/projects/**/*.*") if path.is_file()}
    missing = {name for name in projects if not name.endswith(".pyc")} - {
        name[len("pytest_nfvperf/") :] for name in names
    }
    assert not missing, f"of the projects that `nfvperf init` and `nfvperf demo` write: {missing}"
    strangers = [name for name in names if not name.startswith(("pytest_nfvperf/", "pytest_nfvperf-"))]
    assert not strangers, "nothing but the package: a top-level `fixtures` would shadow PyPI's"


THOROUGH = pytest.mark.thorough("a clean environment with all packages takes a minute, and a package index")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree as it is, what is not committed included."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site", "reports")
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("beside") / "nfvperf", symlinks=True, ignore=left_out))


@pytest.fixture(scope="module")
def installed(clone: Path) -> Path:
    """A directory in which the tutorial's commands have been run, up to those that set the machine up."""
    directory = clone.parent / "datapath"
    directory.mkdir()
    for command in tutorial_commands()[:4]:
        done = shell(command, directory, PIP_QUIET="1")
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return directory


def shell(command: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    apt = directory / "apt.conf"
    apt.write_text('DPkg::Lock::Timeout "120";\n')  # another process of this machine may be installing something
    changed = {**os.environ, "APT_CONFIG": str(apt), **environment}
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=directory, check=False, env=changed
    )


@THOROUGH
def test_the_tutorial_leads_to_a_green_and_a_red_gate_in_ten_commands(installed, tmp_path):
    """All its commands as they are written, but the measurements are simulated: this file runs beside others.

    ``.ci/fresh`` runs them in a root that has nothing, with the machine's own datapath.
    """
    commands = tutorial_commands()
    assert len(commands) <= 10
    assert [command.split("/")[-1] for command in commands].count("pytest") == 2
    (tmp_path / "simulated.py").write_text(SIMULATED)
    environment = {"PYTEST_ADDOPTS": "-p simulated", "PYTHONPATH": str(tmp_path)}

    ends = {}
    for number, command in enumerate(commands[4:], 5):
        done = shell(command, installed, **environment)
        ends[number] = (command.split("/")[-1].partition(" ")[0], done.returncode)
        text = done.stdout + done.stderr
        if command.endswith("/pytest"):
            ends[number] = (*ends[number], re.findall(r"^first/(\S+) .* (PASS|FAIL) ", text, re.MULTILINE))
        assert done.returncode == 0 or number == len(commands), f"{command}: {text}"

    green = [("test_throughput[64]", "PASS"), ("test_fixed_load", "PASS")]
    red = [("test_throughput[64]", "PASS"), ("test_fixed_load", "FAIL")]
    assert list(ends.values())[-3:] == [("pytest", 0, green), ("test_first.py", 0), ("pytest", 1, red)]
    assert re.search(r"FAIL +loss_ratio <= 0.1 % at .* 50 % +0.1 % +500 times the limit", text)
    assert (installed / "reports/latest/report.html").is_file()
    written = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    page = TUTORIAL.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\S+)` \|", page, re.MULTILINE)) <= written


@THOROUGH
def test_what_the_base_needs_is_light(installed):
    """Charts, history and export are extras: of this package and all that it needs without them, the files."""
    (packages,) = installed.glob(".venv/lib/python*/site-packages")
    there = {canonicalize_name(one.name): one for one in distributions(path=[str(packages)])}
    base = {"pytest-nfvperf"}
    for _ in range(len(there)):
        needs = [Requirement(text) for name in base for text in there[name].requires or ()]
        base |= {canonicalize_name(one.name) for one in needs if one.marker is None or one.marker.evaluate()}

    assert {"numpy", "scapy", "pyroute2", "allure-pytest"} <= base
    assert not base & {"vl-convert-python", "pillow", "scipy", "pandas", "ruptures", "opentelemetry-sdk"}
    files = [packages / file for name in base for file in there[name].files or ()]
    weight = sum(file.lstat().st_blocks for file in files if file.exists()) * 512 / 2**20
    assert 100 < weight <= 161, f"the base's packages are {weight:.0f} MiB"


@THOROUGH
def test_the_demo_runs_on_the_wheel_for_any_user(installed, tmp_path):
    """In the environment of the tutorial's first four commands, and without a program on the PATH."""
    command = [*(ordinary_user() or ()), str(installed / ".venv/bin/nfvperf"), "demo", "here"]
    alone = {"PATH": "/nowhere", "HOME": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, env=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"The page: {tmp_path}/here/reports/latest/report.html\n" in done.stdout


@THOROUGH
def test_a_suite_outside_the_tree_runs_on_the_wheel(installed, tmp_path):
    python = str(installed / ".venv/bin/python")
    project = tmp_path / "project"
    project.mkdir()
    (project / "conftest.py").write_text(CONFTEST)
    (project / "test_mine.py").write_text(SUITE)

    shown = run(python, "-m", "pytest", "--nfv-plan", cwd=project)

    assert "1 test, " in shown
    assert "test_mine.py::test_mine: about" in shown
    nfvperf = str(installed / ".venv/bin/nfvperf")
    assert "throughput " in run(nfvperf, "suites", cwd=tmp_path)
    told = run(nfvperf, "suites", "--copy", "acceptance", cwd=tmp_path)
    assert "run: cd acceptance && pytest suites/ --nfv-profile smoke" in told
    shipped = {path.relative_to(tmp_path / "acceptance") for path in (tmp_path / "acceptance").rglob("*")}
    ours = {path.relative_to(ROOT) for folder in ("suites", "docs") for path in (ROOT / folder).rglob("*.*")}
    # What `init` and `demo` write is no suite to run.
    assert not {path for path in ours if not {"__pycache__", "projects"} & {*path.parts}} - shipped
    planned = run(python, "-m", "pytest", "suites/throughput", "--nfv-plan", cwd=tmp_path / "acceptance")
    assert "suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]: about" in planned
    packed = run(python, "-m", "pytest", "suites/", "--nfv-plan", "--nfv-sla", "published:S1", "-k", "test_ndr_pdr",
                 cwd=tmp_path / "acceptance")  # fmt: skip
    assert "suites/routing/" in packed or "suites/throughput/" in packed
    assert "usage: nfvperf" in run(nfvperf, "--help", cwd=tmp_path)


def documented_installs() -> dict[str, str]:
    """By page or recipe: the commands that install the package, in a shell block, a recipe or the action."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*")]
    found = {}
    for page in (
        page for page in pages if page.is_file() and page.suffix not in {".png", ".svg", ".css", ".js", ".pyc"}
    ):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if page.suffix == ".md" else [text]
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        commands = [line for line in lines if "pip install " in line and re.search(r"pytest-nfvperf\[|PACKAGE", line)]
        found |= {f"{page.relative_to(ROOT)}: {number}": command for number, command in enumerate(commands)}
    return found


def test_every_document_installs_from_the_wheel() -> None:
    """The package is in no index. An extra of an installed one, in the text of a page, is another matter."""
    found = documented_installs()
    assert {"README.md: 0", "docs/tutorial/ten-commands.md: 0", "action.yml: 0"} <= set(found)
    assert len(found) > 15
    assert [location for location, command in found.items() if "--find-links" not in command] == []


@THOROUGH
@pytest.mark.parametrize("wheels", ["", "dist"], ids=["its own tree", "a folder of wheels"])
def test_the_action_installs(clone, installed, tmp_path, wheels):
    """Its set-up, but what changes the machine: with the wheel that `make wheel` wrote, and without one."""
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][0]["run"]
    text, _, _ = step.partition(".venv/bin/python -m pytest_nfvperf.adapters.host.setup")
    if not wheels:
        shutil.rmtree(clone / "dist")
    location = str(clone / wheels) if wheels else ""
    alone = {"NFVPERF_WHEELS": location, "GITHUB_ACTION_PATH": str(clone), "PACKAGE": "pytest-nfvperf[charts,xdist]"}
    installs_the_wheel(f"set -e\n{text}", tmp_path, **alone)


@THOROUGH
@pytest.mark.parametrize("location", ["README.md: 0", "docs/examples/ci/github.yml: 0"])
def test_a_documents_install_takes_the_wheel(clone, installed, tmp_path, location):
    (tmp_path / "dist").symlink_to(clone / "dist")
    command = documented_installs()[location]
    made = "" if "-m venv" in command else "python3 -m venv .venv && "
    installs_the_wheel(f"{made}{command}", tmp_path, NFVPERF_WHEELS=str(clone / "dist"))


@THOROUGH
def test_a_clone_sets_itself_up_over_the_wheel(clone, installed, tmp_path):
    """pip leaves what pytest compiled of the wheel, which is no package and yet found before the clone's."""
    alone = {"PIP_NO_DEPS": "1", "PIP_QUIET": "1"}
    done = shell(f"cd {clone} && .venv/bin/pip install --find-links dist pytest-nfvperf", tmp_path, **alone)
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = clone.glob(".venv/lib/python*/site-packages/pytest_nfvperf")
    (package / "__pycache__/core.cpython-311-pytest-9.2.0.pyc").write_bytes(b"")
    done = shell(f"make -C {clone} .venv/.installed", tmp_path, **alone)
    assert done.returncode == 0, done.stdout + done.stderr
    python = str(clone / ".venv/bin/python")
    where = run(python, "-c", "import pytest_nfvperf as p; print(p.__file__, p.__version__)", cwd=tmp_path)
    assert where.startswith(f"{clone}/pytest_nfvperf/"), where


def installs_the_wheel(command: str, directory: Path, **environment: str) -> None:
    """Run it; what the package needs is left out, which `installed` has with the same command."""
    done = shell(command, directory, PIP_NO_DEPS="1", **environment)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    python = str(directory / ".venv/bin/python")
    where = run(python, "-c", "import pytest_nfvperf as p; print(p.__file__, p.__version__)", cwd=directory)
    assert where.startswith(f"{directory}/.venv/lib/"), where


@THOROUGH
def test_an_extra_of_the_installed_package_needs_no_wheel(installed):
    """What pages and messages say: pip takes the package that is there. Without an index it would find none."""
    done = shell(".venv/bin/pip install --no-index 'pytest-nfvperf[charts]'", installed, PIP_FIND_LINKS="")
    assert done.returncode == 0, done.stdout + done.stderr
