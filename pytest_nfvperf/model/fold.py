"""Lines for terminals: folded or cut between words, never within one that fits.

Light to import: every pytest run of the environment does.
"""

from __future__ import annotations

import re

_WORD_ENDS = re.compile(r"(?<=[\s/_,;:\-\]])|(?=[\[(])")
"""Where a text may be cut: after a space or a sign that joins words, as in paths and names, and before a bracket."""

_LEAST_KEPT = 0.5
"""Of the room that must stay used: a word that is longer than that is cut within."""

_WITH_UNIT = re.compile(r"(\S*\d) ((?:%|[kMGT]?pps|[kMGT]?bps|[num]?s)(?!\w)\S*)")
"""A number and its unit, each with what is joined to it."""

_INDENT = "  "
_NO_BREAK = "\N{NO-BREAK SPACE}"


def cut(text: str, width: int) -> str:
    """The text in at most so many columns: from the end of a word on, what does not fit is left out."""
    if len(text) <= width:
        return text
    room = max(0, width - 1)
    ends = [match.start() for match in _WORD_ENDS.finditer(text[: room + 1]) if match.start() <= room]
    last = max((end for end in ends if end >= _LEAST_KEPT * room), default=room)
    return f"{text[:last].rstrip()}…" if width > 0 else ""


def cut_name(name: str, width: int) -> str:
    """The name of a test in at most so many columns; its parameters stay, for they tell it from its neighbours."""
    stem, bracket, parameters = name.partition("[")
    tail = bracket + parameters
    if len(name) <= width or not tail or len(tail) > width // 2:
        return cut(name, width)
    return cut(f"{stem} ", width - len(tail)) + tail


def folded(text: str, width: int | None) -> list[str]:
    """Lines of at most so many columns, later ones indented; a number stays with its unit.

    ``width``: None for a file or a pipe, where a line stays one.
    """
    if width is None or len(text) < width:
        return [text]
    import textwrap  # noqa: PLC0415 - only for terminals

    room = max(20, width - 1)

    def joined(found: re.Match[str]) -> str:
        fits = len(found[0]) + len(_INDENT) <= room
        return f"{found[1]}{_NO_BREAK}{found[2]}" if fits else found[0]

    kept = _WITH_UNIT.sub(joined, text)
    lines = textwrap.wrap(kept, room, subsequent_indent=_INDENT, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]
