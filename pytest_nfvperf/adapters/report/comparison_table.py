"""A comparison as a table for a terminal, by rich: a row for each side of each comparison, and metric."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.report.rendered import rendered
from pytest_nfvperf.adapters.report.studies import metric_name
from pytest_nfvperf.adapters.report.subjects import differing, distinctions, test_name
from pytest_nfvperf.model.compare.record import ComparisonData, MetricComparison, SideFigures, SideState, Word
from pytest_nfvperf.model.display import MISSING, format_value
from pytest_nfvperf.model.evidence.comparison import ComparedRun

STYLES = {
    str(Word.SLOWER): "bold red",
    str(Word.FASTER): "bold green",
    str(Word.SAME): "green",
    str(Word.CANNOT_TELL): "bold yellow",
    str(SideState.FAILED): "bold red",
    str(SideState.BROKEN): "bold magenta",
    str(SideState.UNAVAILABLE): "bold magenta",
}
LEGEND = (
    "ratio: side over baseline, with its interval. noise: how far from 1 it must be to count, by two builds of the "
    "baseline. visible: the smallest difference that these readings could have shown."
)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A line of the table. ``word``: or the side's state, where it was not measured."""

    test: str
    side: str
    metric: str
    baseline: str
    value: str
    ratio: str
    interval: str
    noise: str
    visible: str
    pairs: str
    word: str
    reason: str
    decides: bool


def comparison_rows(compared: ComparedRun) -> list[ComparisonRow]:
    """Every side of every comparison, in order."""
    return [row for data, test in _named(compared) for row in _rows(data, test)]


def _named(compared: ComparedRun) -> list[tuple[ComparisonData, str]]:
    """Each comparison with its subject."""
    labels = [dict(test.data.labels) for test in compared.tests]
    different = differing(labels)
    return [(test.data, subject(own, different)) for test, own in zip(compared.tests, labels, strict=True)]


def subject(label: dict[str, str], different: Collection[str]) -> str:
    """``throughput/ndr_pdr phy2phy 64``: the test by its suite, what it measured, and what sets that apart."""
    known = [label[name] for name in ("topology", "frame_size") if name in label]
    return " ".join([f"{label.get('suite', MISSING)}/{test_name(label)}", *known, *distinctions(label, different)])


def _rows(data: ComparisonData, test: str) -> Iterator[ComparisonRow]:
    for side in data.sides:
        if not side.metrics:
            yield _without_figures(side, test)
        for metric in side.metrics:
            yield _row(metric, side.side, test)


def _without_figures(side: SideFigures, test: str) -> ComparisonRow:
    gap = MISSING
    row = ComparisonRow(test, side.side, gap, gap, gap, gap, gap, gap, gap, gap, "", "", decides=True)
    word = Word.CANNOT_TELL if side.state is SideState.MEASURED else side.state
    return replace(row, word=str(word), reason=side.reason)


def _row(metric: MetricComparison, side: str, test: str) -> ComparisonRow:
    dropped = sum(count for _, count in metric.dropped)
    pairs = f"{metric.pairs} in {metric.blocks}" if metric.blocks else MISSING
    return ComparisonRow(
        test=test,
        side=side,
        metric=metric_name(metric.metric).replace(", per direction", ""),
        baseline=format_value(metric.baseline_value, metric.unit),
        value=format_value(metric.value, metric.unit),
        ratio=MISSING if metric.ratio is None else f"{metric.ratio:.3f}",
        interval=_interval(metric),
        noise=MISSING if metric.noise_floor is None else f"{metric.noise_floor:.1%}",
        visible=MISSING if metric.smallest_detectable is None else f"{metric.smallest_detectable:.1%}",
        pairs=pairs + (f", {dropped} dropped" if dropped else ""),
        word=str(metric.word),
        reason=metric.reason,
        decides=metric.decides,
    )


def _interval(metric: MetricComparison) -> str:
    if metric.low is None and metric.high is None:
        return "open"
    low, high = ("" if end is None else f"{end:.3f}" for end in (metric.low, metric.high))
    return f"{low} .. {high}".strip()


def comparison_text(compared: ComparedRun, *, width: int | None = None, color: bool = False) -> str:
    """The table, and below it what was left out and why; None for ``width``: as wide as it needs."""
    return rendered(_parts(compared), width=width, color=color)


def _parts(compared: ComparedRun) -> Iterator[RenderableType]:
    yield from map(Text, heading(compared) if compared.duts else ())
    rows = comparison_rows(compared)
    if rows:
        yield _table(rows)
        yield Text(LEGEND, style="dim")
    yield from map(Text, noted(compared))
    for row in rows:
        if row.decides and row.ratio == MISSING:
            yield Text(f"{row.test}, {row.side}: {row.word}: {row.reason}")
    for warning in compared.warnings:
        yield Text(warning, style="yellow")


def noted(compared: ComparedRun) -> list[str]:
    """What the reader must know of a test, such as a frame size that is not the test's own."""
    return [f"{test}: {note}" for data, test in _named(compared) for note in data.notes]


def differences_text(compared: ComparedRun) -> str:
    """In what the sides differ, a line each."""
    lines = [f"{what}: {' | '.join(value for _, value in values)}" for what, values in compared.differences]
    return "\n".join(["what differs:", *lines]) if lines else "nothing is known to differ"


def heading(compared: ComparedRun) -> list[str]:
    """A line for each side: what it is."""
    duts, settings = dict(compared.duts), {side.name: dict(side.settings) for side in compared.comparing.sides}
    lines = []
    for side in compared.comparing.sides:
        info = duts.get(side.name)
        what = "did not run" if info is None else f"OVS {info.version}, DPDK {info.dpdk_version or MISSING}"
        own = "".join(f", {key}={value}" for key, value in settings[side.name].items())
        role = " (baseline)" if side == compared.comparing.baseline else ""
        lines.append(f"{side.name}{role}: {what}{own}")
    return lines


def _table(rows: Sequence[ComparisonRow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for title in ("test", "side", "metric"):
        table.add_column(title, no_wrap=title == "side")
    for title in ("baseline", "side's", "ratio", "interval", "noise", "visible", "pairs in blocks"):
        table.add_column(title, justify="right", no_wrap=title != "pairs in blocks")
    table.add_column("", no_wrap=True)
    last = ("", "")
    for row in rows:
        test = row.test if row.test != last[0] else ""
        side = row.side if (row.test, row.side) != last else ""
        last = (row.test, row.side)
        style = STYLES.get(row.word, "") if row.decides else "dim"
        figures = (row.baseline, row.value, row.ratio, row.interval, row.noise, row.visible, row.pairs)
        table.add_row(test, side, row.metric, *figures, Text(row.word, style=style))
    return table
