"""Results as they come: one line a test, whatever the output is, and pytest's own signs beside it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from contextlib import suppress

import pytest
from test_judging import SIMULATED, SLA
from user_project import CONFTEST

SUITE = """
import pytest
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_measures_nothing():
    pass

@pytest.mark.parametrize("frame_size", [64, 1518])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size), latency=True))

def test_skips(phy2phy):
    pytest.skip("no flow is in hardware")

@pytest.fixture
def breaks_at_the_end(phy2phy):
    yield
    raise ValueError("not to be removed")

def test_ends_badly(breaks_at_the_end):
    pass
"""
LINE = "mine/test_ndr_pdr[[]64]  *NDR [34].?? Mpps · PDR [34].?? Mpps · p99 * us *{} * s*{}"


@pytest.fixture
def ran(suite):
    """Runs the suite on a simulated DUT; NDR of 3 Mpps or more passes."""
    (suite.path / "mine" / "test_mine.py").write_text(SUITE)
    suite.makeconftest(CONFTEST + SIMULATED.format(dut="4e6"))
    suite.makefile(".yaml", sla=SLA.format(require="ndr: '>= 3 Mpps'"))

    def run(*args: str) -> pytest.RunResult:
        return suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none", "--tb", "no", *args)

    return run


def test_a_file_has_a_line_for_each_test_and_no_dots_for_it(ran):
    result = ran()
    result.assert_outcomes(passed=4, skipped=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "mine/test_mine.py .",
            LINE.format("PASS", "2/5"),
            "mine/test_ndr_pdr[[]1518]  *PASS*3/5",
            "mine/test_skips * skipped *4/5",
            "    no flow is in hardware",
            "mine/test_ends_badly *5/5",
            "    ValueError: not to be removed",
            "*[[]100%]",
            "*datapath acceptance*",
        ]
    )


def test_a_failed_test_says_why(ran, suite):
    suite.makefile(".yaml", sla=SLA.format(require="ndr: '>= 5 Mpps'"))
    result = ran("-k", "1518")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(["mine/test_ndr_pdr[[]1518]  *FAIL*1/1", "    ndr >= 5 Mpps: 3.99 Mpps"])


def test_verbose_keeps_pytests_own_words(ran):
    result = ran("-v")
    result.stdout.fnmatch_lines(
        [
            "mine/test_mine.py::test_measures_nothing PASSED * 20%]",
            "mine/test_mine.py::test_ndr_pdr[[]64] PASSED * 40%]",
            LINE.format("PASS", "2/5"),
            "mine/test_mine.py::test_skips SKIPPED (no flow*",
        ]
    )


def test_quiet_has_pytests_signs_alone(ran):
    result = ran("-q")
    result.stdout.fnmatch_lines(["...s.B*"])
    assert "NDR 4" not in result.stdout.str()


def test_without_pytests_terminal_nothing_is_written(suite, ran):
    (suite.path / "mine" / "test_mine.py").write_text(SUITE.replace("raise ValueError", "ValueError"))
    result = suite.runpytest_subprocess("-p", "no:terminal", "--nfv-sla", "sla.yaml")
    assert result.ret == 0
    assert result.stdout.str() == ""


def test_the_controller_of_workers_writes_the_lines(ran):
    result = ran("-n", "2")
    result.assert_outcomes(passed=4, skipped=1, errors=1)
    result.stdout.fnmatch_lines_random([LINE.format("PASS", "/5"), "mine/test_skips * skipped *"])
    assert "nfvperf-testbed" not in result.stdout.str().partition("datapath acceptance")[0]


def on_a_terminal(suite: pytest.Pytester, *arguments: str) -> str:
    """What a run writes to a terminal of 80 columns."""
    command = [sys.executable, "-m", "pytest", "--nfv-sla", "sla.yaml", "--nfv-report", "none", *arguments]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES", "FORCE_COLOR", "PY_COLORS"}
    }
    env["NO_COLOR"] = "1"
    with subprocess.Popen(command, cwd=suite.path, stdin=theirs, stdout=theirs, env=env):
        os.close(theirs)
        written = b""
        with suppress(OSError):  # how a terminal's other end says that all have closed it
            while chunk := os.read(ours, 65536):
                written += chunk
    os.close(ours)
    return written.decode().replace("\r", "")


def test_on_a_terminal_the_lines_replace_the_live_one_without_colours_if_nobody_wants_them(ran, suite):
    written = on_a_terminal(suite, "--tb", "no")
    rows = written.splitlines()
    ((at, name),) = [(at, row) for at, row in enumerate(rows) if "mine/test_ndr_pdr[1518]" in row]
    assert name.startswith("\x1b[K\x1b[Amine/"), "the live line was taken away before"
    assert name.split()[1] == "PASS"
    assert rows[at + 1].startswith("    NDR ")
    assert "3/5, " in written, "the live line of the third test says how long the run takes"
    assert re.findall(r"\x1b\[[^A-Za-z]*m", written) == []


def test_a_long_reason_is_told_in_full_once_and_no_word_of_it_is_broken(ran, suite):
    words = [f"reason{number}" for number in range(60)]
    (suite.path / "mine" / "test_mine.py").write_text(
        "from pytest_nfvperf.model.errors import InconclusiveError\n"
        f"def test_mine(phy2phy):\n    raise InconclusiveError({' '.join(words)!r})\n"
    )

    written = on_a_terminal(suite, "-p", "no:cacheprovider")

    told = written.split()
    assert set(words) <= set(told)
    assert [told.count(word) for word in words[-25:]] == [1] * 25
    assert max(len(line) for line in written.splitlines() if "reason3" in line) <= 80


@pytest.fixture
def suites(pytester):
    """Folders alpha, beta, gamma with a measuring test or two each, and one file that measures nothing."""
    pytester.makeconftest(CONFTEST)
    for folder in ("alpha", "beta", "gamma"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / f"test_{folder}.py").write_text(
            "def test_z(phy2phy): ...\ndef test_a(phy2phy): ...\n"
        )
    (pytester.path / "beta" / "test_first.py").write_text("def test_first(phy2phy): ...\n")
    (pytester.path / "alpha" / "test_plain.py").write_text("def test_plain(): ...\n")
    pytester.makeini("[pytest]\nnfv_suite_order = gamma beta/test_first.py beta\n")
    return pytester


def collected(result: pytest.RunResult) -> list[str]:
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_suites_run_in_the_projects_order(suites):
    result = suites.runpytest_subprocess("--collect-only", "-q")
    files = [line.partition("::")[0] for line in result.outlines if "::" in line]
    assert list(dict.fromkeys(files)) == [
        "gamma/test_gamma.py",
        "alpha/test_plain.py",
        "beta/test_first.py",
        "beta/test_beta.py",
        "alpha/test_alpha.py",
    ]
    assert collected(result)[:2] == ["test_z", "test_a"], "a file keeps its own order"


def test_who_names_several_paths_has_an_order_of_their_own(suites):
    result = suites.runpytest_subprocess("--collect-only", "-q", "alpha/test_alpha.py", "gamma")
    assert [line.partition("/")[0] for line in result.outlines if "::" in line] == ["alpha"] * 2 + ["gamma"] * 2


def test_without_an_order_pytests_holds(suites):
    suites.makeini("[pytest]\n")
    result = suites.runpytest_subprocess("--collect-only", "-q")
    assert [line.partition("/")[0] for line in result.outlines if "::" in line] == ["alpha"] * 3 + ["beta"] * 3 + [
        "gamma"
    ] * 2
