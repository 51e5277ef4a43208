"""docs/reference/topologies.md: each drawing is what its code gives, each answer is what its mistake is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_nfvperf.fixtures import parts as fixtures
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology import parts
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.traffic.trial import Direction

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/topologies.md").read_text(encoding="utf-8")
BOTH = PAGE + "".join((DOCS / f"how-to/{name}.md").read_text("utf-8") for name in ("own-openflow", "connections"))
DRAWN = re.findall(r"^<!-- topology -->\n```python\n(.*?)^```\n.*?^```text\n(.*?)^```", BOTH, re.MULTILINE | re.DOTALL)
REFUSED = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", PAGE.split("## What is refused")[1], re.MULTILINE)


@pytest.mark.parametrize(("code", "text"), DRAWN)
def test_drawings(code, text):
    names: dict[str, object] = {}
    exec(compile(code, "docs/reference/topologies.md", "exec"), names)
    assert topology_text(names["topology"]) == text.rstrip("\n")


@pytest.mark.parametrize(("mistake", "answer"), REFUSED)
def test_refusals(mistake, answer):
    names = {**vars(parts), "Direction": Direction}
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - all of its text is compared
        compose("t", *eval(f"({mistake},)", names))
    assert str(caught.value) == f"topology 't': {answer}"


def test_all_of_them_were_tried():
    assert len(DRAWN) == BOTH.count("<!-- topology -->\n```python\n") == BOTH.count("```text\n") >= 4
    assert len(REFUSED) == PAGE.split("## What is refused")[1].count("\n| `") >= 7


def test_every_part_and_every_fixture_is_on_the_page():
    made = {name for name, value in vars(parts).items() if getattr(value, "__module__", "") == parts.__name__}
    functions = {name for name in made if name.islower() and not name.startswith("_")} - {"kernel_name", "bridge"}
    assert all(f"`{name}(" in PAGE for name in functions), functions
    named = re.findall(r"^Fixtures: (.*?)\. ", PAGE, re.MULTILINE)[0]
    defined = {name for name, value in vars(fixtures).items() if "fixture" in type(value).__name__.lower()}
    assert set(re.findall(r"`(\w+)`", named)) == defined - {"composition"} != set()
