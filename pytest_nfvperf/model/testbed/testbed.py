"""The testbed as data: what a testbed file says, or what was discovered without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.arguments import FLAG, TEXT, checked, one, optional, several
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, NamedOvs, Tuning
from pytest_nfvperf.model.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Which CPU belongs to whom. CPU numbers as the kernel counts them.

    ``housekeeping``: pytest, OVS's main thread, handlers, everything that does not poll.
    ``pmd``: OVS poll-mode threads. ``generator``: polling threads of the embedded generator.
    ``vnf``: testpmd VNFs, empty when VNFs run inside the generator's loop.
    On machines of two cores housekeeping and generator share one.
    """

    housekeeping: tuple[int, ...]
    pmd: tuple[int, ...]
    generator: tuple[int, ...]
    vnf: tuple[int, ...] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        """CPUs with more than one owner."""
        owners = [self.housekeeping, self.pmd, self.generator, self.vnf]
        cpus = [cpu for owner in owners for cpu in owner]
        return tuple(sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}))


@dataclass(frozen=True, slots=True)
class OvsSpec:
    """How to get the DUT's OVS.

    ``instance``: "private" (ours, started and removed) or "system" (used as is).
    ``prefix``: of an installation (``/opt/ovs-3.3.4``), or a root; None for the distribution's package. As written in
    a testbed file it may also be the name of a version that ``nfvperf ovs list`` has.
    ``datapath``: "dpdk", "netdev" (userspace without DPDK) or "system" (kernel module).
    ``other_config``: Open_vSwitch other_config keys added to ours.
    ``run_dir``: of a system instance, where its sockets are; None for /run/openvswitch.
    ``hw_offload``: flows shall be in the NIC (``hw-offload``, ovs-vswitchd.conf.db(5)).
    ``tc_policy``: "none", "skip_sw" or "skip_hw" (``tc-policy``); None leaves OVS's own.
    ``tuning``: of the userspace datapath, where a test asks for nothing else.
    ``versions``: other installations, by the names that tests ask for them.
    """

    instance: str = "private"
    prefix: str | None = None
    datapath: str = "dpdk"
    other_config: tuple[tuple[str, str], ...] = ()
    run_dir: str | None = None
    hw_offload: bool = False
    tc_policy: str | None = None
    tuning: Tuning = OVS_DEFAULT
    versions: tuple[NamedOvs, ...] = ()


@dataclass(frozen=True, slots=True)
class DutPort:
    """A port of the DUT that a generator port is cabled to.

    ``kind``: "vhost-user" (embedded), "pci" or "interface". ``pci``/``interface`` name the device.
    ``line_rate_bps``: layer-1 bit/s; None for a port that has none (vhost-user).
    ``driver``: how OVS reads an interface: "af_packet" or "af_xdp" (DPDK's drivers, polled by a PMD), "kernel"
    (OVS's own, by the main thread); None for what suits the datapath.
    ``representor``: of a PCI device, as DPDK writes it: "0", "vf2", "pf0vf1", "sf3".
    ``model``: what the NIC is called in SLA selectors and reports; None for what the machine says.
    ``node``: the node that has it, of topologies with several; None for this machine.
    """

    name: str
    kind: str
    pci: str | None = None
    interface: str | None = None
    rxq: int = 1
    rx_descriptors: int | None = None
    tx_descriptors: int | None = None
    mtu: int | None = None
    line_rate_bps: float | None = None
    driver: str | None = None
    representor: str | None = None
    model: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class DutBond:
    """Ports of the DUT that are one port of the bridge (ovs-vswitchd.conf.db(5), Port, bond_mode and lacp).

    ``mode``: "active-backup", "balance-slb" or "balance-tcp". ``lacp``: "off", "active" or "passive".
    """

    name: str
    members: tuple[str, ...]
    mode: str = "active-backup"
    lacp: str = "off"


@dataclass(frozen=True, slots=True)
class TrexStart:
    """A TRex server that we start ourselves, on this machine.

    ``path``: where TRex is installed (``t-rex-64`` lies there). ``interfaces``: one a port, kernel
    interfaces for ``driver`` "af_packet", "socket" ids for "memif", PCI addresses for "pci".
    ``low_end``: share cores, where there are fewer than three. ``netns``: a network namespace to run it in.
    """

    path: str
    interfaces: tuple[str, ...]
    driver: str = "af_packet"
    low_end: bool = False
    netns: str | None = None


@dataclass(frozen=True, slots=True)
class TrexRoute:
    """How a TRex port finds the MAC that it sends to: it asks by ARP for ``gateway``, as ``source``."""

    port: int
    source: str
    gateway: str
    vlan: int | None = None


@dataclass(frozen=True, slots=True)
class TrexSpec:
    """What only TRex has.

    ``rx_delay_s``: how long frames may be under way after the last was sent, before they count as lost.
    ``rpc_port`` and ``event_port``: TCP ports of the server. ``start``: None for one that runs already.
    """

    rx_delay_s: float = 0.5
    rpc_port: int = 4501
    event_port: int = 4500
    routes: tuple[TrexRoute, ...] = ()
    start: TrexStart | None = None


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """Which generator, and where.

    ``engine``: "embedded", "trex", or "replay", which answers with the file ``recording``.
    ``devices``: of the embedded engine, a kernel interface or a PCI address for each of ``ports``; empty where the
    ports are made by each topology.
    """

    engine: str = "embedded"
    server: str | None = None
    client: str | None = None
    ports: tuple[int, ...] = (0, 1)
    force: bool = False
    devices: tuple[str, ...] = ()
    recording: str | None = None
    trex: TrexSpec = TrexSpec()


@dataclass(frozen=True, slots=True)
class StreamsSpec:
    """What sends TCP and UDP streams between namespaces.

    ``engine``: "iperf3". ``path``: of its program; None for the one that is installed. ``ports``: of which a server
    takes the first that is free; empty for the engine's own. ``client_cpus``, ``server_cpus``: that the two ends may
    run on; empty for every CPU of the testbed.
    """

    engine: str = "iperf3"
    path: str | None = None
    ports: tuple[int, ...] = ()
    client_cpus: tuple[int, ...] = ()
    server_cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LabSpeaker:
    """A routing daemon that runs on this machine already and belongs to somebody else.

    ``engine``: "frr", ``socket`` being the directory of its ``*.vty`` sockets, or "bird", ``socket`` being its control
    socket. ``announces``: of BIRD, pairs of a prefix and the static protocol of its configuration that has it.
    """

    name: str
    engine: str
    socket: str
    announces: tuple[tuple[str, str], ...] = ()


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


TESTBEDS_OWN = Dut()
"""The datapath that the testbed names."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """A whole testbed.

    ``discovered`` is True for the embedded testbed that was found without a file.
    ``vnf_kind``: what runs VNFs: "loop", "testpmd" or "qemu"; None for what suits the number of CPUs.
    ``speakers``: routing daemons that run already.
    ``nodes``: of topologies with several, where they differ; empty where all are as the DUT.
    ``underlay_line_rate_bps``: layer-1 bit/s between nodes, for underlays without one; None: they have none.
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


# Nodes of topologies that have several.


@dataclass(frozen=True, slots=True)
class FarHost:
    """Another machine, which has this package, too.

    Attributes:
        ssh: as ssh(1) is told of it: "root@dut2".
        python: the interpreter there that has this package.
        ssh_config: a file of ssh's (``ssh -F``); None for the user's own.
    """

    ssh: str
    python: str = "python3"
    ssh_config: str | None = None

    def __str__(self) -> str:
        """``root@dut2``."""
        return self.ssh


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """How one node differs from the others. What is left out is as the testbed's DUT has it.

    Attributes:
        name: of the node, as topologies call it.
        version: the name of an OVS of the testbed; None for the testbed's own.
        datapath: "dpdk" or "netdev"; None for the testbed's own.
        cpus: of its poll-mode threads; empty where the DUT's are dealt out to the nodes.
        tuning: stronger than the testbed's.
        underlay: the port of the testbed whose cable leads to the other nodes; None where nodes are joined by a
            virtual link.
        host: where it is; None for this machine.
    """

    name: str
    version: str | None = None
    datapath: str | None = None
    cpus: tuple[int, ...] = ()
    tuning: Tuning = OVS_DEFAULT
    underlay: str | None = None
    host: FarHost | None = None

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


def nodes_words(testbed: Testbed) -> list[str]:
    """A line for each node that the testbed file names, and one for the underlay's line rate; empty without."""
    rate = testbed.underlay_line_rate_bps
    said = [f"underlay:  {rate / 1e9:g} Gbps between nodes"] if rate is not None else []
    return [*(f"node:      {node}" for node in testbed.nodes), *said]


# The OVS that a test's Dut names.


def with_nodes(dut: Dut, topology: Topology) -> Dut:
    """The Dut that a topology needs: with its nodes."""
    return replace(dut, nodes=tuple(node.name for node in topology.nodes))


def ovs_of(ovs: OvsSpec, dut: Dut) -> OvsSpec:
    """How to get the OVS that a test's Dut names; the testbed's own where it names none.

    Raises:
        UnavailableError: the testbed has no version of this name, and what to do; or it uses the system's OVS.
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
    """Deal the DUT's CPUs out to nodes, in turn; where there are fewer than nodes, all share them.

    ``given``: nodes of the testbed file, which has CPUs for all of them or for none.
    """
    own = {spec.name: spec.cpus for spec in given if spec.cpus}
    if all(node in own for node in nodes):
        return NodeCpus(tuple((node, own[node]) for node in nodes), shared=False)
    shared = len(plan.pmd) < len(nodes)
    dealt = [(node, plan.pmd if shared else plan.pmd[number :: len(nodes)]) for number, node in enumerate(nodes)]
    return NodeCpus(tuple(dealt), shared)
