"""docs/explanation/architecture.md and rfc-conformance.md name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text()
CONFORMANCE = (ROOT / "docs/explanation/rfc-conformance.md").read_text()
IN_PACKAGE = sorted(set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE)) - {"fixtures/__init__.py"})


def test_the_page_names_files() -> None:
    assert len(IN_PACKAGE) > 30


@pytest.mark.parametrize("name", IN_PACKAGE)
def test_a_named_file_is_there(name: str) -> None:
    assert any((folder / name).exists() for folder in (ROOT, ROOT / "pytest_nfvperf"))


def test_a_file_named_without_its_folder_is_there() -> None:
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    there = {path.name for folder in ("pytest_nfvperf", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert len(named) > 5
    assert named - there == set()


def test_the_conformance_page_names_modules_that_are_there() -> None:
    named = set(re.findall(r"`(pytest_nfvperf/[\w/]+\.py)`", CONFORMANCE))

    assert len(named) >= 8
    assert not [name for name in sorted(named) if not (ROOT / name).is_file()]
