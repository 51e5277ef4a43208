"""The figures of a run as its page, JUnit's file and the terminal show them: the same digits and units."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html import unescape

from chart_rows import charts_in, legend, values
from test_studies import SIMULATED
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.report.figures import digits
from pytest_nfvperf.model.display import format_ns

SUITE = """
import pytest
from pytest_nfvperf import Subject, Traffic, bridge_chain, compares

@pytest.mark.parametrize("frame_size", [64, 1518])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size), latency=True))

def test_loss_curve(phy2phy, search, sla):
    sla.check(search.loss_curve(phy2phy, Traffic(frame_size=64)))

def test_bursts(phy2phy, search, sla):
    sla.check(search.back_to_back(phy2phy, Traffic(frame_size=64)))

def test_loss_at(phy2phy, search, sla):
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 5e6, 1.0))

def test_soak(phy2phy, soak, sla):
    sla.check(soak.run(phy2phy, Traffic(frame_size=64), load_fps=2e6, duration_s=10))

@pytest.mark.nfv(topology="chain")
@compares("bridges", (1, 4))
def test_chain(bridges, study, sla):
    chains = [Subject(str(number), bridge_chain(number)) for number in bridges]
    sla.check_each(study.forwarding_rate("bridges", chains, Traffic(frame_size=64)))
"""
SLA = """schema: 1
rules:
  - where: {test: test_ndr_pdr}
    require: {ndr: ">= 3.9 Mpps", pdr: ">= 3 Mpps", latency_p99: {at: 50 % of pdr, limit: "<= 100 us"}}
  - where: {test: test_ndr_pdr, frame_size: 1518}
    require: {ndr: ">= 6 Gbps", pdr: ">= 4.5 Mpps"}
  - where: {test: test_loss_at}
    require: {loss_ratio: {at: 5 Mpps, limit: "<= 1 %"}}
  - where: {test: test_soak}
    require: {loss_ratio: "<= 0"}
  - where: {test: test_chain}
    require: {forwarding_rate: ">= 3 Mpps"}
  - where: {test: test_chain, bridges: 4}
    require: {forwarding_rate: ">= 120 % of {bridges: 1}"}
"""
WORDS = "PASS|FAIL|INCONCLUSIVE|no SLA"


def texts(cells: str) -> list[str]:
    """The texts of a row's cells, on one line each."""
    found = re.findall(r"<td[^>]*>(.*?)</td>", cells, re.DOTALL)
    return [" ".join(unescape(re.sub("<[^>]+>", " ", cell)).split()) for cell in found]


def rows_of(html: str) -> list[list[str]]:
    return [cells for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL) if (cells := texts(row))]


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def figures_in_page(page: str) -> dict[str, tuple[str, list[list[str]]]]:
    """By the test's name its figures, and the rows of its verdicts."""
    found = {}
    for part in page.split('<details class="test" id="test-')[1:]:
        name = re.search(r"<code>mine/test_mine.py::(.*?)</code>", part)[1]
        figures = re.search(r'<summary><b>.*?</b><span class="soft">(.*?)</span>', part, re.DOTALL)[1]
        verdicts = part.partition("<h4>Verdicts</h4>")[2].partition("</table>")[0]
        found[unescape(name)] = unescape(figures), rows_of(verdicts)
    return found


def figures_in_terminal(text: str) -> dict[str, tuple[str, str]]:
    """By the test's name its figures, and its word."""
    lines = re.findall(rf"^mine/(\S+) +(\S.*?) +({WORDS}) +[\d.]+ s +\d/\d$", text, re.MULTILINE)
    return {name: (figures, word) for name, figures, word in lines}


def figures_in_junit(text: str) -> dict[str, dict[str, str]]:
    cases = ElementTree.fromstring(text).iter("testcase")
    return {
        case.get("name", ""): {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
        for case in cases
    }


def lines_of(text: str, start: str, end: str) -> list[list[str]]:
    """Words of the lines of a table on the terminal."""
    return [line.split() for line in text.partition(start)[2].partition(end)[0].splitlines()]


def compare_verdicts(on_page, on_terminal, junit, terminal: str) -> None:
    """Requirements, what was observed, and margins; the terminal has the tables of tests that failed."""
    observed = margins = tables = 0
    for name, (_, verdicts) in on_page.items():
        for word, requirement, shown, limit, margin, *_ in verdicts:
            text = requirement.rpartition(" mine/sla.yaml")[0] or requirement
            text = re.sub(r" (bridges=\d)$", r" (\1)", text)
            assert junit[name][f"nfvperf.verdict.{text}"] == word, name
            assert junit[name][f"nfvperf.observed.{text}"] == shown, (name, text)
            assert junit[name].get(f"nfvperf.margin.{text}", "-") == margin, (name, text)
            observed, margins = observed + 1, margins + (margin != "-")
            if on_terminal[name][1] == "FAIL" and "bridges=1" not in text:
                figures = " +".join(map(re.escape, (shown, limit, margin)))
                # A long requirement goes on in the next line of its cell, further in than the row's notes.
                rows = re.findall(rf"^{word} +(\S.*?) +{figures}$(?:\n {{9,}}(\S.*))?", terminal, re.MULTILINE)
                assert text.partition(" (")[0] in [" ".join(filter(None, row)) for row in rows], (name, text)
                tables += 1
    assert (observed, margins, tables) == (13, 12, 8)


def compare_searches(page: str, terminal: str, junit) -> None:
    """The table of searches, the same loads and times in base units, and the points of the chart over frame sizes."""
    searched = [cells for cells in rows_of(section(page, "summary")) if cells[1] == "ndr_pdr"]
    assert len(searched) == 2
    assert [cells[1:] for cells in searched] == [
        [row[0], row[1], row[2], *row[3:7], f"{row[7]} {row[8]}", f"{row[9]} {row[10]}", *row[11:]]
        for row in lines_of(terminal, "verdict\n───", "Rates are")[1:]
    ]
    for cells in searched:
        of_it = junit[f"test_ndr_pdr[{cells[3]}]"]
        assert digits(int(of_it["nfvperf.ndr.load_fps"]) / 1e6) == cells[4]
        assert digits(int(of_it["nfvperf.pdr.load_fps"]) / 1e6) == cells[6]
        assert [format_ns(int(of_it[f"nfvperf.latency.{name}_ns"])) for name in ("p50", "p99")] == cells[8:10]

    drawn = charts_in(page)
    charts = [drawn[int(number)] for number in re.findall(r'data-chart="(\d+)"', section(page, "suite-1"))]
    chart = next(chart for chart in charts if chart[0]["title"] == "Frames per second")
    for panel, columns in enumerate(((4, 6), (5, 7))):
        for goal, column in zip(("NDR", "PDR"), columns, strict=True):
            (name,) = [name for name in legend(chart, panel) if name.endswith(goal) and "limit" not in name]
            assert [digits(value) for value in values(chart, name, panel)[1]] == [
                cells[column] for cells in searched
            ], (goal, column)


def test_page_junit_and_terminal_show_the_same_figures(pytester):
    make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (pytester.path / "mine" / "sla.yaml").write_text(SLA)
    result = pytester.runpytest_subprocess("mine", "--nfv-report", "html", "--junitxml", "junit.xml", "--tb", "short")
    result.assert_outcomes(passed=4, failed=3)
    terminal = result.stdout.str()
    page = (pytester.path / "reports" / "latest" / "report.html").read_text()
    on_page, on_terminal = figures_in_page(page), figures_in_terminal(terminal)
    junit = figures_in_junit((pytester.path / "junit.xml").read_text())

    # What each test measured, in a line.
    assert len(on_terminal) == 7
    assert {name: figures for name, (figures, _) in on_terminal.items()} == {
        name: figures for name, (figures, _) in on_page.items()
    }
    assert {name: figures for name, (figures, _) in on_terminal.items()} == {
        name: of_it["nfvperf.figures"] for name, of_it in junit.items()
    }

    compare_verdicts(on_page, on_terminal, junit, terminal)
    compare_searches(page, terminal, junit)

    # Whatever is no search: a row a test, or a subject of a study.
    others = {cells[1]: cells[4] for cells in rows_of(section(page, "summary")) if cells[1] != "ndr_pdr"}
    for name in ("loss_curve", "bursts", "loss_at", "soak"):
        assert others[name] == on_terminal[f"test_{name}"][0]
        assert re.search(rf"^{name} +phy2phy +64 +{re.escape(others[name])} ", terminal, re.MULTILINE)
