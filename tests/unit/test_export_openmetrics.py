"""``nfvperf export --format openmetrics``: text that prometheus_client parses, with its page's metrics."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.export.export import LABELS, METRICS, NO_CLIENT, export_openmetrics
from tests.sample_run import small_run, write_sample

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_sample(folder, small_run())
    return folder


def parsed(file: Path) -> dict[str, list[Any]]:
    return {family.name: list(family.samples) for family in text_string_to_metric_families(file.read_text())}


def test_figures_verdicts_and_counts_are_those_of_the_run(sample, tmp_path, capsys):
    assert main(["export", str(sample), "--format", "openmetrics", "--output", str(tmp_path)]) == 0

    file = Path(capsys.readouterr().out.strip())
    assert file == tmp_path / "metrics.openmetrics"
    found, run = parsed(file), read_run(sample)
    assert list(found) == [metric.name for metric in METRICS]
    outcome = next(iter(run.outcomes.values()))
    ndr = [
        each
        for each in found["nfvperf_figure"]
        if (each.labels["metric"], each.labels["unit"], each.labels["frame_size"])
        == ("ndr", "pps", outcome.label["frame_size"])
    ]
    assert [each.value for each in ndr] == [outcome.goal("ndr").reported_fps]
    assert float(ndr[0].timestamp) == pytest.approx(run.ended_ns / 1e9)
    met = sorted(each.value for each in found["nfvperf_requirement_met"])
    assert met == sorted(float(verdict.judgement.value == "PASS") for verdict in run.verdicts.values())
    assert 0.0 in met
    invalid = sum(not trial.result.valid for trial in run.trials.values())
    trials = {each.labels["valid"]: each.value for each in found["nfvperf_run_trials"]}
    assert trials == {"true": len(run.trials) - invalid, "false": invalid}
    assert [each.value for each in found["nfvperf_run_exit_status"]] == [11.0]


def test_two_runs_are_one_series_oldest_first(sample, tmp_path):
    older = read_run(sample)
    later = {file: (first, last + 10**12) for file, (first, last) in older.spans_ns.items()}
    newer: RunEvidence = replace(older, spans_ns=later)

    found = parsed(export_openmetrics([newer, older], tmp_path))

    times = [float(each.timestamp) for each in found["nfvperf_run_exit_status"]]
    assert times == [older.ended_ns / 1e9, newer.ended_ns / 1e9]


def test_without_prometheus_client_says_what_to_install(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    assert main(["export", str(sample), "--format", "openmetrics", "--output", str(tmp_path)]) != 0
    assert NO_CLIENT in capsys.readouterr().err


def test_the_page_lists_every_metric_with_its_labels():
    page = (ROOT / "docs/reference/export.md").read_text()
    listed = re.findall(r"^\| `(nfvperf_\w+)` \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    subject = ("testbed", "test", *LABELS)
    made = [
        (
            metric.name,
            ", ".join(
                ["subject"] * (metric.labels[:2] == subject[:2])
                + [f"`{name}`" for name in metric.labels if metric.labels[:2] != subject[:2] or name not in subject]
            ),
            metric.meaning.replace("|", "\\|"),
        )
        for metric in METRICS
    ]
    assert listed == made
    assert all(f"`{name}`" in page for name in subject)
