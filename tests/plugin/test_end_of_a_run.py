"""The end of a run never turns a pass into a failure: a fault in each part of it leaves the status that tests earned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from test_judging import SIMULATED, SLA
from user_project import CONFTEST, records

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
import errno, io, os, pathlib, pytest

def refuse(function, name, error, module=os, says=b""):
    """Let calls of a function of the system fail whose arguments name a path that ends so, or whose data say so."""
    real = getattr(module, function)
    def refusing(first, *more, **named):
        told = [first, *more]
        data = [bytes(one) for one in told if isinstance(one, (bytes, bytearray, memoryview))]
        paths = [os.fspath(one) for one in told if isinstance(one, (str, os.PathLike))]
        if any(says in one for one in data) if says else any(path.endswith(name) for path in paths):
            raise OSError(error, os.strerror(error), name)
        return real(first, *more, **named)
    setattr(module, function, refusing)

def refuse_file(name, error):
    refuse("open", name, error, module=io)
    refuse("open", name, error)
    import builtins
    builtins.open = io.open

def breaks(place, name, error=None):
    """Let a function of ours raise."""
    import importlib
    module = importlib.import_module("pytest_nfvperf." + place)
    def broken(*arguments, **named):
        raise error or TypeError("broken by the test")
    setattr(module, name, broken)

def run_dir(config):
    from pytest_nfvperf.plugin.rundir import RUN_DIR_KEY
    return config.stash[RUN_DIR_KEY]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    result = yield
    inject(session.config)
    return result
'''

FAULTS = {
    # name: (what happens when the tests have ended, what the line says; "" for none: there is another way)
    "the page is a directory": ("(run_dir(config) / 'report.html').mkdir()", "the report cannot be written: Is a dir*"),
    "the page on a full disk": (
        "refuse_file(f'.report.html.{os.getpid()}', errno.ENOSPC)",
        "the report cannot be written: No space left on device*; then: nfvperf report *",
    ),
    "the page is not permitted": (
        "refuse_file(f'.report.html.{os.getpid()}', errno.EACCES)",
        "the report cannot be written: Permission denied*; then: nfvperf report *",
    ),
    "the page's renderer": (
        "breaks('adapters.report.html', '_rendered')",
        "the report cannot be written: TypeError: broken by the test (*; then: nfvperf report *",
    ),
    "charts' folder is a file": (
        "(run_dir(config) / 'charts').write_text('')",
        "charts cannot be written as files: File exists: *",
    ),
    "charts on a full disk": (
        "refuse_file('.png', errno.ENOSPC)",
        "charts cannot be written as files: No space left on device*",
    ),
    "a chart's renderer": (
        "breaks('adapters.report.charts', 'to_svg')",
        "a chart of the report cannot be drawn: TypeError: broken by the test (*",
    ),
    "a warning that is an error": (
        "import warnings; from pytest_nfvperf.adapters.report import charts as c; real = c.to_svg\n"
        "    c.to_svg = lambda *a: (warnings.warn('a glyph is missing'), real(*a))[1]\n"
        "    warnings.simplefilter('error')",
        "",
    ),
    "the JUnit file is a directory": (
        "pathlib.Path('junit.xml').mkdir()",
        "junitxml failed at the end of the run: Is a directory: *junit.xml",
    ),
    "the JUnit file on a full disk": (
        "refuse_file('/junit.xml', errno.ENOSPC)",
        "junitxml failed at the end of the run: No space left on device: *junit.xml",
    ),
    "the JUnit file cannot be replaced": ("refuse('replace', 'junit.xml', errno.EBUSY)", ""),
    "the JUnit file is no XML": (
        "breaks('adapters.report.junit_kinds', 'write_whole', ValueError('no XML'))",
        "the JUnit file does not say what became of each test: ValueError: no XML (*",
    ),
    "Allure's results on a full disk": (
        "refuse_file('-result.json.tmp', errno.ENOSPC)",
        "results for Allure are missing: No space left on device*",
    ),
    "Allure's renderer": (
        "breaks('plugin.concluding', '_tell_allure')",
        "results for Allure are missing: TypeError: broken by the test (*",
    ),
    "the table's renderer": (
        "breaks('plugin.terminal', 'run_table')",
        "the table cannot be shown: TypeError: broken by the test (*; then: nfvperf show *",
    ),
    "the lines' renderer": (
        "breaks('plugin.terminal', 'test_lines')",
        "the summary cannot be shown: TypeError: broken by the test (*; then: nfvperf show *",
    ),
    "latest is a directory": (
        "(run_dir(config).parent / 'latest').unlink(); (run_dir(config).parent / 'latest').mkdir()",
        "the link to the latest run was not renewed: */latest is a directory, and no link of ours, so it stays*",
    ),
    "latest is a file": (
        "(run_dir(config).parent / 'latest').unlink(); (run_dir(config).parent / 'latest').write_text('mine')",
        "the link to the latest run was not renewed: */latest is a file, and no link of ours, so it stays*",
    ),
    "latest without links": (
        "refuse('symlink', f'.latest-{os.getpid()}', errno.EPERM)",
        "the link to the latest run was not renewed: Operation not permitted: */latest",
    ),
    "the evidence's end on a full disk": (
        """refuse('write', '', errno.ENOSPC, says=b'"kind":"run_end"')""",
        "the run was not taken down as a whole: evidence file * cannot take record run_end-0001: No space left*",
    ),
    "the evidence cannot be synced": (
        "def fails(fd): raise OSError(errno.EIO, os.strerror(errno.EIO))\n    os.fsync = fails",
        "the run was not taken down as a whole: evidence file * cannot take record run_end-0001: Input/output error*",
    ),
    "the evidence cannot be read": (
        "refuse_file('evidence.jsonl', errno.EIO)",
        "the evidence cannot be read: Input/output error: evidence.jsonl; the status is by what the tests' own *",
    ),
    "the evidence is damaged": (
        "(run_dir(config) / 'evidence.jsonl').open('a').write('damaged\\n')",
        "the evidence cannot be read: */evidence.jsonl: *; the status is by what the tests' own reports say",
    ),
    "the conclusion": (
        "breaks('plugin.concluding', 'conclude')",
        "the evidence cannot be read: TypeError: broken by the test (*; the status is by what the tests' own *",
    ),
    "the testbed's end": (
        "from pytest_nfvperf.backends.simulated import SimulatedBackend as B\n"
        "    def fails(self): raise RuntimeError('a leftover')\n    B.close = fails",
        "the run was not taken down as a whole: RuntimeError: a leftover (*; nfvperf clean removes what is left",
    ),
    "pytest's cache": ("config.cache._cachedir.mkdir(parents=True); refuse_file('lastfailed', errno.EIO)", None),
}


@pytest.fixture
def project(suite):
    """Makes a project whose tests earn a status, and in which something happens once they have ended."""

    def make(outcome: str, injected: str = "pass") -> Path:
        requires, _ = EARNED[outcome]
        (suite.path / "mine" / "test_mine.py").write_text(SUITE)
        suite.makeconftest(f"{CONFTEST}{SIMULATED.format(dut='4e6')}{HELPERS}\ndef inject(config):\n    {injected}\n")
        suite.makefile(".yaml", sla=SLA.format(require=requires))
        return suite.path

    return make


OPTIONS = ("--nfv-sla", "sla.yaml", "--junitxml", "junit.xml", "--alluredir", "allure")


@pytest.mark.parametrize("outcome", EARNED)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_part_of_the_end_leaves_the_status(project, suite, fault, outcome):
    injected, line = FAULTS[fault]
    project(outcome, injected)

    result = suite.runpytest_subprocess(*OPTIONS)

    assert result.ret == EARNED[outcome][1]
    shown = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in shown
    assert "Traceback" not in shown.partition("short test summary")[0].replace("", "")
    result.stdout.fnmatch_lines([f"nfvperf: *(exit status {result.ret})"])
    if line:
        result.stdout.fnmatch_lines([f"nfvperf: {line}"])
    elif line == "":
        assert [one for one in result.outlines if one.startswith("nfvperf: ")][1:] == [result.outlines[-1]]
