"""The testbed as data: what a testbed file says, or what was discovered without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pytest_nfvperf.model.arguments import FLAG, TEXT, checked, expanded, one, optional, several
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.testbed.keys import (
    BitRate,
    ConfigText,
    Count,
    Cpus,
    Datapath,
    Devices,
    Form,
    FullPciAddress,
    Ipv4,
    Key,
    LocalPath,
    MacAddress,
    Mtu,
    Name,
    NodeName,
    PciAddress,
    PortNumber,
    Prefix,
    Representor,
    RingSize,
    TcpPort,
    TcpPorts,
    TrexDelay,
    TrexInterfaces,
    VersionName,
)
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, NamedOvs, Tuning
from pytest_nfvperf.model.topology.topology import Topology

_STREAMS_INSTEAD = (
    "iperf3 sends streams, whose load is their own: it cannot search for loss. Write it as "
    "'streams: {engine: iperf3}', and here embedded, trex or replay for frames"
)


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Which CPU belongs to whom. Planned from the machine where it is not given.

    On machines of two cores housekeeping and generator share one.
    """

    housekeeping: Annotated[Cpus, Key("pytest, OVS's main thread, all that does not poll")] = ()
    pmd: Annotated[Cpus, Key("as dut.ovs.pmd_cpus")] = ()
    generator: Annotated[Cpus, Key("as generator.cpus")] = ()
    vnf: Annotated[Cpus, Key("VNFs that are processes, one a VNF")] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        owners = [self.housekeeping, self.pmd, self.generator, self.vnf]
        cpus = [cpu for owner in owners for cpu in owner]
        return tuple(sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}))


@dataclass(frozen=True, slots=True)
class OvsSpec:
    """How to get the DUT's OVS.

    Attributes:
        versions: other installations, by the names that tests ask for them.
    """

    instance: Annotated[
        str, Form(words=("private", "system")), Key("private: ours, started and removed; system: used as it runs")
    ] = "private"
    prefix: Annotated[
        LocalPath | None,
        Key(
            "prefix or root of an OVS installation, or a name of `nfvperf ovs list`, such as debian:trixie; else the "
            "distribution's",
            "/opt/ovs-3.3.4",
        ),
    ] = None
    datapath: Annotated[Datapath, Key("netdev: userspace without DPDK; system: kernel")] = "dpdk"
    other_config: Annotated[
        tuple[tuple[str, ConfigText], ...], Form(mapping=True), Key("Open_vSwitch other_config, added to ours")
    ] = ()
    run_dir: Annotated[
        LocalPath | None, Key("of a system instance: where its sockets are; else /run/openvswitch", "/run/openvswitch")
    ] = None
    hw_offload: Annotated[bool, Key("flows shall be in the NIC (other_config:hw-offload)")] = False
    tc_policy: Annotated[
        Annotated[str, Form(words=("none", "skip_sw", "skip_hw"))] | None,
        Key("other_config:tc-policy, OVS's own without"),
    ] = None
    tuning: Annotated[Tuning, Key("of the userspace datapath, where a test asks for nothing else")] = OVS_DEFAULT
    versions: tuple[NamedOvs, ...] = ()


@dataclass(frozen=True, slots=True)
class DutPort:
    """A port of the DUT that a generator port is cabled to. OVS's keys: ovs-vswitchd.conf.db(5)."""

    name: Annotated[Name, Key("name of the port in OVS", "dpdk0")]
    kind: Annotated[
        str, Form(words=("vhost-user", "pci", "interface")), Key("follows from pci or interface; vhost-user without")
    ] = ""
    pci: Annotated[PciAddress | None, Key("PCI address, of domain 0 without one", "0000:3b:00.0")] = None
    interface: Annotated[str | None, Key("kernel interface", "ens1f0")] = None
    rxq: Annotated[Count, Key("receive queues")] = 1
    rx_descriptors: Annotated[RingSize | None, Key("receive ring, a power of 2 up to 4096", 2048)] = None
    tx_descriptors: Annotated[RingSize | None, Key("transmit ring, a power of 2 up to 4096", 2048)] = None
    mtu: Annotated[Mtu | None, Key("bytes without Ethernet header and FCS", 1500)] = None
    line_rate_bps: Annotated[
        BitRate | None, Key("layer-1 bit rate; a vhost-user port has none", "100 Gbps", written="line_rate")
    ] = None
    driver: Annotated[
        Annotated[str, Form(words=("kernel", "af_packet", "af_xdp"))] | None,
        Key(
            "how OVS reads an interface: kernel (its main thread), or by DPDK's af_packet or af_xdp (a PMD thread); "
            "af_packet on datapath dpdk, else kernel"
        ),
    ] = None
    representor: Annotated[Representor | None, Key("of a PCI device: 0, vf2, pf0vf1, sf3", "vf0")] = None
    model: Annotated[
        str | None, Key("the NIC's name in SLA selectors and reports; else what the machine says", "ConnectX-6 Dx")
    ] = None
    node: Annotated[NodeName | None, Key("the node that has it", "node1")] = None

    def __post_init__(self) -> None:
        if not self.kind:
            implied = "pci" if self.pci else "interface" if self.interface else "vhost-user"
            object.__setattr__(self, "kind", implied)


@dataclass(frozen=True, slots=True)
class DutBond:
    """Ports of the DUT that are one port of the bridge (ovs-vswitchd.conf.db(5), Port, bond_mode and lacp)."""

    name: Annotated[Name, Key("name of the bond in OVS", "bond0")]
    members: Annotated[tuple[str, ...], Key("names of dut.ports, two or more", ["dpdk0", "dpdk1"])]
    mode: Annotated[str, Form(words=("active-backup", "balance-slb", "balance-tcp")), Key()] = "active-backup"
    lacp: Annotated[str, Form(words=("off", "active", "passive")), Key()] = "off"


@dataclass(frozen=True, slots=True)
class TrexStart:
    """A TRex server that we start ourselves, on this machine."""

    path: Annotated[LocalPath, Key("where TRex is installed; t-rex-64 lies there", "/opt/trex/v3.06")]
    interfaces: Annotated[
        TrexInterfaces,
        Key(
            "one for each port, an even number: kernel interfaces, memif ids or PCI addresses, as the driver has them",
            ["veth0", "veth1"],
        ),
    ]
    driver: Annotated[str, Form(words=("af_packet", "memif", "pci")), Key("how TRex reaches them")] = "af_packet"
    low_end: Annotated[bool, Key("share cores: for machines with fewer than three")] = False
    netns: Annotated[Name | None, Key("network namespace to run it in", "tgen")] = None


@dataclass(frozen=True, slots=True)
class TrexRoute:
    """How a TRex port finds the MAC that it sends to: it asks by ARP for ``gateway``, as ``source``."""

    port: Annotated[PortNumber, Key("TRex port number", 0)]
    source: Annotated[Ipv4, Key("IPv4 address of the TRex port", "10.0.0.2")]
    gateway: Annotated[Ipv4, Key("IPv4 address of the DUT on that link", "10.0.0.1")]
    vlan: Annotated[Annotated[int, Form(least=1, most=4094)] | None, Key("802.1Q tag")] = None


@dataclass(frozen=True, slots=True)
class TrexSpec:
    """What only TRex has."""

    rx_delay_s: Annotated[
        TrexDelay, Key("how long frames may be under way before they count as lost", "500 ms", written="rx_delay")
    ] = 0.5
    rpc_port: Annotated[TcpPort, Key("TCP port that takes requests")] = 4501
    event_port: Annotated[TcpPort, Key("TCP port that publishes events")] = 4500
    routes: Annotated[tuple[TrexRoute, ...], Key("ports that ask for their gateway by ARP")] = ()
    start: Annotated[TrexStart | None, Key("start TRex on this machine; else it runs already")] = None


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """What sends and receives, and where."""

    engine: Annotated[
        str,
        Form(words=("embedded", "trex", "replay"), instead=(("iperf3", _STREAMS_INSTEAD),)),
        Key("replay: answers with a recording, without any hardware"),
    ] = "embedded"
    server: Annotated[str | None, Key("host of the TRex server", "tgen1")] = None
    client: Annotated[LocalPath | None, Key("directory of the TRex client", "/opt/trex/v3.06")] = None
    ports: Annotated[tuple[PortNumber, ...], Key("the engine's port numbers")] = (0, 1)
    force: Annotated[bool, Key("take TRex ports that someone else holds")] = False
    devices: Annotated[
        Devices,
        Key(
            "of the embedded engine: a kernel interface or PCI address for each port; else each topology makes them",
            ["ens2f0", "ens2f1"],
        ),
    ] = ()
    recording: Annotated[
        LocalPath | None, Key("what engine 'replay' answers with; relative to this file", "bug.jsonl")
    ] = None
    trex: Annotated[TrexSpec, Key("what only TRex has")] = TrexSpec()


@dataclass(frozen=True, slots=True)
class StreamsSpec:
    """What sends TCP and UDP streams between namespaces."""

    engine: Annotated[str, Form(words=("iperf3",)), Key()] = "iperf3"
    path: Annotated[
        LocalPath | None, Key("of its program, relative to this file; else looked for", "/opt/bin/iperf3")
    ] = None
    ports: Annotated[TcpPorts, Key("of which a server takes the first that is free; else 5201-5264")] = ()
    client_cpus: Annotated[Cpus, Key("CPUs of the end that connects; else all of the testbed's")] = ()
    server_cpus: Annotated[Cpus, Key("CPUs of the end that listens; else all of the testbed's")] = ()


@dataclass(frozen=True, slots=True)
class LabSpeaker:
    """A routing daemon that runs on this machine already and belongs to somebody else."""

    name: Annotated[Name, Key("what tests and reports call it", "dut")]
    engine: Annotated[str, Form(words=("frr", "bird")), Key("which daemon it is")]
    socket: Annotated[
        LocalPath,
        Key(
            "frr: the directory of its *.vty sockets, such as /run/frr; bird: its control socket", "/run/bird/bird.ctl"
        ),
    ]
    announces: Annotated[
        tuple[tuple[Prefix, str], ...],
        Form(mapping=True),
        Key("bird: static protocols of its configuration, by the prefix that each has", {"198.18.0.0/15": "clients"}),
    ] = ()


@dataclass(frozen=True, slots=True)
class NicSpec:
    """How a run sets up a NIC of this machine; at its end the NIC is as it was.

    MAC address, VLAN, trust and spoof check belong to a VF, and are set through its PF (ip-link(8), "vf NUM").
    """

    pci: FullPciAddress
    bind: Annotated[
        Annotated[str, Form(words=("vfio-pci", "uio_pci_generic"))] | None,
        Key("the driver that DPDK needs; the kernel's driver gets the NIC back at the end of the run"),
    ] = None
    vfs: Annotated[Count | None, Key("of a PF: how many VFs the run makes, and removes at its end", 2)] = None
    mac: Annotated[MacAddress | None, Key("of a VF: its MAC address", "02:00:00:00:00:01")] = None
    vlan: Annotated[
        Annotated[int, Form(least=0, most=4094)] | None,
        Key("of a VF: the NIC adds this VLAN to what the VF sends, and removes it; 0: none", 100),
    ] = None
    trust: Annotated[bool | None, Key("of a VF: it may be promiscuous and change its MAC address")] = None
    spoofchk: Annotated[bool | None, Key("of a VF: the NIC drops what it sends from another MAC address")] = None

    def __str__(self) -> str:
        """``0000:3b:00.0 vf 0: bind vfio-pci, mac 02:00:00:00:00:01, trust on``."""
        said = [f"bind {self.bind}"] if self.bind else []
        said += [f"{self.vfs} VFs"] if self.vfs else []
        said += [f"{name} {value}" for name, value in self.vf_settings.items()]
        return f"{self.pci}: {', '.join(said).replace('True', 'on').replace('False', 'off') or 'as it is'}"

    @property
    def vf_settings(self) -> dict[str, str | int | bool]:
        """What is set through the PF, by its key."""
        settings = {"mac": self.mac, "vlan": self.vlan, "trust": self.trust, "spoofchk": self.spoofchk}
        return {name: value for name, value in settings.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CableSpec:
    """One cable: generator port ``generator`` to DUT port, or bond, ``dut`` (names)."""

    generator: str
    dut: str


@checked(
    kind=optional(TEXT),
    userspace_tso=FLAG,
    tuning=one(Tuning, "a Tuning, such as Tuning(smc=True)"),
    version=optional(TEXT),
    nodes=several(TEXT),
)
@dataclass(frozen=True, slots=True)
class Dut:
    """Which datapath a topology is built on, where a suite compares several.

    ``kind``: "dpdk", "netdev", "system", "linux-bridge"; None for the testbed's own.
    ``userspace_tso``: segmentation offload in OVS's userspace datapath (``userspace-tso-enable``,
    ovs-vswitchd.conf.db(5)), which OVS reads at its start only.
    ``tuning``: stronger than the testbed's.
    ``version``: the name of an OVS of the testbed (``--nfv-ovs NAME=WHERE``, ``ovs:`` in its file); None for its own.
    ``nodes``: names of its nodes, each an OVS of its own; the topology says them, and whoever deploys it need not.
    """

    kind: str | None = None
    userspace_tso: bool = False
    tuning: Tuning = OVS_DEFAULT
    version: str | None = None
    nodes: tuple[str, ...] = ()


TESTBED_DUT = Dut()
"""The datapath that the testbed names."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """A whole testbed.

    ``discovered`` is True for the embedded testbed that was found without a file.
    ``vnf_kind``: what runs VNFs: "loop", "testpmd" or "qemu"; None for what suits the number of CPUs.
    ``speakers``: routing daemons that run already.
    ``nodes``: of topologies with several, where they differ; empty where all are as the DUT.
    ``underlay_line_rate_bps``: layer-1 bit/s between nodes, for underlays without one; None: they have none.
    ``nics``: NICs of this machine that the run binds to another driver, or makes VFs of.
    """

    __test__ = False

    name: str
    ovs: OvsSpec
    cpus: CpuPlan
    ports: tuple[DutPort, ...]
    generator: GeneratorSpec
    links: tuple[CableSpec, ...]
    hugepages_mib: int = 0
    discovered: bool = False
    bonds: tuple[DutBond, ...] = ()
    vnf_kind: str | None = None
    streams: StreamsSpec = StreamsSpec()
    speakers: tuple[LabSpeaker, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    underlay_line_rate_bps: float | None = None
    nics: tuple[NicSpec, ...] = ()


# Nodes of topologies that have several.


@dataclass(frozen=True, slots=True)
class FarHost:
    """Another machine, which has this package, too: a NodeSpec says its fields."""

    ssh: str
    python: str = "python3"
    ssh_config: str | None = None

    def __str__(self) -> str:
        """``root@dut2``."""
        return self.ssh


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """How one node differs from the others. What is left out is as the testbed's DUT has it."""

    name: NodeName
    version: Annotated[
        VersionName | None, Key("a name of the file's section ovs; else the testbed's own", "old", written="ovs")
    ] = None
    datapath: Annotated[Datapath | None, Key()] = None
    cpus: Annotated[Cpus, Key("CPUs of its poll-mode threads; of all nodes, or of none")] = ()
    tuning: Annotated[Tuning, Key("stronger than dut.ovs.tuning")] = OVS_DEFAULT
    underlay: Annotated[
        str | None,
        Key("the port of dut.ports whose cable leads to the other nodes; else a virtual link joins them", "up1"),
    ] = None
    ssh: Annotated[
        Annotated[str, Form(pattern=r"^[^\s/-][^\s/]*$")] | None,
        Key("the host that it is on, as ssh knows it; else this machine", "root@dut2"),
    ] = None
    python: Annotated[
        Annotated[str, Form(pattern=r"^[^\s]+$")] | None,
        Key("interpreter there that has this package; else python3", "/opt/nfv/bin/python"),
    ] = None
    ssh_config: Annotated[
        Annotated[str, Form(pattern=r"^[^\s]+$", check=expanded)] | None,
        Key("file for ssh -F, relative to this file; else the user's own", "lab.ssh"),
    ] = None

    @property
    def host(self) -> FarHost | None:
        """Where the node is; None for this machine."""
        return None if self.ssh is None else FarHost(self.ssh, self.python or "python3", self.ssh_config)

    def __str__(self) -> str:
        """``node1: OVS old, datapath netdev, PMD on CPU 2, smc=on``; ``node1: as the DUT`` where nothing is said."""
        said = [f"OVS {self.version}"] if self.version else []
        said += [f"datapath {self.datapath}"] if self.datapath else []
        said += [f"PMD on CPU {cpu_list(self.cpus)}"] if self.cpus else []
        said += [str(self.tuning)] if self.tuning != OVS_DEFAULT else []
        said += [f"underlay by {self.underlay}"] if self.underlay else []
        said += [f"on {self.host} by ssh"] if self.host else []
        return f"{self.name}: {', '.join(said) or 'as the DUT'}"


def node_spec(testbed: Testbed, name: str) -> NodeSpec:
    """What the testbed says about a node; nothing where its file names no nodes."""
    return next((node for node in testbed.nodes if node.name == name), NodeSpec(name))


def unknown_node(testbed: Testbed, dut: Dut) -> str | None:
    """Which node of a topology the testbed file should name, and what to do; None where it names all, or none."""
    known = [node.name for node in testbed.nodes]
    missing = next((name for name in dut.nodes if known and name not in known), None)
    if missing is None:
        return None
    return f"the testbed file has nodes {', '.join(known)}, and the topology has {missing!r}, too: add it to 'nodes'"


def dut_of_node(testbed: Testbed, dut: Dut, name: str) -> Dut:
    """What a node's OVS is: what the test asks for, else what the testbed says of the node, else the testbed's own."""
    spec = node_spec(testbed, name)
    return replace(
        dut,
        nodes=(),
        kind=dut.kind or spec.datapath,
        version=dut.version or spec.version,
        tuning=dut.tuning.over(spec.tuning),
    )


def describe_nodes(testbed: Testbed) -> list[str]:
    """A line for each node that the testbed file names, and one for the underlay's line rate; empty without."""
    rate = testbed.underlay_line_rate_bps
    said = [f"underlay:  {rate / 1e9:g} Gbps between nodes"] if rate is not None else []
    return [*(f"node:      {node}" for node in testbed.nodes), *said]


# The OVS that a test's Dut names.


def with_nodes(dut: Dut, topology: Topology) -> Dut:
    return replace(dut, nodes=tuple(node.name for node in topology.nodes))


def ovs_for_dut(ovs: OvsSpec, dut: Dut) -> OvsSpec:
    """How to get the OVS that a test's Dut names; the testbed's own where it names none.

    UnavailableError if the testbed has no version of this name, with what to do; or if it uses the system's OVS.
    """
    if dut.version is None:
        return ovs
    if ovs.instance == "system":
        raise UnavailableError(
            f"the testbed's OVS is the system's, which has one version, not {dut.version!r}: write 'instance: private'"
        )
    found = next((version for version in ovs.versions if version.name == dut.version), None)
    if found is None:
        known = ", ".join(version.name for version in ovs.versions) or "none"
        raise UnavailableError(
            f"no version of Open vSwitch is called {dut.version!r} (named: {known}): give --nfv-ovs "
            f"{dut.version}=WHERE, or 'ovs: {{{dut.version}: WHERE}}' in the testbed file"
        )
    return replace(ovs, prefix=found.prefix, other_config=(*ovs.other_config, *found.settings))


# For headers, evidence and the fingerprint.


@dataclass(frozen=True, slots=True)
class DatapathInfo:
    """What the DUT is: for headers, evidence and the fingerprint.

    Attributes:
        kind: "dpdk", "netdev", "system" or "linux-bridge".
        version: of OVS, or of what else it is.
        dpdk_version: None without DPDK.
        detail: how it runs, in a sentence.
        installation: path of the program that forwards; empty where there is none of its own.
        origin: "installed", "prefix", "debian:bookworm", "git:<commit>"; empty where it is not known.
        cores: CPUs of its poll-mode threads, or of the thread that polls in their place, of each node; 0 for none.
        at_least: why it can do more than is seen here, such as nodes that share a CPU; empty where it cannot.
        short_turns: nodes that share a CPU take turns much shorter than a window of a trial (``Windows``), so that
            each window shows what all of them do.
        build: what is known of how it was built, by name: packages, options of configure, port types.
    """

    kind: str
    version: str
    dpdk_version: str | None
    detail: str
    installation: str = ""
    origin: str = ""
    build: tuple[tuple[str, str], ...] = ()
    cores: int = 0
    at_least: str = ""
    short_turns: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorInfo:
    """What is generating: for headers, evidence and the fingerprint."""

    engine: str
    version: str
    detail: str
    cpus: tuple[int, ...]


# CPUs of nodes.


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The poll-mode threads' CPUs by node. ``shared``: there are fewer than nodes, and so all have the same."""

    pmd: tuple[tuple[str, tuple[int, ...]], ...]
    shared: bool

    @property
    def at_least(self) -> str:
        """Why rates are lower bounds of what the nodes forward; empty where they are not."""
        names = " and ".join(node for node, _ in self.pmd)
        return f"{names} share CPU {cpu_list(self.pmd[0][1])}" if self.shared else ""

    def of(self, node: str) -> tuple[int, ...]:
        """Those of a node; KeyError for an unknown one."""
        return dict(self.pmd)[node]

    def __str__(self) -> str:
        """``PMDs: node1 on CPU 2, node2 on CPU 3``; empty where no node is on this machine."""
        if not self.pmd:
            return ""
        said = ", ".join(f"{node} on CPU {cpu_list(cpus)}" for node, cpus in self.pmd)
        return f"PMDs: {said}{'; they share, so rates are at least those shown' if self.shared else ''}"


def node_cpus(plan: CpuPlan, nodes: Sequence[str], given: Sequence[NodeSpec] = ()) -> NodeCpus:
    """Distribute the DUT's CPUs to nodes in turn. Where there are fewer CPUs than nodes, all nodes share them.

    ``given``: nodes of the testbed file, which has CPUs for all of them or for none.
    """
    own = {spec.name: spec.cpus for spec in given if spec.cpus}
    if all(node in own for node in nodes):
        return NodeCpus(tuple((node, own[node]) for node in nodes), shared=False)
    shared = len(plan.pmd) < len(nodes)
    cpus = [(node, plan.pmd if shared else plan.pmd[number :: len(nodes)]) for number, node in enumerate(nodes)]
    return NodeCpus(tuple(cpus), shared)
