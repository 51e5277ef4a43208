"""One self-contained HTML page of a run, in three depths: the verdict, a section a suite, the evidence.

It needs no server and no network. Charts are interactive where scripts run, and pictures elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_nfvperf.adapters.evidence.comparison import compared_run
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report import browser, figures, studies
from pytest_nfvperf.adapters.report.charts import ChartFolder, NoteFault, raise_fault
from pytest_nfvperf.adapters.report.comparison_page import comparison_page
from pytest_nfvperf.adapters.report.conclusion_page import chips, closest, faults, head_style, selected
from pytest_nfvperf.adapters.report.live.study import live_study
from pytest_nfvperf.adapters.report.live.sweep import live_sweep
from pytest_nfvperf.adapters.report.pages import SuitePage, TestPage, facts, flattened, test_page
from pytest_nfvperf.adapters.report.published_relations import PublishedRelation, subjects_of
from pytest_nfvperf.adapters.report.published_series import PublishedSeries
from pytest_nfvperf.adapters.report.studies import (
    Comparison,
    find_comparisons,
    metric_name,
    notes_below,
    slope_line,
    subject_notes,
)
from pytest_nfvperf.adapters.report.study_chart import MOST_CURVES, study_chart
from pytest_nfvperf.adapters.report.subjects import differing, distinctions, test_name
from pytest_nfvperf.adapters.report.sweep_chart import sweep_chart
from pytest_nfvperf.adapters.report.sweeps import Sweep, find_sweeps
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.adapters.report.topology_pages import MOST_OPEN, topology_pages
from pytest_nfvperf.model.evidence.conclusion import OUTSIDE, RunConclusion, subject_badge
from pytest_nfvperf.model.evidence.machine_did import machine_did
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.traffic.latency_origin import latency_origin

MOST_UNPACKED_TRIALS = 2_000
"""Of a run with more trials, what the page has of each test is packed until somebody opens it."""

MOST_PICTURED_TESTS = 60
"""Of a run with more tests, interactive charts are drawn by the browser alone: a picture takes a quarter second."""


def render_report(
    run: RunEvidence,
    out_dir: Path,
    published: Sequence[PublishedSeries] = (),
    *,
    relations: Sequence[PublishedRelation] = (),
    png: bool = True,
    time_for_charts: Callable[[], bool] = lambda: True,
    note: NoteFault = raise_fault,
) -> Path:
    """Write ``report.html`` into ``out_dir``, and each chart as PNG into ``out_dir/charts``.

    Args:
        run: from ``read_run``.
        out_dir: made when missing.
        published: figures to show beside the sweeps they belong to.
        relations: published ones, to show in the suites that they stand beside.
        png: also write the charts as PNG files, which takes about as long as the page.
        time_for_charts: asked before each; once there is none, the page says that charts are missing.
        note: told of charts that cannot be made; by default the first of them raises.

    Returns:
        The page's path.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    pictures = len(run.tests) <= MOST_PICTURED_TESTS
    charts = ChartFolder(out_dir / "charts" if png else None, time_for_charts, pictures=pictures, note=note)
    conclusion = conclude(run)
    suites = _suites(run, conclusion, published, charts)
    for suite in suites:
        of_it = [one for one in relations if one.suite == suite.name]
        suite.relations += zip(subjects_of(of_it), of_it, strict=True)
    context = _context(run, conclusion, suites, published)
    context["topologies"] = topology_pages([page for suite in suites for page in suite.tests], charts)
    compared = compared_run(run, conclusion)
    context["comparison"] = None if compared is None else comparison_page(compared, charts)
    context["folded"] = len(context["topologies"]) > MOST_OPEN
    context["large"] = len(run.trials) > MOST_UNPACKED_TRIALS
    page = out_dir / "report.html"
    write_whole(page, _rendered(context))
    return page


def _rendered(context: dict[str, Any]) -> str:
    made = environment()
    body = made.get_template("test_body.html")
    context["body_of"] = lambda page: Markup(body.render(context, page=page))  # noqa: S704 - the template escapes
    context["browser"] = browser
    return made.get_template("report.html").render(context)


def _suites(
    run: RunEvidence, conclusion: RunConclusion, published: Sequence[PublishedSeries], charts: ChartFolder
) -> list[SuitePage]:
    suites: dict[str, SuitePage] = {}
    listed: set[str] = set()
    for number, test in enumerate(run.tests.values(), 1):
        if test.node_id or test.outcomes or test.errors:
            name = dict(test.data.labels).get("suite", "other")
            suite = suites.setdefault(name, SuitePage(name))
            became = conclusion.test(test.node_id) if test.node_id else OUTSIDE
            suite.tests.append(test_page(test, became, run, f"test-{number}", charts, listed))
    for suite in suites.values():
        outcomes = [outcome for page in suite.tests for outcome in page.evidence.outcomes.values()]
        for number, sweep in enumerate(find_sweeps(outcomes), 1):
            suite.sweeps.append(_sweep(suite.name, number, sweep, published, charts))
        suite.sweeps += _studies(suite.name, outcomes, charts)
    return list(suites.values())


def _sweep(
    suite: str, number: int, sweep: Sweep, published: Sequence[PublishedSeries], charts: ChartFolder
) -> tuple[str, Markup]:
    labels = [outcome.label for one in sweep.series for outcome in one.outcomes]
    beside = [p for p in published if sweep.axis == "frame_size" and any(p.belongs_to(label) for label in labels)]
    title = f"{sweep.axis.replace('_', ' ').capitalize()} sweep: {', '.join(one.name for one in sweep.series)}"
    live = live_sweep(sweep.series, beside, axis=sweep.axis)
    name = f"sweep {suite} {sweep.axis} {number}"
    return title, charts.add(
        lambda: sweep_chart(sweep.series, beside, axis=sweep.axis), name, f"{suite}: {title}", live
    )


def _studies(suite: str, outcomes: Sequence[Outcome], charts: ChartFolder) -> list[tuple[str, Markup]]:
    """A chart for each metric and label, at most so many curves in one; below it, what a reader must know."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in find_comparisons(outcomes):
        groups.setdefault((comparison.main, comparison.per), []).append(comparison)
    shown = []
    for (main, per), members in groups.items():
        for first in range(0, len(members), MOST_CURVES):
            part = members[first : first + MOST_CURVES]
            name = f"study {suite} {main} {per} {first // MOST_CURVES + 1}"
            shown.append(_study(suite, part, name, charts))
    return shown


def _study(suite: str, part: Sequence[Comparison], name: str, charts: ChartFolder) -> tuple[str, Markup]:
    title = f"{metric_name(part[0].main).capitalize().replace('Tcp', 'TCP')} against {part[0].per}"
    chart = charts.add(lambda: study_chart(part), name, f"{suite}: {title}", live_study(part))
    return title, chart + _study_notes(part)


def _study_notes(comparisons: Sequence[Comparison]) -> Markup:
    lines = [f"{one.name}: {line}" for one in comparisons for line in (slope_line(one), *subject_notes(one)) if line]
    lines += notes_below(comparisons)
    return Markup("").join(Markup('<figcaption class="soft small">{}</figcaption>').format(line) for line in lines)


def _context(
    run: RunEvidence,
    conclusion: RunConclusion,
    suites: Sequence[SuitePage],
    published: Sequence[PublishedSeries],
) -> dict[str, Any]:
    pages = [page for suite in suites for page in suite.tests]
    data = run.run
    trials = [trial.result for trial in run.trials.values()]
    return {
        "run": run,
        "data": data,
        "title": f"Datapath acceptance: {data.testbed.name if data else run.path.name}",
        "style": style(),
        "chips": chips(run, conclusion),
        "conclusion": conclusion,
        "head_style": head_style(conclusion),
        "facts": [] if data is None else facts(run, data),
        "fingerprint": [] if data is None else flattened(data.fingerprint),
        "faults": faults(conclusion, pages),
        "closest": closest(pages),
        "selected": selected(conclusion, pages),
        "suites": suites,
        "testbeds": run.testbeds(),
        "rows": _summary(pages),
        "line": any(outcome.line_rate_fps for outcome in run.outcomes.values()),
        "plateau": any(outcome.plateaus for outcome in run.outcomes.values()),
        "published": published,
        "machine": machine_did(run.trials.values()),
        "trials": (len(trials), sum(not trial.valid for trial in trials)),
        "figures": figures,
        "studies": studies,
        "test_name": test_name,
        "per_direction": figures.PER_DIRECTION,
        "latency_origin": latency_origin,
        "latency_of_all": latency_origin(one.label.get("engine") for one in run.outcomes.values()),
    }


def _summary(pages: Sequence[TestPage]) -> list[tuple[TestPage, Outcome, list[str], str]]:
    different = differing([outcome.label for page in pages for outcome in page.evidence.outcomes.values()])
    return [
        (page, outcome, distinctions(outcome.label, different), _badge(page, outcome))
        for page in pages
        for outcome in page.evidence.outcomes.values()
    ]


def _badge(page: TestPage, outcome: Outcome) -> str:
    """Of one subject, where the test has several."""
    about = [verdict for verdict in page.evidence.verdicts.values() if verdict.is_about(outcome.labels)]
    return subject_badge(page.became, figures.worst(about), len(page.evidence.outcomes))
