"""The end of a run never turns a pass into a failure: a fault there leaves the status that the tests earned."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from test_judging import SIMULATED, SLA
from user_project import CONFTEST, records

from pytest_nfvperf.cli.main import main

SUITE = """
from pytest_nfvperf import Traffic

def test_pdr(phy2phy, search, sla):
    sla.check(search.throughput(phy2phy, Traffic(frame_size=64)))
"""

EARNED = {
    "passed": ("throughput: '>= 3 Mpps'", 0),
    "failed": ("throughput: '>= 5 Mpps'", 1),
    "inconclusive": ("cycles_per_packet: '<= 200 cycles'", 10),
}
"""What the SLA requires of a DUT that forwards 4 Mpps, and the status that this comes to."""

HELPERS = '''
import builtins, errno, importlib, io, os, pathlib, pytest, warnings

def refuse(function, name, error, module=os, says=b""):
    """Let calls of a function of the system fail of which a path ends so, or the data say so."""
    real = getattr(module, function)
    def refusing(*told, **named):
        data = [bytes(one) for one in told if isinstance(one, (bytes, memoryview))]
        paths = [os.fspath(one) for one in told if isinstance(one, (str, os.PathLike))]
        if any(says in one for one in data) if says else any(path.endswith(name) for path in paths):
            raise OSError(error, os.strerror(error), name)
        return real(*told, **named)
    setattr(module, function, refusing)

def refuse_file(name, error):
    refuse("open", name, error, module=io)
    refuse("open", name, error)
    builtins.open = io.open

def breaks(place, name, error=TypeError("broken by the test")):
    """Let a function of ours raise."""
    def broken(*arguments, **named):
        raise error
    module, _, owner = ("pytest_nfvperf." + place).partition(":")
    found = importlib.import_module(module)
    setattr(getattr(found, owner) if owner else found, name, broken)

def warns(place, name):
    module = importlib.import_module("pytest_nfvperf." + place)
    real = getattr(module, name)
    def warning(*arguments):
        warnings.warn("a glyph is missing")
        return real(*arguments)
    setattr(module, name, warning)
    warnings.simplefilter("error")

def run_dir(config):
    from pytest_nfvperf.plugin.run_state import RUN_DIR_KEY
    return config.stash[RUN_DIR_KEY]

def latest(config):
    link = run_dir(config).parent / "latest"
    link.unlink()
    return link

@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    early(session.config)
    result = yield
    late(session.config)
    return result
'''

BROKEN = "TypeError: broken by the test (*.py:*)"
NO_SPACE, NOT_PERMITTED = "No space left on device", "Permission denied"
NOT_READ = "; the status is by what the tests' own reports say"
NOT_DOWN = "the run was not taken down as a whole"
NOT_LATEST = "the link to the latest run was not renewed"

PAGE = {
    "a directory": ("(run_dir(config) / 'report.html').mkdir()", "the report cannot be written: Is a directory*"),
    "a full disk": (
        "refuse_file(f'.report.html.{os.getpid()}', errno.ENOSPC)",
        f"the report cannot be written: {NO_SPACE}*; then: nfvperf report *",
    ),
    "no permission": (
        "refuse_file('report.html', errno.EACCES); refuse_file(f'.report.html.{os.getpid()}', errno.EACCES)",
        f"the report cannot be written: {NOT_PERMITTED}*; then: nfvperf report *",
    ),
    "its renderer": (
        "breaks('adapters.report.html', '_suite_pages')",
        f"the report cannot be written: {BROKEN}; then: nfvperf report *",
    ),
    "a warning that is an error": ("warns('adapters.report.html', '_suite_pages')", ""),
}
"""What happens once the tests have ended, and what the line says; "" for none, because nothing is missing."""

JUNIT = {
    "a directory": (
        "pathlib.Path('junit.xml').mkdir()",
        "junitxml failed at the end of the run: Is a directory: *junit.xml",
    ),
    "a full disk": (
        "refuse_file('/junit.xml', errno.ENOSPC)",
        f"junitxml failed at the end of the run: {NO_SPACE}: *junit.xml",
    ),
    "a mount of its own": ("refuse('replace', '/junit.xml', errno.EBUSY)", ""),
    "full after pytest": (
        "refuse_file(f'.junit.xml.{os.getpid()}', errno.ENOSPC)",
        f"the JUnit file does not say what became of each test: {NO_SPACE}*",
    ),
    "its renderer": (
        "breaks('adapters.report.junit', '_write_run')",
        f"the JUnit file does not say what became of each test: {BROKEN}",
    ),
}

EARLY_ALLURE = {
    "results on a full disk": (
        "refuse_file('-result.json.tmp', errno.ENOSPC)",
        f"results for Allure are missing: {NO_SPACE}*",
    ),
    "attachments on a full disk": (
        "refuse_file('-attachment.csv.tmp', errno.ENOSPC)",
        f"results for Allure are missing: {NO_SPACE}*",
    ),
    "its renderer": ("breaks('features.allure.sink', '_attach_outcome')", f"steps for Allure are missing: {BROKEN}"),
}
OF_A_TEST = {
    "the line": (
        "breaks('adapters.report.texts', 'result_lines')",
        f"the line of a test cannot be shown: {BROKEN}",
    ),
    "the figures": (
        "breaks('plugin.phases', 'figures_text')",
        f"figures of a test cannot be shown: {BROKEN}; they are in the evidence",
    ),
    "the properties": (
        "breaks('session.run', 'junit_properties')",
        f"figures of a test are missing in the JUnit file: {BROKEN}",
    ),
}
"""The end of a test, which is before that of the run."""

ALLURE = {
    "results that nobody wrote": (
        "breaks('features.allure.results', 'write_missing_results')",
        f"results for Allure are missing: {BROKEN}",
    ),
}

OTHERS = {
    "the table": (
        "breaks('plugin.run_result', 'run_table')",
        f"the table cannot be shown: {BROKEN}; then: nfvperf show *",
    ),
    "the lines": (
        "breaks('plugin.run_result', 'lines_of_test')",
        f"the summary cannot be shown: {BROKEN}; then: nfvperf show *",
    ),
    "latest is a directory": (
        "latest(config).mkdir()",
        f"{NOT_LATEST}: */latest is a directory, and no link of ours, so it stays as it is*",
    ),
    "latest is a file": (
        "latest(config).write_text('mine')",
        f"{NOT_LATEST}: */latest is a file, and no link of ours, so it stays as it is*",
    ),
    "no links": (
        "refuse('symlink', f'.latest-{os.getpid()}', errno.EPERM)",
        f"{NOT_LATEST}: Operation not permitted: */latest",
    ),
    "the evidence's end on a full disk": (
        """refuse('write', '', errno.ENOSPC, says=b'"kind":"run_end"')""",
        f"{NOT_DOWN}: evidence file * cannot take record run_end-0001: {NO_SPACE}*",
    ),
    "the evidence's sync": (
        "breaks('adapters.evidence.writer:os', 'fsync', OSError(errno.EIO, os.strerror(errno.EIO)))",
        f"{NOT_DOWN}: evidence file * cannot take record run_end-0001: Input/output error*",
    ),
    "a file system that knows no sync": (
        "breaks('adapters.evidence.writer:os', 'fsync', OSError(errno.EINVAL, os.strerror(errno.EINVAL)))",
        "",
    ),
    "the evidence's disk": (
        "refuse_file('evidence.jsonl', errno.EIO)",
        f"the evidence cannot be read: Input/output error: evidence.jsonl{NOT_READ}",
    ),
    "the evidence is damaged": (
        "(run_dir(config) / 'evidence.jsonl').open('a').write('damaged\\n')",
        f"the evidence cannot be read: */evidence.jsonl: *{NOT_READ}",
    ),
    "the conclusion": ("breaks('plugin.run_result', 'conclude')", f"the evidence cannot be read: {BROKEN}{NOT_READ}"),
    "the testbed's end": (
        "breaks('backends.simulated:SimulatedBackend', 'close', RuntimeError('left over'))",
        f"{NOT_DOWN}: RuntimeError: left over (*; nfvperf clean removes what is left",
    ),
    "what is left": (
        "breaks('backends.simulated:SimulatedBackend', 'leftovers')",
        f"the summary cannot be shown: {BROKEN}; then: nfvperf show *",
    ),
}
WITHOUT_HYPOTHESIS = ("-p", "no:hypothesispytest")
"""Its plugin imports all of hypothesis at a run's end."""

GROUPS = {
    "page": (PAGE, ("--nfv-report", "html")),
    "junit": (JUNIT, ("--nfv-report", "none", "--junitxml", "junit.xml")),
    "allure": (ALLURE | EARLY_ALLURE, ("--nfv-report", "none", "--alluredir", "allure")),
    "run": (OTHERS, ("--nfv-report", "none")),
    "test": (OF_A_TEST, ("--nfv-report", "none")),
}
FAULTS = [f"{group}: {fault}" for group, (faults, _) in GROUPS.items() for fault in faults]


@pytest.fixture
def project(suite):
    """Makes a project whose tests earn a status; something happens before they run, or when they have ended."""

    def make(outcome: str, late: str = "pass", early: str = "pass") -> Path:
        requires, _ = EARNED[outcome]
        (suite.path / "mine" / "test_mine.py").write_text(SUITE)
        injected = f"def early(config):\n    {early}\ndef late(config):\n    {late}\n"
        suite.makeconftest(CONFTEST + SIMULATED.format(dut="4e6") + HELPERS + injected)
        suite.makefile(".yaml", sla=SLA.format(require=requires))
        return suite.path

    return make


MORE = pytest.mark.thorough("each fault once is in make test, with one of the outcomes in turn")


def in_turn(cases: Sequence[object]) -> list[ParameterSet]:
    """Each case with each outcome of EARNED, of which the gate runs one."""
    return [
        pytest.param(case, outcome, marks=() if (number - index) % len(EARNED) == 0 else MORE)
        for number, case in enumerate(cases)
        for index, outcome in enumerate(EARNED)
    ]


def told(lines: list[str]) -> list[str]:
    """What the run says of itself after its header."""
    return [line for line in lines if line.startswith("nfvperf: ")][1:]


@pytest.mark.parametrize(("fault", "outcome"), in_turn(FAULTS))
def test_a_fault_in_a_part_of_the_end_leaves_the_status(project, suite, fault, outcome):
    group, _, name = fault.partition(": ")
    faults, options = GROUPS[group]
    injected, line = faults[name]
    before = injected in {each for each, _ in (EARLY_ALLURE | OF_A_TEST).values()}
    project(outcome, **{"early" if before else "late": injected})

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", *options)

    assert result.ret == EARNED[outcome][1]
    shown = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in shown
    assert "Traceback" not in shown
    *others, last = told(result.outlines)
    assert last.endswith(f"(exit status {result.ret})")
    assert len(others) == bool(line)
    if line:
        result.stdout.fnmatch_lines([f"nfvperf: {line}"])


OUTPUTS = {
    "a pipe whose reader leaves": ("utf-8", "Broken pipe"),
    "a terminal that is closed": ("utf-8", "Input/output error"),
    "a full disk": ("utf-8", NO_SPACE),
    "ASCII": ("ascii", ""),
    "Latin-1": ("latin-1", ""),
}
"""Encoding, and why the output takes no more."""


@pytest.mark.parametrize(("output", "outcome"), in_turn([*OUTPUTS]))
def test_an_output_that_takes_no_more_leaves_the_status(project, output, outcome):
    folder, status = project(outcome), EARNED[outcome][1]
    encoding, why = OUTPUTS[output]
    reader, writer = pty.openpty() if "terminal" in output else os.pipe()
    if "disk" in output:
        os.dup2(os.open("/dev/full", os.O_WRONLY), writer)
    # pytest itself flushes its header, before anything is measured: with -q it has none.
    quiet = ["-q"] if "disk" in output else []
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--nfv-sla", "sla.yaml", "--nfv-report", "none", *quiet, *WITHOUT_HYPOTHESIS],
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writer)
        with os.fdopen(reader, "rb", buffering=0) as shown:
            if "leaves" in output or "closed" in output:
                seen = b""
                while b"results:" not in seen:
                    seen += shown.read(4096)
            elif encoding != "utf-8":
                lines = shown.read().decode(encoding).splitlines()
                assert lines[-1].endswith(f"(exit status {status})")
                assert any(set(line) == {"-"} for line in lines), "the line below a table's head"
        errors = process.communicate()[1]

    assert process.returncode == status
    assert errors.startswith(f"nfvperf: standard output takes no more: {why}. " if why else "")
    assert errors.rstrip().endswith(f"(exit status {status})" if why else "")


BARE = '''
import pytest

class Bare:
    """A terminal reporter with nothing but what pytest itself asks of it."""
    def __init__(self, out):
        self.out = out
    def pytest_internalerror(self, excrepr):
        self.out.write(str(excrepr))

class Writes(Bare):
    """One that can write lines, as pytest-tldr's, and knows no terminal."""
    verbosity, hasmarkup = 0, False
    def write(self, text, **markup):
        self.out.write(text)
    def section(self, title, sep="=", **markup):
        self.write(f"{title}\\n")

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    import sys
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(KIND(sys.stdout), "terminalreporter")
'''


@pytest.mark.parametrize(("kind", "outcome"), in_turn(["Bare", "Writes"]))
def test_another_reporter_may_lack_what_pytests_has(project, suite, kind, outcome):
    folder = project(outcome)
    (folder / "reporter.py").write_text(BARE.replace("KIND", kind))

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "-p", "reporter", "--nfv-report", "none")

    assert result.ret == EARNED[outcome][1]
    assert result.stderr.str() == ""
    assert result.outlines[-1].endswith(f"(exit status {result.ret})")
    result.stdout.fnmatch_lines(["*datapath acceptance*", "evidence: *"])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_junit_file_that_ci_mounts_is_written_in_place(project, suite):
    folder = project("inconclusive")
    mounted, junit = folder / "mounted.xml", folder / "junit.xml"
    mounted.touch(mode=0o640)
    junit.touch()
    suite.run("mount", "--bind", str(mounted), str(junit))
    try:
        result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--junitxml", "junit.xml", "--nfv-report", "none")
    finally:
        suite.run("umount", str(junit))

    assert result.ret == 10
    assert len(told(result.outlines)) == 1
    (case,) = ET.parse(mounted).iter("testcase")
    assert [child.get("type") for child in case if child.tag == "error"] == ["nfvperf.inconclusive"]
    assert sorted(path.name for path in folder.glob("*junit*")) == ["junit.xml"], "no file of ours is left"


def test_a_junit_file_that_is_a_link_stays_one(project, suite):
    folder = project("passed")
    (folder / "artifacts").mkdir()
    (folder / "junit.xml").symlink_to("artifacts/junit.xml")

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--junitxml", "junit.xml", "--nfv-report", "none")

    assert result.ret == 0
    assert (folder / "junit.xml").is_symlink()
    assert "nfvperf.result" in (folder / "artifacts" / "junit.xml").read_text()


def test_a_directory_called_latest_stays_and_ends_no_run(project, suite):
    """Who uploads artifacts may get the link back as a directory."""
    folder = project("passed")
    (folder / "reports" / "latest").mkdir(parents=True)
    (folder / "reports" / "latest" / "evidence.jsonl").write_text("of an earlier run")

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none")

    assert result.ret == 0
    assert (folder / "reports" / "latest" / "evidence.jsonl").read_text() == "of an earlier run"
    assert [path.name for path in (folder / "reports").glob(".latest*")] == []
    (line, _) = told(result.outlines)
    assert "Rename it; this run is 20" in line


def test_a_link_that_points_nowhere_is_renewed(project, suite):
    folder = project("passed")
    (folder / "reports").mkdir()
    (folder / "reports" / "latest").symlink_to("gone")

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none")

    assert (result.ret, len(told(result.outlines))) == (0, 1)
    assert (folder / "reports" / "latest" / "evidence.jsonl").is_file()


def test_what_a_projects_own_conftest_raises_at_the_end_stays(project, suite):
    """It may mean it: coverage too low, an upload that failed."""
    folder = project("passed")
    with (folder / "conftest.py").open("a") as conftest:
        conftest.write("\ndef pytest_sessionfinish():\n    raise OSError('the upload failed')\n")

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none")

    assert result.ret == 1
    assert "OSError: the upload failed" in result.stderr.str()


FILL = """
def pytest_runtest_setup(item):
    file = os.open(run_dir(item.config) / "filled", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(file, b"0" * 4096):
            pass
    except OSError:
        os.close(file)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_fills_up_breaks_the_testbed_and_not_pytest(project, suite):
    folder = project("passed")
    suite.mkdir("small")
    (folder / "mine" / "test_mine.py").write_text(
        SUITE.replace("def test_pdr(", "def test_pdr(n, ").replace(
            "def ", "import pytest\n\n@pytest.mark.parametrize('n', range(2))\ndef ", 1
        )
    )
    with (folder / "conftest.py").open("a") as conftest:
        conftest.write(FILL)
    suite.run("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder / "small"))
    try:
        result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-results", "small", "--nfv-report", "none")
    finally:
        suite.run("umount", str(folder / "small"))

    assert "INTERNALERROR" not in result.stdout.str()
    assert result.ret == 11
    assert "2 testbed broken" in result.outlines[-1]


ODD = """
import pathlib
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("name", ["\\udce9", "\\x1b[2J\\x00", "<b>&amp;|`x`$a$b_{$"])
def test_odd(name, phy2phy, search, sla):
    sla.check(search.throughput(phy2phy, Traffic(frame_size=64)))

def test_says(phy2phy):
    raise AssertionError("read \\udce9\\x1b[2J\\x00\\ufffe in " + __file__)
"""
UNSEEN = [*"\x00\x1b\udce9\ufffe"]


def test_any_text_is_shown_and_stored_everywhere(project, suite, capsys, monkeypatch):
    folder = project("passed")
    (folder / "mine" / "test_mine.py").unlink()
    odd = folder / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (odd / "test_odd.py").write_text(ODD)

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--junitxml", "junit.xml", "--alluredir", "allure")

    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "caf\\udce9/test_odd[[]\\udce9]  *PASS*1/4",
            "caf\\udce9/test_odd[[]\\x1b[[]2J\\x00]  *PASS*2/4",
            "    read \\udce9\\x1b[[]2J\\x00\\ufffe in *caf\\udce9/test_odd.py",
            "E  *AssertionError: read \\udce9\\x1b[[]2J\\x00\\ufffe in *",
            "nfvperf: Failed: of 4 selected tests 1 failed, 3 passed. caf\\udce9/test_odd.py::test_says: read \\udce9*",
        ]
    )
    (line,) = told(result.outlines)[:-1]
    assert line.startswith("nfvperf: cacheprovider failed at the end of the run: UnicodeEncodeError: "), "pytest's own"
    cases = {case.get("classname") for case in ET.parse(folder / "junit.xml").iter("testcase")}
    assert cases == {"caf\\udce9.test_odd"}
    results = [json.loads(path.read_text()) for path in (folder / "allure").glob("*-result.json")]
    assert sorted(each["status"] for each in results) == ["failed", "passed", "passed", "passed"]
    assert [end["data"]["status"] for end in records(folder, "test_end")] == ["passed"] * 3 + ["failed"]

    shown = [result.stdout.str(), *(path.read_text() for path in folder.rglob("*.html"))]
    monkeypatch.chdir(folder)
    for command in (
        ["show"],
        ["show", "--markdown"],
        ["datasheet", "--output", "datasheet.html"],
        ["export", "--output", "exported"],
        ["report"],
    ):
        main(command)
    shown += [capsys.readouterr().out, (folder / "datasheet.html").read_text()]
    shown += [path.read_text() for path in (folder / "exported").iterdir()]
    assert [character for character in UNSEEN if any(character in text for text in shown)] == []


@pytest.mark.parametrize("below", ["", os.fsdecode(b"caf\xe9")])
def test_workers_of_xdist_take_no_path_that_is_not_utf8(project, suite, below):
    folder = project("passed")
    odd = folder / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (odd / "test_odd.py").write_text(SUITE)

    result = suite.runpytest_subprocess("-n", "2", "--nfv-report", "none", *filter(None, [below]))

    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: caf\\udce9* is not UTF-8, and pytest-xdist cannot send it to a worker: rename *"]
    )


CRASHES = {
    "an internal error": ("raise RuntimeError('a plugin')", "Internal error", 3),
    "kill -9": ("os.kill(os.getpid(), 9)", "Killed: the run did not end by itself", 3),
    "kill -9, and a process that it forked lives on": (
        """pid = os.fork()
    while not pid: __import__('time').sleep(60)
    pathlib.Path('child').write_text(str(pid))
    os.kill(os.getpid(), 9)""",
        "Killed: the run did not end by itself",
        3,
    ),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_run_that_died_is_not_running(project, crash, capsys):
    injected, headline, status = CRASHES[crash]
    folder = project("passed", injected)
    command = [sys.executable, "-m", "pytest", "--nfv-sla", "sla.yaml", "--nfv-report", "none", *WITHOUT_HYPOTHESIS]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    try:
        assert main(["show", str(folder / "reports" / "latest")]) == status
        assert capsys.readouterr().out.splitlines()[-1].startswith(headline)
    finally:
        if (folder / "child").exists():
            os.kill(int((folder / "child").read_text()), 9)
