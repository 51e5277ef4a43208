"""A port as OVS is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.private_ovs import InstanceOptions
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, Port, Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import VIRTIO_RING


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
