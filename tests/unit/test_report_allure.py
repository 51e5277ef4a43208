"""Allure: a real pytest run with --alluredir has steps, labels, parameters and attachments in its results."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.hdr import encode
from pytest_nfvperf.adapters.evidence.reader import parse_line
from pytest_nfvperf.adapters.report.texts import trials_csv
from pytest_nfvperf.features.allure.results import executor, write_allure_files
from pytest_nfvperf.features.allure.sink import _trial_status
from pytest_nfvperf.model.evidence.records import RunData, TrialData, trial_data
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, failure_table
from tests.sample_run import TESTBED, SampleRun
from tests.unit.test_never_wrong import Row, trial_of

ROOT = Path(__file__).parents[2]
TEST = f"""
import sys
from pathlib import Path
import pytest
sys.path.insert(0, {str(ROOT)!r})
from tests.sample_run import TESTBED, SampleRun
from pytest_nfvperf.features.allure.sink import AllureSink

def emit(report_dir, build):
    sample = SampleRun()
    sample.begin()
    build(sample)
    sink = AllureSink(report_dir)
    for record in sample.records:
        sink.emit(record)
    sink.close()

@pytest.mark.parametrize("frame_size", [64])
def test_search(frame_size, request):
    alluredir = request.config.getoption("--alluredir")
    emit(Path(alluredir) if alluredir else None, lambda sample: sample.throughput_test("phy2phy", 64))

def aborted(sample):
    sample.throughput_test("phy2phy", 64)
    for record in sample.records:
        for goal in record.data["goals"] if record.kind == "outcome" else ():
            goal.update(status="aborted", load_fps=None, confirmation=None, detail="no trial was valid")

def test_aborted():
    emit(None, aborted)

def test_broken():
    emit(None, lambda sample: sample.broken_tests())
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The alluredir of one run of ``TEST``, in a process of its own."""
    directory = tmp_path_factory.mktemp("allure")
    (directory / "test_it.py").write_text(TEST)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:nfvperf", "--alluredir=results", "test_it.py"]
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "results"


def result_of(results: Path, name: str) -> dict[str, Any]:
    """The result file of one test."""
    found = [json.loads(path.read_text()) for path in results.glob("*-result.json")]
    return next(result for result in found if result["name"].startswith(name))


def walk(step: dict[str, Any]) -> list[dict[str, Any]]:
    """A step and all below it."""
    return [step, *(inner for child in step.get("steps", []) for inner in walk(child))]


def test_labels_and_parameters(results: Path) -> None:
    result = result_of(results, "test_search")
    labels = {(label["name"], label["value"]) for label in result["labels"]}
    assert ("suite", "throughput") in labels
    assert ("feature", "phy2phy") in labels
    assert [label for name, label in labels if name == "suite"] == ["throughput"]
    names = [parameter["name"] for parameter in result["parameters"]]
    assert len(names) == len(set(names))
    assert {"frame_size", "flows", "datapath"} <= set(names)


def test_a_step_for_each_trial_and_verdict(results: Path) -> None:
    steps = walk(result_of(results, "test_search"))[1:]
    trials = [step for step in steps if re.match(r"trial-\d+ · ", step["name"])]
    assert len(trials) > 20
    invalid = [step for step in trials if "invalid: skipped_frames" in step["name"]]
    assert invalid
    assert {step["status"] for step in invalid} == {"skipped"}
    verdicts = {step["name"].split(":")[0]: step["status"] for step in steps if "observed" in step["name"]}
    assert verdicts == {"PASS": "passed", "INCONCLUSIVE": "broken"}


def test_a_trials_step_lasts_as_long_as_it_did_and_tells_whether_it_was_lossy(results: Path) -> None:
    """The trials of a search are folded into its outcome; a lossy one has not passed."""
    result = result_of(results, "test_search")
    (outcome,) = [step for step in result["steps"] if step["name"].startswith("mlrsearch: ")]
    searched = [step for step in outcome["steps"] if " · search" in step["name"] and "invalid" not in step["name"]]
    assert not [step for step in result["steps"] if " · search" in step["name"]]
    assert {"passed", "failed"} == {step["status"] for step in searched}
    assert all(("(0 %)" in step["name"]) == (step["status"] == "passed") for step in searched), searched
    assert all(step["stop"] - step["start"] > 100 for step in searched)
    assert outcome["stop"] - outcome["start"] > 0
    warm_ups = [step for step in outcome["steps"] if " · warm-up" in step["name"]]
    assert {(step["status"], step["statusDetails"]["message"]) for step in warm_ups} <= {
        ("skipped", "a warm-up counts for nothing")
    }


@pytest.mark.parametrize(("goal", "status"), [(0.01, "passed"), (0.001, "failed"), (None, "failed")])
def test_a_trial_that_lost_what_its_goal_allows_passed(goal: float | None, status: str) -> None:
    """And the confirmation of a PDR is green, although it lost frames."""
    trial = trial_of([Row(skipped=0, refused=0, missing=5, shared=False, absent=False)] * 50)
    result = replace(trial.result, spec=replace(trial.result.spec, purpose="confirmation of pdr", give_up_loss=goal))
    assert _trial_status(trial_data(result, wall_s=1.0, encode=encode)) == (status, "")


def test_a_search_that_was_aborted_is_broken_and_says_why(results: Path) -> None:
    (outcome,) = [step for step in result_of(results, "test_aborted")["steps"] if step["name"].startswith("mlrsearch")]
    assert outcome["name"].startswith("mlrsearch: NDR aborted, PDR aborted")
    assert outcome["status"] == "broken"
    assert outcome["statusDetails"]["message"] == "no trial was valid"


def test_the_outcome_has_its_table_and_pictures(results: Path) -> None:
    steps = walk(result_of(results, "test_search"))
    outcome = next(step for step in steps if step["name"].startswith("mlrsearch: NDR ≥ 7."))
    attached = {a["name"]: results / a["source"] for a in outcome["attachments"]}
    assert {"trials", "trials, readable", "search", "latency by percentile"} <= set(attached)
    assert attached["search"].read_bytes().startswith(b"\x89PNG")
    assert attached["trials"].read_text().startswith("trial,purpose,load_fps")
    assert "<table>" in attached["trials, readable"].read_text()
    ledger = next(path for name, path in attached.items() if name.startswith("where frames went: trial-"))
    assert "ovs_tx_failure_drops" in ledger.read_text()
    drawings = {a["name"]: results / a["source"] for step in steps for a in step.get("attachments", [])}
    assert drawings["topology phy2phy · dpdk datapath"].read_bytes().startswith(b"\x89PNG")
    assert "p0 <-> p1" in drawings["topology phy2phy · dpdk datapath, as text"].read_text()
    configuration = [a for step in steps for a in step.get("attachments", []) if a["name"] == "OVS configuration"]
    assert len(configuration) == 1


def test_an_error_shows_its_evidence(results: Path) -> None:
    steps = walk(result_of(results, "test_broken"))
    error = next(step for step in steps if step["name"].startswith("GeneratorError: nfvperf-gen died"))
    assert error["status"] == "broken"
    texts = [(results / a["source"]).read_text() for step in steps for a in step.get("attachments", [])]
    assert any("vhost-user backend disconnected" in text for text in texts)


def test_environment_categories_and_executor_stand_beside(results: Path) -> None:
    environment = dict(line.split("=", 1) for line in (results / "environment.properties").read_text().splitlines())
    assert environment["dut"] == "OVS 3.1.0 (dpdk)"
    assert environment["hugepages.2048kB"] == "1024"
    assert {category["name"] for category in categories(results)} >= {
        "SLA failure",
        "SLA inconclusive",
        "Testbed error",
    }
    assert json.loads((results / "executor.json").read_text())["name"]


def test_allure_3_gets_the_categories_by_its_configuration(results: Path) -> None:
    """It takes them from nowhere else: without, an SLA failure is a "Product error"."""
    allurerc = json.loads((results / "allurerc.json").read_text())

    assert allurerc["categories"] == categories(results)
    assert allurerc["name"] == f"Datapath acceptance: {TESTBED.name}"
    assert allurerc["historyPath"] == "allure-history.jsonl"


def categories(directory: Path) -> list[dict[str, Any]]:
    """categories.json."""
    read: list[dict[str, Any]] = json.loads((directory / "categories.json").read_text())
    return read


def verdict(judgement: Judgement) -> Verdict:
    """A verdict."""
    return Verdict(judgement, "ndr >= 4 Mpps", "ndr", 4e6, "pps", 3e6, -0.25, "why", "sla.yaml: rules[0]")


@pytest.mark.parametrize(
    ("judgements", "name"),
    [
        ((Judgement.FAIL, Judgement.PASS), "SLA failure"),
        ((Judgement.FAIL, Judgement.INCONCLUSIVE), "SLA failure"),
        ((Judgement.INCONCLUSIVE, Judgement.PASS), "SLA inconclusive"),
    ],
)
@pytest.mark.parametrize("subject", ["test x", f"test x{', label 1' * 7}", f"test x{', label 1' * 20}"])
def test_the_message_of_a_failed_sla_falls_into_one_category(
    judgements: tuple[Judgement, ...], name: str, subject: str
) -> None:
    """However many lines its headline has."""
    table = failure_table([verdict(judgement) for judgement in judgements], subject=subject)
    message = f"pytest_nfvperf.session.slas.SlaFailure: {table}"
    fitting = [c["name"] for c in categories(ROOT / "reports" / "allure") if re.fullmatch(c["messageRegex"], message)]
    assert fitting == [name]


def test_errors_fall_into_the_category_of_testbed_errors() -> None:
    message = "pytest_nfvperf.model.errors.GeneratorError: nfvperf-gen died\nlog"
    fitting = [c["name"] for c in categories(ROOT / "reports" / "allure") if re.fullmatch(c["messageRegex"], message)]
    assert fitting == ["Testbed error"]


def test_environment_values_stay_on_one_line(tmp_path: Path) -> None:
    data = RunData("1", "3", (), "quick", TESTBED, "", {"a b": "x\ny", "path": "c:\\d"})
    write_allure_files(tmp_path, data, {})
    lines = (tmp_path / "environment.properties").read_text().splitlines()
    assert "a_b=x y" in lines
    assert "path=c:\\\\d" in lines


def test_the_executor_is_the_ci_job() -> None:
    github = {"GITHUB_RUN_ID": "7", "GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "a/b"}
    assert executor(github)["buildUrl"] == "https://git.example/a/b/actions/runs/7"
    assert executor({"GITLAB_CI": "1", "CI_PIPELINE_URL": "u", "CI_JOB_NAME": "j"})["type"] == "gitlab"
    assert executor({"JENKINS_URL": "x", "BUILD_TAG": "t"})["buildName"] == "t"
    assert executor({})["type"] == "local"


def test_the_csv_has_a_line_a_trial() -> None:
    sample = SampleRun()
    sample.begin()
    sample.broken_tests()
    lines = [parse_line(json.dumps(record.to_json())) for record in sample.records if record.kind == "trial"]
    trials = [(line.id, line.data) for line in lines if isinstance(line.data, TrialData)]
    rows = list(csv.DictReader(io.StringIO(trials_csv(trials))))
    assert rows[0]["trial"] == "trial-0001"
    assert int(rows[0]["lost"]) == 2 * (3_000_000 - 2_000_000)
    assert rows[0]["valid"] == "True"
