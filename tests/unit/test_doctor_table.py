"""What doctor prints: what is needed before what is optional, and whether this machine is ready."""

from __future__ import annotations

import re
import resource
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.host.hugepages import Hugepages, Pool
from pytest_nfvperf.adapters.machine import machine_checks as machine
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState, checks
from pytest_nfvperf.cli.doctor import doctor_text
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.model.testbed.testbed import Testbed
from tests.config_support import parse_testbed

LAB = "schema: 1\nname: lab\ndut: {ovs: {datapath: dpdk}}\n"


def lab(text: str = LAB) -> Testbed:
    return parse_testbed(text)[0]


def named(found: Sequence[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_needed_and_optional_are_apart_and_the_last_line_says_whether_it_is_ready() -> None:
    found = [
        Check("FRR", CheckState.MISSING, "not installed", "apt-get install frr"),
        Check("root", CheckState.OK, "yes", needed=True),
        Check("hugepages", CheckState.WARN, "few", "reserve more"),
        Check("Open vSwitch", CheckState.MISSING, "not found", "apt-get install it", needed=True),
    ]
    lines = [" ".join(line.split()) for line in doctor_text(found).splitlines()]
    order = (
        "needed",
        "ok root yes",
        "missing Open vSwitch",
        "optional",
        "absent FRR not installed",
        "note hugepages few",
    )
    positions = [next(at for at, line in enumerate(lines) if line.startswith(start)) for start in order]
    assert positions == sorted(positions)
    assert lines[-1] == "ready: no, 1 thing missing"
    assert doctor_text(found[:3]).splitlines()[-1] == "ready: yes"
    assert doctor_text([*found, replace(found[3], name="cores")]).endswith("\nready: no, 2 things missing")


ADVICE = (
    "pip install 'pytest-nfvperf[history]' for history: changes; python3 -m venv /root/.cache/nfvperf/ovn-bgp-agent"
)
LONG = f"/usr/lib/{'x' * 50}/ovs-vswitchd"


@pytest.mark.parametrize("width", [80, 120])
def test_no_word_is_broken_and_nothing_is_taken_for_markup(width: int) -> None:
    found = [
        Check("Python extras", CheckState.WARN, "charts, [ssh]", ADVICE),
        Check("Open vSwitch", CheckState.OK, f"3.1.0 {LONG}", needed=True),
    ]
    text = doctor_text(found, width=width)

    assert set(f"{ADVICE} [ssh] {LONG}".split()) <= set(text.split())
    assert max(map(len, text.splitlines())) <= width


def test_doctor_checks_what_a_run_checks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """40 GiB of hugepages were "ready: yes", and the run then refused."""
    (file := tmp_path / "lab.yaml").write_text(LAB + "hugepages: 40 GiB\n")
    monkeypatch.setattr(machine, "checks", lambda *_: [])
    monkeypatch.setattr("pytest_nfvperf.cli.doctor.distance_check", lambda *_: Check("far", CheckState.OK, ""))

    assert main(["doctor", "--testbed", str(file)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "40960 MiB are asked for, and this machine has reserved" in out
    assert out.endswith("ready: no, 1 thing missing")


CHECKS = st.builds(Check, st.text("ab", min_size=1), st.sampled_from(CheckState), st.just("seen"), needed=st.booleans())


@given(st.lists(CHECKS))
def test_the_status_is_what_the_last_line_says(found: list[Check]) -> None:
    missing = sum(check.needed and check.state is CheckState.MISSING for check in found)
    last = doctor_text(found).splitlines()[-1]
    assert (last == "ready: yes") is (missing == 0)
    assert missing == 0 or last.startswith(f"ready: no, {missing} thing")


def test_the_command_ends_with_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for state, status, said in (
        (CheckState.OK, 0, "ready: yes"),
        (CheckState.MISSING, 1, "ready: no, 1 thing missing"),
    ):
        monkeypatch.setattr(machine, "checks", lambda *_, state=state: [Check("root", state, "x", "y", needed=True)])
        assert main(["doctor"]) == status
        assert capsys.readouterr().out.splitlines()[-1] == said


def test_what_is_needed_depends_on_the_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_hugepages", lambda: Hugepages((Pool(2),)))
    embedded, dpdk = named(checks()), named(checks(lab()))
    assert (embedded["hugepages"].state, embedded["hugepages"].needed) == (CheckState.MISSING, False)
    assert (dpdk["hugepages"].needed, dpdk["DPDK in OVS"].needed, dpdk["nfvperf-gen"].needed) == (True, True, True)
    trex = named(checks(lab(LAB + "generator: {engine: trex, server: tgen1.invalid}\n")))
    assert not trex["nfvperf-gen"].needed
    system = named(checks(lab(LAB.replace("dpdk", "system"))))
    assert (system["kernel datapath"].needed, system["hugepages"].needed) == (True, False)


def test_too_few_open_files_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_hugepages", lambda: Hugepages((Pool(2, 2048, 2048),)))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    check = named(checks())["open files"]
    assert (check.state, check.seen, check.needed) == (CheckState.MISSING, "256 at most", True)
    assert check.advice.startswith("OVS needs about 320: raise the hard limit (ulimit -Hn 4096;")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 320))
    assert named(checks())["open files"].state is CheckState.OK


def test_no_colour_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [Check("root", CheckState.MISSING, "uid 1000", "run as root", needed=True)]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31m" in doctor_text(checks, color=True)

    monkeypatch.setenv("NO_COLOR", "1")

    assert re.findall(r"\x1b\[3\dm", doctor_text(checks, color=True)) == []


PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_doctor_lists_every_extra_that_is_for_users() -> None:
    extras = set(PYPROJECT["optional-dependencies"])
    assert set(machine.EXTRAS) == extras - {"all", "dev", "docs", "plugins"}
    (brought,) = PYPROJECT["optional-dependencies"]["all"]
    assert set(brought.partition("[")[2].strip("]").split(",")) == set(machine.EXTRAS)


def test_doctor_says_which_extras_are_there_and_what_the_others_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> str:
        if name in {"vl-convert-python", "ruptures"}:
            raise PackageNotFoundError(name)
        return "99" if name == "pytest-xdist" else version(name)

    monkeypatch.setattr(machine, "version", installed)
    found = named(checks())["Python extras"]
    assert found.state is CheckState.WARN
    assert found.seen == "ssh, trex, otlp", "xdist is there, in a version that the extra does not take"
    assert found.advice == (
        "pip install 'pytest-nfvperf[charts,xdist,history]' for charts: pictures of charts, in Allure and datasheets; "
        "xdist: several testbeds; history: change points of a history"
    )
    assert not found.needed
