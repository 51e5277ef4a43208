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
from pytest_nfvperf.adapters.net.ends import End, Moved, Pair
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.net.vduse import DEVICES, lacks_vduse
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions
from pytest_nfvperf.adapters.ovs.system_ovs import RunningOvs
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, Nic, NicKind, Offloads, Port, Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import VIRTIO_RING

# A port as OVS is told of it.


@dataclass(frozen=True, slots=True)
class OvsPort:
    """A port as OVS is told of it, and how its far end is reached.

    Attributes:
        port: its name in the topology.
        interface: name in OVS; differs from the topology's for an interface of the host.
        type: of OVS's interface: "system", "patch", "dpdkvhostuserclient"; "bond" for a port of several interfaces.
        device: DPDK devargs of the far end; None when it is cabled, or no generator's.
        socket: where the far end will listen, for a vhost-user port.
        socket_table: where the kernel lists that socket, "/proc/7/net/unix"; None: among those of our own namespace.
        has_link: ready means it has link; patch ports and tunnels have none.
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
        """The interface, or those of a bond."""
        return self.members or (self,)


def vhost_user(port: Port, socket: Path) -> OvsPort:
    """The far end listens and OVS connects, as in the field. When it connects: ``vhost_connector``.

    ``dpdkvhostuser`` (OVS listens) is deprecated and in OVS 3.1 counts no packets.
    """
    queues = f",queues={port.queues}" if port.queues > 1 else ""
    return OvsPort(
        port.name,
        port.bridge,
        port.name,
        "dpdkvhostuserclient",
        mtu_request=unusual(port.mtu),
        vlan=port.vlan,
        device=f"net_virtio_user,path={socket},server=1,{VIRTIO_RING},mac={port.mac}{queues}",
        socket=socket,
    )


def tuned(wired: OvsPort, tuning: Tuning) -> OvsPort:
    """With the queues' CPUs, and for a NIC with rings and queues, that the tuning sets."""
    affinity = dict(tuning.rxq_affinity).get(wired.port)
    config = {} if affinity is None else {"pmd-rxq-affinity": affinity}
    given = {"n_rxq_desc": tuning.rx_descriptors, "n_txq_desc": tuning.tx_descriptors, "n_rxq": tuning.rxq}
    options = {key: str(value) for key, value in given.items() if value is not None} if wired.type == "dpdk" else {}
    return replace(
        wired,
        options={**wired.options, **options},
        other_config={**wired.other_config, **config},
        members=tuple(tuned(member, tuning) for member in wired.members),
    )


def by_af_xdp(wired: OvsPort, what: str, interface_types: Sequence[str], *, dpdk: bool) -> OvsPort:
    """Read a veth end by AF_XDP: by OVS's own driver where it was built in, else by DPDK's; ConfigError without."""
    if "afxdp" in interface_types:
        return replace(wired, type="afxdp")
    if dpdk:
        device = f"net_af_xdp_{wired.port},iface={wired.port}"
        return replace(wired, type="dpdk", options={"dpdk-devargs": device}, kernel=wired.port)
    raise ConfigError(
        f"{what} is AF_XDP, which this OVS was built without: it has the interface types "
        f"{', '.join(sorted(interface_types))}; use Dut('dpdk') for DPDK's driver, or the kind AF_PACKET"
    )


def refuse_kernel(what: str, options: InstanceOptions) -> None:
    """ConfigError for a tap on the kernel's datapath, which does not read one."""
    if options.datapath_type != "netdev":
        raise ConfigError(
            f"{what} is a tap, which OVS's userspace datapath reads and the kernel's does not: "
            "use Dut('netdev') or Dut('dpdk'), or an internal port or a veth pair"
        )


def patch(port: str, bridge: str, peer: str, vlan: Vlan | None) -> OvsPort:
    """One end of a patch."""
    return OvsPort(port, bridge, port, "patch", {"peer": peer}, vlan=vlan, has_link=False)


def unusual(mtu: int) -> int | None:
    """What OVS is asked for: nothing where the MTU is Ethernet's own."""
    return mtu if mtu != DEFAULT_MTU else None


def refuse_flows_on_bonds(topology: Topology, wired: Iterable[OvsPort]) -> None:
    """ConfigError for flows over a bridge with a bond and more than two ports.

    A flow leads frames to one interface of a bond, and so bypasses it: a bridge with a bond learns MAC addresses.
    With two ports that is the same; with more, frames would not take the path that the topology means.
    """
    crossed = {crossing.bridge for crossing in topology.crossings}
    for one in wired:
        ports = [port.name for port in topology.ports if port.bridge == one.bridge]
        if one.members and one.bridge in crossed and len(ports) > 2:
            raise ConfigError(
                f"topology {topology.name!r} forwards by flows over {len(ports)} ports of bridge {one.bridge!r}, "
                f"and flows bypass bond {one.interface!r}: use single ports for it, or the topology phy2phy"
            )


# How namespaces' interfaces are made: a table of makers by kind.
#
# ============= ==================================== ============================================ kind in OVS
# the interface in the namespace ============= ====================================
# ============================================ ``veth`` one end, in the instance's namespace the other end
# ``af_xdp`` the same, read by AF_XDP the other end ``internal`` ``internal``, moved out the same interface
# ``tap`` ``tap``, moved out the same interface ``vduse`` ``dpdkvhostuserclient`` a virtio interface, by a
# device that OVS serves ============= ====================================
# ============================================
#
# A third party adds kinds of its own, with a colon in their names, by the hook ``pytest_nfvperf_nic_makers``.

_FIRST_WITH_VDUSE = (23, 11)
"""DPDK's release notes, 23.11: vhost."""


@dataclass(frozen=True, slots=True)
class Making:
    """What a maker works with.

    Attributes:
        interface_types: that OVS was built with (ovs-vswitchd.conf.db(5), iface_types).
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
    pairs: list[Pair]
    moved: list[Moved]
    dpdk_version: str | None
    device_name: Callable[[], str]
    devices: list[Moved]


NicMaker: TypeAlias = Callable[[Nic, Making], OvsPort]
"""Says how OVS is told of an interface's port, and what is to be made in the kernel.

Raises ConfigError for an interface that cannot be on this datapath, and UnavailableError with what the machine
lacks: the test is skipped then, with that reason.
"""


def maker_of(nic: Nic, makers: Mapping[str, NicMaker]) -> NicMaker:
    """The maker of an interface's kind; ConfigError that lists the kinds there are."""
    found = makers.get(nic.kind)
    if found is None:
        raise ConfigError(
            f"{_called(nic)} is of kind {nic.kind!r}, which nobody makes: give its maker by the hook "
            f"pytest_nfvperf_nic_makers. There are {listed(makers)}"
        )
    return found


def with_makers(added: Sequence[Mapping[str, NicMaker]]) -> Mapping[str, NicMaker]:
    """The table with third parties' makers; ConfigError for a name without a colon or with two makers."""
    table = dict(NIC_MAKERS)
    for name, maker in (pair for makers in added for pair in makers.items()):
        if ":" not in name or name in table:
            why = "has no colon in it" if ":" not in name else "has two makers"
            raise ConfigError(
                f"pytest_nfvperf_nic_makers: kind {name!r} {why}: call it by your name, such as 'acme:macvtap'"
            )
        table[name] = maker
    return MappingProxyType(table)


def _veth(nic: Nic, making: Making) -> OvsPort:
    making.pairs.append(nic_pair(nic, making.home, making.inside, _offloads(nic, making.options)))
    return OvsPort(nic.port, nic.bridge, nic.port, "system", vlan=nic.vlan)


def _af_xdp(nic: Nic, making: Making) -> OvsPort:
    lacking = lacks_af_xdp()
    if lacking is not None:
        raise UnavailableError(f"{_called(nic)} is AF_XDP: {lacking}")
    return by_af_xdp(_veth(nic, making), _called(nic), making.interface_types, dpdk=making.options.dpdk)


def _internal(nic: Nic, making: Making) -> OvsPort:
    # A tap has no checksum offload but where OVS says so (userspace TSO): it is right without our doing.
    making.moved.append(Moved(nic.port, End(nic.name, making.inside, nic.mac, nic.addresses, nic.offloads), nic.mtu))
    return OvsPort(nic.port, nic.bridge, nic.port, nic.kind, {}, unusual(nic.mtu), nic.vlan, has_link=False)


def _tap(nic: Nic, making: Making) -> OvsPort:
    refuse_kernel(_called(nic), making.options)
    return _internal(nic, making)


def _vduse(nic: Nic, making: Making) -> OvsPort:
    """OVS, by DPDK's vhost library, serves a virtio device whose driver is this machine's kernel."""
    if making.dpdk_version is None:
        raise ConfigError(f"{_called(nic)} is by VDUSE, which OVS serves with DPDK: use Dut('dpdk')")
    lacking = lacks_vduse() or _lacks_vduse_in(making.dpdk_version)
    if lacking is not None:
        raise UnavailableError(f"{_called(nic)} is by VDUSE: {lacking}")
    device = making.device_name()
    end = End(nic.name, making.inside, nic.mac, nic.addresses, _offloads(nic, making.options))
    making.devices.append(Moved(device, end, nic.mtu))
    options = {"vhost-server-path": str(DEVICES / device)}
    return OvsPort(nic.port, nic.bridge, nic.port, "dpdkvhostuserclient", options, unusual(nic.mtu), nic.vlan)


def _lacks_vduse_in(dpdk_version: str) -> str | None:
    """An older one would take the path for that of a socket, and wait for somebody to listen on it."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", dpdk_version)[:2])
    if numbers >= _FIRST_WITH_VDUSE:
        return None
    return (
        f"DPDK {dpdk_version} has none, 23.11 is the first: `nfvperf ovs add debian:trixie`, then --nfv-ovs "
        "debian:trixie"
    )


def _called(nic: Nic) -> str:
    return f"interface {nic.name!r} of namespace {nic.namespace!r}"


def _offloads(nic: Nic, options: InstanceOptions) -> Offloads:
    """What a Nic's offloads must be on this datapath.

    Userspace reads a frame as the sending kernel left it. Without userspace TSO it takes no notice that
    the checksum is still to be filled in (tx checksum offload), and whoever gets the frame drops it.
    """
    if options.datapath_type != "netdev" or options.userspace_tso:
        return nic.offloads
    if nic.offloads.tx_checksum or nic.offloads.tso:
        raise ConfigError(
            f"{_called(nic)}: tx checksum offload, and so TSO, must be off "
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


# Tells a datapath the MAC address of a tunnel's other end. ARP would find it, and lose frames meanwhile.


def tell_neighbour(ovs: RunningOvs, bridge: str, far: str, mac: str) -> None:
    """Set the MAC address of a tunnel's far end; ``bridge``: its local port sends the tunnel's frames.

    Userspace OVS takes it by ``tnl/neigh/set`` (ovs-vswitchd(8)); the kernel's datapath uses the kernel's own table.
    """
    if ovs.options.datapath_type != "system":
        ovs.ctl.call("tnl/neigh/set", bridge, far, mac)
        return

    def tell() -> None:
        with Netlink() as netlink:
            netlink.send([rtnetlink.neighbour(socket.if_nametoindex(bridge), bridge, far, mac)])

    try:
        inside(ovs.home.path, tell)
    except OSError as error:
        raise TestbedError(f"cannot tell {bridge} of a tunnel's other end: {error}") from error


# The ends of underlays: a link from one private OVS to another.
#
# ========= ========================================================
# =============================================== datapath in OVS the link =========
# ======================================================== =============================================== dpdk
# ``dpdkvhostuserclient`` and ``dpdk`` (net_virtio_user) a virtio ring in memory of both; PMDs poll it netdev
# one end of a veth pair each the pair, from one namespace to the other system one end of a veth pair each the
# pair; both nodes' kernel datapaths forward two kinds one end of a veth pair each the pair; with DPDK, too, the
# main thread reads it any the lab's port a cable: see ``lab_ports`` =========
# ======================================================== ===============================================
#
# Each end is made by its own node. With DPDK the end that is built second listens, and the first connects to
# it; a veth pair is made by the first, and the second finds it there.
#
# DPDK's net_memif was tried: its two ends refuse each other ("Invalid ring index") where OVS has more transmit
# than receive queues, which it always has.

_RING = 4096
"""Frames: the most that OVS gives a port (NIC_PORT_MAX_RXQ_SIZE). A node that shares its CPU may not read for
milliseconds."""

_DEVARGS_BYTES = 127
"""That DPDK's ``rte_dev_probe`` takes, which OVS calls; since 24.11.8 it refuses more."""


@dataclass(frozen=True, slots=True)
class UplinkEnd:
    """One end of an underlay.

    Attributes:
        first: it is made before the other end.
        ring: both nodes have DPDK, so a ring joins them; else a veth pair does.
        socket: where DPDK's ends meet.
        far_port, far_home: name and network namespace of the other end, for a veth pair.
        far_pid: of the other end's vswitchd.
    """

    first: bool
    ring: bool
    socket: Path
    far_port: str
    far_home: Path
    far_pid: int


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The underlays' ends of one node, by the names of its ports: virtual ones, and those of cables."""

    ends: Mapping[str, UplinkEnd] = field(default_factory=dict)
    cabled: Mapping[str, CabledEnd] = field(default_factory=dict)

    def has_veth(self) -> bool:
        """True where the node's main thread reads an underlay."""
        return any(not end.ring for end in self.ends.values())

    def wire(self, port: Port, home: Path, pairs: list[Pair], queues: int) -> OvsPort:
        """The port for OVS; appends the veth pair that it needs to ``pairs``. ``queues``: of a ring, each direction."""
        return self._ring(port, queues) if self.ends[port.name].ring else self._veth(port, home, pairs)

    def _ring(self, port: Port, queues: int) -> OvsPort:
        """An end that PMDs poll. The vhost-user end tells at once when both are there; the other is asked every 5 s."""
        end = self.ends[port.name]
        mtu = unusual(port.mtu)
        if end.first:
            table = Path(f"/proc/{end.far_pid}/net/unix")
            client = OvsPort(port.name, port.bridge, port.name, "dpdkvhostuserclient", mtu_request=mtu)
            return replace(client, socket=end.socket, socket_table=table)
        device = (
            f"net_virtio_user_{port.name},path={end.socket},server=1,queues={queues},queue_size={_RING},packed_vq=1"
        )
        if len(device) > _DEVARGS_BYTES:
            raise ConfigError(
                f"the socket {end.socket} of {port.name} is too long for DPDK, which takes {_DEVARGS_BYTES} bytes of "
                f"devargs ({device} has {len(device)}); set NFVPERF_RUN_DIR to a shorter directory, or give the port "
                "a shorter name"
            )
        options = {"dpdk-devargs": device, "n_rxq_desc": str(_RING), "n_txq_desc": str(_RING)}
        return OvsPort(port.name, port.bridge, port.name, "dpdk", options, mtu, has_link=False)

    def _veth(self, port: Port, home: Path, pairs: list[Pair]) -> OvsPort:
        """An end of a veth pair, which the first of the two makes."""
        end = self.ends[port.name]
        if end.first:
            pairs.append(Pair(End(port.name, home), End(end.far_port, end.far_home), port.mtu))
        return OvsPort(port.name, port.bridge, port.name, "system")
