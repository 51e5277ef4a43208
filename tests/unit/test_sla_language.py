"""The SLA language: what it means, and what it answers to a slip."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.sla_file import (
    load_sla,
    parse_limit,
    parse_selector,
    sla_warnings,
    unknown_labels,
)
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.metrics import METRICS
from pytest_nfvperf.model.sla.rules import Limit, Rule
from tests.config_support import parse_sla

DESIGN = """\
schema: 1
rules:
  - where: {topology: phy2phy, frame_size: 64}
    require: {ndr: ">= 4 Mpps", latency_p99: {at: 50 % of pdr, limit: "<= 100 us"}}
  - where: {suite: chaining, link: patch}
    require: {ndr: ">= 95 % of {bridges: 1}"}
"""


def test_the_design_s_example(tmp_path):
    file = tmp_path / "sla.yaml"
    file.write_text(DESIGN)
    sla = load_sla(file)
    assert sla.source == str(file)
    assert sla.rules == (
        Rule(
            where=(("topology", ("phy2phy",)), ("frame_size", ("64",))),
            require=(
                ("ndr", Limit(">=", 4e6, "pps", ">= 4 Mpps")),
                ("latency_p99", Limit("<=", 100_000.0, "ns", "<= 100 us", at="50 % of pdr")),
            ),
            source=f"{file}:3: rules[0]",
        ),
        Rule(
            where=(("suite", ("chaining",)), ("link", ("patch",))),
            require=(("ndr", Limit(">=", 0.95, "ratio", ">= 95 % of {bridges: 1}", relative_to=(("bridges", "1"),))),),
            source=f"{file}:5: rules[1]",
        ),
    )


@pytest.mark.parametrize(
    ("metric", "text", "at", "limit"),
    [
        ("ndr", ">=4Mpps", None, (">=", 4e6, "pps", None, None)),
        ("pdr", "> 25 Gbps", None, (">", 25e9, "bps", None, None)),
        ("throughput", ">= 80 % of line rate", None, (">=", 0.8, "line_ratio", None, None)),
        ("ndr", ">= 90 % of one_bridge", None, (">=", 0.9, "ratio", (("topology", "one_bridge"),), None)),
        ("ndr", "<= 60 % of {bridges: 1, link: patch}", None,
         ("<=", 0.6, "ratio", (("bridges", "1"), ("link", "patch")), None)),
        ("latency_p50", "<= 120 % of phy2phy", "50% of ndr",
         ("<=", 1.2, "ratio", (("topology", "phy2phy"),), "50 % of ndr")),
        ("latency_max", "< 1 ms", "4 Mpps", ("<", 1e6, "ns", None, "4000000 pps")),
        ("loss_ratio", "<= 0", "0.5 kpps", ("<=", 0.0, "ratio", None, "500 pps")),
        ("loss_ratio", "<= 0.1 %", None, ("<=", 0.001, "ratio", None, None)),
        ("loss_ratio", "<= 1e-6", None, ("<=", 1e-6, "ratio", None, None)),
        ("lost_frames", "== 0 frames", None, ("==", 0.0, "frames", None, None)),
        ("back_to_back_frames", ">= 1000", None, (">=", 1000.0, "frames", None, None)),
        ("corrected_buffer_s", ">= 100 us", None, (">=", 1e-4, "s", None, None)),
        ("cycles_per_packet", "<= 250 cycles", None, ("<=", 250.0, "cycles", None, None)),
        ("mpps_per_core", ">= 5 Mpps", None, (">=", 5e6, "pps", None, None)),
        ("pmd_busy", "<= 90 %", None, ("<=", 0.9, "ratio", None, None)),
        ("dut_cpu_seconds", "<= 10 s", None, ("<=", 10.0, "s", None, None)),
    ],
)  # fmt: skip
def test_limits(metric, text, at, limit):
    found = parse_limit(metric, text, at)
    assert (found.operator, found.value, found.unit, found.relative_to, found.at) == limit
    assert found.text == text


def test_a_metric_by_its_former_name_works_and_its_author_is_told_the_new_one():
    sla = parse_sla("schema: 1\nrules:\n  - require: {spoiled_ratio: '<= 5 %'}\n", "own.yaml")
    ((metric, limit),) = sla.rules[0].require
    assert (metric, limit.value) == ("disturbed_ratio", 0.05)
    (line,) = sla_warnings(sla)
    assert line.startswith("own.yaml:3: rules[0].require.spoiled_ratio: ")
    assert "disturbed_ratio" in line


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_takes_its_own_example(metric):
    kind = METRICS[metric]
    limit = parse_limit(metric, kind.example, "50 % of pdr" if kind.at == "required" else None)
    assert limit.unit in {kind.unit, *kind.also}


SLIPS = [
    ("ndr", 4, None, "4 has no operator: write e.g. '>= 4 Mpps'"),
    ("ndr", "4 Mpps", None, "'4 Mpps' has no operator: write e.g. '>= 4 Mpps' (operators: >=, <=, ==, >, <)"),
    ("ndr", "=> 4 Mpps", None, "'=> 4 Mpps' has unknown operator '=>': write '>= 4 Mpps'"),
    ("ndr", "≥ 4 Mpps", None, "has unknown operator '≥': write '>= 4 Mpps'"),
    ("ndr", "\uff1e\uff1d 4 Mpps", None, "write '>= 4 Mpps'"),
    ("ndr", "\u2a7d4 Mpps", None, "write '<= 4 Mpps'"),
    ("ndr", "~ 4 Mpps", None, "has unknown operator '~': write e.g. '>= 4 Mpps'"),
    ("ndr", ">= 4", None, "'4' has no unit: write '4 Mpps' for ndr"),
    ("ndr", ">= 4 mpps", None, "'4 mpps' is milli: write '4 Mpps'"),
    ("ndr", ">= 4 Gbsp", None, "'4 Gbsp' has unknown unit 'Gbsp', did you mean 'Gbps'"),
    ("ndr", ">= 4 us", None, "'4 us' is a time, but ndr is a frame rate: write e.g. '4 Mpps'"),
    ("ndr", ">= -4 Mpps", None, "'-4 Mpps' is negative, but ndr cannot be: write e.g. '4 Mpps'"),
    ("ndr", ">= nan Mpps", None, "'nan Mpps' is not a finite number"),
    ("ndr", ">=", None, "'' is not a frame rate: ndr is a number and a unit, e.g. '4 Mpps'"),
    ("ndr", ">= 90 %", None, "'90 %' of what? Write '90 % of line rate' or '90 % of {bridges: 1}'"),
    ("ndr", ">= 90 of phy2phy", None, "'90 of' needs a per cent sign: write '90 % of'"),
    ("ndr", ">= 90 % of pdr", None, "'pdr' is a load, not something to compare with"),
    ("ndr", ">= 90 % of the rest", None, "'the rest' is no topology: write e.g. '95 % of phy2phy'"),
    ("ndr", ">= 90 % of {bridgs: 1}", None, "unknown selector 'bridgs', did you mean 'bridges'?"),
    ("ndr", ">= 90 % of {bridges: [1, 2]}", None, "bridges must be one value to compare with, not 2"),
    ("ndr", ">= 90 % of {bridges: 1", None, "'{bridges: 1' cannot be read (is not YAML:"),
    ("ndr", ">= 90 % of {}", None, "'{}' names nothing that differs: write e.g. '{bridges: 1}'"),
    ("ndr", ">= 4 Mpps", "4 Mpps", "ndr is not taken at a load: leave 'at' out and write '>= 4 Mpps'"),
    ("latency_p99", "<= 5 us", None, "latency_p99 needs a load: write '{at: 50 % of pdr, limit:"),
    ("latency_p99", "<= 5 us", "pdr", "'pdr' is not a load: write '100 % of pdr'"),
    (
        "latency_p99",
        "<= 5 us",
        "50 % of pd",
        "a load can be a share of ndr or pdr or throughput or connection_rate, not of 'pd', did you mean",
    ),
    ("latency_p99", "<= 5 us", "0 % of pdr", "'0 % of pdr' is no load: write e.g. '50 % of pdr'"),
    ("latency_p99", "<= 5 us", "50 of pdr", "'50 of' needs a per cent sign: write '50 % of'"),
    ("latency_p99", "<= 5 us", 4000, "'4000' has no unit: write '4000 Mpps' for the load"),
    ("latency_p99", "<= 5", "4 Mpps", "'5' has no unit: write '5 us' for latency_p99"),
    ("latency_p99", "<= 90 % of line rate", "4 Mpps", "latency_p99 cannot be a share of line rate"),
    ("loss_ratio", "<= 5 frames", None, "'5 frames' is a number of frames, but loss_ratio is a ratio"),
]


@pytest.mark.parametrize(("metric", "text", "at", "message"), SLIPS, ids=[str(text) for _, text, _, _ in SLIPS])
def test_slips(metric, text, at, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is looked at below
        parse_limit(metric, text, at)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    [
        ("frame_size", 64, ("64",)),
        ("frame_size", [64, "1518", "imix-simple"], ("64", "1518", "imix-simple")),
        ("flows", ["10k", "1M", 7], ("10000", "1000000", "7")),
        ("bridges", 3, ("3",)),
        ("direction", "bidirectional", ("bidirectional",)),
        ("profile", ["quick", "gate"], ("quick", "gate")),
        ("topology", "pvp", ("pvp",)),
        ("streams", [1, "16"], ("1", "16")),
        ("tso", True, ("on",)),
        ("tso", "off", ("off",)),
        ("flow", 3, ("3",)),
    ],
)
def test_selectors(name, value, labels):
    assert parse_selector(name, value) == labels


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("topolgy", "pvp", "unknown selector 'topolgy', did you mean 'topology'? (known: suite, test, topology,"),
        ("frame_size", 63, "frame size 63 is outside 64..9216 bytes (with FCS)"),
        ("frame_size", 9217, "frame size 9217 is outside 64..9216 bytes (with FCS)"),
        ("frame_size", "imix-smple", "not 'imix-smple', did you mean 'imix-simple'"),
        ("frame_size", 64.5, "frame_size must be a word or a whole number, not 64.5"),
        ("flows", 0, "flows must be a whole number from 1, such as 1000, 10k or 1M, not '0'"),
        ("flows", "10K", "flows must be a whole number from 1"),
        ("bridges", "two", "bridges must be a whole number, not 'two'"),
        ("direction", "bidir", "direction must be unidirectional or bidirectional, not 'bidir'"),
        (
            "datapath",
            "dpkd",
            "datapath must be dpdk or netdev or system or linux-bridge or testpmd, not 'dpkd', did you mean",
        ),
        ("profile", "fast", "profile must be smoke or quick or gate or full or soak, not 'fast'"),
        ("suite", [], "suite selects nothing: give a value or leave it out"),
        ("suite", "", "suite is empty"),
        ("suite", None, "suite must be a word or a whole number, not None"),
        ("suite", True, "suite must be a word or a whole number, not True"),
    ],
)
def test_bad_selectors(name, value, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is looked at below
        parse_selector(name, value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "where: {strems: 4}, require: {ndr: '>= 1 pps'}",
            ".where.strems: unknown selector 'strems', did you mean 'streams'?",
        ),
        ("require: {ndr: '>= 95 % of {tos: on}'}", ".require: unknown selector 'tos', did you mean 'tso'"),
        ("where: {streams: 4, tso: on, link: veth}, require: {ndr: '>= 95 % of {bridges: 1}'}", None),
    ],
)
def test_a_label_of_the_suites_own_must_be_one_that_a_test_has(rule, message):
    error = unknown_labels(parse_sla(f"schema: 1\nrules: [{{{rule}}}]", "own.yaml"), {"suite", "streams", "tso"})
    if message is None:
        assert error is None
    else:
        assert f"own.yaml:2: rules[0]{message}" in str(error)
        assert "labels of the collected tests: streams, tso" in str(error)


@pytest.mark.parametrize(
    ("metric", "text", "value", "unit"),
    [
        ("forwarding_rate_slope", ">= -0.5 %", -0.005, "ratio"),
        ("cycles_per_packet_slope", "<= 5 cycles", 5.0, "cycles"),
        ("tcp_throughput_slope", ">= -1 Gbps", -1e9, "bps"),
        ("sender_cores", "<= 1.2", 1.2, "cores"),
        ("retransmits", "<= 100 segments", 100.0, "segments"),
    ],
)
def test_metrics_of_comparisons(metric, text, value, unit):
    limit = parse_limit(metric, text)
    assert (limit.value, limit.unit) == (value, unit)


def refusal(rule):
    with pytest.raises(ConfigError) as caught:
        parse_sla(f"schema: 1\nrules:\n  - {rule}\n", "sla.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{require: {nrd: '>= 4 Mpps'}}", "sla.yaml:3: rules[0].require.nrd: unknown metric 'nrd', did you mean 'ndr'"),
        ("{where: {to-po: x}, require: {ndr: '>= 4 Mpps'}}", "rules[0].where.to-po: unknown selector 'to-po'"),
        ("{requires: {ndr: '>= 4 Mpps'}}", "rules[0].requires: unknown key 'requires', did you mean 'require'?"),
        ("{where: {suite: x}}", "rules[0].require: is missing: write e.g. 'require: {ndr: '>= 4 Mpps'}'"),
        ("{require: {}}", "rules[0].require: is empty: write e.g."),
        ("{require: {ndr: []}}", "rules[0].require.ndr: ndr requires nothing: give a limit or leave it out"),
        ("{require: {ndr: ['>= 1 Mpps', '>= x']}}", "rules[0].require.ndr[1]: 'x' is not a frame rate"),
        (
            "{require: {latency_p50: {at: 4 Mpps}}}",
            "rules[0].require.latency_p50.limit: is missing: write e.g. 'limit:",
        ),
        ("{require: {latency_p50: {limt: 4}}}", "latency_p50.limt: unknown key 'limt', did you mean 'limit'?"),
        ("{require: ['>= 4 Mpps']}", "rules[0].require: must be a mapping, not ['>= 4 Mpps']"),
        ("{require: {ndr: '>= 4 Mpps', ndr: '>= 5 Mpps'}}", "sla.yaml:3: rules[0].require: key 'ndr' is written twice"),
        ("{where: {1: x}, require: {ndr: '>= 4 Mpps'}}", "must be a text (quote it if it looks like a number), not 1"),
    ],
)
def test_mistakes_are_pointed_at(rule, message):
    assert message in refusal(rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema: 2\nrules: [{require: {ndr: '>= 4 Mpps'}}]", "schema: this is schema 2, but only schema 1 is known"),
        ("rules: [{require: {ndr: '>= 4 Mpps'}}]", "schema: is missing: write e.g. 'schema: 1'"),
        ("schema: 1", "rules: is missing"),
        ("schema: 1\nrules: []", "rules: is empty"),
    ],
)
def test_bad_files(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_sla(text, "sla.yaml")
    assert message in str(caught.value)


def test_names_and_sources_are_kept_for_the_report():
    sla = parse_sla(
        "schema: 1\nname: S1\nrules:\n"
        "  - {name: endurance, source: 'RHOSO 18, 2025', where: {frame_size: 64}, require: {loss_ratio: <= 0}}\n"
    )
    assert (sla.rules[0].name, sla.rules[0].reference) == ("endurance", "RHOSO 18, 2025")


def test_several_loads_of_one_metric():
    sla = parse_sla(
        "schema: 1\nrules:\n  - require:\n      latency_p99:\n"
        "        - {at: 10 % of pdr, limit: <= 50 us}\n        - {at: 90 % of pdr, limit: <= 500 us}\n"
    )
    assert [(limit.at, limit.value) for _, limit in sla.rules[0].require] == [
        ("10 % of pdr", 5e4),
        ("90 % of pdr", 5e5),
    ]


LABELS = st.dictionaries(st.sampled_from(["suite", "test", "topology", "frame_size", "link"]), st.sampled_from("abc"))


@given(LABELS, st.data())
def test_a_rule_made_of_a_tests_own_labels_selects_it_and_one_with_a_stranger_does_not(labels, data):
    names = data.draw(st.lists(st.sampled_from(sorted(labels)), unique=True)) if labels else []
    where = tuple((name, tuple({labels[name], *data.draw(st.lists(st.sampled_from("abc")))})) for name in names)
    stranger = data.draw(st.sampled_from(["suite", "topology", "mine"]))

    assert Rule(where, (), "r").matches(labels)
    beyond = Rule((*where, (stranger, ("nobody's",))), (), "r")
    assert not beyond.matches(labels)
    assert beyond.matches(labels, {stranger})  # the measurement may show it


FACTORS = {">= 4 Mpps": "ndr", ">= 25 Gbps": "ndr", "<= 100 us": "latency_p99", "<= 0.1 %": "loss_ratio"}


@given(st.sampled_from(sorted(FACTORS)), st.floats(0.1, 10))
def test_a_limit_that_is_meant_raises_no_doubt(text, factor):
    operator, number, unit = text.split()
    at = {"at": "100 % of ndr"} if FACTORS[text] != "ndr" else {}
    require = {FACTORS[text]: {"limit": f"{operator} {float(number) * factor:f} {unit}", **at}}

    assert list(sla_warnings(parse_sla(json.dumps({"schema": 1, "rules": [{"require": require}]})))) == []


SUSPECT = {
    "{ndr: '<= 3 Mpps'}": "fails a DUT for being better: write '>= 3 Mpps'",
    "{latency_p99: {at: 50 % of pdr, limit: '>= 10 us'}}": "fails a DUT for being better",
    "{ndr: '>= 3 Mbps'}": "is 5.86 kpps",
    "{ndr: '>= 3 kpps'}": "is 3.00 kpps",
    "{latency_p99: {at: 50 % of pdr, limit: '<= 150 ms'}}": "is a thousand times what switches take",
    "{ndr: '>= 0 Mpps'}": "is met by every DUT",
    "{loss_ratio: '<= 100 %'}": "is met by every DUT",
}
CERTAIN = (
    "{ndr: ['>= 1 Mpps', '<= 3 Mpps']}",
    "{forwarding_rate: '<= 105 % of {overlay: none}'}",
    "{forwarding_rate: '<= 105 % of baseline'}",
    "{rate_change: '>= -1 %'}",
    "{survival_time: '>= 0.5 s'}",
    "{mirror_completeness: ['>= 100 %', '<= 100 %']}",
    "{forwarding_rate: '>= 1 kpps'}",
    "{ndr: '>= 30 Mbps'}",
)


@pytest.mark.parametrize(("require", "why"), SUSPECT.items())
def test_what_an_author_can_hardly_mean_is_said_with_its_place(require, why):
    (line,) = sla_warnings(parse_sla(f"schema: 1\nrules:\n  - require: {require}\n", "own.yaml"))

    assert line.startswith("own.yaml:3: rules[0].require.")
    assert why in line


@pytest.mark.parametrize("require", CERTAIN)
def test_what_may_be_meant_raises_no_doubt(require):
    assert list(sla_warnings(parse_sla(f"schema: 1\nrules:\n  - require: {require}\n"))) == []


def test_a_bit_rate_is_doubted_by_the_frame_size_of_its_rule():
    rule = "schema: 1\nrules: [{{where: {{frame_size: {}}}, require: {{ndr: '>= 30 Mbps'}}}}]"

    assert list(sla_warnings(parse_sla(rule.format(64)))) == []
    assert "is 2.47 kpps" in next(sla_warnings(parse_sla(rule.format(1518))))


@given(st.text(max_size=40))
def test_no_text_breaks_it(text):
    """Whatever is written, the answer is a limit or a sentence."""
    for metric in ("ndr", "loss_ratio"):
        answer = limit_or_message(metric, text)
        assert answer.value >= 0 if isinstance(answer, Limit) else len(answer) > 10


def limit_or_message(metric, text):
    try:
        return parse_limit(metric, text)
    except ValueError as error:
        return str(error)


@given(st.sampled_from([">=", "<=", "<", ">", "=="]), st.integers(0, 10**6), st.sampled_from(["pps", "kpps", "Mpps"]))
def test_spacing_does_not_matter(operator, number, unit):
    spaced, tight = (
        parse_limit("ndr", f" {operator}  {number}  {unit} "),
        parse_limit("ndr", f"{operator}{number}{unit}"),
    )
    assert (spaced.operator, spaced.value, spaced.unit) == (tight.operator, tight.value, tight.unit)


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    rules = "[{where: {frame_size: 63, direction: up}, require: {nrd: '>= 1 Mpps', pdr: 4}}, {require: {ndr: []}}]"
    with pytest.raises(ConfigError) as caught:
        parse_sla(f"schema: 1\nrules: {rules}\n", "sla.yaml")
    keys = ["rules[0].where.frame_size", "rules[0].where.direction", "rules[0].require.nrd", "rules[0].require.pdr"]
    lines = str(caught.value).splitlines()
    assert (caught.value.key, len(lines)) == (keys[0], 5)
    for key, line in zip([*keys[1:], "rules[1].require.ndr"], lines[1:], strict=True):
        assert line.startswith(f"  also line 2: {key}: ")
