"""``nfvperf compare`` of two versions, as figures of a bisection."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from pytest_nfvperf.adapters.bisecting.child import run_child
from pytest_nfvperf.adapters.bisecting.one_run import NO_PAGE, OUTPUT
from pytest_nfvperf.adapters.process.process import tail
from pytest_nfvperf.model.bisect.seen import MetricDifference
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import EXIT_STATUS, RunFate
from pytest_nfvperf.model.measure.instruction_cost import VIRTUAL_METRICS

DOCUMENT = "comparison.json"
BASE, VERSION = "base", "version"
_SCHEMA = 1
ROUNDS = 6
"""Builds of each side whose instructions are counted: five bound a ratio, six also if one is spoiled. What equal builds
differ by, a bisection learns from all versions, so it needs no second build of the base."""
INSTRUCTIONS_ERROR = 0.0003
"""Least standard error of the logarithm of a ratio of instructions: readings of one build may all be the same."""


@dataclass(frozen=True, slots=True)
class ComparisonAnswer:
    """What a comparison says.

    Attributes:
        blocks: of fresh builds, of the figure that has most.
        figures: those with an interval.
        note: why there is none.
    """

    blocks: int
    figures: tuple[MetricDifference, ...]
    note: str = ""


def compare(
    base: str, version: str, arguments: Sequence[str], results: Path, *, blocks: int | None
) -> ComparisonAnswer | str:
    """Compare two versions.

    Args:
        base: what the version is compared with, as for ``--nfv-ovs``.
        version: likewise.
        arguments: of pytest.
        results: a new directory, for this comparison alone.
        blocks: of fresh builds, after which it ends though it tells nothing yet; None: count instructions.

    Returns:
        The figures; or why the version does not do what the tests need, though the base does.

    Raises:
        ConfigError: the arguments cannot be used.
        TestbedError: there is no comparison, and it is not the version's fault.
    """
    results.mkdir(parents=True)
    output = results / OUTPUT
    sides = [f"{BASE}={base}", f"{VERSION}={version}"]
    command = [sys.executable, "-m", "pytest_nfvperf.cli.main", "compare", *sides, "--", *arguments]
    counting = ["--nfv-virtual-time", "--nfv-compare-rounds", str(ROUNDS)]
    most = counting if blocks is None else ["--nfv-compare-blocks", str(blocks)]
    status = run_child([*command, *most, *NO_PAGE, "--nfv-results", str(results)], output)
    documents = sorted(results.glob(f"2*/{DOCUMENT}"))
    if not documents:
        usage = status in {EXIT_STATUS[RunFate.USAGE], EXIT_STATUS[RunFate.EMPTY]}
        what = (
            f"the comparison ended with status {status}, and compared nothing: {tail(output, 1).strip()}\n"
            f"It said:\n{tail(output)}"
        )
        raise ConfigError(what) if usage else TestbedError(what)
    return read_comparison(documents[0])


def read_comparison(path: Path) -> ComparisonAnswer | str:
    """What ``comparison.json`` says of the second side (docs/comparing.md).

    Raises:
        TestbedError: it is of another schema, or nothing was measured through no fault of the version.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("schema") != _SCHEMA:
        raise TestbedError(f"{path} is of schema {document.get('schema')}, and only {_SCHEMA} can be read")
    comparisons = document["comparisons"]
    troubles = [side for one in comparisons for side in one["sides"] if side["state"] != "measured"]
    figures = tuple(figure for one in comparisons for figure in _figures(one, _name(one, comparisons)))
    metrics = [metric for one in comparisons for side in one["sides"] for metric in side["metrics"]]
    if metrics:
        note = "" if figures else f"no figure has an interval: {metrics[0]['reason']}"
        return ComparisonAnswer(max(1, *(metric["blocks"] for metric in metrics)), figures, note)
    if troubles:
        return f"{troubles[0]['state']}: {troubles[0]['reason']}"
    reason = next((f"{left['test']}: {left['reason']}" for left in document["left_out"]), "no test compares anything")
    raise TestbedError(f"nothing was compared ({document['result']}): {reason}")


def _name(comparison: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> str:
    """The test; with the labels that set it apart where the test made several comparisons."""
    same = [other["labels"] for other in comparisons if other["test"] == comparison["test"]]
    apart = [
        f"{name}={value}"
        for name, value in comparison["labels"].items()
        if any(labels.get(name) != value for labels in same)
    ]
    return " ".join([comparison["test"], *apart])


def _figures(comparison: Mapping[str, Any], test: str) -> Iterator[MetricDifference]:
    for side in comparison["sides"]:
        for metric in side["metrics"] if side["state"] == "measured" else ():
            ratio, low, high = metric["ratio"], metric["low"], metric["high"]
            least = INSTRUCTIONS_ERROR if metric["metric"] in VIRTUAL_METRICS else 0.0
            if ratio and low and high and (high > low or least):
                z = NormalDist().inv_cdf((1 + metric["confidence"]) / 2)
                error = max(least, math.log(high / low) / 2 / z)
                yield MetricDifference(test, metric["metric"], math.log(ratio), error, metric["better"] == "higher")
