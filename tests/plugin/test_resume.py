"""``--nfv-resume``: a run that was killed goes on; what ended on the same rig is not measured again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.evidence.reader import conclude, read_run

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
SLA = Path("mine") / "sla.yaml"
Run = Callable[..., pytest.RunResult]


def requiring(limit: str, of: str = "ndr") -> str:
    load = "at: 50 % of pdr, " if of != "ndr" else ""
    return f"schema: 1\nrules:\n  - {{where: {{}}, require: {{{of}: {{{load}limit: '{limit}'}}}}}}\n"


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """A suite of which the third test kills its process, once; that run has happened."""
    make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (pytester.path / SLA).write_text(requiring(">= 1 Mpps"))

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


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.thorough("the same by a worker"))])
def test_a_run_under_another_name_goes_on_as_itself(
    run: Run, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    """Steps: resume a copy, then by a profile that is refused. Verify: it can be read, and has one id."""
    known = read_run(pytester.path / LATEST).run_id
    restored = (pytester.path / LATEST).resolve().rename(pytester.path / "restored")

    assert run("--nfv-resume", str(restored), *workers).ret == 0
    evidence = read_run(restored)
    assert (evidence.run_id, conclude(evidence).exit_status, len(evidence.tests)) == (known, 0, 5)
    (pytester.path / SLA).write_text("rules: of another schema\n")
    assert run("--nfv-resume", str(restored), *workers).ret == 4
    assert read_run(restored).run_id == known


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
        ("--nfv-resume", "nowhere"): "*nowhere is no directory of a run, such as reports/latest*",
    }
    for options, message in mistakes.items():
        done = run(*options)

        assert done.ret == 4
        done.stderr.fnmatch_lines([message])
        assert sorted(file.name for file in folder.iterdir()) == before


def test_workers_go_on_together(run: Run, pytester: pytest.Pytester) -> None:
    """A worker dies with a test of the run that goes on: the one in its place goes on with the first run only."""
    (pytester.path / "died").unlink()
    done = run("--nfv-resume", str(LATEST), "-n", "2")

    done.stdout.fnmatch_lines(["nfvperf: 2 of 5 tests are taken over from *"])
    assert done.ret == 0
    assert done.parseoutcomes()["passed"] == 4
    folder = pytester.path / LATEST
    files = sorted(folder.glob("evidence-resumed-1-gw?.jsonl"))
    assert {size for file in files for size in measured_in(file)} == {"256", "512"}
    evidence = read_run(folder)
    assert conclude(evidence).headline == "4 of 5 selected tests passed, 1 was skipped"
    assert {run.resumes for run in evidence.runs.values()} == {(), ("evidence.jsonl",)}
    again = run("--nfv-resume", str(LATEST))
    again.stdout.fnmatch_lines(["*nfvperf: 5 of 5 tests are taken over from *"])
    assert again.ret == 0


def test_another_sla_judges_what_was_measured(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / SLA).write_text(requiring(">= 90 Mpps"))

    done = run("--nfv-resume", str(LATEST))

    done.stdout.fnmatch_lines(["*the SLA has changed: 2 of them judged again, 0 others measured again for it"])
    assert done.ret == 1
    assert done.parseoutcomes()["failed"] == 4
    folder = pytester.path / LATEST
    assert measured_in(folder / "evidence-resumed-1.jsonl") == {"256", "512"}
    remeasured = next(test for test in read_run(folder).tests.values() if "[64]" in test.node_id)
    assert (remeasured.file, remeasured.lost_in) == ("evidence.jsonl", ())
    assert remeasured.trials
    assert [verdict.requirement for verdict in remeasured.verdicts.values()] == ["ndr >= 90 Mpps"]
    again = run("--nfv-resume", str(LATEST))
    again.stdout.no_fnmatch_line("*the SLA has changed*")
    assert again.ret == 1


def test_evidence_that_names_rules_by_whole_paths_is_taken_over(run: Run, pytester: pytest.Pytester) -> None:
    """Earlier versions wrote them so. The rule has another name now, and asks the same."""
    file = pytester.path / LATEST / "evidence.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    verdicts = [line["data"] for line in lines if line["kind"] == "verdict"]
    assert {verdict["rule"] for verdict in verdicts} == {f"{SLA}:3: rules[0]"}
    for verdict in verdicts:
        verdict["rule"] = f"{pytester.path}/{verdict['rule']}"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (pytester.path / SLA).write_text(requiring(">= 1 Mpps").replace("where: {}", "where: {}, name: ours"))

    done = run("--nfv-resume", str(LATEST))

    done.stdout.fnmatch_lines(["*nfvperf: 2 of 5 tests are taken over from *"])
    done.stdout.no_fnmatch_line("*the SLA has changed*")
    assert done.ret == 0


def test_what_the_figures_do_not_say_is_measured_again(run: Run, pytester: pytest.Pytester) -> None:
    """Of a latency that nobody measured; and where a test failed, and the rest of it may not have run."""
    (pytester.path / SLA).write_text(requiring("<= 100 us", "latency_p99"))
    done = run("--nfv-resume", str(LATEST))
    done.stdout.fnmatch_lines(["*the SLA has changed: 0 of them judged again, 2 others measured again for it"])
    folder = pytester.path / LATEST
    assert measured_in(folder / "evidence-resumed-1.jsonl") == {"64", "128", "256", "512"}


def test_a_mistake_of_the_sla_is_told_and_costs_nothing(run: Run, pytester: pytest.Pytester) -> None:
    """As in a first run: the last line, the status and `nfvperf show` say usage error. The run can still go on."""
    (pytester.path / SLA).write_text(requiring(">= 1 Mpps").replace("{}", "{frame_sise: 64}"))
    for workers in ([], ["-n", "2"]):
        refused = run("--nfv-resume", str(LATEST), *workers)

        assert refused.ret == 4
        told = "nfvperf: Usage error: of 5 selected tests 1 unfinished, 2 not run, 2 passed."
        refused.stdout.fnmatch_lines([f"{told} *unknown selector 'frame_sise'*"])
        shown = pytester.run(sys.executable, "-m", "pytest_nfvperf.cli.main", "show", LATEST)
        shown.stdout.fnmatch_lines(["*Usage error: of 5 selected tests*"])
        shown.stdout.no_fnmatch_line("*the worker that ran it died*")
    (pytester.path / SLA).write_text(requiring(">= 1 Mpps"))
    done = run("--nfv-resume", str(LATEST))
    done.stdout.fnmatch_lines(["*nfvperf: 2 of 5 tests are taken over from *"])
    assert done.ret == 0


def test_a_testbed_file_that_cannot_be_used_is_told(run: Run, pytester: pytest.Pytester) -> None:
    """There is no session then, and nothing but the end of the run to write."""
    before = (pytester.path / LATEST / "evidence.jsonl").read_bytes()
    refused = run("--nfv-resume", str(LATEST), "--nfv-testbed", "nowhere.yaml")

    assert refused.ret == 4
    refused.stdout.fnmatch_lines(["nfvperf: Usage error: of 5 selected tests */nowhere.yaml: cannot be read*"])
    assert (pytester.path / LATEST / "evidence.jsonl").read_bytes() == before


TESTBED = "schema: 1\nname: {}\ndut: {{ovs: {{instance: private, datapath: netdev}}}}\n"
HELD_APART = """
    backend = SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
    backend.fingerprint = lambda: {"rig": testbed.name}
    return backend
"""
OF_TWO = """
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("frame_size", range(64, 72))
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size))
"""


def test_each_testbed_takes_over_what_it_measured(pytester: pytest.Pytester) -> None:
    """Steps: on two testbeds with fingerprints of their own go on with a run that lacks a test; then on one of the two.

    Verify: only that test is measured; on one testbed, what the other had measured is, too, and the reason is told.
    """
    make_project(pytester, OF_TWO, CONFTEST + SIMULATED.partition("    return")[0] + HELD_APART)
    given = []
    for name in "ab":
        (pytester.path / f"{name}.yaml").write_text(TESTBED.format(name))
        given.append(f"--nfv-testbed={name}.yaml")
    base = ("-p", "no:cacheprovider", "--nfv-report", "none")
    assert pytester.runpytest_subprocess(*base, "-n", "2", *given, "-k", "not 71").ret == 0
    first = [measured_in(file) for file in sorted((pytester.path / LATEST).glob("evidence-gw*.jsonl"))]
    assert all(first)

    done = pytester.runpytest_subprocess(*base, "-n", "2", *reversed(given), "--nfv-resume", str(LATEST))
    assert done.ret == 0
    done.assert_outcomes(passed=8)
    done.stdout.fnmatch_lines(["nfvperf: 7 of 8 tests are taken over from *"])
    done.stdout.no_fnmatch_line("*is measured again*")
    again = [measured_in(file) for file in (pytester.path / LATEST).glob("evidence-resumed-1-gw*.jsonl")]
    assert set().union(*again) == {"71"}

    alone = pytester.runpytest_subprocess(*base, given[0], "--nfv-resume", str(LATEST))
    assert alone.ret == 0
    alone.stdout.fnmatch_lines(["*what evidence-gw?.jsonl has is measured again, * rig b then, a now"])
