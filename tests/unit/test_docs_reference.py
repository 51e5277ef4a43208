"""Pages list options, ini keys and commands as the program has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference_pages import PARTS, generated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PARTS)
def test_the_page_is_what_the_program_says(page: str) -> None:
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    assert text == generated(page, text), "write it anew: python -m tools.reference_pages"


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"options\.md needs the markers <!-- generated: options -->"):
        generated("options.md", "# Options\n")
