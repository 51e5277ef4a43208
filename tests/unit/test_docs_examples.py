"""What the docs show is what the tool reads."""

from __future__ import annotations

import json
import re

import pytest
from user_project import make_traffic_files

from pytest_nfvperf.config.schemas import published
from pytest_nfvperf.config.sla_file import SELECTORS, load_sla
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.metrics import METRICS
from tests.config_support import parse_sla, parse_testbed, parse_traffic
from tests.documents import ROOT, blocks

EXAMPLES = sorted(ROOT.glob("docs/examples/*.yaml"))


def kind_of(text):
    match = re.match(r"# (testbed|sla|traffic)\b", text)
    return match[1] if match else None


FILES = list(blocks("testbed", "sla", "traffic", language="yaml"))


@pytest.mark.parametrize(("kind", "text"), [pytest.param(one.kind, one.code, id=one.location) for one in FILES])
def test_blocks_on_pages(kind, text, tmp_path, monkeypatch):
    if kind == "testbed":
        testbed, _ = parse_testbed(text, cores=2)
        assert testbed.name
    elif kind == "traffic":
        make_traffic_files(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert parse_traffic(text).lines()
    else:
        assert parse_sla(text).rules


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_files(path):
    kind = kind_of(path.read_text(encoding="utf-8"))
    assert kind is not None, "the first line says '# testbed' or '# sla'"
    if kind == "testbed":
        testbed, _ = load_testbed(path, cores=2)
        assert testbed.name
    else:
        assert load_sla(path).rules


@pytest.mark.parametrize("path", sorted(ROOT.glob("suites/**/*.yaml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_slas_of_the_suites(path):
    assert load_sla(path).rules


def test_there_is_something_to_test():
    kinds = [kind_of(path.read_text(encoding="utf-8")) for path in EXAMPLES]
    assert {"testbed", "sla"} <= set(kinds)
    assert len(FILES) >= 6


def keys_of(schema):
    """Each key of each section of a file, by its section."""
    for section in (schema, *schema["$defs"].values()):
        for key in section["properties"]:
            yield pytest.param(key, id=f"{section['title']}.{key}")


SLA_PAGE = (ROOT / "docs/reference/sla-language.md").read_text(encoding="utf-8")
TESTBED_PAGES = "".join((ROOT / f"docs/reference/{name}.md").read_text() for name in ("testbed-file", "trex"))
_, _, TRAFFIC_PAGE = (ROOT / "docs/how-to/your-own-traffic.md").read_text(encoding="utf-8").partition("## Several")


@pytest.mark.parametrize("word", [*METRICS, *SELECTORS])
def test_every_word_of_the_language_is_documented(word):
    assert f"`{word}`" in SLA_PAGE or f"`{word.replace('latency', '')}`" in SLA_PAGE


@pytest.mark.parametrize("key", [*keys_of(json.loads(published()["testbed.schema.json"]))])
def test_every_key_of_a_testbed_is_documented(key):
    inside = rf"`{{[a-z, ]*\b{key}\b[a-z, ]*}}`|`{key}: "  # of a small section: all its keys, or an example
    assert re.search(rf"`([a-z_]+\.)*{key}(\[\]|\.[a-z]+(\[\])?)?`|{inside}", TESTBED_PAGES), (
        f"{key} is not in the docs"
    )


def answered_slips():
    """Rule and answer of each line of the page's table of slips."""
    for match in re.finditer(r"^\| `((\w+): .+?)` \| `(.+?)` \|$", SLA_PAGE, re.MULTILINE):
        rest = "require: {ndr: '>= 4 Mpps'}"
        rule = f"{{{match[1]}, {rest}}}" if match[2] == "where" else f"{{require: {{{match[1]}}}}}"
        yield rule, match[3].removesuffix("...").strip()


@pytest.mark.parametrize(("rule", "answer"), list(answered_slips()))
def test_the_answers_to_slips_are_real(rule, answer):
    with pytest.raises(ConfigError) as caught:
        parse_sla(f"schema: 1\nrules: [{rule}]")
    assert answer in str(caught.value)


def test_all_slips_are_tried():
    assert len(list(answered_slips())) == SLA_PAGE.split("## Slips")[1].split("## In")[0].count("\n| `")


@pytest.mark.parametrize("key", [*keys_of(json.loads(published()["traffic.schema.json"]))])
def test_every_key_of_a_traffic_file_is_documented(key):
    assert f"`{key}`" in TRAFFIC_PAGE
