"""Answers of generators in which one value cannot be: a text where a number belongs, nothing, a number below 0."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

CANNOT_BE = ["N/A", None, ..., -5, {}, [], "12"]
"""What a value is changed to; ``...``: it is left out."""


def leaves(answer: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value of an answer, and to each container in it."""
    pairs = answer.items() if isinstance(answer, dict) else enumerate(answer) if isinstance(answer, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


def changed_at(answer: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy of the answer with one value changed."""
    made = copy.deepcopy(answer)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return made
