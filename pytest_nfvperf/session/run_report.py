"""A run's report, with the figures that others published.

Published figures are in the ``published.yaml`` of a suite, an SLA file with names and sources. A testbed of the
authors' class judges by it (``--nfv-sla suites/throughput/published.yaml``). The report of every other testbed shows
the published figures in its charts, and the relations in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.published_figures import PublishedRelation, PublishedSeries
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.judge import judge, requirement_text
from pytest_nfvperf.model.sla.rules import Limit, Rule, Sla
from pytest_nfvperf.session.slas import PUBLISHED_FILE, MeasuredSubjects

_UNITS = ("pps", "bps")


def write_report(
    run: RunEvidence, folder: Path, root: Path | None = None, *, pictures: bool = False, site: str = ""
) -> Path:
    """Write ``report.html`` into a folder; returns its path.

    ``root``: see ``published_figures``. The others: see ``render_report``.
    """
    published = published_figures(run, root)
    series, relations = published_series(published), published_relations(published, run)
    return render_report(run, folder, series, relations=relations, pictures=pictures, site=site)


def published_figures(run: RunEvidence, root: Path | None = None) -> tuple[Sla, ...]:
    """The published.yaml beside each suite that the run measured.

    ``root``: the folder that node ids are relative to; by default the current directory.
    """
    files = [(root or Path()) / node_id.split("::")[0] for node_id in run.tests if node_id]
    candidates = (folder / PUBLISHED_FILE for folder in dict.fromkeys(file.parent for file in files))
    return tuple(load_sla(path) for path in candidates if path.is_file())


def published_relations(published: Iterable[Sla], run: RunEvidence) -> tuple[PublishedRelation, ...]:
    """The relations of these files, with the run's figures for them.

    A relation is listed, without figures, also where the run selected its tests and measured nothing for it.
    """
    outcomes = [outcome for test in run.tests.values() for outcome in test.outcomes.values()]
    measured = MeasuredSubjects()
    for outcome in outcomes:
        measured.add(outcome.label, outcome.figures)
    selected = [dict(test.data.labels) for test in run.tests.values() if test.node_id]
    rules = [rule for sla in published for rule in sla.rules if _relations(rule)]
    return tuple(found for rule in rules for found in _found(rule, outcomes, selected, measured))


def _relations(rule: Rule) -> tuple[tuple[str, Limit], ...]:
    return tuple((metric, limit) for metric, limit in rule.require if limit.relative_to)


def _found(
    rule: Rule, outcomes: Iterable[Outcome], selected: Iterable[dict[str, str]], measured: MeasuredSubjects
) -> Iterator[PublishedRelation]:
    """One entry for each relation of a rule and each subject that it selects."""
    relations = replace(rule, require=_relations(rule))
    suite = dict(rule.where).get("suite", ("",))[0]
    entries = [
        PublishedRelation(suite, rule.name, rule.reference, requirement_text(metric, limit))
        for metric, limit in relations.require
    ]
    subjects = [outcome for outcome in outcomes if rule.matches(outcome.label)]
    for outcome in subjects:
        verdicts = judge([relations], outcome.label, outcome.figures, measured.peers)
        for entry, verdict in zip(entries, verdicts, strict=True):
            yield replace(entry, labels=outcome.labels, seen=verdict.reason, judgement=verdict.judgement)
    if not subjects and any(_selects_by_known_labels(rule, labels) for labels in selected):
        yield from entries


def _selects_by_known_labels(rule: Rule, labels: dict[str, str]) -> bool:
    known = tuple((name, accepted) for name, accepted in rule.where if name in labels)
    names = {name for name, _ in known}
    return {"suite", "test"} <= names and replace(rule, where=known).matches(labels)


def published_series(published: Iterable[Sla]) -> tuple[PublishedSeries, ...]:
    """Rules of one file, name and metric, each with its frame sizes, are the points of one series."""
    series: dict[tuple[int, str, str, str, str], list[tuple[Rule, float]]] = {}
    for number, sla in enumerate(published):
        for rule in sla.rules:
            for metric, limit in rule.require:
                if rule.name and limit.unit in _UNITS and not limit.is_share:
                    key = (number, rule.name, rule.reference, metric, limit.unit)
                    series.setdefault(key, []).append((rule, limit.value))
    return tuple(
        _series(name, source, metric, unit, points) for (_, name, source, metric, unit), points in series.items()
    )


def _series(name: str, source: str, metric: str, unit: str, rules: Sequence[tuple[Rule, float]]) -> PublishedSeries:
    points = {
        int(size): value for rule, value in rules for size in dict(rule.where).get("frame_size", ()) if size.isdigit()
    }
    where = tuple((label, values[0]) for label, values in rules[0][0].where if label != "frame_size")
    return PublishedSeries(name, source, metric, tuple(sorted(points.items())), unit, where)
