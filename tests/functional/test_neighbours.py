"""The kernel's datapath is told where a tunnel's other end is: the first frame need not wait for ARP."""

from __future__ import annotations

import json
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.net.ends import End, configure
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.nics import set_neighbour
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import TestbedError
from tests.functional.ovs_support import needs_root

pytestmark = needs_root
MAC = "02:00:00:00:00:07"


def kernels_ovs(home: LiveNamespace) -> Any:
    return SimpleNamespace(options=SimpleNamespace(datapath_type="system"), home=home)


@pytest.mark.parametrize(("own", "far"), [("172.31.0.1/30", "172.31.0.2"), ("fd00:1f::1/64", "fd00:1f::2")])
def test_the_kernel_knows_the_other_end(journal: Journal, own: str, far: str) -> None:
    with closing(LiveNamespace(journal, "home")) as home:
        home.run(["ip", "link", "add", "br-phy", "type", "veth", "peer", "name", "wire"])
        configure([End("br-phy", home.path, addresses=(own,))])
        for mac in ("02:00:00:00:00:06", MAC):  # a second time it replaces the first
            set_neighbour(kernels_ovs(home), "br-phy", far, mac)
        (known,) = json.loads(home.run(["ip", "-json", "neighbour", "show", far, "dev", "br-phy"]))
    assert (known["dst"], known["lladdr"], known["state"]) == (far, MAC, ["PERMANENT"])


def test_a_bridge_that_is_not_there_is_named(journal: Journal) -> None:
    with (
        closing(LiveNamespace(journal, "home")) as home,
        pytest.raises(TestbedError, match="the MAC address of a tunnel's far end on br-phy"),
    ):
        set_neighbour(kernels_ovs(home), "br-phy", "172.31.0.2", MAC)
