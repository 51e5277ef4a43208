"""A user's project: the conftest line of the documents and one suite. For tests that run pytest in pytest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CONFTEST = """
pytest_plugins = ["pytest_nfvperf.fixtures.all"]
"""

SUITE = '''
import pytest
from pytest_nfvperf import Traffic, sweep

@sweep("frame_size", [64, 1518], quick={64})
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    """Steps: search. Verify: the SLA."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
'''

IN_TRIAL = """
def in_trial(session, what):
    "Do it once, when the trial begins: not in the warm-up, nor in between."
    generator = session.rig.generator()
    run_trial = generator.run_trial
    def watched(spec):
        if spec.purpose != "warm-up":
            generator.run_trial = run_trial
            what()
        return run_trial(spec)
    generator.run_trial = watched
"""
"""Of a test file: does something to the testbed while a trial runs."""


def make_project(pytester: pytest.Pytester, suite: str = SUITE, conftest: str = CONFTEST) -> pytest.Pytester:
    """Write the project: conftest.py and mine/test_mine.py."""
    pytester.makeconftest(conftest)
    folder = pytester.path / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "test_mine.py").write_text(suite)
    return pytester


def records(project: Path, kind: str) -> list[dict[str, Any]]:
    """Evidence records of one kind from the newest run."""
    lines = (project / "reports" / "latest" / "evidence.jsonl").read_text().splitlines()
    return [record for line in lines if (record := json.loads(line))["kind"] == kind]
