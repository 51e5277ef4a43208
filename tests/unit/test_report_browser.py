"""The report in Chromium: no complaint, every chart, links into what is folded; on a phone, in the dark."""

from __future__ import annotations

import base64
import gzip
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.report import html
from tests.browser_support import CHROMIUM, Tab, chromium
from tests.sample_run import SampleRun, small_run, write_sample

pytestmark = [
    pytest.mark.thorough("starts Chromium"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)"),
]
ALL_DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('svg.marks'))"
INK = "getComputedStyle(document.querySelector('.chart .role-axis-label text')).fill"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    """A small run as read from disk."""
    return read_run(write_sample(tmp_path_factory.mktemp("run"), small_run()))


@pytest.fixture(scope="module")
def page(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    return html.render_report(run, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def large(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that the run would have if it were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "MOST_UNPACKED_TRIALS", 1)
        return html.render_report(run, tmp_path_factory.mktemp("large"))


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    """One browser for all."""
    with chromium() as made:
        yield made


def unfold(tab: Tab) -> None:
    """Open every test, and look at every chart until it is drawn."""
    tab.ask("document.querySelectorAll('details.test').forEach(test => { test.open = true; })")
    tab.wait("!document.querySelector('details.test script')", "every test to be unpacked")
    count = tab.ask("document.querySelectorAll('.chart').length")
    assert count > 3
    for number in range(count):
        tab.ask(f"document.querySelectorAll('.chart')[{number}].scrollIntoView()")
        chart = f"document.querySelectorAll('.chart')[{number}]"
        drawn = f"{chart}.firstElementChild && {chart}.querySelectorAll('svg.marks').length === {chart}.children.length"
        tab.wait(drawn, f"chart {number}")


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1400, False), (1400, True)])
def test_every_chart_is_drawn_in_the_page_s_colours(tab: Tab, page: Path, width: int, dark: bool) -> None:
    tab.show(page, width=width, dark=dark)
    unfold(tab)
    assert tab.ask(ALL_DRAWN)
    assert tab.ask(INK) == ("rgb(228, 231, 235)" if dark else "rgb(27, 31, 39)")
    assert tab.ask("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


def test_a_chart_follows_a_change_of_colours(tab: Tab, page: Path) -> None:
    tab.show(page)
    unfold(tab)
    tab.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.wait(f"{INK} === 'rgb(228, 231, 235)'", "the charts to turn dark")


def test_the_keyboard_shows_one_series_alone(tab: Tab, page: Path) -> None:
    tab.show(page)
    unfold(tab)
    pale = "document.querySelectorAll('.chart')[0].querySelectorAll('[opacity=\"0.08\"]').length"
    assert tab.ask(pale) == 0
    tab.ask("document.querySelector('.chart .role-legend-label text').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    tab.wait(f"{pale} > 0", "the other series to turn pale")


def test_a_mark_tells_its_figures_and_leads_to_its_trial(tab: Tab, page: Path, run: RunEvidence) -> None:
    tab.show(page)
    unfold(tab)
    mark = "[...document.querySelectorAll('.chart [aria-label^=\"trial-\"]')].at(-1)"
    name = tab.ask(f"{mark}.getAttribute('aria-label').split(',')[0]")
    assert name in run.trials
    tab.ask(f"{mark}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    tip = "document.getElementById('vg-tooltip-element')"
    deadline = time.monotonic() + 30
    while not tab.ask(f"{tip}?.classList.contains('visible')"):  # charts above may still find their heights
        assert time.monotonic() < deadline, "no figures are shown"
        box = tab.ask(f"(at => [at.x + at.width / 2, at.y + at.height / 2])({mark}.getBoundingClientRect())")
        for beside in (3, 0):
            tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + beside, y=box[1])
    assert tab.ask(f"{tip}.textContent").startswith(name)
    for kind in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
    tab.wait(f"location.hash === '#{name}'", "the trial's line")


def test_what_is_printed_has_every_chart_of_it(tab: Tab, page: Path) -> None:
    """Also those that nobody has looked at."""
    tab.show(page)
    tab.wait("typeof window.vegaEmbed === 'function'", "Vega")
    tab.ask("window.dispatchEvent(new Event('beforeprint'))")
    visible = "[...document.querySelectorAll('.chart')].filter(chart => chart.checkVisibility())"
    assert tab.ask(f"{visible}.length") > 1
    tab.wait(f"{visible}.every(chart => chart.querySelector('svg.marks'))", "all charts")


def test_a_link_unpacks_what_it_leads_to(tab: Tab, large: Path, run: RunEvidence) -> None:
    trial = list(run.trials)[-1]
    tab.show(large, fragment=f"#{trial}")
    tab.wait(f"document.getElementById('{trial}') !== null", f"{trial} to be unpacked")
    assert tab.ask(f"document.getElementById('{trial}').closest('details.test').open")
    assert tab.ask(f"document.getElementById('{trial}').checkVisibility()")
    unfold(tab)
    assert tab.complaints == []


def test_a_large_page_holds_every_trial_packed(large: Path, run: RunEvidence) -> None:
    text = large.read_text()
    parts = [
        gzip.decompress(base64.b64decode(part)).decode()
        for part in re.findall(r'<script type="application/gzip"[^>]*>([^<]+)<', text)
    ]
    whole = text + "".join(parts)
    ids = set(re.findall(r' id="([^"]+)"', whole))
    named = {one for ids in re.findall(r'data-ids="([^"]*)"', text) for one in unescape(ids).split()}
    assert not set(run.trials) & set(re.findall(r' id="([^"]+)"', text)), "nothing is packed"
    assert set(run.trials) <= named
    assert set(re.findall(r'href="#([^"]+)"', whole)) <= ids


def test_tests_are_found_by_words_and_by_their_end(tab: Tab, tmp_path: Path) -> None:
    write_sample(tmp_path, SampleRun().build(sizes=(64, 128, 256, 512, 1518)))
    tab.show(html.render_report(read_run(tmp_path), tmp_path))
    everything = tab.ask("document.getElementById('found').textContent")
    assert re.fullmatch(r"(\d+) of \1 tests", everything)
    tab.ask("document.getElementById('find').value = 'PVP 1518'")
    tab.ask("document.getElementById('find').dispatchEvent(new Event('input'))")
    assert tab.ask("[...document.querySelectorAll('#tests tbody tr')].filter(row => row.checkVisibility()).length") == 1
    tab.ask("document.getElementById('which').value = 'BROKEN'")
    tab.ask("document.getElementById('which').dispatchEvent(new Event('input'))")
    assert tab.ask("document.getElementById('found').textContent").startswith("0 of ")
