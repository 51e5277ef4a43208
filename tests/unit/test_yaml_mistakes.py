"""What YAML allows and no file of ours needs is refused with file, line and key, before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.yaml_file import parse_document
from pytest_nfvperf.model.errors import ConfigError
from tests.config_support import parse_sla, parse_testbed

TESTBED = "schema: 1\nname: lab\n"
DIGITS = "7" * 5000


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_testbed(text, "lab.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("!!int one", "'one' is not a whole number, which '!!int' says: leave that out"),
        ("!!int 1_000", "'1_000' is not a whole number"),
        ("!!float x", "'x' is not a number, which '!!float' says"),
        ("!!bool maybe", "'maybe' is not true or false"),
        ("!!int [1]", "'this' is not a whole number"),
        ("!!seq x", "'!!seq' stands before what is none: leave it out"),
        ("!!timestamp 2026-01-01", "the type '!!timestamp' is none these files have"),
        ("!!binary '?'", "the type '!!binary' is none these files have"),
        ("!!python/object:os.system x", "the type '!!python/object:os.system' is none"),
        ("!mine x", "the type '!mine' is none"),
        (DIGITS, "is a number of 5000 digits: nothing here is so large"),
        ("-" + DIGITS, "is a number of 5001 digits"),
        ("0x" + DIGITS, "is a number of 5002 digits"),
        (f"'{DIGITS}'", "is a text of 5000 characters: 4000 are possible"),
        ('"\\udce9"', "has '\\udce9', which no text can have: leave it out"),
        ('"a\\0b"', "has '\\x00', which no text can have"),
        ("&a [*a]", "an alias stands inside of what it is an alias of"),
        ("{[a]: 1}", "a key must be a word or a number"),
        ("{!!int x: 1}", "'x' is not a whole number"),
        ("{a: 1, a: 2}", "key 'a' is written twice, first in line 3: keep one"),
        ("2026-01-01", "must be a"),
        (".nan", "must be a"),
        ("{<<: {rxq: 1}}", "unknown key '<<'"),
    ],
    ids=lambda text: text[:30],
)
def test_the_key_is_named(value: str, said: str) -> None:
    message = refusal(f"{TESTBED}dut: {value}\n")
    assert message.startswith("lab.yaml:3: dut")
    assert said in message
    assert len(message) < 300


def test_a_few_lines_that_stand_for_more_than_memory_holds_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases make this too large to be read" in refusal(TESTBED + "\n".join(lines))


def test_an_alias_that_is_small_is_read() -> None:
    text = f"{TESTBED}cpus: {{pmd: &two [2, 3]}}\ndut: {{ovs: {{pmd_cpus: *two}}}}\n"
    testbed, _ = parse_testbed(text, "lab.yaml", cores=8)
    assert testbed.cpus.pmd == (2, 3)


@pytest.mark.parametrize("key", ["frame_size", "flows", "bridges"])
def test_a_selector_of_5000_digits(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"sla\.yaml:3: rules\[0\]\.where\.{key}: is a text of 5000 characters"):
        parse_sla(
            f"schema: 1\nrules:\n  - {{where: {{{key}: '{DIGITS}'}}, require: {{ndr: '>= 4 Mpps'}}}}\n", "sla.yaml"
        )


TAGS = st.sampled_from(
    ["", "!!int ", "!!float ", "!!bool ", "!!null ", "!!str ", "!!timestamp ", "!!set ", "!x ", "&a "]
)
SCALARS = st.sampled_from(
    [
        "one",
        "1",
        "1.5",
        ".nan",
        "~",
        "true",
        "2026-01-01",
        "0x1f",
        "9" * 50,
        "'14,880,952 pps'",
        "[1]",
        "{a: 1}",
        "*a",
        "",
    ]
)
KEYS = st.sampled_from(["schema", "name", "dut", "links", "generator", "cpus", "hugepages", "nodes", "rules", "x"])


@given(st.dictionaries(KEYS, st.tuples(TAGS, SCALARS), max_size=4))
def test_whatever_is_written_it_is_read_or_refused(given_keys: dict[str, tuple[str, str]]) -> None:
    text = "".join(f"{key}: {tag}{value}\n" for key, (tag, value) in given_keys.items())
    for read in (parse_document, parse_testbed, parse_sla):
        assert file_blamed(read, text) in {None, "any.yaml"}


def file_blamed(read: Callable[[str, str], object], text: str) -> str | None:
    """The file that an error names; None where the text is read."""
    try:
        read(text, "any.yaml")
    except ConfigError as error:
        return error.file or "no file"
    return None
