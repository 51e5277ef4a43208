"""``nfvperf bisect``: its account, verdicts, page and exit statuses, on a simulated DUT whose rate is in its prefix."""

from __future__ import annotations

import errno
import json
import math
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from bisect_support import figure
from compare_project import BACKEND
from compare_project import SUITE as COMPARED
from toy_ovs import buildable, commit, prefix
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.vnf import guest_kernel as tools
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.bisect import trials
from pytest_nfvperf.features.bisect.candidates import NotUsableError
from pytest_nfvperf.features.bisect.events import VersionComparison
from pytest_nfvperf.features.bisect.trials import compare, run_tests
from pytest_nfvperf.features.versions import git_build
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion

SIMULATED = """
from pathlib import Path
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(float((Path(testbed.ovs.prefix) / "rate").read_text())))
"""
SUITE = """
from pytest_nfvperf import Traffic

def test_rate(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
"""
SLA = "schema: 1\nrules:\n  - where: {topology: phy2phy}\n    require: {ndr: '>= 3.5 Mpps'}\n"
NOISE = 0.02


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")  # each run in a child would import all of it
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.setattr(tools, "can_boot", lambda: False)  # a simulated DUT has no instructions
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    make_project(pytester, SUITE, CONFTEST + SIMULATED)
    pytester.makefile(".yaml", sla=SLA)
    return pytester.path


def version(directory: Path, rate: float) -> str:
    (prefix(directory) / "rate").write_text(str(rate))
    return str(directory)


def row(folder: Path, rates: Sequence[float]) -> list[str]:
    return [version(folder / f"v{number}", rate) for number, rate in enumerate(rates)]


class Comparing:
    """In place of ``nfvperf compare``: the rates of both prefixes with noise; dies when told to."""

    def __init__(self) -> None:
        self.compared: list[tuple[str, str]] = []
        self.left = math.inf
        self._random = random.Random(1)

    def __call__(
        self, base: str, other: str, arguments: Sequence[str], results: Path, *, blocks: int | None
    ) -> VersionComparison:
        assert blocks is not None, "these versions have no instructions"
        if self.left == 0:
            raise TestbedError("the disk is full")
        self.left -= 1
        self.compared.append((Path(base).name, Path(other).name))
        rates = [self._rate(where) for where in (base, other)]
        if rates[1] == 0:
            return VersionComparison(0, 1, 8, (), note="no figure has an interval: generator-limited")
        if rates[1] < 0:
            raise NotUsableError("broken: ovs-vswitchd (pid 7) was killed by SIGSEGV")
        difference = math.log(rates[1] / rates[0])
        read = 8 * math.ceil(blocks / 8)  # the first look at so many
        values = [self._random.gauss(difference, NOISE) for _ in range(read)]
        return VersionComparison(0, 1, read, (figure(values),))

    def _rate(self, where: str) -> float:
        directory = Path(where) if "/" in where else Path(Registry().find(where).place)
        return float((directory / "rate").read_text())


@pytest.fixture
def comparing(project: Path, monkeypatch: pytest.MonkeyPatch) -> Comparing:
    made = Comparing()
    monkeypatch.setattr(trials, "compare", made)
    return made


def bisect(versions: Sequence[str], *more: str) -> int:
    own = ["--good", versions[0], "--bad", versions[-1], "--versions", *versions[1:-1]]
    return main(["bisect", *own, "--by", "rates", *more, "--", "mine", "--nfv-report", "none"])


def test_rates_end_with_a_confirmed_culprit_a_page_and_status_0(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = row(project, [4e6] * 5 + [3.4e6] * 4)

    assert bisect(versions, "--log", "log") == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "bisecting 7 versions between v0 (good) and v8 (bad); log: log"
    assert output[1].startswith("  1  ends    v8 against v0: 0.8")
    assert " in 8 blocks forwarding_rate; came in with v1 .. v8: 100.0%" in output[1]
    assert output[-4].startswith("v5 brought it in (probability ")
    assert output[-3].startswith("Measured again against its parent v4: 0.8")
    assert output[-3].endswith("Confirmed.")
    assert output[-2].startswith("The ends, v8 over v0: forwarding_rate 0.8")
    assert comparing.compared[0] == ("v0", "v8")
    assert comparing.compared[-1] == ("v4", "v5")
    page = (project / "log" / "bisection.html").read_text()
    assert output[-4] in page
    assert page.count("<figure>") == 1
    assert (project / "log" / "bisection.png").stat().st_size > 1000
    assert output[-1] == "page: log/bisection.html, bisection.png beside it"


def test_equal_ends_are_refused_with_status_1(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(row(project, [4e6] * 4)) == 1
    output = capsys.readouterr().out
    assert "Nothing to bisect: the ends do not differ. V3 is not shown to be worse than v0 by 0.5% or more" in output
    assert "forwarding_rate of test_rate.py::test_rate: 1.00" in output or "test_rate: 0.99" in output
    assert "in 32 blocks" in output


def test_ends_without_a_figure_are_refused_with_the_reason(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(row(project, [4e6, 3e6, 0])) == 1
    output = capsys.readouterr().out
    assert "Nothing to bisect: the tests give nothing to compare. The tests gave no figure in which versions" in output
    assert "could be compared: no figure has an interval: generator-limited." in output


def test_swapped_ends_are_refused(project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect(row(project, [3e6, 3e6, 4e6])) == 1
    assert "v2 is better than v0, which is given as good: exchange --good and --bad" in capsys.readouterr().out.lower()


def test_versions_that_die_leave_a_range_and_status_10(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(row(project, [4e6, 4e6, -1, 3e6, 3e6])) == 10
    output = capsys.readouterr().out
    assert "v2 against v0: skipped: broken: ovs-vswitchd (pid 7) was killed by SIGSEGV" in output
    assert "One of 2 versions brought it in, v2 .. v3" in output
    assert "It cannot be narrowed: v2 cannot be used." in output


def test_a_broken_testbed_ends_with_status_11_and_the_same_command_goes_on(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = row(project, [4e6] * 5 + [3.4e6] * 4)
    comparing.left = 2
    assert bisect(versions) == 11
    broken = capsys.readouterr()
    assert (
        broken.err == "nfvperf: the disk is full\nThe measurements are kept: run the same command again to continue.\n"
    )
    comparing.left = math.inf
    assert bisect(versions) == 0
    output = capsys.readouterr().out
    assert "continuing with 2 measurements of an earlier run" in output
    assert output.count("ends    v8 against v0") == 1
    assert comparing.compared.count(("v0", "v8")) == 1


def test_a_disk_that_is_full_is_no_fault_of_ours(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps: there is no room for the directory of a run. Verify: status 11; the log is whole, and goes on."""

    def full(*_: object, **__: object) -> VersionComparison:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/reports/runs/001-v8")

    monkeypatch.setattr(trials, "compare", full)
    versions = row(project, [4e6, 4e6, 3e6])
    assert bisect(versions, "--log", "log") == 11
    output = capsys.readouterr().err
    assert output.startswith("nfvperf: No space left on device: /reports/runs/001-v8\nThe measurements are kept: ")
    monkeypatch.setattr(trials, "compare", Comparing())
    assert bisect(versions, "--log", "log") == 0


def test_a_log_of_other_arguments_is_refused_with_status_4(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = row(project, [4e6, 4e6, 3e6])
    assert bisect(versions, "--log", "log") == 0
    assert bisect(versions, "--log", "log", "--metric", "tcp_throughput") == 4
    assert "its metric is None, yours is 'tcp_throughput'" in capsys.readouterr().err


def test_a_fault_of_ours_ends_with_status_3_and_convicts_nobody(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own status after an exception is 1, which says that there is nothing to bisect."""

    def fault(*_: object, **__: object) -> VersionComparison:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(trials, "compare", fault)
    assert bisect(row(project, [4e6, 4e6, 3e6])) == 3
    output = capsys.readouterr().err
    assert "ZeroDivisionError: a fault" in output
    assert "nfvperf: a fault of nfvperf, which says nothing of any version: please report it." in output


def test_mistakes_end_with_status_4(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = row(project, [4e6, 3e6])
    ends = ["--good", good, "--bad", bad]
    assert main(["bisect", *ends, "--versions", "--"]) == 4
    assert main(["bisect", *ends, "--versions"]) == 4
    assert main(["bisect", "--good", good, "--bad", good, "--versions", "--", "mine"]) == 4
    assert main(["bisect", *ends, "--versions", "--", "mine", "-k", "nothing_is_called_so"]) == 4
    assert main(["bisect", *ends, "--versions", "--metric", "ndr", "--by", "outcomes", "--", "mine"]) == 4
    for mistake in ([*ends, "--", "mine"], [*ends, "--versions", "--confidence", "2", "--", "mine"]):
        with pytest.raises(SystemExit) as ended:
            main(["bisect", *mistake])
        assert ended.value.code == 4
    output = capsys.readouterr().err
    assert "no tests are named: write -- and the arguments of pytest, such as -- suites/throughput" in output
    assert "--good and --bad are the same version" in output
    assert "nothing was selected that measures, or an option cannot be used" in output
    assert "one of the arguments --versions --source is required" in output
    assert "'2' is no share between 0 and 1" in output


def test_commits_of_a_tree_are_built_skipped_and_removed(
    project: Path, comparing: Comparing, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = buildable(project / "tree")
    commit(tree, "good", rate="4e6")
    for number, rate in enumerate(("4e6", "4e6", "3e6", "3e6")):
        commit(tree, f"commit {number}", rate=rate, broken="yes" if number == 1 else "")
    own = ["--good", "HEAD~4", "--bad", "HEAD", "--source", str(tree), "--without-dpdk", "--by", "rates"]

    assert main(["bisect", *own, "--log", "log", "--", "mine"]) == 10
    output = capsys.readouterr().out
    assert "skipped: make of Open vSwitch failed" in output
    assert "One of 2 versions brought it in" in output
    assert "commit 2" in (project / "log" / "bisection.html").read_text()
    assert Registry().all() == []


def test_outcomes_of_real_runs_find_the_version_that_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each version's first run is one of pytest in a child; the simulated DUT does the same again."""
    ran: dict[str, RunConclusion] = {}

    def run_once(arguments: Sequence[str], results: Path) -> RunConclusion:
        if arguments[-1] not in ran:
            ran[arguments[-1]] = run_tests(arguments, results)
        return ran[arguments[-1]]

    monkeypatch.setattr(trials, "run_tests", run_once)
    versions = row(project, [4e6, 4e6, 2e6])
    own = ["--good", versions[0], "--bad", versions[-1], "--versions", versions[1], "--by", "outcomes", "--log", "log"]

    assert main(["bisect", *own, "--", "mine", "--nfv-sla", "sla.yaml", "--nfv-report", "none"]) == 0
    output = capsys.readouterr().out
    assert "v2 brought it in" in output
    assert "ends    v2: 1 test failed: mine/test_mine.py::test_rate: ndr: observed 2.0" in output
    assert "failed in 1 of 1 runs, the parent in 0 of 1. Confirmed." in output
    assert "mine/test_mine.py::test_rate failed on v0 in 0 of 3 and on v2 in 3 of 3 runs." in output
    lines = [json.loads(line) for line in (project / "log" / "bisection.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"bisection", "ran"}


def test_a_real_comparison_gives_a_figure(pytester: pytest.Pytester) -> None:
    """By ``nfvperf compare`` in a child, on a simulated DUT that is 15 % slower."""
    make_project(pytester, COMPARED, f"{CONFTEST}\nBESIDE = True\n{BACKEND}\nRATES['version'] = 3.4e6\n")
    found = compare("installed", "installed", ["mine", "--nfv-report", "none"], pytester.path / "compared", blocks=8)

    assert found.blocks == 8
    figures = {each.metric: each for each in found.figures}
    assert figures["forwarding_rate"].test == "mine/test_mine.py::test_ndr_pdr"
    assert math.exp(figures["forwarding_rate"].log_ratio) == pytest.approx(0.85, abs=0.02)
    assert 0 < figures["forwarding_rate"].standard_error < 0.02


CONVERSATIONS = """
from pytest_nfvperf import Conversation

def test_connections(phy2phy, search, sla):
    sla.check(search.connection_rate(phy2phy, Conversation.tcp(clients=16)))
"""
PREFIXES = """
from pathlib import Path

def rate_of(self, name):
    prefix = next(each.prefix for each in self.testbed.ovs.versions if each.name == name)
    return float((Path(prefix) / "rate").read_text())
"""


def test_the_rate_of_connections_finds_the_version_that_is_slower(
    pytester: pytest.Pytester, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By comparisons in children, of all versions, whose simulated DUTs take as many connections as they say."""
    lookup = BACKEND.replace("RATES.get(dut.version, 4e6)", "rate_of(self, dut.version)")
    make_project(pytester, CONVERSATIONS, f"{CONFTEST}\nBESIDE = True\n{lookup}\n{PREFIXES}")
    assert bisect(row(project, [200e3, 200e3, 170e3]), "--metric", "connection_rate") == 0
    output = capsys.readouterr().out
    assert "in 8 blocks connection_rate; came in with v2: 100.0%" in output
    assert "v2 brought it in" in output
