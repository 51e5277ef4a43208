"""Testbed files: what a good one becomes, and what a bad one is told."""

from __future__ import annotations

import os

import pytest

from pytest_nfvperf.config.testbed_file import SysfsNuma, load_testbed, usable_cores
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    DutPort,
    GeneratorSpec,
    OvsSpec,
    StreamsSpec,
    Testbed,
)
from tests.config_support import Numa, parse, parse_testbed, refusal

LAB = """\
schema: 1
name: r650-cx6
dut:
  ovs: {instance: private, prefix: /opt/ovs-3.3.4, datapath: dpdk, pmd_cpus: [2, 3]}
  ports:
    - {name: dpdk0, pci: "0000:3b:00.0", rxq: 1, rx_descriptors: 2048, line_rate: 100 Gbps}
    - {name: dpdk1, pci: "0000:3b:00.1", rxq: 1, rx_descriptors: 2048, line_rate: 100 Gbps}
generator: {engine: trex, server: tgen1, client: /opt/trex/v3.06, ports: [0, 1]}
links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]
"""


def changed(old, new):
    assert old in LAB
    return LAB.replace(old, new, 1)


def test_lab_of_the_design():
    testbed, warnings = parse(LAB)
    assert warnings == ()
    assert testbed == Testbed(
        name="r650-cx6",
        ovs=OvsSpec("private", "/opt/ovs-3.3.4", "dpdk"),
        cpus=CpuPlan((), (2, 3), ()),
        ports=(
            DutPort("dpdk0", "pci", pci="0000:3b:00.0", rx_descriptors=2048, line_rate_bps=1e11),
            DutPort("dpdk1", "pci", pci="0000:3b:00.1", rx_descriptors=2048, line_rate_bps=1e11),
        ),
        generator=GeneratorSpec("trex", "tgen1", "/opt/trex/v3.06", (0, 1)),
        links=(CableSpec("0", "dpdk0"), CableSpec("1", "dpdk1")),
    )


def test_smallest_file():
    testbed, warnings = parse("schema: 1\nname: here\n")
    assert (testbed.ovs, testbed.generator, testbed.ports, warnings) == (OvsSpec(), GeneratorSpec(), (), ())


def test_everything_else_a_file_can_say():
    testbed, _ = parse(
        "schema: 1\nname: x\n"
        "dut:\n"
        "  ovs: {datapath: netdev, other_config: {tso: true, n: 4, mask: '0x4'}}\n"
        "  ports: [{name: eth, interface: ens1f0, mtu: 9000, rxq: 2}]\n"
        "generator: {force: true, ports: [3]}\n"
        "links: [[generator.3, dut.eth]]\n"
        "cpus: {housekeeping: 0-1, pmd: '2,4-5', generator: [3], vnf: [6]}\n"
        "hugepages: 2 GiB\n"
        "vnf: {kind: testpmd}\n"
    )
    assert testbed.vnf_kind == "testpmd"
    assert testbed.ovs.other_config == (("tso", "true"), ("n", "4"), ("mask", "0x4"))
    assert testbed.ports == (DutPort("eth", "interface", interface="ens1f0", mtu=9000, rxq=2),)
    assert testbed.cpus == CpuPlan((0, 1), (2, 4, 5), (3,), (6,))
    assert (testbed.hugepages_mib, testbed.generator.force) == (2048, True)


def test_streams_are_told_their_program_ports_and_cpus():
    text = "streams: {path: ./bin/iperf3, ports: 5201-5203, client_cpus: [0], server_cpus: '2-3'}"
    testbed, _ = parse_testbed(f"schema: 1\nname: x\n{text}\n", "/labs/one.yaml")
    assert testbed.streams == StreamsSpec("iperf3", "/labs/bin/iperf3", (5201, 5202, 5203), (0,), (2, 3))
    assert parse("schema: 1\nname: x\nstreams: {path: iperf3-3.18}\n")[0].streams.path == "iperf3-3.18"


def test_a_generator_that_sends_streams_is_told_where_it_belongs():
    assert refusal("schema: 1\nname: x\ngenerator: {engine: iperf3}\n") == (
        "lab.yaml:3: generator.engine: iperf3 sends streams, whose load is their own: it cannot search for loss. "
        "Write it as 'streams: {engine: iperf3}', and here embedded, trex or replay for frames"
    )


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ("{engine: netperf}", "streams.engine: must be iperf3, not 'netperf'"),
        ("{ports: many}", "streams.ports: 'many' is not a list of ports: write [5201, 5202] or '5201-5264'"),
        ("{ports: [70000]}", "streams.ports[0]: must be at most 65535, not 70000"),
        ("{port: 5201}", "streams.port: unknown key 'port', did you mean 'ports'?"),
        ("{server_cpus: all}", "streams.server_cpus: 'all' is not a list of CPUs"),
    ],
)
def test_what_streams_cannot_be(streams, message):
    assert message in refusal(f"schema: 1\nname: x\nstreams: {streams}\n")


def test_unquoted_pci_address_is_not_a_base_60_number():
    testbed, _ = parse(changed('"0000:3b:00.0"', "0000:03:00.0"))
    assert testbed.ports[0].pci == "0000:03:00.0"


MISTAKES = [
    ("schema: 1", "schema: 2", "lab.yaml:1: schema: this is schema 2, but only schema 1 is known: write 'schema: 1'"),
    ("schema: 1\n", "", "lab.yaml:1: schema: is missing: write e.g. 'schema: 1'"),
    ("schema: 1", "schema: true", "this is schema True"),
    ("name: r650-cx6", "nmae: r650-cx6", "lab.yaml:2: nmae: unknown key 'nmae', did you mean 'name'?"),
    ("name: r650-cx6\n", "", "name: is missing: write e.g. 'name: r650-cx6'"),
    ("name: r650-cx6", "name: ''", "lab.yaml:2: name: is empty: write e.g. 'name: r650-cx6'"),
    ("name: dpdk0", "name: dpdk 0", "dut.ports[0].name: 'dpdk 0' cannot be used here: write e.g. 'name: dpdk0'"),
    (", dut.dpdk1]", "]", "links[1][1]: is missing: write e.g. 'links: [[generator.0, dut.dpdk0]]'"),
    ("links: [[", "links: " + "[" * 3000 + "[[", "lab.yaml: is nested too deeply to be read"),
    ("links: [[generator.0, dut.dpdk0], ", "links: &a [*a, ", "lab.yaml:9: links[0]: an alias stands inside of what"),
    ("name: r650-cx6", "name: 12", "lab.yaml:2: name: must be a text (quote it if it looks like a number), not 12"),
    (
        "pmd_cpus: [2, 3]",
        "pmd_cpu: [2, 3]",
        "lab.yaml:4: dut.ovs.pmd_cpu: unknown key 'pmd_cpu', did you mean 'pmd_cpus'?",
    ),
    (
        "pmd_cpus: [2, 3]",
        "pmd_cpus: [2, -3]",
        "lab.yaml:4: dut.ovs.pmd_cpus[1]: must be at least 0, not -3",
    ),
    ("pmd_cpus: [2, 3]", "pmd_cpus: [2, 2]", "dut.ovs.pmd_cpus: CPU 2 is listed twice"),
    ("pmd_cpus: [2, 3]", "pmd_cpus: 3-2", "'3-2' runs backwards: write '2-3'"),
    ("pmd_cpus: [2, 3]", "pmd_cpus: two", "'two' is not a list of CPUs: write [2, 3] or '2-5,8'"),
    ("pmd_cpus: [2, 3]", "pmd_cpus: 2", "dut.ovs.pmd_cpus: must be a list, not 2"),
    ("pmd_cpus: [2, 3]", "pmd_cpus: [true]", "dut.ovs.pmd_cpus[0]: must be a whole number, not True"),
    (
        "datapath: dpdk",
        "datapath: dpdk2",
        "must be dpdk or netdev or system or testpmd, not 'dpdk2', did you mean 'dpdk'?",
    ),
    (
        "datapath: dpdk",
        "datapath: netdev",
        "lab.yaml:6: dut.ports[0]: port 'dpdk0' is a PCI device, but dut.ovs.datapath is 'netdev'",
    ),
    ("name: dpdk1", "name: dpdk0", "lab.yaml:7: dut.ports[1].name: 'dpdk0' is used twice: also by dut.ports[0].name"),
    ("0000:3b:00.1", "0000:3B:00.0", "dut.ports[1].pci: '0000:3b:00.0' is used twice: also by dut.ports[0].pci"),
    ("0000:3b:00.1", "3b:00.0", "dut.ports[1].pci: '0000:3b:00.0' is used twice: also by dut.ports[0].pci"),
    ("0000:3b:00.1", "3b:00", "'3b:00' is not a PCI address (domain:bus:device.function): write e.g. '0000:3b:00.0'"),
    ("0000:3b:00.1", "0000:3b:00.8", "is not a PCI address (domain:bus:device.function): write e.g. '0000:3b:00.0'"),
    ("rxq: 1", "rxq: 0", "dut.ports[0].rxq: must be at least 1, not 0"),
    ("rxq: 1", "rxq: one", "dut.ports[0].rxq: must be a whole number, not 'one'"),
    ("rx_descriptors: 2048", "rx_descriptors: 2000", "2000 is not a ring size: OVS takes powers of 2 from 1 to 4096"),
    (
        "line_rate: 100 Gbps",
        "line_rate: 100",
        "lab.yaml:6: dut.ports[0].line_rate: '100' has no unit: write '100 Gbps'",
    ),
    (
        "line_rate: 100 Gbps",
        "line_rate: 50 us",
        "'50 us' is a time, but line_rate is a bit rate: write e.g. '100 Gbps'",
    ),
    ("line_rate: 100 Gbps", "line_rate: -1 Gbps", "'-1 Gbps' is negative, but line_rate cannot be"),
    ("rxq: 1,", "rxq: 1, interface: eth0,", "port 'dpdk0' has both pci '0000:3b:00.0' and interface 'eth0': keep one"),
    ("rxq: 1,", "rxq: 1, kind: vhost-user,", "port 'dpdk0' is of kind 'vhost-user' but names a device '0000:3b:00.0'"),
    ("rxq: 1,", "rxq: 1, kind: interface,", "port 'dpdk0' is of kind 'interface' but names no interface"),
    ("rxq: 1,", "rxq: 1, mtu: 9 kB,", "dut.ports[0].mtu: must be a whole number, not '9 kB'"),
    ("server: tgen1, ", "", "lab.yaml:8: generator.engine: engine 'trex' needs its server: write e.g. 'server: tgen1'"),
    ("engine: trex", "engine: embedded", "engine 'embedded' has no server: write 'engine: trex' or leave 'server' out"),
    ("engine: trex", "engine: ixia", "must be embedded or trex or replay, not 'ixia'"),
    ("ports: [0, 1]", "ports: [0, 0]", "lab.yaml:8: generator.ports: port 0 is listed twice"),
    ("dut.dpdk1]", "dut.dpdk2]", "links[1][1]: unknown dut port 'dpdk2', did you mean"),
    ("generator.1", "generator.7", "lab.yaml:9: links[1][0]: unknown generator port '7' (there are: 0, 1)"),
    ("generator.1", "generator.0", "links[1][0]: 'generator.0' is used twice: also by links[0]"),
    ("dut.dpdk1]", "dut.dpdk0]", "links[1][1]: 'dut.dpdk0' is used twice: also by links[0]"),
    (
        "[generator.1, dut.dpdk1]",
        "[dut.dpdk1, generator.1]",
        "'dut.dpdk1' is no generator port: write e.g. [generator.0, dut.dpdk0]",
    ),
    ("name: r650-cx6", "name: r650-cx6\nhugepages: 1024", "'1024' has no unit: write '1024 MiB' for hugepages"),
    ("name: r650-cx6", "name: r650-cx6\nhugepages: 100 KiB", "is not a whole number of MiB: write e.g. '1024 MiB'"),
    (
        "name: r650-cx6",
        "name: r650-cx6\nname: other",
        "lab.yaml:3: key 'name' is written twice, first in line 2: keep one",
    ),
    ("links: [[", "links: [", "lab.yaml:9: is not YAML:"),
    (
        "name: r650-cx6",
        "name: r650-cx6\ncpus: {pmd: [2]}",
        "dut.ovs.pmd_cpus: [2, 3] contradicts cpus.pmd [2]: keep one",
    ),
    (
        "name: r650-cx6",
        "name: r650-cx6\ncpus: {vnf: [3]}",
        "CPU 3 is given to two owners: cpus.vnf and dut.ovs.pmd_cpus",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[new[:40] for _, new, _ in MISTAKES])
def test_mistakes_say_what_to_write(old, new, message):
    told = refusal(changed(old, new))
    assert message in told
    assert told.startswith("lab.yaml:")


def test_all_mistakes_are_told_at_once():
    told = refusal(changed("rxq: 1, ", "rxq: 0, ").replace("name: r650", "nmae: r650"))
    assert told.count("also line") == 2
    assert "also line 6: dut.ports[0].rxq" in told


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_testbed(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: write 'schema: 1'"),
        (b"# nothing\n", "is empty"),
        (b"- a\n", "must be a mapping that begins with 'schema: 1'"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"a: \x00", "is not YAML"),
        (b"{[a]: 1}", "a key must be a word or a number"),
    ],
)
def test_not_even_a_testbed(tmp_path, content, message):
    (tmp_path / "t.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_testbed(tmp_path / "t.yaml")
    assert message in str(caught.value)


SHARED = "schema: 1\nname: x\ncpus: {housekeeping: [0], generator: [0], pmd: [1]}\n"


def test_two_cores_may_share_with_a_warning():
    testbed, warnings = parse(SHARED, cores=2)
    assert testbed.cpus.shared == (0,)
    assert len(warnings) == 1
    assert "CPU 0 is shared by cpus.housekeeping and cpus.generator" in warnings[0]


def test_more_cores_may_not():
    assert "CPU 0 is given to two owners: cpus.housekeeping and cpus.generator" in refusal(SHARED, cores=4)


def test_a_discovered_testbed_may_be_given_back():
    _, warnings = parse(SHARED + "discovered: true\n", cores=4)
    assert warnings == (), "nfvperf chose these CPUs, and no user can change that"


def test_smt_siblings_are_one_core(tmp_path):
    for cpu in os.sched_getaffinity(0):
        (tmp_path / f"devices/system/cpu/cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").write_text("0-1\n")
    assert usable_cores(tmp_path) == 1
    assert usable_cores(tmp_path / "none") == len(os.sched_getaffinity(0))


def test_a_pmd_shares_with_nobody():
    text = SHARED.replace("pmd: [1]", "pmd: [0]").replace("housekeeping: [0], ", "")
    assert "CPU 0 is given to two owners: cpus.pmd and cpus.generator" in refusal(text, cores=2)


def test_pmd_on_another_numa_node_is_a_warning():
    numa = Numa(cpus={2: 0, 3: 0}, pcis={"0000:3b:00.0": 1, "0000:3b:00.1": 0})
    _, warnings = parse(LAB, numa=numa)
    assert len(warnings) == 1
    assert (
        "port 'dpdk0' (0000:3b:00.0) is on NUMA node 1, but no PMD is (CPU 2 on node 0, CPU 3 on node 0)" in warnings[0]
    )


@pytest.mark.parametrize(
    "numa", [Numa(), Numa(cpus={2: 0, 3: 1}, pcis={"0000:3b:00.0": 1}), Numa(pcis={"0000:3b:00.0": 1})]
)
def test_no_numa_warning_without_grounds(numa):
    assert parse(LAB, numa=numa)[1] == ()


def test_numa_from_sysfs(tmp_path):
    (tmp_path / "devices/system/cpu/cpu3/node1").mkdir(parents=True)
    for pci, node in (("0000:3b:00.0", "1\n"), ("0000:3b:00.1", "-1\n")):
        (tmp_path / "bus/pci/devices" / pci).mkdir(parents=True)
        (tmp_path / "bus/pci/devices" / pci / "numa_node").write_text(node)
    numa = SysfsNuma(tmp_path)
    assert (numa.cpu_node(3), numa.cpu_node(4)) == (1, None)
    nic = tmp_path / "devices/pci0000:3b/0000:3b:00.0/virtio0/net/ens1f0"
    nic.mkdir(parents=True)
    (nic / "device").symlink_to("../..")
    (tmp_path / "class/net").mkdir(parents=True)
    (tmp_path / "class/net/ens1f0").symlink_to(nic)
    assert (numa.pci_of("ens1f0"), numa.pci_of("ens1f1")) == ("0000:3b:00.0", None)
    assert [numa.pci_node(pci) for pci in ("0000:3B:00.0", "0000:3b:00.1", "0000:00:00.0")] == [1, None, None]


def test_a_port_without_cable_is_a_warning():
    _, warnings = parse(LAB.replace(", [generator.1, dut.dpdk1]", ""))
    assert warnings == ("port 'dpdk1' is in no link: no generator port is cabled to it",)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("dut: {generator_cpus: 1}", "unknown key 'generator_cpus' (known here: ovs, ports, bonds)"),
        ("dut: {pmd: 1}", "unknown key 'pmd', did you mean cpus.pmd? (known here: ovs, ports, bonds)"),
        ("instance: private", "instance: unknown key 'instance', did you mean dut.ovs.instance? (known here: schema,"),
    ],
)
def test_a_key_in_the_wrong_section_is_sent_to_its_own(line, told):
    with pytest.raises(ConfigError) as caught:
        parse_testbed(f"schema: 1\nname: x\n{line}\n", cores=2)
    assert told in str(caught.value)
