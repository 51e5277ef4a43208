"""The history as people see it: a table for terminals, and a page with a line for each cause."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pytest_nfvperf.adapters.report.page_parts import environment
from pytest_nfvperf.adapters.report.terminal import rendered, table
from pytest_nfvperf.features.history.files import write_file
from pytest_nfvperf.features.history.series import (
    COMMIT,
    ChangeMeaning,
    FigureSeries,
    HistoryChange,
    HistoryEntry,
    MachinePeriod,
    SeriesPoint,
    Watched,
    in_order,
    machines,
)
from pytest_nfvperf.features.history.triage import TriageLine, importance
from pytest_nfvperf.model.display import TableColumn, TableRow, format_value, how_many
from pytest_nfvperf.model.errors import ConfigError

_STYLES = {ChangeMeaning.WORSE: "bold red", ChangeMeaning.BETTER: "green", ChangeMeaning.CHANGED: "yellow"}
_PAGE_STYLES = {"worse": "fail", "better": "pass", "changed": "inconclusive"}
_LEAST_REACH = 0.05
"""Least reach of an axis around the values, as a share: noise of a per mille must look small."""

_MOST_ROWS, _MOST_MOVED = 1000, 60
"""Series of a page, and series listed for a cause: a browser takes minutes for more, and nobody reads them."""

_SPARK_WIDTH, _SPARK_HEIGHT = 120, 28
_VERSION_URL = re.compile(rf"(?:(ovs|{COMMIT}|dpdk|kernel|nfvperf)=)?(https?://[^\s{{}}]*\{{version\}}[^\s{{}}]*)")
_OVS = ""
"""Key of a template without a name: it is for the commit of OVS, or its version where no commit is known."""


def _meaning(watched: Watched) -> tuple[list[str], ChangeMeaning | None]:
    """Its changes as texts, or why it cannot be checked; their direction, None without a change.

    The direction is WORSE if a change counts, else that of the last change that is not for the worse.
    """
    # ``-9.8 % at 20261120-093000-4711, acknowledged: the new checksum costs that``
    texts = [f"{change.step.ratio - 1:+.1%} at {change.run}{_state(change, ',')}" for change in watched.changes]
    others = [change.direction for change in watched.changes if change.direction is not ChangeMeaning.WORSE]
    counts = any(change.counts for change in watched.changes)
    direction = ChangeMeaning.WORSE if counts else others[-1] if others else None
    return texts or list(filter(None, [watched.why_not])), direction


def _state(change: HistoryChange, sign: str) -> str:
    if change.acknowledged is not None:
        return f"{sign} acknowledged: {change.acknowledged.reason}"
    return f"{sign} recovered since" if change.recovered else ""


def machine_line(machine: MachinePeriod) -> str:
    """Which runs are on it, and how it differs from the machine before."""
    differs = f"; it is not machine {machine.number - 1}: {'; '.join(machine.differs)}" if machine.differs else ""
    return f"machine {machine.number}: testbed {machine.runs[0].testbed}, first run {machine.runs[0].run}{differs}"


def history_text(watched: Sequence[Watched], *, width: int | None = None, color: bool = False) -> str:
    """``width``: columns; None: as wide as needed."""
    names = [TableColumn(title, folds=title != "test") for title in ("test", "metric", "machine")]
    figures = [TableColumn(title, right=True) for title in ("runs", "median", "last")]
    rows: list[TableRow] = []
    for series, (texts, direction) in ((each.series, _meaning(each)) for each in watched):
        about = (series.name, series.what, str(series.machine), str(len(series.points)))
        values = format_value(median(series.values), series.unit), _figure_text(series.points[-1])
        rows.append([*about, *values, ("\n".join(texts), _STYLES[direction] if direction else "dim")])
    return rendered(table([*names, *figures, TableColumn("changes", folds=True)], rows, width, once=True), color=color)


def version_urls(templates: Iterable[str]) -> dict[str, str]:
    """Templates of links by the name of the version: ``dpdk=https://host/tag/v{version}``.

    Raises:
        ConfigError: one is no address with ``{version}`` in it, or names no version.
    """
    found = {}
    for template in templates:
        match = _VERSION_URL.fullmatch(template)
        if match is None:
            raise ConfigError(
                f"{template!r} is no template of an address: write [NAME=]https://HOST/commit/{{version}}, where NAME "
                "is ovs, commit, dpdk, kernel or nfvperf",
                key="--version-url",
            )
        found[match[1] or _OVS] = match[2]
    return found


@dataclass(frozen=True, slots=True)
class HistoryLinks:
    """Where texts of the page lead.

    Attributes:
        versions: by ``version_urls``.
        runs: relative address of a run's report, by its id.
        up: relative address of the page of all runs.
    """

    versions: Mapping[str, str]
    runs: Mapping[str, str]
    up: str = ""

    def version(self, name: str, value: str, *, has_commit: bool) -> str:
        """The address for a version; "" for none."""
        of_ovs = name == (COMMIT if has_commit else "ovs")
        template = self.versions.get(name) or (self.versions.get(_OVS, "") if of_ovs else "")
        return template.replace("{version}", quote(value, safe="")) if value != "unknown" else ""


def cause_line(line: TriageLine) -> str:
    """``worse since run 20261120-093000-4711 of 2026-11-20 09:30: ovs 3.2.1 before, 3.3.0 after: -8.1% pdr of ...``."""
    series, change = line.moved[0]
    others = f", and {how_many(len(line.moved) - 1, 'other')}" if len(line.moved) > 1 else ""
    return f"{_cause_head(line)}: {change.step.ratio - 1:+.1%} {series.what} of {series.name}{others}"


def cause_lines(line: TriageLine) -> list[str]:
    """The cause, and below it a line for each series that moved; those that make a check fail come first."""
    moved = sorted(line.moved, key=lambda each: not each[1].counts)
    left_out = len(moved) - _MOST_MOVED
    rest = [f"and {how_many(left_out, 'other')}: choose by --test or --metric"] if left_out > 0 else []
    return [_cause_head(line), *(_moved_line(line, *each) for each in moved[:_MOST_MOVED]), *rest]


def _cause_head(line: TriageLine) -> str:
    differ = ", ".join(f"{name} {before} before, {after} after" for name, before, after in line.differs)
    new = differ or "the same versions before and after"
    return f"{line.state} since run {line.first.run} of {line.first.when}: {new}"


def _moved_line(line: TriageLine, series: FigureSeries, change: HistoryChange) -> str:
    """``worse: throughput/test_rate phy2phy 64, pdr: 4.00 Mpps to 3.50 Mpps (-12.4%)``."""
    levels = " to ".join(format_value(level, series.unit) for level in (change.step.before, change.step.after))
    when = f" since run {change.run}" if change.run != line.first.run else ""
    share = f"{change.step.ratio - 1:+.1%}"
    return f"{change.direction}: {series.name}, {series.what}: {levels} ({share}){when}{_state(change, ';')}"


def render_history(
    entries: Sequence[HistoryEntry],
    watched: Sequence[Watched],
    causes: Sequence[TriageLine],
    problems: Sequence[str],
    path: Path,
    links: HistoryLinks,
) -> Path:
    """Write the page; returns its path. ``causes``: by ``triage``.

    Raises:
        ConfigError: it cannot be written.
    """
    runs = in_order(entries)
    changed = sorted(watched, key=lambda each: (not each.changes, importance(each.series.metric)))
    shown = sorted(
        changed[:_MOST_ROWS],
        key=lambda each: (importance(each.series.metric), each.series.full_name, each.series.at, each.series.machine),
    )
    anchors = {id(each.series): f"s-{number}" for number, each in enumerate(shown)}
    by_machine = machines(entries)
    order = {run.run: index for index, run in enumerate(runs)}
    versions = [", ".join(f"{name} {value[:16]}" for name, value in run.versions.items()) for run in runs]
    chart_data = {  # what history.js draws from
        "runs": [(run.run, run.when, text) for run, text in zip(runs, versions, strict=True)],
        "series": [_series_data(each, order) for each in shown],
    }
    context = {
        "first": runs[0],
        "last": runs[-1],
        "count": len(runs),
        "up": links.up,
        "styles": _PAGE_STYLES,
        "chips": _chips(causes, watched),
        "notices": [*(f"left out: {problem}" for problem in problems), *_notices(runs, watched)],
        "left_out": len(watched) - len(shown),
        "machines": [machine_line(machine) for machine in by_machine],
        "several_machines": len(by_machine) > 1,
        "suites": sorted({_suite(each.series) for each in watched}),
        "metrics": sorted({each.series.metric for each in watched}, key=lambda name: (importance(name), name)),
        "causes": [_cause(cause, anchors, links, len(by_machine) > 1) for cause in causes],
        "nothing": "No change was found in any series.",
        "rows": [_series_row(each, anchors[id(each.series)]) for each in shown],
        "data": htmlsafe_json_dumps(chart_data, separators=(",", ":")),
    }
    return write_file(path, environment().get_template("history.html").render(context))


def _chips(causes: Sequence[TriageLine], watched: Sequence[Watched]) -> list[tuple[str, int, str]]:
    """(style, number, text) for the head."""
    states = Counter(cause.state for cause in causes)
    named = dict.fromkeys((*_PAGE_STYLES, *states))
    chips = [
        (_PAGE_STYLES.get(state, ""), states[state], state) for state in named if state != "changed" or states[state]
    ]
    short = sum(watched_series.why_not.startswith("too few runs") for watched_series in watched)
    chips.append(("", len(watched), "series"))
    return [*chips, ("inconclusive", short, "too few runs to tell")] if short else chips


def _notices(runs: Sequence[HistoryEntry], watched: Sequence[Watched]) -> list[str]:
    newest = [watched_series for watched_series in watched if watched_series.series.points[-1].run.run == runs[-1].run]
    notices = []
    if newest and all(watched_series.why_not for watched_series in newest):
        notices.append("Too few runs to tell: none of the newest run's series can be checked yet.")
    disturbed = {
        watched_series.series.points[index].run.run for watched_series in watched for index in watched_series.disturbed
    }
    groups = [list(group) for is_so, group in groupby(runs, key=lambda run: run.run in disturbed) if is_so]
    spans = [f"{group[0].run} to {group[-1].run}" if len(group) > 1 else group[0].run for group in groups]
    if disturbed:
        notices.append(
            f"{how_many(len(disturbed), 'run')} ({', '.join(spans)}) scatter much more than the others: the rig was "
            "disturbed. They are drawn, and left out of the search for changes."
        )
    return notices


def _suite(series: FigureSeries) -> str:
    return series.name.partition("/")[0]


def _cause(cause: TriageLine, anchors: Mapping[int, str], links: HistoryLinks, several: bool) -> dict[str, Any]:
    has_commit = any(name == COMMIT for name, *_ in cause.differs)
    series, change = cause.moved[0]
    return {
        "state": cause.state,
        "time": cause.first.started_ns // 10**9,
        "size": abs(cause.size),
        "when": cause.first.when,
        "run": cause.first.run,
        "run_link": links.runs.get(cause.first.run, ""),
        "machine": cause.machine if several else 0,
        "differs": [
            (name, *((value, links.version(name, value, has_commit=has_commit)) for value in values))
            for name, *values in cause.differs
        ],
        "suites": sorted({_suite(series) for series, _ in cause.moved}),
        "metrics": sorted({series.metric for series, _ in cause.moved}),
        "moved": [_moved(series, change, anchors) for series, change in cause.moved[:_MOST_MOVED]],
        "count": len(cause.moved),
        "lead": _moved(series, change, anchors),
        "others": how_many(len(cause.moved) - 1, "other") if len(cause.moved) > 1 else "",
        "spark": sparkline(Watched(series, (change,))),
    }


def _moved(series: FigureSeries, change: HistoryChange, anchors: Mapping[int, str]) -> dict[str, str]:
    return {
        "style": _PAGE_STYLES[str(change.direction)],
        "share": f"{change.step.ratio - 1:+.1%}",
        "what": series.what,
        "name": series.name,
        "levels": " to ".join(format_value(level, series.unit) for level in (change.step.before, change.step.after)),
        "note": _state(change, "").strip(),
        "anchor": anchors.get(id(series), ""),
    }


def _series_row(watched: Watched, anchor: str) -> dict[str, Any]:
    series, changes = watched.series, watched.changes
    texts, direction = _meaning(watched)
    return {
        "anchor": anchor,
        "name": series.name,
        "what": series.what,
        "suite": _suite(series),
        "metric": series.metric,
        "machine": series.machine,
        "count": len(series.points),
        "median": format_value(median(series.values), series.unit),
        "last": _figure_text(series.points[-1]),
        "state": "" if direction is None else str(direction),
        "text": "; ".join(texts),
        "size": max((abs(math.log(change.step.ratio)) for change in changes), default=0.0),
        "spark": sparkline(watched),
    }


def _figure_text(point: SeriesPoint) -> str:
    return f"{point.figure.bound} {format_value(point.figure.value, point.figure.unit)}".strip()


def _reach(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis: around the values, and wide enough that noise looks small."""
    low, high = min(values), max(values)
    spare = max((high - low) * 0.1, _LEAST_REACH * abs(high)) or 1.0  # of a loss that was 0 in every run
    return low - spare, high + spare


def sparkline(watched: Watched) -> Markup:
    """The values of a series as a small picture, with a rule at each change."""
    values = watched.series.values
    low, high = _reach(values)

    def x(index: float) -> float:
        return round(_SPARK_WIDTH * (index + 0.5) / len(values), 1)

    def y(value: float) -> float:
        return round(_SPARK_HEIGHT * (high - value) / (high - low), 1)

    points = [f"{x(index)} {y(value)}" for index, value in enumerate(values)]
    path = "M" + "L".join(points if len(points) > 1 else [f"{x(-0.2)} {y(values[0])}", f"{x(0.2)} {y(values[0])}"])
    rules = Markup("").join(
        Markup('<line class="{0}" x1="{1}" x2="{1}" y1="0" y2="{2}"/>').format(
            change.direction, x(change.step.at - 0.5), _SPARK_HEIGHT
        )
        for change in watched.changes
    )
    start = Markup('<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">')
    return start.format(_SPARK_WIDTH, _SPARK_HEIGHT) + rules + Markup('<path d="{}"/></svg>').format(path)


def _series_data(watched: Watched, order: Mapping[str, int]) -> dict[str, Any]:
    series, changes = watched.series, watched.changes
    figures = [point.figure for point in series.points]
    low, high = _reach(series.values)
    edges = [0, *(change.step.at for change in changes), len(figures)]
    levels = [*(change.step.before for change in changes), *(change.step.after for change in changes[-1:])]
    data: dict[str, Any] = {
        "name": f"{series.name}, {series.what}",
        "run": [order[point.run.run] for point in series.points],
        "value": [_short(value) for value in series.values],
        "text": list(map(_figure_text, series.points)),
        "reach": (low, high),
        "ticks": [(value, format_value(value, series.unit)) for value in (min(series.values), max(series.values))],
        "levels": [(start, end, _short(level)) for start, end, level in zip(edges, edges[1:], levels, strict=False)],
        "changes": [(one.step.at, f"{one.step.ratio - 1:+.1%}", str(one.direction)) for one in changes],
        "disturbed": sorted(watched.disturbed),
    }
    if any(figure.bound for figure in figures):
        data["bound"] = [int(bool(figure.bound)) for figure in figures]
    if any(figure.low is not None and figure.high is not None for figure in figures):
        data["range"] = [
            []
            if one.low is None or one.high is None
            else [_short(min(max(end, low), high)) for end in (one.low, one.high)]
            for one in figures
        ]
    return data


def _short(value: float) -> float:
    return float(f"{value:.5g}")
