"""A comparison in the document, the table, the page, the chart, Allure and the run's conclusion."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from chart_rows import charts_in

from pytest_nfvperf.adapters.evidence.comparison import compared_run, write_comparison
from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.report.comparison import (
    comparison_chart,
    comparison_rows,
    comparison_text,
    heading,
    heading_once,
    topic,
)
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.run_facts import dut_facts
from pytest_nfvperf.model.evidence.comparison import ComparedRun, side_differences
from pytest_nfvperf.model.evidence.conclusion import RunFacts, RunResult, TestFacts, conclude_run
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.compare import ComparisonSettings, Side, SideFigures
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut
from pytest_nfvperf.session.comparison import SIDE, unique_side_notes
from tests.chart_rows import axis, rows
from tests.sample_comparison import comparison_records


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    writer = EvidenceWriter(folder / "evidence.jsonl")
    for record in comparison_records():
        writer.emit(record)
    writer.close()
    return read_run(folder)


@pytest.fixture(scope="module")
def compared(run):
    return compared_run(run, conclude(run))


def test_the_document_has_sides_figures_differences_and_what_was_left_out(compared, tmp_path):
    made = json.loads(write_comparison(compared, tmp_path).read_text())

    assert (tmp_path / "comparison.json").is_file()
    assert [(side["name"], side["settings"]) for side in made["sides"]] == [
        ("old", {}),
        ("new", {"smc-enable": "true"}),
        ("odd", {}),
    ]
    assert made["sides"][1]["dut"]["version"] == "3.5.0"
    assert made["sides"][2]["dut"] is None
    assert {"what": "OVS", "values": {"old": "3.1.0", "new": "3.5.0", "odd": "-"}} in made["differences"]
    assert {"what": "smc-enable", "values": {"old": "-", "new": "true", "odd": "-"}} in made["differences"]
    first = made["comparisons"][0]
    assert (first["test"], first["labels"]["frame_size"], first["how"]) == ("t.py::a", "64", "alternating")
    assert [side["state"] for side in first["sides"]] == ["measured", "broken"]
    assert first["sides"][0]["metrics"][0]["dropped"] == {"cpu_moved": 2}
    assert made["counts"] == {"broken": 2, "slower": 1, "same": 1}
    assert [one["test"] for one in made["left_out"]] == ["t.py::soak"]
    assert (made["result"], made["exit_status"], made["paired"]) == ("broken", 11, True)


def test_the_table_has_a_line_for_each_metric_and_the_reason_of_what_broke(compared):
    lines = comparison_text(compared).splitlines()

    assert lines[:3] == [
        "old (baseline): OVS 3.1.0 with DPDK 22.11.7",
        "new: OVS 3.5.0 with DPDK 24.11.2, smc-enable=true",
        "odd: did not run",
    ]
    rows = {" ".join(line.split()) for line in lines}
    assert (
        "throughput/ndr_pdr phy2phy 64 new forwarding rate 6.60 Mpps 0.865 0.855 .. 0.875 1.2% "
        "31 in 8, 2 dropped slower"
    ) in rows
    assert any(row.startswith("PMD cycles per packet 230 cycles 1.140") for row in rows)
    assert "2 tests, odd: broken: vswitchd ended with status 127" in rows, "a reason that several share is told once"


def test_no_difference_below_the_noise_floor_is_called_visible(compared):
    first = compared.tests[0]
    metric = replace(first.data.sides[0].metrics[0], noise_floor=0.188)
    noisy = replace(first, data=replace(first.data, sides=(SideFigures("new", metrics=(metric,)),)))
    run = replace(compared, tests=(noisy,))

    assert comparison_rows(run)[0].visible == "18.8%"
    chart = comparison_chart(run)
    low, high = axis(chart, "x")["scale"]["domain"]
    assert low < 1 / 1.188 < 1.188 < high, "the plot shows the noise floor"
    (floor,) = rows(chart, "noise floor: a ratio within it does not count")
    assert (floor["low"], floor["high"]) == (1 / 1.188, 1.188)
    assert comparison_rows(replace(compared, tests=(first,)))[0].visible == "1.2%"


def test_what_the_reader_must_know_of_a_test_stands_below_the_table(compared):
    first = compared.tests[0]
    noted = replace(first, data=replace(first.data, notes=("frames have 256 bytes",)))
    run = replace(compared, tests=(noted, *compared.tests[1:]))
    assert "throughput/ndr_pdr phy2phy 64: frames have 256 bytes" in comparison_text(run).splitlines()


def test_a_note_on_all_sides_is_told_once():
    by_side = {"a": ("larger", "two bands"), "b": ("larger",), "c": ("larger", "late", "late")}
    outcomes = [Outcome(((SIDE, side),), "frmol", 64.0, 1, trials=(), notes=notes) for side, notes in by_side.items()]
    assert unique_side_notes(outcomes) == ("larger", "a: two bands", "c: late")


def test_a_side_that_has_no_figure_is_a_line_of_cannot_tell(compared):
    """As runs recorded it before such a side had a reason; their reports are drawn still."""
    first = compared.tests[0]
    bare = replace(first.data, sides=(SideFigures("new"),))
    (row,) = comparison_rows(replace(compared, tests=(replace(first, data=bare),)))
    assert row.word == "cannot tell"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_is_as_wide_as_the_terminal_and_cuts_nothing(compared, width):
    text = comparison_text(compared, width=width)

    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert all(word in text.split() for word in ("throughput/ndr_pdr", "0.855", "1.2%", "slower"))
    assert text.count("throughput/ndr_pdr phy2phy 1518") == 1


def test_the_page_has_the_chart_the_table_and_what_differs(run, tmp_path):
    text = render_report(run, tmp_path).read_text()

    assert '<section id="comparison">' in text
    assert charts_in(text)[0][0]["title"] == "Ratio to old, with its interval"
    assert '<span class="badge fail">slower</span>' in text
    assert "What differs between the sides" in text
    assert "not compared: a soak cannot alternate between sides" in text
    assert "Testbed broken. Compared: 2 broken, 1 slower, 1 same" in text


def test_the_section_of_a_comparison_has_what_changed_in_profiles(run, tmp_path):
    """Steps: one of its tests has profiles of two sides. Verify: what they differ by is in the section, no more."""
    node_id, test = list(run.tests.items())[-1]
    names = ("what changed, side: new against old", "CPU profile of trial-0001, phy2phy on dpdk, side old")
    attached = {name: AttachmentData(name, text=f"{name}\n12.0% -> 30.0%") for name in names}
    changed = replace(run, tests={**run.tests, node_id: replace(test, attachments=attached)})
    page = render_report(changed, tmp_path).read_text()
    section = page[page.index('<section id="comparison">') :].partition("</section>")[0]
    assert section.count("Where the cycles went: ") == 1
    assert names[0] in section
    assert names[1] not in section
    assert "Where the cycles went" not in render_report(run, tmp_path).read_text()


def test_the_chart_has_a_line_for_each_side_with_a_ratio(compared):
    assert axis(comparison_chart(compared), "y")["scale"]["domain"] == ["64 B, new", "1518 B, new"]

    two = [side for side in compared.comparing.sides if side.name != "odd"]
    chart = comparison_chart(replace(compared, comparing=replace(compared.comparing, sides=two)))
    assert axis(chart, "y")["scale"]["domain"][0] == "64 B", "the heading names the only other side"


def test_what_all_tests_have_in_common_is_said_once(compared, run, tmp_path):
    assert topic(compared) == ("throughput/ndr_pdr phy2phy", ["64 B", "1518 B"])
    assert topic(replace(compared, tests=compared.tests[:1])) == ("throughput/ndr_pdr phy2phy 64 B", [""])
    text = render_report(run, tmp_path).read_text()
    assert text.count("throughput/ndr_pdr phy2phy") == 1
    assert "<h2>Comparison with old: throughput/ndr_pdr phy2phy</h2>" in text


def test_a_version_that_all_sides_have_is_said_once(compared):
    sides = (Side("off", "installed"), Side("on", "installed", (("smc-enable", "true"),)))
    info = dict(compared.duts)["old"]
    alike = replace(compared, comparing=ComparisonSettings(sides), duts=(("off", info), ("on", info)))
    assert heading_once(alike) == [
        "all: OVS 3.1.0 with DPDK 22.11.7",
        "off (baseline): its defaults",
        "on: smc-enable=true",
    ]
    assert heading_once(compared) == heading(compared)


def test_sides_of_testpmd_are_called_so():
    comparing = ComparisonSettings((Side("old", "a"), Side("new", "b")))
    duts = [
        (name, DatapathInfo("testpmd", version, None, "io")) for name, version in (("old", "23.11"), ("new", "24.11"))
    ]
    compared = ComparedRun("run", comparing, (), duts=tuple(duts))
    assert heading(compared) == ["old (baseline): testpmd of DPDK 23.11", "new: testpmd of DPDK 24.11"]
    assert side_differences(comparing, duts) == (("testpmd", (("old", "23.11"), ("new", "24.11"))),)


def test_the_head_says_of_another_dut_only_what_differs(run):
    started = DatapathInfo("dpdk", "3.5.0", "24.11.2", "1 PMD", "/b", "installed", (("options", "-O2"),))
    other = replace(started, version="3.5.1", build=())
    first, second = (next(iter(test.topologies.items())) for test in list(run.tests.values())[:2])
    kernel = replace(started, kind="system", dpdk_version=None)
    named = [replace(one, dut=Dut(version=name), info=info) for (_, one), name, info in (
        (first, "a", started), (second, "b", started), (second, "c", other), (second, "d", kernel)
    )]  # fmt: skip
    test = replace(run.tests["t.py::a"], topologies=dict(enumerate(named)))
    facts = dut_facts(replace(run, tests={"t.py::a": test}), replace(run.run, dut=None))
    assert facts == [
        ("DUT a (dpdk), b (dpdk)", "OVS 3.5.0 with DPDK 24.11.2, dpdk datapath: 1 PMD (from installed; options -O2)"),
        ("DUT c (dpdk)", "as DUT a (dpdk), but OVS 3.5.1 with DPDK 24.11.2; no options"),
        ("DUT d (system)", "OVS 3.5.0, system datapath: 1 PMD (from installed; options -O2)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("compared", "status", "result", "headline"),
    [
        ({"same": 3}, 0, RunResult.PASSED, "Compared: 3 same"),
        ({}, 0, RunResult.INCONCLUSIVE, "Inconclusive. Compared: nothing"),
        ({"same": 1}, 2, RunResult.INTERRUPTED, "Interrupted. Compared: 1 same"),
    ],
)
def test_a_run_that_compares_says_what_it_found(compared, status, result, headline):
    conclusion = conclude_run(RunFacts((TestFacts("t", status="passed"),), status, compared=compared))
    assert (conclusion.result, conclusion.headline) == (result, headline)
