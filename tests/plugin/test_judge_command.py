"""``nfvperf judge``, and a real ``git bisect run`` with it, on a simulated DUT whose rate is in the tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from toy_ovs import commit, repository
from user_project import CONFTEST, make_project

from pytest_nfvperf.cli.main import main

SIMULATED = """
from pathlib import Path
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(float(Path("rate").read_text())))
"""
SUITE = """
from pytest_nfvperf import Traffic, UnavailableError
from pathlib import Path

def test_rate(phy2phy, search, sla):
    if float(Path("rate").read_text()) < 1:
        raise UnavailableError("this version has no such port")
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
"""
SLA = "schema: 1\nrules:\n  - where: {topology: phy2phy}\n    require: {ndr: '>= 3.5 Mpps'}\n"
JUDGE = [sys.executable, "-m", "pytest_nfvperf.cli.main", "judge"]


class Judged:
    """A project whose simulated DUT forwards what the file ``rate`` in the working directory says."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.rate = pytester.path / "rate"
        make_project(pytester, SUITE, CONFTEST + SIMULATED)
        pytester.makefile(".yaml", sla=SLA)
        self.arguments = [str(pytester.path / "mine"), "--nfv-sla", str(pytester.path / "sla.yaml")]
        self.arguments += ["--nfv-report", "none", "--rootdir", str(pytester.path)]
        self.results = pytester.path / "judged"

    def at(self, rate: str, *more: str) -> int:
        self.rate.write_text(rate)
        return main(["judge", "--results", str(self.results), "--", *self.arguments, *more])


@pytest.fixture
def judged(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Judged:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")  # each run in a child would import all of it
    return Judged(pytester)


@pytest.mark.parametrize(
    ("rate", "status", "told"),
    [
        ("4e6", 0, "nfvperf judge: good: Accepted: the one requirement met, the one selected test passed\n"),
        ("2e6", 1, "nfvperf judge: bad: mine/test_mine.py::test_rate: ndr: observed 2.0"),
        ("0", 125, "nfvperf judge: cannot tell: Nothing was measured: the one selected test was skipped"),
        ("-1 Mpps", 125, "nfvperf judge: cannot tell: "),
    ],
    ids=["good", "bad", "skipped", "broken"],
)
def test_a_run_is_good_bad_or_no_answer(
    judged: Judged, rate: str, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged.at(rate) == status
    assert capsys.readouterr().out.startswith(told)
    (run,) = judged.results.glob("001/latest")
    assert main(["judge", str(run)]) == status, "the same, of a run that has ended"


def test_what_is_no_answer_does_not_convict(judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judged.at("4e6", "--nfv-profile", "thorough") == 125
    assert judged.at("4e6", "-k", "nothing_is_called_so") == 125
    assert main(["judge", str(tmp_path / "nowhere")]) == 125
    assert main(["judge"]) == 125
    assert main(["judge", "--source", str(tmp_path), "--", "suites/"]) == 125
    with pytest.raises(SystemExit) as ended:
        main(["judge", "--unknown", "--", "suites/"])
    assert ended.value.code == 125
    told = capsys.readouterr().out
    assert "thorough" in told
    assert "name a run's results directory, or write -- and then the arguments of pytest" in told
    assert f"{tmp_path} is in no git tree" in told


@pytest.mark.thorough("a run for each commit that git tries; what each status is for is above")
def test_git_bisect_run_finds_the_commit(judged: Judged, tmp_path: Path) -> None:
    """Of seven commits the sixth is slow; the fourth, which git tries first, says nothing."""
    tree = repository(tmp_path / "tree")
    rates = ["4e6", "4e6", "4e6", "0", "4e6", "2e6", "2e6"]
    made = [commit(tree, f"commit {number}", rate=rate) for number, rate in enumerate(rates)]
    script = [*JUDGE, "--results", str(judged.results), "--", *judged.arguments]
    for words in (["start", made[-1], made[0]], ["run", *script]):
        run = subprocess.run(["git", "bisect", *words], cwd=tree, capture_output=True, text=True, check=True)

    assert f"{made[5]} is the first bad commit" in run.stdout
    for answer in ("good", "bad", "cannot tell"):
        assert f"nfvperf judge: {answer}: " in run.stdout
