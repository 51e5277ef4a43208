"""The documents as a site: every page is in the navigation, every link and anchor leads somewhere. Without network."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LIST_ITEM = re.compile(r"^(\d+\.|[-*]) ")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def title(heading: str) -> str:
    """A heading as it is shown: without markup."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")


def github_anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", title(heading).lower()).replace(" ", "-")


def site_anchor(heading: str) -> str:
    """As Python-Markdown makes it, by which the site is built."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title(heading)).strip().lower())


def anchors(page: Path) -> set[str]:
    return {github_anchor(heading) for heading in HEADING.findall(prose(page))}


def in_nav(entries: object) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for below in entries.values():
            yield from in_nav(below)
    elif isinstance(entries, list):
        for entry in entries:
            yield from in_nav(entry)


def broken(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere."""
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file():
            yield f"{link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: no such heading"


def test_every_page_is_in_the_navigation_once() -> None:
    nav = list(in_nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    there = [page.relative_to(DOCS).as_posix() for page in PAGES] + ["CONTRIBUTING.md", "CHANGELOG.md"]
    assert sorted(nav) == sorted(there)


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_have_one_anchor_for_github_and_the_site(page: Path) -> None:
    headings = HEADING.findall(prose(page))
    assert [heading for heading in headings if github_anchor(heading) != site_anchor(heading)] == []
    if page.name != "CHANGELOG.md":  # each release has the same headings
        assert len({site_anchor(heading) for heading in headings}) == len(headings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_code_are_read_alike_by_github_and_the_site(page: Path) -> None:
    """Python-Markdown wants a blank line before a list and a table; commands are fenced, not indented."""
    lines = prose(page).splitlines()
    joined = [
        line
        for before, line in pairwise(lines)
        if before.strip() and LIST_ITEM.match(line) and not LIST_ITEM.match(before) and not before.startswith(" ")
    ]
    assert joined == []
    tables = [b for a, b in pairwise(lines) if b.startswith("|") and a.strip() and a[0] != "|"]
    assert tables == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_its_title(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1


def test_pages_that_the_program_names_are_there() -> None:
    """Messages, docstrings and tests name pages by their path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    named = {
        (name, file)
        for file in listed
        if (path := ROOT / file).is_file() and file != "CHANGELOG.md" and path.suffix != ".png"
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8", errors="replace"))
    }
    assert {(name, file) for name, file in named if not (ROOT / name).is_file()} == set()
    assert len(named) > 50 or not listed, "a copy without git has no list of files"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_site_loads_nothing_from_elsewhere() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False
    assert config["strict"] is True
    assert {"search", "offline"} <= set(config["plugins"])
    assert config["extra"]["polyfills"] == ["javascripts/iframe-worker.js"]  # the plugin would name a CDN's


def test_pictures_name_no_font_of_a_cdn() -> None:
    for picture in (DOCS / "images").glob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert "@font-face" not in text
        assert "url(http" not in text


def test_every_picture_is_shown_and_described() -> None:
    shown = {
        (page.parent / path).resolve()
        for page in [*PAGES, *OUTSIDE]
        for text, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        if len(text) > 10
    }
    assert shown == set((DOCS / "images").iterdir())
