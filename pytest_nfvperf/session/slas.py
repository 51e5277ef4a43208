"""The SLA files of one run, from the command line and beside the suites. Each is read once.

SLA packs by name: ``--nfv-sla published:S1`` judges by what S1 published. The figures are in the ``published.yaml``
beside each suite; a rule belongs to the scenarios in its name or its source, such as "(S1)". ``published`` alone means
all of them. ``--nfv-baseline`` names a run whose figures are the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest_nfvperf
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.sla.rules import Rule, Sla
from pytest_nfvperf.model.sla.verdict import Baseline, Subject, subject_of
from pytest_nfvperf.session.options import PACK, Options
from pytest_nfvperf.session.sla_check import renewed

PUBLISHED_FILE = "published.yaml"
SUITE_SLA = "sla.yaml"
HISTORY_SUFFIX = ".json"
"""Of a history's files; files of evidence are lines of JSON and end in .jsonl."""
BASELINE_FILES = Point[Callable[[Path, Mapping[str, Any]], Baseline]]("baseline")
"""Readers of baselines that are no run's evidence, by suffix; they take the arguments of ``load_baseline``."""
_PACKAGE = Path(pytest_nfvperf.__file__).parent
_SCENARIO = re.compile(r"\bS\d+\b")


def pack_rules(pack: str, published: Iterable[Sla]) -> tuple[Rule, ...]:
    """The rules of a pack such as "published" or "published:S1". ``published``: the suites' files."""
    scenario = pack.partition(":")[2]
    return tuple(rule for sla in published for rule in sla.rules if not scenario or scenario in scenarios(rule))


def scenarios(rule: Rule) -> set[str]:
    """The published evaluations that a rule is from, such as "S1"."""
    return set(_SCENARIO.findall(f"{rule.name} {rule.reference}"))


def refuse_empty(pack: str, published: Iterable[Sla]) -> None:
    """Raise ConfigError for a pack without a rule, naming those that exist."""
    slas = tuple(published)
    if pack_rules(pack, slas):
        return
    known = sorted({scenario for sla in slas for rule in sla.rules for scenario in scenarios(rule)})
    there = f"there are {listed([PACK, *(f'{PACK}:{name}' for name in known)])}" if known else "there is none"
    raise ConfigError(f"the suites of this run have no figures by the name {pack!r}: {there}", key="--nfv-sla")


class Slas:
    """Reads SLA files, and selects the rules of a test.

    ``options`` names the files and packs that replace the ``sla.yaml`` beside each suite.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._by_path: dict[Path, Sla] = {}

    @cached_property
    def from_command_line(self) -> tuple[Sla, ...]:
        """SLA files of the command line; ConfigError for one that cannot be read."""
        return tuple(self._load(path) for path in self._options.slas)

    def rules_for(self, test_file: Path) -> tuple[Rule, ...]:
        """Rules for a test: those of the command line's files and packs, else those of its folder's sla.yaml."""
        if self._options.slas or self._options.packs:
            published = self.published([test_file.parent])
            packs = (rule for pack in self._options.packs for rule in pack_rules(pack, published))
            return (*(rule for sla in self.from_command_line for rule in sla.rules), *packs)
        sla = self.of_folder(test_file.parent)
        return sla.rules if sla else ()

    def published(self, folders: Iterable[Path]) -> list[Sla]:
        """The published.yaml of those folders that have one; ConfigError for one that cannot be read."""
        return [sla for folder in folders if (sla := self.of_folder(folder, PUBLISHED_FILE)) is not None]

    def of_folder(self, folder: Path, name: str = SUITE_SLA) -> Sla | None:
        """The folder's sla.yaml, or another file of it; None without one, ConfigError if it cannot be read."""
        path = folder / name
        if path not in self._by_path and path.is_file():
            self._by_path[path] = self._load(path)
        return self._by_path.get(path)

    def _load(self, path: Path) -> Sla:
        return load_sla(path, shown_place(str(path), self._options.root))


def shown_place(place: str, root: Path) -> str:
    """A file, or a place in one ("/root/x/suites/cost/sla.yaml:6: rules[0]"), relative to ``root``, pytest's rootdir.

    A suite of the package gives "pytest_nfvperf/suites/cost/sla.yaml:6: rules[0]". Other paths stay as they are.
    """
    if place.startswith(f"{_PACKAGE}/suites/"):
        return place.removeprefix(f"{_PACKAGE.parent}/")
    return place.removeprefix(f"{root}/")


def load_baseline(path: Path, fingerprint: Mapping[str, Any]) -> Baseline:
    """The figures of an earlier run, to judge by.

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
    differing = () if run.run is None else differences(run.run.fingerprint, fingerprint)
    return Baseline(f"the baseline {path.name}", start_text(run), figures_by_subject(run), differing)


def start_text(run: RunEvidence) -> str:
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def figures_by_subject(run: RunEvidence) -> dict[Subject, list[Figure]]:
    """All figures of a run by subject. If a test ran more than once, the last figures count."""
    found: dict[Subject, list[Figure]] = {}
    for outcome in run.outcomes.values():
        subject = subject_of(outcome.label)
        found[subject] = renewed(found.get(subject, ()), outcome.figures)
    return found
