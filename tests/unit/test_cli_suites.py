"""``nfvperf suites``: what it lists, what it copies, and what it leaves alone."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

from pytest_nfvperf.cli import suites
from pytest_nfvperf.cli.main import main

ROOT = Path(__file__).parents[2]


def test_the_list_says_how_many_tests_and_which_files(capsys):
    assert main(["suites"]) == 0

    shown = capsys.readouterr().out
    assert "\n  chaining     " in shown
    assert " tests, published.yaml, sla.yaml" in shown
    assert "nfvperf suites --copy acceptance && cd acceptance && pytest suites/ --nfv-profile smoke" in shown


def test_a_copy_runs_the_suites_in_the_projects_order(tmp_path):
    suites.copy(tmp_path / "acceptance")

    written = configparser.ConfigParser()
    written.read(tmp_path / "acceptance/pytest.ini")
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert written["pytest"]["nfv_suite_order"].split() == ours["nfv_suite_order"]
    assert (tmp_path / "acceptance/docs/reference/sla-language.md").is_file()
    assert (tmp_path / "acceptance/suites/throughput/published.yaml").is_file()
    assert not list((tmp_path / "acceptance").rglob("__pycache__"))


def test_what_is_there_is_not_replaced(tmp_path, capsys):
    (tmp_path / "suites").mkdir()

    assert main(["suites", "--copy", str(tmp_path)]) == 1

    assert capsys.readouterr().err == (
        f"nfvperf: {tmp_path} has suites already, and nothing is replaced: choose another directory\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["suites"]


def test_a_place_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["suites", "--copy", str(tmp_path / "file")]) == 1

    assert f"nfvperf: cannot copy the suites to {tmp_path / 'file'}: " in capsys.readouterr().err


def test_doctor_uses_the_terminals_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    main(["doctor"])
    wide = max(map(len, capsys.readouterr().out.splitlines()))
    monkeypatch.setenv("COLUMNS", "90")
    main(["doctor"])

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 90 < wide
