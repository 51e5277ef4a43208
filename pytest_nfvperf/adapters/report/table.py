"""The summary table for a terminal, by rich."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude
from pytest_nfvperf.adapters.report.figures import (
    PER_DIRECTION,
    goal_figures,
    goal_seen,
    is_of_times,
    other_result,
    plateau_figures,
    typical_latency,
    worst,
)
from pytest_nfvperf.adapters.report.fitting import fitted, no_room
from pytest_nfvperf.adapters.report.rendered import rendered
from pytest_nfvperf.adapters.report.studies import find_comparisons
from pytest_nfvperf.adapters.report.study_table import BLANK, study_tables
from pytest_nfvperf.adapters.report.subjects import differing, distinctions, test_name
from pytest_nfvperf.model.display import MISSING, format_ns
from pytest_nfvperf.model.evidence.conclusion import NO_SLA, RunConclusion, subject_badge
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome, PlateauPoint, SearchStatus
from pytest_nfvperf.model.samples import Bound
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.latency_origin import latency_origin

BADGE_STYLES = {
    "PASS": "green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "BROKEN": "bold magenta",
    "USAGE": "bold magenta",
    "INTERNAL": "bold magenta",
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
    parts: list[list[RenderableType]] = []
    if searches:
        table, left_out = fitted(partial(_search_table, searches), _OPTIONAL, width)
        parts.append([table, *(Text(note, style="dim") for note in (*_notes(searches), *no_room(left_out)))])
    if sampled:
        parts.append(study_tables([(row.outcome, _verdict(row)) for row in sampled], width))
    if others:
        parts.append([_other_table(others)])
    apart = [part if not number else [BLANK, *part] for number, part in enumerate(parts)]
    return rendered(chain.from_iterable(apart), width=width, color=color)


def _compared(rows: Sequence[SummaryRow]) -> set[tuple[tuple[str, str], ...]]:
    """Labels of those that are a study's; a study of one subject compares nothing, and is a line like any other."""
    sampled = [row.outcome for row in rows if row.outcome.samples and not is_of_times(row.outcome)]
    return {outcome.labels for comparison in find_comparisons(sampled) for outcome in comparison.outcomes}


_HEADINGS = {
    "NDR": "NDR\nMpps",
    "NDR in Gbps": "\nGbps",
    "of line": "of\nline",
    "PDR": "PDR\nMpps",
    "PDR in Gbps": "\nGbps",
    "plateau": "plateau\nMpps",
    "p50": "latency\np50",
    "p99": "\np99",
    "cycles/packet": "cycles/\npacket",
}
_OPTIONAL = ("PDR in Gbps", "NDR in Gbps", "cycles/packet", "plateau", "p50")


def _search_table(rows: Sequence[SummaryRow], left_out: Sequence[str], *, compact: bool) -> Table:  # noqa: ARG001
    table = _table("\ntest", "\ntopology", "\nframe")
    without = {*left_out, *_nowhere(rows)}
    shown = [name for name in _HEADINGS if name not in without]
    for name in shown:
        heading = _HEADINGS["p50"].replace("p50", "p99") if name == "p99" and "p50" in without else _HEADINGS[name]
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("\nverdict", no_wrap=True)
    different = _different(rows)
    for row in rows:
        cells = _search_cells(row)
        table.add_row(*_subject(row, different), *(cells[name] for name in shown), _verdict(row))
    return table


def _nowhere(rows: Sequence[SummaryRow]) -> Iterator[str]:
    """Columns that no row has a figure for."""
    if not any(row.outcome.line_rate_fps for row in rows):
        yield "of line"
    if not any(row.outcome.plateaus for row in rows):
        yield "plateau"


def _search_cells(row: SummaryRow) -> dict[str, str]:
    """Under the names of ``_HEADINGS``."""
    ndr, pdr = (goal_figures(row.outcome, name) for name in ("ndr", "pdr"))
    if not row.outcome.goal("ndr"):
        ndr = goal_figures(row.outcome, row.outcome.goals[0].goal.name)
    loads = (ndr.mpps, ndr.gbps, ndr.line, pdr.mpps, pdr.gbps, plateau_figures(row.outcome).mpps)
    return dict(zip(_HEADINGS, (*loads, *_latency(row), _cost(row)), strict=True))


_AT_LEAST: dict[str, Callable[[GoalOutcome], bool]] = {
    "the generator itself can hardly do more": lambda goal: goal.generator_limited and not goal.slowed,
    "the machine slowed generator or DUT": lambda goal: bool(goal.slowed),
    "the machine disturbed the trials at more": lambda goal: bool(goal.spoiled),
    "nothing more was tried": lambda goal: goal.status is SearchStatus.AT_MAXIMUM and not goal.generator_limited,
}
"""Why a load is a lower bound."""

_AT_LEAST_PLATEAU: dict[str, Callable[[PlateauPoint], bool]] = {
    "the generator itself can hardly do more": lambda point: bool(point.generator_limited),
    "the host kept the CPUs apart": lambda point: bool(point.apart),
}
"""Why a plateau is one."""

_READ_AS = {
    Bound.AT_MOST: "≤ no trial of full length confirmed it: the DUT does at most this.",
    Bound.BETWEEN: "a .. b: the DUT does at least a and less than b; the machine disturbed the trials between.",
    Bound.ABOUT: "~ the machine let nothing be confirmed: the DUT may do less than this, or more.",
}
"""What the other marks of a load say."""


def _notes(rows: Sequence[SummaryRow]) -> list[str]:
    """What a reader must know to read the table."""
    notes = [PER_DIRECTION]
    bounds = [
        (goal, seen.bound)
        for row in rows
        for goal in row.outcome.goals
        if goal.load_fps is not None and (seen := goal_seen(row.outcome, goal.goal.name))
    ]
    at_least = [goal for goal, bound in bounds if bound is Bound.AT_LEAST]
    points = [point for row in rows for point in row.outcome.plateaus]
    whys = [why for why, holds in _AT_LEAST.items() if any(map(holds, at_least))]
    whys += [why for why, holds in _AT_LEAST_PLATEAU.items() if any(map(holds, points))]
    if whys:
        notes.append(f"≥ the DUT does at least this: {', or '.join(dict.fromkeys(whys))}.")
    notes += [text for kind, text in _READ_AS.items() if any(bound is kind for _, bound in bounds)]
    if points:
        notes.append("The plateau is what the DUT forwards at overload, while the machine disturbs nothing.")
    measured = [(point.at, row.outcome.label.get("engine")) for row in rows if (point := typical_latency(row.outcome))]
    if measured:
        origin = latency_origin(engine for _, engine in measured)
        notes.append(f"Latency {origin}, at {', '.join(sorted({at for at, _ in measured}))}.")
    return notes


def _other_table(rows: Sequence[SummaryRow]) -> Table:
    table = _table("test", "topology", "frame")
    table.add_column("result")
    table.add_column("verdict", no_wrap=True)
    different = _different(rows)
    for row in rows:
        table.add_row(*_subject(row, different), other_result(row.outcome), _verdict(row))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for title in titles:
        table.add_column(title, no_wrap="test" not in title, overflow="fold")
    return table


def _different(rows: Sequence[SummaryRow]) -> frozenset[str]:
    return differing([row.outcome.label for row in rows])


def _subject(row: SummaryRow, different: Collection[str]) -> tuple[str, str, str]:
    label = row.outcome.label
    name = f"{label.get('suite', MISSING)}/{test_name(label)}" if "suite" in different else test_name(label)
    return (
        " ".join([name, *distinctions(label, different)]),
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
