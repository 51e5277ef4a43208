"""Every program that the package, its tests and its CI call is in the table of programs, which packages come from."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.setup import SETUP_USES, missing
from pytest_nfvperf.adapters.process import programs
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import LIBRARIES, PROGRAMS, Use
from pytest_nfvperf.model.errors import TestbedError
from tests.program_calls import python_calls, shell_calls

ROOT = Path(__file__).parents[2]
PYTHON = [
    path
    for folder in ("pytest_nfvperf", "fixtures", "suites", "tests", "benchmarks", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
SHELL = [*sorted(path for path in (ROOT / ".ci").iterdir() if path.suffix != ".py"), ROOT / "Makefile"]


KNOWN = {*PROGRAMS, *(library.name for library in LIBRARIES)}


@cache
def calls_of(path: Path) -> list[tuple[str, int]]:
    return python_calls(path.read_text())


def unknown(path: Path, calls: list[tuple[str, int]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}: {name}" for name, line in calls if name not in KNOWN]


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_calls_only_programs_of_the_table(path: Path) -> None:
    assert unknown(path, calls_of(path)) == []


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_scripts_call_only_programs_of_the_table(path: Path) -> None:
    assert unknown(path, shell_calls(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        'subprocess.run(["planted", "-x"], check=True)',
        'subprocess.Popen(args=("planted",))',
        'space.run(["planted"])',
        'run(["ip", "netns", "exec", name, "planted", "-x"])',
        'run(["nsenter", f"--net={path}", "planted"])',
        'run(["env", f"--chdir={path}", "A=b", "planted"])',
        'run(["env", "-C", directory, "planted"])',
        'run(["unshare", "--net", "planted"])',
        'spawn(journal, "name", ["planted", *rest], log=log)',
        'shutil.which("planted")',
        '_tool("planted")',
        'need("cpio", "planted")',
        'command = ["planted"]\nsubprocess.run(command)',
        'def f():\n    argv: list[str] = ["planted"]\n    return run([*argv, "more"])',
        'def command():\n    return ["planted", "x"]\nrun(command())',
        'def wrappers():\n    made = ["planted"]\n    return made\nspawn(journal, "x", [*wrappers()])',
        'guest(["sh", "-c", "true"], run_in_guest(journal, kernel, ["planted"]))',
    ],
)
def test_a_planted_call_is_found(source: str) -> None:
    assert "planted" in [name for name, _ in python_calls(source)]


@pytest.mark.parametrize(
    "source",
    [
        "planted x",
        "x=$(planted y)",
        "ls | planted",
        "true && planted",
        "if ! planted; then :; fi",
        'gate() {\n"$@"\n}\ngate "a b" planted x',
        "target:\n\t@planted x",
        "for x in 1 2; do planted; done",
    ],
)
def test_a_planted_call_of_a_script_is_found(source: str) -> None:
    assert "planted" in [name for name, _ in shell_calls(source)]


def test_the_walk_sees_what_is_called() -> None:
    called = {name for path in PYTHON for name, _ in calls_of(path)}
    assert {"ethtool", "setpriv", "nsenter", "taskset", "tc", "iperf3", "qemu-system-x86_64", "mmdebstrap"} <= called
    assert {"git", "make", "grep", "pgrep"} <= called | {n for path in SHELL for n, _ in shell_calls(path.read_text())}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.name)
def test_a_program_is_in_the_package_that_the_table_names(program: programs.Program) -> None:
    # What is removed and not purged counts as missing: dpkg still lists its files of configuration.
    if missing([program.package]):
        assert program.use not in SETUP_USES, f"{programs.not_installed(program.name)} (make setup does it)"
        pytest.skip(f"{program.package} is not installed here, and need not be: {program.use}")
    command = ["dpkg-query", "-L", program.package]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    # As an alternative a program has other names (cc: gcc), and OVS with DPDK has its own.
    directories = (*program.directories, "/usr/bin", "/usr/sbin", "/bin", "/sbin")
    hops = {name for directory in directories for name in names(Path(directory) / program.name)}
    assert {Path(line).name for line in listed.stdout.splitlines()} & {*hops, f"{program.name}-dpdk"}


def names(path: Path) -> set[str]:
    """The names that a program has on the way through symbolic links to its file."""
    found = set()
    while path.is_symlink():
        found.add(path.name)
        path = path.parent / path.readlink()
    return {*found, path.name} if path.exists() else found


def test_a_program_that_is_not_there_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "ethtool" else which(name, **more))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TestbedError, match=r"cannot run ethtool: not found; .*: apt-get install ethtool$"):
        run(["ethtool", "-k", "lo"])
    with pytest.raises(TestbedError, match=r"status 127: ethtool is not installed: apt-get install ethtool\n"):
        run(["/usr/bin/env", "ethtool", "-k", "lo"])


@pytest.mark.parametrize(
    ("system", "package"), [("debian 12", "chromium"), ("debian 13", "chromium"), ("ubuntu 24.04", "chromium-browser")]
)
def test_packages_go_by_the_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, package: str
) -> None:
    name, version = system.split()
    (tmp_path / "os-release").write_text(f'ID={name}\nVERSION_ID="{version}"\n')
    monkeypatch.setattr(programs, "OS_RELEASE", tmp_path / "os-release")
    assert programs.install_hint("chromium") == f"apt-get install {package}"
    assert package in programs.packages([Use.EXTRA], system)


def test_a_hint_names_each_package_once() -> None:
    assert programs.install_hint("depmod", "modprobe", "cpio") == "apt-get install kmod cpio"
    unknown_name = "planted"
    with pytest.raises(KeyError, match=unknown_name):
        programs.install_hint(unknown_name)


def test_what_may_be_lacking_says_what_is_lost() -> None:
    for program in (*PROGRAMS.values(), *LIBRARIES):
        optional = program.use in (Use.KERNEL, Use.FRESH, Use.EXTRA)
        assert program.purpose, program.name
        assert program.lost or not optional, program.name
        assert program.package, program.name
