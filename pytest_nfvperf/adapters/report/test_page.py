"""What the page of a run shows of one test, ready to be written: texts are final, charts are inline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
from pytest_nfvperf.adapters.report.charts import outcome_charts, search_chart, soak_chart
from pytest_nfvperf.adapters.report.figures import (
    GoalFigures,
    goal_figures,
    proven_loss,
    soak_events,
    soak_facts,
)
from pytest_nfvperf.adapters.report.page_parts import PageCharts
from pytest_nfvperf.adapters.report.subjects import subject_of, title
from pytest_nfvperf.adapters.report.texts import figures_text, traffic_drawings
from pytest_nfvperf.model.display import format_against
from pytest_nfvperf.model.evidence.conclusion import TestConclusion
from pytest_nfvperf.model.evidence.records import Cause, ConnectData, RequestData, StreamData, TrialData
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.ledger import Ledger, ledger_text, loss_sort_key
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict

_TEXT_SAYS_MORE = frozenset({Cause.ASSERTION, Cause.TEST, Cause.SETUP, Cause.USAGE, Cause.INTERNAL, Cause.XFAIL})


@dataclass(frozen=True, slots=True)
class OutcomePage:
    """One outcome with its pictures.

    Attributes:
        goals: each with its figures, and what its confirmation proves.
        earlier: trials that the page lists under another outcome already.
        lossy: the trial with the lightest load that lost frames; ``path``: its ledger, hop by hop.
        charts: as ``outcome_charts``.
    """

    outcome: Outcome
    goals: tuple[tuple[GoalOutcome, GoalFigures, str], ...]
    trials: tuple[tuple[str, TrialData], ...]
    earlier: tuple[str, ...]
    lossy: tuple[str, TrialData, Ledger] | None
    path: str
    charts: dict[str, Markup | None]


@dataclass(frozen=True, slots=True)
class SoakPage:
    """A soak in words and curves. ``samples``: file of them all, beside the evidence."""

    facts: tuple[tuple[str, str], ...]
    events: tuple[str, ...]
    picture: Markup | None
    samples: str


@dataclass(frozen=True, slots=True)
class TestPage:
    """One test, with what became of it. ``suite``: shown beside its title; "" in a run of one suite."""

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
    suite: str = ""

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
        about = [part.lossy for part in self.outcomes if part.lossy and {*verdict.evidence} & {*part.outcome.trials}]
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
    test: TestEvidence, became: TestConclusion, run: RunEvidence, anchor: str, charts: PageCharts, listed: set[str]
) -> TestPage:
    """``listed`` collects the trials that have a row on the page."""
    labels = dict(test.data.labels)
    name = f"{labels.get('suite', '')} {test.node_id.split('::')[-1]}".strip()
    outcomes = tuple(
        _outcome_page(
            outcome,
            run.trials,
            f"{name} {key}" if len(test.outcomes) > 1 else name,
            charts,
            listed,
            test.verdicts_on(outcome),
        )
        for key, outcome in test.outcomes.items()
    )
    loose = tuple((key, trial) for key, trial in test.trials.items() if key not in listed)
    listed.update(key for key, _ in loose)
    picture = None
    if len(test.trials) > 1 and not test.outcomes:  # it was aborted: where it stood
        picture = charts.add(search_chart(list(test.trials.items()), None), f"{name} trials", f"Trials of {name}")
    soaks = []
    for key, soak in test.soaks.items():
        chart, of = soak_chart(soak.soak, soak.series), f"{name} {key} over time"
        curves = None if chart is None else charts.add(chart, of, of)
        soaks.append(SoakPage(tuple(soak_facts(soak.soak)), tuple(soak_events(soak.soak)), curves, soak.samples))
    # Its datapath, too, where that is a parameter and not the whole run's.
    shown = " · ".join(filter(None, (title(labels), test.data.parameters.get("datapath", ""))))
    return TestPage(
        anchor=anchor,
        evidence=test,
        title=shown or test.node_id,
        became=became,
        figures=figures_text(list(test.outcomes.values())),
        outcomes=outcomes,
        loose_trials=loose,
        picture=picture,
        soaks=tuple(soaks),
    )


def _outcome_page(
    outcome: Outcome,
    trials: dict[str, TrialData],
    name: str,
    charts: PageCharts,
    listed: set[str],
    verdicts: Sequence[Verdict],
) -> OutcomePage:
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
        for kind, chart in outcome_charts(outcome, trials, verdicts).items()
    }
    # Where frames go first: the valid trial with the lowest load that lost any and has a ledger.
    lossy = [(k, t, t.ledger) for k, t in own if t.result.valid and t.judgement.counted.lost > 0 and t.ledger]
    lightest = min(lossy, key=lambda item: loss_sort_key(item[1].result.spec), default=None)
    return OutcomePage(
        outcome=outcome,
        goals=tuple(goals),
        trials=tuple((key, trial) for key, trial in own if key not in earlier),
        earlier=earlier,
        lossy=lightest,
        path=ledger_text(lightest[2]) if lightest is not None and lightest[2].paths else "",
        charts=pictures,
    )
