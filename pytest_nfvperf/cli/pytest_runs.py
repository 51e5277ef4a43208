"""Commands that are runs of pytest: ``nfvperf plan`` and ``nfvperf compare``."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.conclusion import RunResult

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

USAGE = "nfvperf compare A B [C ...] [--set [SIDE:]other_config:KEY=VALUE] [--margin SHARE] -- PYTEST_ARGUMENTS"
_TEXT = (
    "Versions or settings of Open vSwitch on the same tests, in turns within one run: which is faster, slower, the "
    "same. Or two results directories. docs/reference/comparison.md has the words and the exit statuses."
)
_IMPORTED = ("-W", "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning")
"""This command imports the plugin before pytest does. A project whose warnings are errors would stop at the warning."""


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this process; returns its exit status."""
    import pytest  # noqa: PLC0415 - other commands need none

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "plain"):
            stream.plain = False  # pytest and the line of progress move a terminal's cursor
    return int(pytest.main([*_IMPORTED, *arguments]))


def plan(arguments: argparse.Namespace) -> int:
    return run_pytest(["--nfv-plan", *arguments.pytest_arguments])


def _add_parser(commands: Commands) -> None:
    usage = f"{USAGE}\n       nfvperf compare RUN RUN [--margin SHARE]"
    text = "several Open vSwitch on the same tests: which is faster, slower, the same; or two runs"
    parser = commands.add_parser("compare", help=text, description=_TEXT, usage=usage)
    parser.add_argument(
        "sides",
        nargs="+",
        metavar="SIDE",
        help="NAME of `nfvperf ovs list`, 'installed', a prefix or root, or NAME=WHERE; the baseline first. Or two "
        "results directories",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="[SIDE:]other_config:KEY=VALUE",
        help="a setting of one side, or of all",
    )
    parser.add_argument("--margin", metavar="SHARE", help="for 'same' (default: '2 %%')")
    parser.set_defaults(command=_compare, mistake_status=RunResult.USAGE.exit_status)


COMPARE = Command(_add_parser, usage_status=RunResult.USAGE.exit_status, takes_tests=True)


def _compare(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.config.units import read_margin  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.model.measure.compare import parse_sides  # noqa: PLC0415

    given: list[str] = arguments.behind
    paths = [Path(side) for side in arguments.sides]
    if not given and any(path.is_dir() and any(path.glob("evidence*.jsonl")) for path in paths):
        return _compare_runs(paths, arguments.margin)
    # Find a mistake before pytest starts.
    parse_sides(arguments.sides, arguments.settings)
    read_margin(arguments.margin)
    if not given:
        raise ConfigError(f"which tests? Write them after --, such as `nfvperf compare A B -- suites/`: {USAGE}")
    margin = ["--nfv-compare-margin", arguments.margin] if arguments.margin else []
    options = [f"--nfv-compare={side}" for side in arguments.sides]
    options += [f"--nfv-compare-set={setting}" for setting in arguments.settings]
    return run_pytest([*options, *margin, *given])


def _compare_runs(paths: Sequence[Path], margin: str | None) -> int:
    """Print the table of two existing runs, and write the document into the second's directory."""
    from pytest_nfvperf.adapters.evidence.comparison import compared_runs, write_comparison  # noqa: PLC0415
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.comparison import comparison_text, differences_text  # noqa: PLC0415
    from pytest_nfvperf.config.units import read_margin  # noqa: PLC0415

    if len(paths) != 2:
        raise ConfigError(
            f"two results directories can be compared, not {len(paths)}; or name versions of Open vSwitch"
        )
    first, second = (read_run(path.resolve()) for path in paths)
    compared = compared_runs(first, second, read_margin(margin))
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    print(differences_text(compared))
    print(comparison_text(compared, width=width, color=terminal))
    print(f"written: {write_comparison(compared, second.path, f'comparison-with-{first.run_id}.json')}")
    return compared.exit_status
