"""Ten bisections by rates over real versions, one of which brought a slowdown of a tenth in: which one is named?"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.planted import SEED, bisected, compiled, figures, rows, script
from benchmarks.prefixes import prefix
from benchmarks.table import Figure
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate
from pytest_nfvperf.features.bisect.candidates import NotUsableError
from pytest_nfvperf.features.bisect.trials import compare

_COSTS = 0.10
"""Share of the forwarding rate."""

_TESTS = ("suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]", "--nfv-profile", "quick")
_CALIBRATED_BY = 40
"""Additions a frame, of which the first comparison tells the cost: some 20 % of what a frame takes."""

_CALIBRATED_IN = 16
"""Blocks at most."""


def slower_bisections() -> list[Figure]:
    """Bisections that named the right version, how many versions they measured, and how long they took."""
    installed = locate()
    with TemporaryDirectory() as name:
        directory = Path(name)
        library = compiled(directory)
        time_share = _time_share(directory, installed, library)
        if isinstance(time_share, str):
            return [Figure("what a planted slowdown costs", "not measured", reached=False, detail=time_share)]
        additions = round(_CALIBRATED_BY * (1 / (1 - _COSTS) - 1) / time_share)
        made = rows(directory, installed, script(library, additions))
        ended = [bisected(one, "--by", "rates", "--", *_TESTS) for one in made]
        return figures(ended, f"rates, {_COSTS:.0%} slower", f"{additions} additions a frame, seed {SEED}")


def _time_share(directory: Path, installed: OvsBinaries, library: Path) -> float | str:
    """How much longer a frame takes with the additions of the calibration; or why that is not known."""
    plain = prefix(directory / "as-it-is", installed, "")
    slower = prefix(directory / "slower", installed, script(library, _CALIBRATED_BY))
    try:
        found = compare(str(plain), str(slower), _TESTS, directory / "calibration", blocks=_CALIBRATED_IN)
    except NotUsableError as error:
        return str(error)
    ratios = [figure.log_ratio for figure in found.figures if figure.metric == "forwarding_rate"]
    if not ratios or ratios[0] >= 0:
        return found.note or f"the rates are no lower: {found.figures}"
    return math.expm1(-ratios[0])
