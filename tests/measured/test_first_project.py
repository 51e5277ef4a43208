"""What ``nfvperf init`` writes, on the real machine; tests/plugin/test_wheel.py runs the whole tutorial, simulated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded import build
from tests.functional.ovs_support import needs_root

pytestmark = needs_root
CACHE = build.default_cache_dir()  # before pytester has another home


def test_a_first_project_measures_at_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: init, then the shorter of its tests, called in the directory of the suite.

    Verify: it has a verdict by its SLA, and this machine as testbed.
    """
    build.build()
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    written = pytester.run(Path(sys.prefix) / "bin/nfvperf", "init", ".")
    assert written.ret == 0
    written.stdout.fnmatch_lines(["wrote to .: conftest.py, *, testbed.yaml", "run: pytest"])

    monkeypatch.chdir(pytester.path / "suites/first")
    # Whether a busy machine lets a figure be judged is not what this test asks.
    result = pytester.runpytest_subprocess("-k", "fixed_load", "--nfv-report", "none", "--nfv-inconclusive", "warn")

    assert result.ret in {0, 10}, result.stdout.str()
    lines = (pytester.path / "suites/first/reports/latest/evidence.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record for record in records if record["kind"] == "trial"]
    assert "FAIL" not in result.stdout.str()
