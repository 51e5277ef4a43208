"""nfvperf site: many runs as a folder of pages that a CI can publish, with relative links only.

``index.html`` lists the runs, ``history.html`` says what changed, ``runs/ID/report.html`` is a run, and
``comparisons/ID..ID.html`` compares two.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.evidence.comparison import compared_runs
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.config.units import read_margin
from pytest_nfvperf.features.history.command import entry_of, entry_without_figures, watch
from pytest_nfvperf.features.history.files import RUN_NAME, History, read_history, write_file
from pytest_nfvperf.features.history.series import COMMIT, HistoryEntry, machines
from pytest_nfvperf.features.history.triage import TriageLine, triage
from pytest_nfvperf.model.display import did_you_mean, how_many
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.conclusion import RunResult

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands
    from pytest_nfvperf.features.history.page import HistoryLinks

_MARK = '<meta name="generator" content="nfvperf site">'
_MOST_CAUSES = 5
"""Causes on the first page, the newest ones; the history has all."""


@dataclass(slots=True)
class SiteRun:
    """A line of the first page.

    Attributes:
        entry: the run, perhaps without its figures.
        directory: its results; None if only the history has it.
        headline: its result in a sentence; tests: how many ended how.
        not_in_history: why the history has no figures of it; "" if it does.
        compared: (address, (word, style) of each outcome, or why not) with the run before it.
    """

    entry: HistoryEntry
    directory: Path | None = None
    headline: str = ""
    tests: str = ""
    not_in_history: str = ""
    compared: tuple[str, list[tuple[str, str]]] = ("", [])


@dataclass(slots=True)
class Site:
    """What is made. ``problems``: a sentence for each thing that was left out."""

    out: Path
    runs: list[SiteRun] = field(default_factory=list)
    entries: dict[str, HistoryEntry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    comparisons: list[tuple[str, str]] = field(default_factory=list)


def _add_parser(commands: Commands) -> None:
    text = "many runs as a folder of pages to publish: index, reports, history, comparisons"
    parser = commands.add_parser("site", help=text, description=text)
    parser.add_argument("runs", type=path_like, metavar="DIR", help="with results directories in it, at any depth")
    parser.add_argument(
        "-o",
        "--output",
        type=path_like,
        default=Path("site"),
        metavar="OUT",
        help="its directory (default: %(default)s)",
    )
    parser.add_argument(
        "--history", type=path_like, metavar="DIR", help="also the runs of this history, and who knows why"
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        action="append",
        default=[],
        metavar=("RUN", "RUN"),
        help="compare these two runs, by their ids; by default each run with the one before it",
    )
    parser.add_argument("--margin", metavar="SHARE", help="of comparisons, for 'same' (default: '2 %%')")
    parser.add_argument(
        "--version-url", action="append", default=[], metavar="[NAME=]URL", help="as of `nfvperf history show`"
    )
    parser.add_argument(
        "--serve",
        type=_port_like,
        nargs="?",
        const=0,
        metavar="PORT",
        help="then serve it on 127.0.0.1 until Ctrl-C (default: a port that is free)",
    )
    parser.set_defaults(command=_site, mistake_status=RunResult.USAGE.exit_status)


def _port_like(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 1 to 65535; DIR goes before --serve")
    return int(text)


SITE = Command(_add_parser, usage_status=RunResult.USAGE.exit_status)


def _site(arguments: argparse.Namespace) -> int:
    """Make the site, and serve it if asked. A port that is taken is found before the site is made."""
    if arguments.serve is None:
        return _make(arguments)
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer  # noqa: PLC0415

    address = ("127.0.0.1", arguments.serve)  # no other: the pages are for nobody else
    try:
        server = ThreadingHTTPServer(address, partial(SimpleHTTPRequestHandler, directory=arguments.output))
    except OSError as error:
        why = f"cannot serve at port {arguments.serve}: {error.strerror}. Name another, or none for one that is free"
        raise ConfigError(why, key="--serve") from error
    with server:
        status = _make(arguments)
        print(f"serving http://127.0.0.1:{server.server_port}/ until Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return status


def _make(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.features.history import page  # noqa: PLC0415 - it takes long to load

    urls, margin = page.version_urls(arguments.version_url), read_margin(arguments.margin)
    site = Site(arguments.output)
    index = site.out / "index.html"
    if index.exists() and _MARK not in index.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError("this page is not of nfvperf: name another folder", file=str(index), key="--output")
    history = None if arguments.history is None else read_history(arguments.history)
    _take_runs(site, arguments.runs, history)
    known = [run for run in site.runs if run.directory is not None]
    here = [run.entry.run for run in known]
    for run_id in (run_id for pair in arguments.compare for run_id in pair):
        if run_id not in here:
            raise ConfigError(f"no results of a run {run_id!r} there{did_you_mean(run_id, here)}", key="--compare")
    runs = [[run.run for run in machine.runs if run.run in here] for machine in machines([*site.entries.values()])]
    neighbours = [pair for of_machine in runs for pair in pairwise(of_machine)]
    _compare(site, arguments.compare or neighbours, margin, neighbours=not arguments.compare)
    links = page.HistoryLinks(urls, {run.entry.run: _report_of(run.entry) for run in known}, up="index.html")
    causes = _write_history(site, history, links)
    _write_index(site, causes, links)
    for problem in site.problems:
        print(f"nfvperf: left out: {problem}", file=sys.stderr)
    contents = f"{how_many(len(site.runs), 'run')}, {how_many(len(site.comparisons), 'comparison')}"
    print(f"written: {site.out / 'index.html'}: {contents}, {how_many(len(causes), 'change')}")
    return RunResult.BROKEN.exit_status if site.problems else 0


# The runs.


def _results_directories(root: Path, out: Path) -> Iterator[Path]:
    if not root.is_dir():
        raise ConfigError("no such directory: name one with results directories in it", file=str(root))
    for folder, names, files in os.walk(root):
        path = Path(folder)
        if any(name.startswith("evidence") and name.endswith(".jsonl") for name in files):
            names.clear()
            yield path
            continue
        # "latest" is a link, which os.walk does not follow.
        names[:] = sorted(
            name for name in names if not name.startswith(".") and (path / name).resolve() != out.resolve()
        )


def _take_runs(site: Site, root: Path, history: History | None) -> None:
    """Write the report of each run, and collect the lines of the first page, the oldest first."""
    if history is not None:
        site.entries |= {entry.run: entry for entry in history.entries}
        site.problems += history.problems
    for directory in _results_directories(root, site.out):
        try:
            run = read_run(directory.resolve())
            if not RUN_NAME.fullmatch(run.run_id):
                raise ConfigError(f"run id {run.run_id!r} is no name of a file", file=str(directory))
            if any(other.entry.run == run.run_id for other in site.runs):
                raise ConfigError(f"run {run.run_id} is there twice", file=str(directory))
        except ConfigError as error:
            site.problems.append(str(error))
            continue
        site.runs.append(_add_run(site, run, directory))
        _write_report(site, run, directory)
    measured = {run.entry.run for run in site.runs}
    site.runs += [SiteRun(entry) for entry in site.entries.values() if entry.run not in measured]
    if not site.runs:
        why = f"; {'; '.join(site.problems)}" if site.problems else ""
        raise ConfigError(f"no results directory of a run here{why}", file=str(root))
    site.runs.sort(key=lambda run: (run.entry.started_ns, run.entry.run))


def _add_run(site: Site, run: RunEvidence, directory: Path) -> SiteRun:
    conclusion, why_not = conclude(run), ""
    if run.run_id not in site.entries:
        try:
            site.entries[run.run_id] = entry_of(run)
        except ConfigError as error:
            why_not = error.message
    counts = Counter(test.badge for test in conclusion.tests)
    return SiteRun(
        entry_without_figures(run, run.run),
        directory,
        headline=conclusion.headline,
        tests=", ".join(f"{count} {badge}" for badge, count in counts.most_common()),
        not_in_history=why_not,
    )


def _report_of(run: HistoryEntry) -> str:
    return f"runs/{run.run}/report.html"


def _write_report(site: Site, run: RunEvidence, directory: Path) -> None:
    """Write the report, unless there is one already that is newer than the evidence and this nfvperf."""
    from pytest_nfvperf.adapters.report.page_parts import TEMPLATES  # noqa: PLC0415 - it takes long to load
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415

    folder = site.out / "runs" / run.run_id
    report = folder / "report.html"
    sources = [*directory.glob("evidence*.jsonl"), *TEMPLATES.iterdir()]
    if not report.exists() or report.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        write_report(run, folder, site="../../")
    for attachment in (each for test in run.tests.values() for each in test.attachments.values()):
        source = directory / (attachment.path or "")
        if attachment.path and source.is_file() and source.resolve().is_relative_to(directory.resolve()):
            target = folder / attachment.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


# The comparisons.


def _compare(site: Site, pairs: Sequence[Sequence[str]], margin: float, *, neighbours: bool) -> None:
    """Write a page for each pair. Runs that cannot be compared are no problem of the site, unless somebody asked."""
    from pytest_nfvperf.adapters.report.comparison import (  # noqa: PLC0415 - it takes long to load
        WORD_CLASSES,
        comparison_page,
    )
    from pytest_nfvperf.adapters.report.page_parts import PageCharts, environment  # noqa: PLC0415

    by_id = {run.entry.run: run for run in site.runs}
    read: Callable[[Path], RunEvidence] = lru_cache(maxsize=2)(lambda path: read_run(path.resolve()))
    for first, second in pairs:
        earlier, later = (by_id[run_id].directory for run_id in (first, second))
        assert earlier is not None
        assert later is not None
        try:
            compared = compared_runs(read(earlier), read(later), margin)
        except ConfigError as error:
            if neighbours:
                by_id[second].compared = ("", [(error.message, "")])
            else:
                site.problems.append(f"comparison of {first} and {second}: {error.message}")
            continue
        address = f"comparisons/{first}..{second}.html"
        charts = PageCharts()
        shown = comparison_page(compared, charts, "ratio of the later run to the earlier")
        context = {"comparison": shown, "runs": (first, second), "charts": charts, "site": "../"}
        write_file(site.out / address, environment().get_template("site_comparison.html").render(context))
        site.comparisons.append((address, f"{first} and {second}"))
        counts = [(f"{count} {word}", WORD_CLASSES[word]) for word, count in compared.counts.items()]
        if neighbours:
            by_id[second].compared = (address, counts)


# The pages of all runs.


def _write_history(site: Site, history: History | None, links: HistoryLinks) -> list[TriageLine]:
    from pytest_nfvperf.features.history.page import render_history  # noqa: PLC0415

    entries = tuple(site.entries.values())
    if not entries:
        return []
    watched = watch(History(entries, () if history is None else history.acknowledged, ()), "", "")
    causes = triage(entries, watched)
    render_history(entries, watched, causes, [], site.out / "history.html", links)
    return causes


def _write_index(site: Site, causes: Sequence[TriageLine], links: HistoryLinks) -> None:
    from markupsafe import Markup  # noqa: PLC0415

    from pytest_nfvperf.adapters.report.html import HEAD_STYLES  # noqa: PLC0415
    from pytest_nfvperf.adapters.report.page_parts import (  # noqa: PLC0415
        environment,
        unpacked_library,
    )
    from pytest_nfvperf.features.history.page import cause_line  # noqa: PLC0415

    styles: dict[str, str] = {str(result): word for result, word in HEAD_STYLES.items()}
    rows: list[dict[str, Any]] = [
        {
            "run": run,
            "style": styles.get(run.entry.result, "broken"),
            "report": _report_of(run.entry) if run.directory is not None else "",
            "versions": [
                (name, value, links.version(name, value, has_commit=COMMIT in run.entry.versions))
                for name, value in run.entry.versions.items()
            ],
        }
        for run in reversed(site.runs)
    ]
    context = {
        "mark": Markup(_MARK),  # noqa: S704 - our own text
        "rows": rows,
        "results": Counter(run.entry.result for run in site.runs).most_common(),
        "styles": styles,
        "causes": [(cause.state, cause_line(cause)) for cause in causes[:_MOST_CAUSES]],
        "more": max(0, len(causes) - _MOST_CAUSES),
        "history": bool(site.entries),
        "comparisons": [] if any(run.compared[0] for run in site.runs) else site.comparisons,
        "problems": site.problems,
    }
    write_file(site.out / "vega.js", unpacked_library())
    write_file(site.out / "index.html", environment().get_template("site.html").render(context))
