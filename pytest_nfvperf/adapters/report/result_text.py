"""What a test found, in one line: its figures, what became of it, and why where it did not pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_nfvperf.adapters.report.figures import goal_figures, is_of_times, other_result, typical_latency
from pytest_nfvperf.adapters.report.studies import Comparison, find_comparisons, median_text, ratio_text
from pytest_nfvperf.model.display import format_elapsed, format_ns
from pytest_nfvperf.model.fold import cut, cut_name
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome

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
}
_MARKS |= {"skipped": _YELLOW}
_NAME, _FIGURES, _VERDICT, _TIME = 42, 44, 12, 6
"""Columns of each; a longer name or longer figures push the rest to the right."""

_GAP = "  "
_XDIST_GROUP = re.compile(r"@[^\]]*$")


class Found(NamedTuple):
    """What is to be told of a test.

    Attributes:
        figures: what it measured; empty for one that measured nothing.
        verdict: what became of it, in a word.
        reason: why, where it did not pass.
    """

    figures: str
    verdict: str
    reason: str = ""


def test_name(node_id: str) -> str:
    """``throughput/test_ndr_pdr[64]`` of ``suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]``.

    Without the group that xdist appends after an ``@``.
    """
    path, _, test = _XDIST_GROUP.sub("", node_id).partition("::")
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return f"{folder}/{test}" if folder else test


test_name.__test__ = False  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class ResultText:
    """The line of a test. ``seconds``: it took; ``count``: how many ended so far, of how many (0: not known)."""

    node_id: str
    found: Found
    seconds: float
    count: tuple[int, int]

    def lines(self, width: int | None, widest: int = 0) -> list[list[Piece]]:
        """One line, or on a narrow terminal one more for the figures; and one for the reason.

        Args:
            width: columns of the terminal; None for a file or a pipe, where nothing is cut or folded.
            widest: of all names that will be shown, for the columns to align; 0: not known.
        """
        name = test_name(self.node_id)
        column = min(widest or _NAME, _NAME)
        lines = [self._line(f"{name:<{column}}{_GAP}{self.found.figures:<{_FIGURES}}")]
        if width is not None and _length(lines[0]) >= width:
            room = width - _length(self._line("")) - 1
            lines = [self._line(f"{cut_name(name, room):<{room}}")]
            lines += [[(f"    {cut(self.found.figures, width - 5)}", {})]] if self.found.figures else []
        if self.found.reason:
            reason = f"    {self.found.reason}"
            lines.append([(reason if width is None else cut(reason, width - 1), {})])
        return lines

    def _line(self, what: str) -> list[Piece]:
        ended, of = self.count
        count = f"{_GAP}{ended:>{len(str(of))}}/{of}" if of else ""
        verdict = f"{self.found.verdict:<{_VERDICT}}"
        return [
            (f"{what}{_GAP}", {}),
            (verdict, _MARKS.get(self.found.verdict, {})),
            (f"{_GAP}{format_elapsed(self.seconds):>{_TIME}}{count}", {}),
        ]


def _length(pieces: Sequence[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)


def figures_text(outcomes: Sequence[Outcome]) -> str:
    """``NDR 5.52 Mpps · PDR 6.30 Mpps · p99 12.0 us``: what a test measured, shortest first to read."""
    parts = [part for outcome in outcomes if outcome.goals for part in _searched(outcome)]
    sampled = [outcome for outcome in outcomes if outcome.samples and not is_of_times(outcome)]
    compared = find_comparisons(sampled)
    parts += [_compared(one) for one in compared]
    shown = {id(outcome) for one in compared for outcome in one.outcomes}
    parts += [median_text(outcome.samples[0]) for outcome in sampled if id(outcome) not in shown]
    parts += [other_result(o) for o in outcomes if not o.goals and (not o.samples or is_of_times(o))]
    return BETWEEN.join(dict.fromkeys(parts))


def _searched(outcome: Outcome) -> list[str]:
    parts = [f"{goal.goal.name.upper()} {_load(outcome, goal)}" for goal in outcome.goals]
    latency = typical_latency(outcome)
    return parts if latency is None else [*parts, f"p99 {format_ns(latency.p99_ns)}"]


def _load(outcome: Outcome, goal: GoalOutcome) -> str:
    shown = goal_figures(outcome, goal.goal.name).mpps
    return shown if goal.load_fps is None else f"{shown} Mpps"


def _compared(comparison: Comparison) -> str:
    """``bridges 1: 5.64 Mpps, 2: 98.4 %, 9: 97.0 %``."""
    baseline, *others = comparison.outcomes
    first = f"{comparison.per} {baseline.label[comparison.per]}: {median_text(baseline.samples[0])}"
    ratios = (f"{o.label[comparison.per]}: {ratio_text(o.relative(comparison.main))}" for o in others)
    return ", ".join([first, *ratios])
