"""Texts for people: figures with units, folded lines, suggestions for misspelt words, safe characters.

Light to import: every pytest run of the environment does.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, NoReturn

from pytest_nfvperf.model.errors import ConfigError

MISSPELT = 0.89
"""So similar that it can hardly be a word of its own: one letter wrong in seven, but not ``flow`` for ``flows``."""

_SLIP = 0.8
"""From here on two words differ by a slip, and not by what they mean."""
_WORDS, _SHORTEST_WORD = re.compile(r"[a-z0-9]+"), 3

_WORD_ENDS = re.compile(r"(?<=[\s/_,;:\-\]])|(?=[\[(])")
"""Where a text may be cut: after a space or a sign that joins words, as in paths and names, and before a bracket."""
_LEAST_FILLED = 0.5
"""Share of the room that must stay used. A longer word is cut within."""
_WITH_UNIT = re.compile(r"(\S*\d) ((?:%|[kMGT]?pps|[kMGT]?bps|[num]?s)(?!\w)\S*)")
"""A number and its unit, each with what is joined to it."""
_INDENT, _NOTE = "  ", "    "
_LEAST_COLUMN = 8
_NO_BREAK = "\N{NO-BREAK SPACE}"

_SURROGATES = re.compile(r"[\ud800-\udfff]")
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tab and newline
    r"\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines and directions, which show a text as another one
    r"\ud800-\udfff\ufffe\uffff]"  # no characters
)
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")
_STAND_INS = str.maketrans(
    {
        "\N{GREATER-THAN OR EQUAL TO}": ">=",
        "\N{LESS-THAN OR EQUAL TO}": "<=",
        "\N{MIDDLE DOT}": "-",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{PLUS-MINUS SIGN}": "+-",
        "\N{MICRO SIGN}": "u",
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{EN DASH}": "-",
        "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
        "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
        "\N{WHITE HEAVY CHECK MARK}": "[passed]",
        "\N{BALLOT BOX WITH CHECK}": "[passed]",
        "\N{CROSS MARK}": "[failed]",
        "\N{NO ENTRY}": "[broken]",
        "\N{WARNING SIGN}": "[inconclusive]",
        "\N{WHITE SMALL SQUARE}": "",
        "\N{VARIATION SELECTOR-16}": "",
    }
)
"""Replacements for our own signs, for an output that knows ASCII or Latin-1 only."""

MISSING = "-"
"""A figure that was not measured."""
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME_NS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SMALLEST_PERCENT = 1e-6
_DIGITS, _MOST_DIGITS = 3, 12
_NO_FRACTION = re.compile(r"\.0+(?!\d)")
_EQUAL = 1e-9
"""Relative difference below which two figures are equal: units are converted in floating point."""
_TIMES = 10
"""From here on a margin is shown as a multiple of the limit."""


def did_you_mean(written: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``, did you mean 'pmd_cpus'?`` or nothing. Compares without regard to case.

    A slip of the fingers comes first, then names of several words that have the written ones (``loss`` for
    ``loss_ratio``). A ``cutoff`` above the usual one looks for slips only.
    """
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), names, n=2, cutoff=max(cutoff, _SLIP))
    if not close and cutoff < _SLIP:
        close = _names_with_words(written.lower(), names)
        close = close or difflib.get_close_matches(written.lower(), names, n=2, cutoff=cutoff)
    return f", did you mean {' or '.join(repr(names[name]) for name in close)}?" if close else ""


def _names_with_words(written: str, names: Iterable[str]) -> list[str]:
    """Names with all words of the written one, else those that begin with its last; the most similar two."""
    words = set(_WORDS.findall(written))
    if not words or min(map(len, words)) < _SHORTEST_WORD:
        return []
    with_all = [name for name in names if words <= set(_WORDS.findall(name))]
    last = _WORDS.findall(written)[-1]
    found = with_all or [name for name in names if _WORDS.findall(name)[:1] == [last]]
    return difflib.get_close_matches(written, found, n=2, cutoff=0.0)


def listed(known: Iterable[str]) -> str:
    return ", ".join(known)


class WordChoice(StrEnum):
    """One word of several, such as the kind of a port; ``PortKind("vhostuser")`` raises ConfigError with the others."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        what = re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()
        raise unknown_word(str(value), what, [str(member) for member in cls])


def unknown_word(written: str, what: str, known: list[str]) -> ConfigError:
    """``'vhostuser' is no port kind, did you mean 'vhost-user'? There are testbed, vhost-user, tap``."""
    hint = did_you_mean(written, known)
    return ConfigError(f"{written!r} is no {what}{hint or '.'} There are {listed(known)}")


# Lines for terminals: folded or cut between words, never within one that fits.


def cut(text: str, width: int) -> str:
    """Shorten the text to ``width`` columns, at the end of a word if possible."""
    if len(text) <= width:
        return text
    room = max(0, width - 1)
    ends = [match.start() for match in _WORD_ENDS.finditer(text[: room + 1]) if match.start() <= room]
    last = max((end for end in ends if end >= _LEAST_FILLED * room), default=room)
    return f"{text[:last].rstrip()}…" if width > 0 else ""


def folded(text: str, width: int | None, indent: str = _INDENT) -> list[str]:
    """Lines of at most so many columns, later ones indented; a number stays with its unit.

    ``width``: None for a file or a pipe, where a line stays one.
    """
    if width is None or len(text) < width:
        return [text]
    return wrapped(text, max(20, width - 1), indent)


def wrapped(text: str, room: int, indent: str = "") -> list[str]:
    """Lines of at most ``room`` characters, later ones indented; a number stays with its unit where both fit.

    A word that no line holds is cut where it may be (``cut``), else within.
    """
    import textwrap  # noqa: PLC0415 - most runs fold nothing

    width = room - len(indent)

    def joined(found: re.Match[str]) -> str:
        return f"{found[1]}{_NO_BREAK}{found[2]}" if len(found[0]) <= width else found[0]

    def parts(found: re.Match[str]) -> str:
        first = cut(found[0], width + 1)[:-1]
        return f"{first} {found[0][len(first) :]}"

    text, long = _WITH_UNIT.sub(joined, text), re.compile(rf"\S{{{width + 1},}}")
    while width > 0 and long.search(text):
        text = long.sub(parts, text)
    lines = textwrap.wrap(text, room, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def longest_word(text: str) -> int:
    """Length of the longest word; a number and its unit are one."""
    return max(map(len, _WITH_UNIT.sub(rf"\1{_NO_BREAK}\2", text).split(" ")))


# Tables. One rule folds them all: columns that matter less are left out, else names move to lines of their own above
# their rows. Texts fold between words. No figure is cut.


class TableColumn(NamedTuple):
    """``folds``: of texts. ``optional``: from 1 on, a narrow table lacks it, the lowest number first."""

    heading: str
    right: bool = False
    folds: bool = False
    optional: int = 0


Styled = tuple[str, str]
"""Text and its style."""
TableRow = Sequence[str | Styled]


def fold_table(
    columns: Sequence[TableColumn], rows: Iterable[TableRow], width: int | None, *, once: bool = False
) -> tuple[list[list[Styled]], list[str]]:
    """The lines of a table, and the headings of the columns that it lacks.

    The first column has names; with ``once`` a name is not repeated in the next row. Cells beyond the columns are notes
    below their row. ``width``: of the terminal; None: as wide as needed.
    """
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    texts = [[column.heading, *(row[index][0] for row in cells)] for index, column in enumerate(columns)]
    optional = sorted(
        (index for index, column in enumerate(columns) if column.optional), key=lambda index: columns[index].optional
    )
    for cuts, above, count in itertools.product((False, True), (False, True), range(len(optional) + 1)):
        shown = [index for index in range(above, len(columns)) if index not in optional[:count]]
        room = sys.maxsize if width is None else width - len(shown) + 1 - len(_INDENT) * above
        folding = [number for number, index in enumerate(shown) if columns[index].folds]
        widths = table_widths([texts[index] for index in shown], folding, room, cuts=cuts)
        if sum(widths) <= room:
            break
    indent, before = _INDENT * above, ""

    def lines_of(row: Sequence[Styled]) -> Iterator[list[Styled]]:
        for parts in cell_lines([row[index][0] for index in shown], widths):
            line = [(indent, "")]
            for index, part, size in zip(shown, parts, widths, strict=True):
                blank = " " * (size - len(part))
                line += (
                    [(blank, ""), (part, row[index][1])]
                    if columns[index].right
                    else [(part, row[index][1]), (blank, "")]
                )
                line.append((" ", ""))
            yield line

    most = max(columns[index].heading.count("\n") for index in shown)
    headings = [("\n" * (most - column.heading.count("\n")) + column.heading, "bold") for column in columns]
    lines = [[(columns[0].heading, "bold")]] * above + [*lines_of(headings)]
    lines.append([("─" * (len(indent) + sum(widths) + len(shown) - 1), "")])
    for row in cells:
        (name, style), same = row[0], row[0][0] == before
        before = name
        lines += [[(line, style)] for line in folded(name, width)] if above and not same else []
        lines += lines_of([("", ""), *row[1:]] if once and same else row)
        notes = (part for note, _ in row[len(columns) :] for part in folded(f"{_NOTE}{note}", width, _NOTE) if note)
        lines += [[(part, "")] for part in notes]
    return lines, [" ".join(columns[index].heading.split()) for index in range(1, len(columns)) if index not in shown]


def table_widths(cells: Sequence[Sequence[str]], folding: Sequence[int], room: int, *, cuts: bool = True) -> list[int]:
    """Widths of columns as their cells need; without room those that fold have their longest words', or less."""
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in cells]
    words = [max(map(longest_word, column)) for column in cells]
    for least in (words, [_LEAST_COLUMN] * len(words))[: 1 + cuts]:
        for at in folding:
            widths[at] -= max(0, min(sum(widths) - room, widths[at] - least[at]))
    return widths


def cell_lines(cells: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The lines of a row."""
    lines = (
        [part for line in cell.split("\n") for part in (wrapped(line, size) if line else [""])]
        for cell, size in zip(cells, widths, strict=True)
    )
    return itertools.zip_longest(*lines, fillvalue="")


# Text of users, made safe for a file, a terminal, or a page. Control characters move a terminal's cursor, and no XML
# file may hold them. A lone surrogate stands for a byte that is no UTF-8, as in the path ``caf\xe9``, and no file can
# hold it. Both are shown as Python writes them.


def storable(text: str) -> str:
    """Escape surrogates, which UTF-8 cannot encode."""
    return _SURROGATES.sub(_escaped, text)


def visible(text: str, *, colors: bool = False) -> str:
    """Escape control characters, but tabs and newlines.

    The text can go into HTML, XML and Markdown once their own special characters are escaped. ``colors``: keep
    sequences that only set a terminal's colours.
    """
    text = text.replace("\r\n", "\n")
    if not colors:
        return _UNSEEN.sub(_escaped, text)
    pieces = _COLOR.split(text)  # every second one is such a sequence
    return "".join(piece if at % 2 else _UNSEEN.sub(_escaped, piece) for at, piece in enumerate(pieces))


def encodable(text: str, encoding: str) -> str:
    """Replace what this encoding lacks by stand-ins (``>=``) or escapes."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_STAND_INS).encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return storable(text)
    return text


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


# Figures: tables, reports and messages all show a figure the same way, with three significant digits and the field's
# units. It has more digits if it stands beside a figure from which it must differ.


def cpu_list(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))


_OF_FRAMES = re.compile(r"(?<=[\d ][kMG])pps|(?<=\d )pps|(?<=\d )frames\b")


def format_fps(frames_per_second: float | None, digits: int = _DIGITS) -> str:
    """Frames/s: ``4.02 Mpps``."""
    return _scaled(frames_per_second, [(factor, f"{prefix}pps") for factor, prefix in _SI], digits)


def format_connections(connections_per_second: float | None, digits: int = _DIGITS) -> str:
    """Connections/s: ``86.3 kconn/s``."""
    return _scaled(connections_per_second, [(factor, f"{prefix}conn/s") for factor, prefix in _SI], digits)


def in_connections(text: str) -> str:
    """A text about loads and frames, of a conversation: ``2 lost of 9 at 4.02 kconn/s``."""
    return _OF_FRAMES.sub(lambda found: "conn/s" if found[0] == "pps" else "connections", text)


def format_load(asked_fps: float, offered_fps: float | None) -> str:
    """A load in frames/s: ``40.0 Mpps``, with the load that was offered if that reads differently."""
    asked, offered = format_fps(asked_fps), format_fps(offered_fps)
    return asked if offered_fps is None or asked == offered else f"{asked} ({offered} offered)"


def format_bps(bits_per_second: float | None, digits: int = _DIGITS) -> str:
    """Bit/s: ``25.1 Gbps``."""
    return _scaled(bits_per_second, [(factor, f"{prefix}bps") for factor, prefix in _SI], digits)


def format_ns(nanoseconds: float | None, digits: int = _DIGITS) -> str:
    """A time given in nanoseconds: ``48.2 us``."""
    return _scaled(nanoseconds, _TIME_NS, digits)


def format_seconds(seconds: float | None, digits: int = _DIGITS) -> str:
    """A time given in seconds: ``250 ms``; from two minutes on ``15 min`` or ``12 h``."""
    if seconds == 0:
        return "0 s"
    if seconds is not None and math.isfinite(seconds) and seconds >= 120:
        factor, unit = (3600, "h") if seconds >= 7200 else (60, "min")
        return f"{seconds / factor:.{digits}g} {unit}"
    return format_ns(None if seconds is None else seconds * 1e9, digits)


def format_ratio(ratio: float | None, digits: int = _DIGITS) -> str:
    """A ratio as per cent: ``99.5 %``; small ones as a number: ``7.5e-08``."""
    if ratio is None or not math.isfinite(ratio):
        return MISSING if ratio is None else str(ratio)
    if 0 < abs(ratio) < _SMALLEST_PERCENT:
        return f"{ratio:.{digits - 1}g}"
    # One digit more: the difference between 99.95 % and 100 % is the difference between PDR and NDR.
    return f"{ratio * 100:.{digits + 1}g} %"


def format_count(count: float | None, unit: str = "frames", digits: int = _DIGITS) -> str:
    """A count with thin groups: ``1,234,567 frames``."""
    if count is None or not math.isfinite(count):
        return MISSING if count is None else str(count)
    shown = f"{int(count):,}" if float(count).is_integer() else f"{count:,.{digits - 2}f}"
    return f"{shown} {unit.removesuffix('s') if shown == '1' else unit}".rstrip()


def _format_bytes(size: float, digits: int) -> str:
    """``4.00 MiB``, ``12.0 KiB``, ``352.5 bytes``; negative if something shrank."""
    if abs(size) >= 1 << 20:
        return f"{size / (1 << 20):.{digits - 1}f} MiB"
    if abs(size) < 1 << 10:
        return format_count(size, "bytes", digits)
    return f"{size / 1024:.{digits - 2}f} KiB"


_FORMATTERS: Mapping[str, Callable[[float, int], str]] = {
    "cpu-s/Gbit": lambda seconds, digits: f"{_digits(seconds, digits)} cpu-s/Gbit",
    "cores": lambda cores, digits: f"{cores:.{digits - 1}f} cores",
    "bytes": _format_bytes,
    "pps": format_fps,
    "conn/s": format_connections,
    "bps": format_bps,
    "ns": format_ns,
    "s": format_seconds,
    "ratio": format_ratio,
}


def format_value(value: float | None, unit: str, digits: int = _DIGITS) -> str:
    """A value in a base unit of a Figure: pps, bps, ns, s, ratio, line_ratio, cores, bytes, or a count."""
    if value is None:
        return MISSING
    if unit == "line_ratio":
        return f"{format_ratio(value, digits)} of line rate"
    formatter = _FORMATTERS.get(unit)
    return formatter(value, digits) if formatter else format_count(value, unit, digits)


def format_against(value: float | None, other: float | None, unit: str) -> str:
    """A figure beside another of its unit, such as the observed value beside its limit.

    It has enough digits to show the difference: ``0.5001 %`` against a limit of ``0.5 %``. Beside per cent a small
    ratio is per cent, too: ``0.00006 %`` against ``-1 %``.
    """
    if value is None or other is None or math.isclose(value, other, rel_tol=_EQUAL, abs_tol=0.0):
        return format_value(value, unit)
    if unit == "ratio" and 0 < abs(value) < _SMALLEST_PERCENT <= abs(other):
        return f"{_digits(value * 100, 1)} %"  # per cent beside per cent
    for digits in range(_DIGITS, _MOST_DIGITS):
        shown = format_value(value, unit, digits)
        # ``1,000.0`` is no other figure than ``1,000``.
        if _NO_FRACTION.sub("", shown) != _NO_FRACTION.sub("", format_value(other, unit, digits)):
            return shown
    return format_value(value, unit, _MOST_DIGITS)


def format_elapsed(seconds: float) -> str:
    """``4.2 s``, ``32 s``, ``15 min``."""
    if seconds >= 120:
        return format_seconds(seconds, 2 if seconds < 6000 else _DIGITS)
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def how_many(count: int, thing: str) -> str:
    """``1 bridge``, ``2 bridges``, ``1,000 flows``. ``thing``: a word with the plural s or es."""
    ending = "" if count == 1 else "es" if thing.endswith("ch") else "s"
    return f"{count:,} {thing}{ending}"


def label_words(labels: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    """Those labels that have a text, by ``{}`` in it; or ``2 bridges``, ``many flows`` where it is what is counted."""

    def counted(value: str, thing: str) -> str:
        return how_many(int(value), thing) if value.isdigit() else f"{value} {thing}s"

    known = [(labels[name], text) for name, text in texts.items() if name in labels]
    return [text.format(value) if "{}" in text else counted(value, text) for value, text in known]


def format_margin(margin: float | None, times: float | None = None) -> str:
    """A signed margin as per cent, positive is better: ``+3.2 %``. A small one is not rounded to 0: ``-0.02 %``.

    ``margin``: (observed - limit) / limit, signed. ``times``: observed / limit; from ten on ``92 times the limit``.
    """
    if margin is None or not math.isfinite(margin):
        return MISSING
    if times is not None and math.isfinite(times) and times >= _TIMES:
        return f"{times:,.0f} times the limit"
    if _EQUAL < abs(margin) < 0.0005:
        return f"{'+' if margin > 0 else ''}{_digits(margin * 100, 1)} %"
    return f"{margin * 100 if abs(margin) > _EQUAL else 0.0:+.1f} %"


def _scaled(value: float | None, steps: Sequence[tuple[float, str]], digits: int) -> str:
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    for factor, unit in steps:
        # 999.96 k is shown as 1.00 M, so the choice of unit looks at the rounded figure.
        if abs(float(f"{value:.{digits}g}")) >= factor:
            return f"{_digits(value / factor, digits)} {unit}"
    smallest, unit = steps[-1]
    return f"{_digits(value / smallest, digits) if value else '0'} {unit}"


def _digits(value: float, digits: int) -> str:
    rounded = float(f"{value:.{digits}g}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:.{min(max(decimals, 0), _MOST_DIGITS)}f}"
