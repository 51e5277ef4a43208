"""A run on its way into a history, and what a history says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude
from pytest_nfvperf.adapters.history.change_points import steps
from pytest_nfvperf.adapters.history.files import History, read_entry
from pytest_nfvperf.config.vocabulary import METRICS
from pytest_nfvperf.model.compare.decision import HIGHER, LOWER
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.evidence.records import RunData
from pytest_nfvperf.model.history.series import (
    SMALLEST,
    FigureSeries,
    HistoryEntry,
    Watched,
    changes,
    measured,
    series_of,
    why_not,
)
from pytest_nfvperf.model.sla.verdict import Baseline
from pytest_nfvperf.session.baseline import figures_of, when_of

_VERSIONS = ("ovs", "dpdk", "kernel", "nfvperf")
_MOST_SHOWN = 12
_FIRST_RELEASE = datetime(2025, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER = timedelta(days=1)
"""Of two machines whose clocks are set: time zones that were mistaken for one another, at most."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which series are looked at, and the smallest share that counts as a change.

    ``test``: part of their names; ``metric``: empty for all.
    """

    test: str = ""
    metric: str = ""
    smallest: float = SMALLEST


def entry_of(run: RunEvidence) -> HistoryEntry:
    """What a history keeps of a run.

    Raises:
        ConfigError: a run without figures, of versions in turns, on machines that differ, or whose clock was not set.
    """
    data = _machine(run)
    found = measured(figures_of(run))
    if data is None or not found:
        raise ConfigError(
            f"nothing was measured in this run, so a history has no use for it. {conclude(run).headline}",
            file=str(run.path),
        )
    _check_clock(run)
    return HistoryEntry(
        run=run.run_id,
        when=when_of(run),
        started_ns=run.started_ns,
        result=str(conclude(run).fate),
        testbed=data.testbed.name,
        versions={name: str(data.fingerprint[name]) for name in _VERSIONS if data.fingerprint.get(name)},
        measured=found,
        fingerprint=data.fingerprint,
    )


def baseline_of(path: Path, fingerprint: Mapping[str, Any]) -> Baseline:
    """The figures of a file of a history, for a run with this fingerprint; ConfigError where it cannot be read."""
    entry = read_entry(path)
    return Baseline(
        f"the baseline {path.name}", entry.when, entry.observed(), differences(entry.fingerprint, fingerprint)
    )


def _check_clock(run: RunEvidence) -> None:
    """A history is in the order of its runs' time: one at a wrong place would make changes out of nothing."""
    began = datetime.fromtimestamp(run.started_ns / 1e9, UTC)
    if _FIRST_RELEASE <= began <= datetime.now(UTC) + _CLOCKS_DIFFER:
        return
    when = "before there was an nfvperf" if began < _FIRST_RELEASE else "in the future"
    raise ConfigError(
        f"this run began {when_of(run)} by the clock of its machine, {when}: the clock was not set. A history is in "
        "the order of time and cannot take it. Set the clock (timedatectl), and measure again",
        file=str(run.path),
    )


def _machine(run: RunEvidence) -> RunData | None:
    """The record of the process that measured; the first where several did, on machines alike."""
    files = {test.file for test in run.tests.values() if test.measured or test.outcomes}
    found = [data for file, data in run.runs.items() if file in files]
    if not found:
        return None
    first, *others = found
    if first.compare is not None:
        raise ConfigError(
            "this run compares versions in turns: its figures are of several sides, and no point of a history",
            file=str(run.path),
        )
    for other in others:
        if differs := differences(first.fingerprint, other.fingerprint):
            raise ConfigError(
                f"this run was on machines that differ ({'; '.join(differs)}): a history takes runs on one machine",
                file=str(run.path),
            )
    return first


def better_of(metric: str) -> str | None:
    """HIGHER or LOWER, as the SLA language limits it; None for a metric of somebody's own."""
    known = METRICS.get(metric)
    return None if known is None else HIGHER if known.example.startswith(">") else LOWER


def watch(history: History, wanted: Wanted) -> list[Watched]:
    """The changes in the series that are asked for, or why nothing can be said of one.

    Raises:
        ConfigError: no series is asked for.
    """
    found = []
    for each in _wanted_series(history, wanted):
        reason = why_not(each)
        seen = [] if reason else steps(each, wanted.smallest)
        told = changes(each, seen, better_of(each.metric), history.acknowledged, wanted.smallest)
        found.append(Watched(each, told, reason))
    return found


def _wanted_series(history: History, wanted: Wanted) -> list[FigureSeries]:
    everything = series_of(history.entries)
    found = [series for series in everything if series.is_about(wanted.test, wanted.metric)]
    if not found:
        names = sorted({f"{series.name}: {series.metric}" for series in everything})
        shown = "; ".join(names[:_MOST_SHOWN]) + (" ..." if len(names) > _MOST_SHOWN else "")
        asked = " and ".join(
            filter(None, [wanted.test and f"--test {wanted.test!r}", wanted.metric and f"--metric {wanted.metric}"])
        )
        raise ConfigError(f"no series has {asked}. There are {shown}")
    return found
