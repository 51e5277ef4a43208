"""One self-contained HTML page of a run, in three depths: the verdict, a section a suite, the evidence.

It needs no server and no network; the browser draws the charts. ``render_report`` goes from the evidence to the file;
the functions that it calls follow in the order of the calls.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_nfvperf.adapters.evidence.comparison import compared_run
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, conclude
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report import figures, subjects, texts
from pytest_nfvperf.adapters.report.charts import (
    MOST_CURVES,
    Verdicts,
    find_sweeps,
    outcome_charts,
    search_chart,
    soak_chart,
    study_chart,
    sweep_chart,
)
from pytest_nfvperf.adapters.report.comparison import comparison_page
from pytest_nfvperf.adapters.report.figures import goal_figures, proven_loss, soak_events, soak_facts
from pytest_nfvperf.adapters.report.outages import outage_chart, outages_shown
from pytest_nfvperf.adapters.report.page_parts import PageCharts, can_draw, environment
from pytest_nfvperf.adapters.report.published_figures import PublishedRelation, PublishedSeries, subjects_of
from pytest_nfvperf.adapters.report.run_facts import facts, flattened, measured_on, simulated_lines
from pytest_nfvperf.adapters.report.subjects import (
    StudyOutcomes,
    differing,
    distinct_names,
    distinctions,
    find_comparisons,
    name_of_test,
    notes_below,
    slope_line,
    subject_notes,
    subject_of,
    title,
)
from pytest_nfvperf.adapters.report.texts import deployed_title, figures_text, topology_drawing, traffic_drawings
from pytest_nfvperf.adapters.report.topology_chart import topology_chart
from pytest_nfvperf.model.display import format_against, format_seconds, how_many
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult, TestConclusion, TestResult, subject_badge
from pytest_nfvperf.model.evidence.records import Cause, ConnectData, RequestData, StreamData, TopologyData, TrialData
from pytest_nfvperf.model.measure.compare import ReadingMethod
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.ledger import ledger_text, loss_sort_key
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.trial import latency_origin

MOST_UNPACKED_TRIALS = 2_000
"""If a run has more trials, each test's part of the page is packed until somebody opens it."""

MOST_PICTURED_TESTS = 60
"""If a run has more tests, only its topologies get files: a picture takes 0.04 s."""

_MOST_OPEN_TOPOLOGIES = 4
"""If there are more topologies, all are folded."""

_MOST_CLOSE = 8
"""Requirements in the table of worst margins."""

_MOST_IN_SIGHT = {"faults": 20, "sweeps": 6, "tests": 40, "rows": 100}
"""If there are more, the page folds the rest of what did not pass, of a suite's sweeps, and all tests or rows."""

HEAD_STYLES = {
    RunResult.ACCEPTED: "pass",
    RunResult.PASSED: "soft",
    RunResult.FAILED: "fail",
    RunResult.INCONCLUSIVE: "inconclusive",
    RunResult.EMPTY: "inconclusive",
}
_OUTSIDE_THE_SLA = {
    Cause.ASSERTION: "what the test checks",
    Cause.TEST: "the test's own code",
    Cause.SETUP: "a fixture",
    Cause.USAGE: "usage",
    Cause.INTERNAL: "nfvperf",
}
"""Causes that no requirement judges, and where they come from."""

_ALWAYS_COUNTED = ("PASS", "FAIL", "INCONCLUSIVE", "BROKEN")
_TEXT_SAYS_MORE = frozenset({Cause.ASSERTION, Cause.TEST, Cause.SETUP, Cause.USAGE, Cause.INTERNAL, Cause.XFAIL})


def head_style(conclusion: RunConclusion) -> str:
    """Style of a page's first line: no success on a rig that was too disturbed to trust is green."""
    return "inconclusive" if conclusion.is_untrusted else HEAD_STYLES.get(conclusion.result, "error")


def render_report(
    run: RunEvidence,
    out_dir: Path,
    published: Sequence[PublishedSeries] = (),
    *,
    relations: Sequence[PublishedRelation] = (),
    pictures: bool = False,
    site: str = "",
) -> Path:
    """Write ``report.html`` into ``out_dir``.

    Args:
        run: from ``read_run``.
        out_dir: made when missing.
        published: figures to show beside the sweeps they belong to.
        relations: published ones, to show in the suites that they stand beside.
        pictures: also write the charts as SVG and PNG files into ``out_dir/charts``, if vl-convert is installed. It
            takes as long as the page.
        site: relative address of the folder of a site of many runs, ending in "/": the page links to its index and its
            history, and takes Vega from there.

    Returns:
        The page's path.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    charts, conclusion = PageCharts(), conclude(run)
    suites = _suite_pages(run, conclusion, charts)
    for suite in suites:
        _compare_within(suite, published, relations, charts)
    context = _context(run, conclusion, suites, charts) | {"published": published, "site": site, "charts": charts}
    made = environment()
    body = made.get_template("test_body.html")  # a template of its own, since a large page packs the body of a test
    context["body_of"] = lambda page: Markup(body.render(context, page=page))  # noqa: S704 - the template escapes
    page = out_dir / "report.html"
    write_whole(page, made.get_template("report.html").render(context))
    if pictures and can_draw():
        charts.write_pictures(out_dir / "charts", of_charts=len(run.tests) <= MOST_PICTURED_TESTS)
    return page


@dataclass(slots=True)
class SuitePage:
    """One suite: its sweep charts, relations that others published with their subjects, and its tests."""

    name: str
    sweeps: list[tuple[str, Markup]] = field(default_factory=list)
    relations: list[tuple[str, PublishedRelation]] = field(default_factory=list)
    tests: list[TestPage] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[str, int]]:
        return Counter(page.became.badge for page in self.tests).most_common()

    @property
    def line(self) -> str:
        """``234 trials, 5 of them invalid; took 3.40 min``; streams are no trials and have the time only."""
        trials = [trial for page in self.tests for trial in page.evidence.trials.values()]
        invalid = sum(not trial.result.valid for trial in trials)
        took = sum(page.evidence.end.seconds for page in self.tests if page.evidence.end is not None)
        disturbed = f", {invalid} of them invalid" if invalid else ""
        counted = f"{how_many(len(trials), 'trial')}{disturbed}; " if trials else ""
        return f"{counted}took {format_seconds(took)}"


def _suite_pages(run: RunEvidence, conclusion: RunConclusion, charts: PageCharts) -> list[SuitePage]:
    suites: dict[str, SuitePage] = {}
    listed: set[str] = set()
    shown = [test for test in run.tests.values() if test.node_id or test.outcomes or test.errors]
    several = len({dict(test.data.labels).get("suite", "other") for test in shown}) > 1
    for number, test in enumerate(shown, 1):
        name = dict(test.data.labels).get("suite", "other")
        became, published_here = conclusion.test(test.node_id), name if several else ""
        page = page_of_test(test, became, run, f"test-{number}", published_here, charts, listed)
        suites.setdefault(name, SuitePage(name)).tests.append(page)
    for suite in suites.values():
        if len(suite.tests) > _MOST_IN_SIGHT["tests"]:
            suite.tests.sort(key=lambda page: not page.open)
    return list(suites.values())


def _compare_within(
    suite: SuitePage, published: Sequence[PublishedSeries], relations: Sequence[PublishedRelation], charts: PageCharts
) -> None:
    """Add what the tests of a suite show together: sweeps, studies, and what others published."""
    outcomes = [outcome for page in suite.tests for outcome in page.evidence.outcomes.values()]
    verdicts: Verdicts = {
        outcome.labels: page.evidence.verdicts_on(outcome)
        for page in suite.tests
        for outcome in page.evidence.outcomes.values()
    }
    for number, sweep in enumerate(find_sweeps(outcomes), 1):
        labels = [outcome.label for outcome in sweep.outcomes]
        published_here = [
            series for series in published if sweep.axis == "frame_size" and any(map(series.belongs_to, labels))
        ]
        title = f"{sweep.axis.replace('_', ' ').capitalize()} sweep: {', '.join(name for name, _ in sweep.curves)}"
        drawing = sweep_chart(sweep, published_here, verdicts=verdicts)
        chart = charts.add(drawing, f"sweep {suite.name} {sweep.axis} {number}", f"{suite.name}: {title}")
        suite.sweeps.append((title, chart))
    groups: dict[tuple[str, str], list[StudyOutcomes]] = {}
    for comparison in find_comparisons(outcomes):
        groups.setdefault((comparison.main, comparison.per), []).append(comparison)
    for (main, per), members in groups.items():
        for first in range(0, len(members), MOST_CURVES):
            part = members[first : first + MOST_CURVES]
            common, names = distinct_names(part)
            title = metric_of(main).title
            title = f"{title[0].upper()}{title[1:]} against {per}: {common}".removesuffix(": ")
            name = f"study {suite.name} {main} {per} {first // MOST_CURVES + 1}"
            chart = charts.add(study_chart(part, verdicts, names), name, f"{suite.name}: {title}")
            notes = [
                f"{own}: {line}".removeprefix(": ")
                for comparison, own in zip(part, names, strict=True)
                for line in (slope_line(comparison), *subject_notes(comparison))
                if line
            ]
            for line in (*notes, *notes_below(part)):
                chart += Markup('<figcaption class="soft small">{}</figcaption>').format(line)
            suite.sweeps.append((title, chart))
    of_it = [relation for relation in relations if relation.suite == suite.name]
    suite.relations += zip(subjects_of(of_it), of_it, strict=True)


def _context(
    run: RunEvidence, conclusion: RunConclusion, suites: Sequence[SuitePage], charts: PageCharts
) -> dict[str, Any]:
    """What the templates show, and the modules and functions that they call."""
    pages = [page for suite in suites for page in suite.tests]
    page_of = {page.evidence.node_id: page for page in pages}
    data, outcomes = run.run, run.outcomes.values()
    compared, faults = compared_run(run, conclusion), list(_faults(conclusion, page_of))
    topologies, testbeds = _topology_pages(pages, charts), measured_on(run)
    return {
        "run": run,
        "data": data,
        "title": f"Datapath acceptance: {data.testbed.name if data else run.path.name}",
        "chips": chips(run, conclusion),
        "conclusion": conclusion,
        "head_style": head_style(conclusion),
        "facts": [] if data is None else [*facts(run, data), *(("Last run", line) for line in texts.since_lines(run))],
        "fingerprint": [] if data is None else flattened(data.fingerprint),
        "faults": faults,
        "explained": {fault["page"].evidence.node_id for fault in faults},
        "closest": closest(pages),
        "page_of": page_of,
        "testbeds": {file: name for name, files in testbeds.items() for file in files if len(testbeds) > 1},
        "machine": run.machine.did,
        "notices": simulated_lines(run),
        "trials": (len(run.trials), sum(not trial.result.valid for trial in run.trials.values())),
        "suites": suites,
        "rows": _result_rows(pages),
        "times": figures.time_table(run),
        "since": any(one.sides for one in run.comparisons.values() if one.how is ReadingMethod.RUNS),
        "texts": texts,
        "line": any(outcome.line_rate_fps for outcome in outcomes),
        "columns": figures.metric_columns(outcomes),
        "plateau": any(figures.plateau(outcome) for outcome in outcomes),
        "comparison": compared and comparison_page(compared, charts, "ratio of each side to the baseline"),
        "topologies": topologies,
        "folded": len(topologies) > _MOST_OPEN_TOPOLOGIES,
        "large": len(run.trials) > MOST_UNPACKED_TRIALS,
        "most": _MOST_IN_SIGHT,
        "figures": figures,
        "studies": subjects,
        "name_of_test": name_of_test,
        "per_direction": figures.PER_DIRECTION,
        "latency_origin": latency_origin,
        "latency_of_all": latency_origin(one.label.get("engine") for one in outcomes),
    }


def chips(run: RunEvidence, conclusion: RunConclusion) -> list[tuple[str, str, str]]:
    """(style, number, text) for the head: tests by result, then requirements."""
    counts = Counter(test.badge for test in conclusion.tests)
    shown = []
    for badge in dict.fromkeys((*_ALWAYS_COUNTED, *(test.badge for test in conclusion.tests))):
        count = counts[badge]
        shown.append((badge.lower().replace(" ", "-"), str(count), f"{'test' if count == 1 else 'tests'} {badge}"))
    met = sum(verdict.judgement is Judgement.PASS for verdict in run.verdicts.values())
    if run.verdicts:
        shown.append(("", f"{met} of {len(run.verdicts)}", "requirements met"))
    return shown


def _faults(conclusion: RunConclusion, page_of: Mapping[str, TestPage]) -> Iterator[dict[str, Any]]:
    """Everything that did not pass, with each reason, the gravest first.

    ``what``: the requirement, the error's class, or where else it comes from. ``verdict``: None without figures.
    """
    for test in conclusion.tests:
        page = page_of.get(test.node_id)
        if page is None or not (test.wrong or test.tolerated):
            continue
        errors, verdicts, end = page.evidence.errors.values(), page.evidence.verdicts.values(), page.evidence.end
        judged = [one for kind in (Judgement.FAIL, Judgement.INCONCLUSIVE) for one in verdicts if one.judgement is kind]
        who = _OUTSIDE_THE_SLA.get(end.cause) if end is not None else None
        fault: dict[str, Any] = {"page": page, "badge": test.badge, "verdict": None}
        if who or test.result is TestResult.UNFINISHED or not (errors or judged):
            yield fault | {"what": who or "-", "why": end.reason if who and end is not None else test.reason}
        yield from (fault | {"what": error.error, "why": error.message} for error in errors)
        for verdict in judged:
            yield fault | {"badge": verdict.judgement.value, "why": page.why(verdict), "verdict": verdict}


def closest(pages: Sequence[TestPage]) -> list[tuple[TestPage, Verdict]]:
    """Failures first, also those without a margin, as against a limit of 0; then what has one."""
    judged = [(page, verdict) for page in pages for verdict in page.evidence.verdicts.values()]
    shown = [
        (verdict.judgement is not Judgement.FAIL, -math.inf if verdict.margin is None else verdict.margin, at)
        for at, (_, verdict) in enumerate(judged)
        if verdict.judgement is Judgement.FAIL or verdict.margin is not None
    ]
    return [judged[at] for *_, at in sorted(shown)[:_MOST_CLOSE]]


def _result_rows(pages: Sequence[TestPage]) -> list[tuple[TestPage, Outcome, list[str], str]]:
    different = differing([outcome.label for page in pages for outcome in page.evidence.outcomes.values()])
    rows = []
    for page in pages:
        outcomes = page.evidence.outcomes.values()
        for outcome in outcomes:
            badge = subject_badge(page.became, page.evidence.verdicts_on(outcome), len(outcomes))
            rows.append((page, outcome, distinctions(outcome.label, different), badge))
    return rows


def _topology_pages(tests: Sequence[TestPage], charts: PageCharts) -> list[dict[str, Any]]:
    """Draw each topology once, in the order of deployment, and list the tests that deployed it."""
    drawn: list[tuple[str, TopologyData]] = []
    pages: list[dict[str, Any]] = []
    for test in tests:
        for deployed in test.evidence.topologies.values():
            key = deployed_title(deployed), replace(deployed, info=None)  # how an instance was started is not drawn
            if key not in drawn:
                drawn.append(key)
                number, picture = len(drawn), topology_chart(deployed, key[0])
                image = charts.add_drawing(picture, f"topology {number} {deployed.topology.name}")
                page = {"anchor": f"topology-{number}", "title": key[0], "text": topology_drawing(deployed)}
                pages.append(page | {"picture": image, "tests": []})
            pages[drawn.index(key)]["tests"].append(test)
    return pages


@dataclass(frozen=True, slots=True)
class TestPage:
    """One test, with what became of it; texts are final, charts are inline.

    ``outcomes``, ``soaks``, ``outages``: variables of the template. ``suite``: beside its title; "" in a run of one.
    """

    __test__ = False

    anchor: str
    evidence: TestEvidence
    title: str
    became: TestConclusion
    figures: str
    outcomes: list[dict[str, Any]]
    loose_trials: list[tuple[str, TrialData]]
    picture: Markup | None
    soaks: list[dict[str, Any]]
    outages: list[dict[str, Any]]
    suite: str

    @property
    def open(self) -> bool:
        return self.became.wrong or self.became.tolerated

    def subject(self, verdict: Verdict) -> str:
        return subject_of(verdict, self.evidence.verdicts.values())

    def why(self, verdict: Verdict) -> str:
        """What a figure rests on, and where frames were lost; the reason where it says more than the figure."""
        figure = format_against(verdict.observed, verdict.limit, verdict.unit)
        parts = ["" if verdict.reason == figure else verdict.reason, verdict.confidence]
        of_loss = verdict.unit in {"pps", "bps", "line_ratio"} or verdict.metric in {"loss_ratio", "lost_frames"}
        lossy = [part["lossy"] for part in self.outcomes if {*verdict.evidence} & {*part["outcome"].trials}]
        about = [*filter(None, lossy)]
        if verdict.judgement is Judgement.FAIL and of_loss and about:
            trial_id, _, ledger = about[0]
            most = max(ledger.lines, key=lambda line: line.frames, default=None)
            parts += [] if most is None else [f"most frames were lost in {most.hop}: {most.reason} ({trial_id})"]
        return "; ".join(filter(None, parts))

    @property
    def frames(self) -> list[str]:
        """Packets and classes that it sent, drawn; labels say the rest: a traffic of the short form."""
        drawn = traffic_drawings(trial.result.spec for trial in self.evidence.trials.values())
        return [drawing for drawing in drawn if "\n" in drawing]

    @property
    def accounts(self) -> list[tuple[str, CpuAccount]]:
        """Who used the machine's CPUs in each run of streams, requests and connects, if somebody accounted."""
        runs: list[tuple[str, StreamData | RequestData | ConnectData]] = [
            *self.evidence.streams.items(),
            *self.evidence.requests.items(),
            *self.evidence.connects.items(),
        ]
        return [(name, run.cpu) for name, run in runs if run.cpu is not None]

    @property
    def text(self) -> str:
        """What pytest shows of a failure that verdicts and errors do not explain; else ""."""
        end = self.evidence.end
        return end.text if end is not None and end.cause in _TEXT_SAYS_MORE else ""


def page_of_test(
    test: TestEvidence,
    became: TestConclusion,
    run: RunEvidence,
    anchor: str,
    suite: str,
    charts: PageCharts,
    listed: set[str],
) -> TestPage:
    """``listed`` collects the trials that have a row on the page."""
    labels = dict(test.data.labels)
    name = f"{labels.get('suite', '')} {test.node_id.split('::')[-1]}".strip()
    several = len(test.outcomes) > 1
    outcomes = [
        _outcome_page(test, outcome, run.trials, f"{name} {key}" if several else name, charts, listed)
        for key, outcome in test.outcomes.items()
    ]
    loose = [(key, trial) for key, trial in test.trials.items() if key not in listed]
    listed.update(key for key, _ in loose)
    picture = None
    if len(test.trials) > 1 and not test.outcomes:  # it was aborted: where it stood
        picture = charts.add(search_chart(list(test.trials.items()), None), f"{name} trials", f"Trials of {name}")
    soaks = []
    for key, data in test.soaks.items():
        chart, of = soak_chart(data.soak, data.series), f"{name} {key} over time"
        curves = None if chart is None else charts.add(chart, of, of)
        shown = {"facts": soak_facts(data.soak), "events": list(soak_events(data.soak))}
        soaks.append(shown | {"picture": curves, "samples": data.samples})
    outages = []
    for event in outages_shown(test.outages.values()):
        drawn, of = outage_chart(event["longest"]), f"{name} {event['event']}"
        outages.append(event | {"picture": None if drawn is None else charts.add(drawn, of, of)})
    # Its datapath, too, where that is a parameter and not the whole run's.
    heading = " · ".join(filter(None, (title(labels), test.data.parameters.get("datapath", ""))))
    return TestPage(
        anchor=anchor,
        evidence=test,
        title=heading or test.node_id,
        became=became,
        figures=figures_text(list(test.outcomes.values()), test.comparisons.values()),
        outcomes=outcomes,
        loose_trials=loose,
        picture=picture,
        soaks=soaks,
        outages=outages,
        suite=suite,
    )


def _outcome_page(
    test: TestEvidence, outcome: Outcome, trials: dict[str, TrialData], name: str, charts: PageCharts, listed: set[str]
) -> dict[str, Any]:
    """Variables of the template for one outcome.

    ``goals``: each with its figures, and what its confirmation proves. ``earlier``: trials that the page lists under
    another outcome already. ``lossy``: the trial with the lightest load that lost frames; ``path``: its ledger, hop by
    hop.
    """
    own = [(key, trials[key]) for key in outcome.trials if key in trials]
    earlier = tuple(key for key, _ in own if key in listed)
    listed.update(key for key, _ in own)
    goals = []
    for goal in outcome.goals:
        confirmed = trials.get(goal.confirmation.trial_id) if goal.confirmation else None
        counted = None if confirmed is None else confirmed.judgement.counted
        proof = "" if counted is None else proven_loss(counted.lost, counted.offered)
        goals.append((goal, goal_figures(outcome, goal.goal.name), proof))
    pictures = {
        kind: None if chart is None else charts.add(chart, f"{name} {kind}", f"{kind} of {name}")
        for kind, chart in outcome_charts(outcome, trials, test.verdicts_on(outcome)).items()
    }
    # Where frames go first: the valid trial with the lowest load that lost any and has a ledger.
    lossy = [(k, t, t.ledger) for k, t in own if t.result.valid and t.judgement.counted.lost > 0 and t.ledger]
    lightest = min(lossy, key=lambda item: loss_sort_key(item[1].result.spec), default=None)
    return {
        "outcome": outcome,
        "goals": goals,
        "trials": [(key, trial) for key, trial in own if key not in earlier],
        "earlier": earlier,
        "lossy": lightest,
        "path": ledger_text(lightest[2]) if lightest is not None and lightest[2].paths else "",
        "charts": pictures,
    }
