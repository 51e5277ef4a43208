"""Text of users, made safe for where it goes: a file, a terminal, a page.

Control characters move a terminal's cursor, and no XML file may hold them; no file takes a lone surrogate. Both appear
as Python writes them.
"""

from __future__ import annotations

import re

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
"""What our own tables and lines hold, for an output that knows ASCII or Latin-1 alone."""


def storable(text: str) -> str:
    """The same text where UTF-8 can hold it; a surrogate becomes its escape."""
    return _SURROGATES.sub(_escaped, text)


def visible(text: str, *, colors: bool = False) -> str:
    """Text in which a reader sees every character, and none does anything: an escape stands for it.

    It can go into HTML, XML and Markdown once their own special characters are escaped; tabs and newlines stay.
    ``colors``: leave sequences that set a terminal's colours and do nothing else.
    """
    text = text.replace("\r\n", "\n")
    if not colors:
        return _UNSEEN.sub(_escaped, text)
    pieces = _COLOR.split(text)  # every second one is such a sequence
    return "".join(piece if at % 2 else _UNSEEN.sub(_escaped, piece) for at, piece in enumerate(pieces))


def encodable(text: str, encoding: str) -> str:
    """The same text where this encoding has all of it; else with stand-ins (``>=``), or escapes."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_STAND_INS).encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return storable(text)
    return text


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
