"""The Python in the docs runs: each suite is planned, which executes it against a simulated DUT."""

from __future__ import annotations

import re

import pytest
from user_project import CONFTEST, make_traffic_files

from tests.documents import KINDS, PAGES, ROOT, blocks

LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#]+)")


def codes(kind: str):
    return [pytest.param(block.code, id=block.location) for block in blocks(kind, language="python")]


@pytest.mark.thorough("a run of pytest for each example")
@pytest.mark.parametrize("code", codes("suite"))
def test_suites_in_the_docs_run(code, pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(code)
    make_traffic_files(pytester.path)

    result = pytester.runpytest_subprocess("--nfv-plan")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_*: about * s: [0-9]* x *"])
    result.stdout.no_fnmatch_line("*cannot be planned*")


@pytest.mark.thorough("a run of pytest for each example")
@pytest.mark.parametrize("code", codes("conftest"))
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
    assert len(codes("suite")) >= 4
    assert len(codes("conftest")) >= 2


def test_every_mark_of_a_block_is_known_and_none_is_seen_by_a_reader():
    assert {block.kind for block in blocks()} == {"", *KINDS}
    seen = [block.location for block in blocks() if re.match(rf"# ({'|'.join(KINDS)})$", block.code.partition("\n")[0])]
    assert not seen, "write the mark as a comment before the block: <!-- suite -->"
