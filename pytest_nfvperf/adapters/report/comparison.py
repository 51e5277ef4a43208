"""A comparison of sides: its rows, the table for a terminal, the chart, and the section of the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from pytest_nfvperf.adapters.report import vega
from pytest_nfvperf.adapters.report.run_facts import versions_text
from pytest_nfvperf.adapters.report.subjects import differing, distinctions, name_of_test
from pytest_nfvperf.adapters.report.terminal import rendered, table
from pytest_nfvperf.adapters.report.vega import Look, Row, View
from pytest_nfvperf.model.display import MISSING, TableColumn, TableRow, format_value
from pytest_nfvperf.model.evidence.comparison import ComparedRun
from pytest_nfvperf.model.measure.compare import ComparisonData, MetricComparison, SideState, Word
from pytest_nfvperf.model.metrics import metric_of

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.report.page_parts import PageCharts

_STYLES = {
    str(Word.SLOWER): ("bold red", "fail"),
    str(Word.FASTER): ("bold green", "pass"),
    str(Word.SAME): ("green", "pass"),
    str(Word.CANNOT_TELL): ("bold yellow", "inconclusive"),
    str(SideState.FAILED): ("bold red", "fail"),
    str(SideState.BROKEN): ("bold magenta", "broken"),
    str(SideState.UNAVAILABLE): ("bold magenta", "broken"),
}
"""The style of each word on a terminal, and its class in the style sheet."""
WORD_CLASSES = {word: css for word, (_, css) in _STYLES.items()}

_COLOURS = {Word.SLOWER: vega.VERMILION, Word.FASTER: vega.BLUE, Word.SAME: vega.GREEN, Word.CANNOT_TELL: vega.ORANGE}
_BLOCK, _NOISE = "one block of fresh builds", "baseline over its second build, by block"
_FLOOR = "noise floor: a ratio within it does not count"
_LEAST_REACH = 0.04
"""Least reach of the axis to either side of 1: smaller differences must look small."""

MOST_TESTS = 40
"""Of a larger comparison the chart has the largest differences, and the page folds all other tests."""

LEGEND = (
    "baseline: the median of its readings. ratio: side over baseline, with its interval, which decides: of readings in "
    "the same turns, at the same speed of the cores; of runs or rounds, of their readings. visible: the smallest "
    "difference that could have shown here: the reach of the interval, or the noise floor where that is larger."
)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A line of the table. ``word``: or the side's state, where it was not measured."""

    test: str
    side: str
    metric: str
    baseline: str
    ratio: str
    interval: str
    visible: str
    pairs: str
    word: str
    reason: str
    decides: bool


def comparison_rows(compared: ComparedRun) -> list[ComparisonRow]:
    """One row for each metric of each side; a side without figures has one row that says why."""
    rows = []
    for data, test in _named(compared):
        for side in data.sides:
            rows += [_row(metric, side.side, test) for metric in side.metrics]
            if not side.metrics:
                word = Word.CANNOT_TELL if side.state is SideState.MEASURED else side.state
                open_cells = dict.fromkeys(("metric", "baseline", "ratio", "interval", "visible", "pairs"), MISSING)
                about = {"test": test, "side": side.side, "word": str(word), "reason": side.reason}
                rows.append(ComparisonRow(**open_cells, **about, decides=True))
    return rows


def _named(compared: ComparedRun) -> list[tuple[ComparisonData, str]]:
    labels = [dict(test.data.labels) for test in compared.tests]
    different = differing(labels)
    return [(test.data, subject(own, different)) for test, own in zip(compared.tests, labels, strict=True)]


def subject(label: dict[str, str], different: Collection[str]) -> str:
    """``throughput/ndr_pdr phy2phy 64``: suite and test, what it measured, and what sets it apart."""
    known = [label[name] for name in ("topology", "frame_size") if name in label]
    return " ".join([f"{label.get('suite', MISSING)}/{name_of_test(label)}", *known, *distinctions(label, different)])


def topic(compared: ComparedRun) -> tuple[str, list[str]]:
    """What all tests have in common, to be said once, and what sets each apart: "" for the only one."""
    labels = [dict(test.data.labels) for test in compared.tests]
    different = differing(labels)
    words = [[*subject(own, set()).split(" "), *distinctions(own, different)] for own in labels]
    if not words:
        return "", []
    common = [word for word in words[0] if all(word in of_it for of_it in words)]
    distinctive = [
        [_in_bytes(word, own) for word in of_it if word not in common] for of_it, own in zip(words, labels, strict=True)
    ]
    return " ".join(_in_bytes(word, labels[0]) for word in common), [" ".join(of_it) for of_it in distinctive]


def _in_bytes(word: str, label: dict[str, str]) -> str:
    return f"{word} B" if word.isdigit() and word == label.get("frame_size") else word


def _row(metric: MetricComparison, side: str, test: str) -> ComparisonRow:
    low, high = ("" if end is None else f"{end:.3f}" for end in (metric.low, metric.high))
    dropped = sum(count for _, count in metric.dropped)
    pairs = f"{metric.pairs} in {metric.blocks}" if metric.blocks else MISSING
    least = (metric.noise_floor, metric.smallest_detectable)
    return ComparisonRow(
        test=test,
        side=side,
        metric=metric_of(metric.metric).title.replace(", per direction", ""),
        baseline=format_value(metric.baseline_value, metric.unit),
        ratio=MISSING if metric.ratio is None else f"{metric.ratio:.3f}",
        interval=f"{low} .. {high}".strip() if low or high else "open",
        visible=MISSING if None in least else f"{max(filter(None, least)):.1%}",
        pairs=pairs + (f", {dropped} dropped" if dropped else ""),
        word=str(metric.word),
        reason=metric.reason,
        decides=metric.decides,
    )


def comparison_text(
    compared: ComparedRun,
    *,
    width: int | None = None,
    color: bool = False,
    most: int | None = None,
    path: Path | None = None,
) -> str:
    """The table, what was left out, and why.

    ``width``: columns; None: as wide as needed. ``most``: rows, about; of a larger run changed tests come first.
    ``path``: of the run, for whoever wants all rows.
    """
    parts: list[RenderableType] = list(map(Text, heading(compared) if compared.duts else ()))
    rows = comparison_rows(compared)
    by_test = changed_first(rows)
    shown = rows
    if most is not None and len(rows) > most:
        shown = [row for of_it in list(by_test.values())[: most * len(by_test) // len(rows)] for row in of_it]
    if rows:
        parts += [*_table(shown, width), Text(LEGEND, style="dim")]
    if len(shown) < len(rows):
        left = f"The table has {len(shown):,} of {len(rows):,} rows, of tests that changed first."
        parts.append(Text(f"{left} All: nfvperf show {path}"))
    parts += map(Text, noted(compared))
    why: dict[str, list[str]] = {}
    for row in (row for row in rows if row.decides and row.ratio == MISSING):
        why.setdefault(f"{row.side}: {row.word}: {row.reason}", []).append(row.test)
    parts += [Text(f"{tests[0] if len(tests) == 1 else f'{len(tests)} tests'}, {each}") for each, tests in why.items()]
    parts += [Text(warning, style="yellow") for warning in compared.warnings]
    return rendered(parts, width=width, color=color)


def changed_first(rows: Sequence[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    """Rows by test: those with a side that is not the same, then the others."""
    by_test: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        by_test.setdefault(row.test, []).append(row)
    same = {test: all(row.word == Word.SAME for row in of_it if row.decides) for test, of_it in by_test.items()}
    return {test: by_test[test] for test in sorted(by_test, key=same.__getitem__)}


def noted(compared: ComparedRun) -> list[str]:
    """What a reader must know about a test, such as a frame size that is not its own."""
    return [f"{test}: {note}" for data, test in _named(compared) for note in data.notes]


def differences_text(compared: ComparedRun) -> str:
    lines = [f"{what}: {' | '.join(value for _, value in values)}" for what, values in compared.differences]
    return "\n".join(["what differs:", *lines]) if lines else "nothing is known to differ"


def heading(compared: ComparedRun) -> list[str]:
    duts, lines = dict(compared.duts), []
    for side in compared.comparing.sides:
        info = duts.get(side.name)
        what = "did not run" if info is None else versions_text(info)
        own = "".join(f", {key}={value}" for key, value in dict(side.settings).items())
        role = " (baseline)" if side == compared.comparing.baseline else ""
        lines.append(f"{side.name}{role}: {what}{own}")
    return lines


def heading_once(compared: ComparedRun) -> list[str]:
    """As ``heading``; a version that all sides have is said once."""
    lines = heading(compared)
    versions = {line.partition(": ")[2].split(", ")[0] for line in lines}
    if len(versions) > 1 or len(lines) < 2:
        return lines
    own = [(name, rest.split(", ")[1:]) for name, _, rest in (line.partition(": ") for line in lines)]
    return [f"all: {versions.pop()}", *(f"{name}: {', '.join(set_) or 'its defaults'}" for name, set_ in own)]


def _table(rows: Sequence[ComparisonRow], width: int | None) -> list[RenderableType]:
    figures = [TableColumn(title, right=True) for title in ("baseline", "ratio", "interval", "visible")]
    pairs = TableColumn("pairs in\nblocks", right=True, optional=1)
    columns = [*map(TableColumn, ("test", "side", "metric")), *figures, pairs, TableColumn("")]
    cells, last = list[TableRow](), ("", "")
    for row in rows:
        side = row.side if (row.test, row.side) != last else ""
        last = (row.test, row.side)
        word = (row.word, _STYLES.get(row.word, ("", ""))[0] if row.decides else "dim")
        shown = (row.baseline, row.ratio, row.interval, row.visible, row.pairs)
        cells.append([row.test, side, row.metric, *shown, word])
    return table(columns, cells, width, once=True)


def comparison_chart(compared: ComparedRun) -> list[View] | None:
    """Ratios of the deciding metric, one line each, the first test on top; None if there are none."""
    several = len(compared.comparing.sides) > 2  # one besides the baseline is in the heading
    lines = [
        (", ".join(filter(None, (name, side.side))) if several else name or side.side, metric, metric.ratio)
        for test, name in zip(compared.tests, topic(compared)[1], strict=True)
        for side in test.data.sides
        if (metric := side.deciding) is not None and metric.ratio is not None
    ]
    if not lines:
        return None
    title = f"Ratio to {compared.comparing.baseline.name}, with its interval"
    if len(lines) > MOST_TESTS:
        title += f": the {MOST_TESTS} of {len(lines):,} that differ most"
        lines = sorted(lines, key=lambda line: (line[1].word is Word.SAME, -abs(line[2] - 1)))[:MOST_TESTS]
    # From the lowest end of all intervals and noise floors to the highest; single blocks may lie outside.
    ends = [end for _, metric, ratio in lines for end in (metric.low, metric.high, ratio) if end is not None]
    ends += [end for _, metric, _ in lines if (floor := metric.noise_floor) for end in (1 / (1 + floor), 1 + floor)]
    low, high = min([*ends, 1 - _LEAST_REACH]), max([*ends, 1 + _LEAST_REACH])
    spare, margin = (high - low) * 0.06, compared.comparing.margin
    rows = [row for line in lines for row in _rows_of_line(*line) if low - spare <= row["x"] <= high + spare]
    looks = {str(word): Look(colour, "circle") for word, colour in _COLOURS.items()}
    looks |= {_BLOCK: Look(vega.MUTED, "circle-open", size=20), _NOISE: Look(vega.MUTED, "tick", size=40)}
    looks |= {_FLOOR: Look(vega.MUTED, "tick", size=40)}
    x = vega.number("x", "ratio (better to the right)", reach=(low - spare, high + spare))
    y = vega.names("y", "", list(dict.fromkeys(name for name, _, _ in lines)))
    behind = vega.bands(x, [(1 - margin, 1 + margin)], vega.GREEN, f"margin of {margin:.0%}", 0.12)
    one = vega.rules(x, [(1, "", Look(vega.MUTED, line="solid", width=1))])
    ratios = vega.series(x, y, rows, looks, offset="row")
    return [vega.panel(title, behind, one, ratios, height=60 + 44 * len(y["scale"]["domain"]))]


def _rows_of_line(name: str, metric: MetricComparison, ratio: float) -> Iterator[Row]:
    """One below the other: noise, the ratio, single blocks."""
    low, high = metric.low or ratio, metric.high or ratio
    if floor := metric.noise_floor:
        reach = {"low": 1 / (1 + floor), "high": 1 + floor}
        yield {"series": _FLOOR, "x": 1, "y": name, "row": 0, **reach, "hover": _FLOOR}
    for at, noise in enumerate(metric.noise_ratios, 1):
        yield {"series": _NOISE, "x": noise, "y": name, "row": 0, "hover": f"second build, block {at}: {noise:.3f}"}
    hover = f"{name}: {ratio:.3f} ({low:.3f} .. {high:.3f})"
    yield {"series": str(metric.word), "x": ratio, "y": name, "row": 1, "low": low, "high": high, "hover": hover}
    for at, block in enumerate(metric.block_ratios, 1):
        yield {"series": _BLOCK, "x": block, "y": name, "row": 2, "hover": f"{name}, block {at}: {block:.3f}"}


def comparison_page(compared: ComparedRun, charts: PageCharts, title: str) -> dict[str, Any]:
    """Variables of the page's section. ``title``: of the chart, for screen readers."""
    panels = comparison_chart(compared)
    rows = comparison_rows(compared)
    common, names = topic(compared)
    by_test = changed_first(rows)
    if len(by_test) <= MOST_TESTS:
        by_test = {row.test: by_test[row.test] for row in rows}  # in the order of measurement
    shown = {test: name for (_, test), name in zip(_named(compared), names, strict=True)}
    return {
        "baseline": compared.comparing.baseline.name,
        "topic": common,
        "tests": [(shown[test], of_it) for test, of_it in by_test.items()],
        "most": MOST_TESTS,
        "heading": [line.partition(": ")[::2] for line in heading_once(compared)],
        "sides": [side.name for side in compared.comparing.sides],
        "chart": None if panels is None else charts.add(panels, "comparison", title),
        "differences": compared.differences,
        "left_out": compared.left_out,
        "notes": noted(compared),
        "warnings": compared.warnings,
        "legend": LEGEND,
        "styles": WORD_CLASSES,
    }
