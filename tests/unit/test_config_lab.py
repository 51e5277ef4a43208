"""What a lab's testbed file says: devices, representors, bonds, the system's OVS, offload."""

from __future__ import annotations

import pytest

from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, is_lab, topology_cables
from pytest_nfvperf.model.testbed.testbed import DutBond
from pytest_nfvperf.model.topology.compose import phy2phy, pvp
from tests.config_support import Numa, parse, parse_testbed, refusal

LAB = """
schema: 1
name: lab
dut:
  ovs: {instance: private, datapath: dpdk}
  ports:
    - {name: dpdk0, interface: ens1f0, model: veth pair}
    - {name: dpdk1, interface: ens1f1, driver: af_xdp}
generator: {engine: embedded, ports: [0, 1], devices: [ens2f0, "0000:3b:00.1"]}
links: [[generator.0, dut.dpdk1], [generator.1, dut.dpdk0]]
"""
BONDED = """
schema: 1
name: bonded
dut:
  ovs: {instance: system, run_dir: /run/openvswitch, datapath: dpdk, hw_offload: true, tc_policy: skip_sw}
  ports:
    - {name: dpdk0, pci: "0000:3b:00.0"}
    - {name: dpdk1, pci: "0000:3b:00.1"}
    - {name: vf0, pci: "0000:3b:00.0", representor: 0}
    - {name: vf1, pci: "0000:3b:00.0", representor: pf0vf1}
  bonds: [{name: bond0, members: [dpdk0, dpdk1], mode: balance-tcp, lacp: active}]
generator: {engine: trex, server: tgen1, ports: [0]}
links: [[generator.0, dut.bond0]]
"""


def lab(text):
    return parse_testbed(text, "lab.yaml", cores=8)[0]


def message(text):
    with pytest.raises(ConfigError) as caught:
        parse_testbed(text, "lab.yaml", cores=8)
    return str(caught.value)


def test_cables_lead_from_endpoints_to_ports_and_devices():
    """In the order of the links, not of the ports: p0 is where generator.0 is cabled to."""
    testbed = lab(LAB)
    ends = topology_cables(testbed, phy2phy())
    assert [(name, end.name, end.generator_port, end.device) for name, end in ends.items()] == [
        ("p0", "dpdk1", "0", "net_af_packet,iface=ens2f0"),
        ("p1", "dpdk0", "1", "0000:3b:00.1"),
    ]
    assert is_lab(testbed)
    assert lab(yaml_of_testbed(testbed)) == testbed


def test_bond_and_representors():
    testbed = lab(BONDED)
    assert testbed.bonds == (DutBond("bond0", ("dpdk0", "dpdk1"), "balance-tcp", "active"),)
    (bond, *rest) = cabled_ends(testbed)
    assert [port.pci for port in bond.members] == ["0000:3b:00.0", "0000:3b:00.1"]
    assert [(end.name, end.members[0].representor) for end in rest] == [("vf0", "0"), ("vf1", "pf0vf1")]
    assert (testbed.ovs.run_dir, testbed.ovs.hw_offload, testbed.ovs.tc_policy) == (
        "/run/openvswitch",
        True,
        "skip_sw",
    )
    assert lab(yaml_of_testbed(testbed)) == testbed


def test_more_endpoints_than_cables():
    one = lab(
        LAB.replace("    - {name: dpdk1, interface: ens1f1, driver: af_xdp}\n", "")
        .replace('devices: [ens2f0, "0000:3b:00.1"]', "")
        .replace("ports: [0, 1], ", "")
        .replace("[generator.0, dut.dpdk1], ", "")
    )
    with pytest.raises(ConfigError, match="topology 'pvp' has 2 endpoints, testbed 'lab' has 1 cabled ports"):
        topology_cables(one, pvp())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("driver: af_xdp", "representor: 0"), "port 'dpdk1' is a representor of no NIC: write 'pci: ...'"),
        (("datapath: dpdk", "datapath: netdev"), "port 'dpdk1' is read by DPDK's af_xdp, but dut.ovs.datapath is"),
        (("[ens2f0, ", "[ens1f0, "), "generator.devices: 'ens1f0' is used twice: also by dut.ports 'dpdk0'"),
        (("[ens2f0, ", "["), "1 devices for 2 ports [0, 1]: write one for each"),
        (("engine: embedded", "engine: trex, server: t"), "engine 'trex' has its own: leave 'devices' out"),
        (("instance: private", "run_dir: /x"), "a private instance has its own directory: write 'instance: system'"),
        (("instance: private", "tc_policy: none"), "says nothing without offload: write 'hw_offload: true'"),
        (
            ("instance: private", "other_config: {hw-offload: true}"),
            "dut.ovs.other_config: hw-offload decides how results are judged: write 'hw_offload: ...' in dut.ovs",
        ),
        (("model: veth pair", "model: ''"), "is empty"),
    ],
)  # fmt: skip
def test_slips(change, said):
    assert said in message(LAB.replace(*change))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("driver: af_xdp", "driver: kernel, rxq: 4"), "has rxq 4, but OVS reads it from the kernel, by one queue"),
        (("driver: af_xdp", "driver: af_xdp, rx_descriptors: 512"), "has rx_descriptors, but its rings are the"),
        (("driver: af_xdp", "driver: kernel, tx_descriptors: 512"), "has tx_descriptors, but its rings are the"),
    ],
)
def test_queues_and_rings_that_nobody_sets_are_warned_of(change, expected):
    text = LAB.replace(*change)
    assert text != LAB
    (warning,) = [one for one in parse_testbed(text)[1] if "dpdk1" in one]
    assert warning.startswith(f"port 'dpdk1' (ens1f1) {expected}")


OWNERS = """
schema: 1
name: lab
dut: {ovs: {datapath: dpdk}, ports: [{name: dpdk0, pci: "%s"}, {name: k0, interface: ens5, driver: af_packet}]}
generator: {engine: embedded, ports: [0, 1], devices: [%s]}
"""


@pytest.mark.parametrize(
    ("dut", "devices", "said"),
    [
        ("0000:3b:00.0", '"0000:3B:00.0", x', "'0000:3b:00.0' is used twice: also by dut.ports 'dpdk0'"),
        ("3B:00.0", '"0000:3b:00.0", x', "'0000:3b:00.0' is used twice: also by dut.ports 'dpdk0'"),
        ("00000000:3b:00.0", '"3b:00.0", x', "'0000:3b:00.0' is used twice: also by dut.ports 'dpdk0'"),
        ("0000:3b:00.0", '"3b:00.1", "0000:3B:00.1"', "'0000:3b:00.1' is used twice: also by generator."),
        ("0000:3b:00.0", "ens1f0, x", "'ens1f0', which is the NIC '0000:3b:00.0', is used twice: also by dut.ports"),
        (
            "0000:3b:00.0",
            '"3d:00.0", x',
            "'0000:3d:00.0', which is the NIC 'ens5', is used twice: also by dut.ports",
        ),
        ("0000:3b:00.0", "ens5, x", "'ens5' is used twice: also by dut.ports 'k0'"),
    ],
)
def test_a_nic_has_one_owner_however_it_is_written(dut, devices, said):
    numa = Numa(interfaces={"ens1f0": "0000:3b:00.0", "ens5": "0000:3d:00.0"})
    assert said in refusal(OWNERS % (dut, devices), numa=numa)


def test_pci_addresses_are_kept_as_sysfs_has_them():
    testbed, _ = parse(OWNERS % ("0001:3B:00.0", '"3D:00.0", "0000:3D:00.1"'))
    assert testbed.ports[0].pci == "0001:3b:00.0"
    assert testbed.generator.devices == ("0000:3d:00.0", "0000:3d:00.1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[dpdk0, dpdk1]", "[dpdk0]"), "a bond has two members or more"),
        (("[dpdk0, dpdk1]", "[dpdk0, dpdk9]"), "unknown port 'dpdk9', did you mean 'dpdk"),
        (("[dpdk0, dpdk1]", "[dpdk0, dpdk0]"), "port 'dpdk0' is already a member of bond 'bond0'"),
        (("name: bond0", "name: vf0"), "'vf0' is also a port: give the bond a name of its own"),
        (("dut.bond0", "dut.dpdk0"), "a link names 'dpdk0', which is a member of bond 'bond0': write dut.bond0 there"),
        (("representor: pf0vf1", "representor: '[0-3]'"), "'[0-3]' is not one representor: write e.g. 0, vf2"),
        (("representor: pf0vf1", "representor: 0"), "'0000:3b:00.0' is used twice: also by dut.ports[2].pci"),
        (("hw_offload: true", "hw_offload: yes"), "must be true or false, not 'yes'"),
    ],
)
def test_slips_of_bonds_and_representors(change, said):
    assert said in message(BONDED.replace(*change))
