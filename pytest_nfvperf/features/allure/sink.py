"""Allure results of a run: the option, the files, and the sink that writes them as tests end.

Records become labels and attachments through allure-pytest's public API, and steps that have the times and statuses of
the measurements. Without ``--alluredir`` nothing is written, but drawing pictures takes time: then no sink is made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import allure
import allure_commons
import pytest
from allure_commons.model2 import Status

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, parse_line
from pytest_nfvperf.adapters.report.charts import MOST_CURVES, outcome_charts, soak_chart, study_chart
from pytest_nfvperf.adapters.report.comparison import comparison_chart, comparison_text
from pytest_nfvperf.adapters.report.figures import (
    class_figures,
    goal_figures,
    other_result,
    plateau,
    plateau_figures,
    soak_events,
    soak_facts,
    soak_line,
)
from pytest_nfvperf.adapters.report.page_parts import as_file, can_draw, to_png, to_svgs, trials_html
from pytest_nfvperf.adapters.report.subjects import find_comparisons, subject_name
from pytest_nfvperf.adapters.report.texts import (
    deployed_title,
    samples_csv,
    stream_line,
    topology_drawing,
    trial_line,
    trials_csv,
)
from pytest_nfvperf.adapters.report.topology_chart import topology_chart
from pytest_nfvperf.adapters.report.vega import View
from pytest_nfvperf.features.allure import results
from pytest_nfvperf.measure.measurer import WARM_UP
from pytest_nfvperf.model.display import format_against, format_margin
from pytest_nfvperf.model.evidence.comparison import ComparedRun, TestComparison
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion, TestFacts, conclude_test
from pytest_nfvperf.model.evidence.records import (
    AttachmentData,
    ErrorData,
    Record,
    RunData,
    SoakData,
    StreamData,
    TestData,
    TestEndData,
    TopologyData,
    TrialData,
)
from pytest_nfvperf.model.measure.compare import ComparisonData, ComparisonSettings
from pytest_nfvperf.model.measure.ledger import ledger_text
from pytest_nfvperf.model.measure.outcome import Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.plugin.output import failing_in_isolation, parts_of
from pytest_nfvperf.ports.machine import Sink

# allure-python-commons says py.typed, but half of its API has no annotations.
_attach: Any = allure.attach
_dynamic: Any = allure.dynamic

_MISSING = "results for Allure are missing"
_JUDGED = {Judgement.PASS: Status.PASSED, Judgement.FAIL: Status.FAILED, Judgement.INCONCLUSIVE: Status.BROKEN}


class AllureSink(Sink):
    """A Sink that writes into the running test's Allure result, which allure-pytest stores at the test's end.

    ``report_dir``: the ``--alluredir``, for the files about the run; None: attachments and steps only.
    ``evidence_dir``: attached files are relative to it. ``isolated``: a context in which a failure ends neither the
    test nor its evidence.
    """

    def __init__(
        self,
        report_dir: Path | None = None,
        evidence_dir: Path | None = None,
        isolated: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._report_dir = report_dir
        self._isolated = isolated
        self._evidence_dir = evidence_dir or Path()
        self._trials: dict[str, TrialData] = {}
        self._steps: dict[str, Any] = {}
        self._sampled: list[Outcome] = []
        self._drawn: tuple[TopologyData, bytes] | None = None
        self._verdicts: list[Verdict] = []
        self._errors: list[str] = []
        self._comparing: ComparisonSettings | None = None

    def emit(self, record: Record) -> None:
        with self._isolated():
            self._show(record)

    def _show(self, record: Record) -> None:
        data = parse_line(json.dumps(record.to_json())).data  # as a reader of the evidence has it
        match data:
            case RunData():
                self._comparing = data.compare
                if self._report_dir is not None:
                    results.write_allure_files(self._report_dir, data, os.environ)
            case TestData():
                for store in (self._trials, self._steps, self._sampled, self._verdicts, self._errors):
                    store.clear()
                _label(data)
            case TestEndData():
                verdicts, errors = tuple(self._verdicts), tuple(self._errors)
                facts = TestFacts(record.test, status=data.status, verdicts=verdicts, errors=errors)
                facts = replace(facts, cause=data.cause, reason=data.reason)
                results.set_allure_result(conclude_test(facts))
            case TopologyData():
                self._topology(data)
            case AttachmentData():
                self._attach(data)
            case _:
                self._show_result(record, data)

    def _show_result(self, record: Record, data: object) -> None:
        name, end_ns = record.id, record.time_ns
        match data:
            case TrialData():
                self._trials[name] = data
                status, why = _trial_status(data)
                self._add_trial(name, trial_line(data), end_ns, data.wall_s, status, why)
            case StreamData():
                status = Status.SKIPPED if data.result.invalid else Status.PASSED
                why = "; ".join(map(str, data.result.invalid))
                self._add_trial(name, stream_line(data), end_ns, data.wall_s, status, why)
            case SoakData():
                soak = data.soak
                with results.result_step(f"soak: {soak_line(soak)}", end_ns=end_ns, seconds=soak.elapsed_s):
                    facts = [f"{name}: {text}" for name, text in soak_facts(soak)]
                    _attach("\n".join([*facts, "", *soak_events(soak)]), "soak", allure.attachment_type.TEXT)
                    _picture("over time", soak_chart(soak, data.series))
            case Outcome():
                title, seconds = _outcome_title(data), data.elapsed_s
                aborted = dict.fromkeys(g.detail for g in data.goals if g.status is SearchStatus.ABORTED)
                status, why = Status.BROKEN if aborted else Status.PASSED, "; ".join(aborted)
                with results.result_step(title, end_ns=end_ns, seconds=seconds, status=status, message=why) as step:
                    results.move_steps([self._steps.pop(key) for key in data.trials if key in self._steps], step)
                    _attach_outcome(data, self._trials)
                self._study(data)
            case Verdict():
                self._verdicts.append(data)
                _verdict_step(data, end_ns)
            case ComparisonData() if self._comparing is not None:
                compared = ComparedRun("", self._comparing, (TestComparison("", data),))
                _attach(comparison_text(compared), "comparison", allure.attachment_type.TEXT)
                _picture("comparison", comparison_chart(compared))
            case ErrorData():
                self._errors.append(data.message)
                title = f"{data.error}: {data.message}"
                with results.result_step(title, end_ns=end_ns, status=Status.BROKEN, message=data.message):
                    pass
                for name, text in data.evidence.items():
                    _attach(text, name, allure.attachment_type.TEXT)

    def _add_trial(self, name: str, line: str, end_ns: int, seconds: float, status: str, why: str) -> None:
        """Add the step of a trial; the outcome that rests on it takes it in."""
        title = f"{name} · {line}"
        with results.result_step(title, end_ns=end_ns, seconds=seconds, status=status, message=why) as step:
            self._steps[name] = step

    def _study(self, outcome: Outcome) -> None:
        """Attach the readings of a subject; after the last subject, the picture of all."""
        if not outcome.samples:
            return
        self._sampled.append(outcome)
        _attach(samples_csv(outcome), f"readings: {subject_name(outcome)}", allure.attachment_type.CSV)
        if outcome.slopes:
            found = find_comparisons(self._sampled)
            _picture("ratio to the baseline", study_chart(found[:MOST_CURVES]) if found else None)

    def _topology(self, deployed: TopologyData) -> None:
        """Attach picture and text. Keep the picture for the next test: drawing it takes longer than all else."""
        title = deployed_title(deployed)
        if self._drawn is None or self._drawn[0] != deployed:
            svg = topology_chart(deployed, title) if can_draw() else ""
            self._drawn = (deployed, to_png(as_file([svg])) if svg else b"")
        if self._drawn[1]:
            _attach(self._drawn[1], f"topology {title}", allure.attachment_type.PNG)
        _attach(topology_drawing(deployed), f"topology {title}, as text", allure.attachment_type.TEXT)

    def _attach(self, data: AttachmentData) -> None:
        kinds = (kind for kind in allure.attachment_type if kind.mime_type == data.media_type)
        kind = next(kinds, allure.attachment_type.TEXT)
        if data.text is not None:
            _attach(data.text, data.name, kind)
        elif data.path is not None:
            _attach.file(str(self._evidence_dir / data.path), data.name, kind)


def _label(data: TestData) -> None:
    labels = dict(data.labels)
    if "suite" in labels:
        _dynamic.suite(labels["suite"])
    if "topology" in labels:
        _dynamic.feature(labels["topology"])
    results.set_allure_parameters(data)


def _trial_status(trial: TrialData) -> tuple[str, str]:
    """Allure's status of a trial's step, and why. Skipped: it counts for nothing. Failed: this load was too much.

    The status of the test does not follow from it: a search loads the DUT until frames are lost.
    """
    spec = trial.result.spec
    if trial.result.invalid:
        return Status.SKIPPED, "; ".join(map(str, trial.result.invalid))
    if spec.purpose == WARM_UP:
        return Status.SKIPPED, "a warm-up counts for nothing"
    if spec.saturating:
        return Status.PASSED, ""
    if trial.judgement.counted.loss_ratio is None:
        return Status.UNKNOWN, "nothing was offered"
    # No message for a loss, which the title states: Allure 3 opens each failed step, and calls a message an error.
    return (Status.PASSED if trial.judgement.counted.loss_ratio <= (spec.give_up_loss or 0.0) else Status.FAILED), ""


def _outcome_title(outcome: Outcome) -> str:
    found = []
    for goal in outcome.goals:
        figure = goal_figures(outcome, goal.goal.name).mpps
        found.append(f"{goal.goal.name.upper()} {figure}" + (" Mpps" if goal.load_fps is not None else ""))
    found += [f"plateau {plateau_figures(outcome).mpps} Mpps"] if plateau(outcome) else []
    return f"{outcome.algorithm}: {', '.join(found) or other_result(outcome)}"


def _attach_outcome(outcome: Outcome, trials: dict[str, TrialData]) -> None:
    """Attach what is known of an outcome to the step that is open."""
    own = [(key, trials[key]) for key in outcome.trials if key in trials]
    if own:
        _attach(trials_csv(own), "trials", allure.attachment_type.CSV)
        _attach(trials_html(own), "trials, readable", allure.attachment_type.HTML)
    for row in class_figures(outcome):
        with allure.step(f"class {row.name} at {row.at}: {row.rate}, lost {row.lost}, p99 {row.p99}"):
            pass
    names = {"latency": "latency by percentile", "loss": "loss against load"}
    for name, chart in outcome_charts(outcome, trials).items():
        _picture(names.get(name, name), chart)
    lossy = [(k, t) for k, t in own if t.result.valid and t.result.lost > 0 and t.ledger is not None]
    if lossy:
        key, trial = min(lossy, key=lambda item: item[1].result.spec.load_fps)
        if trial.ledger is not None:
            _attach(ledger_text(trial.ledger), f"where frames went: {key}", allure.attachment_type.TEXT)


def _picture(name: str, chart: Sequence[View] | None) -> None:
    if chart is not None and can_draw():
        _attach(to_png(as_file(to_svgs(chart, name))), name, allure.attachment_type.PNG)


def _verdict_step(verdict: Verdict, end_ns: int) -> None:
    observed = format_against(verdict.observed, verdict.limit, verdict.unit)
    margin = format_margin(verdict.margin, verdict.times_limit)
    title = f"{verdict.judgement.value}: {verdict.requirement}, observed {observed}, margin {margin}"
    passed = verdict.judgement is Judgement.PASS
    why = "" if passed else verdict.reason or verdict.judgement.value
    with results.result_step(title, end_ns=end_ns, status=_JUDGED[verdict.judgement], message=why):
        pass


class AllureResults:
    """Fulfils ResultExporter. ``directory``: the ``--alluredir``."""

    def __init__(self, config: pytest.Config, directory: str) -> None:
        self._config = config
        self._directory = Path(directory)
        self._parts = parts_of(config)

    def sink(self, run_dir: Path) -> Sink:
        _isolate_allure(self._config)
        return AllureSink(self._directory, run_dir, partial(self._parts.isolated, "steps for Allure are missing"))

    def interrupted(self, became: TestConclusion) -> None:
        """Allure judges an unfinished test by its set-up, and would call it passed."""
        with self._parts.isolated(_MISSING):
            results.set_allure_result(became)

    def concluded(self, run: RunEvidence, conclusion: RunConclusion) -> None:
        """Write results of tests that no process could write one for."""
        with self._parts.isolated(_MISSING):
            results.write_missing_results(self._directory, run, conclusion)


def _isolate_allure(config: pytest.Config) -> None:
    """A result that allure-pytest cannot write is missing, and the test goes on.

    Its files and its names of tests take UTF-8 alone, and a path may hold what is none: such texts are escaped first.
    """
    parts = parts_of(config)
    for module in map(sys.modules.get, ("allure_commons.utils", "allure_pytest.listener", "allure_pytest.utils")):
        if hasattr(module, "md5"):
            vars(module)["md5"] = _with_storable_texts(vars(module)["md5"])
    for name in ("report_result", "report_container", "report_attached_file", "report_attached_data"):
        for impl in getattr(allure_commons.plugin_manager.hook, name).get_hookimpls():
            written = failing_in_isolation(impl.function, parts, _MISSING, (Exception,))
            impl.function = _with_storable_texts(written)


def _with_storable_texts(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *arguments: function(*map(results.storable_texts, arguments))
