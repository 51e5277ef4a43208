"""What charts say of a result: the SLA's limits, the rig's, and the loads close to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.charts import (
    find_sweeps,
    latency_chart,
    loss_chart,
    search_chart,
    study_chart,
    sweep_chart,
)
from pytest_nfvperf.adapters.report.subjects import distinct_names, find_comparisons
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, LossPoint, Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.histogram import Histogram
from tests.chart_rows import axis, legend, rows, values
from tests.outcomes import measured
from tests.sample_study import patch_chain, tcp_chain

NDR = SearchedGoal(Goal("ndr", 0.0), SearchStatus.FOUND, 4_020_000, 4_040_000)
PDR = SearchedGoal(Goal("pdr", 0.005), SearchStatus.FOUND, 4_040_000, 4_060_000)


def outcome(size: int, *goals: SearchedGoal, **more: Any) -> Outcome:
    """Of a search with frames of this size, on ports of 10 Gbit/s."""
    labels = (("suite", "throughput"), ("topology", "pvp"), ("frame_size", str(size)))
    found = Outcome(labels, "mlrsearch", size, 2, line_rate_fps=1e10 / 8 / (size + 20), **more)
    return measured(found, *(goals or (NDR,)))


def limit(value: float, unit: str = "pps", metric: str = "ndr", text: str = "ndr >= 3 Mpps") -> Verdict:
    return Verdict(Judgement.PASS, text, metric, value, unit, None, None, "", "sla.yaml: rules[0]")


def swept(verdicts: dict[int, Verdict]) -> Any:
    outcomes = [outcome(64), outcome(512), outcome(1518)]
    (sweep,) = find_sweeps(outcomes)
    of = {
        one.labels: (verdicts[size],) for one, size in zip(outcomes, (64, 512, 1518), strict=True) if size in verdicts
    }
    return sweep_chart(sweep, verdicts=of)


def test_a_sweep_has_a_line_at_the_limits_in_both_units() -> None:
    chart = swept({64: limit(3e6), 512: limit(8.192e9, "bps"), 1518: limit(0.5, "line_ratio")})
    x, frames = values(chart, "limit")
    assert x == ["64", "512", "1518"]
    assert frames == pytest.approx([3.0, 2.0, 0.5 * 1e10 / 8 / 1538 / 1e6])
    assert values(chart, "limit", 1)[1][1] == pytest.approx(8.192)
    assert rows(chart, "limit")[0]["hover"] == "ndr >= 3 Mpps"
    assert legend(chart)[-1] == "limit"


def test_a_sweep_without_limits_has_none() -> None:
    assert rows(swept({}), "limit") == []
    share_of_another = limit(0.95, "ratio", text="ndr >= 95 % of {topology: phy2phy}")
    assert rows(swept({64: share_of_another}), "limit") == []


def test_a_study_has_a_line_at_the_ratio_that_is_required_and_its_axis_begins_near_it() -> None:
    outcomes = patch_chain()
    ask = limit(0.95, "ratio", "forwarding_rate", "forwarding_rate >= 95 % of {bridges: 1}")
    verdicts = {one.labels: (ask,) for one in outcomes[1:]}
    chart = study_chart(find_comparisons(outcomes), verdicts)
    assert values(chart, "limit") == (["2", "4", "9"], [95.0, 95.0, 95.0])
    assert not axis(chart, "y")["scale"]["zero"]
    absolute = limit(300.0, "cycles", "cycles_per_packet", "cycles_per_packet <= 300 cycles")
    other = study_chart(find_comparisons(outcomes), {outcomes[1].labels: (absolute,)})
    assert (rows(other, "limit"), values(other, "limit", 1)[1]) == ([], [300.0])


def test_what_several_studies_have_in_common_is_in_the_title_of_their_chart() -> None:
    found = find_comparisons([*tcp_chain("patch"), *tcp_chain("veth")])
    common, names = distinct_names(found)
    assert (common, names) == ("tcp_chain · streams=1 · tso=off · netdev", ["link=patch", "link=veth"])
    assert distinct_names(found[:1])[1] == [""]
    assert legend(study_chart(found, named=names)) == ["link=patch", "link=veth"]


def test_a_loss_curve_has_a_mark_at_the_load_that_a_limit_is_about() -> None:
    points = [LossPoint(load, loss, f"trial-{load}") for load, loss in ((1e6, 0.0), (5e6, 0.2))]
    one = limit(0.01, "ratio", "loss_ratio", "loss_ratio <= 1 % at 5.00 Mpps")
    chart = loss_chart(points, verdicts=[replace(one, evidence=("trial-5000000.0",)), limit(3e6)])
    (mark,) = rows(chart, "limit")
    assert (mark["x"], mark["y"], mark["hover"]) == (5.0, 1.0, "loss_ratio <= 1 % at 5.00 Mpps")
    assert rows(loss_chart(points, verdicts=[one]), "limit") == []  # of another trial
    share = replace(one, evidence=("trial-5000000.0",), requirement="loss_ratio <= 110 % of baseline at 5.00 Mpps")
    assert rows(loss_chart(points, verdicts=[share]), "limit") == []


def test_a_latency_chart_has_marks_at_the_percentiles_that_limits_are_about() -> None:
    curves = [("50 % of pdr", Histogram(((10_000, 990), (20_000, 10)), 10_000, 20_000))]
    asked = {"latency_p99": 1e5, "latency_max": 4e5, "latency_p999": 3e5}
    verdicts = [limit(ns, "ns", metric, f"{metric} <= {ns:g} ns") for metric, ns in asked.items()]
    chart = latency_chart(curves, [*verdicts, verdicts[0], limit(1e6)])
    assert values(chart, "limit") == ([100.0, 1000.0, 1000.0], [100.0, 400.0, 300.0])
    assert axis(chart, "y")["scale"]["type"] == "log"  # else the curve would lie flat below the limits
    share = limit(1.1, "ratio", "latency_p99", "latency_p99 <= 110 % of {topology: phy2phy}")
    assert rows(latency_chart(curves, [share]), "limit") == rows(latency_chart(curves), "limit") == []
    few = [("50 % of pdr", Histogram(((10_000, 20),), 10_000, 10_000))]
    assert rows(latency_chart(few, verdicts[:1]), "limit") == []  # 20 samples have no 99th percentile


@pytest.mark.parametrize(
    ("goal", "ceiling", "mark"),
    [
        (replace(NDR, limit="the generator"), 4.1e6, "↑"),
        (replace(NDR, limit="the generator"), None, "≥"),
        (replace(NDR, disturbed="the host kept the CPUs apart"), 4.1e6, "≥"),
        (NDR, 9e6, ""),
    ],
)
def test_an_arrow_points_only_to_a_ceiling_that_is_drawn(goal: SearchedGoal, ceiling: float | None, mark: str) -> None:
    (sweep,) = find_sweeps([outcome(size, goal, ceiling_fps=ceiling) for size in (64, 128)])
    chart = sweep_chart(sweep)
    assert {row.get("label", "") for row in rows(chart, "pvp NDR")} == {mark}
    notes = chart[0]["title"]["subtitle"] if mark else []
    assert [note[0] for note in notes] == [mark] * bool(mark)
    assert ("rig's own ceiling" in legend(chart)) == (ceiling is not None)


def test_loads_that_are_equal_are_one_line_in_the_panel_close_to_the_result() -> None:
    confirmed = replace(NDR, confirmation=Confirmation("trial-0009", 4_020_000, 5.0, 0.0, passed=True))
    chart = search_chart([], outcome(64, confirmed, PDR), [limit(3e6)])
    assert len(chart) == 1
    assert legend(chart) == [
        "4.02 Mpps: NDR found and confirmed",
        "4.04 Mpps: NDR not met, PDR found",
        "4.06 Mpps: PDR not met",
        "limit: ndr >= 3 Mpps",
    ]
