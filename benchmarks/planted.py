"""Bisections of a planted slowdown, over prefixes of this machine's Open vSwitch with DPDK that real frames go through.

From one version on a library is preloaded (slower_vhost.c) that lets each frame cost more.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.prefixes import MOST_MEASURED, VERSIONS, Row, row
from benchmarks.table import Figure, last_line
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.features.bisect.events import LOG
from pytest_nfvperf.model.display import format_elapsed

BISECTIONS, SEED = 10, 2544
_COMPILED_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A bisection. ``beyond``: versions between the ends that were measured; ``costs``: of the bad end, as measured."""

    right: bool
    beyond: int
    seconds: float
    last: str
    costs: str


def rows(directory: Path, installed: OvsBinaries, lines: str) -> list[Row]:
    """One a bisection, in this directory; from a version on that is drawn by lot each runs these lines first."""
    chances = random.Random(SEED)  # noqa: S311 - versions, no secret
    return [row(directory / f"{at:02}", installed, chances.randrange(1, VERSIONS), lines) for at in range(BISECTIONS)]


def bisected(versions: Row, *arguments: str) -> Ended:
    """Bisect a row; ``arguments`` are those of ``nfvperf bisect`` behind the versions."""
    log = versions.prefixes[0].parent / "log"
    began = time.monotonic()
    done = subprocess.run(versions.bisect("--log", str(log), *arguments), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    right = versions.named_by(done)
    said = f"{'found' if right else 'NOT FOUND'} in {format_elapsed(seconds)}"
    print(f"  {versions.culprit} {said}\n{done.stdout}{done.stderr}", flush=True)
    ends = next((line for line in done.stdout.splitlines() if line.startswith("The ends, ")), "")
    return Ended(right, len(_beyond_the_ends(log / LOG)), seconds, last_line(done.stdout + done.stderr), ends)


def figures(ended: Sequence[Ended], what: str, planted: str) -> list[Figure]:
    """How many name the right version, how many versions they measured, and how long they took.

    Args:
        ended: all of a bench.
        what: they went by, and looked for.
        planted: what the slowdown is, and how it was drawn.
    """
    right = sum(one.right for one in ended)
    wrong = "; ".join(one.last for one in ended if not one.right)
    usual = median(one.beyond for one in ended)
    times = ", ".join(format_elapsed(one.seconds) for one in ended)
    return [
        Figure(
            f"bisections by {what} in one of {VERSIONS - 1} real versions, that name it",
            f"{right} of {len(ended)}",
            f"{BISECTIONS} of {BISECTIONS}",
            right == BISECTIONS,
            "; ".join(filter(None, (planted, wrong))),
        ),
        Figure(
            "versions measured beyond the ends, in the middle",
            f"{usual:g}",
            f"<= {MOST_MEASURED}",
            usual <= MOST_MEASURED,
            f"at most {max(one.beyond for one in ended)}",
        ),
        Figure("how long they took", times),
    ]


def _beyond_the_ends(log: Path) -> set[int]:
    """Numbers of the versions between the ends that were compared with the good one; none where it began no log."""
    seen = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {one["version"] for one in seen if one["kind"] == "compared" and not one["again"]} - {VERSIONS - 1}


def script(library: Path, additions: int) -> str:
    """Lines that preload it; ``additions``: that each frame costs more, of three instructions each."""
    return f"export LD_PRELOAD={library} NFVPERF_ADDITIONS={additions}\n"


def compiled(directory: Path) -> Path:
    """The library, in this directory."""
    made = directory / "slower_vhost.so"
    source = Path(__file__).with_name("slower_vhost.c")
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    run(["cc", *options, "-o", str(made), str(source), "-ldl"], deadline_s=_COMPILED_S)
    return made
