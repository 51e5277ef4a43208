"""Allure 3's report of three runs, in Chromium: the times of steps, trials that lost frames, the trend.

Allure comes by npm, which keeps it: only the first run on a machine needs a registry.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.browser_support import CHROMIUM, chromium
from tests.plugin.test_ci_recipes import SLA
from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)"),
    pytest.mark.thorough("in a browser"),
]
NPM = shutil.which("npm")
PACKAGE = "allure@3.18.0"
LIMITS = (">= 3.5 Mpps", ">= 4.5 Mpps", ">= 3.5 Mpps")
"""Of PDR, run by run: the second fails."""
TITLES = """[...document.querySelectorAll('[data-testid="test-result-step-title"]')]"""
STEPS = """[...document.querySelectorAll('[data-testid="test-result-step-header"]')].map(step => [
    step.querySelector('[data-testid="test-result-step-title"]').innerText,
    step.querySelector('[data-testid^="tree-leaf-status-"]').dataset.testid.replace("tree-leaf-status-", ""),
    step.innerText.trim().split("\\n").pop(),
])"""
"""What a reader sees of each step: its title, its status, how long it lasted."""
HISTORY = """[...document.querySelectorAll('[data-testid="test-result-history-item"]')].map(
    item => item.querySelector('[data-testid^="tree-leaf-status-"]').dataset.testid)"""


@pytest.fixture(scope="module")
def allure() -> str:
    """Its command."""
    if NPM is None:
        pytest.skip("needs npm, which installs Allure 3")
    command = [
        NPM,
        "exec",
        "--yes",
        "--fetch-retries=0",
        "--prefer-offline",
        "--package",
        PACKAGE,
        "--call",
        "command -v allure",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return done.stdout.strip()


@pytest.fixture
def report(allure: str, pytester: pytest.Pytester) -> Iterator[str]:
    """The page of the last of three runs, which has the history of the others."""
    project(pytester, SEARCH)
    for number, limit in enumerate(LIMITS):
        (pytester.path / "mine/sla.yaml").write_text(SLA.format(limit=limit))
        arguments = ("--nfv-report", "none", "--clean-alluredir", "--alluredir", "results")
        assert pytester.runpytest_subprocess(*arguments).ret == (limit == LIMITS[1])
        command = [allure, "generate", "--config", "results/allurerc.json", "--output", f"report-{number}", "results"]
        subprocess.run(command, capture_output=True, text=True, check=True)
    handler = partial(Quiet, directory=pytester.path / "report-2")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Allure's page cannot be opened from a disk."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_reader_sees_times_lossy_trials_and_the_trend(report: str) -> None:
    runs = [json.loads(line)["testResults"] for line in Path("allure-history.jsonl").read_text().splitlines()]
    assert [[test["status"] for test in run.values()] for run in runs] == [["passed"], ["failed"], ["passed"]]
    assert len({name for run in runs for name in run}) == 1, "one test, whatever became of it"
    (file,) = Path("report-2/data/test-results").glob("*.json")
    with chromium() as tab:
        tab.call("Page.navigate", url=f"{report}#{file.stem}")
        tab.wait(f"{TITLES}.some(title => title.innerText.includes('trial-0002'))", "the steps of the test")
        shown = {title.partition(":")[0]: (status, lasted) for title, status, lasted in tab.ask(STEPS)}
        tab.call("Page.navigate", url=f"{report}#{file.stem}/history")
        tab.wait(f"{HISTORY}.length == 2", "the history of the test")
        assert [icon.rpartition("-")[2] for icon in tab.ask(HISTORY)] == ["failed", "passed"], "the newest first"
    trials = [name for name in shown if name.startswith("trial-")]
    assert shown["mlrsearch"][0] == "passed"
    assert milliseconds(shown["mlrsearch"][1]) == sum(milliseconds(shown[name][1]) for name in trials)
    assert shown["trial-0001 · warm-up"] == ("skipped", "600ms")
    assert shown["trial-0002 · search"] == ("failed", "300ms"), "it lost more than half of its frames"
    assert shown["trial-0003 · search"] == ("passed", "300ms")
    assert (trials[-1].endswith("confirmation of ndr"), shown[trials[-1]][0]) == (True, "passed")
    assert shown["PASS"][0] == "passed"


def milliseconds(shown: str) -> int:
    """Of a time as Allure shows it, such as ``1s 100ms``."""
    units = {"m": 60_000, "s": 1000, "ms": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(ms|m|s)", shown))
