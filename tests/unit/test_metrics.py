"""The registry of metrics: a new metric is an entry there and whoever measures it, and every reader has it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.comparison import compared_runs
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.report.comparison import comparison_text
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.junit import junit_properties
from pytest_nfvperf.adapters.report.summary_table import run_table
from pytest_nfvperf.config.schemas import schema_of_sla
from pytest_nfvperf.config.sla_file import parse_limit, sla_warnings
from pytest_nfvperf.features.export import export
from pytest_nfvperf.features.history.command import entry_of, watch
from pytest_nfvperf.features.history.files import History
from pytest_nfvperf.features.history.series import ChangeMeaning, HistoryFigure, series_of
from pytest_nfvperf.model.evidence.records import KINDS, RecordIds, RunEndData, TestData, TestEndData, make_record
from pytest_nfvperf.model.figure import exact
from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome, LossPoint, Outcome, SearchStatus
from pytest_nfvperf.model.metrics import LOWER, METRICS, Metric
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.statistics import Samples
from tests.config_support import parse_sla
from tests.history_support import entry
from tests.outcomes import measured
from tests.sample_run import run_data
from tools.reference_pages import metrics_table

WAIT = Metric("mean wait", "how long a frame waits", "ns", LOWER, "5 us", compared=True, column="mean\nwait")
LABELS = (("frame_size", "64"), ("suite", "throughput"), ("test", "test_rate"), ("topology", "phy2phy"))
SPREAD = (0.99, 0.995, 1.0, 1.005, 1.01, 1.0, 0.997, 1.003)


def of_a_search(wait_ns: float) -> Outcome:
    """An outcome that has the metric as one figure."""
    goal = GoalOutcome(Goal("ndr", 0.0), SearchStatus.FOUND, 4_020_000, 4_040_000)
    return Outcome(LABELS, "mlrsearch", 64.0, 2, goals=(goal,), figures=(exact("mean_wait", wait_ns, "ns"),))


def by_itself(wait_ns: float) -> Outcome:
    return replace(of_a_search(wait_ns), goals=())


def at_fixed_loads(wait_ns: float) -> Outcome:
    """An outcome whose line in the terminal has another figure."""
    own = by_itself(wait_ns)
    found = measured(replace(own, figures=(), loss_curve=(LossPoint(4_000_000, 0.0, "trial-0001"),)))
    return replace(found, figures=(*found.figures, *own.figures))


def of_a_study(wait_ns: float) -> Outcome:
    """An outcome that has it as readings."""
    readings = tuple(wait_ns * share for share in SPREAD)
    return measured(Outcome(LABELS, "waits", 64.0, 2, samples=(Samples("mean_wait", WAIT.unit, readings),)))


measurers = pytest.mark.parametrize("measure", [of_a_search, by_itself, at_fixed_loads, of_a_study])


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "mean_wait", WAIT)


def run_of(folder: Path, outcome: Outcome) -> RunEvidence:
    ids, writer = RecordIds(), EvidenceWriter(folder / "evidence.jsonl")
    payloads = [run_data(), TestData(LABELS), outcome, TestEndData("passed", 1.0), RunEndData(0, 2.0)]
    for number, payload in enumerate(payloads):
        test = "t.py::rate" if 0 < number < 4 else ""
        record_id = ids.next(KINDS[type(payload)])
        started = 1_790_000_000_000_000_000 + number
        writer.emit(make_record(payload, id=record_id, run=folder.name, test=test, time_ns=started))
    writer.close()
    return read_run(folder)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str, Outcome], RunEvidence]:
    def write(name: str, outcome: Outcome) -> RunEvidence:
        (tmp_path / name).mkdir()
        return run_of(tmp_path / name, outcome)

    return write


@measurers
def test_a_rule_judges_it(measure: Callable[[float], Outcome]) -> None:
    outcome = measure(4200.0)
    sla = parse_sla("schema: 1\nrules:\n  - require: {mean_wait: ['<= 5 us', '<= 4.1 us']}\n")
    verdicts = judge(sla.rules, outcome.label, outcome.figures, lambda _: None)
    assert [(each.judgement, each.observed, each.unit) for each in verdicts] == [
        (Judgement.PASS, 4200.0, "ns"),
        (Judgement.FAIL, 4200.0, "ns"),
    ]


def test_the_words_of_the_language_have_it() -> None:
    with pytest.raises(ValueError, match="'4 Mpps' is a frame rate, but mean_wait is a time"):
        parse_limit("mean_wait", "<= 4 Mpps")
    (reason,) = sla_warnings(parse_sla("schema: 1\nrules:\n  - require: {mean_wait: '>= 5 us'}\n"))
    assert "fails a DUT for being better" in reason
    assert "mean_wait" in schema_of_sla()["$defs"]["RuleSection"]["properties"]["require"]["properties"]
    assert "| `mean_wait` | mean wait: how long a frame waits | `<= 5 us` |" in metrics_table()


@measurers
def test_terminal_page_junit_and_export_show_it_in_its_unit(
    measure: Callable[[float], Outcome], made: Callable[[str, Outcome], RunEvidence], tmp_path: Path
) -> None:
    run = made("run", measure(4200.0))
    table = run_table(run, conclude(run))
    assert "4.20 us" in table
    if measure is not of_a_study:  # whose line begins with the figure that it is about
        assert {"mean", "wait"} <= set(table.split())

    page = render_report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "mean wait" in page
    assert "4.20 us" in page

    (value,) = (text for name, text in junit_properties([measure(4200.0)]) if name == "nfvperf.mean_wait")
    assert float(value) == 4200.0

    export([run], tmp_path)
    with (tmp_path / "figures.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "mean_wait"]
    assert [(row["unit"], float(row["value"])) for row in rows] == [("ns", 4200.0)]


@measurers
def test_a_history_knows_which_direction_is_worse(
    measure: Callable[[float], Outcome], made: Callable[[str, Outcome], RunEvidence]
) -> None:
    entries = [
        replace(entry_of(made(f"run-{number:02}", measure(wait))), started_ns=number)
        for number, wait in enumerate([4200.0, 4210.0, 4190.0, 4205.0] * 3 + [5200.0, 5190.0, 5210.0, 5205.0] * 2)
    ]
    (found,) = watch(History(tuple(entries), (), ()), "", "mean_wait")
    assert found.series.unit == "ns"
    assert [(change.run, change.direction) for change in found.changes] == [("run-12", ChangeMeaning.WORSE)]


def test_a_history_has_a_renamed_metric_under_its_new_name() -> None:
    old = [entry(number, HistoryFigure("spoiled_ratio", "ratio", 0.01)) for number in range(3)]
    (series,) = series_of([*old, entry(3, HistoryFigure("disturbed_ratio", "ratio", 0.02))])
    assert (series.metric, len(series.points)) == ("disturbed_ratio", 4)
    assert series.is_about("", "spoiled_ratio")


@measurers
def test_runs_are_compared_by_it(
    measure: Callable[[float], Outcome], made: Callable[[str, Outcome], RunEvidence]
) -> None:
    compared = compared_runs(made("first", measure(4200.0)), made("second", measure(5200.0)), 0.02)
    (side,) = compared.tests[0].data.sides
    (metric,) = (each for each in side.metrics if each.metric == "mean_wait")
    assert (metric.better, metric.unit) == (LOWER, "ns")
    assert metric.value == pytest.approx(5200.0)
    if measure is of_a_study:
        assert metric.word == "slower"
        assert "mean wait" in comparison_text(compared)
