"""How a topology's port is made: vhost-user, veth, a NIC of DPDK's, or an interface of the host.

==============  ====================================  ============================================
kind            in OVS                                the far end, for the embedded generator
==============  ====================================  ============================================
vhost-user      ``dpdkvhostuserclient``               ``net_virtio_user,path=SOCKET,server=1``
veth            one end, in the instance's namespace  ``net_af_packet,iface=FAR`` in ours
pci             ``dpdk``                              none: cabled to a tester
interface       the interface, moved in               none: cabled to a tester
==============  ====================================  ============================================

The far end listens and OVS connects, as in the field; ``dpdkvhostuser`` (OVS listens) is deprecated and in
OVS 3.1 counts no packets. When OVS connects: ``vhost_connector``.

veth is what is left without DPDK. The far end stays in the namespace that we run in, where the generator
runs too, named by the run's tag, with IPv6 off and no address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.net.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net.links import remove_link
from pytest_nfvperf.adapters.net.namespaces import Namespace
from pytest_nfvperf.adapters.ovs.instance import OvsInstance
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed import DutPort
from pytest_nfvperf.model.topology import Port

_QUEUE_SIZE = 1024
_DEFAULT_MTU = 1500
_LONGEST_KERNEL_NAME = 15


@dataclass(frozen=True, slots=True)
class Wired:
    """A port as OVS is told of it, and how its far end is reached.

    Attributes:
        interface: name in OVS; differs from the topology's for an interface of the host.
        device: DPDK devargs of the far end; None when it is cabled.
        socket: where the far end will listen, for a vhost-user port.
        link: the journal's entry of a veth pair made for it.
    """

    port: str
    interface: str
    type: str
    options: Mapping[str, str] = field(default_factory=dict)
    mtu_request: int | None = None
    device: str | None = None
    socket: Path | None = None
    link: Entry | None = None


class Wiring:
    """Makes and removes what ports need outside OVS."""

    def __init__(self, journal: Journal, instance: OvsInstance, physical: Mapping[str, DutPort]) -> None:
        """``physical``: the testbed's pci and interface ports, by the names of topologies' ports."""
        self._journal = journal
        self._instance = instance
        self._physical = physical

    def wire(self, port: Port) -> Wired:
        """Make what the port needs; ``unwire`` removes it.

        Raises:
            ConfigError: the port cannot be on this datapath.
            TestbedError: the kernel refused.
        """
        physical = self._physical.get(port.name)
        if physical is not None and physical.kind == "pci":
            return _pci(port, physical)
        if physical is not None:
            return self._moved_in(port, physical)
        if self._instance.options.dpdk:
            return self._vhost_user(port)
        return self._veth(port)

    def unwire(self, wired: Wired) -> None:
        """Remove what ``wire`` made, after OVS has let go of the port. Can be called twice."""
        if wired.socket is not None:
            wired.socket.unlink(missing_ok=True)  # a killed listener leaves it, and the next could not bind
        if wired.link is not None:
            remove_link(wired.link.name)
            self._journal.forget(wired.link)

    def _vhost_user(self, port: Port) -> Wired:
        socket = self._instance.directory / f"{port.name}.sock"
        queues = f",queues={port.queues}" if port.queues > 1 else ""
        device = f"net_virtio_user,path={socket},server=1,queue_size={_QUEUE_SIZE},mac={port.mac}{queues}"
        mtu = port.mtu if port.mtu != _DEFAULT_MTU else None
        return Wired(port.name, port.name, "dpdkvhostuserclient", mtu_request=mtu, device=device, socket=socket)

    def _veth(self, port: Port) -> Wired:
        if len(port.name) > _LONGEST_KERNEL_NAME:
            raise ConfigError(f"port name {port.name!r} is longer than {_LONGEST_KERNEL_NAME} bytes; shorten it")
        far = self._journal.link_name()
        entry = self._journal.note(Kind.LINK, far)
        try:
            _make_veth(far, port, self._namespace)
        except (OSError, NetlinkError) as error:
            remove_link(far)
            self._journal.forget(entry)
            raise TestbedError(f"cannot make the veth pair {far} - {port.name}: {error}") from error
        return Wired(port.name, port.name, "system", device=f"net_af_packet,iface={far}", link=entry)

    def _moved_in(self, port: Port, physical: DutPort) -> Wired:
        interface = physical.interface or physical.name
        try:
            if not _has_link(interface, self._namespace):
                _move_in(interface, port.name, self._namespace)
            with IPRoute(netns=self._namespace.name) as links:
                links.link("set", index=links.link_lookup(ifname=interface)[0], state="up", mtu=port.mtu)
        except (OSError, NetlinkError) as error:
            raise TestbedError(f"cannot move {interface} into {self._namespace.name}: {error}") from error
        return Wired(port.name, interface, "system")

    @property
    def _namespace(self) -> Namespace:
        if self._instance.namespace is None:
            raise TestbedError("the private OVS has no network namespace")
        return self._instance.namespace


def _has_link(interface: str, namespace: Namespace) -> bool:
    with IPRoute(netns=namespace.name) as links:
        return bool(links.link_lookup(ifname=interface))


def _move_in(interface: str, port: str, namespace: Namespace) -> None:
    """Into the instance's namespace; the kernel gives a NIC back when that is removed."""
    with IPRoute() as host:
        found = host.link_lookup(ifname=interface)
        if not found:
            raise ConfigError(f"port {port!r}: this machine has no interface {interface!r}", key="dut.ports")
        host.link("set", index=found[0], net_ns_fd=namespace.name)


def _pci(port: Port, physical: DutPort) -> Wired:
    options = {"dpdk-devargs": physical.pci or "", "n_rxq": str(max(physical.rxq, port.queues))}
    if physical.rx_descriptors is not None:
        options["n_rxq_desc"] = str(physical.rx_descriptors)
    if physical.tx_descriptors is not None:
        options["n_txq_desc"] = str(physical.tx_descriptors)
    mtu = physical.mtu or port.mtu
    return Wired(port.name, port.name, "dpdk", options, mtu if mtu != _DEFAULT_MTU else None)


def _make_veth(far: str, port: Port, namespace: Namespace) -> None:
    with IPRoute() as host:
        host.link(
            "add",
            kind="veth",
            ifname=far,
            address=port.mac,
            mtu=port.mtu,
            peer={"ifname": port.name, "mtu": port.mtu, "net_ns_fd": namespace.name},
        )
        ipv6 = Path(f"/proc/sys/net/ipv6/conf/{far}/disable_ipv6")
        if ipv6.exists():
            ipv6.write_text("1")  # else the kernel's own MLD and RS frames are in the trial
        host.link("set", index=host.link_lookup(ifname=far)[0], state="up")
    with IPRoute(netns=namespace.name) as inside:
        inside.link("set", index=inside.link_lookup(ifname=port.name)[0], state="up")
