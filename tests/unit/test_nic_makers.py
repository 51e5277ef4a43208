"""The table of makers of namespaces' interfaces, what may be added to it, and S5's node."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.ovs.topology.nic_makers import NIC_MAKERS, Making, maker_of, with_makers
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.scenarios.pods import pod_node
from pytest_nfvperf.model.topology.nodes import Nic, PortKind
from pytest_nfvperf.model.topology.parts import nic


def made(nic: Nic, making: Making) -> OvsPort:
    return OvsPort(nic.port, nic.bridge, nic.port, "system")


def test_a_third_partys_kind_is_added() -> None:
    table = with_makers([{"acme:macvtap": made}, {"other:ipvlan": made}])
    assert set(table) == {*NIC_MAKERS, "acme:macvtap", "other:ipvlan"}
    assert maker_of(nic("pod1", "br0", kind="acme:macvtap"), table) is made


@pytest.mark.parametrize(
    ("added", "why"),
    [([{"veth": made}], "kind 'veth' has no colon in it"), ([{"a:b": made}, {"a:b": made}], "'a:b' has two makers")],
)
def test_a_name_that_is_not_a_third_partys_own_is_refused(added: list[dict[str, object]], why: str) -> None:
    with pytest.raises(ConfigError, match=f"pytest_nfvperf_nic_makers: .*{why}: call it by your name"):
        with_makers(added)  # type: ignore[arg-type]


def test_a_kind_that_nobody_makes_is_told_when_it_is_built() -> None:
    said = "interface 'eth0' of namespace 'pod1' is of kind 'acme:x', which nobody makes: .* There are veth, internal"
    with pytest.raises(ConfigError, match=said):
        maker_of(nic("pod1", "br0", kind="acme:x"), NIC_MAKERS)


def test_a_misspelt_kind_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="'vetch' is no nic kind, did you mean 'veth'"):
        nic("pod1", "br0", kind="vetch")


def test_a_node_is_laid_out_as_s5_has_it() -> None:
    node = pod_node(2, mtu=1450)
    assert node.bridges == ("br-ex", "br-int")
    assert [spec.name for spec in node.namespaces] == ["outside", "host", "mgmt", "pod1", "pod2"]
    on = {one.namespace: (one.bridge, str(one.kind), one.mtu) for one in node.nics}
    assert on["outside"] == ("br-ex", "veth", 1450)
    assert on["host"] == ("br-ex", "internal", 1450)
    assert on["mgmt"] == ("br-int", "internal", 1450)
    assert on["pod2"] == ("br-int", "veth", 1450)
    assert [(one.bridge_a, one.bridge_b) for one in node.patches] == [("br-ex", "br-int")]


def test_pods_that_bring_dpdk_are_the_generators() -> None:
    node = pod_node(3, kind="vhost-user")
    assert [(port.name, port.kind) for port in node.ports] == [(f"pod{n}", PortKind.VHOST_USER) for n in (1, 2, 3)]
    assert [(one.tx, one.rx) for one in node.directions] == [("pod1", "pod2"), ("pod2", "pod1")]


def test_many_pods_have_addresses_of_their_own() -> None:
    addresses = [one.addresses[0] for one in pod_node(600).nics]
    assert len(set(addresses)) == len(addresses)
    assert "198.18.3.100/16" in addresses


@pytest.mark.parametrize("pods", [0, 5001])
def test_a_number_of_pods_that_cannot_be_is_refused(pods: int) -> None:
    with pytest.raises(ValueError, match=f"a node with {pods} pods is not possible: give 1 to 5000"):
        pod_node(pods)
