"""Ten times what ``make run`` runs, one after the other: how long each takes, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Figure, last_line
from pytest_nfvperf.model.display import format_elapsed

_RUNS = 10
_MOST_S = 9 * 60.0


def whole_runs() -> list[Figure]:
    """How many end green, and the longest; pytest's last line of those that do not."""
    with TemporaryDirectory() as results:
        taken = [_run(Path(results)) for _ in range(_RUNS)]
    longest = max(seconds for seconds, _, _ in taken)
    green = sum(status == 0 for _, status, _ in taken)
    times = ", ".join(format_elapsed(seconds) for seconds, _, _ in taken)
    ends = "; ".join(last for _, status, last in taken if status != 0)
    return [
        Figure("whole quick runs that end green", f"{green} of {_RUNS}", f"{_RUNS} of {_RUNS}", green == _RUNS, ends),
        Figure("the longest of them", format_elapsed(longest), "<= 9 min", longest <= _MOST_S, times),
    ]


def _run(results: Path) -> tuple[float, int, str]:
    """Seconds, exit status, last line."""
    command = ["setpriv", "--pdeathsig", "TERM"]  # killed with this bench a run would go on, and hold its lock
    command += [sys.executable, "-m", "pytest", "suites/", "--nfv-profile", "quick", f"--nfv-results={results}"]
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    last = last_line(ended.stdout or ended.stderr)
    seconds = time.monotonic() - began
    print(f"  {format_elapsed(seconds)}: {last}", flush=True)
    return seconds, ended.returncode, last
