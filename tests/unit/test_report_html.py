"""The HTML page: whole, self-contained, escaped, and every link leads somewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.report import page_parts
from pytest_nfvperf.adapters.report.datasheet import render_datasheet
from pytest_nfvperf.adapters.report.html import SuitePage, render_report
from pytest_nfvperf.adapters.report.published_figures import PublishedSeries
from pytest_nfvperf.adapters.report.run_facts import SIMULATED, command_line
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.model.evidence.records import AttachmentData, Cause, TestData, TestEndData
from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome, LossPoint, Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.outcomes import measured
from tests.sample_run import SampleRun, small_run, write_sample

VOID = {"meta", "br", "link", "img", "hr", "input", "col"}


class Page(HTMLParser):
    """Collects ids, links and texts, and complains about tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids += [given["id"] or ""] if "id" in given and tag not in {"path", "clippath", "lineargradient"} else []
        self.links += [given["href"] or ""] if tag == "a" else []
        self.sources += [given[name] or "" for name in ("src", "xlink:href") if name in given]
        if tag not in VOID:
            self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data.strip())

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag) if tag not in VOID else None

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    """A small run as read from disk."""
    return read_run(write_sample(tmp_path_factory.mktemp("run"), small_run()))


@pytest.fixture(scope="module")
def page(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its page."""
    published = [PublishedSeries("Somebody's NIC", "a paper", "ndr", ((64, 5e6), (1518, 2e6)))]
    return render_report(run, tmp_path_factory.mktemp("page"), published).read_text()


def render(records: SampleRun, tmp_path: Path) -> str:
    """A page of these records."""
    run = read_run(write_sample(tmp_path, records.records))
    return render_report(run, tmp_path / "out").read_text()


def test_needs_nothing_from_elsewhere(page: str) -> None:
    parsed = Page(page)
    assert all(link.startswith("#") for link in parsed.links)
    assert all(source.startswith(("#", "data:image/png;base64,")) for source in parsed.sources)
    ours = [page_parts.own_file(name).strip() for name in ("charts.js", "report.js")]
    drawing, charts, library, reading = parsed.scripts
    assert [drawing, library, reading] == [ours[0], page_parts.library(), ours[1]], "packed parts, and our scripts"
    assert re.fullmatch("[A-Za-z0-9+/=]+", charts)
    assert not re.search(r"@import|url\((?!#)", page)


def test_every_link_leads_to_one_place(page: str) -> None:
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link[1:] for link in parsed.links} <= set(parsed.ids)


def test_shows_every_trial_and_why_some_are_invalid(page: str, run: RunEvidence) -> None:
    ids = set(Page(page).ids)
    assert set(run.trials) <= ids
    invalid = [trial for trial in run.trials.values() if not trial.result.valid]
    assert invalid
    assert page.count("invalid: skipped_frames: ") == len(invalid)


def test_says_what_did_not_pass_first(page: str) -> None:
    assert page.index("What did not pass") < page.index(">Summary<")
    assert "Testbed broken: of 6 selected tests 2 testbed broken, 1 inconclusive, 3 passed" in page
    assert "The run says nothing about the DUT: repair the testbed" in page
    assert "generator-limited: the DUT does at least" in page
    assert "nfvperf-gen died with SIGSEGV during a trial at 1.5 Mpps" in page
    assert "vhost-user backend disconnected" in page
    assert 'First cause: <a href="#error-0001">' in page


def test_a_fail_at_one_load_has_its_figures_its_why_and_no_chart(tmp_path: Path) -> None:
    sample, traffic = SampleRun(), Traffic()
    sample.begin()
    labels = sample.labels("throughput", "test_fixed", "phy2phy", traffic)
    sample.start_test("test_fixed.py::test_fixed", labels, "")
    trial = sample.trial(traffic, 5_000_000, 4e6, "fixed load")
    loss = (LossPoint(5_000_000, 0.2, trial, 2_000_000, 10_000_000, 5_000_000),)
    sample.add(measured(Outcome(labels, "fixed-load", 64.0, 2, loss_curve=loss, trials=(trial,))))
    met = Verdict(Judgement.PASS, "ndr >= 4 Mpps", "ndr", 4e6, "pps", 5e6, 0.25, "5.00 Mpps", "sla.yaml:1")
    few = replace(met, judgement=Judgement.FAIL, observed=3e6, margin=-0.25, reason="3.00 Mpps")
    lossless = Verdict(Judgement.FAIL, "loss_ratio <= 0", "loss_ratio", 0.0, "ratio", 0.2, None, "20 %", "sla.yaml:2")
    for verdict in (met, few, replace(lossless, confidence="2,000,000 lost of 10,000,000", evidence=(trial,))):
        sample.add(verdict)
    sample.add(TestEndData("failed", 1.0))
    sample.end()
    page = render(sample, tmp_path)
    rows = page[page.index("Worst margins<") :].split("</tr>")[1:4]
    assert re.findall("loss_ratio|3.00 Mpps|5.00 Mpps", "".join(rows)) == ["loss_ratio", "3.00 Mpps", "5.00 Mpps"]
    why = f"2,000,000 lost of 10,000,000; most frames were lost in p0 generator: refused ({trial})"
    assert re.findall(r'class="why">([^<]*lost[^<]*)<', page) == [why, why]
    assert "data-chart=" not in page
    lost = page[page.index("Frame loss<") :]
    assert re.findall(r">([\d,]+)</td>", lost[: lost.index("</table>")]) == ["10,000,000", "2,000,000"]
    sheet = render_datasheet(read_run(tmp_path), tmp_path / "datasheet.html").read_text()
    assert re.search(r"26.3 Frame loss rate</h2>\s*<div.*?>5.00 Mpps<.*?>20 %<", sheet, re.DOTALL)


def test_the_plateau_stands_beside_ndr_and_pdr(page: str) -> None:
    assert re.search(r"plateau <.*?at overload.*?Mpps at 95 %; median of 62 undisturbed windows", page, re.DOTALL)
    assert 'data-th="plateau, Mpps"' in page
    assert "The plateau is what it forwards at overload" in page


def test_a_run_without_any_plateau_has_no_column_for_it(tmp_path: Path) -> None:
    records = SampleRun()
    records.build(("phy2phy",), ())
    assert "plateau" not in re.sub(r"<script.*?</script>", "", render(records, tmp_path), flags=re.DOTALL)


def test_an_honest_zero_says_what_it_proves(page: str) -> None:
    assert re.search(r"0 lost of [\d,]+: loss ratio below \d\.\de-\d\d at 95 %", page)


def test_shows_testbed_published_figures_and_ledger(page: str) -> None:
    for text in ("OVS 3.1.0 with DPDK 22.11.7", "hugepages.2048kB", "pmd_cpus: [1]", "Somebody&#39;s NIC", "a paper"):
        assert text in page
    assert "ovs_tx_failure_drops" in page
    assert re.search(r"<pre>p0 -&gt; p1: [\d,]+ offered", page)
    assert "unexplained" in page


def test_published_figures_are_listed_by_their_source(run: RunEvidence, tmp_path: Path) -> None:
    published = [PublishedSeries(name, source, "ndr", ((64, 1e6),), "pps") for name, source in ("ax", "by", "cx", "cx")]
    told = render_report(run, tmp_path, published).read_text().partition("<b>Published figures</b>")[2]
    assert re.findall(r"<li>(.*)</li>", told) == ["x: a (ndr); c (ndr)", "y: b (ndr)"]


def test_published_figures_belong_beside_outcomes_of_their_labels() -> None:
    series = PublishedSeries("DPDK", "a paper", "ndr", ((64, 4e6),), where=(("datapath", "dpdk"), ("test", "test_a")))
    assert series.belongs_to({"datapath": "dpdk", "test": "test_a", "frame_size": "64"})
    assert not series.belongs_to({"datapath": "system", "test": "test_a"})
    assert not series.belongs_to({"datapath": "dpdk"})


def test_a_suite_without_trials_counts_none() -> None:
    assert SuitePage("pods").line == "took 0 s"


def test_every_chart_is_also_a_png_and_an_svg(run: RunEvidence, tmp_path: Path) -> None:
    page = render_report(run, tmp_path, pictures=True).read_text()
    files = sorted((tmp_path / "charts").glob("*.png"))
    assert len(files) == page.count('class="chart"') + page.count("<svg ")
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    assert "sweep-throughput-frame-size-1.png" in {file.name for file in files}
    for file in files:
        ET.parse(file.with_suffix(".svg"))


def test_what_users_write_is_escaped(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    sample.start_test(
        "test_x.py::test_x", (("suite", "<b>"), ("topology", "<i>"), ("frame_size", "64")), "<script>1</script>"
    )
    sample.add(
        Outcome(
            (("suite", "<b>"), ("topology", "<i>")),
            "mlrsearch",
            64.0,
            2,
            goals=(GoalOutcome(Goal("ndr", 0), SearchStatus.ABORTED, detail="<u>"),),
        )
    )
    sample.add(AttachmentData("<em>", text="</pre><script>2</script>"))
    sample.add(TestEndData("passed", 1.0))
    sample.end()
    parsed = Page(render(sample, tmp_path))
    assert not parsed.tags & {"em", "u", "i"}
    assert parsed.scripts == [page_parts.own_file(name).strip() for name in ("charts.js", "report.js")]


def test_an_aborted_search_shows_no_figure(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    sample.start_test("test_x.py::test_x", (("topology", "pvp"), ("frame_size", "64")), "")
    goal = GoalOutcome(Goal("ndr", 0.0), SearchStatus.ABORTED, detail="no valid trial within the budget")
    sample.add(
        Outcome((("topology", "pvp"), ("frame_size", "64")), "mlrsearch", 64.0, 2, goals=(goal,), notes=("no profile",))
    )
    sample.add(TestEndData("passed", 1.0))
    sample.end()
    page = render(sample, tmp_path)
    assert page.count("no profile") == 1
    assert "no valid trial within the budget" in page
    assert ">aborted<" in page
    assert "Nothing was judged, no SLA applied: 1 of 1 selected test passed" in page


def test_a_killed_run_says_so_and_is_not_accepted(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    sample.throughput_test("phy2phy", 512)
    page = render(sample, tmp_path)
    assert "This evidence is incomplete" in page
    assert "the run did not end by itself" in page
    assert "Killed: the run did not end by itself: of 1 selected test 1 passed" in page
    assert "Accepted" not in page


def test_a_run_killed_at_once_still_has_a_page(tmp_path: Path) -> None:
    EvidenceWriter(tmp_path / "evidence.jsonl").close()
    page = render_report(read_run(tmp_path), tmp_path).read_text()
    assert "nothing is known about the testbed" in page
    assert "Accepted" not in page
    assert 'id="vega"' not in page, "which draws charts alone, and has 0.4 MB"


def test_a_run_that_met_its_sla_is_accepted(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    sample.throughput_test("phy2phy", 512)
    sample.end()
    page = render(sample, tmp_path)
    assert "Accepted: all 2 requirements met" in page
    assert 'id="vega"' in page


def test_trials_that_two_outcomes_share_are_listed_once(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    labels = (("topology", "pvp"), ("frame_size", "64"))
    sample.start_test("test_x.py::test_x", labels, "")
    sample.broken_tests()
    shared = Outcome(labels, "latency", 64.0, 2, trials=("trial-0001",))
    sample.add(shared)
    sample.add(replace(shared, algorithm="other"))
    page = render(sample, tmp_path)
    assert Page(page).ids.count("trial-0001") == 1
    assert "Also rests on trials listed earlier" in page


def test_tests_without_evidence_do_not_fail_the_page(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    sample.start_test("test_x.py::test_x", (("topology", "pvp"), ("frame_size", "64")), "")
    sample.add(TestData())
    sample.add(TestEndData("skipped", 0.0))
    sample.end()
    assert ">skipped<" in render(sample, tmp_path)


def test_a_long_reason_is_folded_not_cut(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.begin()
    labels = (("topology", "pvp"), ("frame_size", "64"))
    sample.start_test("test_x.py::test_x", labels, "")
    reason = "six trials in a row were invalid " * 20 + "and that is the end"
    verdict = Verdict(
        Judgement.INCONCLUSIVE, "ndr >= 1 Mpps", "ndr", 1e6, "pps", None, None, reason, "sla.yaml: rules[0]"
    )
    sample.add(verdict)
    sample.add(TestEndData("failed", 1.0, "SLA", Cause.INCONCLUSIVE))
    sample.end()
    page = render(sample, tmp_path)
    assert page.count("and that is the end") == 2  # in the overview and in the test
    assert page.count('<details class="long">') == 2


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("/lab/.venv/lib/python3.11/site-packages/pytest/__main__.py", "suites/"), "python -m pytest suites/"),
        (("/lab/.venv/bin/pytest", "-k", "ndr and not pvp"), "pytest -k 'ndr and not pvp'"),
        (("pytest",), "pytest"),
        ((), ""),
    ],
)
def test_the_command_is_told_as_it_was_typed(argv: tuple[str, ...], shown: str) -> None:
    assert command_line(argv) == shown


@pytest.mark.parametrize(
    ("display", "starts", "told"),
    [
        ("", True, "not opened: no display here (DISPLAY, WAYLAND_DISPLAY), and BROWSER names no program"),
        (":0", False, "not opened: no browser could be started; name one by the variable BROWSER"),
        (":0", True, None),
    ],
    ids=["no display", "no browser", "opened"],
)
def test_a_report_opens_or_says_why_not(
    display: str, starts: bool, told: str | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    opened: list[str] = []
    monkeypatch.setattr("pytest_nfvperf.adapters.report.html.can_draw", lambda: False)  # it takes seconds
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or starts)
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    write_sample(tmp_path, small_run())
    assert main(["report", str(tmp_path), "--open"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == str(tmp_path / "report.html")
    assert [line for line in shown if line.startswith("not opened")] == ([told] if told else [])
    assert opened == ([(tmp_path / "report.html").as_uri()] if display else [])
    assert SIMULATED not in (tmp_path / "report.html").read_text()
