"""Lines of terminals are cut and folded between words, at every width."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.display import cut, folded, format_margin

LINE = "throughput/test_ndr_pdr[64-phy2phy] · trial 12 · search · 4.02 Mpps for 500 ms · last: loss 0.0012 %"
WORDS = st.lists(st.text("abcdefgh0123456789.%", min_size=1, max_size=12), min_size=1, max_size=40).map(" ".join)


@pytest.mark.parametrize("width", [120, 100, 80, 60, 40, 20])
def test_a_cut_line_ends_with_a_whole_word(width):
    shown = cut(LINE, width)
    assert len(shown) <= width
    if shown != LINE:
        kept = shown.removesuffix("…")
        assert LINE.startswith(kept)
        assert re.match(r"[\s\[(]", LINE[len(kept) :]) or kept[-1] in "/_,;:-]", shown


def test_what_a_line_is_cut_to():
    assert cut(LINE, 60) == "throughput/test_ndr_pdr[64-phy2phy] · trial 12 · search ·…"
    assert cut("mine/test_of_a_rather_long_name[1518]", 34) == "mine/test_of_a_rather_long_name…"
    assert cut("x" * 50, 20) == "x" * 19 + "…"
    assert cut("short", 20) == "short"


@given(WORDS, st.integers(0, 140))
def test_no_word_that_fits_into_half_a_line_is_cut(text, width):
    shown = cut(text, width)
    assert len(shown) <= width
    if shown != text and width > 26:
        assert set(shown.removesuffix("…").split()) <= set(text.split())


@given(WORDS, st.integers(21, 140))
def test_folded_lines_have_all_words_and_fit(text, width):
    lines = folded(text, width)
    assert all(len(line) < max(width, 22) for line in lines)
    assert " ".join(line.strip() for line in lines).split() == text.split()


def test_a_file_has_the_line_whole():
    assert folded(LINE * 5, None) == [LINE * 5]


def test_a_number_stays_with_its_unit():
    assert not any(line.strip().startswith(("Mpps", "%")) for width in range(24, 100) for line in folded(LINE, width))


@pytest.mark.parametrize(
    ("margin", "times", "shown"),
    [
        (-499.0, 500.0, "500 times the limit"),
        (91.0, 92.0, "92 times the limit"),
        (-12344.0, 12345.0, "12,345 times the limit"),
        (-8.9, 9.9, "-890.0 %"),
        (41.0, -40.0, "+4100.0 %"),
        (0.05, 1.05, "+5.0 %"),
        (None, 500.0, "-"),
    ],
)
def test_a_margin_above_ten_times_is_said_in_times(margin, times, shown):
    assert format_margin(margin, times) == shown
