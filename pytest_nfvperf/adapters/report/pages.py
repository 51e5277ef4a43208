"""What the HTML page shows, as data ready to be written: texts are final, charts are inline."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
from pytest_nfvperf.adapters.report.charts import (
    ChartFolder,
    Drawing,
    aborted_drawing,
    latency_drawing,
    loss_drawing,
    outcome_trials,
    search_drawing,
)
from pytest_nfvperf.adapters.report.dut_facts import dut_facts
from pytest_nfvperf.adapters.report.figures import goal_figures, other_result, proven_loss
from pytest_nfvperf.adapters.report.ledger_chart import ledger_chart
from pytest_nfvperf.adapters.report.live.soak import live_soak
from pytest_nfvperf.adapters.report.published_relations import PublishedRelation
from pytest_nfvperf.adapters.report.soak_chart import soak_chart
from pytest_nfvperf.adapters.report.soak_words import soak_events, soak_facts
from pytest_nfvperf.adapters.report.studies import ratio_text, subject_name
from pytest_nfvperf.adapters.report.subjects import differing, distinctions, title
from pytest_nfvperf.adapters.report.testbeds import measured_on
from pytest_nfvperf.adapters.report.texts import command_line
from pytest_nfvperf.model.display import MISSING, format_seconds, how_many
from pytest_nfvperf.model.evidence.conclusion import TestConclusion
from pytest_nfvperf.model.evidence.records import (
    Cause,
    ConnectData,
    RequestData,
    RunData,
    SoakData,
    StreamData,
    TrialData,
)
from pytest_nfvperf.model.ledger.ledger import Ledger
from pytest_nfvperf.model.ledger.ledger_text import weakness
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome
from pytest_nfvperf.model.sla.verdict import Verdict

_MOST_RATIOS = 4
_TEXT_SAYS_MORE = frozenset({Cause.ASSERTION, Cause.SETUP, Cause.USAGE, Cause.INTERNAL, Cause.XFAIL})


@dataclass(frozen=True, slots=True)
class GoalRow:
    """A goal, its figures, and what its confirmation proves."""

    goal: GoalOutcome
    mpps: str
    gbps: str
    line: str
    note: str
    proof: str


@dataclass(frozen=True, slots=True)
class OutcomePage:
    """One outcome with its pictures.

    ``lossy`` is the trial with the lightest load that lost frames, ``path`` its ledger as a picture; ``earlier`` are
    trials that the page lists under another outcome already.
    """

    outcome: Outcome
    goals: tuple[GoalRow, ...]
    trials: tuple[tuple[str, TrialData], ...]
    earlier: tuple[str, ...]
    lossy: tuple[str, TrialData, Ledger] | None
    path: Markup | None
    search: Markup | None
    latency: Markup | None
    loss: Markup | None


@dataclass(frozen=True, slots=True)
class SoakPage:
    """A soak in words and curves. ``samples``: file of them all, beside the evidence."""

    facts: tuple[tuple[str, str], ...]
    events: tuple[str, ...]
    picture: Markup | None
    samples: str


@dataclass(frozen=True, slots=True)
class TestPage:
    """One test, with what became of it."""

    __test__ = False

    anchor: str
    evidence: TestEvidence
    title: str
    became: TestConclusion
    figures: str
    outcomes: tuple[OutcomePage, ...]
    loose_trials: tuple[tuple[str, TrialData], ...]
    picture: Markup | None
    soaks: tuple[SoakPage, ...] = ()

    @property
    def open(self) -> bool:
        """Tests that did not pass are unfolded."""
        return self.became.wrong or self.became.tolerated

    def subject(self, verdict: Verdict) -> str:
        """What a verdict is about, where the test has several subjects: ``bridges=9``; else ""."""
        subjects = [dict(one.subject) for one in self.evidence.verdicts.values()]
        return " ".join(distinctions(dict(verdict.subject), differing(subjects)))

    @property
    def accounts(self) -> list[tuple[str, CpuAccount]]:
        """Who used the machine's CPUs in each run of streams, requests and connects; those where somebody accounted."""
        runs: list[tuple[str, StreamData | RequestData | ConnectData]] = [
            *self.evidence.streams.items(),
            *self.evidence.requests.items(),
            *self.evidence.connects.items(),
        ]
        return [(name, run.cpu) for name, run in runs if run.cpu is not None]

    @property
    def text(self) -> str:
        """What pytest shows of a failure, where verdicts and errors do not say it already; else ""."""
        end = self.evidence.end
        return end.text if end is not None and end.cause in _TEXT_SAYS_MORE else ""


@dataclass(slots=True)
class SuitePage:
    """One suite: sweep charts, relations that others published, each with what it is about, then its tests."""

    name: str
    sweeps: list[tuple[str, Markup]] = field(default_factory=list)
    relations: list[tuple[str, PublishedRelation]] = field(default_factory=list)
    tests: list[TestPage] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """What became of its tests: (badge, how many)."""
        return Counter(page.became.badge for page in self.tests).most_common()

    @property
    def line(self) -> str:
        """``234 trials, 5 of them invalid; took 3.40 min``; of streams, which are no trials, the time only."""
        trials = [trial for page in self.tests for trial in page.evidence.trials.values()]
        invalid = sum(not trial.result.valid for trial in trials)
        took = sum(page.evidence.end.seconds for page in self.tests if page.evidence.end is not None)
        spoiled = f", {invalid} of them invalid" if invalid else ""
        counted = f"{how_many(len(trials), 'trial')}{spoiled}; " if trials else ""
        return f"{counted}took {format_seconds(took)}"


def test_page(
    test: TestEvidence, became: TestConclusion, run: RunEvidence, anchor: str, charts: ChartFolder, listed: set[str]
) -> TestPage:
    """The page data of one test; ``listed`` collects the trials that have a row."""
    name = short_name(test)
    outcomes = tuple(
        _outcome_page(outcome, run.trials, f"{name} {key}" if len(test.outcomes) > 1 else name, charts, listed)
        for key, outcome in test.outcomes.items()
    )
    loose = tuple((key, trial) for key, trial in test.trials.items() if key not in listed)
    listed.update(key for key, _ in loose)
    return TestPage(
        anchor=anchor,
        evidence=test,
        title=_title(test),
        became=became,
        figures=_headline(outcomes),
        outcomes=outcomes,
        loose_trials=loose,
        picture=_picture(aborted_drawing(test), charts, f"{name} trials", f"Trials of {name}"),
        soaks=tuple(_soak_page(soak, f"{name} {key}", charts) for key, soak in test.soaks.items()),
    )


test_page.__test__ = False  # type: ignore[attr-defined]


def _soak_page(data: SoakData, name: str, charts: ChartFolder) -> SoakPage:
    live = live_soak(data.soak, data.series)
    picture = charts.add_of_test(
        lambda: soak_chart(data.soak, data.series), f"{name} over time", f"{name} over time", live
    )
    return SoakPage(tuple(soak_facts(data.soak)), tuple(soak_events(data.soak)), picture, data.samples)


def _picture(drawing: Drawing | None, charts: ChartFolder, name: str, title: str) -> Markup | None:
    return None if drawing is None else charts.add_of_test(drawing[0], name, title, drawing[1])


def _title(test: TestEvidence) -> str:
    """What sets it apart; its datapath too, where that is a parameter and not the whole run's."""
    parts = [title(dict(test.data.labels)), test.data.parameters.get("datapath", "")]
    return " · ".join(filter(None, parts)) or test.node_id


def short_name(test: TestEvidence) -> str:
    """``suite topology frame_size test_name[...]`` without the path."""
    label = dict(test.data.labels)
    return " ".join([label.get("suite", ""), test.node_id.split("::")[-1]]).strip()


def _headline(pages: Sequence[OutcomePage]) -> str:
    """What a test found, in a line: its goals, the ratios of what it compared, or else its one result."""
    rows = [row for page in pages for row in page.goals]
    if rows:
        found = (f"{row.goal.goal.name.upper()} {row.mpps} Mpps" for row in rows if row.goal.load_fps is not None)
        return " · ".join(found)
    if len(pages) == 1:
        return other_result(pages[0].outcome).removeprefix(MISSING)
    compared = [page.outcome for page in pages if page.outcome.relatives]
    ratios = [f"{subject_name(outcome)}: {ratio_text(outcome.relatives[0])}" for outcome in compared]
    baseline = "".join(f" of {name} {value}" for name, value in compared[0].relatives[0].baseline) if compared else ""
    return " · ".join(ratios[-_MOST_RATIOS:]) + baseline


def _outcome_page(
    outcome: Outcome, trials: dict[str, TrialData], name: str, charts: ChartFolder, listed: set[str]
) -> OutcomePage:
    own = outcome_trials(outcome, trials)
    earlier = tuple(key for key, _ in own if key in listed)
    listed.update(key for key, _ in own)
    lossy = _lightest_lossy(outcome, trials)
    pictures = {
        kind: _picture(drawing, charts, f"{name} {kind}", f"{kind} of {name}")
        for kind, drawing in (
            ("search", search_drawing(outcome, trials)),
            ("latency", latency_drawing(outcome, trials)),
            ("loss", loss_drawing(outcome)),
        )
    }
    return OutcomePage(
        outcome=outcome,
        goals=tuple(_goal_row(outcome, goal, trials) for goal in outcome.goals),
        trials=tuple((key, trial) for key, trial in own if key not in earlier),
        earlier=earlier,
        lossy=lossy,
        path=None if lossy is None else _path(lossy[2], lossy[1].result.due_s, charts, name),
        search=pictures["search"],
        latency=pictures["latency"],
        loss=pictures["loss"],
    )


def _path(ledger: Ledger, seconds: float, charts: ChartFolder, name: str) -> Markup | None:
    return charts.add_of_test(lambda: ledger_chart(ledger, seconds), f"{name} path", f"path of {name}")


def _goal_row(outcome: Outcome, goal: GoalOutcome, trials: dict[str, TrialData]) -> GoalRow:
    figures = goal_figures(outcome, goal.goal.name)
    confirmed = trials.get(goal.confirmation.trial_id) if goal.confirmation else None
    proof = "" if confirmed is None else proven_loss(confirmed.own_lost, confirmed.own_offered)
    return GoalRow(goal, figures.mpps, figures.gbps, figures.line, figures.note, proof)


def _lightest_lossy(outcome: Outcome, trials: dict[str, TrialData]) -> tuple[str, TrialData, Ledger] | None:
    """Where frames go first: the valid trial with the lowest load that lost any and has a ledger."""
    lossy = [
        (key, trial, trial.ledger)
        for key, trial in outcome_trials(outcome, trials)
        if trial.result.valid and trial.own_lost > 0 and trial.ledger is not None
    ]
    return min(lossy, key=lambda item: weakness(item[1].result.spec), default=None)


def facts(run: RunEvidence, data: RunData) -> list[tuple[str, str]]:
    """What was tested with what, for the head of the page."""
    started = datetime.datetime.fromtimestamp(run.started_ns / 1e9, datetime.UTC)
    took = format_seconds(run.took_s)
    generator, cpus = data.generator, data.testbed.cpus
    plan = [("PMD", cpus.pmd), ("generator", cpus.generator), ("VNF", cpus.vnf), ("rest", cpus.housekeeping)]
    return [
        *dut_facts(run, data),
        (
            "Generator",
            "not started" if generator is None else f"{generator.engine} {generator.version}, {generator.detail}",
        ),
        ("CPUs", " · ".join(f"{name} {', '.join(map(str, owned))}" for name, owned in plan if owned)),
        ("Testbed", _testbed_text(run, data)),
        ("SLA", ", ".join(data.sla) or "those beside the suites"),
        ("Profile", data.profile),
        *_resumed(run),
        ("Started", f"{started:%Y-%m-%d %H:%M:%S} UTC, took {took}"),
        ("Command", command_line(data.argv)),
    ]


def _resumed(run: RunEvidence) -> list[tuple[str, str]]:
    """How much a later process took over from one that was killed; nothing in a run of one piece."""
    if not run.resumed:
        return []
    taken = sum(test.file in run.resumed for test in run.tests.values() if test.node_id)
    left = f"{', '.join(sorted(run.resumed))}: {how_many(taken, 'test')} taken over from there"
    return [("Resumed", f"{left}, {sum(map(bool, run.tests)) - taken} measured afterwards")]


def _testbed_text(run: RunEvidence, data: RunData) -> str:
    """Its name; of several, those that measured."""
    names = list(measured_on(run))
    if len(names) > 1:
        return f"{len(names)}, alike but for CPUs and devices: {', '.join(names)}"
    return f"{data.testbed.name}{' (discovered, no file)' if data.testbed.discovered else ''}"


def flattened(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """A nested fingerprint as (dotted name, text)."""
    if not isinstance(value, dict):
        return [(prefix, str(value))]
    return [pair for key, item in value.items() for pair in flattened(item, f"{prefix}.{key}" if prefix else str(key))]
