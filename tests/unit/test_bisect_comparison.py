"""Figures of a bisection from comparison.json, as docs/reference/comparison.md shows it."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.features.bisect.candidates import NotUsableError
from pytest_nfvperf.features.bisect.events import VersionComparison
from pytest_nfvperf.features.bisect.trials import read_comparison
from pytest_nfvperf.model.errors import TestbedError

PAGE = (Path(__file__).parents[2] / "docs/reference/comparison.md").read_text(encoding="utf-8")
DOCUMENTED: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
TEST = "suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]"


@pytest.fixture
def document() -> dict[str, Any]:
    return copy.deepcopy(DOCUMENTED)


def read(document: dict[str, Any], folder: Path) -> VersionComparison:
    path = folder / "comparison.json"
    path.write_text(json.dumps(document))
    return read_comparison(path)


def test_a_ratio_and_its_interval_become_a_figure(document: dict[str, Any], tmp_path: Path) -> None:
    found = read(document, tmp_path)

    assert found.blocks == 8
    (figure,) = found.figures
    assert (figure.test, figure.metric, figure.more_is_better) == (TEST, "forwarding_rate", True)
    assert figure.log_ratio == pytest.approx(math.log(0.85))
    assert figure.standard_error == pytest.approx(math.log(0.852 / 0.847) / 2 / 2.387, rel=1e-3)


def test_comparisons_of_one_test_are_told_apart_by_their_labels(document: dict[str, Any], tmp_path: Path) -> None:
    other = copy.deepcopy(document["comparisons"][0])
    other["labels"]["frame_size"] = "1518"
    document["comparisons"].append(other)
    found = read(document, tmp_path)

    assert [figure.test for figure in found.figures] == [f"{TEST} frame_size=64", f"{TEST} frame_size=1518"]


@pytest.mark.parametrize("end", ["low", "high", "ratio"])
def test_what_is_not_bounded_is_no_figure(document: dict[str, Any], tmp_path: Path, end: str) -> None:
    document["comparisons"][0]["sides"][0]["metrics"][0][end] = None

    note = "no figure has an interval: ratio 0.850 (0.847 .. 0.852) excludes 1, and is beyond the noise floor of 1.0%"
    assert read(document, tmp_path) == VersionComparison(0, 1, 8, (), note=note)


def test_a_side_that_broke_is_no_figure_and_says_why(document: dict[str, Any], tmp_path: Path) -> None:
    side = document["comparisons"][0]["sides"][0]
    side.update(state="broken", reason="ovs-vswitchd (pid 7) was killed by SIGSEGV", metrics=[])

    with pytest.raises(NotUsableError) as broken:
        read(document, tmp_path)
    assert str(broken.value) == "broken: ovs-vswitchd (pid 7) was killed by SIGSEGV"


def test_a_testbed_that_broke_is_no_versions_fault(document: dict[str, Any], tmp_path: Path) -> None:
    document.update(
        comparisons=[], result="broken", left_out=[{"test": TEST, "result": "broken", "reason": "no engine"}]
    )

    with pytest.raises(TestbedError) as broken:
        read(document, tmp_path)
    assert str(broken.value) == f"nothing was compared (broken): {TEST}: no engine"


def test_another_schema_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    document["schema"] = 2

    with pytest.raises(TestbedError, match="is of schema 2, and only 3 can be read"):
        read(document, tmp_path)
