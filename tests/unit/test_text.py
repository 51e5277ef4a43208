"""Text of users is stored and shown wherever it goes, and does nothing there."""

from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from pytest_nfvperf.adapters.report.markdown import escaped
from pytest_nfvperf.adapters.report.page_parts import as_file, environment, to_png, to_svgs
from pytest_nfvperf.adapters.report.vega import BLUE, Look, names, number, panel, series
from pytest_nfvperf.model.display import encodable, storable, visible
from pytest_nfvperf.model.evidence.records import AttachmentData, TestData, make_record

ANY = st.text(st.characters(codec=None, exclude_categories=()))
"""Also surrogates, control characters and what is no character."""


@given(ANY)
def test_any_text_can_be_stored(text):
    storable(text).encode("utf-8")
    assert storable(text) == text or any(unicodedata.category(character) == "Cs" for character in text)


@given(ANY)
def test_a_shown_text_has_no_character_that_does_something(text):
    shown = visible(text)
    assert {one for one in shown if unicodedata.category(one) in {"Cc", "Cs"}} <= {"\n", "\t"}
    assert visible(shown) == shown, "text that is safe stays as it is"
    element = ET.fromstring(f"<a>{escape(shown)}</a>")
    assert (element.text or "") == shown


@given(ANY, st.sampled_from(["ascii", "latin-1", "utf-8", "cp437", "no such encoding"]))
def test_any_text_can_be_written_in_any_encoding(text, encoding):
    encodable(visible(text), encoding).encode(encoding if encoding != "no such encoding" else "utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\x00b", r"a\x00b"),
        ("caf\udce9", r"caf\udce9"),
        ("abc\u202edcb", r"abc\u202edcb"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("one\rtwo", r"one\rtwo"),
        ("Größe ≥ 中 🙂", "Größe ≥ 中 🙂"),
    ],
)
def test_what_a_reader_sees(text, shown):
    assert visible(text) == shown


def test_colours_of_our_own_stay_and_nothing_else_that_a_terminal_obeys():
    assert visible("\x1b[1;31mFAIL\x1b[0m \x1b[2J\x1b]8;;x", colors=True) == (
        "\x1b[1;31mFAIL\x1b[0m " + r"\x1b[2J\x1b]8;;x"
    )


def test_stand_ins_for_what_an_encoding_lacks():
    assert encodable("≥ 4 · ─ → é 中", "ascii") == r">= 4 - - -> \xe9 \u4e2d"
    assert encodable("≥ 4 é", "latin-1") == ">= 4 é"


@given(ANY, ANY)
def test_evidence_takes_any_name(name, text):
    data = TestData(labels=(("label", text),), parameters={name: text})
    for payload in (data, AttachmentData(name, text=text)):
        record = make_record(payload, id="test-0001", run=name, test=text, time_ns=1)
        json.dumps(record.to_json(), ensure_ascii=False).encode()


@given(ANY)
def test_markdown_is_one_line_in_which_nothing_is_marked(text):
    shown = escaped(text)
    assert len(shown.splitlines()) <= 1
    for special in "`*_[]<>#|~&$":
        assert f"\\{special}" * shown.count(special) == "".join(
            shown[at - 1 : at + 1] for at, character in enumerate(shown) if character == special
        )


def test_a_page_shows_control_characters_and_escapes_the_rest():
    made = environment().from_string("{{ text }}")
    made.environment.autoescape = True
    assert made.render(text="<b>\x1b[2J\x00\udce9") == r"&lt;b&gt;\x1b[2J\x00\udce9"


@pytest.mark.parametrize("text", ["$a$b_{$", "\x1b[2J\x00", "caf\udce9", "</svg><script>"])
def test_a_chart_takes_any_text(text):
    x, y = names("x", text, [text]), number("y", text)
    chart = [panel(text, series(x, y, [{"series": text, "x": text, "y": 1}], {text: Look(BLUE, "circle")}))]

    svg = as_file(to_svgs(chart, text))
    ET.fromstring(svg)
    assert to_png(svg).startswith(b"\x89PNG")
