"""The ledger as a picture: each direction's path from left to right, and the loss falling out at its hop.

The line between two hops is as thick as the share of the offered frames that is still there. What falls out
of a hop is written below it, the leftmost hop lowest, so that no text lies across another's arrow. So are the frames
that go on from it, and their rate. Of very many hops those that lose frames are drawn, and as many others as have room.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_nfvperf.adapters.report.chart import INK, MUTED, ORANGE, VERMILION
from pytest_nfvperf.adapters.report.picture import new_figure
from pytest_nfvperf.model.display import format_fps, format_ratio
from pytest_nfvperf.model.measure.ledger import FramePath, Hop, HopKind, Ledger

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN = 11.0
_LEFT_IN, _RIGHT_IN = 0.1, 1.15
_TITLE_IN, _BOX_IN, _COUNT_IN, _LINE_IN, _GAP_IN = 0.34, 0.5, 0.41, 0.185, 0.2
_LETTER_IN = 0.066
_THINNEST, _THICKEST = 1.0, 7.0
MOST_BOXES = 10
_LONGEST = 15


HopBox = tuple[Hop, ...]
"""One hop, or several in a row that lose nothing."""


def box_label(box: HopBox) -> str:
    if len(box) > 1:
        return f"{len(box)} hops\nwithout loss"
    (hop,) = box
    head, _, tail = hop.name.partition(", " if ", " in hop.name else " ")
    if hop.kind is HopKind.DATAPATH and "," not in hop.name:
        return f"{_short(hop.name)}\ndatapath"
    if hop.kind is HopKind.VNF and not tail:
        return f"{_short(head)}\nVNF"
    return f"{_short(head)}\n{_short(tail)}" if tail else _short(head)


def _short(name: str) -> str:
    """A long chain of bridges is shortened to its first and last."""
    parts = name.split(" + ")
    if len(name) > _LONGEST and len(parts) > 2:
        name = f"{parts[0]} … {parts[-1]}"
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def clear_hops(hops: Sequence[Hop]) -> tuple[HopBox, ...]:
    """Boxes for hops. If there are too many, runs of hops without loss become one box, the longest run first."""
    boxes: list[HopBox] = [(hop,) for hop in hops]
    while len(boxes) > MOST_BOXES:
        start, length = _longest_run(boxes)
        if length < 2:
            break
        boxes[start : start + length] = [tuple(hop for box in boxes[start : start + length] for hop in box)]
    return tuple(boxes)


def _longest_run(boxes: Sequence[HopBox]) -> tuple[int, int]:
    """Start and length of the longest run of boxes without loss between the first and the last box."""
    best, start = (0, 0), 1
    for at in range(1, len(boxes)):
        if at == len(boxes) - 1 or any(hop.missing or hop.losses for hop in boxes[at]):
            best = max(best, (start, at - start), key=lambda run: run[1])
            start = at + 1
    return best


@dataclass(frozen=True, slots=True)
class _Text:
    """What falls out of a box: lines of words, each in its colour."""

    box: int
    lines: tuple[tuple[str, str], ...]
    colour: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One path, or the ports beside it."""

    title: str
    boxes: tuple[HopBox, ...]
    joined: bool
    texts: tuple[_Text, ...]
    seconds: float

    @property
    def height_in(self) -> float:
        lines = sum(len(text.lines) for text in self.texts)
        return _TITLE_IN + _BOX_IN + _COUNT_IN + lines * _LINE_IN + len(self.texts) * _LINE_IN / 2 + _GAP_IN


def ledger_chart(ledger: Ledger, seconds: float) -> Figure | None:
    """None for a ledger without paths. ``seconds``: time for which frames were due, which makes rates of counts."""
    if not ledger.paths:
        return None
    rows = [_row(_title(path), path.hops, seconds, path.foreign) for path in ledger.paths]
    rows += [_row(_title(branch, "copies due"), branch.hops, seconds, branch.foreign) for branch in ledger.branches]
    if ledger.beside:
        copies = sum(hop.entered for hop in ledger.beside)
        title = f"Beside the path: {copies:,} copies, whose loss is none of the trial's"
        rows.append(_row(title, ledger.beside, seconds, joined=False))
    top = sum(row.height_in for row in rows)
    figure = new_figure(_WIDTH_IN, top)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH_IN), ylim=(0, top))
    axes.set_axis_off()
    for row in rows:
        _draw(axes, row, top)
        top -= row.height_in
    return figure


def _title(path: FramePath, entered: str = "offered") -> str:
    share = f" ({format_ratio(path.lost / path.offered)})" if path.offered and path.lost else ""
    counts = f"{path.offered:,} {entered}, {path.received:,} received, {path.lost:,} lost{share}"
    return f"{path.direction.replace('->', ' → ')}: {counts}"


def _row(
    title: str, hops: Sequence[Hop], seconds: float, foreign: Sequence[tuple[int, int]] = (), *, joined: bool = True
) -> _Row:
    """``foreign``: for each hop the frames of others that it counts; empty if nobody looked for them."""
    boxes = clear_hops(hops)
    others = {id(hop): found for hop, found in zip(hops, foreign, strict=False)}
    texts = [_text(at, boxes, others) for at, box in enumerate(boxes) if any(hop.missing or hop.losses for hop in box)]
    return _Row(title, boxes, joined, tuple(texts), seconds)


def _text(at: int, boxes: Sequence[HopBox], foreign: Mapping[int, tuple[int, int]]) -> _Text:
    box, offered = boxes[at], boxes[0][0].entered
    letters = max(int((_WIDTH_IN - _centre(at, len(boxes)) - 0.25) / _LETTER_IN), 18)
    colour = VERMILION if any(hop.losses for hop in box) else ORANGE
    lines: list[tuple[str, str]] = []
    for hop in box:
        for loss in hop.losses:
            share = f" ({format_ratio(loss.frames / offered)})" if offered else ""
            lines += [(f"{loss.frames:,} lost{share}", colour), (loss.reason, INK)]
            lines += [(words, MUTED) for words in textwrap.wrap(loss.detail, letters)]
        joined, ended = foreign.get(id(hop), (0, 0))
        lines += [(f"{hop.unexplained - ended:,} lost, unexplained", ORANGE)] if hop.unexplained > ended else []
        lines += [(f"{ended:,} of others end here", MUTED)] if ended else []
        if joined:
            lines.append((f"{joined:,} of others", ORANGE))
            lines += [(words, MUTED) for words in textwrap.wrap("not of this trial, or counted twice", letters)]
    return _Text(at, tuple(lines), colour)


def _pitch(count: int) -> float:
    return min((_WIDTH_IN - _LEFT_IN - _RIGHT_IN) / count, 1.75)


def _box_width(count: int) -> float:
    return min(_pitch(count) - 0.18, 1.25)


def _centre(at: int, count: int) -> float:
    return _LEFT_IN + _box_width(count) / 2 + _pitch(count) * at


def _draw(axes: Axes, row: _Row, top: float) -> None:
    axes.text(_LEFT_IN, top - 0.06, row.title, color=INK, fontsize=10, fontweight="bold", va="top")
    middle = top - _TITLE_IN - _BOX_IN / 2
    if row.joined:
        _draw_lines(axes, row, middle)
    colours, count = {text.box: text.colour for text in row.texts}, len(row.boxes)
    for at, box in enumerate(row.boxes):
        x, width = _centre(at, count), _box_width(count)
        _draw_box(axes, box, x, middle, width, colours.get(at, MUTED))
        left = box[-1].left
        went_on = f"{left:,}\n{format_fps(left / row.seconds)}"
        y = middle - _BOX_IN / 2 - 0.05
        axes.text(x + width / 2, y, went_on, color=MUTED, fontsize=8, ha="right", va="top", linespacing=1.25)
    _draw_losses(axes, row, middle - _BOX_IN / 2)


def _draw_lines(axes: Axes, row: _Row, middle: float) -> None:
    """Lines from box to box. They end at the edges, since boxes are not opaque (the paper may be dark)."""
    offered = max(row.boxes[0][0].entered, 1)
    count = len(row.boxes)
    reach = _box_width(count) / 2 + 0.02
    for at in range(count - 1):
        left = row.boxes[at][-1].left
        thickness = _THINNEST + (_THICKEST - _THINNEST) * min(max(left / offered, 0), 1)
        ends = [_centre(at, count) + reach, _centre(at + 1, count) - reach]
        axes.plot(ends, [middle, middle], color=MUTED, linewidth=thickness, solid_capstyle="butt")


def _draw_box(axes: Axes, box: HopBox, x: float, y: float, width: float, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415 - an extra

    lossy = colour != MUTED
    for style in ({"facecolor": colour, "alpha": 0.14}, {"fill": False, "linewidth": 1.8 if lossy else 0.9}):
        patch = FancyBboxPatch(
            (x - width / 2, y - _BOX_IN / 2),
            width,
            _BOX_IN,
            boxstyle="round,pad=0,rounding_size=0.07",
            edgecolor=colour if "linewidth" in style else "none",
            **style,
        )
        axes.add_patch(patch)
    axes.text(x, y, box_label(box), color=INK, fontsize=8.5, ha="center", va="center", linespacing=1.15)


def _draw_losses(axes: Axes, row: _Row, bottom: float) -> None:
    """The rightmost loss is highest, so that no arrow passes another's text."""
    y = bottom - _COUNT_IN
    for text in reversed(row.texts):
        x = _centre(text.box, len(row.boxes)) - 0.4 * _box_width(len(row.boxes))
        arrow = {"arrowstyle": "-|>", "color": text.colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y - _LINE_IN), (x, bottom), arrowprops=arrow)
        for words, colour in text.lines:
            weight = "normal" if colour in {INK, MUTED} else "bold"
            axes.text(x + 0.1, y, words, color=colour, fontsize=8.5, fontweight=weight, va="top")
            y -= _LINE_IN
        y -= _LINE_IN / 2
