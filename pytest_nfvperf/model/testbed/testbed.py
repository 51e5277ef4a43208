"""The testbed as data: what a testbed file says, or what was discovered without one."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.arguments import FLAG, TEXT, checked, one, optional, several
from pytest_nfvperf.model.testbed.node_spec import NodeSpec
from pytest_nfvperf.model.testbed.ovs_version import NamedOvs
from pytest_nfvperf.model.testbed.tuning import OVS_DEFAULT, Tuning


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
