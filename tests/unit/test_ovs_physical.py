"""Rows and devargs of a lab's ports: what OVS would be told of NICs that this machine does not have."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nfvperf.adapters.host.nic import devlink_info, dpdk_driver, pci_name, read_nic
from pytest_nfvperf.adapters.ovs.built_topology import noted_sources
from pytest_nfvperf.adapters.ovs.ports import devargs, driver_of, physical
from pytest_nfvperf.adapters.ovs.rows import not_granted
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.testbed import DutBond, DutPort
from pytest_nfvperf.model.topology.ports import Port, PortRole

P0 = Port("p0", "br0", PortRole.ENDPOINT, "02:00:00:00:00:01")
NIC = DutPort("dpdk0", "pci", pci="0000:3b:00.0", rxq=2, rx_descriptors=2048, tx_descriptors=1024)


@pytest.mark.parametrize(
    ("representor", "expected"),
    [
        (None, "0000:3b:00.0"),
        ("0", "0000:3b:00.0,representor=[0]"),
        ("vf2", "0000:3b:00.0,representor=vf2"),
        ("pf0vf1", "0000:3b:00.0,representor=pf0vf1"),
    ],
)
def test_devargs_of_nics_and_representors(representor, expected):
    port = DutPort("x", "pci", pci="0000:3b:00.0", representor=representor)
    assert devargs(port, driver_of(port, "dpdk")) == expected


@pytest.mark.parametrize(
    ("port", "datapath", "mtu", "expected"),
    [
        (DutPort("d0", "interface", interface="ens1"), "dpdk", 1500, "net_af_packet_d0,iface=ens1"),
        (
            DutPort("d0", "interface", interface="ens1", rxq=2),
            "dpdk",
            9000,
            "net_af_packet_d0,iface=ens1,qpairs=2,blocksz=16384,framesz=16384",
        ),
        (
            DutPort("d0", "interface", interface="ens1", driver="af_xdp", rxq=4),
            "dpdk",
            1500,
            "net_af_xdp_d0,iface=ens1,queue_count=4",
        ),
    ],
)
def test_devargs_of_interfaces(port, datapath, mtu, expected):
    assert devargs(port, driver_of(port, datapath), mtu) == expected


def test_a_nic_of_dpdks():
    wired = physical(P0, CabledEnd("dpdk0", (NIC,), device="0"), "dpdk")
    assert (wired.interface, wired.type, wired.device) == ("dpdk0", "dpdk", "0")
    assert wired.options == {
        "dpdk-devargs": "0000:3b:00.0",
        "n_rxq": "2",
        "n_rxq_desc": "2048",
        "n_txq_desc": "1024",
    }


def test_an_interface_that_the_kernel_reads():
    port = DutPort("d0", "interface", interface="ens1", mtu=9000)
    wired = physical(P0, CabledEnd("d0", (port,)), "netdev")
    assert (wired.interface, wired.type, wired.options, wired.mtu_request) == ("ens1", "system", {}, 9000)


def test_a_bond():
    other = DutPort("dpdk1", "pci", pci="0000:3b:00.1")
    end = CabledEnd("bond0", (NIC, other), DutBond("bond0", ("dpdk0", "dpdk1"), "balance-tcp", "active"), "0", "0")
    wired = physical(P0, end, "dpdk")
    assert wired.interface == "bond0"
    assert wired.bond == {"bond_mode": "balance-tcp", "lacp": "active"}
    assert [one.options["dpdk-devargs"] for one in wired.interfaces] == ["0000:3b:00.0", "0000:3b:00.1"]
    assert (wired.device, wired.port) == ("0", "p0")


def test_every_port_at_which_a_bridge_noted_an_address():
    """As ovs-ofctl 3.1 lists them. A flow of table 0 says what to note, not that it came."""
    mac = "02:4e:46:00:00:10"
    noting = f"dl_src={mac} actions=learn(table=1,NXM_OF_ETH_SRC[],NXM_OF_IN_PORT[])"
    rows = [f" cookie=0x0, duration=1.4s, table=0, n_packets=9, n_bytes=540, {noting}"]
    rows += [
        f" cookie=0x0, duration=1.4s, table=1, n_packets=0, n_bytes=0, in_port={port},dl_src={mac} actions=drop"
        for port in (2, 11)
    ]
    assert list(noted_sources("\n".join(rows))) == [(mac, 2), (mac, 11)]


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def test_firmware_by_devlink():
    def version(name, value):
        return attribute(0x8000 | 101, attribute(103, name + b"\0") + attribute(104, value + b"\0"))

    answer = attribute(1, b"pci\0") + attribute(98, b"mlx5_core\0")
    answer += version(b"fw.psid", b"MT_0000000359") + version(b"fw.version", b"22.36.1010")
    assert devlink_info(answer) == {"driver": "mlx5_core", "firmware": "22.36.1010"}
    assert devlink_info(b"") == {}


def test_names_of_the_pci_database():
    text = "\n".join(
        [
            "# a comment",
            "15b2  Another vendor",
            "\t101d  Not this one",
            "15b3  Mellanox Technologies",
            "\t101d  MT2892 Family [ConnectX-6 Dx]",
            "\t\t15b3 0001  A card of it",
            "\t1592  Plain",
        ]
    )
    assert pci_name(text, "0x15b3", "0x101d") == "ConnectX-6 Dx"
    assert pci_name(text, "0x15b3", "0x1592") == "Plain"
    assert pci_name(text, "0x15b3", "0xffff") is None


def test_the_driver_of_a_nic_that_vfio_hands_over_is_dpdks(tmp_path: Path) -> None:
    library = tmp_path / "librte_net_vmxnet3.so"
    info = b'{"name": "net_vmxnet3", "kmod": "* vfio-pci", "pci_ids": [[5549, 1968, 65535, 65535]]}'
    library.write_bytes(b"\x7fELF\0PMD_INFO_STRING= " + info + b"\0more")
    assert dpdk_driver("0x15ad", "0x07b0", [tmp_path]) == "net_vmxnet3"
    assert dpdk_driver("0x15ad", "0x07b1", [tmp_path]) is None
    device = tmp_path / "bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    (tmp_path / "vfio-pci").mkdir()
    (device / "driver").symlink_to(tmp_path / "vfio-pci")
    (device / "vendor").write_text("0x15ad\n")
    (device / "device").write_text("0x07b0\n")
    facts = read_nic(NIC, tmp_path)
    assert (facts.driver, facts.dpdk_driver) == ("vfio-pci", "net_vmxnet3"), "by the distribution's DPDK"


LISTING_3_1 = """\
netdev@ovs-netdev: hit:0 missed:0
  br0:
    br0 65534/1: (tap)
    dpdk0 1/2: (dpdk: configured_rx_queues=1, configured_rxq_descriptors=1024, configured_tx_queues=2, \
configured_txq_descriptors=1024, lsc_interrupt_mode=false, mtu=1500, requested_rx_queues=2)
    dpdk01 2/3: (dpdk: configured_rx_queues=9, configured_rxq_descriptors=9, configured_txq_descriptors=9)
"""
LISTING_3_5 = """\
    dpdk0 1/2: (dpdk: dpdk-devargs=0000:3b:00.0, dpdk-lsc-interrupt=true, n_rxq=2, n_rxq_desc=1024, n_txq_desc=1024)
"""


@pytest.mark.parametrize(
    ("listing", "status"),
    [
        (LISTING_3_1, {"driver_name": "net_vmxnet3", "max_rx_queues": "1"}),
        (LISTING_3_5, {"driver_name": "net_vmxnet3", "max_rx_queues": "1", "n_rxq": "1"}),
    ],
)
def test_queues_and_rings_that_ovs_did_not_give(listing: str, status: dict[str, str]) -> None:
    asked = physical(P0, CabledEnd("dpdk0", (NIC,), device="0"), "dpdk")
    assert not_granted(asked, SimpleNamespace(status=status), listing) == [
        (
            "port 'dpdk0': 2 receive queues were asked for, and OVS has 1: the driver is net_vmxnet3, which has 1 at "
            "most. Write 'rxq: 1', or take another device"
        ),
        (
            "port 'dpdk0': 2048 receive descriptors were asked for, and OVS has 1024: the driver is net_vmxnet3. "
            "Write 'rx_descriptors: 1024', or take another device"
        ),
    ]


def test_what_a_version_does_not_say_is_not_compared() -> None:
    asked = physical(P0, CabledEnd("dpdk0", (NIC,), device="0"), "dpdk")
    assert not_granted(asked, SimpleNamespace(status={}), "") == []


def test_an_interface_gets_the_queues_that_the_topology_asks_for() -> None:
    """DPDK's af_packet has as many as its devargs say, whatever n_rxq says."""
    port = DutPort("d0", "interface", interface="ens1")
    wired = physical(replace(P0, queues=4), CabledEnd("d0", (port,)), "dpdk")
    assert (wired.options["n_rxq"], wired.options["dpdk-devargs"]) == ("4", "net_af_packet_d0,iface=ens1,qpairs=4")
