"""The table of makers of namespaces' interfaces, what may be added to it, and S5's node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nfvperf.adapters.net import vduse
from pytest_nfvperf.adapters.ovs import nics as nic_makers
from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS, NicContext, OvsPort, maker_of
from pytest_nfvperf.adapters.ovs.ports import VduseDevices
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions
from pytest_nfvperf.backends.foreign_datapaths import merge_makers
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.topology.parts import nic
from pytest_nfvperf.model.topology.ports import Nic, PortKind
from pytest_nfvperf.model.topology.workloads import pod_node, pod_nodes


def made(nic: Nic, making: NicContext) -> OvsPort:
    return OvsPort(nic.port, nic.bridge, nic.port, "system")


def test_a_third_partys_kind_is_added() -> None:
    table = merge_makers("hook", [{"acme:macvtap": made}, {"other:ipvlan": made}], NIC_MAKERS)
    assert set(table) == {*NIC_MAKERS, "acme:macvtap", "other:ipvlan"}
    assert maker_of(nic("pod1", "br0", kind="acme:macvtap"), table) is made


@pytest.mark.parametrize(
    ("added", "why"),
    [([{"veth": made}], "kind 'veth' has no colon"), ([{"a:b": made}, {"a:b": made}], "'a:b' is given twice")],
)
def test_a_name_that_is_not_a_third_partys_own_is_refused(added: list[dict[str, object]], why: str) -> None:
    with pytest.raises(ConfigError, match=f"hook: .*{why}: call it by your name"):
        merge_makers("hook", added, NIC_MAKERS)  # type: ignore[arg-type]


def test_a_kind_that_nobody_makes_is_told_when_it_is_built() -> None:
    said = "interface 'eth0' of namespace 'pod1' is of kind 'acme:x', which nobody makes: .* There are veth, internal"
    with pytest.raises(ConfigError, match=said):
        maker_of(nic("pod1", "br0", kind="acme:x"), NIC_MAKERS)


def test_a_misspelt_kind_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="'vetch' is no nic kind, did you mean 'veth'"):
        nic("pod1", "br0", kind="vetch")


def making(dpdk_version: str | None) -> NicContext:
    there = Path("/proc/self/ns/net")
    return NicContext(InstanceOptions((0,), (1,)), (), there, there, [], [], dpdk_version, lambda: "abcdefv1", [])


def test_a_vduse_device_is_served_by_dpdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_makers, "lacks_vduse", lambda: None)
    work = making("24.11.3")
    port = NIC_MAKERS["vduse"](nic("pod1", "br0", "10.0.0.1/24", kind="vduse"), work)
    assert (port.type, dict(port.options)) == ("dpdkvhostuserclient", {"vhost-server-path": "/dev/vduse/abcdefv1"})
    assert [(device.name, device.end.name) for device in work.devices] == [("abcdefv1", "eth0")]


@pytest.mark.parametrize(
    ("dpdk", "kind", "said"),
    [
        (None, ConfigError, r"interface 'eth0' of namespace 'pod1' is by VDUSE, .* use Dut\('dpdk'\)"),
        ("22.11.11", UnavailableError, r"is by VDUSE: DPDK 22.11.11 has none, 23.11 is the first: `nfvperf ovs add"),
    ],
)
def test_an_ovs_without_vduse_is_told(
    monkeypatch: pytest.MonkeyPatch, dpdk: str | None, kind: type[Exception], said: str
) -> None:
    monkeypatch.setattr(nic_makers, "lacks_vduse", lambda: None)
    with pytest.raises(kind, match=said):
        NIC_MAKERS["vduse"](nic("pod1", "br0", kind="vduse"), making(dpdk))


def test_what_a_kernel_lacks_for_vduse_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steps: give it one thing after the other. Verify: the next one that is missing is named, with what to do."""
    monkeypatch.setattr(vduse, "_CONTROL", tmp_path / "control")
    monkeypatch.setattr(vduse, "_BUS", tmp_path)
    monkeypatch.setattr(vduse, "find", lambda _: None)
    assert str(vduse.lacks_vduse()).startswith(f"no {tmp_path}/control: modprobe vduse, which needs a kernel")
    with pytest.raises(UnavailableError, match=r"interface 'eth0' of namespace 'pod1' is by VDUSE: no .*/control"):
        NIC_MAKERS["vduse"](nic("pod1", "br0", kind="vduse"), making("24.11"))
    (tmp_path / "control").touch()
    assert "the driver virtio_vdpa is not loaded" in str(vduse.lacks_vduse())
    (tmp_path / "drivers" / "virtio_vdpa").mkdir(parents=True)
    assert vduse.lacks_vduse() == "vdpa is not installed: apt-get install iproute2"
    monkeypatch.setattr(vduse, "find", lambda _: "/sbin/vdpa")
    assert vduse.lacks_vduse() is None


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (None, "no driver took it; modprobe virtio_vdpa"),
        ("vhost_vdpa", "the driver vhost_vdpa took it, not virtio_vdpa"),
        ("virtio_vdpa", "in the machine's first network namespace, where nfvperf must run"),
    ],
)
def test_a_device_that_becomes_no_interface_is_told_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: str | None, said: str
) -> None:
    monkeypatch.setattr(vduse, "DEVICES", tmp_path)
    monkeypatch.setattr(vduse, "_BUS", tmp_path)
    monkeypatch.setattr(vduse, "_APPEAR_DEADLINE_S", 0.05)
    monkeypatch.setattr(vduse, "run", lambda *_, **__: "")
    with pytest.raises(TestbedError, match=f"waited 0.05 s for {tmp_path}/gone, which OVS makes"):
        vduse.attach("gone")
    (tmp_path / "made").touch()
    device = tmp_path / "devices" / "made"
    device.mkdir(parents=True)
    if driver is not None:
        (tmp_path / driver).mkdir()
        (device / "driver").symlink_to(tmp_path / driver)
    with pytest.raises(TestbedError, match=f"VDUSE device 'made' became no network interface.*{said}"):
        vduse.attach("made")


def test_a_devices_name_that_is_taken_is_not_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vduse, "DEVICES", tmp_path)
    (tmp_path / "abcdefv1").touch()
    names = iter(("abcdefv1", "abcdefv2"))
    devices = VduseDevices(SimpleNamespace(link_name=lambda: next(names)))  # type: ignore[arg-type]
    assert devices.new_name() == "abcdefv2"


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


def test_pods_can_have_ipv6_addresses() -> None:
    node = pod_node(600, ip=6)
    addresses = {one.namespace: one.addresses[0] for one in node.nics}
    assert len(set(addresses.values())) == len(addresses)
    wanted = {"outside": "2001:2::1/64", "mgmt": "2001:2::3/64", "pod2": "2001:2::1:2/64", "pod600": "2001:2::3:100/64"}
    assert wanted.items() <= addresses.items()
    assert node.name == "node-600-veth-ipv6"
    pods = pod_nodes("geneve", ip=6)
    assert {one.addresses[0] for one in pods.nics} == {"2001:2::1:1/64", "2001:2::1:2/64"}


@pytest.mark.parametrize("make", [pod_node, pod_nodes])
def test_an_unknown_version_of_ip_is_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="ip is 5: write 4 or 6"):
        make(ip=5)


@pytest.mark.parametrize("pods", [0, 5001])
def test_a_number_of_pods_that_cannot_be_is_refused(pods: int) -> None:
    with pytest.raises(ValueError, match=f"pods is {pods}: write a whole number from 1 to 5000"):
        pod_node(pods)
