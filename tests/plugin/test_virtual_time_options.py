"""``--nfv-virtual-time`` outside a guest: what it cannot be combined with, and what the tests of virtual time say."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_project import CONFTEST, make_project
from user_project import SUITE as SEARCHES

from pytest_nfvperf.adapters.report import html  # noqa: F401 - numpy cannot be loaded again after a run in-process
from pytest_nfvperf.adapters.vnf import guest_kernel as tools
from pytest_nfvperf.plugin.options import read_options
from pytest_nfvperf.plugin.output import NOTE, write_noted

SUITE = """
from pytest_nfvperf import Subject, Traffic, phy2phy

def test_cost(study, sla):
    sla.check_each(study.instructions_per_packet("side", [Subject("a", phy2phy()), Subject("b", phy2phy())], Traffic()))
"""

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    make_project(pytester, SUITE, CONFTEST)
    return pytester


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--nfv-plan", "a plan shows how long trials take by the clock"),
        ("--nfv-record=there", "its generator has no conversation to record"),
        ("--nfv-resume=there", "what was counted in another guest is counted again"),
        ("--nfv-testbed=lab.yaml", "the testbed is the guest's own: a private OVS without DPDK"),
        ("-n2", "instructions are counted on one CPU, by one process"),
    ],
)
def test_what_has_no_meaning_there_is_a_usage_error(project: pytest.Pytester, option: str, told: str) -> None:
    result = project.runpytest("--nfv-virtual-time", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0].rstrip("2")
    result.stderr.fnmatch_lines([f"*{name} cannot be combined with --nfv-virtual-time: {told}; leave it out"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--nfv-compare-blocks=8",), " is of a comparison: name the sides by --nfv-compare"),
        (
            ("--nfv-compare=installed", "--nfv-compare=b=installed", "--nfv-compare-blocks=0"),
            ": 0 is no number of blocks: write a whole number from 1",
        ),
    ],
)
def test_blocks_are_of_a_comparison(project: pytest.Pytester, arguments: tuple[str, ...], told: str) -> None:
    _, mistake = read_options(project.parseconfig(*arguments))
    assert str(mistake) == f"--nfv-compare-blocks{told}"


def test_a_machine_without_a_guests_programs_is_told_what_to_install(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "apt-get" else f"/usr/bin/{name}")
    result = project.runpytest_inprocess("--nfv-virtual-time")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nfv-virtual-time: the guest needs apt-get*"])


def test_by_the_clock_its_tests_are_skipped_with_what_to_do(project: pytest.Pytester) -> None:
    result = project.runpytest("-rs", "--nfv-plan")
    result.stdout.fnmatch_lines(["*instructions_per_packet is counted in virtual time only: add --nfv-virtual-time*"])


def test_the_host_writes_the_report_that_a_run_in_a_guest_leaves_to_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Steps: a run with what its host sets in a guest, on a simulated DUT; then what the host does. Verify: the run
    names the page and does not write it; the host does."""
    note = tmp_path / "note"
    monkeypatch.setenv(NOTE, str(note))
    make_project(pytester, SEARCHES, CONFTEST + SIMULATED)
    result = pytester.runpytest()
    page = pytester.path / "reports" / "latest" / "report.html"
    result.stdout.fnmatch_lines([f"report:   *{page.name}"])
    assert not page.exists()

    write_noted(note, pytester.path)
    assert "test_ndr_pdr[64]" in page.read_text()


def test_a_run_that_wants_no_report_leaves_none(tmp_path: Path) -> None:
    write_noted(tmp_path / "note", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note").write_text(f"{tmp_path}/nowhere")
    write_noted(tmp_path / "note", tmp_path)
    told = capsys.readouterr().err
    assert told.startswith("nfvperf: the report cannot be written: ")
    assert told.endswith(f"; then: nfvperf report {tmp_path}/nowhere\n")
