"""The guard against firewalls: real rules in a real namespace."""

from __future__ import annotations

import pytest
from pyroute2 import netns
from pyroute2.nftables.expressions import verdict
from pyroute2.nftables.main import NFTables

from pytest_nfvperf.adapters.net.cabling import active_firewall, active_firewalls
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.model.errors import TestbedError

IPV4 = 2  # NFPROTO_IPV4
NAME = "nfv-firewall"


@pytest.fixture
def namespace():
    netns.create(NAME)
    yield NAME
    netns.remove(NAME)


def add_rule():
    with NFTables(nfgen_family=IPV4) as kernel:
        kernel.table("add", name="filter")
        kernel.chain("add", table="filter", name="forward", hook="forward", type="filter", policy=1)
        kernel.rule("add", table="filter", chain="forward", expressions=(verdict(code=1),))


def test_a_fresh_namespace_filters_nothing(namespace):
    assert active_firewall(namespace) == []


def test_a_rule_and_its_hook_are_named(namespace):
    inside_netns(namespace, add_rule)

    chain, rule = active_firewall(namespace)
    assert chain == "nftables chain forward of table filter is on a hook"
    assert rule.startswith("nftables rule ")
    assert rule.endswith("in chain forward of table filter")
    assert active_firewalls([namespace]) == {namespace: [chain, rule]}


def test_a_namespace_that_is_not_there():
    with pytest.raises(TestbedError, match="there is no network namespace 'nfv-nobody'"):
        active_firewall("nfv-nobody")
