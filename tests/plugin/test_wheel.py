"""The wheel, used from a clean environment: what a third party gets."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SUITE = """
from pytest_nfvperf import Traffic

def test_mine(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
"""

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
    strangers = [name for name in names if not name.startswith(("pytest_nfvperf/", "pytest_nfvperf-"))]
    assert not strangers, "nothing but the package: a top-level `fixtures` would shadow PyPI's"


def test_a_suite_outside_the_tree_runs_on_the_wheel(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = str(tmp_path / "env/bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), cwd=tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "conftest.py").write_text(CONFTEST)
    (project / "test_mine.py").write_text(SUITE)

    shown = run(python, "-m", "pytest", "--nfv-plan", cwd=project)

    assert "1 test, " in shown
    assert "test_mine.py::test_mine: about" in shown
    nfvperf = str(tmp_path / "env/bin/nfvperf")
    assert "throughput " in run(nfvperf, "suites", cwd=tmp_path)
    told = run(nfvperf, "suites", "--copy", "acceptance", cwd=tmp_path)
    assert "run: cd acceptance && pytest suites/ --nfv-profile smoke" in told
    shipped = {path.relative_to(tmp_path / "acceptance") for path in (tmp_path / "acceptance").rglob("*")}
    ours = {path.relative_to(ROOT) for folder in ("suites", "docs") for path in (ROOT / folder).rglob("*.*")}
    assert not {path for path in ours if "__pycache__" not in path.parts} - shipped
    planned = run(python, "-m", "pytest", "suites/throughput", "--nfv-plan", cwd=tmp_path / "acceptance")
    assert "suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]: about" in planned
    packed = run(python, "-m", "pytest", "suites/", "--nfv-plan", "--nfv-sla", "published:S1", "-k", "test_ndr_pdr",
                 cwd=tmp_path / "acceptance")  # fmt: skip
    assert "suites/routing/" in packed or "suites/throughput/" in packed
    assert "usage: nfvperf" in run(str(tmp_path / "env/bin/nfvperf"), "--help", cwd=tmp_path)
