"""The published schemas: current, and of one mind with what reads the files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pytest_nfvperf.cli.main import main
from pytest_nfvperf.config.schemas import published, schema_of_sla
from pytest_nfvperf.config.sla_file import SELECTORS
from pytest_nfvperf.config.yaml_file import parse_document
from pytest_nfvperf.model.errors import ConfigError
from tests.config_support import parse_sla, parse_testbed, parse_traffic

SCHEMA_FOLDER = Path(__file__).parents[2] / "reports" / "schema"
SCHEMAS = {name.partition(".")[0]: json.loads(text) for name, text in published().items()}


@pytest.mark.parametrize("name", published())
def test_the_committed_schema_is_current(name):
    assert (SCHEMA_FOLDER / name).read_text(encoding="utf-8") == published()[name], (
        f"run: nfvperf schema {name.partition('.')[0]} > reports/schema/{name}"
    )


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_it_is_a_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


TESTBEDS = [
    ("schema: 1\nname: x", True),
    ("schema: 1\nname: x\ndut: {ports: [{name: p, line_rate: 100 Gbps}]}", True),
    ("schema: 1\nname: x\ndut: {ovs: {pmd_cpus: 2-3, other_config: {n: 1}}}\nhugepages: 1 GiB", True),
    ("schema: 1\nname: x\nlinks: []\ncpus: {pmd: [2]}\ngenerator: {engine: embedded}", True),
    ("schema: 1\nname: x\nstreams: {engine: iperf3, path: /opt/iperf3, ports: 5201-5264, server_cpus: [1]}", True),
    ("schema: 1\nname: x\nstreams: {engine: iperf3, ports: many}", False),
    ("schema: 2\nname: x", False),
    ("schema: 1", False),
    ("schema: 1\nname: x\nnmae: y", False),
    ("schema: 1\nname: x\ndut: {ports: [{name: p, line_rate: 100}]}", False),
    ("schema: 1\nname: x\ndut: {ports: [{name: p, line_rate: 50 us}]}", False),
    ("schema: 1\nname: x\ndut: {ovs: {datapath: fast}}", False),
    ("schema: 1\nname: x\ngenerator: {ports: [zero]}", False),
]

SLAS = [
    ("{require: {ndr: '>= 4 Mpps'}}", True),
    ("{require: {ndr: ['>= 4 Mpps', '<= 9 Mpps']}, name: n, source: s}", True),
    ("{where: {frame_size: [64, imix-simple], direction: bidirectional}, require: {loss_ratio: <= 0}}", True),
    ("{require: {loss_ratio: {at: 4 Mpps, limit: <= 0}}}", True),
    ("{require: {latency_p99: [{at: 50 % of pdr, limit: <= 1 ms}]}}", True),
    ("{require: {}}", False),
    ("{require: {nrd: '>= 4 Mpps'}}", False),
    ("{require: {ndr: 4}}", False),
    ("{require: {ndr: 4 Mpps}}", False),
    ("{require: {latency_p99: <= 1 ms}}", False),
    ("{require: {ndr: {at: 4 Mpps, limit: '>= 4 Mpps'}}}", False),
    ("{where: {streams: [1, 2], tso: true}, require: {ndr: '>= 4 Mpps'}}", True),
    ("{where: {to-po: x}, require: {ndr: '>= 4 Mpps'}}", False),
    ("{where: {direction: up}, require: {ndr: '>= 4 Mpps'}}", False),
]


def accepted_by_schema(schema, text):
    return jsonschema.Draft202012Validator(schema).is_valid(parse_document(text, "x").data)


def accepted_by(parse, text):
    try:
        parse(text)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("text", "good"), TESTBEDS)
def test_an_editor_agrees_about_testbeds(text, good):
    assert accepted_by(parse_testbed, text) is good
    assert accepted_by_schema(SCHEMAS["testbed"], text) is good


@pytest.mark.parametrize(("rule", "good"), SLAS)
def test_an_editor_agrees_about_slas(rule, good):
    text = f"schema: 1\nrules: [{rule}]"
    assert accepted_by(parse_sla, text) is good
    assert accepted_by_schema(schema_of_sla(), text) is good


def test_each_label_that_rules_know_is_in_the_published_schema_and_on_the_page():
    where = json.loads((SCHEMA_FOLDER / "sla.schema.json").read_text())["$defs"]["RuleSection"]["properties"]["where"]
    rows = (SCHEMA_FOLDER.parents[1] / "docs/reference/sla-language.md").read_text().partition("| selector |")[2]
    assert {"class", "classes", "raised", "judged"} <= set(SELECTORS)
    for name in SELECTORS:
        assert where["properties"][name]["description"]
        assert f"`{name}`" in rows


def test_printing_them(capsys):
    for name, text in published().items():
        assert main(["schema", name.partition(".")[0]]) == 0
        assert capsys.readouterr().out == text
    assert json.loads(published()["sla.schema.json"])["title"] == "pytest_nfvperf SLA file"
    with pytest.raises(SystemExit) as usage:
        main(["schema"])
    assert usage.value.code == 2
    assert "usage:" in capsys.readouterr().err


TRAFFICS = [
    ("packet: Ether()/IP()/UDP()", True),
    ("packet: Ether()/IP()/UDP()\nvary: [{field: IP.dst, count: 9, first: 10.0.0.1, step: -1}]\nframe_size: 128", True),
    ("imix: [[64, 7], [1518, 1]]\nbidirectional: false", True),
    ("classes: {a: {share: 40 %, frame_size: 64}, b: {share: 0.6}}", True),
    ("packet: 7", False),
    ("frame_size: large", False),
    ("vary: [{field: IP.dst}]", False),
    ("vary: [{field: IP.dst, count: 0}]", False),
    ("classes: {a: {frame_size: 64}}", False),
    ("pcap: a.pcap\ncolour: blue", False),
    ("direction: 2", False),
]


@pytest.mark.parametrize(("text", "good"), TRAFFICS)
def test_an_editor_agrees_about_traffic(text, good):
    text = f"schema: 1\n{text}"
    assert accepted_by_schema(SCHEMAS["traffic"], text) is good
    assert accepted_by(parse_traffic, text) is good
