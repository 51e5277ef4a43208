"""The datasheet of a run: its tables, what is missing, the signature, and its print to PDF."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.report.datasheet import environment_digest, render_datasheet
from pytest_nfvperf.adapters.report.figures import goal_figures
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.model.display import format_fps, format_ns
from pytest_nfvperf.model.evidence.records import TestEndData
from pytest_nfvperf.model.statistics import Samples
from tests.browser_support import CHROMIUM, chromium
from tests.sample_run import SampleRun, small_run, write_sample
from tests.sample_soak import soak_outcome
from tests.sample_study import study_records


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    return read_run(write_sample(tmp_path_factory.mktemp("run"), small_run()))


@pytest.fixture(scope="module")
def page(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_datasheet(run, tmp_path_factory.mktemp("page") / "datasheet.html")


def section(page: Path, heading: str) -> str:
    """The HTML from a heading to the end of its section."""
    text = page.read_text()
    return text[text.index(f"<h2>{heading}") : text.index("</section>", text.index(f"<h2>{heading}"))]


def test_tables_have_the_figures_of_the_run(run: RunEvidence, page: Path) -> None:
    throughput, latency = section(page, "26.1 Throughput"), section(page, "26.2 Latency")
    searched = [outcome for outcome in run.outcomes.values() if outcome.goals]
    assert len(searched) == 2
    for outcome in searched:
        for name in ("ndr", "pdr"):
            assert f">{goal_figures(outcome, name).mpps}</td>" in throughput
        for point in outcome.latency:
            assert f">{format_ns(point.p99_ns)}</td>" in latency
    assert throughput.count("<svg") == 2, "frames and bits"
    assert ">18.12 %</td>" in section(page, "26.3 Frame loss rate")
    assert ">14,234</td>" in section(page, "26.4 Back-to-back frames")
    limits = section(page, "Limits")
    judged = [verdict for test in run.tests.values() for verdict in test.verdicts.values()]
    assert limits.count("<tr>") == 1 + len(judged) > 3


def test_the_theoretical_rate_stands_beside_the_measured_one(tmp_path: Path) -> None:
    sample = SampleRun()
    sample.line_rate_bps = 10e9
    write_sample(tmp_path, sample.build(("phy2phy",), (64, 1518)))
    page = render_datasheet(read_run(tmp_path), tmp_path / "datasheet.html")
    throughput = section(page, "26.1 Throughput")
    assert ">14.88</td>" in throughput
    assert "theoretical maximum" in throughput


def test_what_was_not_measured_is_missing(tmp_path: Path) -> None:
    write_sample(tmp_path, study_records())
    page = render_datasheet(read_run(tmp_path), tmp_path / "datasheet.html")
    for heading, why in (
        ("26.1 Throughput", "No test searched for the throughput in this run."),
        ("26.2 Latency", "No test measured the latency in this run."),
        ("26.4 Back-to-back frames", "No test measured back-to-back frames in this run."),
        ("26.5 System recovery, 26.6 Reset", "nfvperf has no test by these sections."),
    ):
        assert f"<b>Missing.</b> {why}" in section(page, heading)
    assert "The run record is missing" in section(page, "Conditions")


def test_what_was_measured_at_a_fixed_load_is_not_missing(tmp_path: Path) -> None:
    soak, figure = soak_outcome(), Samples("load_latency_p99", "ns", (9e3, 1e4, 2e4))
    sample = SampleRun()
    sample.begin()
    for outcome in (soak, replace(soak, soak=None, algorithm="load-series", samples=(figure,))):
        sample.start_test(outcome.algorithm, outcome.labels, "")
        sample.add(outcome)
        sample.add(TestEndData("passed", 1.0))
    write_sample(tmp_path, sample.records)
    page = render_datasheet(read_run(tmp_path), tmp_path / "datasheet.html")
    assert soak.soak is not None
    assert f">{format_fps(soak.soak.load_fps)}</td>" in section(page, "26.3 Frame loss rate")
    latency = section(page, "26.2 Latency")
    assert ">10.0 us</td>" in latency
    assert ">3 readings</td>" in latency


def test_a_condition_that_nobody_recorded_is_missing(page: Path) -> None:
    conditions = section(page, "Conditions")
    assert "<dt>Microcode</dt><dd>missing</dd>" in conditions
    assert "<dt>DUT</dt><dd>OVS 3.1.0 with DPDK 22.11.7, dpdk datapath" in conditions


def test_the_signature_is_that_of_the_environment_and_of_the_evidence(run: RunEvidence, page: Path) -> None:
    assert run.run is not None
    signature = section(page, "Signature of the environment")
    assert environment_digest(run.run.fingerprint) in signature
    assert hashlib.sha256(run.path.read_bytes()).hexdigest() in signature
    known = {"cpu_model": "x", "ports": {"p0": {"firmware": "1"}}}
    assert environment_digest(known) == environment_digest({**known, "cpu_bands": {"near_trials": 3}})
    assert environment_digest(known) != environment_digest({**known, "ports": {"p0": {"firmware": "2"}}})


def test_the_command_writes_beside_the_evidence_or_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(tmp_path, study_records())
    assert main(["datasheet", str(tmp_path)]) == 0
    assert main(["datasheet", str(tmp_path), "--output", str(tmp_path / "made" / "sheet.html")]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "datasheet.html"), str(tmp_path / "made" / "sheet.html")]
    assert (tmp_path / "datasheet.html").read_text() == (tmp_path / "made" / "sheet.html").read_text()


@pytest.mark.thorough("starts Chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")
def test_chromium_prints_it_to_pdf_and_nothing_is_cut(page: Path) -> None:
    with chromium() as tab:
        for width in (390, 1400):
            tab.show(page, width=width)
            assert tab.ask("document.documentElement.scrollWidth") <= width
        tab.show(page, width=700)  # A4 without margins, in pixels of a page
        tab.call("Emulation.setEmulatedMedia", media="print", features=[])
        parts = "[...document.querySelectorAll('table, svg, pre')]"
        assert tab.ask(f"{parts}.filter(part => part.getBoundingClientRect().right > 700).length") == 0
        printed = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        assert tab.complaints == []
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", printed)) >= 2
    assert b"/MediaBox [0 0 594.95996 841.91998]" in printed, "A4"
