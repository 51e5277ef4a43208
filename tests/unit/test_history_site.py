"""``nfvperf site``: all links lead somewhere, what stays as it is, and what is refused or left out."""

from __future__ import annotations

import os
import re
import signal
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import psutil
import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.history.command import entry_of
from pytest_nfvperf.features.history.files import add_entry
from tests.browser_support import CHROMIUM, Tab, chromium
from tests.history_support import write_run
from tests.sample_run import small_run, write_sample

RATES = (4.0e6, 4.02e6, 3.99e6, 4.01e6, 4.0e6, 4.01e6, 3.5e6, 3.51e6)
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg"/>'
WORDS = re.compile(r'<span class="badge \w+">([^<]+)</span>')


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine runs at different depths: eight of a machine, of which two are slower, and one of the sample's."""
    folder = tmp_path_factory.mktemp("results")
    for number, rate in enumerate(RATES, 1):
        drawing = "plans/the bridge.svg" if number == 2 else ""
        of_it = folder / "old" if number < 4 else folder
        run = write_run(of_it, number, rate, attached=drawing, ovs="3.1.0" if number < 7 else "3.2.0")
        if drawing:
            (run / "plans").mkdir()
            (run / drawing).write_text(DRAWING)
    (folder / "sample").mkdir()
    write_sample(folder / "sample", small_run())
    (folder / "latest").symlink_to("sample")
    return folder


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "site"
    assert main(["site", str(results), "-o", str(out), "--version-url", "https://host/v{version}"]) == 0
    return out


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    yield from map(unescape, re.findall(r'<[^>]+?\s(?:href|src|data-src)="([^"]*)"', text))


def test_every_link_is_relative_and_leads_somewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 1 + 1 + 9 + 7
    checked = 0
    for page in pages:
        for link in links(page):
            parts = urlsplit(link)
            if parts.netloc == "host":
                continue
            assert not parts.scheme, f"{page}: {link}"
            assert not link.startswith("/"), f"{page}: {link}"
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_relative_to(site.resolve()) or target == page, f"{page}: {link}"
            assert target.is_file(), f"{page}: {link}"
            if parts.fragment:
                assert f'id="{parts.fragment}"' in target.read_text(), f"{page}: {link}"
            checked += 1
    assert checked > 60
    assert (site / "runs/run-02/plans/the bridge.svg").read_text() == DRAWING


def test_the_first_page_says_how_each_run_was_and_against_the_one_before(site: Path) -> None:
    text = (site / "index.html").read_text()
    rows = re.findall(r"<tr><td><span class.*?</tr>", text, re.DOTALL)
    names = [re.search(r'href="runs/([^/]+)/report.html"', row)[1] for row in rows]  # type: ignore[index]
    assert names == ["20261121-000759", *(f"run-0{number}" for number in range(8, 0, -1))], "the newest is on top"
    words = {name: WORDS.findall(row) for name, row in zip(names, rows, strict=True)}
    assert words["run-08"] == ["passed", "1 same"]
    assert words["run-07"] == ["passed", "1 slower"]
    assert words["run-01"] == ["passed"], "nothing was before it"
    assert 'ovs <a href="https://host/v3.2.0">3.2.0</a>' in text
    assert (
        "worse since run run-07 of 2025-06-01 00:07: ovs 3.1.0 before, 3.2.0 after: -12.5% forwarding_rate of" in text
    )
    assert '<a href="runs/run-07/report.html">run-07</a>' in (site / "history.html").read_text()


def test_a_report_is_made_again_when_its_evidence_is_newer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        write_run(tmp_path / "results", number, 4e6)
    command = ["site", str(tmp_path / "results"), "-o", str(tmp_path / "site")]
    assert main(command) == 0
    reports = [tmp_path / f"site/runs/run-0{number}/report.html" for number in (1, 2)]
    for report in reports:
        report.write_text("kept")
    evidence = tmp_path / "results/run-02/evidence.jsonl"
    later = reports[1].stat().st_mtime_ns + 10**9
    os.utime(evidence, ns=(later, later))
    assert main(command) == 0
    assert reports[0].read_text() == "kept"
    assert reports[1].read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out.splitlines()[-1].endswith("index.html: 2 runs, 1 comparison, 0 changes")


def test_somebody_s_page_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "results", 1, 4e6)
    page = tmp_path / "public/index.html"
    page.parent.mkdir()
    page.write_text("<h1>Ours</h1>")
    assert main(["site", str(tmp_path / "results"), "-o", str(page.parent)]) == 4
    assert f"{page}: --output: this page is not of nfvperf: name another folder" in capsys.readouterr().err
    assert page.read_text() == "<h1>Ours</h1>"
    assert list(page.parent.iterdir()) == [page]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["nowhere"], "nowhere: no such directory: name one with results directories in it"),
        (["empty"], "empty: no results directory of a run here"),
        (["results", "--compare", "run-01", "run-20"], "--compare: no results of a run 'run-20' there, did you mean"),
        (["results", "--version-url", "x"], "--version-url: 'x' is no template of an address"),
        (["results", "--margin", "200 %"], "'200 %' is no margin"),
        (["results", "--history", "empty"], "empty: no run of a history here"),
    ],
)
def test_a_mistake_makes_no_index(
    arguments: list[str],
    answer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for number in (1, 2):
        write_run(Path("results"), number, 4e6)
    assert main(["site", *arguments]) == 4
    assert answer in capsys.readouterr().err
    assert not Path("site/index.html").exists()


def test_it_is_served_on_loopback_alone_until_ctrl_c(tmp_path: Path) -> None:
    write_run(tmp_path / "results", 1, 4e6)
    # Whoever starts these tests in the background of a script leaves SIGINT ignored; a person's terminal does not.
    heeding = ["env", "--default-signal=INT", sys.executable]
    words = [*heeding, "-m", "pytest_nfvperf", "site", "results", "--serve"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        shown = [served.stdout.readline() for _ in range(2)]
        (address,) = re.findall(r"^serving (http://127\.0\.0\.1:\d+/) ", shown[-1])
        (socket,) = psutil.Process(served.pid).net_connections()
        with urlopen(f"{address}runs/run-01/report.html") as page:
            assert page.read() == (tmp_path / "site/runs/run-01/report.html").read_bytes()
        served.send_signal(signal.SIGINT)
    assert socket.laddr.ip == "127.0.0.1"
    assert served.returncode == 0


def test_a_port_that_is_taken_is_found_before_the_site_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "results", 1, 4e6)
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as other:
        port = str(other.server_address[1])
        assert main(["site", str(tmp_path / "results"), "-o", str(tmp_path / "site"), "--serve", port]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"nfvperf: --serve: cannot serve at port {port}: Address already in use")
    assert not (tmp_path / "site").exists()
    with pytest.raises(SystemExit, match="4"):
        main(["site", "--serve", str(tmp_path / "results")])
    assert f"'{tmp_path / 'results'}' is no port from 1 to 65535" in capsys.readouterr().err


def test_what_cannot_be_read_is_named_and_the_rest_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2, 3):
        write_run(tmp_path / "results", number, 4e6, cpu_model="Xeon" if number == 3 else "EPYC")
    damaged = tmp_path / "results/damaged/evidence.jsonl"
    damaged.parent.mkdir()
    damaged.write_text('{"no": "evidence"}\n{}\n')
    gone = write_run(tmp_path / "gone", 4, 3.9e6)
    add_entry(tmp_path / "history", entry_of(read_run(gone)))
    out = tmp_path / "site"
    options = ["--history", str(tmp_path / "history"), "-o", str(out)]
    asked = ["--compare", "run-01", "run-02", "--compare", "run-01", "run-03"]
    assert main(["site", str(tmp_path / "results"), *options, *asked]) == 11
    said = capsys.readouterr()
    assert f"nfvperf: left out: {damaged}" in said.err
    assert (
        "left out: comparison of run-01 and run-03: runs run-01 and run-03 cannot be compared: they differ in cpu"
        in said.err
    )
    assert said.out.endswith("index.html: 4 runs, 1 comparison, 0 changes\n")
    text = (out / "index.html").read_text()
    assert "Its results are not here; the history has its figures." in text
    assert '<a href="comparisons/run-01..run-02.html">run-01 and run-02</a>' in text
    assert text.count("left out: ") == 2


@pytest.mark.thorough("starts Chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")
def test_pages_in_a_browser(site: Path) -> None:
    with chromium() as tab:
        for page in ("index.html", "history.html"):
            for width in (390, 1400):
                tab.show(site / page, width=width)
                assert tab.ask("document.documentElement.scrollWidth") <= width
                assert tab.ask(
                    "[...document.querySelectorAll('.wide')].every(one => one.scrollWidth <= one.clientWidth)"
                )
        draw_chart(tab, next(site.glob("runs/[!r]*/report.html"), site / "runs/run-02/report.html"))
        assert tab.complaints == []


def draw_chart(tab: Tab, report: Path) -> None:
    """Its charts are drawn by the Vega of the site."""
    tab.show(report)
    assert tab.ask("document.getElementById('vega').textContent") == ""
    tab.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    tab.ask("document.querySelector('.chart').scrollIntoView()")
    tab.wait("document.querySelector('.chart svg.marks') !== null", "the first chart")
