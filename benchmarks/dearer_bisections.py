"""Ten bisections by instructions over real versions, one of which lets a frame cost a hundredth more: which is named?

A poll-mode thread's instructions are counted, in virtual time. They do not mind what else the machine does, so two
bisections run at a time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.planted import SEED, Ended, bisected, compiled, figures, rows, script
from benchmarks.prefixes import Row
from benchmarks.table import Figure
from pytest_nfvperf.adapters.ovs.installation import locate

_ADDITIONS = 3
"""A frame: nine instructions, of some 900."""

_TESTS = ("suites/cost/test_instructions.py::test_one_bridge[dpdk]", "--nfv-profile", "quick")
_AT_A_TIME = 2


def dearer_bisections() -> list[Figure]:
    """Bisections that named the right version, how many versions they measured, and how long they took."""
    # The guest sees it; whether it sees a /tmp of its own file system was not tried.
    with TemporaryDirectory(dir="/var/tmp") as name, ThreadPoolExecutor(_AT_A_TIME) as pool:
        directory = Path(name)
        lines = script(compiled(directory), _ADDITIONS)
        ended = list(pool.map(_bisected, rows(directory, locate(), lines)))
    seen = ended[0].costs or "the first did not say what it costs"
    planted = f"{3 * _ADDITIONS} instructions a frame ({seen}), seed {SEED}"
    return figures(ended, "instructions, a hundredth dearer", planted)


def _bisected(versions: Row) -> Ended:
    return bisected(versions, "--by", "instructions", "--", *_TESTS)
