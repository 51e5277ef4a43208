"""A CPU profile as a flame graph: one box a function, as wide as its share of the samples, callers below.

Brendan Gregg's layout (https://www.brendangregg.com/flamegraphs.html), as plain SVG that needs no script: a box shows
its full name and share when it is pointed at.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from pytest_nfvperf.model.measure.cpu_profile import CpuProfile

_WIDTH, _ROW, _MARGIN = 1200.0, 17, 10
_NARROWEST = 0.4
_LETTER = 6.6
"""Width of a letter at 11 px, as near as it matters for what fits."""


@dataclass
class _Node:
    """A function called by the one below it."""

    samples: int = 0
    above: dict[str, _Node] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 1 + max((child.depth for child in self.above.values()), default=0)


def flame_graph(profile: CpuProfile, title: str) -> str:
    """The SVG; of a profile without samples a picture that says so."""
    root = _tree(profile)
    height = (root.depth + 2) * _ROW + 2 * _MARGIN
    text = f"{title}: {profile.samples} samples of {profile.event}"
    boxes = _boxes(root, "all", _MARGIN, _WIDTH - 2 * _MARGIN, height - _MARGIN - _ROW, max(1, profile.samples))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" font-family="monospace"'
    sheet = f'<rect width="100%" height="100%" fill="#fff"/><text x="{_MARGIN}" y="{_ROW}">{escape(text)}</text>'
    return "\n".join([f'{head} font-size="11">', sheet, *boxes, "</svg>", ""])


def _tree(profile: CpuProfile) -> _Node:
    root = _Node()
    for stack, count in profile.folded:
        node = root
        node.samples += count
        for name in stack:
            node = node.above.setdefault(name, _Node())
            node.samples += count
    return root


def _boxes(node: _Node, name: str, x: float, width: float, y: float, total: int) -> Iterator[str]:
    """Of a function and all above it; those too narrow to be seen are left out."""
    if width < _NARROWEST:
        return
    yield _box(name, x, width, y, f"{name}: {node.samples / total:.1%}, {node.samples} samples")
    for called, child in sorted(node.above.items()):
        share = width * child.samples / node.samples
        yield from _boxes(child, called, x, share, y - _ROW, total)
        x += share


def _box(name: str, x: float, width: float, y: float, told: str) -> str:
    fits = int(width / _LETTER) - 1
    shown = name if len(name) <= fits else f"{name[: fits - 1]}…" if fits > 3 else ""
    label = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
    box = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" fill="{_colour(name)}"/>'
    return f"<g><title>{escape(told)}</title>{box}{label}</g>"


def _colour(name: str) -> str:
    """The same for the same name in every picture."""
    number = zlib.crc32(name.encode())
    return f"hsl({number % 50} 85% {65 + number // 50 % 12}%)"
