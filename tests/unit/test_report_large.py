"""Page, terminal and datasheet of a run of 1,000 tests: small, folded, what did not pass first, names that differ."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from chart_rows import charts_in

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.report.datasheet import render_datasheet
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.summary_table import run_table
from pytest_nfvperf.model.evidence.records import Record, TestData, TestEndData
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.compare import ComparisonSettings
from pytest_nfvperf.model.measure.outcome import Goal, Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from tests.browser_support import CHROMIUM, chromium
from tests.outcomes import measured
from tests.sample_comparison import SIDES, comparison, metric
from tests.sample_run import SampleRun, run_data, write_sample

SUITES = ("throughput", "overlay")
SIZES = (64, 512, 1518)
TESTS, FAILED = 1000, 100
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")


def large_run() -> list[Record]:
    """Every tenth test fails. Tests of the two suites have the same names."""
    sample = SampleRun()
    sample.begin()
    for number in range(TESTS):
        suite, size, flows = SUITES[number % 2], SIZES[number // 2 % 3], 1 + number // 6
        labels = {"flows": str(flows), "frame_size": str(size), "suite": suite, "test": "test_rate", "topology": "pvp"}
        sample._test = f"suites/{suite}/test_rate.py::test_rate[{flows}-{size}]"
        sample.add(TestData(tuple(labels.items()), {}, ""))
        found = SearchedGoal(Goal("ndr", 0.0), SearchStatus.FOUND, 4_000_000 + number, 4_100_000)
        sample.add(measured(Outcome(tuple(labels.items()), "mlrsearch", float(size), 2, elapsed_s=1.0), found))
        bad = number % 10 == 9
        word, limit = (Judgement.FAIL, 5e6) if bad else (Judgement.PASS, 3e6)
        value = float(found.load_fps or 0)
        of_it = (f"ndr >= {limit / 1e6:g} Mpps", "ndr", limit, "pps", value, value / limit - 1, "4.00 Mpps")
        sample.add(Verdict(word, *of_it, "sla.yaml:3: rules[0]", "confirmed", (), subject=tuple(labels.items())))
        sample.add(TestEndData("failed" if bad else "passed", 1.0))
    sample.end()
    return sample.records


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    return read_run(write_sample(tmp_path_factory.mktemp("run"), large_run()))


@pytest.fixture(scope="module")
def page(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_report(run, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def datasheet(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> str:
    return render_datasheet(run, tmp_path_factory.mktemp("datasheet") / "datasheet.html").read_text()


def test_the_page_is_small_and_folds_what_is_long(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 9e6
    assert text.count('<details class="test" id="test-') == TESTS
    assert f"<summary>{FAILED - 20} more that did not pass</summary>" in text
    assert "<summary>All 500 tests of overlay, those that did not pass first</summary>" in text
    assert "<summary>All 1,000 rows</summary>" in text
    charts = int(re.findall(r"<summary>(\d+) more charts of overlay</summary>", text)[0])
    section = text.partition("<h2>overlay</h2>")[2].partition("</section>")[0]
    assert section.count('<div class="chart"') == 6 + charts
    ends = re.findall(r'<summary><b>.*?<span class="badge (\w+)">', section, re.DOTALL)
    assert (len(ends), ends[:FAILED].count("fail")) == (500, FAILED), "those that did not pass come first"


def test_tests_of_two_suites_do_not_read_alike(page: Path, datasheet: str) -> None:
    text = page.read_text()
    faults = text.partition('<section id="faults">')[2].partition("</section>")[0]
    names = re.findall(r'<td class="id">(.*?)</td>', faults, re.DOTALL)
    assert len(names) == FAILED
    assert all('<span class="soft">overlay</span> <a href=' in name for name in names)
    rows = re.findall(r"<tr><td>(.*?)</td>", datasheet)
    assert {row.partition("/")[0] for row in rows if "rate" in row} == set(SUITES)


def test_the_datasheet_has_some_graphs_and_all_rows(datasheet: str) -> None:
    throughput = datasheet.partition("<h2>26.1 Throughput")[2].partition("</section>")[0]
    assert throughput.count("<tr>") == 1 + TESTS
    assert throughput.count("<figure>") == 12
    assert throughput.count("<svg") == 24, "frames and bits"
    assert re.search(r"its goal allows\. \d+ graphs in the table only\.", throughput)


def test_the_terminal_lists_what_did_not_pass_and_says_where_the_rest_is(run: RunEvidence) -> None:
    table = run_table(run, conclude(run), most=100)
    assert len(re.findall(r" FAIL$", table, re.MULTILINE)) == FAILED
    assert " PASS" not in table
    note = f"The table has 100 of 1,000 rows, of tests that did not pass first. All: nfvperf show {run.path}"
    assert table.endswith(note)
    assert len(re.findall(r" (FAIL|PASS)$", run_table(run, conclude(run)), re.MULTILINE)) == TESTS
    more = run_table(run, conclude(run), most=120)
    assert len(re.findall(r" FAIL$", more, re.MULTILINE)) == FAILED
    assert len(re.findall(r" PASS$", more, re.MULTILINE)) == 20


@pytest.mark.thorough("starts Chromium")
@NEEDS_CHROMIUM
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_opens_and_its_finder_finds(page: Path, width: int) -> None:
    with chromium() as tab:
        tab.show(page, width=width, dark=width < 600)
        assert tab.ask("document.documentElement.scrollWidth") <= width
        assert tab.ask("document.querySelectorAll('.chart svg').length") <= 2, "charts are drawn out of sight"
        assert not tab.ask("document.querySelector('#tests tbody tr').checkVisibility()")
        tab.ask("document.getElementById('which').value = 'FAIL'")
        tab.ask("document.getElementById('which').dispatchEvent(new Event('input'))")
        assert tab.ask("document.getElementById('found').textContent") == "100 of 1000 tests"
        visible = "[...document.querySelectorAll('#tests tbody tr')].filter(row => row.checkVisibility()).length"
        assert tab.ask(visible) == FAILED
        tab.ask("location.hash = document.querySelector('#faults td.id a').hash")
        tab.wait("document.querySelector('details.test.aimed')?.checkVisibility()", "the test to be unfolded")
        assert tab.complaints == []


def test_a_comparison_shows_first_what_changed(tmp_path: Path) -> None:
    """50 tests with one side, of which every tenth is slower. The chart has 40, the table of the terminal half."""
    sample, names = SampleRun(), [f"t.py::test[{number}]" for number in range(50)]
    sample.add(replace(run_data(), compare=ComparisonSettings(SIDES[:2]), selected=tuple(names)))
    for number, name in enumerate(names):
        slow = number % 10 == 9
        data = comparison(str(64 + number), (metric(0.93 if slow else 1.0),))
        sample._test = name
        sample.add(TestData(data.labels, {}, ""))
        sample.add(replace(data, sides=data.sides[:1]))
        sample.add(TestEndData("failed" if slow else "passed", 1.0))
    sample.end()
    run = read_run(write_sample(tmp_path, sample.records))
    page = render_report(run, tmp_path).read_text()
    section = page.partition('<section id="comparison">')[2]
    assert "<summary>10 more tests; those that changed come first</summary>" in section
    words = re.findall(r'<td class="verdict"><span class="badge \w+">(\w+)</span>', section.partition("</section>")[0])
    assert words == ["slower"] * 5 + ["same"] * 45
    assert charts_in(page)[0][0]["title"] == "Ratio to old, with its interval: the 40 of 50 that differ most"
    table = run_table(run, conclude(run), most=25)
    assert (len(re.findall(" slower$", table, re.MULTILINE)), len(re.findall(" same$", table, re.MULTILINE))) == (5, 20)
    assert f"The table has 25 of 50 rows, of tests that changed first. All: nfvperf show {run.path}" in table
