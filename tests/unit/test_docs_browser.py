"""The built site in a browser: it loads nothing from elsewhere, its search works, and no page is wider than a phone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser_support import CHROMIUM, Tab, chromium

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.thorough("starts Chromium"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)"),
    pytest.mark.skipif(find_spec("material") is None, reason="needs mkdocs-material: make docs installs it"),
]

SEARCH = """
(() => {
  const input = document.querySelector(".md-search__input")
  input.focus()
  input.value = "witness"
  input.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }))
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as opened:
        yield opened


def test_the_search_works_without_a_server(tab: Tab, site: Path) -> None:
    tab.show(site / "index.html")
    tab.ask(SEARCH)
    tab.wait("document.querySelectorAll('.md-search-result__item').length > 0", "results of the search")
    found = tab.ask("[...document.querySelectorAll('.md-search-result__item h1')].map(each => each.innerText)")
    assert "Glossary" in found
    assert tab.complaints == []


@pytest.mark.parametrize("page", ["index", "reference/sla-language", "reference/commands", "explanation/noise"])
def test_pages_load_nothing_from_elsewhere_and_fit_a_phone(tab: Tab, site: Path, page: str) -> None:
    tab.show(site / f"{page}.html", width=390)
    assert tab.ask("document.documentElement.scrollWidth") <= 390
    loaded = tab.ask("performance.getEntriesByType('resource').map(each => each.name)")
    assert [name for name in loaded if not name.startswith("file:")] == []
