"""How a topology's ports are made: vhost-user, veth, patch, or a lab's.

==============  ====================================  ============================================
kind            in OVS                                the far end
==============  ====================================  ============================================
vhost-user      ``dpdkvhostuserclient``               ``net_virtio_user,path=SOCKET,server=1``
veth            one end, in the instance's namespace  ``net_af_packet,iface=FAR`` in ours
tap             ``tap``, moved out                    the same
AF_XDP          ``afxdp``, or DPDK's ``net_af_xdp``   as a veth; of a monitor ``net_af_xdp,iface=FAR``
Nic             see ``nic_makers``                    the Nic, in its namespace
veth link       both ends, in the instance's          none
tunnel          ``vxlan``, ``geneve``, ``gre``        by the underlay: see ``tunnels``
underlay        ``dpdk`` or a veth's end              another private OVS: see ``uplinks``
of a lab        see ``physical``                      the generator's own, by a cable
==============  ====================================  ============================================

A generator's veth is what is left without DPDK. The far end stays in the namespace that we run in, where the
generator runs too, named by the run's tag, with IPv6 off and no address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.ends import OURS, End, Moved, Pair, Routes, configure
from pytest_nfvperf.adapters.net.namespace_cabling import Cabling
from pytest_nfvperf.adapters.net.namespaces import Namespace
from pytest_nfvperf.adapters.net.topology_pairs import (
    generator_pair,
    interface_of,
    link_pair,
    namespace_plans,
    packet_device,
)
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.topology.lab_ports import Cabled
from pytest_nfvperf.adapters.ovs.topology.neighbours import tell_neighbour
from pytest_nfvperf.adapters.ovs.topology.nic_makers import NIC_MAKERS, Making, NicMaker, maker_of
from pytest_nfvperf.adapters.ovs.topology.ovs_port import (
    OvsPort,
    by_af_xdp,
    patch,
    refuse_kernel,
    tuned,
    unusual,
    vhost_user,
)
from pytest_nfvperf.adapters.ovs.topology.tunnels import Underlay, tunnel_port, underlay
from pytest_nfvperf.adapters.ovs.topology.uplinks import Uplinks
from pytest_nfvperf.adapters.ovs.topology.vduse_devices import VduseDevices
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.topology.links import Tunnel
from pytest_nfvperf.model.topology.ports import Behind, Nic, Offloads, Port, PortKind, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Attachment

NO_UPLINKS = Uplinks()
"""Of an OVS that is no node."""


class PortMaker:
    """Makes and removes what the ports of one topology need outside OVS."""

    def __init__(
        self,
        journal: Journal,
        instance: RunningOvs,
        cabled: Cabled,
        uplinks: Uplinks = NO_UPLINKS,
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
    ) -> None:
        self._instance = instance
        self._uplinks = uplinks
        self._cabled = cabled
        self._nic_makers = nic_makers
        self._home = instance.home
        self._cabling = Cabling(journal, self._home)
        self._sockets: list[Path] = []
        self._moved: list[Moved] = []
        self._devices = VduseDevices(journal)
        self._hosts: list[Attachment] = []
        self._underlays: dict[Tunnel, Underlay] = {}

    def wire(self, topology: Topology) -> dict[str, OvsPort]:
        """Make what the ports need; returns the port for OVS, by name. ``close`` removes it."""
        pairs: list[Pair] = []
        wired = [self._wire(port, pairs) for port in topology.ports]
        self._cabling.make_namespaces(namespace_plans(topology, self._instance.name))
        wired += [self._wire_nic(nic, pairs) for nic in topology.nics]
        for link in topology.patches:
            wired.append(patch(link.port_a, link.bridge_a, link.port_b, link.vlan))
            wired.append(patch(link.port_b, link.bridge_b, link.port_a, link.vlan))
        for veth in topology.veths:
            pairs.append(link_pair(veth, self._home.path))
            for port, bridge in ((veth.port_a, veth.bridge_a), (veth.port_b, veth.bridge_b)):
                wired.append(OvsPort(port, bridge, port, "system", vlan=veth.vlan))
        in_kernel = self._instance.options.datapath_type == "system"
        wired += [tunnel_port(tunnel, in_kernel=in_kernel) for tunnel in topology.tunnels]
        self._underlays = {tunnel: underlay(topology, tunnel) for tunnel in topology.tunnels}
        self._hosts = [self._behind(one, pairs) for one in topology.behind]
        self._devices.note()
        if pairs:
            self._cabling.join(pairs, self._routes_now(topology))
        tuning = self._instance.options.tuning
        return {one.port: tuned(one, tuning) for one in wired}

    def finish(self, topology: Topology) -> None:
        """Once OVS has made its ports: move its interfaces to their namespaces, and give tunnels their addresses."""
        if self._moved or self._devices.wanted:
            self._cabling.move_out(self._moved, self._devices.attach(), self._routes(topology))
        if self._underlays:
            self._lay_under()

    def release(self) -> None:
        """Before OVS lets go of the ports: remove what OVS must still serve while it goes."""
        self._devices.detach()

    def _lay_under(self) -> None:
        addresses = {(below.bridge, below.address) for below in self._underlays.values()}
        bridges = {bridge for bridge, _ in addresses}
        own = {bridge: tuple(address for of, address in sorted(addresses) if of == bridge) for bridge in bridges}
        try:
            configure([End(bridge, self._home.path, addresses=own[bridge]) for bridge in sorted(bridges)])
        except OSError as error:
            raise TestbedError(f"cannot give a bridge a tunnel's address: {error}") from error
        self.tell_neighbours()

    def tell_neighbours(self) -> None:
        """Tell OVS the MAC addresses of its tunnels' other ends, where they are known."""
        for tunnel, below in self._underlays.items():
            if below.neighbour is not None:
                tell_neighbour(self._instance, below.bridge, tunnel.remote, below.neighbour)

    def _routes_now(self, topology: Topology) -> Routes:
        """Routes of namespaces that do not wait for an interface of OVS's own, whose network may have the gateway."""
        late = {one.end.namespace for one in (*self._moved, *self._devices.wanted)}
        return {path: routes for path, routes in self._routes(topology).items() if path not in late}

    def _routes(self, topology: Topology) -> Routes:
        return {self.namespace(spec.name).path: spec.routes for spec in topology.namespaces if spec.routes}

    def namespace(self, name: str) -> Namespace:
        return self._cabling.namespace(name)

    def check(self) -> None:
        self._cabling.check()

    def not_running(self) -> list[str]:
        """Interfaces that the kernel does not send on yet."""
        return self._cabling.not_running()

    def losses(self) -> dict[str, int]:
        return self._cabling.losses()

    def offload_lines(self) -> list[str]:
        return self._cabling.offload_lines()

    def remove(self, interfaces: Sequence[str]) -> None:
        """Remove interfaces of the instance's namespace together; those that are not there are passed over."""
        self._cabling.remove(interfaces)

    def close(self) -> None:
        """Remove what ``wire`` made, after OVS has let go of the ports. Can be called twice."""
        for socket in self._sockets:
            socket.unlink(missing_ok=True)  # a killed listener leaves it, and the next could not bind
        try:
            self._devices.close()
        finally:
            self._cabling.close()

    def _wire(self, port: Port, pairs: list[Pair]) -> OvsPort:
        end = self._cabled.ends.get(port.name)
        if end is not None:
            options = self._instance.options
            datapath = "dpdk" if options.dpdk else options.datapath_type
            return self._cabled.wire(port, end, self._home.path, datapath)
        if port.role is PortRole.UPLINK:
            return self._uplinks.wire(port, self._home.path, pairs, self._instance.options.tuning.rxq or 1)
        if port.kind is PortKind.VHOST_USER or (port.kind is PortKind.TESTBED and self._instance.options.dpdk):
            return self._vhost_user(port)
        if port.kind in {PortKind.TESTBED, PortKind.AF_PACKET}:
            return self._veth(port, pairs)
        if port.kind is PortKind.TAP:
            return self._tap(port)
        return self._af_xdp(port, pairs)

    def hosts(self) -> list[Attachment]:
        """How the generator reaches namespaces behind its ports."""
        return self._hosts

    def _behind(self, one: Behind, pairs: list[Pair]) -> Attachment:
        """A veth pair from the namespace to the generator, which needs complete frames as on the wire."""
        far = self._cabling.name_in_ours()
        namespace = self.namespace(one.namespace).path
        whole = Offloads(tso=False, gso=False, tx_checksum=False)
        near = End(one.name, namespace, one.mac, one.addresses, whole)
        pairs.append(Pair(near, End(far, OURS), one.mtu))
        return Attachment(one.label, f"net_af_packet,iface={far}")

    def _vhost_user(self, port: Port) -> OvsPort:
        if not self._instance.options.dpdk:
            raise ConfigError(
                f"port {port.name!r} is vhost-user, which needs DPDK: use Dut('dpdk'), or the kind TESTBED"
            )
        socket = self._instance.directory / f"{port.name}.sock"
        self._sockets.append(socket)
        return vhost_user(port, socket)

    def _veth(self, port: Port, pairs: list[Pair]) -> OvsPort:
        pair, device = generator_pair(port, self._home.path, self._cabling.name_in_ours())
        pairs.append(pair)
        return OvsPort(port.name, port.bridge, port.name, "system", vlan=port.vlan, device=device)

    def _tap(self, port: Port) -> OvsPort:
        refuse_kernel(f"port {port.name!r}", self._instance.options)
        far = self._cabling.name_in_ours()
        self._moved.append(Moved(port.name, End(far, OURS, mac=port.mac), port.mtu))
        device = packet_device(port, far)
        mtu = unusual(port.mtu)
        return OvsPort(port.name, port.bridge, port.name, "tap", {}, mtu, port.vlan, device, has_link=False)

    def _af_xdp(self, port: Port, pairs: list[Pair]) -> OvsPort:
        """A monitor reads the far end by AF_XDP, too."""
        wired = self._veth(port, pairs)
        if port.role is PortRole.MONITOR:
            wired = replace(wired, device=f"net_af_xdp,iface={interface_of(str(wired.device))}")
        return by_af_xdp(wired, f"port {port.name!r}", self._interface_types, dpdk=self._instance.options.dpdk)

    @property
    def _interface_types(self) -> Sequence[str]:
        return tuple(self._instance.db.root.iface_types)

    def _wire_nic(self, nic: Nic, pairs: list[Pair]) -> OvsPort:
        making = Making(
            self._instance.options,
            self._interface_types,
            self._home.path,
            self.namespace(nic.namespace).path,
            pairs,
            self._moved,
            self._instance.dpdk_version if self._instance.options.dpdk else None,
            self._devices.new_name,
            self._devices.wanted,
        )
        return maker_of(nic, self._nic_makers)(nic, making)
