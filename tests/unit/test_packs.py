"""SLA packs by name, and selectors that are about a lab's hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.session.slas import pack_rules, refuse_empty, scenarios
from tests.config_support import parse_sla

SUITES = Path(__file__).parents[2] / "suites"
PUBLISHED = [load_sla(path) for path in sorted(SUITES.glob("*/published.yaml"))]
VENDOR = """
schema: 1
rules:
  - where: {nic: ConnectX-6 Dx, firmware: 22.36.*, frame_size: 64, offload: on}
    require: {ndr: ">= 60 Mpps"}
  - where: {nic: [E810-C, X710], offload: true}
    require: {ndr: ">= 20 Mpps"}
"""


@pytest.mark.parametrize("scenario", ["S1", "S2", "S3", "S4", "S5"])
def test_the_shipped_figures_are_selectable_by_scenario(scenario):
    rules = pack_rules(f"published:{scenario}", PUBLISHED)
    assert rules
    assert all(scenario in scenarios(rule) for rule in rules)
    assert set(rules) < set(pack_rules("published", PUBLISHED))


def test_every_published_rule_says_where_it_is_from():
    assert [rule.source for rule in pack_rules("published", PUBLISHED) if not scenarios(rule)] == []


def test_a_pack_that_is_not_there():
    with pytest.raises(ConfigError) as caught:
        refuse_empty("published:S9", PUBLISHED)
    assert "--nfv-sla: the suites of this run have no figures by the name 'published:S9': there are" in str(
        caught.value
    )
    assert "published:S1" in str(caught.value)
    with pytest.raises(ConfigError, match="there is none"):
        refuse_empty("published", [])


@pytest.mark.parametrize(
    ("firmware", "matches"), [("22.36.1010", True), ("22.36.", True), ("22.35.1012", False), (None, False)]
)
def test_firmware_by_its_beginning(firmware, matches):
    labels = {"nic": "ConnectX-6 Dx", "frame_size": "64", "offload": "on"}
    labels |= {"firmware": firmware} if firmware else {}
    assert parse_sla(VENDOR).rules[0].matches(labels) is matches


def test_a_star_alone_selects_all_that_have_the_label():
    rule = parse_sla("schema: 1\nrules: [{where: {nic: '*'}, require: {ndr: '>= 1 pps'}}]").rules[0]
    assert rule.matches({"nic": "any"})
    assert not rule.matches({})


def test_offload_may_be_written_as_a_yes():
    assert dict(parse_sla(VENDOR).rules[1].where)["offload"] == ("on",)
    with pytest.raises(ConfigError, match="offload must be on or off"):
        parse_sla(VENDOR.replace("offload: true", "offload: yes"))
