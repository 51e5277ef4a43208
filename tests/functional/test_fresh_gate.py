"""What runs in the namespaces of .ci/fresh ends with the gate, however that ends, and its mounts with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.process import wait_until
from tests.functional.ovs_support import needs_root

pytestmark = needs_root
ROOT = Path(__file__).parents[2]
GATE = """
import sys
from tests.fresh.namespaces import run_contained
script = "mount -t tmpfs $0 /mnt && echo mounted && sleep 600 & wait"
sys.exit(run_contained(["sh", "-c", script, sys.argv[1]]))
"""


def mounted(marker: str) -> list[str]:
    """Processes, of whatever namespace, that see the mount."""
    found = []
    for table in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if marker in table.read_text():
                found.append(table.parent.name)
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(each, marks=pytest.mark.thorough("another signal")) for each in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_nothing_is_left(number: signal.Signals) -> None:
    marker = f"nfvperf-fresh-test-{os.getpid()}"
    command = ["env", "--default-signal=INT", sys.executable, "-c", GATE, marker]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as gate:
        assert gate.stdout is not None
        assert gate.stdout.readline() == "mounted\n"
        assert mounted(marker), "seen in the namespace"
        assert marker not in Path("/proc/self/mountinfo").read_text(), "and not outside"
        gate.send_signal(number)
        gate.wait(timeout=5)
    wait_until(lambda: not mounted(marker), "all of the namespace to end", 5)


def test_the_exit_status_is_the_commands() -> None:
    code = (
        "import sys; from tests.fresh.namespaces import run_contained; sys.exit(run_contained(['sh', '-c', 'exit 3']))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 3
