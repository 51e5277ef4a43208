"""The kernel's bridge as a datapath: what it cannot do, VLANs, the topology, its counters."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_SETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.cabling import Cabling, generator_pair, link_pair, namespace_plans, nic_pair
from pytest_nfvperf.adapters.net.interface_counters import Counters, LinkCollector, link_counters
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink, Request
from pytest_nfvperf.adapters.net.threads import enter_new, in_own_thread, inside
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut
from pytest_nfvperf.model.topology.ports import NicKind, PortKind, PortRole, Vlan
from pytest_nfvperf.model.topology.topology import Topology, all_ports
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath

SOURCE = "linux-bridge"
KIND = "linux-bridge"

_AF_BRIDGE = 7
_PVID, _UNTAGGED, _RANGE_BEGIN, _RANGE_END = 0x2, 0x4, 0x8, 0x10  # BRIDGE_VLAN_INFO_*, linux/if_bridge.h
_DEFAULT = 1
_FIRST, _LAST = 1, 4094


def refuse_impossible(topology: Topology) -> None:
    """ConfigError that names what a Linux bridge cannot do of the topology, and an alternative."""
    problem = _impossible_part(topology) or _impossible_crossings(topology)
    if problem is not None:
        raise ConfigError(f"topology {topology.name!r} cannot be built of Linux bridges: {problem}")


def _impossible_part(topology: Topology) -> str | None:
    if topology.patches:
        return f"{topology.patches[0].port_a!r} is a patch port, which only Open vSwitch has; join them by veth"
    if topology.tunnels:
        return f"{topology.tunnels[0].port!r} is a tunnel; take an OVS datapath"
    own = [
        f"{one.bridge!r} has OpenFlow rules, which only Open vSwitch has; leave rules(...) out"
        for one in topology.rules
    ]
    own += [f"it has a {one}; take an OVS datapath" for one in topology.limiters]
    own += [f"it has {one}; take an OVS datapath" for one in topology.connections]
    if own:
        return own[0]
    for port in topology.ports:
        if port.kind not in {PortKind.TESTBED, PortKind.AF_PACKET}:
            return f"port {port.name!r} is {port.kind}; take the kind TESTBED or AF_PACKET, a veth pair"
        if port.role is PortRole.MONITOR or port.members:
            what = "bond" if port.members else "monitor, and there are no mirrors"
            return f"port {port.name!r} is a {what}; take an OVS datapath"
    other = next((nic for nic in topology.nics if nic.kind != NicKind.VETH), None)
    return None if other is None else f"interface {other.name!r} is {other.kind}; take a veth pair"


def _impossible_crossings(topology: Topology) -> str | None:
    # Learning equals crossings only if these join a bridge's only two ports in both directions.
    wanted: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for crossing in topology.crossings:
        wanted[crossing.bridge].add((crossing.in_port, crossing.out_port))
    for bridge, pairs in wanted.items():
        ports = topology.bridge_ports(bridge)
        if len(ports) != 2 or pairs != {ports, ports[::-1]}:
            return (
                f"the crossings of {bridge!r} are flows, and a Linux bridge has none: it learns addresses; "
                "leave the crossings out, or give it two ports that cross both ways"
            )
    return None


def set_vlans(ports: Mapping[int, Vlan]) -> None:
    """Set the VLANs of ports (bridge-vlan(8)) by interface number, in the calling thread's namespace.

    A new port of a bridge has VLAN 1 untagged. An access port gets its tag instead. A trunk also gets its list, or
    every VLAN if that is empty.
    """

    def request(kind: int, index: int, entries: list[tuple[int, int]]) -> Request:
        message = ifinfmsg()
        message["header"]["type"] = kind
        message["family"], message["index"] = _AF_BRIDGE, index
        infos = [["IFLA_BRIDGE_VLAN_INFO", {"vid": number, "flags": flags}] for number, flags in entries]
        message["attrs"] = [["IFLA_AF_SPEC", {"attrs": infos}]]
        return Request(f"set the VLANs of interface {index}", message)

    rtnetlink.send(*(request(RTM_DELLINK, index, [(_DEFAULT, 0)]) for index in ports))
    rtnetlink.send(*(request(RTM_SETLINK, index, vlan_entries(vlan)) for index, vlan in ports.items()))


def vlan_entries(vlan: Vlan) -> list[tuple[int, int]]:
    """Numbers and flags (BRIDGE_VLAN_INFO_*)."""
    entries = [(number, 0) for number in vlan.trunks]
    if not vlan.trunks and vlan.tag is None:
        entries = [(_FIRST, _RANGE_BEGIN), (_LAST, _RANGE_END)]
    if vlan.tag is not None:
        entries.append((vlan.tag, _PVID | _UNTAGGED))
    return entries


class BuiltBridgeTopology(BuiltTopology):
    """A live topology of Linux bridges in a namespace of its own. Owns its teardown."""

    def __init__(self, journal: Journal, name: str, topology: Topology) -> None:
        refuse_impossible(topology)
        self.topology = topology
        self.closed = False
        self._name = name
        self.home = LiveNamespace(journal, name)
        self._cabling = Cabling(journal, self.home, owns_home=True)
        self._devices: dict[str, str] = {}
        try:
            self._make_ports()
            inside(self.home.path, self._make_bridges)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise TestbedError(f"cannot build topology {topology.name!r}: {error}") from error
            raise

    def _make_ports(self) -> None:
        topology, home = self.topology, self.home.path
        self._cabling.make_namespaces(namespace_plans(topology, self._name))
        pairs = []
        for port in topology.ports:
            pair, device = generator_pair(port, home, self._cabling.name_in_ours())
            pairs.append(pair)
            self._devices[port.name] = device
        namespaces = {spec.name: self._cabling.namespace(spec.name).path for spec in topology.namespaces}
        pairs += [nic_pair(nic, home, namespaces[nic.namespace], nic.offloads) for nic in topology.nics]
        pairs += [link_pair(link, home) for link in topology.veths]
        routes = {namespaces[spec.name]: spec.routes for spec in topology.namespaces if spec.routes}
        if pairs:
            self._cabling.join(pairs, routes)

    def _make_bridges(self) -> None:
        vlans = self._vlans()
        filtered = {bridge for bridge, port in all_ports(self.topology) if port in vlans}
        with Netlink() as netlink:
            try:
                netlink.send(
                    [rtnetlink.bridge(name, vlan_filtering=name in filtered) for name in self.topology.bridges]
                )
            except KernelRefusedError as error:
                advice = ""
                if error.code == errno.EOPNOTSUPP and filtered:
                    advice = (
                        "; this kernel's bridge knows no VLANs (CONFIG_BRIDGE_VLAN_FILTERING): "
                        "take an OVS datapath for them"
                    )
                if error.code == errno.EEXIST:
                    advice = "; there is an interface of this name, which is left alone: use another name"
                raise TestbedError(f"topology {self.topology.name!r}: {error}{advice}") from error
            masters = {name: socket.if_nametoindex(name) for name in self.topology.bridges}
            ports = [(port, socket.if_nametoindex(port), bridge) for bridge, port in all_ports(self.topology)]
            netlink.send([rtnetlink.set_up(index=i, name=port, master=masters[bridge]) for port, i, bridge in ports])
        if vlans:
            set_vlans({index: vlans[port] for port, index, _ in ports if port in vlans})

    def _vlans(self) -> Mapping[str, Vlan]:
        topology = self.topology
        named = [(port.name, port.vlan) for port in topology.ports]
        named += [(nic.port, nic.vlan) for nic in topology.nics]
        named += [(end, link.vlan) for link in topology.veths for end in (link.port_a, link.port_b)]
        return {name: vlan for name, vlan in named if vlan is not None}

    def attachments(self) -> Mapping[str, str | None]:
        return {port.name: self._devices[port.name] for port in self.topology.ports}

    def made_namespace(self, namespace: str) -> str:
        return self._cabling.namespace(namespace).name

    def firewall(self) -> dict[str, list[str]]:
        return self._cabling.firewall()

    def wait_ready(self, deadline_s: float) -> None:
        self._cabling.wait_running(self.topology.name, deadline_s)

    def configuration(self) -> str:
        states = self._cabling.states()
        lines = ["# Linux bridges: no spanning tree, no multicast snooping"]
        vlans = self._vlans()
        for bridge in self.topology.bridges:
            lines += ["", f"# bridge {bridge}"]
            for port in self.topology.bridge_ports(bridge):
                vlan = f" tag={vlans[port].tag} trunks={vlans[port].trunks}" if port in vlans else ""
                lines.append(f"port {port}: {states[port]}{vlan}" if port in states else f"port {port}: gone")
        return "\n".join([*lines, "", *self._cabling.offload_lines()]) + "\n"

    def check(self) -> None:
        if not self.home.is_there():
            raise TestbedError(f"namespace {self.home.name} of the Linux bridges is gone: somebody removed it")
        self._cabling.check()

    def losses(self) -> dict[str, int]:
        return self._cabling.losses()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._cabling.close()


class BridgeCollector(Collector):
    """The kernel's ``<port>.rx_packets`` ... of every port; rx counts frames into the bridge. Source "linux-bridge"."""

    source = SOURCE

    def __init__(self, topologies: Callable[[], Sequence[BuiltBridgeTopology]]) -> None:
        self._topologies = topologies

    def snapshot(self) -> CounterSnapshot:
        def read() -> Counters:
            with Netlink() as netlink:
                return link_counters(netlink)[1]

        counters: dict[str, int] = {}
        for built in self._topologies():
            try:
                of_ports = inside(built.home.path, read)
            except OSError as error:
                raise TestbedError(f"no counters of the Linux bridges: {error}") from error
            for port in {port for _, port in all_ports(built.topology)} & of_ports.keys():
                counters |= {f"{port}.{name}": value for name, value in of_ports[port].items()}
        return CounterSnapshot(SOURCE, time.monotonic_ns(), tuple(sorted(counters.items())))


class BridgeDatapath(Datapath):
    """The Linux bridge as a ports.Datapath: bridges and veth pairs, each topology in a namespace of its own."""

    def __init__(self, journal: Journal, dut: Dut = TESTBED_DUT, *, name: str = "bridge") -> None:
        """Starts nothing. ``name``: two in one run need two names."""
        if dut.userspace_tso:
            raise ConfigError("userspace TSO is a setting of OVS's userspace datapath: a Linux bridge has none")
        self._journal = journal
        self._name = name
        self._numbers = count(1)
        self._built: list[BuiltBridgeTopology] = []
        self._collectors = (
            BridgeCollector(self._live_topologies),
            LinkCollector(lambda: [built.losses() for built in self._live_topologies()]),
        )

    @staticmethod
    def lacks(dut: Dut) -> str | None:
        if dut.userspace_tso:
            return "a Linux bridge has no userspace TSO: leave it out for this datapath"

        def try_bridge() -> None:
            enter_new()
            rtnetlink.send(rtnetlink.bridge("probe", vlan_filtering=False))

        try:
            in_own_thread(try_bridge)
        except (OSError, KernelRefusedError) as error:
            return f"no Linux bridge can be made: {error}; run as root, on a kernel with the bridge module"
        return None

    def info(self) -> DatapathInfo:
        detail = "the kernel's bridge in a namespace of its own, ports are veth pairs"
        return DatapathInfo(KIND, os.uname().release, None, detail)  # the kernel's release is its version

    def build(self, topology: Topology) -> BuiltBridgeTopology:
        built = BuiltBridgeTopology(self._journal, f"{self._name}{next(self._numbers)}", topology)
        self._built.append(built)
        return built

    def collectors(self) -> tuple[Collector, ...]:
        return self._collectors

    def check_alive(self) -> None:
        for built in self._live_topologies():
            built.check()

    def close(self) -> None:
        for built in reversed(self._live_topologies()):
            built.close()

    def _live_topologies(self) -> list[BuiltBridgeTopology]:
        self._built = [built for built in self._built if not built.closed]
        return self._built
