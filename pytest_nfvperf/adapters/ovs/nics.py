"""A port of OVS and its far end: kernel interfaces, namespaces' NICs, uplinks, and their neighbours."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pytest_nfvperf.adapters.host.nic import lacks_af_xdp
from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.cabling import nic_pair
from pytest_nfvperf.adapters.net.ends import End, MovedInterface, VethPair
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.net.vduse import DEVICES, lacks_vduse
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions, RunningOvs
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, Nic, NicKind, Offloads, Port, Vlan
from pytest_nfvperf.model.topology.topology import Topology

_FIRST_WITH_VDUSE = (23, 11)
"""DPDK's release notes, 23.11: vhost."""

_RING = 4096
"""Frames: the most that OVS gives a port (NIC_PORT_MAX_RXQ_SIZE). A node that shares its CPU may not read for
milliseconds."""

_DEVARGS_BYTES = 127
"""The most that DPDK's ``rte_dev_probe`` takes, which OVS calls; since 24.11.8 it refuses more."""


@dataclass(frozen=True, slots=True)
class OvsPort:
    """A port in OVS's configuration, and how to reach its far end.

    Attributes:
        port: its name in the topology.
        interface: its name in OVS; another one for an interface of the host.
        type: of OVS's interface: "system", "patch", "dpdkvhostuserclient"; "bond" for a port of several interfaces.
        device: DPDK devargs of the far end; None where no generator uses it, or it is cabled.
        socket: where the far end of a vhost-user port will listen.
        socket_table: the kernel's list with that socket, "/proc/7/net/unix"; None for our own namespace's.
        has_link: readiness requires link; patch ports and tunnels have none.
        kernel: the kernel interface that DPDK reads, in OVS's namespace.
        bond: columns of a bond's Port: bond_mode, lacp.
        other_config: of OVS's interface: pmd-rxq-affinity.
    """

    port: str
    bridge: str
    interface: str
    type: str
    options: Mapping[str, str] = field(default_factory=dict)
    mtu_request: int | None = None
    vlan: Vlan | None = None
    device: str | None = None
    socket: Path | None = None
    socket_table: Path | None = None
    has_link: bool = True
    kernel: str | None = None
    members: tuple[OvsPort, ...] = ()
    bond: Mapping[str, str] = field(default_factory=dict)
    other_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def interfaces(self) -> tuple[OvsPort, ...]:
        return self.members or (self,)


def apply_tuning(wired: OvsPort, tuning: Tuning) -> OvsPort:
    """Apply a tuning: the queues' CPUs; for a NIC also its rings and queues."""
    affinity = dict(tuning.rxq_affinity).get(wired.port)
    config = {} if affinity is None else {"pmd-rxq-affinity": affinity}
    of_nic = {"n_rxq_desc": tuning.rx_descriptors, "n_txq_desc": tuning.tx_descriptors, "n_rxq": tuning.rxq}
    options = {key: str(value) for key, value in of_nic.items() if value is not None} if wired.type == "dpdk" else {}
    return replace(
        wired,
        options={**wired.options, **options},
        other_config={**wired.other_config, **config},
        members=tuple(apply_tuning(member, tuning) for member in wired.members),
    )


def by_af_xdp(wired: OvsPort, what: str, interface_types: Sequence[str], *, dpdk: bool) -> OvsPort:
    """Read a veth end with AF_XDP: with OVS's driver if it was built in, else with DPDK's; ConfigError without both."""
    if "afxdp" in interface_types:
        return replace(wired, type="afxdp")
    if dpdk:
        device = f"net_af_xdp_{wired.port},iface={wired.port}"
        return replace(wired, type="dpdk", options={"dpdk-devargs": device}, kernel=wired.port)
    raise ConfigError(
        f"{what} is AF_XDP, which this OVS was built without: it has the interface types "
        f"{', '.join(sorted(interface_types))}; use Dut('dpdk') for DPDK's driver, or the kind AF_PACKET"
    )


def refuse_tap_on_kernel(what: str, options: InstanceOptions) -> None:
    """ConfigError for a tap on the kernel's datapath, which cannot read one."""
    if options.datapath_type != "netdev":
        raise ConfigError(
            f"{what} is a tap, which OVS's userspace datapath reads and the kernel's does not: "
            "use Dut('netdev') or Dut('dpdk'), or an internal port or a veth pair"
        )


def mtu_request(mtu: int) -> int | None:
    return mtu if mtu != DEFAULT_MTU else None


def refuse_flows_on_bonds(topology: Topology, wired: Iterable[OvsPort]) -> None:
    """ConfigError for flows over a bridge with a bond and more than two ports.

    A flow sends frames to one interface of a bond, and so bypasses it. Therefore a bridge with a bond learns MAC
    addresses. With two ports the result is the same; with more, frames would leave the topology's path.
    """
    crossed = {crossing.bridge for crossing in topology.crossings}
    for one in wired:
        ports = [port.name for port in topology.ports if port.bridge == one.bridge]
        if one.members and one.bridge in crossed and len(ports) > 2:
            raise ConfigError(
                f"topology {topology.name!r} forwards by flows over {len(ports)} ports of bridge {one.bridge!r}, "
                f"and flows bypass bond {one.interface!r}: use single ports for it, or the topology phy2phy"
            )


# Interfaces of namespaces, by kind:
#
#   kind       in OVS                                  in the namespace
#   veth       one end, in OVS's namespace             the other end
#   af_xdp     the same, read by AF_XDP                the other end
#   internal   ``internal``, moved out                 the same interface
#   tap        ``tap``, moved out                      the same interface
#   vduse      ``dpdkvhostuserclient``                 a virtio interface of a device that OVS serves
#
# Third parties add kinds with a colon in their names by the hook ``pytest_nfvperf_nic_makers``.


@dataclass(frozen=True, slots=True)
class NicContext:
    """What the maker of an interface gets, and the lists that it appends to.

    Attributes:
        interface_types: OVS was built with these (ovs-vswitchd.conf.db(5), iface_types).
        home: file of OVS's network namespace.
        inside: file of the interface's namespace.
        pairs: a maker appends veth pairs, which are made before OVS takes its ports.
        moved: a maker appends interfaces that OVS makes and that are moved out afterwards.
        dpdk_version: None where OVS runs without DPDK.
        device_name: returns a name that no other device of the machine has.
        devices: a maker appends VDUSE devices, which OVS makes and which become interfaces afterwards.
    """

    options: InstanceOptions
    interface_types: Sequence[str]
    home: Path
    inside: Path
    pairs: list[VethPair]
    moved: list[MovedInterface]
    dpdk_version: str | None
    device_name: Callable[[], str]
    devices: list[MovedInterface]


NicMaker: TypeAlias = Callable[[Nic, NicContext], OvsPort]
"""Returns an interface's port for OVS, and appends what the kernel needs.

Raises ConfigError for an interface that this datapath cannot have, and UnavailableError with what the machine
lacks; the test is then skipped for that reason.
"""


def maker_of(nic: Nic, makers: Mapping[str, NicMaker]) -> NicMaker:
    if nic.kind not in makers:
        raise ConfigError(
            f"{_full_name(nic)} is of kind {nic.kind!r}, which nobody makes: give its maker by the hook "
            f"pytest_nfvperf_nic_makers. There are {listed(makers)}"
        )
    return makers[nic.kind]


def _veth(nic: Nic, context: NicContext) -> OvsPort:
    context.pairs.append(nic_pair(nic, context.home, context.inside, _offloads(nic, context.options)))
    return OvsPort(nic.port, nic.bridge, nic.port, "system", vlan=nic.vlan)


def _af_xdp(nic: Nic, context: NicContext) -> OvsPort:
    lacking = lacks_af_xdp()
    if lacking is not None:
        raise UnavailableError(f"{_full_name(nic)} is AF_XDP: {lacking}")
    return by_af_xdp(_veth(nic, context), _full_name(nic), context.interface_types, dpdk=context.options.dpdk)


def _internal(nic: Nic, context: NicContext) -> OvsPort:
    # OVS gives a tap checksum offload only with userspace TSO, so the offloads are right as they are.
    context.moved.append(
        MovedInterface(nic.port, End(nic.name, context.inside, nic.mac, nic.addresses, nic.offloads), nic.mtu)
    )
    mtu = mtu_request(nic.mtu)
    return OvsPort(nic.port, nic.bridge, nic.port, nic.kind, mtu_request=mtu, vlan=nic.vlan, has_link=False)


def _tap(nic: Nic, context: NicContext) -> OvsPort:
    refuse_tap_on_kernel(_full_name(nic), context.options)
    return _internal(nic, context)


def _vduse(nic: Nic, context: NicContext) -> OvsPort:
    # OVS serves a virtio device with DPDK's vhost library; its driver is this machine's kernel.
    if context.dpdk_version is None:
        raise ConfigError(f"{_full_name(nic)} is by VDUSE, which OVS serves with DPDK: use Dut('dpdk')")
    lacking = lacks_vduse()
    # An older DPDK would take the path for that of a socket and wait until somebody listens on it.
    if lacking is None and tuple(map(int, re.findall(r"\d+", context.dpdk_version)[:2])) < _FIRST_WITH_VDUSE:
        lacking = (
            f"DPDK {context.dpdk_version} has none, 23.11 is the first: `nfvperf ovs add debian:trixie`, then "
            "--nfv-ovs debian:trixie"
        )
    if lacking is not None:
        raise UnavailableError(f"{_full_name(nic)} is by VDUSE: {lacking}")
    device = context.device_name()
    end = End(nic.name, context.inside, nic.mac, nic.addresses, _offloads(nic, context.options))
    context.devices.append(MovedInterface(device, end, nic.mtu))
    options = {"vhost-server-path": str(DEVICES / device)}
    kind, mtu = "dpdkvhostuserclient", mtu_request(nic.mtu)
    return OvsPort(nic.port, nic.bridge, nic.port, kind, options, mtu_request=mtu, vlan=nic.vlan)


def _full_name(nic: Nic) -> str:
    return f"interface {nic.name!r} of namespace {nic.namespace!r}"


def _offloads(nic: Nic, options: InstanceOptions) -> Offloads:
    # Userspace reads a frame as the sending kernel left it. Without userspace TSO it ignores that the checksum is
    # not filled in yet (tx checksum offload), and the receiver drops the frame.
    if options.datapath_type != "netdev" or options.userspace_tso:
        return nic.offloads
    if nic.offloads.tx_checksum or nic.offloads.tso:
        raise ConfigError(
            f"{_full_name(nic)}: tx checksum offload, and so TSO, must be off "
            "on OVS's userspace datapath unless it has userspace TSO: use Dut(userspace_tso=True)"
        )
    return replace(nic.offloads, tx_checksum=False)


NIC_MAKERS: Mapping[str, NicMaker] = MappingProxyType(
    {
        NicKind.VETH: _veth,
        NicKind.INTERNAL: _internal,
        NicKind.TAP: _tap,
        NicKind.AF_XDP: _af_xdp,
        NicKind.VDUSE: _vduse,
    }
)
"""The makers of this project's own interfaces, by kind."""


def set_neighbour(ovs: RunningOvs, bridge: str, peer: str, mac: str) -> None:
    """Set the MAC address of a tunnel's far end, because frames are lost while ARP looks for it.

    ``bridge``: its local port sends the tunnel's frames. Userspace OVS takes the address by ``tnl/neigh/set``
    (ovs-vswitchd(8)); the kernel's datapath uses the kernel's own table.
    """
    if ovs.options.datapath_type != "system":
        ovs.ctl.call("tnl/neigh/set", bridge, peer, mac)
        return

    def add_neighbour() -> None:
        rtnetlink.send(rtnetlink.neighbour(socket.if_nametoindex(bridge), bridge, peer, mac))

    try:
        inside(ovs.home.path, add_neighbour)
    except OSError as error:
        raise TestbedError(f"cannot set the MAC address of a tunnel's far end on {bridge}: {error}") from error


# Ends of underlays, each a link from one private OVS to another:
#
#   both DPDK    ``dpdkvhostuserclient`` and ``dpdk`` (net_virtio_user): a virtio ring in shared memory; PMDs poll it
#   otherwise    a veth pair from one namespace to the other; with DPDK, too, the main thread reads it
#   of a lab     the lab's port, and a cable
#
# Each node makes its own end. With DPDK the end that is built second listens, and the first connects to it. A veth
# pair is made with the first end, and the second finds it there.
#
# DPDK's net_memif was tried: its two ends refuse each other ("Invalid ring index") where OVS has more transmit
# than receive queues, which it always has.


@dataclass(frozen=True, slots=True)
class UplinkEnd:
    """One end of an underlay.

    Attributes:
        first: it is made before the other end.
        ring: both nodes have DPDK, so a ring joins them; otherwise a veth pair does.
        socket: where DPDK's ends meet.
        peer_port: name of the other end of a veth pair.
        peer_home: network namespace of that end.
        peer_pid: of the other end's vswitchd.
    """

    first: bool
    ring: bool
    socket: Path
    peer_port: str
    peer_home: Path
    peer_pid: int


@dataclass(frozen=True, slots=True)
class Uplinks:
    """One node's ends of underlays, by the names of its ports: virtual ones and cables."""

    ends: Mapping[str, UplinkEnd] = field(default_factory=dict)
    cabled: Mapping[str, CabledEnd] = field(default_factory=dict)

    def wire(self, port: Port, home: Path, pairs: list[VethPair], queues: int) -> OvsPort:
        """The port for OVS; appends the veth pair that it needs to ``pairs``. ``queues``: of a ring, each direction."""
        end, mtu = self.ends[port.name], mtu_request(port.mtu)
        if not end.ring:
            if end.first:
                pairs.append(VethPair(End(port.name, home), End(end.peer_port, end.peer_home), port.mtu))
            return OvsPort(port.name, port.bridge, port.name, "system")
        if end.first:
            table = Path(f"/proc/{end.peer_pid}/net/unix")
            client = OvsPort(port.name, port.bridge, port.name, "dpdkvhostuserclient", mtu_request=mtu)
            return replace(client, socket=end.socket, socket_table=table)
        ring = f"queues={queues},queue_size={_RING},packed_vq=1"
        device = f"net_virtio_user_{port.name},path={end.socket},server=1,{ring}"
        if len(device) > _DEVARGS_BYTES:
            raise ConfigError(
                f"the socket {end.socket} of {port.name} is too long for DPDK, which takes {_DEVARGS_BYTES} bytes of "
                f"devargs ({device} has {len(device)}); set NFVPERF_RUN_DIR to a shorter directory, or give the port "
                "a shorter name"
            )
        options = {"dpdk-devargs": device, "n_rxq_desc": str(_RING), "n_txq_desc": str(_RING)}
        # The vhost-user end reports its link as soon as both are there; OVS asks this one only every 5 s.
        return OvsPort(port.name, port.bridge, port.name, "dpdk", options, mtu, has_link=False)


NO_UPLINKS = Uplinks()
"""For an OVS that is not a node."""
