"""``nfvperf compare`` on real OVS-DPDK: sides with settings of their own; interrupted, it leaves nobody frozen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from user_project import make_project, needs_a_verdict, records

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from tests.functional.ovs_support import needs_root, until

pytestmark = [
    needs_root,
    pytest.mark.skipif(read_hugepages().free_mib < 2048, reason="needs 2 GiB of free hugepages, for three OVS-DPDK"),
]

CACHE = build.default_cache_dir()  # now: pytester gives each test another home
SETTING = "tuned:other_config:emc-insert-inv-prob=1"

SUITE = """
from pathlib import Path
from pytest_nfvperf import Traffic

def test_flows(pvp, search, sla, monkeypatch):
    from pytest_nfvperf.measure.measurements import ForwardingRate
    turn = ForwardingRate.turn

    def watched(self, live, remaining_s):
        Path("turning").touch()
        return turn(self, live, remaining_s)

    monkeypatch.setattr(ForwardingRate, "turn", watched)
    sla.check(search.ndr_pdr(pvp, Traffic(flows=100_000)))
"""

BRIEF = """
from dataclasses import replace
from pytest_nfvperf.model.measure.profile import PROFILES, SMOKE

PROFILES["smoke"] = replace(SMOKE, comparison_budget_s=10.0)
"""
"""After the first look nobody waits for a verdict: what the sides differ in is another test's matter."""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's project, with a run directory of its own: a short path, because sockets are in it."""
    directory = Path(f"/run/nfvperf-compare-{os.getpid()}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(directory))
    build.build()
    directory.mkdir()
    yield make_project(pytester, SUITE).path
    shutil.rmtree(directory)


def command(*more: str) -> list[str]:
    nfvperf = [sys.executable, "-m", "pytest_nfvperf.cli.main", "compare", "installed", "tuned=installed"]
    return [*nfvperf, "--set", SETTING, "--", "mine", "-p", "no:cacheprovider", "--nfv-report", "none", *more]


@pytest.mark.thorough("a whole comparison")
def test_a_side_with_a_setting_alternates_with_one_without(project: Path) -> None:
    """Steps: compare the installed OVS with itself, so set. Verify: figures from turns; only one has the setting."""
    (project / "mine" / "conftest.py").write_text(BRIEF)
    done = subprocess.run(command("--nfv-profile", "smoke"), cwd=project, capture_output=True, text=True, check=False)

    made = json.loads((project / "reports" / "latest" / "comparison.json").read_text())
    if not made["comparisons"]:  # no search of a side came to its end
        needs_a_verdict(done.returncode, done.stdout)
    (comparison,) = made["comparisons"]
    (side,) = comparison["sides"]
    assert (comparison["how"], side["state"]) == ("alternating", "measured")
    assert side["metrics"], done.stdout
    assert all(metric["blocks"] >= 4 and 0.3 < metric["ratio"] < 3 for metric in side["metrics"])
    # On a machine that disturbs every window there is no rate, and nobody can tell.
    word = next((metric["word"] for metric in side["metrics"] if metric["decides"]), "cannot tell")
    assert done.returncode == made["exit_status"] == {"slower": 1, "cannot tell": 10}.get(word, 0)
    assert [one["what"] for one in made["differences"]] == ["emc-insert-inv-prob"]
    texts = [record["data"]["text"] for record in records(project, "attachment")]
    tuned = ["emc-insert-inv-prob=1" in text for text in texts if "pmd-cpu-mask" in text]
    assert (tuned.count(True), tuned.count(False) > 0) == (1, True)
    assert {each["dut"]["version"] for each in made["sides"]} == {made["sides"][0]["dut"]["version"]}


@pytest.mark.thorough("kill -9 of frozen subjects is in make test")
def test_ctrl_c_leaves_nobody_frozen(project: Path) -> None:
    """Steps: interrupt a comparison while sides are frozen. Verify: no process is left, and no directory of the run."""
    with subprocess.Popen(command(), cwd=project, stdout=subprocess.PIPE, text=True) as child:
        assert until((project / "turning").exists, deadline_s=60)

        def frozen() -> bool:
            theirs = psutil.Process(child.pid).children(recursive=True)
            return any(one.status() == psutil.STATUS_STOPPED for one in theirs)

        assert until(frozen, deadline_s=20)
        theirs = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 2, out
    _, alive = psutil.wait_procs(theirs, timeout=10)
    assert alive == []
    assert list(Path(os.environ["NFVPERF_RUN_DIR"]).glob("*/")) == []
    assert json.loads((project / "reports" / "latest" / "comparison.json").read_text())["exit_status"] == 2
