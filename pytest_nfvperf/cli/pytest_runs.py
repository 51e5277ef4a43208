"""Commands that are runs of pytest: ``nfvperf plan``, ``nfvperf demo`` and ``nfvperf compare``."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
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

_DEMO = {
    "test_throughput": ("PASS", "the DUT does what the SLA asks"),
    "test_promised_rate": ("FAIL", "the SLA asks for more than the DUT does"),
    "test_busy_machine": ("INCONCLUSIVE", "the rig was disturbed: no verdict"),
}
"""What the demo's tests end as, and why."""


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this process; returns its exit status."""
    import pytest  # noqa: PLC0415 - other commands need none

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "plain"):
            stream.plain = False  # pytest and the line of progress move a terminal's cursor
    return int(pytest.main([*_IMPORTED, *arguments]))


def plan(arguments: argparse.Namespace) -> int:
    return run_pytest(["--nfv-plan", *arguments.pytest_arguments])


def demo(arguments: argparse.Namespace) -> int:
    """Run a project of three tests on a simulated DUT; returns 1 where they did not end as they should."""
    from pytest_nfvperf.adapters.evidence.reader import conclude, read_run  # noqa: PLC0415 - each command its own
    from pytest_nfvperf.cli.first_project import example, write_files  # noqa: PLC0415

    try:
        target = (arguments.directory or Path(tempfile.mkdtemp(prefix="nfvperf-demo-"))).resolve()
    except OSError as error:
        raise ConfigError(f"{error.strerror}: name a directory, `nfvperf demo DIR`") from error
    write_files(target, example("demo"))
    print(f"wrote a project to {target}, and runs pytest there:", flush=True)
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:  # the user's options are not the demo's
        del os.environ[name]
    with contextlib.chdir(target):
        run_pytest(["-p", "no:randomly"])
    run, report = target / "reports/latest", target / "reports/latest/report.html"
    badges = {test.node_id.rpartition("::")[2]: test.badge for test in conclude(read_run(run)).tests}
    if badges != {name: badge for name, (badge, _) in _DEMO.items()} or not report.is_file():
        print(f"nfvperf: the demo failed, see above: {badges}, report {report}", file=sys.stderr)
        return 1
    print(_demo_text(run))
    return 0


def _demo_text(run: Path) -> str:
    script = Path(sys.executable).with_name("nfvperf")
    nfvperf = str(script) if script.exists() and shutil.which(script.name) != str(script) else script.name
    return "\n".join(
        [
            "\nThat was pytest on a simulated DUT of 4 Mpps; no packet was sent. As intended:",
            *(f"  {badge:<13} {name:<19} {why}" for name, (badge, why) in _DEMO.items()),
            f"The page: {run}/report.html",
            f"  {shlex.join([nfvperf, 'report', '--open', str(run)])}",
            "Next: a project that measures the datapath of this machine",
            f"  {shlex.quote(nfvperf)} init my-gate",
            "or, in a clone of nfvperf, all of its suites",
            "  make run",
        ]
    )


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
