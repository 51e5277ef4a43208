"""``nfvperf export``: flat tables, with the columns that docs/reference/export.md lists."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.export import COMMON, TABLES
from pytest_nfvperf.features.history import trends
from tests.sample_run import small_run, write_sample
from tests.sample_study import study_records

ROOT = Path(__file__).parents[2]
NAMES = ("trials", "outcomes", "figures", "verdicts")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_sample(folder, small_run())
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_a_trial_outcome_figure_and_verdict(sample, tmp_path, capsys):
    assert main(["export", str(sample), "--output", str(tmp_path)]) == 0

    assert capsys.readouterr().out.split() == [str(tmp_path / f"{name}.csv") for name in NAMES]
    run = read_run(sample)
    trials, outcomes = rows(tmp_path / "trials.csv"), rows(tmp_path / "outcomes.csv")
    assert [row["id"] for row in trials] == list(run.trials)
    assert [row["id"] for row in outcomes] == list(run.outcomes)
    assert [row["id"] for row in rows(tmp_path / "verdicts.csv")] == list(run.verdicts)
    first, trial = trials[0], next(iter(run.trials.values()))
    assert (first["purpose"], first["valid"], first["lost"]) == ("warm-up", "true", str(trial.result.lost))
    assert (first["topology"], first["frame_size"], first["p50_ns"]) == ("phy2phy", "64", "")
    found = next(iter(run.outcomes.values()))
    assert float(outcomes[0]["ndr_fps"]) == found.goal("ndr").reported_fps
    assert {"ndr", "pdr", "latency_p99"} <= {row["metric"] for row in rows(tmp_path / "figures.csv")}


def test_several_runs_are_one_table(sample, tmp_path):
    write_sample(tmp_path / "other", study_records())

    main(["export", str(sample), str(tmp_path / "other"), "--output", str(tmp_path)])

    figures = rows(tmp_path / "figures.csv")
    assert {row["suite"] for row in figures} >= {"throughput", "chaining"}
    assert any(row["ratio"] and row["ratio_low"] for row in figures if row["metric"] == "forwarding_rate")


def test_a_place_that_cannot_be_written(sample, tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["export", str(sample), "--output", str(tmp_path / "file")]) == 1

    assert f"nfvperf: cannot export to {tmp_path / 'file'}: " in capsys.readouterr().err


LISTED = re.findall(r"^\| `(\w+)` \| (\w+) \| .* \|$", (ROOT / "docs/reference/export.md").read_text(), re.MULTILINE)
FORMS = {"text": ".*", "int": r"(-?\d+)?", "float": r"(-?[\d.e+-]+)?", "bool": "true|false"}


def test_the_page_lists_every_column():
    of_tables = [*COMMON, *(name for columns, _ in TABLES.values() for name in columns)]
    assert [name for name, _ in LISTED] == [*of_tables, *trends.COLUMNS]


def test_a_column_has_what_the_page_says(sample, tmp_path):
    main(["export", str(sample), "--output", str(tmp_path)])

    kinds = iter(LISTED[len(COMMON) :])
    for table, (columns, _) in TABLES.items():
        of_table = [*LISTED[: len(COMMON)], *(next(kinds) for _ in columns)]
        for row in rows(tmp_path / f"{table}.csv") if table in NAMES else ():
            for name, kind in of_table:
                assert re.fullmatch(FORMS[kind], row[name], re.DOTALL), (table, name, row[name])
