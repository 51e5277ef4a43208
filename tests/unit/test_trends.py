"""``nfvperf export --format otava`` and ``orion``: series of runs, as those two read them."""

from __future__ import annotations

import csv
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.history.files import add_entry
from pytest_nfvperf.features.history.series import HistoryEntry, HistoryFigure
from tests.history_support import entry, sixty_runs, write_run

BOUND = HistoryFigure("pdr", "pps", 3e6, bound="at least", bound_reason="generator-limited")
NDR = HistoryFigure("ndr", "pps", 4e6, low=4e6, high=4.04e6)
LATENCY = HistoryFigure("latency_p99", "ns", 9e3, "50 % of pdr")


def exported(tmp_path: Path, form: str, entries: list[HistoryEntry]) -> Path:
    """The folder with the files of a history with these runs."""
    for one in entries:
        add_entry(tmp_path / "history", one)
    assert main(["export", "--format", form, "--output", str(tmp_path / form), str(tmp_path / "history")]) == 0
    return tmp_path / form


def otava_rows(folder: Path) -> dict[str, list[dict[str, str]]]:
    """What Otava's importer takes of each test: it refuses an absent column and a value that is no number."""
    config = yaml.safe_load((folder / "otava.yaml").read_text())
    assert config["test_groups"] == {"nfvperf": list(config["tests"])}
    found = {}
    for name, test in config["tests"].items():
        ((metric, of_metric),) = test["metrics"].items()
        with (folder / test["file"]).open(newline="") as file:
            found[name] = list(csv.DictReader(file))
        for row in found[name]:
            assert {"time", *test["attributes"]} <= set(row)
            assert datetime.fromisoformat(row["time"]).tzinfo is not None
            float(row[of_metric["column"]])
        assert of_metric["direction"] == (-1 if "latency" in metric or "cycles" in metric or "cpu" in metric else 1)
    return found


def test_otava_gets_a_file_a_series_in_the_order_of_time(tmp_path: Path) -> None:
    rows = otava_rows(exported(tmp_path, "otava", sixty_runs()))

    pvp = rows["throughput-test_ndr_pdr-pvp-64-cycles_per_packet"]
    assert len(pvp) == 60
    assert [row["time"] for row in pvp] == sorted(row["time"] for row in pvp)
    before, after = ([float(row["value"]) for row in part] for part in (pvp[:14], pvp[14:20]))
    assert max(before) < min(after), "the planted change"
    assert {row["version"] for row in pvp[14:20]} == {"3.3.0"}
    assert "throughput-test_ndr_pdr-pvp-64-latency_p99-at-50-of-pdr" in rows


def test_a_bound_says_that_it_is_one(tmp_path: Path) -> None:
    entries = [entry(1, NDR, BOUND), entry(2, NDR, HistoryFigure("pdr", "pps", 3.1e6))]
    rows = otava_rows(exported(tmp_path, "otava", entries))

    said = {name.split("-")[-1]: [(row["bound"], row["why"]) for row in of_it] for name, of_it in rows.items()}
    assert said == {"ndr": [("none", "")] * 2, "pdr": [("at least", "generator-limited"), ("none", "")]}
    ndr = rows["throughput-test_rate-phy2phy-64-ndr"][0]
    assert (ndr["low"], ndr["high"]) == ("4000000.0", "4040000.0")


def test_machines_that_differ_are_series_that_differ(tmp_path: Path) -> None:
    entries = [entry(1, NDR, fingerprint={"cpu_model": "A"}), entry(2, NDR, fingerprint={"cpu_model": "B"})]
    rows = otava_rows(exported(tmp_path, "otava", entries))

    assert {name: [row["run"] for row in of_it] for name, of_it in rows.items()} == {
        "throughput-test_rate-phy2phy-64-ndr": ["run-01"],
        "throughput-test_rate-phy2phy-64-ndr-machine=2": ["run-02"],
    }


def test_names_of_series_never_meet_in_a_file(tmp_path: Path) -> None:
    labels = [{"suite": "s", "test": "t", "case": case} for case in ("a b", "a/b", "../a")]
    entries = [entry(number, NDR, labels=one) for number, one in enumerate(labels, 1)]
    rows = otava_rows(exported(tmp_path, "otava", entries))

    assert sorted(row["run"] for of_it in rows.values() for row in of_it) == ["run-01", "run-02", "run-03"]
    assert {path.parent for path in tmp_path.rglob("*.csv")} == {tmp_path / "otava"}


def documents(folder: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "orion.ndjson").read_text().splitlines()]
    assert {line["index"]["_index"] for line in lines[::2]} == {"nfvperf"}
    return {line["index"]["_id"]: document for line, document in zip(lines[::2], lines[1::2], strict=True)}


def test_orion_finds_the_documents_of_each_series(tmp_path: Path) -> None:
    entries = [entry(1, NDR, BOUND, LATENCY), entry(2, NDR, BOUND, LATENCY)]
    folder = exported(tmp_path, "orion", entries)

    found = documents(folder)
    assert len(found) == 6
    directions = {}
    for test in yaml.safe_load((folder / "orion.yaml").read_text())["tests"]:
        (metric,) = test["metrics"]
        asked = {key.removesuffix(".keyword"): value for key, value in test["metadata"].items()}
        assert asked.items() <= {key.removesuffix(".keyword"): value for key, value in metric.items()}.items()
        of_it = [one for one in found.values() if asked.items() <= one.items()]
        assert [one[test["uuid_field"]] for one in of_it] == ["run-01", "run-02"]
        assert {one["bound"] for one in of_it} == {"none"}
        assert all(re.fullmatch(r".+T.+\+00:00", one[test["timestamp"]]) for one in of_it)
        assert all(isinstance(one[metric["metric_of_interest"]], float) for one in of_it)
        assert "version_field" not in test, "orion would ask a service elsewhere about each version"
        directions[metric["name"]] = metric["direction"]
    assert directions == {"ndr": -1, "latency_p99-at-50-of-pdr": 1}, "a series of bounds only is left out"


def test_a_document_has_its_id_whatever_else_is_exported(tmp_path: Path) -> None:
    first = documents(exported(tmp_path, "orion", [entry(1, NDR)]))
    both = documents(exported(tmp_path, "orion", [entry(2, NDR, LATENCY)]))

    assert len(both) == 3
    assert first.items() <= both.items()


def test_runs_and_histories_are_read_each_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(write_run(tmp_path / "results", number, 4e6)) for number in (1, 2, 3)]
    main(["history", "add", "--history", str(tmp_path / "history"), runs[0]])
    early = str(write_run(tmp_path / "results", 4, 4e6, start_ns=0))
    capsys.readouterr()

    out = tmp_path / "out"
    assert main(["export", "--format", "otava", "--output", str(out), *runs, early, str(tmp_path / "history")]) == 0

    (rows,) = otava_rows(out).values()
    assert [row["run"] for row in rows] == ["run-01", "run-02", "run-03"]
    assert rows[0]["time"] == "2025-06-01T00:01:00+00:00"
    told = capsys.readouterr()
    assert "left out: " in told.err
    assert "the clock was not set" in told.err
    assert told.out == f"{out / 'otava.yaml'}\n"

    assert main(["export", "--format", "orion", "--output", str(tmp_path / "none"), early]) == 1
    assert "there are no figures" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
