"""Studies in the table, the chart, the page and Allure."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.report.charts import ratio_title, study_chart
from pytest_nfvperf.adapters.report.figures import other_result
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.subjects import (
    ONE_SIDED,
    OPEN_INTERVAL,
    SHARED_CPUS,
    SHORT_CPU_TURNS,
    find_comparisons,
    interval_text,
    slope_line,
    slope_text,
    subject_notes,
)
from pytest_nfvperf.adapters.report.summary_table import SummaryRow, summary_rows, summary_text
from pytest_nfvperf.adapters.report.texts import samples_csv, stream_line
from pytest_nfvperf.model.evidence.records import KINDS, RecordIds, TestData, TestEndData, make_record
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.chart_rows import axis, layers, legend, rows
from tests.sample_study import patch_chain, stream_run, study, study_records, tcp_chain, verdict_on


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    writer = EvidenceWriter(folder / "evidence.jsonl")
    for record in study_records():
        writer.emit(record)
    writer.close()
    return read_run(folder)


def test_subjects_that_bring_a_tuning_along_are_one_study_with_the_baseline():
    """As numbers of receive queues do."""
    first, *others = tcp_chain()
    baseline = replace(first, labels=(*first.labels, ("tuning", "rxq=1")))
    tuned = [replace(one, labels=(*one.labels, ("tuning", f"rxq={n}"))) for n, one in enumerate(others, 2)]
    (found,) = find_comparisons([baseline, *tuned, *tcp_chain("patch")[:1]])
    assert found.outcomes == (baseline, *tuned)
    assert dict(found.labels)["link"] == "veth"
    assert "tuning" not in found.name


def test_outcomes_that_differ_in_one_label_are_one_study():
    found = find_comparisons([*patch_chain(), *tcp_chain("patch"), *tcp_chain("veth")])

    assert [(one.main, one.per, len(one.outcomes)) for one in found] == [
        ("forwarding_rate", "bridges", 4),
        ("tcp_throughput", "bridges", 4),
        ("tcp_throughput", "bridges", 4),
    ]
    assert [one.outcomes[0].label["bridges"] for one in found] == ["1", "1", "1"]
    assert found[0].name == "patch_chain · 64 B · link=patch · dpdk"


def test_a_note_is_told_once_and_of_whom_unless_it_is_of_all():
    noted = [replace(one, notes=("frames have 256 bytes",)) for one in patch_chain()]
    noted[1:3] = [replace(one, notes=(*one.notes, "falls into two bands")) for one in noted[1:3]]
    (found,) = find_comparisons(noted)
    assert subject_notes(found) == ["frames have 256 bytes", "bridges 2, 4: falls into two bands"]
    table = " ".join(summary_text([SummaryRow(outcome) for outcome in noted]).split())
    assert table.count("frames have 256 bytes") == 1
    assert "bridges 2, 4: falls into two bands" in table


def test_subjects_with_topologies_of_their_own_are_compared_with_the_baseline():
    """A suite that gives its study no label for all of its topologies."""
    apart = []
    for outcome in patch_chain():
        label = dict(outcome.labels)
        apart.append(replace(outcome, labels=tuple((label | {"topology": f"chain-{label['bridges']}"}).items())))

    (found,) = find_comparisons(apart)

    assert [outcome.label["bridges"] for outcome in found.outcomes] == ["1", "2", "4", "9"]
    assert "of bridges 1" in summary_text([SummaryRow(outcome) for outcome in apart])


def test_the_table_has_a_line_a_subject_with_its_own_verdict(run):
    lines = summary_text(summary_rows(run), width=120).splitlines()

    rows = {line.split()[0]: line for line in lines[:12] if line.split()[:1] and line.split()[0].isdigit()}
    assert rows["2"].rstrip().endswith("PASS")
    assert rows["9"].rstrip().endswith("FAIL")
    assert "Mpps" in rows["9"]
    assert "% " in rows["9"]
    text = "\n".join(lines)
    assert "of bridges 1" in text
    assert "each added bridge: forwarding rate, per direction -0." in text
    assert "0.06 + 0.16 + 0.84" in text
    assert "a veth end is an af_packet port" in text
    assert all(len(line) <= 120 for line in lines)


def test_a_slope_is_said_with_its_interval():
    (found,) = find_comparisons(tcp_chain())
    assert slope_line(found).startswith("each added bridge: TCP goodput -")
    assert "(interval at 98.3 %)" in slope_line(found)


def test_an_open_interval_is_said_in_words():
    outcomes = study("t", {"forwarding_rate": ("pps", 5e6, 0.0)}, at_least="generator-limited", datapath="dpdk")
    assert interval_text(outcomes[1].relative("forwarding_rate")) == "open"
    assert other_result(outcomes[1]).startswith("≥ ")
    chart = study_chart(find_comparisons(outcomes))
    assert "open" in {row.get("label") for name in legend(chart) for row in rows(chart, name)}


@pytest.mark.parametrize(
    ("node_cpus", "said"), [("shared", [SHARED_CPUS]), ("short-turns", [SHORT_CPU_TURNS]), ("own", [])]
)
def test_nodes_that_share_cpus_are_said_below_the_table(node_cpus, said):
    outcomes = study("t", {"forwarding_rate": ("pps", 5e6, 0.0)}, node_cpus=node_cpus, datapath="dpdk")
    text = summary_text([SummaryRow(outcome) for outcome in outcomes])
    assert [note for note in (SHARED_CPUS, SHORT_CPU_TURNS) if note in text] == said


def test_instructions_do_not_mind_who_shares_a_cpu():
    cost = {"instructions_per_packet": ("instructions", 900, 0.0)}
    outcomes = study("t", cost, node_cpus="shared", datapath="dpdk", time="virtual")
    assert SHARED_CPUS not in summary_text([SummaryRow(outcome) for outcome in outcomes])


def lowest_end(outcomes: list[Outcome]) -> float:
    """Of all intervals of ratios."""
    chart = study_chart(find_comparisons(outcomes))
    return min(row["low"] for name in legend(chart) for row in rows(chart, name))


def test_an_open_interval_draws_no_bar_and_is_explained():
    outcomes = study("t", {"forwarding_rate": ("pps", 5e6, 0.0)}, at_least="generator-limited", datapath="dpdk")

    assert lowest_end(outcomes) > 90, "a bar down to 0 would say that the ratio may be 0"
    assert OPEN_INTERVAL in summary_text([SummaryRow(outcome) for outcome in outcomes])
    assert OPEN_INTERVAL not in summary_text([SummaryRow(outcome) for outcome in patch_chain()])


def test_an_interval_with_one_end_draws_no_bar_to_the_other_and_is_explained():
    """The baseline is a bound: the ratio is at most what its interval says."""
    outcomes = patch_chain()
    ratios = [replace(ratio, low=0.0) for ratio in outcomes[1].relatives]
    outcomes[1] = replace(outcomes[1], relatives=tuple(ratios))

    assert interval_text(ratios[0]) == f"{ratios[0].high:.1%} or less".replace("%", " %")
    assert lowest_end(outcomes) > 90, "a bar down to 0 would say that the ratio may be 0"
    chart = study_chart(find_comparisons(outcomes))
    _, bound, certain, _ = rows(chart, legend(chart)[0])
    assert (bound["label"], bound["low"] == bound["y"]) == ("≤", True)
    assert (certain["label"], certain["low"] < certain["y"]) == ("", True)
    assert ONE_SIDED in summary_text([SummaryRow(outcome) for outcome in outcomes])
    assert ONE_SIDED not in summary_text([SummaryRow(outcome) for outcome in patch_chain()])


def named(baseline: str, *others: str) -> list[Outcome]:
    """A study of what has names, not numbers."""
    label = {"bridges": dict(zip(("1", "2", "4"), (baseline, *others), strict=False))}
    found = []
    for outcome in patch_chain()[: 1 + len(others)]:
        labels = tuple(
            ("case" if name == "bridges" else name, label.get(name, {}).get(value, value))
            for name, value in outcome.labels
        )
        ratios = tuple(replace(ratio, baseline=(("case", baseline),)) for ratio in outcome.relatives)
        found.append(replace(outcome, labels=tuple(sorted(labels)), relatives=ratios, slopes=()))
    return found


def test_names_stand_as_they_were_measured_and_no_line_joins_them():
    chart = study_chart(find_comparisons(named("without", "2a", "reads")))
    assert axis(chart, "x")["scale"]["domain"] == ["without", "2a", "reads"]
    assert chart[0]["title"] == "Ratio to case without"
    assert "line" not in {layer["mark"]["type"] for layer in layers(chart)}


def test_comparisons_with_baselines_of_their_own_say_so():
    one, other = find_comparisons(named("1a", "1b")), find_comparisons(named("without", "2a"))
    assert ratio_title([*one, *other]) == "Ratio to the baseline of each"


def test_slopes_have_units_that_people_read():
    found = find_comparisons(study("t", {"packet_time": ("ns", 140.0, 28.0)}, datapath="dpdk"))[0]
    assert " us" in slope_text(found.slopes[0])
    assert "e+" not in slope_text(found.slopes[0])


def test_one_line_of_an_outcome():
    text = other_result(patch_chain()[-1])
    assert text.startswith("5.")
    assert " of bridges 1, " in text
    assert text.endswith(" cycles per packet")
    assert other_result(tcp_chain()[0]).endswith("Gbps, 0.06 + 0.16 + 0.84 cores")


def test_the_chart_has_a_curve_and_error_bars_for_each_study():
    chart = study_chart(find_comparisons([*tcp_chain("patch"), *tcp_chain("veth")]))

    assert len(legend(chart)) == len(legend(chart, 1)) == 2
    assert axis(chart, "x")["scale"]["domain"] == ["1", "2", "4", "9"]
    assert {"line", "rule", "point"} <= {layer["mark"]["type"] for layer in layers(chart)}
    assert all(row["low"] <= row["y"] <= row["high"] for name in legend(chart) for row in rows(chart, name))


def test_the_page_shows_readings_ratios_slopes_and_which_datapath(run, tmp_path):
    page = render_report(run, tmp_path).read_text()

    assert "Forwarding rate, per direction against bridges" in page
    assert "TCP goodput against bridges" in page
    assert "bridges 9: readings in interleaved rounds" in page
    assert "bridges 1 (baseline): readings" in page
    assert "Each added bridge: forwarding rate" in page
    assert "af_packet port" in page
    assert re.search(r"bridges 1: \d\.\d\d Mpps, 2: 9\d\.\d %, 4: 9\d\.\d %, 9: 9\d\.\d %", page)
    assert '<span class="soft small">bridges=9</span>' in page, "a verdict says which subject it is about"


def test_a_run_of_streams_in_one_line():
    assert stream_line(stream_run()) == "1 TCP stream for 700 ms, 1.54 Gbps, 0.06 + 0.06 cores"


def test_readings_as_csv():
    header, first, *others = samples_csv(tcp_chain()[0]).splitlines()
    assert header == "metric,unit,reading,value,evidence"
    assert first.startswith("tcp_throughput,bps,1,1")
    assert first.endswith(",trial-0001")
    assert len(others) == 19


def test_a_skipped_test_says_why_and_where(tmp_path):
    ids = RecordIds()
    test = TestData((("suite", "chaining"), ("test", "test_x")), {"datapath": "system"})
    end = TestEndData("skipped", 0.1, "no module")
    writer = EvidenceWriter(tmp_path / "evidence.jsonl")
    for payload in (test, end):
        writer.emit(make_record(payload, id=ids.next(KINDS[type(payload)]), run="r", test="t.py::x", time_ns=1))
    writer.close()

    page = render_report(read_run(tmp_path), tmp_path).read_text()

    assert "Skipped: no module" in page
    assert "x · system" in page


def test_a_study_of_one_subject_is_a_line_of_the_table_with_its_verdict():
    """It compares nothing, and was measured and judged all the same."""
    alone = replace(tcp_chain()[0], relatives=(), slopes=())
    row = SummaryRow(alone, (verdict_on(alone, Judgement.PASS),))

    (line,) = [line for line in summary_text([row], width=140).splitlines() if "tcp_chain" in line]

    assert "Gbps" in line
    assert line.endswith("PASS")
    assert summary_text([SummaryRow(one) for one in tcp_chain()]).count("tcp_chain") == 1, "compared ones stay a table"
