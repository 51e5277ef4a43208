"""What the arguments of commands are read by."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.model.user_paths import expanded


def path_like(text: str) -> Path:
    """What argparse reads a path by."""
    return Path(expanded(text))


def share_like(example: str) -> Callable[[str], float]:
    """What argparse reads a share by: "0.03" or "3%", between 0 and 1. ``example``: for whoever writes another."""

    def share(text: str) -> float:
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as {example}")
        return found

    return share
