"""The sides of a comparison as a command line names them, and as versions of a testbed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_nfvperf.config.units import read_margin
from pytest_nfvperf.features.versions.registry import with_sides
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.measure.compare import Side, Word, parse_sides
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec, ovs_for_dut
from pytest_nfvperf.session.comparison import ComparedSearch, Comparison

EMC = "other_config:emc-insert-inv-prob"


def test_names_places_and_settings():
    sides = parse_sides(
        ["debian:bookworm", "new=/opt/ovs-3.3.4", "/opt/ovs-3.1", "installed"],
        [f"debian:bookworm:{EMC}=0", f"{EMC}=5", "new:other_config:smc-enable=true"],
    )
    emc = ("emc-insert-inv-prob", "5")
    assert sides == (
        Side("debian:bookworm", "debian:bookworm", (emc,)),
        Side("new", "/opt/ovs-3.3.4", (emc, ("smc-enable", "true"))),
        Side("ovs-3.1", "/opt/ovs-3.1", (emc,)),
        Side("installed", "installed", (emc,)),
    )


@pytest.mark.parametrize(
    ("sides", "settings", "message"),
    [
        (["a"], [], "needs two sides or more, not 'a' alone"),
        (["a", "a"], [], "'a' is given twice: each side needs a name of its own, such as again=a"),
        (["a", "b="], [], "'b=' names no side: write NAME, or NAME=WHERE such as new=/opt/ovs-3.3.4"),
        (["a", "b"], ["bb:other_config:x=1"], "no side is called 'bb', did you mean 'b'"),
        (["a", "b"], ["b:external_ids:x=1"], "is no setting: write SIDE:other_config:KEY=VALUE"),
        (["a", "b"], ["b:other_config:x"], "is no setting"),
        (["a", "b c=x"], [], "cannot name a version"),
    ],
)
def test_what_names_no_side_is_refused(sides, settings, message):
    with pytest.raises(ConfigError) as error:
        parse_sides(sides, settings)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["0", "60 %", "-1 %", "much"])
def test_a_margin_is_a_small_share(text):
    with pytest.raises(ConfigError, match="--margin: "):
        read_margin(text)
    assert read_margin("5 %") == 0.05


def test_each_side_is_a_version_of_the_testbed_with_its_settings():
    own = OvsSpec(other_config=(("max-idle", "5000"),), versions=(NamedOvs("old", "/opt/a", "/opt/a", "prefix"),))
    ovs = with_sides(own, parse_sides(["old", "tuned=old", "path=/opt/b"], [f"tuned:{EMC}=0"]))

    assert [(version.name, version.prefix) for version in ovs.versions] == [
        ("old", "/opt/a"),
        ("tuned", "/opt/a"),
        ("path", "/opt/b"),
    ]
    assert ovs_for_dut(ovs, Dut(version="old")).other_config == (("max-idle", "5000"),)
    tuned = ovs_for_dut(ovs, Dut(version="tuned"))
    assert tuned.other_config == (("max-idle", "5000"), ("emc-insert-inv-prob", "0"))


def test_the_systems_ovs_has_no_sides():
    with pytest.raises(ConfigError, match="write 'instance: private'"):
        with_sides(OvsSpec(instance="system"), parse_sides(["installed", "b=/opt/b"]))


OLD, NEW = (NamedOvs(name, f"/opt/{name}", f"/opt/{name}", "prefix", datapath="testpmd") for name in ("old", "new"))
OF_OVS = NamedOvs("ovs", "/opt/ovs", "/opt/ovs", "prefix", datapath="ovs")


def test_sides_of_another_datapath_make_it_the_testbeds_own():
    ovs = with_sides(OvsSpec(prefix="/opt/ovs", versions=(OLD, NEW)), parse_sides(["old", "new"]))
    assert (ovs.datapath, ovs.prefix) == ("testpmd", None)
    assert ovs_for_dut(ovs, Dut(version="new")).prefix == "/opt/new"
    back = with_sides(OvsSpec(datapath="testpmd", versions=(OF_OVS,)), parse_sides(["ovs", "again=ovs"]))
    assert (back.datapath, back.prefix) == ("dpdk", None)


@pytest.mark.parametrize(
    ("sides", "settings", "message"),
    [
        (["old", "ovs"], [], "'ovs' is one of Open vSwitch and 'old' is one of testpmd"),
        (["old", "new"], [f"new:{EMC}=0"], "'new' is no Open vSwitch, and has no other_config"),
    ],
)
def test_sides_that_cannot_be_compared_are_refused(sides, settings, message):
    with pytest.raises(ConfigError) as error:
        with_sides(OvsSpec(versions=(OLD, NEW, OF_OVS)), parse_sides(sides, settings))
    assert message in str(error.value)


def test_a_side_whose_readings_were_all_disturbed_decides_nothing_and_says_so():
    comparison = SimpleNamespace(settings=SimpleNamespace(margin=0.02))
    figure = SimpleNamespace(units={"forwarding_rate": "pps", "cycles_per_packet": "cycles"})
    disturbed: Any = SimpleNamespace(samples=())
    (found,) = Comparison._metrics(cast("Any", comparison), cast("Any", None), cast("Any", figure), disturbed)
    assert (found.metric, found.word, found.decides) == ("forwarding_rate", Word.CANNOT_TELL, True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda search: search.ndr_pdr("live", "traffic", latencies=True),
            r"search\.ndr_pdr\(\) has no argument 'latencies'",
        ),
        (lambda search: search.loss_at("live", "traffic", 1e6), r"search\.loss_at\(\): .*duration_s"),
        (lambda search: search.throughput("live", "traffic"), r"search\.throughput\(\): live is 'live'"),
    ],
)
def test_a_search_that_compares_refuses_the_calls_that_a_search_refuses(call, message):
    search = ComparedSearch(QUICK, {}, lambda *_: None, lambda _: 0.0, sides=None)

    with pytest.raises(ArgumentError, match=message):
        call(search)
