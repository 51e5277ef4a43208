"""The datasheet of a run: RFC 2544's tables and graphs, limits, conditions, and the environment's signature.

One page for filing. It has no scripts, so what a browser prints of it is all of it. What a section lacks it says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, conclude
from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report import figures, vega
from pytest_nfvperf.adapters.report.charts import find_sweeps, loss_chart, sweep_chart
from pytest_nfvperf.adapters.report.figures import bound_mark
from pytest_nfvperf.adapters.report.html import head_style
from pytest_nfvperf.adapters.report.page_parts import environment, inline
from pytest_nfvperf.adapters.report.run_facts import facts, flattened, simulated_lines, versions_text
from pytest_nfvperf.adapters.report.subjects import name_of_test, title
from pytest_nfvperf.adapters.report.vega import SERIES, Look, View
from pytest_nfvperf.model.display import (
    MISSING,
    format_against,
    format_count,
    format_fps,
    format_margin,
    format_ns,
    format_ratio,
    format_seconds,
    how_many,
)
from pytest_nfvperf.model.evidence.comparison import CPU_BANDS
from pytest_nfvperf.model.evidence.records import plain
from pytest_nfvperf.model.measure.outcome import LossPoint, Outcome
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.sla.verdict import Verdict, worst
from pytest_nfvperf.model.traffic.trial import latency_origin

DATASHEET_FILE = "datasheet.html"
NOT_KNOWN = "missing"

_MOST_GRAPHS = 12
"""Graphs below one table, which has all figures."""
_CONDITIONS = (
    ("CPU", "cpu_model"),
    ("Microcode", "cpu_microcode"),
    ("Hyper-threading", "smt"),
    ("Hypervisor", "hypervisor"),
    ("Hugepages, MiB", "hugepages_mib"),
    ("Memory, MiB", "memory_mib"),
    ("Kernel", "kernel"),
    ("Operating system", "os"),
)
_Row = tuple[str, ...]
_Measured = tuple[Outcome, tuple[Verdict, ...]]
_Graph = tuple[list[View], str]
"""The panels, and a title."""


def _section(
    title: str,
    head: _Row,
    rows: Sequence[_Row],
    lacking: str,
    *,
    text: int = 2,
    note: str = "",
    graphs: Sequence[_Graph] = (),
    graph: str = "graph",
) -> dict[str, Any]:
    """A table with its graphs. ``text``: the first columns are text, the others figures. ``note``: below the table.

    ``lacking``: for a table without rows. ``graph``: what one is called.
    """
    left_out = len(graphs) - _MOST_GRAPHS
    note += f" {how_many(left_out, graph)} in the table only." if left_out > 0 else ""
    drawn = [inline(panels, name) for panels, name in graphs[:_MOST_GRAPHS]]
    return {"title": title, "head": head, "rows": rows, "lacking": lacking, "text": text, "note": note, "graphs": drawn}


def _by_frame_size(heading: str, unit: str, curves: Mapping[str, Mapping[str, float]]) -> list[_Graph]:
    """One graph for each six subjects; none for those that have one frame size only."""
    several = [(name, points) for name, points in curves.items() if len(points) > 1]
    graphs = []
    for part in (several[first : first + len(SERIES)] for first in range(0, len(several), len(SERIES))):
        sizes = {size for _, points in part for size in points}
        ticks = sorted(sizes, key=lambda text: (not text.isdigit(), len(text), text))
        looks = {name: Look(SERIES[at], vega.SYMBOLS[at], "solid") for at, (name, _) in enumerate(part)}
        rows = [
            {"series": name, "x": tick, "y": points[tick]} | ({} if tick.isdigit() else {"alone": True})
            for name, points in part
            for tick in ticks
            if tick in points
        ]
        x, y = vega.names("x", "frame size, bytes with FCS", ticks), vega.number("y", unit, zero=True)
        graphs.append(([vega.panel(heading, vega.series(x, y, rows, looks))], heading))
    return graphs


def render_datasheet(run: RunEvidence, path: Path) -> Path:
    """Write the page; returns its path. It is made of the run's evidence and nothing else."""
    measured = [
        (outcome, test.verdicts_on(outcome)) for test in run.tests.values() for outcome in test.outcomes.values()
    ]
    several = len({outcome.label.get("suite", "") for outcome, _ in measured}) > 1
    if several:  # a title leaves the suite out: rows of two suites would read alike
        named = [tuple(_named_by_suite(outcome.label).items()) for outcome, _ in measured]
        measured = [(replace(one, labels=labels), of_it) for (one, of_it), labels in zip(measured, named, strict=True)]
    data, conclusion = run.run, conclude(run)
    context = {
        "title": f"Datasheet: {'DUT not started' if data is None or data.dut is None else versions_text(data.dut)}",
        "conclusion": conclusion,
        "head_style": head_style(conclusion),
        "machine": run.machine.did,
        "notices": simulated_lines(run),
        "run": run,
        "data": data,
        "conditions": [] if data is None else [*facts(run, data), *_conditions(data.fingerprint)],
        "fingerprint": [] if data is None else flattened(data.fingerprint),
        "sections": [
            _throughput(measured),
            _latency(measured),
            _loss(measured),
            _back_to_back(measured),
            *_classes(measured),
        ],
        "limits": _limits(run.tests.values(), _named_by_suite if several else dict),
        "signatures": list(_signatures(run)),
        "per_direction": figures.PER_DIRECTION,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, environment().get_template("datasheet.html").render(context))
    return path


def environment_digest(fingerprint: Mapping[str, Any]) -> str:
    """SHA-256 of the facts of machine, DUT and rig, as 64 hex digits: equal digests, equal environments."""
    known = {name: value for name, value in fingerprint.items() if name != CPU_BANDS}
    text = json.dumps(plain(known), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _signatures(run: RunEvidence) -> Iterator[tuple[str, str]]:
    """The digest of each testbed's environment, and that of each file of evidence."""
    for file, data in run.runs.items():
        of = f" of {data.testbed.name} ({file})" if len(run.runs) > 1 else ""
        yield f"Environment{of}", environment_digest(data.fingerprint)
    folder = run.path if run.path.is_dir() else run.path.parent
    for file in run.runs:
        path = folder / file
        if path.is_file():
            with path.open("rb") as opened:
                yield f"Evidence {file}", hashlib.file_digest(opened, "sha256").hexdigest()
        else:
            yield f"Evidence {file}", NOT_KNOWN


def _conditions(fingerprint: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, key in _CONDITIONS:
        value = fingerprint.get(key)
        yield name, NOT_KNOWN if value is None else str(value)
    for port, known in (fingerprint.get("ports") or {}).items():
        yield f"Port {port}", ", ".join(f"{name} {text}" for name, text in flattened(dict(known))) or NOT_KNOWN


def _named_by_suite(labels: Mapping[str, str]) -> dict[str, str]:
    """The test's label begins with its suite."""
    return {**labels, "test": f"{labels.get('suite', MISSING)}/{name_of_test(labels)}"}


def _what(outcome: Outcome) -> tuple[str, str]:
    """What was measured, and its frames: the first columns of each table."""
    labels = {name: value for name, value in outcome.labels if name != "frame_size"}
    return title(labels) or MISSING, outcome.label.get("frame_size", MISSING)


def _throughput(measured: Sequence[_Measured]) -> dict[str, Any]:
    rows: list[_Row] = []
    for outcome, verdicts in measured:
        if outcome.goals:
            strict = next((name for name in ("throughput", "ndr") if outcome.goal(name)), outcome.goals[0].goal.name)
            lossless, lossy = (figures.goal_figures(outcome, name) for name in (strict, "pdr"))
            most = MISSING if outcome.line_rate_fps is None else figures.digits(outcome.line_rate_fps / 1e6)
            judged = [verdict for verdict in verdicts if outcome.goal(verdict.metric)]
            verdict = str(worst(judged)) if judged else "no limit"
            rows.append((*_what(outcome), lossless.mpps, lossless.gbps, most, lossless.line, lossy.mpps, verdict))
    head = ("what", "frame", "throughput, Mpps", "Gbps", "theoretical, Mpps", "of it", "PDR, Mpps", "verdict")
    verdicts_on = {outcome.labels: verdicts for outcome, verdicts in measured}
    sweeps = find_sweeps([outcome for outcome, _ in measured])
    return _section(
        "26.1 Throughput",
        head,
        rows,
        "No test searched for the throughput in this run.",
        note="Throughput is the highest load without loss that was confirmed; PDR, with the loss that its goal allows.",
        graphs=[(sweep_chart(sweep, verdicts=verdicts_on, line_rate=True), "Throughput") for sweep in sweeps],
    )


def _latency(measured: Sequence[_Measured]) -> dict[str, Any]:
    rows: list[_Row] = []
    curves: dict[str, dict[str, float]] = {}
    for outcome, _ in measured:
        for point in outcome.latency:
            times = (point.min_ns, point.p50_ns, point.p90_ns, point.p99_ns, point.p999_ns, point.max_ns)
            load, shown = format_fps(point.load_fps), tuple(map(format_ns, times))
            rows.append((*_what(outcome), point.at, load, *shown, format_count(point.samples, "")))
        if (p99 := outcome.sampled("load_latency_p99")) is not None:  # a study's, which keeps two percentiles
            p50 = outcome.sampled("load_latency_p50")
            medians = (None, p50.median if p50 else None, None, p99.median, None, None)
            shown = (*map(format_ns, medians), how_many(len(p99.values), "reading"))
            rows.append((*_what(outcome), "study's load", MISSING, *shown))
        typical = figures.typical_latency(outcome)
        if typical is not None:
            what, frame = _what(outcome)
            for name, value in (("p50", typical.p50_ns), ("p99", typical.p99_ns)):
                if value is not None:
                    curves.setdefault(f"{what} {name}", {})[frame] = value / 1e3
    head = ("what", "frame", "at", "load", "min", "p50", "p90", "p99", "p99.9", "max", "samples")
    note = f"Latency {latency_origin(outcome.label.get('engine') for outcome, _ in measured)}."
    graphs = _by_frame_size("Latency at half of the PDR, or the middle load", "latency, us", curves)
    lacking = "No test measured the latency in this run."
    return _section("26.2 Latency", head, rows, lacking, text=3, note=note, graphs=graphs)


def _loss(measured: Sequence[_Measured]) -> dict[str, Any]:
    rows: list[_Row] = []
    graphs: list[_Graph] = []
    for outcome, verdicts in measured:
        held = [*outcome.offered_losses]
        most = outcome.line_rate_fps or outcome.ceiling_fps
        if (soak := outcome.soak) is not None and soak.offered:
            held.append(LossPoint(soak.load_fps, soak.lost / soak.offered, ""))
        for point in sorted(held, key=lambda point: -point.load_fps):
            share = MISSING if most is None else f"{point.load_fps / most:.0%}".replace("%", " %")
            mark = bound_mark(outcome.figure("loss_ratio", at=load_in_fps(point.load_fps)))
            rows.append((*_what(outcome), format_fps(point.load_fps), share, mark + format_ratio(point.loss_ratio)))
        if len({point.load_fps for point in held}) > 1:
            name = f"Frame loss rate: {' · '.join(_what(outcome))} B"
            graphs.append((loss_chart(held, outcome.classes, verdicts, name), name))
    head = ("what", "frame", "load", "of the maximum", "frame loss")
    lacking = "No test measured a loss in this run."
    note = "The maximum is the line rate, or the rig's own ceiling where ports have no line rate."
    return _section("26.3 Frame loss rate", head, rows, lacking, note=note, graphs=graphs, graph="curve")


def _back_to_back(measured: Sequence[_Measured]) -> dict[str, Any]:
    rows: list[_Row] = []
    curves: dict[str, dict[str, float]] = {}
    for outcome, _ in measured:
        burst = outcome.back_to_back
        if burst is None:
            continue
        mark = bound_mark(outcome.figure("back_to_back_frames"))
        frames, buffer = f"{mark}{burst.mean_burst_frames:,.0f}", burst.corrected_buffer_s
        spread = f"{min(burst.burst_frames):,} .. {max(burst.burst_frames):,}" if burst.burst_frames else MISSING
        what, frame = _what(outcome)
        load, repeats = format_fps(burst.load_fps), str(len(burst.burst_frames))
        rows.append((what, frame, load, frames, spread, repeats, format_seconds(buffer)))
        curves.setdefault(what, {})[frame] = burst.mean_burst_frames
    head = ("what", "frame", "load", "mean burst, frames", "bursts", "repeats", "buffer")
    lacking = "No test measured back-to-back frames in this run."
    note = "“≥”: even the longest burst lost nothing, or the rig disturbed longer ones."
    graphs = _by_frame_size("Back-to-back frames", "frames", curves)
    return _section("26.4 Back-to-back frames (RFC 9004)", head, rows, lacking, note=note, graphs=graphs)


def _classes(measured: Sequence[_Measured]) -> list[dict[str, Any]]:
    rows: list[_Row] = [
        (_what(outcome)[0], row.frames, row.name, row.at, row.of_load, row.rate, row.lost, row.p50, row.p99)
        for outcome, _ in measured
        for row in figures.class_figures(outcome)
    ]
    head = ("what", "frame", "class", "at", "of the load", "rate", "lost", "p50", "p99")
    return [_section("Classes of the traffic", head, rows, "", text=4)] if rows else []


def _limits(tests: Iterable[TestEvidence], named: Callable[[Mapping[str, str]], dict[str, str]]) -> dict[str, Any]:
    rows: list[_Row] = []
    for test in tests:
        known = dict(test.data.labels)
        for verdict in test.verdicts.values():
            labels = named({**known, **dict(verdict.subject)})
            frame = labels.pop("frame_size", MISSING)
            observed = format_against(verdict.observed, verdict.limit, verdict.unit)
            margin = format_margin(verdict.margin, verdict.times_limit)
            what = title(labels) or test.node_id
            rows.append((what, frame, verdict.requirement, observed, margin, str(verdict.judgement)))
    head = ("what", "frame", "requirement", "observed", "margin", "verdict")
    return _section("Limits", head, rows, "No SLA had a limit for this run.", text=3)
