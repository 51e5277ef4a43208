"""A third party's datapath: the template package installs, keeps to the contract, and frames pass it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measured.test_faults import base

__all__ = ["base"]

TEMPLATE = Path(__file__).parents[2] / "docs" / "examples" / "acme_datapath"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template as pip installs it, beside what this environment has; built from a copy, for pip builds in place."""
    made = tmp_path_factory.mktemp("acme")
    source = shutil.copytree(TEMPLATE, made / "source")
    into = made / "site"
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(into), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


@pytest.fixture
def acme(installed: Path, pytester: pytest.Pytester, base: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that is the template's tests, where the template is installed."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
    shutil.copytree(TEMPLATE / "tests", pytester.path / "tests")
    return pytester


BROKEN = """
from acme_datapath import wire
from pytest_nfvperf import Dut, phy2phy
from pytest_nfvperf.testing import DatapathContract

class Leaky(wire.WireMaker):
    def start(self, workshop):
        workshop.make_namespace("left")
        return super().start(workshop)

class TestLeaky(DatapathContract):
    maker = Leaky()

class TestNothing(DatapathContract):
    pass

def test_it_says_who_makes_it(deploy):
    deploy(phy2phy(), dut=Dut("acme:vpp"))
"""


@pytest.mark.thorough("installs a package, and runs its tests")
def test_the_template_installs_keeps_to_the_contract_and_is_measured(acme: pytest.Pytester) -> None:
    """Beside it two that break the contract, and a kind that no plugin makes."""
    (acme.path / "tests" / "test_broken.py").write_text(BROKEN)
    result = acme.runpytest_subprocess(
        *("tests", "-k", "acme or it_says", "-rs", "--nfv-report", "none", "-p", "no:cacheprovider")
    )
    result.assert_outcomes(passed=11, errors=2, skipped=1)
    for line in (
        "*the datapath was closed and left netns nfv-*-contract-left: remove it in close()*",
        "*TestNothing has no 'maker': write the DatapathMaker under test*",
        "*no plugin makes the datapath 'acme:vpp' (there are: acme:wire): install its package, or*",
    ):
        result.stdout.fnmatch_lines([line])
