"""The report on a phone, in Chromium: no sideways scrolling, and the verdict in sight."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.report.html import render_report
from tests.sample_comparison import comparison_records
from tests.sample_run import small_run, write_sample

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LOOK = """
<script>
const badges = [...document.querySelectorAll("#SECTION td.verdict .badge")];
const scrolls = element => element.closest(".wide, figure, pre");
const beyond = [...document.body.querySelectorAll("*")].filter(
  element => element.getBoundingClientRect().right > window.innerWidth && !scrolls(element));
parent.postMessage({
  beyond: beyond.map(element => element.outerHTML.slice(0, 120)).join(" | "),
  window: window.innerWidth,
  page: document.documentElement.scrollWidth,
  verdicts: badges.length,
  rightmost: Math.max(...badges.map(badge => badge.getBoundingClientRect().right)),
  table: Math.max(...[...document.querySelectorAll("#SECTION .wide")].map(each => each.scrollWidth)),
}, "*");
</script>
"""
FRAME = """
<script>onmessage = event => { document.title = JSON.stringify(event.data); };</script>
<iframe src="report.html" style="width: %dpx; height: 800px; border: 0"></iframe>
"""


def looked_at(folder: Path, width: int, section: str = "summary") -> dict[str, Any]:
    """What the page says of itself. In a frame, because Chromium has no window below 500 pixels."""
    assert CHROMIUM is not None
    page = folder / "report.html"
    page.write_text(page.read_text().replace("</body>", f"{LOOK.replace('SECTION', section)}</body>"))
    (folder / "frame.html").write_text(FRAME % width)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    command = [CHROMIUM, *options, (folder / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title is not None, done.stdout[-500:] + done.stderr
    seen: dict[str, Any] = json.loads(unescape(title[1]))
    return seen


@pytest.mark.thorough("starts Chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_fits_its_window(tmp_path, width):
    write_sample(tmp_path, small_run())
    render_report(read_run(tmp_path), tmp_path)

    seen = looked_at(tmp_path, width)

    assert seen["window"] == width
    assert seen["beyond"] == ""
    assert seen["page"] <= width
    assert seen["verdicts"] > 0
    assert seen["rightmost"] <= width, "the verdict is off screen"
    assert seen["table"] <= width, "the summary's figures are off screen"


@pytest.mark.thorough("starts Chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")
def test_a_comparison_shows_values_and_verdicts_on_a_phone(tmp_path):
    write_sample(tmp_path, comparison_records())
    render_report(read_run(tmp_path), tmp_path)

    seen = looked_at(tmp_path, 390, "comparison")

    assert seen["beyond"] == ""
    assert seen["page"] <= 390
    assert seen["verdicts"] == 5
    assert seen["rightmost"] <= 390, "the verdict is off screen"
    assert seen["table"] <= 390, "figures are off screen"
