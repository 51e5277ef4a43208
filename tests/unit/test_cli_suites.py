"""``nfvperf suites`` and ``nfvperf init``: what it lists, what it copies, and what it leaves alone."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

import pytest
from toy_ovs import repository

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.machine_checks import CheckState
from pytest_nfvperf.cli import first_project
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.config.testbed_file import load_testbed

ROOT = Path(__file__).parents[2]


def test_the_list_says_how_many_tests_and_which_files(capsys):
    assert main(["suites"]) == 0

    shown = capsys.readouterr().out
    assert "\n  chaining     " in shown
    assert " tests, published.yaml, sla.yaml" in shown
    assert "nfvperf suites --copy acceptance && cd acceptance && pytest suites/ --nfv-profile smoke" in shown


def test_a_copy_runs_the_suites_in_the_projects_order(tmp_path):
    first_project.copy_suites(tmp_path / "acceptance")

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


def test_a_first_project_has_the_recipe_of_its_ci(tmp_path, capsys):
    for ci, recipes in first_project.CI_FILES["suites"].items():
        assert main(["init", str(tmp_path / ci), "--ci", ci]) == 0
        for name, recipe in recipes.items():
            assert (tmp_path / ci / name).read_text() == (ROOT / "docs/examples/ci" / recipe).read_text()
        shown = capsys.readouterr().out
        assert (
            f"wrote to {tmp_path / ci}: conftest.py, pytest.ini, suites/first/sla.yaml, suites/first/test_first.py, "
            in shown
        )
        assert "The gate tests the OVS that its runner has installed. For a tree of OVS: init --for ovs-tree\n" in shown
        assert f"run: cd {tmp_path / ci} && pytest" in shown
    with pytest.raises(SystemExit):
        main(["init", str(tmp_path / "x"), "--ci", "none"])
    assert f"(choose from {', '.join(map(repr, first_project.CI_FILES['suites']))})" in capsys.readouterr().err


@pytest.mark.parametrize("ci", first_project.CI_FILES["ovs-tree"])
def test_a_gate_of_an_ovs_tree_is_the_recipe_and_nothing_else(ci, tmp_path, capsys):
    tree = repository(tmp_path / "ovs")
    (tree / "Makefile.am").write_text("x = 1\nEXTRA_DIST = \\\n\tNEWS \\\n\tLICENSE\n")
    before = {path for path in tree.rglob("*") if path.is_file()}
    assert main(["init", str(tree), "--for", "ovs-tree", "--ci", ci]) == 0
    written = {str(path.relative_to(tree)): path for path in tree.rglob("*") if path.is_file() and path not in before}
    recipes = first_project.CI_FILES["ovs-tree"][ci]
    assert set(written) == set(recipes)
    for name, recipe in recipes.items():
        assert written[name].read_text() == (ROOT / "docs/examples/ci" / recipe).read_text()
    listed = "".join(f"\t{name} \\\n" for name in recipes)
    made = (tree / "Makefile.am").read_text()
    assert made == f"x = 1\nEXTRA_DIST = \\\n{listed}\tNEWS \\\n\tLICENSE\n", "else the tree does not build"
    shown = capsys.readouterr().out
    first = next(iter(recipes))
    assert f"Read in {first} for whom that is safe, and what the runner needs." in shown
    assert "For whom: " in written[first].read_text()


def test_a_gate_of_an_ovs_tree_is_not_written_elsewhere(tmp_path, capsys):
    assert main(["init", str(tmp_path), "--for", "ovs-tree"]) == 1
    assert capsys.readouterr().err == (
        f"nfvperf: {tmp_path} is no tree of Open vSwitch: it has no vswitchd/ovs-vswitchd.c\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_first_project_replaces_nothing_and_says_which_file_is_there(tmp_path, capsys):
    (tmp_path / "conftest.py").write_text("mine")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    (tmp_path / "README.md").write_text("no file of ours")

    assert main(["init", str(tmp_path)]) == 1

    assert capsys.readouterr().err == (
        f"nfvperf: {tmp_path} has conftest.py, .gitignore already, and nothing is replaced: choose another directory\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "README.md", "conftest.py"]
    assert (tmp_path / "conftest.py").read_text() == "mine"


def test_a_first_project_in_a_place_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["init", str(tmp_path / "file")]) == 1

    assert f"nfvperf: cannot write the project to {tmp_path / 'file'}: " in capsys.readouterr().err


def test_the_testbed_of_a_first_project_is_this_machine_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(first_project.machine_checks, "checks", lambda testbed: [])
    first_project.write_project(tmp_path)

    testbed, warnings = load_testbed(tmp_path / "testbed.yaml")

    assert testbed == discover_testbed()
    assert warnings == ()
    assert "\nnfv_testbed = testbed.yaml\n" in (tmp_path / "pytest.ini").read_text()


def test_on_a_machine_without_ovs_it_says_what_to_do(tmp_path, monkeypatch):
    absent = CheckState.MISSING, "ovs-vswitchd is missing", "apt-get install openvswitch-switch-dpdk"
    monkeypatch.setattr(first_project.machine_checks, "_ovs", lambda prefix: absent)

    told = first_project.write_project(tmp_path / "new")

    assert "\nThis machine cannot measure yet:\n" in told
    assert "\n  Open vSwitch: ovs-vswitchd is missing; apt-get install openvswitch-switch-dpdk\n" in told
    assert "\nset it up: python -m pytest_nfvperf.adapters.host.setup && nfvperf build\n" in told
    assert told.endswith(f"run: cd {tmp_path / 'new'} && pytest --nfv-plan")
    assert not (tmp_path / "new/testbed.yaml").exists()
    assert "nfv_testbed" not in (tmp_path / "new/pytest.ini").read_text()


def test_ctrl_c_ends_a_command_with_one_line(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_nfvperf.cli.doctor.doctor", interrupted)

    assert main(["doctor"]) == 130

    assert capsys.readouterr().err == "nfvperf: interrupted\n"
