"""A real TRex on emulated PCI NICs of the virtual lab, where NFV_TREX_DIR names its directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab import ADDRESSES, LabNics, run_in_lab
from pytest_nfvperf.features.virtual_time.guest_run import SHARED
from tests.functional.ovs_support import clean_run
from tests.functional.trex_support import VARIABLE, needs_trex
from tests.kernel.inner_tests import pytest_command

pytestmark = [pytest.mark.kernel, pytest.mark.lab, needs_trex]

SIZES = (512, 1518)
LOAD_FPS, SECONDS = 200, 4.0
GENERATOR = """
generator:
  engine: trex
  server: 127.0.0.1
  client: {path}
  ports: [0, 1]
"""
TEST = f"""
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("size", {SIZES})
def test_counts(size, phy2phy, search):
    search.loss_at(phy2phy, Traffic(frame_size=size), {LOAD_FPS}, {SECONDS})
"""


def test_trex_counts_each_frame(kernel: Kernel, tmp_path: Path) -> None:
    trex = os.environ[VARIABLE]
    lines = LabNics().testbed().splitlines(keepends=True)
    others = "".join(line for line in lines if not line.startswith("generator:"))
    (tmp_path / "trex.yaml").write_text(others + GENERATOR.format(path=trex))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pytest_nfvperf.fixtures.all"]\n')
    (tmp_path / "test_trex.py").write_text(TEST)
    options = {"testbed": SHARED / "trex.yaml", "results": SHARED / "results", "report": "none"}
    words = [f"--nfv-{name}={value}" for name, value in options.items()]
    run = pytest_command(f"--rootdir={SHARED}", "-W", "default:CPU 0 is shared", str(SHARED / "test_trex.py"), *words)
    server = [sys.executable, "-m", "tests.trex_server", trex, *ADDRESSES[2:], "--", *run]
    mounted = ["sh", "-c", 'mkdir -p /mnt/huge && mount -t hugetlbfs nodev /mnt/huge && exec "$@"', "sh", *server]
    with clean_run() as journal:
        ended = run_in_lab(journal, kernel, mounted, tmp_path, LabNics(), deadline_s=500)
    assert ended.status == 0, ended.stdout + ended.stderr
    results = read_run(next(path for path in (tmp_path / "results").iterdir() if path.is_dir()))
    assert {outcome.label["frame_size"] for outcome in results.outcomes.values()} == {str(size) for size in SIZES}
    for outcome in results.outcomes.values():
        (point,) = outcome.loss_curve
        assert (point.lost_frames, point.offered_frames) == (0, 2 * LOAD_FPS * SECONDS)
