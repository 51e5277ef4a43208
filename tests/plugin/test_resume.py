"""``--nfv-resume``: a run that was killed goes on; what ended on the same rig is not measured again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.evidence.conclusions import conclude
from pytest_nfvperf.adapters.evidence.reader import read_run

SUITE = """
import os, signal
from pathlib import Path
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("frame_size", [64, 128, 256, 512])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    if frame_size == 256 and not Path("died").exists():
        search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size))
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))

def test_needs_what_is_not_there():
    pytest.skip("no such thing")
"""
LATEST = Path("reports") / "latest"
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """A suite of which the third test kills its process, once; that run has happened."""
    make_project(pytester, SUITE, CONFTEST + SIMULATED)

    def started(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-report", "none", *options)

    assert started().ret == -9
    return started


def measured_in(file: Path) -> set[str]:
    """Tests that have trials in an evidence file, by their parameter."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return {one["test"].partition("[")[2].rstrip("]") for one in records if one["kind"] == "trial"}


def test_what_ended_is_taken_over_and_the_rest_measured(run: Run, pytester: pytest.Pytester) -> None:
    done = run("--nfv-resume", str(LATEST))

    done.stdout.fnmatch_lines(["*nfvperf: 2 of 5 tests are taken over from *"])
    done.assert_outcomes(passed=4, skipped=1)
    folder = pytester.path / LATEST
    assert measured_in(folder / "evidence.jsonl") == {"64", "128", "256"}
    assert measured_in(folder / "evidence-resumed-1.jsonl") == {"256", "512"}
    evidence = read_run(folder)
    assert evidence.problems == []
    cut_off = next(test for test in evidence.tests.values() if "[256]" in test.node_id)
    assert (cut_off.file, cut_off.lost_in) == ("evidence-resumed-1.jsonl", ("evidence.jsonl",))
    assert all(trial.startswith("resumed-1-") for trial in cut_off.trials)
    conclusion = conclude(evidence)
    assert conclusion.exit_status == done.ret == 0
    assert len(conclusion.tests) == 5
    assert "Killed" not in conclusion.headline


def test_a_second_time_nothing_is_left_to_measure(run: Run, pytester: pytest.Pytester) -> None:
    run("--nfv-resume", str(LATEST))
    again = run("--nfv-resume", str(LATEST))

    again.stdout.fnmatch_lines(["*nfvperf: 5 of 5 tests are taken over from *"])
    again.assert_outcomes(passed=4, skipped=1)
    assert measured_in(pytester.path / LATEST / "evidence-resumed-2.jsonl") == set()


def test_on_another_rig_all_is_measured_again(run: Run, pytester: pytest.Pytester) -> None:
    file = pytester.path / LATEST / "evidence.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "run":
            line["data"]["fingerprint"]["cpu_model"] = "another"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = run("--nfv-resume", str(LATEST))

    done.stdout.fnmatch_lines(["*what evidence.jsonl has is measured again*cpu_model another then, * now*"])
    done.stdout.fnmatch_lines(["*nfvperf: 0 of 5 tests are taken over from *"])
    assert measured_in(pytester.path / LATEST / "evidence-resumed-1.jsonl") == {"64", "128", "256", "512"}
    assert {test.file for test in read_run(file.parent).tests.values()} == {"evidence-resumed-1.jsonl"}


def test_mistakes_leave_the_run_as_it_was(run: Run, pytester: pytest.Pytester) -> None:
    folder = (pytester.path / LATEST).resolve()
    before = sorted(file.name for file in folder.iterdir())
    mistakes = {
        ("--nfv-resume", str(folder), "--nfv-profile", "gate"): "*has profile quick: give --nfv-profile quick*",
        ("--nfv-resume", str(folder), "-n", "2"): "*goes on in one process: leave out -n and --tx*",
        ("--nfv-resume", "nowhere"): "*nowhere is no directory of a run, such as reports/latest*",
    }
    for options, message in mistakes.items():
        done = run(*options)

        assert done.ret == 4
        done.stderr.fnmatch_lines([message])
        assert sorted(file.name for file in folder.iterdir()) == before
