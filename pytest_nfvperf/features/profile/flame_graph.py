"""A profile as a flame graph: one box for a function, as wide as its share, callers below.

The layout is Brendan Gregg's (https://www.brendangregg.com/flamegraphs.html), as plain SVG without scripts. For two
versions, boxes are as wide as in the second; red ones, with their callees, cost more than in the first, blue ones less.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from pytest_nfvperf.model.measure.cpu_profile import CpuProfile

_WIDTH, _ROW, _MARGIN = 1200.0, 17, 10
_NARROWEST = 1.5
"""Width of the narrowest drawn box. Narrower ones are stacks seen once or twice; they would make pictures up to five
times as high."""
_HOW_TO_READ = (
    "A box is a function, as wide as its share, and stands on its caller. "
    "Where this picture is opened by itself, a box that is pointed at says its whole name and figure."
)
_LETTER = 6.6
"""Approximate width of a letter at 11 px."""
_EDGE = 'stroke="#aaa" stroke-width="0.3"'
"""Without it pale neighbours look like one box."""
_ALL = "all"
_FULL_COLOUR, _ANY_COLOUR = 0.1, 0.005
"""Growth of a box as a share of the whole profile: from the first on it is fully coloured; below the second grey."""

Folded = Iterable[tuple[tuple[str, ...], int]]


@dataclass
class _Node:
    """A function called by the one below it. ``before``: its samples in the version that it is compared with."""

    samples: int = 0
    before: float = 0.0
    above: dict[str, _Node] = field(default_factory=dict)

    def depth(self, width: float) -> int:
        """Rows that are drawn if this box has this width."""
        if width < _NARROWEST:
            return 0
        above = (child.depth(width * child.samples / self.samples) for child in self.above.values())
        return 1 + max(above, default=0)


_Look = Callable[[str, _Node], tuple[str, str, str]]
"""Of a function's box: its colour, the tooltip after its name, and the figure in it."""


def flame_graph(profile: CpuProfile, title: str) -> str:
    """The SVG; its heading has the number of samples, which may be 0."""
    total = max(1, profile.samples)

    def look(name: str, node: _Node) -> tuple[str, str, str]:
        share = node.samples / total
        return _colour(name), f"{share:.1%}, {node.samples} samples", f"{share:.0%}"

    return _drawn(_tree(profile.folded), f"{title}: {profile.samples} samples of {profile.event}", look)


def differential_flame_graph(before: CpuProfile, after: CpuProfile, title: str) -> str:
    """The SVG of two profiles of equal work: as wide as in ``after``; red where the share of its samples grew.

    It compares shares, not samples: the runs may have taken different times.
    """
    root, total = _tree(after.folded), max(1, after.samples)
    _note_before(root, before.folded, total / max(1, before.samples))

    def look(_: str, node: _Node) -> tuple[str, str, str]:
        share = (node.samples - node.before) / total
        grew = f"{round(share, 3) + 0.0:+.1%}"  # never -0.0%
        return _red_or_blue(share), f"{node.samples / total:.1%}, was {node.before / total:.1%}, {grew}", grew

    heading = f"{title}: {after.samples} samples of {after.event}, before {before.samples}; red: more than before"
    return _drawn(root, f"{heading}, blue: less; what is gone has no box", look)


def _drawn(root: _Node, heading: str, look: _Look) -> str:
    width = _WIDTH - 2 * _MARGIN
    height = (root.depth(width) + 3) * _ROW + 2 * _MARGIN
    boxes = _boxes(root, _ALL, _MARGIN, width, height - _MARGIN - _ROW, look)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" font-family="monospace"'
    lines = [
        f'<text x="{_MARGIN}" y="{(number + 1) * _ROW}"{weight}>{escape(text)}</text>'
        for number, (text, weight) in enumerate([(heading, ' font-weight="bold"'), (_HOW_TO_READ, ' fill="#555"')])
    ]
    sheet = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'{head} font-size="11">', sheet, *lines, *boxes, "</svg>", ""])


def _tree(folded: Folded) -> _Node:
    root = _Node()
    for stack, count in folded:
        node = root
        node.samples += count
        for name in stack:
            node = node.above.setdefault(name, _Node())
            node.samples += count
    return root


def _note_before(root: _Node, folded: Folded, scale: float) -> None:
    """Note each stack's cost in the other version; a function that is gone has no box."""
    for stack, count in folded:
        node: _Node | None = root
        root.before += count * scale
        for name in stack:
            node = node.above.get(name) if node is not None else None
            if node is not None:
                node.before += count * scale


def _boxes(node: _Node, name: str, x: float, width: float, y: float, look: _Look) -> Iterator[str]:
    """Boxes of a function and all above it, except those too narrow to be seen."""
    if width < _NARROWEST:
        return
    colour, tooltip, figure = look(name, node)
    fill = f'fill="{colour}" {_EDGE}'
    box = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" {fill}/>'
    yield f"<g><title>{escape(f'{name}: {tooltip}')}</title>{box}{_label(name, figure, x, width, y)}</g>"
    for called, child in sorted(node.above.items()):
        share = width * child.samples / node.samples
        yield from _boxes(child, called, x, share, y - _ROW, look)
        x += share


def _label(name: str, figure: str, x: float, width: float, y: float) -> str:
    """The longest text that fits: name and figure, the name, its beginning, or nothing."""
    fits = int(width / _LETTER) - 1
    whole = [text for text in (f"{name} {figure}", name) if len(text) <= fits]
    shown = whole[0] if whole else f"{name[: fits - 1]}…" if fits > 3 else ""
    return f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""


def _colour(name: str) -> str:
    number = zlib.crc32(name.encode())
    return f"hsl({number % 50} 85% {65 + number // 50 % 12}%)"


def _red_or_blue(share: float) -> str:
    if abs(share) < _ANY_COLOUR:
        return "hsl(0 0% 95%)"
    depth = min(1.0, abs(share) / _FULL_COLOUR)
    return f"hsl({0 if share > 0 else 220} 85% {95 - 35 * depth:.0f}%)"
