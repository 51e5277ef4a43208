"""Several runs side by side: NIC x frame size x datapath x offload, with verdicts and published figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, conclude
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.figures import bounded_text, format_line_share, goal_seen
from pytest_nfvperf.adapters.report.published_figures import PublishedSeries
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.model.display import format_fps, format_ratio, label_words
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, subject_badge
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement

_OWN_PORTS = "embedded (vhost-user)"
_GOALS = ("ndr", "pdr", "throughput")
_FORWARDING = "forwarding_rate"
_TITLES = {_FORWARDING: "forwarding rate"}


@dataclass(frozen=True, slots=True)
class Published:
    """Somebody else's figure for the same traffic. ``share``: the measured figure as a share of it, as text."""

    value: str
    share: str
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One outcome. ``figures``: (goal or forwarding rate, value per direction), as text.

    ``lines``: shares of line rate, one for each of ``figures``; empty if ports and underlays have none.
    """

    figures: tuple[tuple[str, str], ...]
    badge: str
    why: str
    published: tuple[Published, ...]
    run: str
    test: str
    lines: tuple[str, ...] = ()


class _Rate(NamedTuple):
    """``fps``: per direction; None if none was found, and ``text`` says why."""

    metric: str
    fps: float | None
    text: str


@dataclass(slots=True)
class MatrixRow:
    """One setting, and its cells by frame size."""

    nic: str
    firmware: str
    datapath: str
    offload: str
    subject: str
    cells: dict[str, list[Cell]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matrix:
    """``runs``: name, testbed, DUT, profile and conclusion of each."""

    sizes: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    runs: tuple[tuple[str, str, str, str, str], ...]


def matrix_of(runs: Iterable[tuple[RunEvidence, Sequence[PublishedSeries]]]) -> Matrix:
    """Outcomes that are rates, of several runs. Each run comes with the figures published for its suites."""
    rows: dict[tuple[str, ...], MatrixRow] = {}
    named = []
    for run, published in runs:
        conclusion = conclude(run)
        named.append((*_run_facts(run), conclusion.headline))
        for node_id, test in run.tests.items():
            for outcome in test.outcomes.values():
                if not _rates(outcome):
                    continue
                row = _row(outcome.label)
                key = (row.subject, row.nic, row.firmware, row.datapath, row.offload)
                cell = _cell(outcome, test, conclusion.test(node_id), published, run.path.name)
                size = outcome.label.get("frame_size", "-")
                rows.setdefault(key, row).cells.setdefault(size, []).append(cell)
    sizes = {size for row in rows.values() for size in row.cells}
    rising = sorted(sizes, key=lambda size: (int(size), "") if size.isdigit() else (1 << 30, size))
    return Matrix(tuple(rising), tuple(rows[key] for key in sorted(rows)), tuple(named))


def render_matrix(matrix: Matrix, path: Path) -> Path:
    page = environment().get_template("matrix.html").render(matrix=matrix, style=style())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return path


def _run_facts(run: RunEvidence) -> tuple[str, str, str, str]:
    data = run.run
    if data is None:
        return run.path.name, "?", "?", "?"
    dut = f"Open vSwitch {data.dut.version}" if data.dut else "?"
    dut += f", DPDK {data.dut.dpdk_version}" if data.dut and data.dut.dpdk_version else ""
    return run.path.name, data.testbed.name, dut, data.profile


def _row(labels: Mapping[str, str]) -> MatrixRow:
    texts = {"topology": "{}", "overlay": "{}", "link": "{} links", "bridges": "bridge", "direction": "{}"}
    texts |= {} if labels.get("flows") == "1" else {"flows": "flow"}
    return MatrixRow(
        nic=labels.get("nic", _OWN_PORTS),
        firmware=labels.get("firmware", "-"),
        datapath=labels.get("datapath", "-"),
        offload=labels.get("offload", "off"),
        subject=f"{labels.get('test', '').removeprefix('test_')}: {', '.join(label_words(labels, texts))}",
    )


def _cell(
    outcome: Outcome, test: TestEvidence, became: TestConclusion, published: Sequence[PublishedSeries], run: str
) -> Cell:
    own, rates, line = test.verdicts_on(outcome), _rates(outcome), outcome.line_rate_fps
    bad = [verdict for verdict in own if verdict.judgement is not Judgement.PASS]
    lines = [] if line is None else ["-" if rate.fps is None else format_line_share(rate.fps, line) for rate in rates]
    return Cell(
        figures=tuple((_TITLES.get(rate.metric, rate.metric.upper()), rate.text) for rate in rates),
        badge=subject_badge(became, own, len(test.outcomes)),
        why="; ".join(f"{verdict.requirement}: {verdict.reason}" for verdict in bad) or became.reason,
        published=tuple(_published(outcome, rates, published)),
        run=run,
        test=test.node_id,
        lines=tuple(lines),
    )


def _rates(outcome: Outcome) -> list[_Rate]:
    """What searches found, and medians of repeated forwarding rates."""
    found = []
    for goal in filter(None, map(outcome.goal, _GOALS)):
        name, seen = goal.goal.name, goal_seen(outcome, goal.goal.name)
        if seen is None or goal.load_fps is None:
            found.append(_Rate(name, None, str(goal.status).replace("_", " ")))
        else:
            found.append(_Rate(name, seen.value, bounded_text(seen, format_fps)))
    samples = outcome.sampled(_FORWARDING)
    if samples is not None:
        found.append(_Rate(_FORWARDING, samples.median, samples.bound.mark + format_fps(samples.median)))
    return found


def _published(outcome: Outcome, rates: Sequence[_Rate], published: Sequence[PublishedSeries]) -> Iterable[Published]:
    """Published figures of the same goal and frame size whose selectors match this subject."""
    for series in published:
        size = outcome.label.get("frame_size", "")
        value = series.frames_per_second().get(int(size)) if size.isdigit() else None
        measured = next((rate.fps for rate in rates if rate.metric == series.metric), None)
        if value is None or not series.belongs_to(outcome.label):
            continue
        share = format_ratio(measured / value) if measured is not None else "-"
        yield Published(format_fps(value), share, series.name, series.source)
