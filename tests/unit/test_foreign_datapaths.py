"""Kinds of datapaths that third parties give: their names, who asks for them, and SLAs about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.foreign_datapaths import lacks_foreign, merge_makers
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.config.sla_file import parse_selector
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.ports.datapath import DatapathVersions


class Maker:
    def __init__(self, lacking: str | None = None) -> None:
        self.lacking = lacking

    def lacks(self) -> str | None:
        return self.lacking

    def start(self, workshop: Any) -> Any:
        raise NotImplementedError


def test_makers_of_all_plugins_are_one_table():
    one, other = Maker(), Maker()
    assert merge_makers("hook", [{"acme:wire": one}, {}, {"b:vpp": other}]) == {
        "acme:wire": one,
        "b:vpp": other,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"wire": Maker()}], "kind 'wire' has no colon: call it by your name, such as 'acme:wire'"),
        ([{"a:wire": Maker()}, {"a:wire": Maker()}], "kind 'a:wire' is given twice"),
    ],
)
def test_kinds_that_cannot_be(given, message):
    with pytest.raises(ConfigError) as caught:
        merge_makers("hook", given)
    assert message in str(caught.value)


def test_what_a_foreign_datapath_lacks_it_says_itself():
    makers = {"acme:wire": Maker("no wire here: buy one"), "acme:air": Maker()}
    assert lacks_foreign(makers, "acme:wire") == "no wire here: buy one"
    assert lacks_foreign(makers, "acme:air") is None
    why = lacks_foreign(makers, "acme:vpp")
    assert why is not None
    assert why.startswith("no plugin makes the datapath 'acme:vpp' (there are: acme:wire, acme:air): install its")


class Versions(DatapathVersions):
    kind = "acme:wire"

    def look_at(self, prefix: str | None) -> DatapathInfo:
        return DatapathInfo("acme:wire", f"1.0 in {prefix}", None, "")


def test_the_header_of_a_comparison_of_its_versions_names_it(monkeypatch):
    maker = Maker()
    monkeypatch.setattr(maker, "versions", Versions, raising=False)
    found = discover_testbed()
    testbed = replace(found, ovs=replace(found.ovs, datapath="acme:wire", prefix="/opt/old"))
    backend = LocalBackend(testbed, EmbeddedSide(testbed), datapaths={"acme:wire": maker})
    assert backend.describe()[0].startswith("DUT:       acme:wire 1.0 in /opt/old, on CPU ")


def test_an_sla_can_be_about_one():
    assert parse_selector("datapath", "acme:wire") == ("acme:wire",)
    assert parse_selector("datapath", "testpmd") == ("testpmd",)
    with pytest.raises(ValueError, match="must be dpdk or netdev or system or linux-bridge or testpmd, not 'dpkd'"):
        parse_selector("datapath", "dpkd")
