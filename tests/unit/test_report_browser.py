"""The report in Chromium: no complaint, every chart, links into what is folded; on a phone, in the dark."""

from __future__ import annotations

import base64
import gzip
import re
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
ALL_DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('.live .main-svg'))"
INK = "getComputedStyle(document.querySelector('.live .xtick text')).fill"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    """A small run as read from disk."""
    return read_run(write_sample(tmp_path_factory.mktemp("run"), small_run()))


@pytest.fixture(scope="module")
def page(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    return html.render_report(run, tmp_path_factory.mktemp("page"), png=False)


@pytest.fixture(scope="module")
def large(run: RunEvidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that the run would have if it were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "MOST_UNPACKED_TRIALS", 1)
        patch.setattr(html, "MOST_PICTURED_TESTS", 1)
        return html.render_report(run, tmp_path_factory.mktemp("large"), png=False)


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
        drawn = f"document.querySelectorAll('.chart')[{number}].querySelector('.live .main-svg') !== null"
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


def test_the_keyboard_hides_a_series(tab: Tab, page: Path) -> None:
    tab.show(page)
    unfold(tab)
    shown = "document.querySelectorAll('.chart')[0].querySelectorAll('.scatterlayer .trace').length"
    before = tab.ask(shown)
    tab.ask("document.querySelector('.series button').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    tab.wait(f"{shown} < {before}", "the series to go")
    assert tab.ask("document.querySelector('.series button').getAttribute('aria-pressed')") == "false"


def test_print_shows_the_pictures(tab: Tab, page: Path) -> None:
    tab.show(page)
    unfold(tab)
    tab.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert tab.ask("document.querySelector('.chart > .still > svg').getBoundingClientRect().height") > 100
    assert tab.ask("document.querySelector('.chart > .live').getBoundingClientRect().height") == 0


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
    tab.show(html.render_report(read_run(tmp_path), tmp_path, png=False, time_for_charts=lambda: False))
    everything = tab.ask("document.getElementById('found').textContent")
    assert re.fullmatch(r"(\d+) of \1 tests", everything)
    tab.ask("document.getElementById('find').value = 'PVP 1518'")
    tab.ask("document.getElementById('find').dispatchEvent(new Event('input'))")
    assert tab.ask("[...document.querySelectorAll('#tests tbody tr')].filter(row => row.checkVisibility()).length") == 1
    tab.ask("document.getElementById('which').value = 'BROKEN'")
    tab.ask("document.getElementById('which').dispatchEvent(new Event('input'))")
    assert tab.ask("document.getElementById('found').textContent").startswith("0 of ")
