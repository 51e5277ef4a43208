"""What a run says of the machine: the bands of its trials, the undisturbed share, and what disturbed most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.report import html
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.junit import write_junit
from pytest_nfvperf.adapters.report.markdown import escaped, markdown
from pytest_nfvperf.features.allure.results import write_missing_results
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance, ObservedBands, observed_bands
from pytest_nfvperf.model.disturbance.windows import Disturbance, SelectedWindows, WindowState
from pytest_nfvperf.model.evidence.comparison import unlike
from pytest_nfvperf.model.evidence.conclusion import RunFacts, RunResult, TestFacts, conclude_run
from pytest_nfvperf.model.evidence.records import TrialData, make_record
from pytest_nfvperf.model.evidence.rig_condition import Grade, RigCondition
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.session.run import with_bands
from tests.sample_run import run_data, small_run, write_sample
from tests.unit.test_windows import ALONE, SHARED, windows

PASSED = Verdict(Judgement.PASS, "ndr >= 4 Mpps", "ndr", 4e6, "pps", 5e6, 0.25, "", "sla.yaml: rules[0]")
NEAR = CpuDistance(100, 110, far=False, near_ns=120)
FAR = CpuDistance(300, 320, far=True, near_ns=120)
MOVED = CpuDistance(100, 320, far=True, near_ns=120)
ONE_BAND = CpuDistance(100, 100)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    return read_run(write_sample(tmp_path_factory.mktemp("run"), small_run()))


@pytest.fixture
def trial(run: RunEvidence) -> TrialData:
    return next(iter(run.trials.values()))


def seen(trial: TrialData, placed: CpuDistance | None, undisturbed: int | None = None, *what: Disturbance) -> TrialData:
    """That trial, with so many of 100 windows undisturbed."""
    counted = None if undisturbed is None else SelectedWindows(undisturbed, 100, 1000, 1000, 0)
    return replace(trial, result=replace(trial.result, placement=placed), undisturbed=counted, disturbances=what)


def lasted(state: WindowState, seconds: float) -> Disturbance:
    return Disturbance(state, 0.1, seconds, 0, 1e6)


def log_of(trials: Iterable[TrialData]) -> RigCondition:
    log = RigCondition()
    for trial in trials:
        log.add(trial)
    return log


def rig_condition_of(trials: Iterable[TrialData]) -> RigCondition | None:
    return log_of(trials).did


def test_trials_are_near_far_or_moved() -> None:
    placed = [NEAR, NEAR, FAR, MOVED, CpuDistance(320, 90, far=True, near_ns=120), CpuDistance(None, None)]
    assert observed_bands(placed) == ObservedBands(2, 1, 2, 105, 310)
    assert observed_bands([ONE_BAND]) == ObservedBands(1, 0, 0, 100, None)
    assert observed_bands([CpuDistance(None, None)]) is None


def test_a_disturbed_run_says_so_first_with_its_figures(trial: TrialData) -> None:
    both, paused = lasted(WindowState.BOTH_SHARED, 0.3), lasted(WindowState.PAUSED, 0.01)
    changed, dut = lasted(WindowState.CHANGED, 5.0), lasted(WindowState.DUT_SHARED, 0.2)
    did = rig_condition_of(
        [seen(trial, NEAR, 10, both, paused, changed), seen(trial, FAR, 30, dut), seen(trial, MOVED)]
    )
    assert did is not None
    assert not did.quiet
    assert str(did) == (
        "The rig was disturbed, so rates are at least those shown, unless marked ≤: CPUs of generator and DUT near "
        "(105 ns) in 1 of 3 trials, far (310 ns) in 1, moved in 1; 20 % of 200 windows undisturbed, the others mostly: "
        "both cores shared, DUT's core shared"
    )


def test_a_quiet_run_says_so_first(trial: TrialData) -> None:
    did = rig_condition_of([seen(trial, ONE_BAND, 95)])
    assert did is not None
    assert did.quiet
    assert str(did) == (
        "The rig was quiet: CPUs of generator and DUT near (100 ns) in 1 of 1 trials; 95 % of 100 windows undisturbed"
    )


@pytest.mark.parametrize(
    ("placed", "undisturbed", "quiet"), [(NEAR, 90, True), (NEAR, 89, False), (FAR, 100, False), (None, 90, True)]
)
def test_quiet_is_near_and_undisturbed(trial: TrialData, placed: CpuDistance, undisturbed: int, quiet: bool) -> None:
    did = rig_condition_of([seen(trial, placed, undisturbed)])
    assert did is not None
    assert did.quiet is quiet


@pytest.mark.parametrize(
    ("undisturbed", "grade"),
    [
        (0, "too disturbed to trust"),
        (9, "too disturbed to trust"),
        (10, "disturbed"),
        (89, "disturbed"),
        (90, "quiet"),
        (100, "quiet"),
    ],
)
def test_a_rig_has_one_of_three_grades(trial: TrialData, undisturbed: int, grade: str) -> None:
    did = rig_condition_of([seen(trial, NEAR, undisturbed)])
    assert did is not None
    assert str(did.grade) == grade
    assert did.quiet is (grade == "quiet")
    assert grade in did.headline


def test_far_cpus_disturb_a_rig_but_do_not_make_it_untrusted(trial: TrialData) -> None:
    did = rig_condition_of([seen(trial, FAR, 100), seen(trial, FAR)])
    assert did is not None
    assert did.grade is Grade.DISTURBED


@pytest.mark.parametrize("steps", [True, False])
def test_the_grade_stands_beside_the_verdict_also_where_steps_of_searches_are_left_out(
    trial: TrialData, tmp_path: Path, steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight green PASS of a rig on which nothing was undisturbed look like eight of a quiet one."""
    whole = read_run(write_sample(tmp_path, small_run()))
    sample = [
        make_record(seen(whole.trials[one.id], NEAR, 0), id=one.id, run=one.run, test=one.test, time_ns=one.time_ns)
        if one.id in whole.trials
        else one
        for one in small_run()
    ]
    (tmp_path / "evidence.jsonl").unlink()
    read = read_run(write_sample(tmp_path, sample), steps=steps)
    assert (len(read.trials) == len(whole.trials)) is steps
    conclusion = conclude(read)
    assert conclusion.rig == Grade.UNTRUSTED
    assert f"{conclusion.headline}. Rig: too disturbed to trust. " in conclusion.last_line
    accepted = conclude_run(
        RunFacts((TestFacts("t", status="passed", verdicts=(PASSED,), measured=True),), 0, rig=conclusion.rig)
    )
    assert accepted.last_line == (
        "Accepted: the one requirement met, the one selected test passed. Rig: too disturbed to trust. Measure again "
        "on a quieter machine before you rely on it (docs/explanation/noise.md). (exit status 0)"
    )
    assert "⛔ **Rig: too disturbed to trust**" in markdown(read, conclusion)
    assert markdown(read, accepted).startswith("## ⚠️ Accepted")
    if steps:
        page = render_report(read, tmp_path).read_text()
        assert '<span class="grade untrusted">Rig: too disturbed to trust</span>' in page
        ended_well = replace(conclusion, result=RunResult.ACCEPTED, exit_status=0)
        monkeypatch.setattr(html, "conclude", lambda _run: ended_well)
        assert 'class="verdict-line inconclusive"' in render_report(read, tmp_path).read_text()


def test_junit_and_allure_have_the_grade(run: RunEvidence, tmp_path: Path) -> None:
    passed = RunFacts((TestFacts("t", status="passed", verdicts=(PASSED,), measured=True),), 0, rig=Grade.UNTRUSTED)
    accepted = conclude_run(passed)
    (tmp_path / "junit.xml").write_text("<testsuites><testsuite/></testsuites>")
    write_junit(tmp_path / "junit.xml", accepted)
    properties = {each.get("name"): each.get("value") for each in ET.parse(tmp_path / "junit.xml").iter("property")}
    assert properties["nfvperf.rig"] == "too disturbed to trust"
    assert properties["nfvperf.advice"] == accepted.advice

    write_missing_results(tmp_path / "allure", run, replace(accepted, tests=()))
    environment = (tmp_path / "allure" / "environment.properties").read_text().splitlines()
    assert environment == [f"run={accepted.headline}", "rig=too disturbed to trust"]


def test_saturating_trials_count_by_the_windows_that_they_keep(trial: TrialData) -> None:
    speed = [ALONE] * 5 + [SHARED] * 5
    result = replace(trial.result, windows=windows([100] * 10, speed=speed), placement=None)
    did = rig_condition_of([replace(trial, result=replace(result, spec=replace(result.spec, duration_s=0.1)))])
    assert did is not None
    assert (did.bands, did.of, did.mostly) == (None, 10, [WindowState.GENERATOR_SHARED])
    assert 0 < did.windows < 5


def test_where_nobody_looked_nothing_is_said(run: RunEvidence, tmp_path: Path) -> None:
    assert run.machine.did is None
    assert "The rig was" not in markdown(run, conclude(run))
    assert "The rig was" not in render_report(run, tmp_path).read_text()


def test_page_and_markdown_say_it(run: RunEvidence, tmp_path: Path) -> None:
    trials = {key: seen(one, NEAR, 40) for key, one in run.trials.items()}
    watched = replace(run, trials=trials, machine=log_of(trials.values()))
    did = watched.machine.did
    assert did is not None
    assert "40 % of" in did.details
    assert f"- {escaped(str(did))}" in markdown(watched, conclude(watched)).splitlines()
    page = render_report(watched, tmp_path).read_text()
    assert '<br><span class="grade disturbed">Rig: disturbed</span></p>' in page
    assert f'<p class="notice disturbed"><b>{did.headline}</b>: {did.details}.</p>' in page


def test_a_runs_bands_are_in_its_fingerprint_and_do_not_make_machines_unlike() -> None:
    before = run_data()
    first, second = (
        with_bands(before, bands) for bands in (ObservedBands(9, 2, 1, 100, 310), ObservedBands(3, 0, 0, 80, None))
    )
    assert first.fingerprint["cpu_bands"] == {
        "near": {"trials": 9, "median_ns": 100},
        "far": {"trials": 2, "median_ns": 310},
        "moved_trials": 1,
    }
    assert second.fingerprint["cpu_bands"] == {"near": {"trials": 3, "median_ns": 80}}
    assert unlike(first.fingerprint, second.fingerprint) == ()
    assert "cpu_bands" not in before.fingerprint
