"""The Python in the docs runs: each suite is planned, which executes it against a simulated DUT."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from user_project import CONFTEST, make_traffic_files

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
BLOCK = re.compile(r"^```python\n# (suite|conftest)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#]+)")


def blocks(kind: str):
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[1] == kind:
                yield pytest.param(
                    match[2], id=f"{page.relative_to(ROOT)}:{page.read_text()[: match.start()].count(chr(10)) + 1}"
                )


@pytest.mark.thorough("a run of pytest for each example")
@pytest.mark.parametrize("code", list(blocks("suite")))
def test_suites_in_the_docs_run(code, pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(code)
    make_traffic_files(pytester.path)

    result = pytester.runpytest_subprocess("--nfv-plan")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_*: about * s: [0-9]* x *"])
    result.stdout.no_fnmatch_line("*cannot be planned*")


@pytest.mark.thorough("a run of pytest for each example")
@pytest.mark.parametrize("code", list(blocks("conftest")))
def test_conftests_in_the_docs_serve(code, pytester):
    pytester.makeconftest(code)
    pytester.makepyfile("def test_it(phy2phy, search, sla): pass")

    assert pytester.runpytest_subprocess("--nfv-plan").ret == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]

    assert not broken


def test_the_readme_has_both_commands_and_the_docs_have_code():
    readme = (ROOT / "README.md").read_text()

    assert "make run" in readme
    assert "make test" in readme
    assert len(list(blocks("suite"))) >= 4
    assert len(list(blocks("conftest"))) >= 2
