"""Charts of values that are all alike, or of one: matplotlib warns of an axis without length, and users see it."""

from __future__ import annotations

import io

import pytest
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.chart import Chart
from pytest_nfvperf.adapters.report.load_charts import latency_chart, loss_chart, soak_chart
from pytest_nfvperf.adapters.report.picture import picture
from pytest_nfvperf.model.measure.outcome import LossPoint
from pytest_nfvperf.model.measure.soak_series import series as soak_series
from pytest_nfvperf.model.measure.soak_series import summarise
from pytest_nfvperf.model.traffic.histogram import Histogram
from tests.sample_soak import PLAN, soak_table


def drawn(chart: Chart | None) -> Figure:
    """The chart as a picture, of which a warning is an error in these tests."""
    assert chart is not None
    figure = picture(chart)
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    assert file.getvalue()
    return figure


@pytest.mark.parametrize("samples", [1, 2, 1000])
@pytest.mark.parametrize("ns", [0, 5_000])
def test_latency_of_one_value(samples: int, ns: int) -> None:
    figure = drawn(latency_chart([("50 % of pdr", Histogram(((ns, samples),), ns, ns))]))
    left, right = figure.axes[0].get_xlim()
    assert left < right


@pytest.mark.parametrize("loss", [0.0, 1.0])
@pytest.mark.parametrize("points", [1, 3])
def test_loss_of_one_value(loss: float, points: int) -> None:
    assert drawn(loss_chart([LossPoint(1_000_000, loss, "trial-1")] * points))


@pytest.mark.parametrize("seconds", [1, 2, 60])
def test_a_soak_in_which_nothing_changes(seconds: int) -> None:
    table = soak_table(seconds)
    assert drawn(soak_chart(summarise(table, PLAN, []), soak_series(table)))
