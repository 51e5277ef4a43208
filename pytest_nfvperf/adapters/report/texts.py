"""Tests, trials, readings and topologies as plain text and CSV, for terminals, attachments and messages."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.figures import class_line, goal_figures, is_of_times, other_result, typical_latency
from pytest_nfvperf.adapters.report.run_facts import versions_text
from pytest_nfvperf.adapters.report.subjects import find_comparisons, median_text, ratio_text
from pytest_nfvperf.model.display import (
    MISSING,
    cut,
    folded,
    format_bps,
    format_count,
    format_elapsed,
    format_load,
    format_margin,
    format_ns,
    format_ratio,
    format_seconds,
    how_many,
    listed,
)
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, TestResult
from pytest_nfvperf.model.evidence.records import StreamData, TopologyData, TrialData
from pytest_nfvperf.model.measure.compare import ComparisonData, MetricComparison, ReadingMethod, Word
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.traffic.mix import classes_of
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

Piece = tuple[str, dict[str, bool]]
"""Text, and how it is marked: what pytest's terminal writer takes."""

BETWEEN = " · "
_RED, _YELLOW = {"red": True, "bold": True}, {"yellow": True}
_MARKS = {
    "PASS": {"green": True},
    "FAIL": _RED,
    "BROKEN": _RED,
    "USAGE": _RED,
    "INTERNAL": _RED,
    "INCONCLUSIVE": _YELLOW,
    "skipped": _YELLOW,
}
_NAME, _FIGURES, _VERDICT, _TIME = 42, 44, 12, 6
"""Columns of each; a longer name or longer figures push the rest to the right."""

_GAP = "  "
_INDENT, _MOST_BELOW = "    ", 3
"""Of what stands below a test's line on a terminal."""
_XDIST_GROUP = re.compile(r"@[^\]]*$")
_QUIET = frozenset({TestResult.PASSED, TestResult.SKIPPED, TestResult.NOT_RUN})
_TRIAL_COLUMNS = (
    *("trial", "purpose", "load_fps", "duration_s", "intended", "offered", "sent", "received", "lost", "loss_ratio"),
    *("p50_ns", "p99_ns", "valid", "reasons"),
)


class Findings(NamedTuple):
    """What is reported of a test: its figures, one word for the result, and why if it did not pass. Each may be ""."""

    figures: str
    verdict: str
    reason: str = ""


def short_node_id(node_id: str) -> str:
    """``throughput/test_ndr_pdr[64]`` of ``suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]``.

    Without the group that xdist appends after an ``@``.
    """
    path, _, test = _XDIST_GROUP.sub("", node_id).partition("::")
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return f"{folder}/{test}" if folder else test


def result_lines(
    node_id: str, findings: Findings, seconds: float, count: tuple[int, int], width: int | None, widest: int = 0
) -> list[list[Piece]]:
    """The line of a test; more for name and figures if the terminal is narrow, and the reason below.

    ``count``: how many tests have ended, and of how many (0: not known). ``width``: columns of the terminal; None for a
    file or a pipe: nothing is folded. ``widest``: length of the longest name that will be shown, to align columns; 0:
    not known.
    """
    ended, of = count
    counted = f"{_GAP}{ended:>{len(str(of))}}/{of}" if of else ""
    verdict: Piece = (f"{findings.verdict:<{_VERDICT}}", _MARKS.get(findings.verdict, {}))
    took: Piece = (f"{_GAP}{format_elapsed(seconds):>{_TIME}}{counted}", {})

    def line(what: str) -> list[Piece]:
        return [(f"{what}{_GAP}", {}), verdict, took]

    name = short_node_id(node_id)
    column = min(widest or _NAME, _NAME)
    lines = [line(f"{name:<{column}}{_GAP}{findings.figures:<{_FIGURES}}")]
    length, around = (sum(len(text) for text, _ in pieces) for pieces in (lines[0], line("")))
    if width is not None and length >= width:
        room = width - around - 1
        long = len(name) > room
        lines = [[(part, {})] for part in folded(name, width)] if long else []
        lines += [line(f"{'' if long else name:<{room}}"), *_below(findings.figures, width)]
    return [*lines, *_below(findings.reason, width)]


def _below(text: str, width: int | None) -> list[list[Piece]]:
    """Indented lines; on a terminal not more than three, of which the last ends by an ellipsis if there is more."""
    lines = folded(text, None if width is None else width - len(_INDENT))
    if len(lines) > _MOST_BELOW and width is not None:
        rest = " ".join(line.strip() for line in lines[_MOST_BELOW - 1 :])
        lines = [*lines[: _MOST_BELOW - 1], cut(f"  {rest}", width - len(_INDENT) - 1)]
    return [[(f"{_INDENT}{line}", {})] for line in lines if line]


def figures_text(outcomes: Sequence[Outcome], since: Collection[ComparisonData] = ()) -> str:
    """``NDR 5.52 Mpps (-1.2 %, same) · p99 12.0 us``: what a test measured, shortest first to read.

    ``since``: beside its last run.
    """

    def beside(outcome: Outcome, metric: str, at: str = "") -> str:
        changed = changes_since(outcome, since).get((metric, at))
        return f" ({change_text(changed)})" if changed else ""

    parts = []
    for outcome in outcomes:
        for goal in outcome.goals:
            shown, name = goal_figures(outcome, goal.goal.name).mpps, goal.goal.name
            unit = "" if goal.load_fps is None else " Mpps"
            parts.append(f"{name.upper()} {shown}{unit}{beside(outcome, name)}")
        if outcome.goals and (latency := typical_latency(outcome)) is not None:
            parts.append(f"p99 {format_ns(latency.p99_ns)}{beside(outcome, 'latency_p99', latency.at)}")
    sampled = [outcome for outcome in outcomes if outcome.samples and not is_of_times(outcome)]
    compared = find_comparisons(sampled)
    for comparison in compared:  # bridges 1: 5.64 Mpps, 2: 98.4 %, 9: 97.0 %
        per, (baseline, *others) = comparison.per, comparison.outcomes
        ratios = [f"{one.label[per]}: {ratio_text(one.relative(comparison.main))}" for one in others]
        first = f"{per} {baseline.label[per]}: {median_text(baseline.samples[0])}{beside(baseline, comparison.main)}"
        parts.append(", ".join([first, *ratios]))
    shown_there = {id(outcome) for one in compared for outcome in one.outcomes}
    mains = [(one, one.samples[0]) for one in sampled if id(one) not in shown_there]
    parts += [f"{median_text(main)}{beside(outcome, main.metric)}" for outcome, main in mains]
    parts += [other_result(o) for o in outcomes if not o.goals and (not o.samples or is_of_times(o))]
    parts += filter(None, map(class_line, outcomes))
    return BETWEEN.join(dict.fromkeys(parts))


_SINCE = {Word.SLOWER: "worse", Word.FASTER: "better", Word.CANNOT_TELL: "cannot tell", Word.SAME: "same"}


def changes_since(outcome: Outcome, since: Iterable[ComparisonData]) -> dict[tuple[str, str], MetricComparison]:
    """What is known of an outcome's figures beside its last run, by metric and load."""
    own = (one for one in since if (one.labels, one.algorithm) == (outcome.labels, outcome.algorithm))
    sides = (side for one in own if one.how is ReadingMethod.RUNS for side in one.sides)
    return {(metric.metric, metric.at): metric for side in sides for metric in side.metrics}


def change_text(metric: MetricComparison) -> str:
    """``-1.2 %, same``."""
    return f"{format_margin(None if metric.ratio is None else metric.ratio - 1)}, {_SINCE[metric.word]}"


def change_cell(outcome: Outcome, since: Iterable[ComparisonData]) -> str:
    """The change of the outcome's first figure, or of a worse one with its name."""
    changed = [metric for metric in changes_since(outcome, since).values() if metric_of(metric.metric).compared]
    shown = next((metric for metric in changed if metric.word is Word.SLOWER), changed[0] if changed else None)
    if shown is None:
        return MISSING
    return f"{'' if shown is changed[0] else f'{shown.metric} '}{change_text(shown)}"


def since_lines(run: RunEvidence) -> list[str]:
    """``since 20261130-...: 5 figures same``, a line a word, and each reason why others are not compared, once."""
    compared = [one for one in run.comparisons.values() if one.how is ReadingMethod.RUNS]
    metrics = [(one.baseline, metric) for one in compared for side in one.sides for metric in side.metrics]
    words = Counter((last, _SINCE[each.word]) for last, each in metrics if metric_of(each.metric).compared)
    notes = Counter(note for one in compared for note in one.notes)
    lines = [f"since {last}: {how_many(count, 'figure')} {word}" for (last, word), count in words.items()]
    return [*lines, *(f"{note} ({how_many(count, 'subject')})" for note, count in notes.items())]


def lines_of_test(tests: Sequence[TestConclusion]) -> list[str]:
    """``FAIL          suites/x.py::test_y: ndr >= 5 Mpps: 4.00 Mpps``, in the order given."""
    width = max((len(test.badge) for test in tests), default=0)
    return [f"{test.badge:<{width}}  {test.node_id}{f': {test.reason}' if test.reason else ''}" for test in tests]


def listed_in_summary(tests: Sequence[TestConclusion]) -> list[TestConclusion]:
    """Those that a run's summary lists. Skips are counted by their reasons, and passes are in the table."""
    return [test for test in tests if test.result not in _QUIET]


def topology_drawing(deployed: TopologyData) -> str:
    """The topology as text, and how the generator sends where that is recorded."""
    text = topology_text(deployed.topology, datapath=f"{deployed.datapath} datapath", kinds=deployed.port_kinds)
    methods = dict.fromkeys(deployed.sending.values())
    lines = [
        f"{', '.join(port for port, used in deployed.sending.items() if used == method)}: {method}"
        for method in methods
    ]
    return "\n".join([text, *(f"rings of {line}" for line in lines)])


def traffic_drawing(traffic: Traffic) -> str:
    """Headers and sizes; of a packet also the fields that vary, and one frame as hex."""
    size = traffic.smallest_frame_size
    if traffic.frame_source is None:
        tag = "" if traffic.vlan is None else f" (VLAN {traffic.vlan})"
        return f"{traffic.headers_name}{tag}, UDP: {traffic.sizes_text}, {how_many(traffic.flows, 'flow')}"
    frames = traffic.frame_source.recorded(size)
    boxes = [*frames.layers, "signature", "pattern"]
    rules = ["─" * (len(name) + 2) for name in boxes]
    drawn = [f"┌{'┬'.join(rules)}┐", f"│ {' │ '.join(boxes)} │", f"└{'┴'.join(rules)}┘"]
    lines = drawn if frames.command else [frames.text]  # a capture has frames of several stacks
    for vary in traffic.vary:
        begin = "" if vary.first is None else f" from {vary.first}"
        step = f" by {vary.step:,}" if vary.step != 1 else ""
        order = ", in a fixed random order" if vary.order == "random" else ""
        lines.append(f"{vary.field}: {how_many(vary.count, 'value')}{begin}{step}{order}")
    if len(traffic.vary) > 1:
        counted = "jointly" if traffic.together else "each by itself"
        lines.append(f"counted {counted}: {how_many(frames.combinations, 'different header')}")
    if traffic.rewritten:
        lines.append(f"the DUT may rewrite {listed(traffic.rewritten)}")
    data = bytes.fromhex(frames.frame)
    lines += [f"frames: {traffic.sizes_text}"] if size != traffic.largest_frame_size else []
    size = len(data) + FCS_BYTES if frames.frame_sizes else size
    cut = ", without the pattern at its end" if len(data) + FCS_BYTES < size else ""
    lines.append(f"one frame, of {size} bytes with FCS{cut}:")
    lines += [f"{at:04x}  {data[at : at + 16].hex(' ')}" for at in range(0, len(data), 16)]
    return "\n".join(lines)


def traffic_drawings(trials: Iterable[TrialSpec]) -> list[str]:
    """The drawing of each traffic that some trial sends; of a mix with its classes, their loads and directions."""
    drawings = dict[str, None]()
    for traffic in dict.fromkeys(spec.traffic for spec in trials):
        of = "of the load that the others leave" if getattr(traffic, "fixed_fps", 0) else "of the load"
        for each in classes_of(traffic):
            load = f"{each.load_text} {of}" if each.fixed_fps is None else f"{each.load_text} per direction"
            head = f"class {each.name}, {load}, {each.sends.replace('both', 'both directions')}\n" if each.name else ""
            drawings[head + traffic_drawing(each.traffic)] = None
    return list(drawings)


def deployed_title(deployed: TopologyData) -> str:
    """``vm-chain-2 · dpdk datapath``: what tells it from the other topologies of a run."""
    dut, title = deployed.dut, f"{deployed.topology.name} · {deployed.datapath} datapath"
    title += f" · {dut.version}: {versions_text(deployed.info)}" if dut.version and deployed.info else ""
    title += " · userspace TSO" if dut.userspace_tso else ""
    title += f" · forwarding {dut.forwarding}" if dut.forwarding else ""
    return title + (f" · {dut.tuning}" if dut.tuning != OVS_DEFAULT else "")


def trials_csv(trials: Sequence[tuple[str, TrialData]]) -> str:
    """A line a trial; loads in frames/s per direction, counts over all directions, empty if not measured."""
    rows: list[Sequence[object]] = [_TRIAL_COLUMNS]
    for trial_id, trial in trials:
        result, latency = trial.result, trial.result.latency
        counts = (result.intended, result.offered, result.sent, result.received, result.lost, result.loss_ratio)
        times = (latency.percentile_ns(50), latency.percentile_ns(99)) if latency else (None, None)
        reasons = "; ".join(map(str, result.invalid))
        spec = (result.spec.purpose, result.spec.load_fps, result.due_s)
        rows.append([trial_id, *spec, *counts, *times, result.valid, reasons])
    return _csv(rows)


def trial_line(trial: TrialData) -> str:
    """``search ndr: 7.23 Mpps for 1.00 s, 0 of 14,460,000 lost (0 %) in the undisturbed 62% of it; 7 more ...``."""
    result = trial.result
    load = f"{format_load(result.spec.load_fps, trial.offered_load_fps)} for {format_seconds(result.due_s)}"
    if not result.valid:
        return f"{result.spec.purpose}: {load}, invalid: {'; '.join(map(str, result.invalid))}"
    counted, windows = trial.judgement.counted, trial.judgement.windows
    lost = counted.lost
    line = f"{result.spec.purpose}: {load}, {format_count(lost, '')} of {format_count(counted.offered, '')} lost"
    line += f" ({format_ratio(counted.loss_ratio)})"
    if windows is None:
        return line
    share = f"{windows.windows / windows.of:.0%} of it"
    which = f"undisturbed {share}" if windows is trial.undisturbed else f"{share} in which all CPUs ran"
    return f"{line} in the {which}; {format_count(result.lost - lost, '')} more in the rest"


def stream_line(run: StreamData) -> str:
    """``4 TCP streams for 700 ms, 2.14 Gbps, 1.00 + 0.83 cores``."""
    result = run.result
    spec = result.spec
    what = how_many(spec.streams, f"{spec.protocol.upper()} stream")
    what += f" for {format_seconds(spec.duration_s)}"
    if not result.valid:
        return f"{what}, invalid: {'; '.join(map(str, result.invalid))}"
    used = [cpu.cores for cpu in (result.client_cpu, result.server_cpu) if cpu is not None and cpu.cores is not None]
    cores = f", {' + '.join(f'{each:.2f}' for each in used)} cores" if used else ""
    open_part = f"; CPU time: {run.cpu.missing}" if run.cpu is not None and run.cpu.missing else ""
    return f"{what}, {format_bps(result.goodput_bps)}{cores}{open_part}"


def samples_csv(outcome: Outcome) -> str:
    """A line a reading, in base units."""
    rows: list[Sequence[object]] = [("metric", "unit", "reading", "value", "evidence")]
    for samples in outcome.samples:
        ids = samples.evidence or ("",) * len(samples.values)
        for number, (value, evidence) in enumerate(zip(samples.values, ids, strict=True), 1):
            rows.append((samples.metric, samples.unit, number, value, evidence))
    return _csv(rows)


def _csv(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
