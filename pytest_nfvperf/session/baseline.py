"""Reads the run that ``--nfv-baseline`` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.measure.observe import observations
from pytest_nfvperf.model.sla.verdict import Baseline, Observation, Subject, subject_of

HISTORY_SUFFIX = ".json"
"""Of the files of a history; those of evidence are lines of JSON and end in .jsonl."""

BASELINE_FILES = Point[Callable[[Path, Mapping[str, Any]], Baseline]]("baseline")
"""What reads a baseline that is no run's evidence, by the suffix; the arguments are those of ``load_baseline``."""


def load_baseline(path: Path, fingerprint: Mapping[str, Any]) -> Baseline:
    """The figures of an earlier run.

    Args:
        path: its results directory, an evidence file, or its file in a history.
        fingerprint: of this run.

    Raises:
        ConfigError: there is no evidence, it cannot be read, or nothing was measured.
    """
    if path.suffix == HISTORY_SUFFIX and path.is_file():
        return BASELINE_FILES.part(HISTORY_SUFFIX)(path, fingerprint)
    run = read_run(path)
    if not run.outcomes:
        raise ConfigError(
            "nothing was measured in this run, so it is no baseline", file=str(path), key="--nfv-baseline"
        )
    return Baseline(f"the baseline {path.name}", when_of(run), figures_of(run), _differing(run, fingerprint))


def when_of(run: RunEvidence) -> str:
    """Day and minute of its start, UTC."""
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def figures_of(run: RunEvidence) -> dict[Subject, list[Observation]]:
    """All figures of a run by their subject. Where a test was run more than once, its last figures."""
    found: dict[Subject, list[Observation]] = {}
    for outcome in run.outcomes.values():
        seen = observations(outcome)
        kept = found.setdefault(subject_of(outcome.label), [])
        names = {(each.metric, each.unit, each.at) for each in seen}
        kept[:] = [each for each in kept if (each.metric, each.unit, each.at) not in names] + list(seen)
    return found


def _differing(run: RunEvidence, fingerprint: Mapping[str, Any]) -> tuple[str, ...]:
    return () if run.run is None else differences(run.run.fingerprint, fingerprint)
