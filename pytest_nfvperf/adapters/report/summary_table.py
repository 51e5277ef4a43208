"""The table that a run ends with, by rich: what it searched, what it compared, and everything else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rich.console import RenderableType
from rich.text import Text

from pytest_nfvperf.adapters.evidence.comparison import compared_run
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude
from pytest_nfvperf.adapters.report.comparison import comparison_text
from pytest_nfvperf.adapters.report.figures import (
    PER_DIRECTION,
    cell_of_metric,
    class_figures,
    goal_figures,
    is_of_times,
    metric_columns,
    other_result,
    plateau,
    plateau_figures,
    time_table,
    typical_latency,
)
from pytest_nfvperf.adapters.report.subjects import (
    StudyOutcomes,
    cores_text,
    differing,
    distinctions,
    find_comparisons,
    interval_text,
    median_text,
    name_of_test,
    notes_below,
    ratio_text,
    slope_line,
    subject_notes,
)
from pytest_nfvperf.adapters.report.terminal import rendered, table
from pytest_nfvperf.adapters.report.texts import change_cell
from pytest_nfvperf.model.display import MISSING, Styled, TableColumn, TableRow, format_ns
from pytest_nfvperf.model.evidence.conclusion import NO_SLA, RunConclusion, subject_badge
from pytest_nfvperf.model.figure import Why
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.rules import CLASS
from pytest_nfvperf.model.sla.verdict import Verdict, worst
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.traffic.trial import latency_origin

BADGE_STYLES = {
    "PASS": "green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "BROKEN": "bold magenta",
    "ERROR": "bold magenta",
    "USAGE": "bold magenta",
    "INTERNAL": "bold magenta",
}

_SINCE = TableColumn("since the\nlast run", folds=True)
_SEARCHED = {
    "NDR": TableColumn("NDR\nMpps", right=True),
    "NDR in Gbps": TableColumn("NDR\nGbps", right=True, optional=2),
    "of line": TableColumn("of\nline", right=True),
    "PDR": TableColumn("PDR\nMpps", right=True),
    "PDR in Gbps": TableColumn("PDR\nGbps", right=True, optional=1),
    "plateau": TableColumn("plateau\nMpps", right=True, optional=4),
    "p50": TableColumn("latency\np50", right=True, optional=5),
    "p99": TableColumn("latency\np99", right=True),
    "since": _SINCE,
}

_READ_AS = {
    Bound.AT_MOST: "≤ no trial of full length confirmed it: the DUT does at most this.",
    Bound.BETWEEN: "a .. b: the DUT does at least a and less than b; the machine disturbed the trials between.",
    Bound.ABOUT: "~ the machine let nothing be confirmed: the DUT may do less than this, or more.",
}
"""What the other marks of a load say."""

_MOST_LOADS = 4
_STUDIED = {
    "median": TableColumn("median", right=True),
    "ratio": TableColumn("of", right=True),
    "interval": TableColumn("interval", right=True),
    "since": _SINCE,
    "cores": TableColumn("cores", right=True, optional=2),
}
_CORES = "Cores: sender + receiver + datapath (vswitchd; softirq, too, where the datapath is in the kernel)."


def run_table(
    run: RunEvidence,
    conclusion: RunConclusion,
    *,
    width: int | None = None,
    color: bool = False,
    most: int | None = None,
) -> str:
    """The table as text; "" if nothing was measured.

    ``width``: columns; None: as wide as needed. ``most``: rows; of a larger run the tests that did not pass come first.
    """
    compared = compared_run(run, conclusion)
    if compared is not None:
        return comparison_text(compared, width=width, color=color, most=most, path=run.path)
    count = sum(len(test.outcomes) for test in run.tests.values())
    among = _first_tests(run, conclusion, most) if most is not None and count > most else None
    rows = summary_rows(run, conclusion, among)
    shown = summary_text(rows, width=width, color=color) if rows else ""
    if among is None:
        return shown
    left = f"The table has {len(rows):,} of {count:,} rows, of tests that did not pass first."
    return f"{shown}\n{left} All: nfvperf show {run.path}"


def _first_tests(run: RunEvidence, conclusion: RunConclusion, most: int) -> frozenset[str]:
    """Ids of whole tests that have about ``most`` rows, those that did not pass before others."""
    wrong = {test.node_id for test in conclusion.tests if test.wrong or test.tolerated}
    found, rows = set[str](), 0
    for test in sorted(run.tests.values(), key=lambda test: test.node_id not in wrong):
        if rows < most:
            found.add(test.node_id)
            rows += len(test.outcomes)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One outcome with the verdicts on it.

    ``badge``: the word for it, where its test is known; else the verdicts'. ``since``: its change since the last run.
    """

    outcome: Outcome
    verdicts: tuple[Verdict, ...] = ()
    badge: str = ""
    since: str = MISSING


def summary_rows(
    run: RunEvidence, conclusion: RunConclusion | None = None, among: Collection[str] | None = None
) -> list[SummaryRow]:
    """A row for each outcome, in the order of measurement.

    ``conclusion``: of this run, if known. ``among``: ids of the tests; None: all.
    """
    conclusion = conclusion or conclude(run)
    rows = []
    for test in run.tests.values():
        if among is not None and test.node_id not in among:
            continue
        for outcome in test.outcomes.values():
            about = test.verdicts_on(outcome)
            badge = subject_badge(conclusion.test(test.node_id), about, len(test.outcomes))
            rows.append(SummaryRow(outcome, about, badge, change_cell(outcome, test.comparisons.values())))
    return rows


def summary_text(rows: Sequence[SummaryRow], *, width: int | None = None, color: bool = False) -> str:
    """The table, with ANSI colours or without. ``width``: columns; None: as wide as needed."""
    searches = [row for row in rows if row.outcome.goals]
    # A study of one subject compares nothing, and is a line like any other.
    samples = [row.outcome for row in rows if row.outcome.samples and not is_of_times(row.outcome)]
    compared = {outcome.labels for comparison in find_comparisons(samples) for outcome in comparison.outcomes}
    sampled = [row for row in rows if row.outcome.labels in compared]
    others = [row for row in rows if not row.outcome.goals and row.outcome.labels not in compared]
    parts: list[list[RenderableType]] = []
    if searches:
        parts.append([*_search_table(searches, width), *(Text(note, style="dim") for note in _notes(searches))])
    if sampled:
        parts.append(_study_tables(sampled, width))
    if others:
        own = [TableColumn("result", folds=True), *[_SINCE][: any(row.since != MISSING for row in others)]]
        metrics = metric_columns(row.outcome for row in others if not row.outcome.samples)
        cells = lambda row: [other_result(row.outcome), row.since][: len(own)]  # noqa: E731
        parts.append(_outcome_table(others, own, cells, metrics, width))
    if any(row.outcome.classes for row in rows):
        parts.append(_class_table(rows, width))
    counted = dict.fromkeys(text for row in rows for text in row.outcome.dut_counted)
    parts += [[Text(f"The DUT counted {text}", style="yellow") for text in counted]] if counted else []
    separated = [part if not number else [Text(""), *part] for number, part in enumerate(parts)]
    return rendered(chain.from_iterable(separated), width=width, color=color)


def _search_table(rows: Sequence[SummaryRow], width: int | None) -> list[RenderableType]:
    """NDR, PDR and latency of searches, without the columns that no row fills."""
    filled = {
        "of line": any(row.outcome.line_rate_fps for row in rows),
        "plateau": any(plateau(row.outcome) for row in rows),
        "since": any(row.since != MISSING for row in rows),
    }
    columns = {name: column for name, column in _SEARCHED.items() if filled.get(name, True)}

    def cells(row: SummaryRow) -> list[str]:
        return [text for name, text in _search_cells(row).items() if name in columns]

    return _outcome_table(rows, columns.values(), cells, metric_columns(row.outcome for row in rows), width)


def _outcome_table(
    rows: Sequence[SummaryRow],
    own: Iterable[TableColumn],
    cells: Callable[[SummaryRow], list[str]],
    metrics: Mapping[str, TableColumn],
    width: int | None,
) -> list[RenderableType]:
    """A line for each outcome. ``own``: columns that ``cells`` fills; ``metrics``: further columns, by the metric."""
    columns = [*map(TableColumn, ("test", "topology", "frame")), *own, *metrics.values(), TableColumn("verdict")]
    different = differing([row.outcome.label for row in rows])
    lines: list[TableRow] = [
        [*_subject(row, different), *cells(row), *_metric_cells(row.outcome, metrics), _verdict(row)] for row in rows
    ]
    return table(columns, lines, width)


def _search_cells(row: SummaryRow) -> dict[str, str]:
    ndr, pdr = (goal_figures(row.outcome, name) for name in ("ndr", "pdr"))
    if not row.outcome.goal("ndr"):
        ndr = goal_figures(row.outcome, row.outcome.goals[0].goal.name)
    point = typical_latency(row.outcome)
    cells = (
        *(ndr.mpps, ndr.gbps, ndr.line, pdr.mpps, pdr.gbps, plateau_figures(row.outcome).mpps),
        MISSING if point is None else format_ns(point.p50_ns),
        MISSING if point is None else format_ns(point.p99_ns),
        row.since,
    )
    return dict(zip(_SEARCHED, cells, strict=True))


def _metric_cells(outcome: Outcome, names: Iterable[str]) -> list[str]:
    return [cell_of_metric(outcome, name) for name in names]


def _notes(rows: Sequence[SummaryRow]) -> list[str]:
    notes = [PER_DIRECTION]
    goals = [(row.outcome, goal.goal.name) for row in rows for goal in row.outcome.goals if goal.load_fps is not None]
    loads = [figure for outcome, name in goals if (figure := outcome.figure(name, "pps")) is not None]
    points = [figure for row in rows if (figure := plateau(row.outcome)) is not None]
    at_least = {why for figure in (*loads, *points) if figure.bound is Bound.AT_LEAST for why in figure.why}
    if at_least:
        notes.append(f"≥ the DUT does at least this: {', or '.join(why for why in Why if why in at_least)}.")
    notes += [text for kind, text in _READ_AS.items() if any(figure.bound is kind for figure in loads)]
    if points:
        notes.append("The plateau is what the DUT forwards at overload, while the machine disturbs nothing.")
    measured = [(point.at, row.outcome.label.get("engine")) for row in rows if (point := typical_latency(row.outcome))]
    if measured:
        origin = latency_origin(engine for _, engine in measured)
        notes.append(f"Latency {origin}, at {', '.join(sorted({load for load, _ in measured}))}.")
    return notes


def _class_table(rows: Sequence[SummaryRow], width: int | None) -> list[RenderableType]:
    """The classes of each mix at each load; of a series of loads only those at which one lost frames.

    A verdict is shown where it was judged: in the row of a trial that it rests on.
    """
    columns = [*map(TableColumn, ("test", "class", "frame", "of load")), TableColumn("at", folds=True)]
    columns += [*(TableColumn(title, right=True) for title in ("rate", "lost", "p50", "p99")), TableColumn("verdict")]
    different = differing([row.outcome.label for row in rows])
    cells = list[TableRow]()
    for row in rows:
        name, _, _ = _subject(row, different)
        classes = class_figures(row.outcome)
        lossy = {of_class.at for of_class in classes if of_class.lossy}
        several = len({of_class.at for of_class in classes}) > _MOST_LOADS
        for of_class in (of_class for of_class in classes if not several or of_class.at in lossy):
            about = [
                verdict
                for verdict in row.verdicts
                if dict(verdict.subject).get(CLASS) == of_class.name and of_class.trial_id in verdict.evidence
            ]
            word = worst(about).value if about else ""
            figures = (of_class.of_load, of_class.at, of_class.rate, of_class.lost, of_class.p50, of_class.p99)
            cells.append([name, of_class.name, of_class.frames, *figures, (word, BADGE_STYLES.get(word, "dim"))])
    return table(columns, cells, width, once=True)


def _subject(row: SummaryRow, different: Collection[str]) -> tuple[str, str, str]:
    label = row.outcome.label
    name = f"{label.get('suite', MISSING)}/{name_of_test(label)}" if "suite" in different else name_of_test(label)
    return (
        " ".join([name, *distinctions(label, different)]),
        label.get("topology", MISSING),
        label.get("frame_size", MISSING),
    )


def _verdict(row: SummaryRow) -> Styled:
    word = row.badge or (worst(row.verdicts).value if row.verdicts else NO_SLA)
    return word, BADGE_STYLES.get(word, "dim")


def _study_tables(rows: Sequence[SummaryRow], width: int | None = None) -> list[RenderableType]:
    comparisons = find_comparisons([row.outcome for row in rows])
    by_labels = {row.outcome.labels: row for row in rows}
    shown: list[RenderableType] = []
    for comparison in comparisons:
        title = Text(f"{comparison.name}: {metric_of(comparison.main).title}", style="bold")
        notes = (Text(line, style="dim") for line in (slope_line(comparison), *subject_notes(comparison)) if line)
        shown += [*([Text("")] if shown else []), title, *_study_table(comparison, by_labels, width), *notes]
    below = [_CORES] if any(comparison.main == "tcp_throughput" for comparison in comparisons) else []
    below += notes_below(comparisons)
    return [*shown, *([Text("")] if below else []), *(Text(note, style="dim") for note in below)]


def _study_table(
    comparison: StudyOutcomes, by_labels: Mapping[tuple[tuple[str, str], ...], SummaryRow], width: int | None
) -> list[RenderableType]:
    baseline = comparison.outcomes[0].label[comparison.per]
    filled = [_cells(by_labels[outcome.labels], comparison) for outcome in comparison.outcomes]
    shown = [name for name in _STUDIED if any(cell[name] != MISSING for cell in filled)]
    columns = _STUDIED | {"ratio": TableColumn(f"of {comparison.per} {baseline}", right=True)}
    more = metric_columns(comparison.outcomes)
    more.pop(comparison.main, None)
    rows = list[TableRow]()
    for outcome, cells in zip(comparison.outcomes, filled, strict=True):
        own = [*map(cells.__getitem__, shown), *_metric_cells(outcome, more)]
        rows.append([outcome.label[comparison.per], *own, _verdict(by_labels[outcome.labels])])
    per = TableColumn(comparison.per, right=True)
    return table([per, *map(columns.__getitem__, shown), *more.values(), TableColumn("verdict")], rows, width)


def _cells(row: SummaryRow, comparison: StudyOutcomes) -> dict[str, str]:
    outcome = row.outcome
    main, ratio = outcome.sampled(comparison.main), outcome.relative(comparison.main)
    return {
        "median": MISSING if main is None else median_text(main),
        "ratio": ratio_text(ratio),
        "interval": interval_text(ratio),
        "since": row.since,
        "cores": cores_text(outcome),
    }


def times_text(run: RunEvidence, *, width: int | None = None, color: bool = False) -> str:
    headings, rows = time_table(run)
    if not rows:
        return f"{run.path}: nothing says what its tests spent their time on: earlier versions noted that of no test"
    columns = [TableColumn("test"), *(TableColumn(heading, right=True) for heading in headings)]
    return rendered(table(columns, [[name, *cells] for _, name, cells in rows], width), color=color)
