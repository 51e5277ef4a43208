"""The summary table: right figures, right marks, fits the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.charts import find_sweeps, search_chart
from pytest_nfvperf.adapters.report.figures import (
    GoalFigures,
    digits,
    goal_figures,
    other_result,
    plateau_figures,
    proven_loss,
)
from pytest_nfvperf.adapters.report.junit import junit_properties
from pytest_nfvperf.adapters.report.subjects import title
from pytest_nfvperf.adapters.report.summary_table import SummaryRow, summary_text, times_text
from pytest_nfvperf.model.display import TableColumn, fold_table
from pytest_nfvperf.model.evidence.records import TestEndData
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal
from pytest_nfvperf.model.measure.outcome import (
    BackToBack,
    Confirmation,
    Cost,
    Goal,
    LossPoint,
    Outcome,
    SearchStatus,
)
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, worst
from pytest_nfvperf.model.statistics import Bound, Samples
from tests.chart_rows import legend
from tests.outcomes import LATENCY, NDR, measured
from tests.sample_study import patch_chain, tcp_chain

LABELS = (("suite", "throughput"), ("topology", "phy2phy"), ("frame_size", "64"), ("flows", "1"))


def searched(*goals: SearchedGoal, plateaus: tuple[PlateauPoint, ...] = (), **more: Any) -> Outcome:
    """What a search found; ``more``: further fields of the outcome."""
    outcome = Outcome(LABELS, "mlrsearch", 64.0, 2, latency=(LATENCY,), cost=Cost("trial-0003", 186.4), **more)
    return measured(outcome, *goals, plateaus=plateaus)


OUTCOME = searched(NDR)


def verdict(judgement: Judgement) -> Verdict:
    """A verdict on the NDR."""
    return Verdict(judgement, "ndr >= 4 Mpps", "ndr", 4e6, "pps", 4.02e6, 0.005, "", "sla.yaml: rules[0]")


def line_with(text: str, table: str) -> str:
    """The one line that has ``text``."""
    lines = [line for line in table.splitlines() if text in line]
    assert len(lines) == 1, table
    return lines[0]


def test_a_row_has_the_figures_that_people_compare() -> None:
    table = summary_text([SummaryRow(OUTCOME, (verdict(Judgement.PASS),))], width=100)
    row = line_with("phy2phy", table).split()
    assert row == ["throughput", "phy2phy", "64", "4.02", "2.06", "-", "-", "12.0", "us", "48.2", "us", "186", "PASS"]
    assert "Rates are per direction; Gbps counts frames with FCS (layer 2)." in table
    assert "at 50 % of pdr" in table


def test_what_the_dut_counted_is_the_same_text_on_the_terminal_and_in_junit() -> None:
    counted = "conntrack_full 8,313 in trial-0003: the connection table was full"
    outcome = replace(OUTCOME, dut_counted=(counted,))
    assert line_with(counted, summary_text([SummaryRow(outcome, (verdict(Judgement.PASS),))]))
    assert dict(junit_properties([outcome]))["nfvperf.dut_counted"] == counted
    assert "nfvperf.dut_counted" not in dict(junit_properties([OUTCOME]))


def test_line_rate_is_shown_where_there_is_one() -> None:
    with_line = searched(NDR, line_rate_fps=14_880_952.0)
    table = summary_text([SummaryRow(with_line)], width=120)
    assert "27.0 %" in line_with("phy2phy", table)
    assert "of" not in summary_text([SummaryRow(OUTCOME)], width=120).splitlines()[1].split()


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ({}, ""),
        ({"far_reason": "390 ns apart"}, "≥ the DUT does at least this: the host kept the CPUs apart."),
        ({"generator_limited": "room"}, "≥ the DUT does at least this: the generator itself can hardly do more."),
    ],
)
def test_a_plateau_that_is_a_bound_is_explained_below_the_table(why: dict[str, str], says: str) -> None:
    point = PlateauPoint("trial-0009", 4.2e6, 4.15e6, 4.25e6, 62, **why)
    table = summary_text([SummaryRow(searched(NDR, plateaus=(point,)))])
    assert says in table
    assert ("≥" in table) == bool(why)


@pytest.mark.parametrize(("limited", "shown"), [("", "4.20"), ("room in its rings", "≥ 4.20")])
def test_a_plateau_stands_beside_ndr_and_pdr(limited: str, shown: str) -> None:
    point = PlateauPoint("trial-0009", 4.2e6, 4.15e6, 4.25e6, 62, generator_limited=limited)
    with_plateau = searched(NDR, plateaus=(point,))
    table = summary_text([SummaryRow(with_plateau)])
    assert "plateau latency" in table.splitlines()[0]
    assert f" {shown} 12.0 us " in line_with("phy2phy", table)
    assert "The plateau is what the DUT forwards at overload, while the machine disturbs nothing." in table
    figures = plateau_figures(with_plateau)
    assert figures.note.startswith("room in its rings; median" if limited else "4.15 .. 4.25 Mpps at 95 %; median")
    assert figures.note.endswith("median of 62 undisturbed windows at overload")
    pairs = dict(junit_properties([with_plateau]))
    assert pairs["nfvperf.forwarding_rate.fps"] == "4200000"
    assert pairs.get("nfvperf.forwarding_rate.bound") == ("at least" if limited else None)


def test_a_table_without_any_plateau_has_no_column_for_it() -> None:
    assert "plateau" not in summary_text([SummaryRow(OUTCOME)])
    assert plateau_figures(OUTCOME) == GoalFigures()
    assert "nfvperf.forwarding_rate.fps" not in dict(junit_properties([OUTCOME]))


def test_a_generator_limited_figure_is_a_bound() -> None:
    limited = searched(replace(NDR, limit="the generator"))
    table = summary_text([SummaryRow(limited)])
    assert "≥ 4.02" in line_with("phy2phy", table)
    assert "the generator itself can hardly do more" in table


@pytest.mark.parametrize(
    "unconfirmed",
    [
        replace(NDR, unconfirmed="not confirmed: 3 trials in a row were invalid"),
        replace(NDR, confirmation=Confirmation("trial-9", 4_020_000, 5.0, 0.01, passed=False)),
    ],
)
def test_what_was_not_confirmed_is_a_bound_from_above(unconfirmed: SearchedGoal) -> None:
    table = summary_text([SummaryRow(searched(unconfirmed))])
    assert "≤ 4.02" in line_with("phy2phy", table)
    assert "no trial of full length confirmed it: the DUT does at most this" in table


def test_the_top_of_the_range_is_a_bound() -> None:
    top = searched(replace(NDR, status=SearchStatus.AT_MAXIMUM, upper_fps=None))
    table = summary_text([SummaryRow(top)])
    assert "≥ 4.02" in line_with("phy2phy", table)
    assert "nothing more was tried" in table


@pytest.mark.parametrize(
    ("status", "shown"), [(SearchStatus.BELOW_MINIMUM, "< minimum"), (SearchStatus.ABORTED, "aborted")]
)
def test_a_search_without_a_load_shows_why(status: SearchStatus, shown: str) -> None:
    empty = searched(SearchedGoal(Goal("ndr", 0.0), status))
    assert shown in line_with("phy2phy", summary_text([SummaryRow(empty)]))


def test_a_goal_of_another_name_stands_in_the_first_columns() -> None:
    other = searched(replace(NDR, goal=Goal("throughput", 0.0)))
    assert "4.02" in line_with("phy2phy", summary_text([SummaryRow(other)]))


def test_the_worst_verdict_is_shown() -> None:
    verdicts = (verdict(Judgement.PASS), verdict(Judgement.INCONCLUSIVE))
    assert line_with("phy2phy", summary_text([SummaryRow(OUTCOME, verdicts)])).endswith("INCONCLUSIVE")
    failed = SummaryRow(OUTCOME, (*verdicts, verdict(Judgement.FAIL)))
    assert worst(failed.verdicts) is Judgement.FAIL
    assert line_with("phy2phy", summary_text([failed])).endswith("FAIL")
    assert line_with("phy2phy", summary_text([SummaryRow(OUTCOME)])).endswith("no SLA")


def test_other_labels_are_named_where_rows_differ() -> None:
    more = replace(OUTCOME, labels=(*LABELS[:3], ("flows", "1000")))
    table = summary_text([SummaryRow(OUTCOME), SummaryRow(more)], width=120)
    assert "throughput 1,000 flows " in table
    assert table.count("flows") == 1  # a single flow is what most tests send
    assert "flows" not in summary_text([SummaryRow(more)])


def test_suites_are_named_where_there_are_several() -> None:
    named = replace(OUTCOME, labels=(*LABELS, ("test", "test_ndr_pdr")))
    other = replace(OUTCOME, labels=(("suite", "chaining"), ("test", "test_chain"), *LABELS[1:], ("bridges", "3")))
    assert line_with("phy2phy", summary_text([SummaryRow(named)])).split()[0] == "ndr_pdr"
    table = summary_text([SummaryRow(named), SummaryRow(other)], width=120)
    assert "throughput/ndr_pdr " in table
    assert "chaining/chain bridges=3 " in table


@pytest.mark.parametrize("width", [100, 120, 160])
def test_fits_the_width(width: int) -> None:
    limited = replace(NDR, limit="the generator")
    wide = replace(
        searched(limited, replace(limited, goal=Goal("pdr", 0.005)), line_rate_fps=1e7),
        labels=(("suite", "throughput"), ("topology", "pv9p"), ("frame_size", "imix-spirent512"), ("flows", "1000000")),
    )
    rows = [SummaryRow(wide, (verdict(Judgement.INCONCLUSIVE),)), SummaryRow(OUTCOME)]
    assert max(len(line) for line in summary_text(rows, width=width).splitlines()) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_a_narrow_terminal_has_fewer_columns_and_cuts_no_figure(width: int) -> None:
    searched = replace(OUTCOME, labels=(*LABELS, ("test", "test_ndr_pdr_one_way_of_flows")))
    rows = [SummaryRow(searched, (verdict(Judgement.INCONCLUSIVE),))]
    rows += [SummaryRow(one) for one in (*patch_chain(), *tcp_chain())]

    wide, text = summary_text(rows), summary_text(rows, width=width)

    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    assert "4.02" in text
    assert "INCONCLUSIVE" in text
    assert ("This terminal is too narrow for: NDR Gbps, PDR Gbps" in text) is (width == 80)
    assert "too narrow" not in wide


@pytest.mark.parametrize("width", [28, 80, 120])
def test_one_rule_folds_every_table(width: int) -> None:
    """Names move above their rows, once for rows that share one; figures stay whole."""
    name = "chain of many bridges that are joined by patch ports, of 64 bytes"
    columns = [TableColumn("test"), TableColumn("Mpps", right=True), TableColumn("why", folds=True)]
    columns += [TableColumn("Gbps", right=True, optional=1), TableColumn("")]
    rows = [[name, "12.34", "the machine disturbed it", "123.45", ("PASS", "green")]] * 2

    lines, lacking = fold_table(columns, rows, width)
    texts = ["".join(text for text, _ in line).rstrip() for line in lines]

    assert max(map(len, texts)) <= width
    assert " ".join(" ".join(texts).split()).count(name) == (1 if width < 120 else 2)
    assert sum("12.34" in text and "PASS" in text for text in texts) == 2
    assert (lacking == ["Gbps"]) is (width == 28)


def test_colour_only_when_asked_for() -> None:
    rows = [SummaryRow(OUTCOME, (verdict(Judgement.FAIL),))]
    assert "\x1b[" not in summary_text(rows)
    assert "\x1b[1;31mFAIL" in summary_text(rows, color=True)


def test_a_subject_is_called_by_what_sets_it_apart() -> None:
    labels = {"datapath": "dpdk", "direction": "unidirectional", "flows": "100000", "frame_size": "64", "link": "veth"}
    named = labels | {"suite": "s", "test": "test_chain", "topology": "pvp", "profile": "quick"}
    assert title(named) == "chain · pvp · 64 B · 100,000 flows · unidirectional · link=veth"
    assert title({"frame_size": "imix-simple", "flows": "1", "direction": "bidirectional"}) == "imix-simple"


def test_sweeps_are_found_along_every_label_that_counts() -> None:
    def outcome(size: str, flows: str, topology: str = "phy2phy", test: str = "test_a") -> Outcome:
        labels = (("topology", topology), ("frame_size", size), ("flows", flows), ("test", test))
        return replace(OUTCOME, labels=labels)

    sizes = [outcome(size, "1") for size in ("64", "512", "imix-simple")]
    flows = [outcome("64", count, test="test_b") for count in ("1", "1000", "100000")]
    other = [outcome(size, "1", "pvp", "test_c") for size in ("64", "512")]
    found = find_sweeps([*sizes, *flows, *other])
    assert [(s.axis, [name for name, _ in s.curves]) for s in found] == [
        ("frame_size", ["phy2phy", "pvp"]),
        ("flows", ["phy2phy · 64 B"]),
    ]
    assert len(found[1].outcomes) == 3
    assert find_sweeps(sizes[:1]) == []
    twice = find_sweeps([*sizes, *(outcome(size, "1", test="test_b") for size in ("64", "512"))])
    assert [name for name, _ in twice[0].curves] == ["a · phy2phy", "b · phy2phy"]


def test_nothing_measured_gives_no_table() -> None:
    assert summary_text([]) == ""


def test_outcomes_without_a_search_have_their_own_table() -> None:
    bare = replace(OUTCOME, goals=(), latency=(), figures=())
    points = (
        LossPoint(4_000_000, 0.0, "a", offered_fps=4_000_000),
        LossPoint(7_000_000, 0.25, "b", offered_fps=7_000_000),
    )
    curve = measured(replace(bare, loss_curve=points))
    assert "no loss at 4.00 Mpps, 25 % at 7.00 Mpps" in line_with("phy2phy", summary_text([SummaryRow(curve)]))
    lossy = measured(replace(bare, loss_curve=points[1:]))
    assert other_result(lossy) == "loss at every load, 25 % at 7.00 Mpps"
    burst = measured(replace(bare, back_to_back=BackToBack(7_000_000, (9, 11), 10.0, None)))
    assert other_result(burst) == "mean burst 10 frames"


def test_times_of_convergence_are_a_line_of_the_table() -> None:
    found = (
        Samples("withdrawal_sent_time", "s", (0.001,)),
        Samples("withdrawal_time", "s", (0.27, 0.28, 0.31)),
        Samples("outage_time", "s", (0.0,)),
        Samples("survival_time", "s", (4.0,), bound=Bound.AT_LEAST, why="it was up until the overload ended"),
    )
    times = replace(OUTCOME, goals=(), latency=(), samples=found)
    line = line_with("phy2phy", summary_text([SummaryRow(times)]))
    assert "withdrawal 280 ms (sent 1.00 ms), outage none, survival at least 4.00 s" in line


def test_a_failed_confirmation_is_said() -> None:
    failed = replace(NDR, confirmation=Confirmation("trial-0009", 4_020_000, 5.0, 1e-5, passed=False))
    note = goal_figures(searched(failed), "ndr").note
    assert note == "NOT confirmed by 5.00 s, loss 0.001 %"
    lower = replace(NDR, confirmation=Confirmation("trial-0009", 4_000_000, 5.0, 0.0, passed=True))
    assert goal_figures(searched(lower), "ndr").note == "confirmed at 4.00 Mpps by 5.00 s, loss 0 %"


@pytest.mark.parametrize(("passed", "words"), [(True, "confirmed"), (False, "not confirmed")])
def test_the_search_chart_names_the_load_found_and_the_one_confirmed(passed: bool, words: str) -> None:
    confirmed = Confirmation("trial-0009", 3_900_000, 5.0, 0.0, passed)
    outcome = searched(replace(NDR, confirmation=confirmed))
    assert {"4.02 Mpps: NDR found", f"3.90 Mpps: NDR {words}"} <= set(legend(search_chart([], outcome)))


def test_what_a_loss_count_proves() -> None:
    assert proven_loss(0, 72_000_000) == "0 lost of 72,000,000: loss ratio below 4.2e-08 at 95 %"
    assert proven_loss(5, 1000) == "5 lost of 1,000: 0.5 %"
    assert proven_loss(-3, 1000) == "3 more received than the 1,000 offered: the rig miscounted"
    assert proven_loss(0, 0) == "nothing was offered: says nothing"


@given(st.floats(1e-3, 1e3))
def test_digits_stay_close_to_the_figure(value: float) -> None:
    assert float(digits(value)) == pytest.approx(value, rel=0.006)
    assert "e" not in digits(value)


def test_junit_properties_are_flat_text_without_missing_figures() -> None:
    pairs = dict(junit_properties([OUTCOME], [verdict(Judgement.FAIL)]))
    assert pairs["nfvperf.label.topology"] == "phy2phy"
    assert pairs["nfvperf.ndr.load_fps"] == "4020000"
    assert pairs["nfvperf.latency.p99_ns"] == "48200"
    assert pairs["nfvperf.cycles_per_packet"] == "186.4"
    assert pairs["nfvperf.verdict.ndr >= 4 Mpps"] == "FAIL"
    assert "nfvperf.ndr.bound" not in pairs
    assert "None" not in pairs.values()


NOTED = {
    "suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]": {"trials": 20.04, "ceiling": 4.0, "other": 0.5},
    "suites/routing/test_frame_sizes.py::test_ndr_pdr[64]": {"trials": 33.5, "invalid": 2.0, "other": 1.25},
    "suites/mirror/test_filters.py::test_by_a_name::that_is_very_long[from-p0-by-flow]": {"other": 0.1},
}


def test_what_tests_spent_their_time_on_is_a_table_with_the_longest_first_and_the_sum_last() -> None:
    run = RunEvidence(Path("reports/latest"))
    for node_id, times in NOTED.items():
        run.test(node_id).end = TestEndData("passed", sum(times.values()), times=times)
    run.test("suites/routing/test_old.py::test_of_another_version").end = TestEndData("passed", 99.0)
    rows = [line.split() for line in times_text(run).splitlines()]
    assert [row for row in rows if set("".join(row)) != {"─"}] == [
        ["test", "seconds", "trials", "invalid", "ceiling", "other"],
        ["routing/ndr_pdr[64]", "36.8", "33.5", "2.0", "-", "1.2"],
        ["throughput/ndr_pdr[64]", "24.5", "20.0", "-", "4.0", "0.5"],
        ["mirror/by_a_name::that_is_very_long[from-p0-by-flow]", "0.1", "-", "-", "-", "0.1"],
        ["3", "tests", "61.4", "53.5", "2.0", "4.0", "1.9"],
    ]
    every = dict.fromkeys(("trials", "invalid", "warm_up", "ceiling", "building", "waiting", "other"), 1234.5)
    for test in run.tests.values():
        test.end = TestEndData("passed", 7 * 1234.5, times=every)
    narrow = times_text(run, width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.count("1234.5") == 4 * 7


def test_evidence_of_earlier_versions_says_that_nobody_noted_the_times() -> None:
    run = RunEvidence(Path("reports/latest"))
    run.test("suites/a/test_a.py::test_a").end = TestEndData("passed", 9.0)
    assert times_text(run) == (
        "reports/latest: nothing says what its tests spent their time on: earlier versions noted that of no test"
    )
