"""Charts of values that are all alike, or of one, as pictures: an axis without length would show nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.charts import latency_chart, loss_chart, soak_chart
from pytest_nfvperf.adapters.report.page_parts import to_svgs
from pytest_nfvperf.model.measure.outcome import LossPoint
from pytest_nfvperf.model.measure.soak_series import series as soak_series
from pytest_nfvperf.model.measure.soak_series import summarise
from pytest_nfvperf.model.traffic.histogram import Histogram
from tests.sample_soak import PLAN, soak_table


def drawn(chart: Sequence[dict[str, Any]] | None) -> None:
    """Each panel has a line, and no coordinate is none."""
    assert chart is not None
    for svg in to_svgs(chart, "x"):
        lines = re.findall(r'<path[^>]* aria-roledescription="line mark"[^>]* d="([^"]*)"', svg)
        assert lines
        assert "NaN" not in svg


@pytest.mark.parametrize("samples", [1, 2, 1000])
@pytest.mark.parametrize("ns", [0, 5_000])
def test_latency_of_one_value(samples: int, ns: int) -> None:
    drawn(latency_chart([("50 % of pdr", Histogram(((ns, samples),), ns, ns))]))


@pytest.mark.parametrize("loss", [0.0, 1.0])
@pytest.mark.parametrize("points", [1, 3])
def test_loss_of_one_value(loss: float, points: int) -> None:
    drawn(loss_chart([LossPoint(1_000_000, loss, "trial-1")] * points))


@pytest.mark.parametrize("seconds", [1, 2, 60])
def test_a_soak_in_which_nothing_changes(seconds: int) -> None:
    table = soak_table(seconds)
    drawn(soak_chart(summarise(table, PLAN, []), soak_series(table)))
