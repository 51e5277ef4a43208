"""nfvperf history, and a history as the baseline of a run."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.cli.command import Command, path_like, share_like
from pytest_nfvperf.features.history.change_points import disturbed_runs, steps_among
from pytest_nfvperf.features.history.files import History, add_acknowledgement, add_entry, read_entry, read_history
from pytest_nfvperf.features.history.series import (
    COMMIT,
    LEAST_RUNS,
    SMALLEST,
    Acknowledgement,
    HistoryEntry,
    Watched,
    changes,
    in_order,
    machines,
    measured,
    series_of,
    why_not,
)
from pytest_nfvperf.features.history.triage import triage
from pytest_nfvperf.model.display import did_you_mean, folded, how_many
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.evidence.conclusion import RunResult
from pytest_nfvperf.model.evidence.records import RunData
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.verdict import Baseline
from pytest_nfvperf.session.slas import figures_by_subject, start_text

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

_VERSIONS = ("ovs", "dpdk", "kernel", "nfvperf")
_MOST_SHOWN = 12
_FIRST_RELEASE = datetime(2025, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER = timedelta(days=1)
"""The most by which two clocks that are set differ: somebody took one time zone for another."""
_NOTHING_NEW, _WORSE = 0, 1
_USAGE, _TOO_FEW = RunResult.USAGE.exit_status, RunResult.INCONCLUSIVE.exit_status
_DAMAGED = RunResult.BROKEN.exit_status
"""A file of the history could not be read. The others were used, and showed nothing new."""
_SMALLEST = "3%"


def entry_of(run: RunEvidence) -> HistoryEntry:
    """ConfigError: no figures, versions in turns, machines that differ, or a clock that was not set."""
    data = _machine(run)
    found = measured(figures_by_subject(run))
    if data is None or not found:
        raise ConfigError(
            f"nothing was measured in this run, so a history has no use for it. {conclude(run).headline}",
            file=str(run.path),
        )
    _check_clock(run)
    return replace(entry_without_figures(run, data), measured=found, fingerprint=data.fingerprint)


def entry_without_figures(run: RunEvidence, data: RunData | None) -> HistoryEntry:
    testbed, versions = ("", {}) if data is None else (data.testbed.name, versions_of(data))
    result = str(conclude(run).result)
    return HistoryEntry(run.run_id, start_text(run), run.started_ns, result, testbed, versions, measured=())


def versions_of(data: RunData) -> dict[str, str]:
    """Versions of a run by name, as far as known; of an OVS from git its commit, too."""
    known = {name: str(data.fingerprint[name]) for name in _VERSIONS if data.fingerprint.get(name)}
    built, _, commit = ("" if data.dut is None else data.dut.origin).partition("git:")
    return known if built or not commit else {**known, COMMIT: commit}


def baseline_of(path: Path, fingerprint: Mapping[str, Any]) -> Baseline:
    """The figures in a history's file, for a run with this fingerprint. ConfigError: it cannot be read."""
    entry = read_entry(path)
    return Baseline(
        f"the baseline {path.name}", entry.when, entry.observed(), differences(entry.fingerprint, fingerprint)
    )


def _check_clock(run: RunEvidence) -> None:
    """A history is ordered by time: a run at a wrong place would look like a change."""
    began = datetime.fromtimestamp(run.started_ns / 1e9, UTC)
    if _FIRST_RELEASE <= began <= datetime.now(UTC) + _CLOCKS_DIFFER:
        return
    when = "before there was an nfvperf" if began < _FIRST_RELEASE else "in the future"
    raise ConfigError(
        f"this run began {start_text(run)} by the clock of its machine, {when}: the clock was not set. A history is in "
        "the order of time and cannot take it. Set the clock (timedatectl), and measure again",
        file=str(run.path),
    )


def _machine(run: RunEvidence) -> RunData | None:
    """The record of the process that measured: the first one, if several did on equal machines."""
    files = {test.file for test in run.tests.values() if test.measured or test.outcomes}
    found = [data for file, data in run.runs.items() if file in files]
    if not found:
        return None
    first, *others = found
    if first.compare is not None:
        raise ConfigError(
            "this run compares versions in turns: it has figures of several sides, which do not fit into a history",
            file=str(run.path),
        )
    for other in others:
        if differs := differences(first.fingerprint, other.fingerprint):
            raise ConfigError(
                f"this run was on machines that differ ({'; '.join(differs)}): a history takes runs on one machine",
                file=str(run.path),
            )
    return first


def watch(history: History, test: str, metric: str, smallest: float = SMALLEST) -> list[Watched]:
    """The changes in the series of a metric ("": any) with ``test`` in their names, or why one cannot be checked.

    Raises:
        ConfigError: there is no such series.
    """
    everything = series_of(history.entries)
    chosen = [series for series in everything if series.is_about(test, metric)]
    if not chosen:
        names = sorted({f"{series.name}: {series.metric}" for series in everything})
        shown = "; ".join(names[:_MOST_SHOWN]) + (" ..." if len(names) > _MOST_SHOWN else "")
        asked = " and ".join(filter(None, [test and f"--test {test!r}", metric and f"--metric {metric}"]))
        raise ConfigError(f"no series has {asked}. There are {shown}")
    disturbed = {
        number: disturbed_runs([series for series in everything if series.machine == number and min(series.values) > 0])
        for number in {series.machine for series in everything}
    }
    reasons = [why_not(series) for series in chosen]
    checked = [series for series, reason in zip(chosen, reasons, strict=True) if not reason]
    found_steps = iter(steps_among(checked, smallest, disturbed))
    watched = []
    for series, reason in zip(chosen, reasons, strict=True):
        if reason:
            watched.append(Watched(series, why_not=reason))
            continue
        of_series = changes(series, next(found_steps), metric_of(series.metric).better, history.acknowledged, smallest)
        left_out = (index for index, point in enumerate(series.points) if point.run.run in disturbed[series.machine])
        watched.append(Watched(series, of_series, disturbed=frozenset(left_out)))
    return watched


# The command.


def _add_parser(commands: Commands) -> None:
    text = "figures of many runs: keep them, show them, find changes"
    subcommands = commands.add_parser("history", help=text, description=text).add_subparsers(
        required=True, metavar="COMMAND"
    )
    adding = _add_subcommand(subcommands, "add", _add, "keep the figures of a run; adding it again changes nothing")
    adding.add_argument("run", type=path_like, metavar="RUN", help="results directory")
    showing = _add_subcommand(
        subcommands, "show", _show, "a table, and a page: a line for each cause of a change, a chart for each series"
    )
    showing.add_argument(
        "--output", type=path_like, default=Path("reports/history.html"), metavar="FILE", help="default: %(default)s"
    )
    showing.add_argument(
        "--version-url",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help="link the versions that the page shows: https://HOST/commit/{version}; NAME: ovs, commit, dpdk, kernel, "
        "nfvperf (default: the commit of OVS, else its version)",
    )
    checking = _add_subcommand(subcommands, "check", _check, "fails where a figure changed for the worse")
    for parser in (showing, checking):
        parser.add_argument("--test", default="", metavar="SUBSTRING", help="series with this in their name")
        parser.add_argument("--metric", default="", metavar="M", help="series of this metric")
        parser.add_argument(
            "--smallest",
            type=share_like("0.03 or 3%"),
            default=_SMALLEST,
            metavar="SHARE",
            help="least change (default: %(default)s)",
        )
    acknowledging = _add_subcommand(
        subcommands, "acknowledge", _acknowledge, "note why a figure changed; `check` passes then"
    )
    acknowledging.add_argument(
        "--test", required=True, metavar="SUBSTRING", help="of the name that `show` and `check` print"
    )
    acknowledging.add_argument("--metric", required=True, metavar="M")
    acknowledging.add_argument("--at", required=True, metavar="RUN", help="id of the first run after the change")
    acknowledging.add_argument("--reason", required=True, metavar="TEXT", help="for whoever asks later")


HISTORY = Command(_add_parser, usage_status=_USAGE)


def _add_subcommand(
    subcommands: Commands, name: str, command: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser = subcommands.add_parser(name, help=text, description=text.replace("%", "%%"))
    parser.add_argument(
        "--history",
        type=path_like,
        default=Path("history"),
        metavar="DIR",
        help="the history's directory (default: %(default)s)",
    )
    # 1 means that a figure got worse, so a mistake has another status.
    parser.set_defaults(command=command, mistake_status=_USAGE)
    return parser


def _add(arguments: argparse.Namespace) -> int:
    run = read_run(arguments.run.resolve())
    entry = entry_of(run)
    path, new = add_entry(arguments.history, entry)
    figures = how_many(sum(len(one.figures) for one in entry.measured), "figure")
    contents = f"{figures} of {how_many(len(entry.measured), 'subject')}"
    print(f"{'added' if new else 'there already'}: {path}: {contents}")
    if entry.result not in {RunResult.ACCEPTED, RunResult.PASSED}:
        print(f"This run was {entry.result}: the history has what it measured, and says so.")
    for problem in run.problems:
        print(problem)
    return _NOTHING_NEW


def _show(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.features.history import page  # noqa: PLC0415 - it draws charts, and takes long to load

    urls = page.version_urls(arguments.version_url)
    history, watched = _watched(arguments)
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    print(page.history_text(watched, width=width, color=terminal))
    causes = triage(history.entries, watched)
    for cause in causes:
        _print_folded(page.cause_line(cause))
    for machine in machines(history.entries):
        print(page.machine_line(machine))
    links = page.HistoryLinks(urls, {})
    written = page.render_history(history.entries, watched, causes, history.problems, arguments.output, links)
    print(f"written: {written}")
    return _DAMAGED if history.problems else _NOTHING_NEW


def _check(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.features.history.page import cause_lines  # noqa: PLC0415 - as above

    history, watched = _watched(arguments)
    for cause in triage(history.entries, watched):
        head, *moved = cause_lines(cause)
        _print_folded(head)
        for line in moved:
            _print_folded(line, "  ")
    counted = sum(change.counts for each in watched for change in each.changes)
    if counted:
        _print_folded(
            f"{how_many(counted, 'change')} for the worse that nobody acknowledged (exit status {_WORSE}). "
            "Fix it, or `nfvperf history acknowledge` it with a reason"
        )
        return _WORSE
    short = [each for each in watched if each.why_not]
    newest = in_order(history.entries)[-1]
    if history.problems:
        _print_folded(f"nothing new in what could be read (exit status {_DAMAGED})")
        return _DAMAGED
    if all(each.why_not for each in watched if each.series.points[-1].run is newest):
        _print_folded(
            f"too few runs to tell: a series needs {LEAST_RUNS} on equal machines, and those of the newest run have "
            f"fewer (exit status {_TOO_FEW})"
        )
        return _TOO_FEW
    left = f"; {len(short)} could not be checked, `nfvperf history show` says why" if short else ""
    runs = how_many(len(history.entries), "run")
    _print_folded(f"nothing new in {len(watched)} series of {runs}{left} (exit status {_NOTHING_NEW})")
    return _NOTHING_NEW


def _print_folded(line: str, indent: str = "") -> None:
    """Fold it between words on a terminal; a file or a pipe has it as one line."""
    width = shutil.get_terminal_size().columns - len(indent) if sys.stdout.isatty() else None
    for part in folded(line, width):
        print(f"{indent}{part}")


def _acknowledge(options: argparse.Namespace) -> int:
    history = _read(options.history)
    runs = [entry.run for entry in history.entries]
    if options.at not in runs:
        raise ConfigError(f"no run {options.at!r} in {options.history}{did_you_mean(options.at, runs)}", key="--at")
    if not options.reason.strip():
        raise ConfigError("say why the figure changed, for whoever asks later", key="--reason")
    acknowledged = Acknowledgement(options.test, options.metric, options.at, options.reason)
    watch(history, options.test, options.metric)  # a name that matches no series is a mistake
    print(f"written: {add_acknowledgement(options.history, acknowledged)}")
    covered = [
        (each.series, change)
        for each in watch(read_history(options.history), options.test, options.metric)
        for change in each.changes
        if change.acknowledged == acknowledged
    ]
    for series, change in covered:
        print(f"acknowledged: {series.name}, {series.what}: {change.step.ratio - 1:+.1%} at {change.run}")
    if not covered:
        print("No change has been found there yet.")
    return _NOTHING_NEW


def _watched(arguments: argparse.Namespace) -> tuple[History, list[Watched]]:
    history = _read(arguments.history)
    return history, watch(history, arguments.test, arguments.metric, arguments.smallest)


def _read(directory: Path) -> History:
    history = read_history(directory)
    for problem in history.problems:
        print(f"nfvperf: left out: {problem}", file=sys.stderr)
    return history
