"""The testbed as data: what a testbed file says, or what was discovered without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from pytest_nfvperf.model.arguments import checked, expanded, word
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.fields import (
    FORWARDING,
    UNWRITTEN,
    Announced,
    BitRate,
    Count,
    Cpus,
    Datapath,
    Devices,
    Flag,
    Ipv4,
    LocalPath,
    MacAddress,
    NoBlanks,
    OtherConfig,
    PciAddress,
    PortMtu,
    PortNumber,
    Representor,
    RingSize,
    ShortName,
    TcpPort,
    TcpPorts,
    Text,
    TrexDelay,
    VersionName,
    Whole,
    file_key,
    words,
)
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, NamedOvs, Tuning, versioned_as, versioned_name
from pytest_nfvperf.model.topology.links import NODE_NAME
from pytest_nfvperf.model.topology.topology import Topology


def _no_streams(engine: Any) -> Any:
    if engine == "iperf3":
        raise ValueError(
            "iperf3 sends streams, whose load is their own: it cannot search for loss. Write it as "
            "'streams: {engine: iperf3}', and here embedded, trex or replay for frames"
        )
    return engine


TESTPMD = "testpmd"
"""The kind of datapath that is DPDK's own program."""
ON_DPDK = frozenset({"dpdk", TESTPMD})
"""Datapaths whose ports are DPDK's: vhost-user, or a lab's NICs."""

NodeName = Annotated[str, Field(pattern=f"^{NODE_NAME}$")]


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Which CPU belongs to whom. Planned from the machine where it is not given.

    On machines of two cores housekeeping and generator share one.
    """

    housekeeping: Annotated[Cpus, file_key("pytest, OVS's main thread, all that does not poll")] = ()
    pmd: Annotated[Cpus, file_key("as dut.ovs.pmd_cpus")] = ()
    generator: Annotated[Cpus, file_key("as generator.cpus")] = ()
    vnf: Annotated[Cpus, file_key("VNFs that are processes, one a VNF")] = ()

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
        pmd_cpus: of a file; a testbed has them in its CpuPlan.
    """

    instance: Annotated[
        str, words("private", "system"), file_key("private: ours, started and removed; system: used as it runs")
    ] = "private"
    prefix: Annotated[
        LocalPath | None,
        file_key(
            "prefix or root of an OVS installation, or a name of `nfvperf ovs list`, such as debian:trixie; else the "
            "distribution's",
            "/opt/ovs-3.3.4",
        ),
    ] = None
    datapath: Annotated[
        str,
        words("dpdk", "netdev", "system", "testpmd"),
        file_key("netdev: userspace without DPDK; system: kernel; testpmd: DPDK's program in place of OVS"),
    ] = "dpdk"
    other_config: Annotated[OtherConfig, file_key("Open_vSwitch other_config, added to ours")] = ()
    run_dir: Annotated[
        LocalPath | None,
        file_key("of a system instance: where its sockets are; else /run/openvswitch", "/run/openvswitch"),
    ] = None
    hw_offload: Annotated[Flag, file_key("flows shall be in the NIC (other_config:hw-offload)")] = False
    tc_policy: Annotated[
        Annotated[str, words("none", "skip_sw", "skip_hw")] | None,
        file_key("other_config:tc-policy, OVS's own without"),
    ] = None
    tuning: Annotated[Tuning, file_key("of the userspace datapath, where a test asks for nothing else")] = OVS_DEFAULT
    versions: Annotated[tuple[NamedOvs, ...], UNWRITTEN] = ()
    pmd_cpus: Annotated[Cpus, file_key("CPUs of the poll-mode threads")] = ()
    forwarding: Annotated[str, words(*FORWARDING), file_key("of datapath testpmd: what it does to frames")] = "io"


@dataclass(frozen=True, slots=True)
class DutPort:
    """A port of the DUT that a generator port is cabled to. OVS's keys: ovs-vswitchd.conf.db(5)."""

    name: Annotated[ShortName, file_key("name of the port in OVS", "dpdk0")]
    kind: Annotated[
        str, words("vhost-user", "pci", "interface"), file_key("follows from pci or interface; vhost-user without")
    ] = ""
    pci: Annotated[PciAddress | None, file_key("PCI address, of domain 0 without one", "0000:3b:00.0")] = None
    interface: Annotated[Text | None, file_key("kernel interface", "ens1f0")] = None
    rxq: Annotated[Count, file_key("receive queues")] = 1
    rx_descriptors: Annotated[RingSize | None, file_key("receive ring, a power of 2 up to 4096", 2048)] = None
    tx_descriptors: Annotated[RingSize | None, file_key("transmit ring, a power of 2 up to 4096", 2048)] = None
    mtu: Annotated[PortMtu | None, file_key("bytes without Ethernet header and FCS", 1500)] = None
    line_rate_bps: Annotated[
        BitRate | None, file_key("layer-1 bit rate; a vhost-user port has none", "100 Gbps", alias="line_rate")
    ] = None
    driver: Annotated[
        Annotated[str, words("kernel", "af_packet", "af_xdp")] | None,
        file_key(
            "how OVS reads an interface: kernel (its main thread), or by DPDK's af_packet or af_xdp (a PMD thread); "
            "af_packet on datapath dpdk, else kernel"
        ),
    ] = None
    representor: Annotated[Representor | None, file_key("of a PCI device: 0, vf2, pf0vf1, sf3", "vf0")] = None
    model: Annotated[
        Text | None,
        file_key("the NIC's name in SLA selectors and reports; else what the machine says", "ConnectX-6 Dx"),
    ] = None
    node: Annotated[NodeName | None, file_key("the node that has it", "node1")] = None

    def __post_init__(self) -> None:
        if not self.kind:
            implied = "pci" if self.pci else "interface" if self.interface else "vhost-user"
            object.__setattr__(self, "kind", implied)


@dataclass(frozen=True, slots=True)
class DutBond:
    """Ports of the DUT that are one port of the bridge (ovs-vswitchd.conf.db(5), Port, bond_mode and lacp)."""

    name: Annotated[ShortName, file_key("name of the bond in OVS", "bond0")]
    members: Annotated[tuple[Text, ...], file_key("names of dut.ports, two or more", ["dpdk0", "dpdk1"])]
    mode: Annotated[str, words("active-backup", "balance-slb", "balance-tcp")] = "active-backup"
    lacp: Annotated[str, words("off", "active", "passive")] = "off"


@dataclass(frozen=True, slots=True)
class TrexRoute:
    """How a TRex port finds the MAC that it sends to: it asks by ARP for ``gateway``, as ``source``."""

    port: Annotated[PortNumber, file_key("TRex port number", 0)]
    source: Annotated[Ipv4, file_key("IPv4 address of the TRex port", "10.0.0.2")]
    gateway: Annotated[Ipv4, file_key("IPv4 address of the DUT on that link", "10.0.0.1")]
    vlan: Annotated[Annotated[Whole, Field(ge=1, le=4094)] | None, file_key("802.1Q tag")] = None


@dataclass(frozen=True, slots=True)
class TrexSpec:
    """What only TRex has."""

    rx_delay_s: Annotated[
        TrexDelay, file_key("how long frames may be under way before they count as lost", "500 ms", alias="rx_delay")
    ] = 0.5
    rpc_port: Annotated[TcpPort, file_key("TCP port that takes requests")] = 4501
    event_port: Annotated[TcpPort, file_key("TCP port that publishes events")] = 4500
    routes: Annotated[tuple[TrexRoute, ...], file_key("ports that ask for their gateway by ARP")] = ()


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """What sends and receives, and where. ``cpus``: of a file; a testbed has them in its CpuPlan."""

    engine: Annotated[
        str,
        words("embedded", "trex", "replay"),
        BeforeValidator(_no_streams),
        file_key("replay: answers with a recording, without any hardware"),
    ] = "embedded"
    server: Annotated[Text | None, file_key("host of the TRex server", "tgen1")] = None
    client: Annotated[LocalPath | None, file_key("directory of the TRex client", "/opt/trex/v3.06")] = None
    ports: Annotated[tuple[PortNumber, ...], file_key("the engine's port numbers")] = (0, 1)
    force: Annotated[Flag, file_key("take TRex ports that someone else holds")] = False
    devices: Annotated[
        Devices,
        file_key(
            "of the embedded engine: a kernel interface or PCI address for each port; else each topology makes them",
            ["ens2f0", "ens2f1"],
        ),
    ] = ()
    recording: Annotated[
        LocalPath | None, file_key("what engine 'replay' answers with; relative to this file", "bug.jsonl")
    ] = None
    trex: Annotated[TrexSpec, file_key("what only TRex has")] = TrexSpec()
    cpus: Annotated[Cpus, file_key("CPUs of the embedded generator's polling threads")] = ()


@dataclass(frozen=True, slots=True)
class StreamsSpec:
    """What sends TCP and UDP streams between namespaces."""

    engine: Annotated[str, words("iperf3")] = "iperf3"
    path: Annotated[
        LocalPath | None, file_key("of its program, relative to this file; else looked for", "/opt/bin/iperf3")
    ] = None
    ports: Annotated[TcpPorts, file_key("of which a server takes the first that is free; else 5201-5264")] = ()
    client_cpus: Annotated[Cpus, file_key("CPUs of the end that connects; else all of the testbed's")] = ()
    server_cpus: Annotated[Cpus, file_key("CPUs of the end that listens; else all of the testbed's")] = ()


@dataclass(frozen=True, slots=True)
class LabSpeaker:
    """A routing daemon that runs on this machine already and belongs to somebody else."""

    name: Annotated[ShortName, file_key("what tests and reports call it", "dut")]
    engine: Annotated[str, words("frr", "bird"), file_key("which daemon it is")]
    socket: Annotated[
        LocalPath,
        file_key(
            "frr: the directory of its *.vty sockets, such as /run/frr; bird: its control socket", "/run/bird/bird.ctl"
        ),
    ]
    announces: Annotated[
        Announced,
        file_key(
            "bird: static protocols of its configuration, by the prefix that each has", {"198.18.0.0/15": "clients"}
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class NicSpec:
    """How a run sets up a NIC of this machine; at its end the NIC is as it was.

    MAC address, VLAN, trust and spoof check belong to a VF, and are set through its PF (ip-link(8), "vf NUM").
    """

    pci: Annotated[str, UNWRITTEN]
    bind: Annotated[
        Annotated[str, words("vfio-pci", "uio_pci_generic")] | None,
        file_key("the driver that DPDK needs; the kernel's driver gets the NIC back at the end of the run"),
    ] = None
    vfs: Annotated[Count | None, file_key("of a PF: how many VFs the run makes, and removes at its end", 2)] = None
    mac: Annotated[MacAddress | None, file_key("of a VF: its MAC address", "02:00:00:00:00:01")] = None
    vlan: Annotated[
        Annotated[Whole, Field(ge=0, le=4094)] | None,
        file_key("of a VF: the NIC adds this VLAN to what the VF sends, and removes it; 0: none", 100),
    ] = None
    trust: Annotated[Flag | None, file_key("of a VF: it may be promiscuous and change its MAC address")] = None
    spoofchk: Annotated[Flag | None, file_key("of a VF: the NIC drops what it sends from another MAC address")] = None

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


@checked()
@dataclass(frozen=True, slots=True)
class Dut:
    """Which datapath a topology is built on, where a suite compares several.

    ``kind``: "dpdk", "netdev", "system", "linux-bridge", "testpmd"; None for the testbed's own.
    ``userspace_tso``: segmentation offload in OVS's userspace datapath (``userspace-tso-enable``,
    ovs-vswitchd.conf.db(5)), which OVS reads at its start only.
    ``tuning``: stronger than the testbed's.
    ``version``: the name of a version of the testbed (``--nfv-ovs NAME=WHERE``, ``ovs:`` in its file), of what
    ``kind`` is; None for its own.
    ``nodes``: names of its nodes, each an OVS of its own; the topology says them, and whoever deploys it need not.
    ``forwarding``: of kind "testpmd", what it does to frames: "io", "mac", "macswap", "5tswap" or "rxonly".
    """

    kind: str | None = None
    userspace_tso: bool = False
    tuning: Tuning = OVS_DEFAULT
    version: str | None = None
    nodes: tuple[str, ...] = ()
    forwarding: Annotated[str, word(*FORWARDING)] | None = None


TESTBED_DUT = Dut()
"""The datapath that the testbed names."""


@dataclass(frozen=True, slots=True)
class TestbedFacts:
    """What reports need of a testbed; evidence has all of it. ``discovered``: it was found without a file."""

    __test__ = False

    name: str
    cpus: CpuPlan
    discovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed(TestbedFacts):
    """A whole testbed.

    ``vnf_kind``: what runs VNFs: "loop", "testpmd" or "qemu"; None for what suits the number of CPUs.
    ``speakers``: routing daemons that run already.
    ``nodes``: of topologies with several, where they differ; empty where all are as the DUT.
    ``underlay_line_rate_bps``: layer-1 bit/s between nodes, for underlays without one; None: they have none.
    ``nics``: NICs of this machine that the run binds to another driver, or makes VFs of.
    """

    ovs: OvsSpec
    ports: tuple[DutPort, ...]
    generator: GeneratorSpec
    links: tuple[CableSpec, ...]
    hugepages_mib: int = 0
    bonds: tuple[DutBond, ...] = ()
    vnf_kind: str | None = None
    streams: StreamsSpec = StreamsSpec()
    speakers: tuple[LabSpeaker, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    underlay_line_rate_bps: float | None = None
    nics: tuple[NicSpec, ...] = ()


# Nodes of topologies that have several.


@dataclass(frozen=True, slots=True)
class RemoteHost:
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

    name: Annotated[str, UNWRITTEN]
    version: Annotated[
        VersionName | None, file_key("a name of the file's section ovs; else the testbed's own", "old", alias="ovs")
    ] = None
    datapath: Datapath | None = None
    cpus: Annotated[Cpus, file_key("CPUs of its poll-mode threads; of all nodes, or of none")] = ()
    tuning: Annotated[Tuning, file_key("stronger than dut.ovs.tuning")] = OVS_DEFAULT
    underlay: Annotated[
        Text | None,
        file_key("the port of dut.ports whose cable leads to the other nodes; else a virtual link joins them", "up1"),
    ] = None
    ssh: Annotated[
        Annotated[str, Field(pattern=r"^[^\s/-][^\s/]*$")] | None,
        file_key("the host that it is on, as ssh knows it; else this machine", "root@dut2"),
    ] = None
    python: Annotated[
        NoBlanks | None,
        file_key("interpreter there that has this package; else python3", "/opt/nfv/bin/python"),
    ] = None
    ssh_config: Annotated[
        Annotated[NoBlanks, AfterValidator(expanded)] | None,
        file_key("file for ssh -F, relative to this file; else the user's own", "lab.ssh"),
    ] = None

    @property
    def host(self) -> RemoteHost | None:
        """Where the node is; None for this machine."""
        return None if self.ssh is None else RemoteHost(self.ssh, self.python or "python3", self.ssh_config)

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


def dut_kind(ovs: OvsSpec, dut: Dut) -> str:
    """The kind of datapath that a DUT is: what the test names, else the testbed's own."""
    return dut.kind or ovs.datapath


def with_nodes(dut: Dut, topology: Topology) -> Dut:
    return replace(dut, nodes=tuple(node.name for node in topology.nodes))


def ovs_for_dut(ovs: OvsSpec, dut: Dut) -> OvsSpec:
    """How to get the OVS, or other datapath, that a test's Dut names; the testbed's own where it names none.

    UnavailableError, with what to do, if the testbed has no version of this name, the version is of something else, or
    the testbed uses the system's OVS.
    """
    versioned = versioned_as(dut_kind(ovs, dut))
    if dut.version is None:
        return ovs if versioned == versioned_as(ovs.datapath) else replace(ovs, prefix=None)
    if ovs.instance == "system":
        raise UnavailableError(
            f"the testbed's OVS is the system's, which has one version, not {dut.version!r}: write 'instance: private'"
        )
    named_ovs = next((version for version in ovs.versions if version.name == dut.version), None)
    if named_ovs is None:
        names = ", ".join(version.name for version in ovs.versions) or "none"
        raise UnavailableError(
            f"no version is called {dut.version!r} (named: {names}): give --nfv-ovs "
            f"{dut.version}=WHERE, or 'ovs: {{{dut.version}: WHERE}}' in the testbed file"
        )
    if named_ovs.datapath not in {"", versioned}:
        raise UnavailableError(
            f"{dut.version!r} is a version of {versioned_name(named_ovs.datapath)}, and the DUT is "
            f"{dut_kind(ovs, dut)!r}: name a version of {versioned_name(versioned)}, or another kind of Dut"
        )
    return replace(ovs, prefix=named_ovs.prefix, other_config=(*ovs.other_config, *named_ovs.settings))


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
