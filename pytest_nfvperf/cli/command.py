"""Shared by all commands of ``nfvperf``: how a command is added, and how its arguments are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.arguments import expanded
from pytest_nfvperf.model.testbed.ovs_settings import OVS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

USAGE = 2
"""argparse's status of a usage error. As the status of a run it means "interrupted", for ``git bisect run`` "bad"."""


@dataclass(frozen=True, slots=True)
class Command:
    """``usage_status``: exit status of a usage error. ``takes_tests``: pytest's arguments follow ``--``."""

    add_parser: Callable[[Commands], None]
    usage_status: int = USAGE
    takes_tests: bool = False


FEATURE_COMMANDS = Point[Command]("command")


def path_like(text: str) -> Path:
    if text == "-":
        raise argparse.ArgumentTypeError("'-' would be a file of that name: write /dev/stdout, or ./-")
    return Path(expanded(text))


def share_like(example: str) -> Callable[[str], float]:
    """An argparse type for shares: "0.03" or "3%", between 0 and 1. ``example``: for the error message."""

    def share(text: str) -> float:
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as {example}")
        return found

    return share


def add_datapath_option(parser: argparse.ArgumentParser) -> None:
    text = "what versions are of: testpmd, or a kind that a plugin makes (default: Open vSwitch)"
    parser.add_argument("--datapath", default=OVS, metavar="KIND", help=text)
