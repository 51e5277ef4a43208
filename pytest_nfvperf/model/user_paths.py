"""Paths as users write them in options, files and variables."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(text: str) -> str:
    """The path with a ``~`` at its beginning as the home directory.

    A shell leaves that to the program in ``--nfv-results=~/x`` and ``NAME=~/ovs``. A name of nobody stays as it is: a
    directory can be called ``~backup``.
    """
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for a name of nobody


def path_from(base: Path, text: str) -> Path:
    """The path, which counts from ``base`` where it is relative."""
    return base / expanded(text)


def is_there(base: Path, text: str) -> bool:
    """True for a path at which there is something; False also for what can be no path."""
    return os.path.exists(path_from(base, text))  # noqa: PTH110 - Path.exists raises for a name that is too long


def named_place(base: Path, text: str) -> str:
    """``WHERE`` or ``NAME=WHERE`` without a ``~``. A path that has "=" in it and is there begins with ``./`` then."""
    name, equals, where = text.partition("=")
    if not equals or "/" in name:
        return expanded(text)
    return f"./{text}" if is_there(base, text) else f"{name}={expanded(where)}"
