"""The summary table for a terminal, by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.evidence.conclusions import conclude
from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.figures import (
    PER_DIRECTION,
    goal_figures,
    is_lower_bound,
    is_of_times,
    other_result,
    typical_latency,
    worst,
)
from pytest_nfvperf.adapters.report.rendered import rendered
from pytest_nfvperf.adapters.report.studies import find_comparisons
from pytest_nfvperf.adapters.report.study_table import study_tables
from pytest_nfvperf.adapters.report.subjects import distinctions, test_name
from pytest_nfvperf.model.display import MISSING, format_ns
from pytest_nfvperf.model.evidence.conclusion import NO_SLA, subject_badge
from pytest_nfvperf.model.evidence.run_conclusion import RunConclusion
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.latency_origin import latency_origin

BADGE_STYLES = {
    "PASS": "green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "BROKEN": "bold magenta",
    "USAGE": "bold magenta",
}


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One outcome with the verdicts on it. ``badge``: the word for it, where its test is known; else the verdicts'."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...] = ()
    badge: str = ""

    @property
    def judgement(self) -> Judgement | None:
        """What the verdicts come to."""
        return worst(self.verdicts)


def summary_rows(run: RunEvidence, conclusion: RunConclusion | None = None) -> list[SummaryRow]:
    """A row for each outcome, in the order they were measured; ``conclusion``: of this run, where it is known."""
    conclusion = conclusion or conclude(run)
    rows = []
    for test in run.tests.values():
        for outcome in test.outcomes.values():
            about = tuple(v for v in test.verdicts.values() if v.is_about(outcome.labels))
            badge = NO_SLA
            if test.node_id:
                badge = subject_badge(conclusion.test(test.node_id), worst(about), len(test.outcomes))
            rows.append(SummaryRow(outcome, about, badge))
    return rows


def summary_text(rows: Sequence[SummaryRow], *, width: int | None = None, color: bool = False) -> str:
    """The table as text with ANSI colours or without, at most ``width`` columns wide; None: as wide as it needs."""
    searches = [row for row in rows if row.outcome.goals]
    compared = _compared(rows)
    sampled = [row for row in rows if row.outcome.labels in compared]
    others = [row for row in rows if not row.outcome.goals and row.outcome.labels not in compared]
    parts: list[RenderableType] = []
    if searches:
        parts += [_search_table(searches), *(Text(note, style="dim") for note in _notes(searches))]
    if sampled:
        parts += study_tables([(row.outcome, _verdict(row)) for row in sampled])
    if others:
        parts.append(_other_table(others))
    return rendered(parts, width=width, color=color)


def _compared(rows: Sequence[SummaryRow]) -> set[tuple[tuple[str, str], ...]]:
    """Labels of those that are a study's; a study of one subject compares nothing, and is a line like any other."""
    sampled = [row.outcome for row in rows if row.outcome.samples and not is_of_times(row.outcome)]
    return {outcome.labels for comparison in find_comparisons(sampled) for outcome in comparison.outcomes}


def _search_table(rows: Sequence[SummaryRow]) -> Table:
    table = _table("\ntest", "\ntopology", "\nframe")
    line = any(row.outcome.line_rate_fps for row in rows)
    for title in ("NDR\nMpps", "\nGbps", *(["of\nline"] if line else []), "PDR\nMpps", "\nGbps"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("latency\np50", "\np99", "cycles/\npacket"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("\nverdict", no_wrap=True)
    for row in rows:
        ndr, pdr = (goal_figures(row.outcome, name) for name in ("ndr", "pdr"))
        if not row.outcome.goal("ndr"):
            ndr = goal_figures(row.outcome, row.outcome.goals[0].goal.name)
        loads = [ndr.mpps, ndr.gbps, *([ndr.line] if line else []), pdr.mpps, pdr.gbps]
        table.add_row(*_subject(row, rows), *loads, *_latency(row), _cost(row), _verdict(row))
    return table


def _notes(rows: Sequence[SummaryRow]) -> list[str]:
    """What a reader must know to read the table."""
    notes = [PER_DIRECTION]
    goals = [goal for row in rows for goal in row.outcome.goals]
    if any(goal.generator_limited for goal in goals):
        notes.append("≥ generator-limited: within 5 % of what the rig itself can do, the DUT does at least this.")
    elif any(is_lower_bound(goal) for goal in goals):
        notes.append("≥ the highest load that was tried: the DUT does at least this.")
    if any(goal.unconfirmed for goal in goals):
        notes.append("≤ no trial of full length confirmed it: the DUT does at most this.")
    measured = [(point.at, row.outcome.label.get("engine")) for row in rows if (point := typical_latency(row.outcome))]
    if measured:
        origin = latency_origin(engine for _, engine in measured)
        notes.append(f"Latency {origin}, at {', '.join(sorted({at for at, _ in measured}))}.")
    return notes


def _other_table(rows: Sequence[SummaryRow]) -> Table:
    table = _table("test", "topology", "frame")
    table.add_column("result")
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        table.add_row(*_subject(row, rows), other_result(row.outcome), _verdict(row))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for title in titles:
        table.add_column(title, no_wrap="test" not in title)
    return table


def _subject(row: SummaryRow, rows: Sequence[SummaryRow]) -> tuple[str, str, str]:
    label, peers = row.outcome.label, [other.outcome.label for other in rows]
    suites = {peer.get("suite") for peer in peers}
    name = f"{label.get('suite', MISSING)}/{test_name(label)}" if len(suites) > 1 else test_name(label)
    return (
        " ".join([name, *distinctions(label, peers)]),
        label.get("topology", MISSING),
        label.get("frame_size", MISSING),
    )


def _latency(row: SummaryRow) -> tuple[str, str]:
    point = typical_latency(row.outcome)
    return (MISSING, MISSING) if point is None else (format_ns(point.p50_ns), format_ns(point.p99_ns))


def _cost(row: SummaryRow) -> str:
    cost = row.outcome.cost
    return MISSING if cost is None or cost.pmd_cycles_per_packet is None else f"{cost.pmd_cycles_per_packet:.0f}"


def _verdict(row: SummaryRow) -> Text:
    word = row.badge or (row.judgement.value if row.judgement else NO_SLA)
    return Text(word, style=BADGE_STYLES.get(word, "dim"))
