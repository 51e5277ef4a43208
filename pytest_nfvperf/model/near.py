"""Near misses: what a user probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NEAR = 0.6
MISSPELT = 0.89
"""So near that it can hardly be a word of its own: one letter wrong in seven, but not ``flow`` for ``flows``."""


def did_you_mean(written: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """``, did you mean 'pmd_cpus'?`` or nothing. Compares without regard to case."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), names, n=2, cutoff=cutoff)
    return f", did you mean {' or '.join(repr(names[name]) for name in close)}?" if close else ""


def listed(known: Iterable[str]) -> str:
    """``a, b, c``, for "one of ..."."""
    return ", ".join(known)
