"""What charts say of a result: the SLA's limits, the rig's, and the loads close to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.charts import find_sweeps, search_chart, study_chart, sweep_chart
from pytest_nfvperf.adapters.report.load_charts import latency_chart, loss_chart
from pytest_nfvperf.adapters.report.page_charts import live
from pytest_nfvperf.adapters.report.picture import picture
from pytest_nfvperf.adapters.report.studies import find_comparisons, named_apart
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, LossPoint, Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.histogram import Histogram
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


def traces(chart: Any, name: str, panel: int = 0) -> list[dict[str, Any]]:
    """Those of this name in a panel of the page."""
    return [trace for trace in live(chart)["panels"][panel]["traces"] if trace["name"] == name]


def swept(verdicts: dict[int, Verdict]) -> Any:
    outcomes = [outcome(64), outcome(512), outcome(1518)]
    (sweep,) = find_sweeps(outcomes)
    of = {
        one.labels: (verdicts[size],) for one, size in zip(outcomes, (64, 512, 1518), strict=True) if size in verdicts
    }
    return sweep_chart(sweep.series, verdicts=of)


def test_a_sweep_has_a_line_at_the_limits_in_both_units() -> None:
    chart = swept({64: limit(3e6), 512: limit(8.192e9, "bps"), 1518: limit(0.5, "line_ratio")})
    (frames,), (bits,) = traces(chart, "limit"), traces(chart, "limit", 1)
    assert frames["x"] == ["64", "512", "1518"]
    assert frames["y"] == pytest.approx([3.0, 2.0, 0.5 * 1e10 / 8 / 1538 / 1e6])
    assert bits["y"][1] == pytest.approx(8.192)
    assert frames["hovertext"][0] == "ndr >= 3 Mpps"
    assert "limit" in picture(chart).legends[0].get_texts()[-1].get_text()


def test_a_sweep_without_limits_has_none() -> None:
    assert traces(swept({}), "limit") == []
    share_of_another = limit(0.95, "ratio", text="ndr >= 95 % of {topology: phy2phy}")
    assert traces(swept({64: share_of_another}), "limit") == []


def test_a_study_has_a_line_at_the_ratio_that_is_required_and_its_axis_begins_near_it() -> None:
    outcomes = patch_chain()
    ask = limit(0.95, "ratio", "forwarding_rate", "forwarding_rate >= 95 % of {bridges: 1}")
    verdicts = {one.labels: (ask,) for one in outcomes[1:]}
    chart = study_chart(find_comparisons(outcomes), verdicts)
    (line,) = traces(chart, "limit")
    assert (line["x"], line["y"]) == (["2", "4", "9"], [95.0, 95.0, 95.0])
    assert "rangemode" not in live(chart)["panels"][0]["yaxis"]
    absolute = limit(300.0, "cycles", "cycles_per_packet", "cycles_per_packet <= 300 cycles")
    other = study_chart(find_comparisons(outcomes), {outcomes[1].labels: (absolute,)})
    assert (traces(other, "limit"), traces(other, "limit", 1)[0]["y"]) == ([], [300.0])


def test_what_several_studies_have_in_common_is_in_the_title_of_their_chart() -> None:
    found = find_comparisons([*tcp_chain("patch"), *tcp_chain("veth")])
    common, names = named_apart(found)
    assert (common, names) == ("tcp_chain · streams=1 · tso=off · netdev", ["link=patch", "link=veth"])
    assert named_apart(found[:1])[1] == [""]
    legend = {trace["name"] for trace in live(study_chart(found, names=names))["panels"][0]["traces"]}
    assert legend == {"link=patch", "link=veth"}


def test_a_loss_curve_has_a_mark_at_the_load_that_a_limit_is_about() -> None:
    points = [LossPoint(load, loss, f"trial-{load}") for load, loss in ((1e6, 0.0), (5e6, 0.2))]
    one = limit(0.01, "ratio", "loss_ratio", "loss_ratio <= 1 % at 5.00 Mpps")
    chart = loss_chart(points, verdicts=[replace(one, evidence=("trial-5000000.0",)), limit(3e6)])
    (mark,) = traces(chart, "limit")
    assert (mark["x"], mark["y"], mark["hovertext"]) == ([5.0], [1.0], ["loss_ratio <= 1 % at 5.00 Mpps"])
    assert traces(loss_chart(points, verdicts=[one]), "limit") == []  # of another trial
    share = replace(one, evidence=("trial-5000000.0",), requirement="loss_ratio <= 110 % of baseline at 5.00 Mpps")
    assert traces(loss_chart(points, verdicts=[share]), "limit") == []


def test_a_latency_chart_has_marks_at_the_percentiles_that_limits_are_about() -> None:
    curves = [("50 % of pdr", Histogram(((10_000, 990), (20_000, 10)), 10_000, 20_000))]
    asked = {"latency_p99": 1e5, "latency_max": 4e5, "latency_p999": 3e5}
    verdicts = [limit(ns, "ns", metric, f"{metric} <= {ns:g} ns") for metric, ns in asked.items()]
    chart = latency_chart(curves, [*verdicts, verdicts[0], limit(1e6)])
    (marks,) = traces(chart, "limit")
    assert (marks["x"], marks["y"]) == ([100.0, 1000.0, 1000.0], [100.0, 400.0, 300.0])
    assert live(chart)["panels"][0]["yaxis"]["type"] == "log"  # else the curve would lie flat below the limits
    share = limit(1.1, "ratio", "latency_p99", "latency_p99 <= 110 % of {topology: phy2phy}")
    assert traces(latency_chart(curves, [share]), "limit") == traces(latency_chart(curves), "limit") == []
    few = [("50 % of pdr", Histogram(((10_000, 20),), 10_000, 10_000))]
    assert traces(latency_chart(few, verdicts[:1]), "limit") == []  # 20 samples have no 99th percentile


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
    panel = live(sweep_chart(sweep.series))["panels"][0]
    (curve,) = [trace for trace in panel["traces"] if trace["name"] == "pvp NDR"]
    assert set(curve.get("text", [""])) == {mark}
    assert [key["name"][0] for key in panel["keys"]] == [mark] * bool(mark)
    drawn = [trace["name"] for trace in panel["traces"]]
    assert ("rig's own ceiling" in drawn) == (ceiling is not None)


def test_loads_that_are_equal_are_one_line_in_the_panel_close_to_the_result() -> None:
    confirmed = replace(NDR, confirmation=Confirmation("trial-0009", 4_020_000, 5.0, 0.0, passed=True))
    chart = search_chart([], outcome(64, confirmed, PDR), [limit(3e6)])
    (panel,) = chart.panels
    assert [rule.name for rule in panel.rules] == [
        "4.02 Mpps: NDR found and confirmed",
        "4.04 Mpps: NDR not met, PDR found",
        "4.06 Mpps: PDR not met",
        "limit: ndr >= 3 Mpps",
    ]
