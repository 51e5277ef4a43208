"""``nfvperf``: what is done outside a test run."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf import __version__
from pytest_nfvperf.adapters.process.outputs import steady_standard_streams
from pytest_nfvperf.cli.command import FEATURE_COMMANDS, USAGE, Command, path_like
from pytest_nfvperf.cli.pytest_runs import COMPARE, demo, plan
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError, NfvperfError
from pytest_nfvperf.model.evidence.conclusion import RunResult

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

FEATURE_CLEANERS = Point[Callable[[], list[str]]]("cleaner")
"""Further parts of ``nfvperf clean``; each returns what it did, a line each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors end as one message on stderr and exit status 1 (usage: 2).

    A reader that closes the pipe early (``| head -1``) changes no status. An output that cannot be written does.
    """
    with steady_standard_streams() as output:
        status = _run(sys.argv[1:] if argv is None else argv)
        output.flush()
        if output.failed is None or isinstance(output.failed, BrokenPipeError):
            return status
        why = getattr(output.failed, "strerror", None) or output.failed
        print(f"nfvperf: the output cannot be written: {why}", file=sys.stderr)
        return status or 1


def _run(argv: Sequence[str]) -> int:
    arguments = _parsed(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    mistake_status: int = arguments.mistake_status
    try:
        return command(arguments)
    except NfvperfError as error:
        print(f"nfvperf: {error}", file=sys.stderr)
        return mistake_status if isinstance(error, ConfigError) else 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"nfvperf: {error.strerror}: {error.filename}", file=sys.stderr)
    except KeyboardInterrupt:
        print("nfvperf: interrupted", file=sys.stderr)
        return 130
    return 1


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    command = _separate_commands().get(argv[0]) if argv else None
    # What follows "--" is pytest's, if the command takes tests.
    end_of_ours = argv.index("--") if command is not None and command.takes_tests and "--" in argv else len(argv)
    try:
        return _parser().parse_args(argv[:end_of_ours], argparse.Namespace(behind=list(argv[end_of_ours + 1 :])))
    except SystemExit as end:
        if end.code != USAGE or command is None:
            raise
        # A usage error exits with the status of its command.
        raise SystemExit(command.usage_status) from end


def _separate_commands() -> dict[str, Command]:
    return {"compare": COMPARE, **FEATURE_COMMANDS.all()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nfvperf", description="datapath acceptance: see also pytest --help")
    parser.add_argument("--version", action="version", version=f"nfvperf {__version__}")
    parser.set_defaults(mistake_status=1)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    seen = "see a pass, a fail and an inconclusive test, on a simulated DUT: needs no root"
    showing = _add(commands, "demo", demo, seen)
    where = "its project (default: in a temporary directory)"
    showing.add_argument("directory", type=path_like, nargs="?", metavar="DIR", help=where)
    doctor = _add(commands, "doctor", _doctor, "what this machine can and cannot do, and what to do about it")
    doctor.add_argument("--testbed", type=path_like, metavar="FILE", help="also check what this testbed needs")
    _add(commands, "clean", _clean, "remove what killed runs left on this machine, and nothing else")
    build = _add(commands, "build", _build, "compile the embedded generator for this machine")
    build.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan, for its tests")
    first = _add(commands, "init", _init, "write a first acceptance project that passes at once; replaces no file")
    first.add_argument("directory", type=path_like, metavar="DIR", help="where; `.` for this directory")
    what = "a project with suites of its own, or a gate for a tree of Open vSwitch: it builds and compares each change"
    first.add_argument("--for", dest="purpose", choices=("suites", "ovs-tree"), default="suites", help=what)
    systems = ("github", "gitlab", "jenkins", "zuul")
    first.add_argument("--ci", choices=systems, default="github", help="the CI's recipe (default: %(default)s)")
    planning = _add(commands, "plan", plan, "list the trials of a run and the time they take; sends nothing")
    planning.add_argument("pytest_arguments", nargs=argparse.REMAINDER, help="as for pytest, e.g. suites/throughput")
    suites = _add(commands, "suites", _suites, "list the suites that came with nfvperf, or copy them to run them")
    suites.add_argument(
        "--copy", type=path_like, metavar="DIR", help="copy suites, SLAs, published figures and documents"
    )
    for name, command, text in (
        ("report", _report, "render a run's evidence as one HTML page, and its charts as pictures"),
        ("show", _show, "print a run's summary table and errors"),
        ("datasheet", _datasheet, "a run as a page for filing: RFC 2544's tables and graphs, limits, conditions"),
    ):
        reading = _add(commands, name, command, text)
        reading.add_argument("run", type=path_like, nargs="?", default=Path("reports/latest"), help="results directory")
        if name == "report":
            reading.add_argument("--open", action="store_true", help="show the page in your browser")
        if name == "show":  # 1 is a status that a run can have
            reading.set_defaults(mistake_status=RunResult.USAGE.exit_status)
            reading.add_argument("--markdown", action="store_true", help="for the summary page of a CI job")
            reading.add_argument("--times", action="store_true", help="what each test spent its time on, instead")
        if name == "datasheet":
            reading.add_argument(
                "--output", type=path_like, metavar="FILE", help="default: datasheet.html in the results directory"
            )
    for other in _separate_commands().values():
        other.add_parser(commands)
    schema = _add(commands, "schema", _schema, "print the JSON schema of a file format, for editors")
    schema.add_argument("which", choices=("testbed", "sla", "traffic", "evidence"))
    return parser


def _add(
    commands: Commands, name: str, command: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.cli.doctor import doctor  # noqa: PLC0415 - each command imports its own

    return doctor(arguments.testbed)


def _clean(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes the arguments
    from pytest_nfvperf.adapters.machine.reaper import reap  # noqa: PLC0415

    reaped = reap(also_kept=True)
    others = [line for clean in FEATURE_CLEANERS.all().values() for line in clean()]
    reported = [str(reaped)] if reaped.removed or reaped.failed or reaped.left_alone or not others else []
    print("\n".join([*reported, *others]))
    return 1 if reaped.failed else 0


def _build(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.generators.embedded.build import build  # noqa: PLC0415

    print(build(sanitize=arguments.sanitize))
    return 0


def _init(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.cli.first_project import write_ovs_gate, write_project  # noqa: PLC0415

    write = write_project if arguments.purpose == "suites" else write_ovs_gate
    print(write(arguments.directory, arguments.ci))
    return 0


def _suites(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.cli.first_project import copy_suites, list_suites  # noqa: PLC0415

    print(list_suites() if arguments.copy is None else copy_suites(arguments.copy))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.evidence.reader import conclude, read_run  # noqa: PLC0415
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415

    run = read_run(arguments.run)
    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent

    page = write_report(run, folder, pictures=True)
    print(page)
    _say_how_to_get_pictures()
    print(conclude(run).last_line)
    if arguments.open:
        _open(page)
    return 0


def _open(page: Path) -> None:
    """Show a page in the user's browser, or say why not. A browser for terminals would show no chart."""
    import webbrowser  # noqa: PLC0415

    if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        print("not opened: no display here (DISPLAY, WAYLAND_DISPLAY), and BROWSER names no program")
    elif not webbrowser.open(page.resolve().as_uri()):
        print("not opened: no browser could be started; name one by the variable BROWSER")


def _datasheet(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.datasheet import DATASHEET_FILE, render_datasheet  # noqa: PLC0415

    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent
    print(render_datasheet(read_run(arguments.run), arguments.output or folder / DATASHEET_FILE))
    _say_how_to_get_pictures()
    return 0


def _say_how_to_get_pictures() -> None:
    from pytest_nfvperf.adapters.report.page_parts import GET_PICTURES, can_draw  # noqa: PLC0415

    if not can_draw():
        print(f"nfvperf: no pictures of charts; to get them: {GET_PICTURES}", file=sys.stderr)


def _show(arguments: argparse.Namespace) -> int:
    """Returns the run's own exit status, or that of a usage error if there is no run."""
    from pytest_nfvperf.adapters.evidence.reader import conclude, read_run  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.markdown import markdown  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.run_facts import describe_testbed, not_for_testbed_lines, simulated_lines  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.summary_table import run_table, times_text  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.texts import lines_of_test, since_lines  # noqa: PLC0415
    from pytest_nfvperf.model.display import folded, how_many  # noqa: PLC0415

    run = read_run(arguments.run)
    conclusion = conclude(run)
    if arguments.markdown:
        print(markdown(run, conclusion), end="")
        return conclusion.exit_status
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    if arguments.times:
        print(times_text(run, width=width, color=terminal))
        return conclusion.exit_status
    trials = how_many(len(run.trials), "trial")
    nothing = f"no test came to a figure; the evidence has {trials}" if run.trials else "nothing was measured"
    print(run_table(run, conclusion, width=width, color=terminal) or f"{arguments.run}: {nothing}")
    did = run.machine.did
    lines = [
        *lines_of_test(conclusion.tests),
        *(f"{record_id}: {data.error}: {data.message}" for record_id, data in run.errors.items()),
        *simulated_lines(run),
        *describe_testbed(run),
        *not_for_testbed_lines(run.not_for_testbed),
        *([f"{did}."] if did is not None else []),
        *since_lines(run),
        *run.problems,
        conclusion.last_line,
    ]
    print("\n".join(part for line in lines for part in folded(line, width)))
    return conclusion.exit_status


def _schema(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.evidence.reader import schema_text  # noqa: PLC0415
    from pytest_nfvperf.config.schemas import published  # noqa: PLC0415

    schemas = {**published(), "evidence.schema.json": schema_text()}
    print(schemas[f"{arguments.which}.schema.json"], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
