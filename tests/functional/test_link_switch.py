"""Links set down and up on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.cabling import Cabling
from pytest_nfvperf.adapters.net.ends import End, LinkState, VethPair, read_links
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.features.routing.path_daemons import LinkSwitch
from pytest_nfvperf.model.errors import TestbedError
from tests.functional.ovs_support import leftovers, needs_root, run_base

pytestmark = needs_root


@pytest.fixture
def here() -> Iterator[tuple[LiveNamespace, LiveNamespace]]:
    with run_base() as base:
        journal = open_journal(base)
        one, other = LiveNamespace(journal, "one"), LiveNamespace(journal, "other")
        cabling = Cabling(journal, one)
        cabling.join([VethPair(End("eth0", one.path, addresses=("10.0.0.1/30",)), End("eth0", other.path))])
        yield one, other
        for part in (cabling, other, one):
            part.close()
        journal.close()
        assert leftovers(journal.tag) == []


def link(namespace: LiveNamespace) -> LinkState:
    return inside(namespace.path, read_links)["eth0"]


def test_both_ends_notice_and_it_is_left_up(here: tuple[LiveNamespace, LiveNamespace]) -> None:
    one, other = here
    switch = LinkSwitch(one.name, "eth0")
    switch.down()
    assert not link(one).carrier
    assert not link(other).carrier
    switch.up()
    assert link(one).carrier
    switch.down()
    switch.close()
    switch.close()
    assert link(other).carrier


def test_one_that_is_not_there(here: tuple[LiveNamespace, LiveNamespace]) -> None:
    one, _ = here
    with pytest.raises(
        TestbedError, match=rf"cannot set eth7 in namespace {one.name} down: no interface with this name"
    ):
        LinkSwitch(one.name, "eth7").down()
    with pytest.raises(TestbedError, match="cannot set eth0 in namespace nobody up: No such file"):
        LinkSwitch("nobody", "eth0").up()
