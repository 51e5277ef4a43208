"""``nfvperf compare`` on real OVS-DPDK: a planted handicap is found, and an interrupted run leaves nobody frozen."""

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
from user_project import make_project

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from tests.functional.ovs_support import needs_root, until

pytestmark = [
    needs_root,
    pytest.mark.skipif(read_hugepages().free_mib < 2048, reason="needs 2 GiB of free hugepages, for three OVS-DPDK"),
]

CACHE = build.default_cache_dir()  # now: pytester gives each test another home
SETTING = "handicapped:other_config:emc-insert-inv-prob=1"

SUITE = """
from pathlib import Path
from pytest_nfvperf import Traffic

def test_flows(phy2phy, search, sla, monkeypatch):
    from pytest_nfvperf.runs.forwarding import ForwardingRate
    turn = ForwardingRate.turn

    def watched(self, live, remaining_s):
        Path("turning").touch()
        return turn(self, live, remaining_s)

    monkeypatch.setattr(ForwardingRate, "turn", watched)
    sla.check(search.ndr_pdr(phy2phy, Traffic(flows=100_000)))
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's project, with a run directory of its own: a short path, because sockets are in it."""
    place = Path(f"/run/nfvperf-compare-{os.getpid()}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(place))
    build.build()
    place.mkdir()
    yield make_project(pytester, SUITE).path
    shutil.rmtree(place)


def command(*more: str) -> list[str]:
    nfvperf = [sys.executable, "-m", "pytest_nfvperf.cli.main", "compare", "installed", "handicapped=installed"]
    return [*nfvperf, "--set", SETTING, "--", "mine", "-p", "no:cacheprovider", "--nfv-report", "none", *more]


def test_a_handicap_by_a_setting_is_found(project: Path) -> None:
    """A cache that takes in every one of 100,000 flows costs more than one that takes in every hundredth.

    Steps: compare the installed OVS with itself so set. Verify: slower, with the setting as what differs.
    """
    done = subprocess.run(command("--nfv-profile", "smoke"), cwd=project, capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stdout
    made = json.loads((project / "reports" / "latest" / "comparison.json").read_text())
    (comparison,) = made["comparisons"]
    (side,) = comparison["sides"]
    assert (comparison["how"], side["metrics"][0]["word"]) == ("alternating", "slower")
    assert [one["what"] for one in made["differences"]] == ["emc-insert-inv-prob"]
    assert {each["dut"]["version"] for each in made["sides"]} == {made["sides"][0]["dut"]["version"]}


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
