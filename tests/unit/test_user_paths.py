"""A path is what a shell would make of it, wherever a user writes one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_nfvperf.adapters.process.journal import base_directory
from pytest_nfvperf.cli.command import path_like
from pytest_nfvperf.cli.main import _parser
from pytest_nfvperf.model.arguments import expand_named_path, expanded
from pytest_nfvperf.plugin.options import add_options, read_options
from pytest_nfvperf.session.options import Options
from tests.config_support import parse_testbed

HOME = "/home/somebody"
FILE = """
schema: 1
name: lab
dut: {ovs: {prefix: ~/ovs, instance: system, run_dir: ~/run}}
generator: {engine: trex, server: tgen1, client: ~/client}
streams: {path: ~/bin/iperf3}
ovs: {old: ~/old}
speakers: [{name: dut, engine: frr, socket: ~/frr}]
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Group:
    """A parser as pytest gives it to plugins."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser()

    def getgroup(self, *_: str) -> Group:
        return self

    def addoption(self, *names: str, **settings: Any) -> None:
        self.parser.add_argument(*names, **settings)


def options(base: Path, *arguments: str) -> Options:
    group = Group()
    add_options(cast("pytest.Parser", group))
    found = {"setuponly": False, **vars(group.parser.parse_args(arguments))}  # the first is pytest's own
    config = SimpleNamespace(
        getoption=lambda name, *_: found[name.removeprefix("--").replace("-", "_")],
        invocation_params=SimpleNamespace(dir=base),
        rootpath=base,
        inipath=None,
        getini=lambda name: [],
    )
    read, mistake = read_options(cast("pytest.Config", config))
    assert mistake is None
    return read


@pytest.mark.parametrize(
    ("option", "read"),
    [
        ("--nfv-results", lambda options: options.results),
        ("--nfv-record", lambda options: options.record),
        ("--nfv-baseline", lambda options: options.baseline),
        ("--nfv-sla", lambda options: options.slas[0]),
        ("--nfv-testbed", lambda options: options.testbeds[0].path),
        ("--nfv-ovs", lambda options: Path(options.ovs[0])),
    ],
)
def test_every_option_that_is_a_path_knows_the_home_directory(
    base: Path, option: str, read: Callable[[Options], Path]
) -> None:
    assert read(options(base, f"{option}=~/x")) == Path(HOME, "x")
    if option != "--nfv-ovs":
        assert read(options(base, f"{option}=x")) == base / "x"
        assert read(options(base, f"{option}=~nobody-is-called-so/x")) == base / "~nobody-is-called-so/x"


def test_behind_a_name_too(base: Path) -> None:
    read = options(base, "--nfv-testbed=a=~/lab.yaml", "--nfv-ovs=old=~/ovs", "--nfv-compare=x=~/x", "--nfv-compare=y")
    assert (read.testbeds[0].label, read.testbeds[0].path) == ("a", Path(HOME, "lab.yaml"))
    assert read.ovs == (f"old={HOME}/ovs",)
    assert read.compare is not None
    assert read.compare.sides[0].where == f"{HOME}/x"


def test_a_path_that_is_there_is_a_path_whatever_is_in_it(base: Path) -> None:
    for name in ("lab=5", "ovs=3.3"):
        (base / name).mkdir()
        (base / name / "lab.yaml").touch()
    given = options(base, "--nfv-testbed=lab=5/lab.yaml").testbeds[0]
    assert (given.path, given.label) == (base / "lab=5/lab.yaml", "")
    given = options(base, "--nfv-testbed=a=lab=5/lab.yaml").testbeds[0]
    assert (given.path, given.label) == (base / "lab=5/lab.yaml", "a")
    assert options(base, "--nfv-ovs=ovs=3.3").ovs == ("./ovs=3.3",)
    read = options(base, "--nfv-compare=new=ovs=3.3", "--nfv-compare=installed")
    assert read.compare is not None
    assert [side.where for side in read.compare.sides] == ["ovs=3.3", "installed"]


@pytest.mark.parametrize("text", ["x" * 300, "x" * 5000, "a=" + "x" * 300])
def test_a_name_that_is_too_long_is_told_when_it_is_read(base: Path, text: str) -> None:
    assert options(base, f"--nfv-testbed={text}", f"--nfv-ovs={text}").testbeds[0].path.name.endswith("x")


def test_a_name_with_a_place_stays_one(base: Path) -> None:
    assert expand_named_path(base, "old=/opt/ovs") == "old=/opt/ovs"
    assert expanded("a/~") == "a/~"


def test_a_testbed_files_paths() -> None:
    testbed, _ = parse_testbed(FILE, "/labs/lab.yaml")
    assert (testbed.ovs.prefix, testbed.ovs.run_dir) == (f"{HOME}/ovs", f"{HOME}/run")
    assert testbed.generator.client == f"{HOME}/client"
    assert (testbed.streams.path, testbed.ovs.versions[0].where) == (f"{HOME}/bin/iperf3", f"{HOME}/old")
    assert testbed.speakers[0].socket == f"{HOME}/frr"
    text = "schema: 1\nname: x\ngenerator: {engine: replay, recording: ~/bug.jsonl}\n"
    assert parse_testbed(text, "/labs/lab.yaml")[0].generator.recording == f"{HOME}/bug.jsonl"


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFVPERF_RUN_DIR", "~/runs")
    assert base_directory() == Path(HOME, "runs")


def test_no_argument_of_a_command_is_a_path_as_it_stands() -> None:
    assert list(actions(_parser(), bare=True)) == []
    assert len(list(actions(_parser(), bare=False))) > 10


def actions(parser: argparse.ArgumentParser, *, bare: bool) -> Iterator[str]:
    """The arguments that are read by Path itself, or by what knows a home directory."""
    for action in parser._actions:
        if action.type is (Path if bare else path_like):
            yield f"{parser.prog} {action.dest}"
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from actions(below, bare=bare)
