"""NIC x frame size x datapath x offload on one page, as published next to as measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
from pytest_nfvperf.adapters.report.matrix import matrix_of, render_matrix
from pytest_nfvperf.adapters.report.published_figures import PublishedSeries
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.model.evidence.records import Cause, RunEndData, TestEndData
from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome, Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.statistics import Samples

S1 = PublishedSeries(
    "RHOSO 18",
    "2025 (S1)",
    "ndr",
    ((64, 5e6), (1500, 2.03e6)),
    where=(("topology", "phy2phy"), ("test", "test_ndr_pdr")),
)


PASSED = TestEndData("passed", 1.0)
MISSED = TestEndData("failed", 1.0, "an SLA", Cause.SLA)


def outcome(size, fps, **labels):
    given = {"test": "test_ndr_pdr", "topology": "phy2phy", "direction": "bidirectional", "flows": "1", **labels}
    given |= {"frame_size": str(size), "datapath": "dpdk"}
    goal = GoalOutcome(Goal("ndr", 0.0), SearchStatus.FOUND if fps else SearchStatus.ABORTED, fps)
    return Outcome(tuple(sorted(given.items())), "mlrsearch", 64.0, 2, goals=(goal,))


def verdict(of, judgement):
    limit = {"limit": 4e6, "unit": "pps", "observed": 4.1e6, "margin": 0.02, "rule": "sla.yaml:3"}
    reason = "" if judgement is Judgement.PASS else "too slow"
    return Verdict(judgement, "ndr >= 4 Mpps", "ndr", reason=reason, subject=of.labels, **limit)


def run(name, *outcomes_with_judgements, end=PASSED):
    evidence = TestEvidence("suites/throughput/test_frame_sizes.py::test_ndr_pdr", end=end)
    for number, (measured, judgement) in enumerate(outcomes_with_judgements):
        evidence.outcomes[f"outcome-{number}"] = measured
        if judgement is not None:
            evidence.verdicts[f"verdict-{number}"] = verdict(measured, judgement)
    made = RunEvidence(Path(name), ends={"evidence.jsonl": RunEndData(0, 1.0, {})})
    made.tests[evidence.node_id] = evidence
    return made


@pytest.fixture
def matrix():
    nic = {"nic": "ConnectX-6 Dx", "firmware": "22.36.1010"}
    software = run(
        "run-a",
        (outcome(64, 4_100_000, **nic, offload="off"), Judgement.PASS),
        (outcome(1500, 1_900_000, **nic, offload="off"), Judgement.FAIL),
        (outcome("imix-simple", 3_000_000, **nic, offload="off"), None),
        end=MISSED,
    )
    hardware = run("run-b", (outcome(64, None, **nic, offload="on"), Judgement.INCONCLUSIVE), end=MISSED)
    embedded = run("run-c", (outcome(64, 6_000_000), Judgement.PASS))
    return matrix_of((each, [S1]) for each in (software, hardware, embedded))


def test_rows_are_settings_and_columns_frame_sizes(matrix):
    assert matrix.sizes == ("64", "1500", "imix-simple")
    assert [(row.nic, row.firmware, row.datapath, row.offload) for row in matrix.rows] == [
        ("ConnectX-6 Dx", "22.36.1010", "dpdk", "off"),
        ("ConnectX-6 Dx", "22.36.1010", "dpdk", "on"),
        ("embedded (vhost-user)", "-", "dpdk", "off"),
    ]
    assert {row.subject for row in matrix.rows} == {"ndr_pdr: phy2phy, bidirectional"}


def test_cells_have_verdict_figure_and_what_was_published(matrix):
    (small,), (large,), (mix,) = (matrix.rows[0].cells[size] for size in matrix.sizes)
    assert (small.badge, small.figures) == ("PASS", (("NDR", "4.10 Mpps"),))
    assert [(one.value, one.share, one.source) for one in small.published] == [("5.00 Mpps", "82 %", "2025 (S1)")]
    assert (large.badge, large.why) == ("FAIL", "ndr >= 4 Mpps: too slow")
    assert (mix.badge, mix.published) == ("no SLA", ())
    (aborted,) = matrix.rows[1].cells["64"]
    assert (aborted.badge, aborted.figures) == ("INCONCLUSIVE", (("NDR", "aborted"),))
    assert [one.share for one in aborted.published] == ["-"]


@pytest.mark.parametrize(
    ("end", "badge"),
    [
        (TestEndData("failed", 1.0, "two is not three", Cause.ASSERTION), "FAIL"),
        (TestEndData("error", 1.0, "the switch is gone", Cause.TESTBED), "BROKEN"),
        (TestEndData("failed", 1.0, "the rig bears 3.00 Mpps", Cause.INCONCLUSIVE), "INCONCLUSIVE"),
        (None, "unfinished"),
    ],
)
def test_a_cell_says_what_became_of_its_test_whatever_its_verdict(end, badge):
    made = matrix_of([(run("run-a", (outcome(64, 4_100_000), Judgement.PASS), end=end), [])])
    (cell,) = made.rows[0].cells["64"]
    assert cell.badge == badge
    assert cell.why == ("it had begun when the run ended" if end is None else end.reason)


def test_the_page_says_what_became_of_each_run(matrix, tmp_path):
    assert [run[4].split(":")[0] for run in matrix.runs] == ["Failed", "Inconclusive", "Accepted"]
    assert "Inconclusive: of 1 selected test 1 inconclusive" in render_matrix(matrix, tmp_path / "m.html").read_text()


def test_the_page_stands_alone(matrix, tmp_path):
    page = render_matrix(matrix, tmp_path / "new" / "matrix.html").read_text(encoding="utf-8")
    for text in ("ConnectX-6 Dx", "22.36.1010", "4.10 Mpps", "published 5.00 Mpps: 82 %", "1500 B", "no SLA"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_runs_without_a_search_make_no_page(tmp_path, capsys):
    (tmp_path / "evidence.jsonl").write_text("")
    assert main(["matrix", str(tmp_path), "--output", str(tmp_path / "m.html")]) == 1
    assert "none of these runs has the outcome of a search" in capsys.readouterr().err
    assert not (tmp_path / "m.html").exists()
    assert main(["matrix", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_forwarding_rates_by_datapath_have_their_share_of_line_rate_and_what_s3_published():
    def measured(datapath, *fps, at_least=""):
        labels = {"test": "test_datapaths", "topology": "vm-to-vm", "overlay": "vxlan", "frame_size": "64"}
        labels |= {"datapath": datapath}
        samples = (Samples("forwarding_rate", "pps", fps, at_least=at_least),)
        return Outcome(tuple(sorted(labels.items())), "frmol", 64.0, 1, samples=samples, line_rate_fps=9_328_358.2)

    s3 = [
        PublishedSeries("DPDK", "(S3)", "forwarding_rate", ((64, 4e6),), where=(("datapath", "dpdk"),)),
        PublishedSeries("kernel", "(S3)", "forwarding_rate", ((64, 0.56e6),), where=(("datapath", "system"),)),
    ]
    made = matrix_of([(run("run-d", (measured("dpdk", 2e6, 1e6, 3e6, at_least="they share"), None)), s3)])
    (row,) = made.rows
    (cell,) = row.cells["64"]
    assert (row.subject, row.datapath) == ("datapaths: vm-to-vm, vxlan", "dpdk")
    assert (cell.figures, cell.lines) == ((("forwarding rate", "≥ 2.00 Mpps"),), ("21.4 %",))
    assert [(one.name, one.value, one.share) for one in cell.published] == [("DPDK", "4.00 Mpps", "50 %")]


def test_the_page_says_shares_of_line_rate(tmp_path):
    goal = GoalOutcome(Goal("ndr", 0.0), SearchStatus.FOUND, 7_440_476.0)
    labels = (("frame_size", "64"), ("test", "test_ndr_pdr"))
    found = Outcome(labels, "mlrsearch", 64.0, 2, goals=(goal,), line_rate_fps=14_880_952.0)
    page = render_matrix(matrix_of([(run("run-e", (found, None)), ())]), tmp_path / "matrix.html").read_text()
    assert "<small>50.0 % of line rate</small>" in page
