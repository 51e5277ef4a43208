"""Ten bisections by rates over real versions, one of which brought a slowdown of a tenth in: which one is named?

The versions are seventeen prefixes of this machine's Open vSwitch, with DPDK, which the suite's own frames go through.
From one version on a library is preloaded (slower_vhost.c) that lets each frame cost more.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.prefixes import MOST_MEASURED, VERSIONS, Row, prefix, row
from benchmarks.table import Figure, last_line
from pytest_nfvperf.adapters.bisecting.comparing import compare
from pytest_nfvperf.adapters.bisecting.event_log import LOG
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.display import format_elapsed

_BISECTIONS, _SEED = 10, 2544
_COSTS = 0.10
"""Share of the forwarding rate."""

_TESTS = ("suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]", "--nfv-profile", "quick")
_CALIBRATED_BY = 40
"""Additions a frame, of which the first comparison tells the cost: some 20 % of what a frame takes."""

_CALIBRATED_IN = 16
"""Blocks at most."""

_COMPILED_S = 60.0


@dataclass(frozen=True, slots=True)
class _Ended:
    """``beyond``: versions between the ends that were measured."""

    right: bool
    beyond: int
    seconds: float
    last: str


def slower_bisections() -> list[Figure]:
    """Bisections that named the right version, how many versions they measured, and how long they took."""
    chances = random.Random(_SEED)  # noqa: S311 - versions, no secret
    installed = locate()
    with TemporaryDirectory() as name:
        place = Path(name)
        library = _library(place)
        time_share = _time_share(place, installed, library)
        if isinstance(time_share, str):
            return [Figure("what a planted slowdown costs", "not measured", reached=False, detail=time_share)]
        additions = round(_CALIBRATED_BY * (1 / (1 - _COSTS) - 1) / time_share)
        rows = (
            row(place / f"{at:02}", installed, chances.randrange(1, VERSIONS), _script(library, additions))
            for at in range(_BISECTIONS)
        )
        return _figures([_bisected(one) for one in rows], f"{additions} additions a frame, seed {_SEED}")


def _figures(ended: Sequence[_Ended], planted: str) -> list[Figure]:
    right = sum(one.right for one in ended)
    wrong = "; ".join(one.last for one in ended if not one.right)
    usual = median(one.beyond for one in ended)
    times = ", ".join(format_elapsed(one.seconds) for one in ended)
    return [
        Figure(
            f"bisections by rates, {_COSTS:.0%} slower in one of {VERSIONS - 1} real versions, that name it",
            f"{right} of {_BISECTIONS}",
            f"{_BISECTIONS} of {_BISECTIONS}",
            right == _BISECTIONS,
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


def _bisected(versions: Row) -> _Ended:
    log = versions.prefixes[0].parent / "log"
    began = time.monotonic()
    done = subprocess.run(
        versions.bisect("--by", "rates", "--log", str(log), "--", *_TESTS), capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    right, last = versions.named_by(done), last_line(done.stdout + done.stderr)
    said = f"{'found' if right else 'NOT FOUND'} in {format_elapsed(seconds)}"
    print(f"  {versions.culprit} {said}\n{done.stdout}{done.stderr}", flush=True)
    return _Ended(right, len(_beyond_the_ends(log / LOG)), seconds, last)


def _beyond_the_ends(log: Path) -> set[int]:
    """Numbers of the versions between the ends that were compared with the good one; none where it began no log."""
    seen = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {one["version"] for one in seen if one["kind"] == "compared" and not one["again"]} - {VERSIONS - 1}


def _time_share(place: Path, installed: OvsBinaries, library: Path) -> float | str:
    """How much longer a frame takes with the additions of the calibration; or why that is not known."""
    plain = prefix(place / "as-it-is", installed, "")
    slower = prefix(place / "slower", installed, _script(library, _CALIBRATED_BY))
    found = compare(str(plain), str(slower), _TESTS, place / "calibration", blocks=_CALIBRATED_IN)
    if isinstance(found, str):
        return found
    ratios = [figure.log_ratio for figure in found.figures if figure.metric == "forwarding_rate"]
    if not ratios or ratios[0] >= 0:
        return found.note or f"the rates are no lower: {found.figures}"
    return math.expm1(-ratios[0])


def _script(library: Path, additions: int) -> str:
    return f"export LD_PRELOAD={library} NFVPERF_ADDITIONS={additions}\n"


def _library(place: Path) -> Path:
    made = place / "slower_vhost.so"
    source = Path(__file__).with_name("slower_vhost.c")
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    run(["cc", *options, "-o", str(made), str(source), "-ldl"], deadline_s=_COMPILED_S)
    return made
