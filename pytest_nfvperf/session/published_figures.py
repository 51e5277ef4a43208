"""Published figures beside a suite: ``published.yaml``, an SLA file with names and sources.

A testbed of the authors' class judges by it (``--nfv-sla suites/throughput/published.yaml``);
every other testbed sees its figures in the charts, beside its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.published_series import PublishedSeries
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.model.sla.rules import Rule, Sla
from pytest_nfvperf.session.packs import PUBLISHED_FILE

_UNITS = ("pps", "bps")


def published_for(run: RunEvidence, root: Path | None = None) -> tuple[PublishedSeries, ...]:
    """Series of the published.yaml beside each suite that the run measured.

    Args:
        run: its tests' node ids lead to the suites' folders.
        root: what node ids are relative to; the current directory by default.
    """
    files = [(root or Path()) / node_id.split("::")[0] for node_id in run.tests if node_id]
    folders = dict.fromkeys(file.parent for file in files)
    found = [folder / PUBLISHED_FILE for folder in folders if (folder / PUBLISHED_FILE).is_file()]
    return tuple(series for path in found for series in published_series(load_sla(path)))


def published_series(sla: Sla) -> tuple[PublishedSeries, ...]:
    """Rules of one name and metric, each with its frame sizes, are the points of one series."""
    series: dict[tuple[str, str, str, str], list[tuple[Rule, float]]] = {}
    for rule in sla.rules:
        for metric, limit in rule.require:
            if rule.name and limit.unit in _UNITS and not limit.is_share:
                series.setdefault((rule.name, rule.reference, metric, limit.unit), []).append((rule, limit.value))
    return tuple(_series(*key, points) for key, points in series.items())


def _series(name: str, source: str, metric: str, unit: str, rules: Sequence[tuple[Rule, float]]) -> PublishedSeries:
    points = {size: value for rule, value in rules for size in _frame_sizes(rule)}
    where = tuple((label, values[0]) for label, values in rules[0][0].where if label != "frame_size")
    return PublishedSeries(name, source, metric, tuple(sorted(points.items())), unit, where)


def _frame_sizes(rule: Rule) -> list[int]:
    return [int(value) for value in dict(rule.where).get("frame_size", ()) if value.isdigit()]
