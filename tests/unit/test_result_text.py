"""The line of a test: its columns, and how it takes a narrow terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_study import patch_chain

from pytest_nfvperf.adapters.report.texts import Findings, figures_text, result_lines, short_node_id
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Goal, LossPoint, Outcome, SearchStatus
from tests.outcomes import LATENCY, NDR, measured

FOUND = Findings("NDR 5.52 Mpps · PDR 6.30 Mpps · p99 12.0 us", "PASS")
PDR = SearchedGoal(Goal("pdr", 0.005), SearchStatus.ABORTED, detail="no time left")
OUTCOME = measured(Outcome((("topology", "phy2phy"),), "mlrsearch", 64.0, 2, latency=(LATENCY,)), NDR, PDR)
NODE = "suites/throughput/test_frame_sizes.py::test_ndr_pdr[64]"


def shown(result: tuple[str, Findings, float, tuple[int, int]], width: int | None = None, widest: int = 0) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in result_lines(*result, width, widest)]


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        (NODE, "throughput/test_ndr_pdr[64]"),
        ("test_x.py::test_it", "test_it"),
        ("suites/mirror/test_x.py::test_it[a@b]@nfvperf-testbed", "mirror/test_it[a@b]"),
        ("suites/mirror/test_x.py::TestIt::test_it@group", "mirror/TestIt::test_it"),
    ],
)
def test_a_test_is_called_by_its_suite_and_name(node_id, name):
    assert short_node_id(node_id) == name


def test_one_line_with_all_of_it_where_it_fits():
    (line,) = shown((NODE, FOUND, 31.7, (1, 52)), widest=27)
    assert line == (
        "throughput/test_ndr_pdr[64]  NDR 5.52 Mpps · PDR 6.30 Mpps · p99 12.0 us   PASS            32 s   1/52"
    )
    assert shown((NODE, FOUND, 31.7, (1, 52)), 120, 27) == [line]


def test_columns_stand_below_each_other():
    short, long = (shown((NODE, Findings(figures, "PASS"), 1, (9, 9)), widest=40)[0] for figures in ("", FOUND.figures))
    assert short.index("PASS") == long.index("PASS")


def test_a_narrow_terminal_has_the_figures_below():
    lines = shown((NODE, FOUND, 31.7, (1, 52)), 80, 40)
    assert lines[0].split() == ["throughput/test_ndr_pdr[64]", "PASS", "32", "s", "1/52"]
    assert lines[1] == f"    {FOUND.figures}"
    assert all(len(line) < 80 for line in lines)


def test_what_a_terminal_cannot_hold_is_cut_and_a_file_has_it_whole():
    long = (f"s/t.py::test_{'x' * 90}", Findings("1 " * 60, "FAIL", "because " * 30), 1, (1, 1))
    lines = shown(long, 80)
    assert all(len(line) < 80 for line in lines)
    assert "".join(line.strip() for line in lines[:2]) == f"s/test_{'x' * 90}"
    assert lines[2].split() == ["FAIL", "1.0", "s", "1/1"]
    assert " ".join(line.strip() for line in lines[3:5]) == ("1 " * 60).strip()
    assert [line.endswith("…") for line in lines[5:]] == [False, False, True]
    name, reason = shown(long)
    assert "x" * 90 in name
    assert "1 " * 60 in name
    assert reason.count("because") == 30


@pytest.mark.parametrize("width", [80, 100])
def test_no_word_of_a_skipped_test_is_cut(width):
    reason = "the testbed has no NIC: its ports are made for each topology (vhost-user, or veth pairs). Name NICs"
    name = "suites/acme/test_acme.py::test_chain_of_bridges_that_are_joined[bridges_1_2_4_9-vhost-user]"
    lines = shown((name, Findings("", "skipped", reason), 0, (3, 7)), width)
    assert all(len(line) < width for line in lines)
    assert lines[0].startswith(short_node_id(name))
    assert " ".join(line.strip() for line in lines[-2:]) == reason
    assert "…" not in "".join(lines)


def test_no_second_line_for_a_test_that_measured_nothing():
    (line,) = shown((NODE, Findings("", "PASS"), 1, (1, 1)), 80)
    assert line.split()[:2] == ["throughput/test_ndr_pdr[64]", "PASS"]


def test_why_a_test_did_not_pass_stands_below_it():
    found = replace_reason("ndr >= 8 Mpps: 5.52 Mpps")
    assert shown((NODE, found, 1, (1, 1)))[1] == "    ndr >= 8 Mpps: 5.52 Mpps"


def replace_reason(reason: str) -> Findings:
    return FOUND._replace(verdict="FAIL", reason=reason)


@pytest.mark.parametrize(
    ("verdict", "marks"),
    [
        ("PASS", {"green": True}),
        ("FAIL", {"red": True, "bold": True}),
        ("BROKEN", {"red": True, "bold": True}),
        ("INCONCLUSIVE", {"yellow": True}),
        ("no SLA", {}),
    ],
)
def test_the_verdict_is_coloured(verdict, marks):
    pieces = result_lines(NODE, FOUND._replace(verdict=verdict), 1, (1, 1), None)[0]
    assert [mark for text, mark in pieces if text.strip() == verdict] == [marks]


def test_figures_of_a_search():
    assert figures_text([OUTCOME]) == "NDR 4.02 Mpps · PDR aborted · p99 48.2 us"


def test_a_figure_that_two_outcomes_share_is_told_once():
    assert figures_text([replace(OUTCOME, latency=()), OUTCOME]).count("NDR") == 1


def test_figures_of_a_comparison_are_ratios_to_its_baseline():
    text = figures_text(patch_chain())
    assert text.startswith("bridges 1: 5.")
    assert [part.split(":")[0] for part in text.split(", ")] == ["bridges 1", "2", "4", "9"]
    assert text.count("%") == 3


def test_figures_of_a_curve_are_those_of_the_tables():
    curve = (
        LossPoint(7_000_000, 0.25, "trial-1", 1, 4, 7_000_000),
        LossPoint(4_000_000, 0.0, "trial-2", 0, 4, 4_000_000),
    )
    assert figures_text([measured(replace(OUTCOME, goals=(), latency=(), figures=(), loss_curve=curve))]) == (
        "no loss at 4.00 Mpps, 25 % at 7.00 Mpps"
    )
