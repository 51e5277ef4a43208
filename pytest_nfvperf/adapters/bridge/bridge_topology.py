"""A topology of Linux bridges in a namespace of its own."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping

from pytest_nfvperf.adapters.bridge.limits import refuse_impossible
from pytest_nfvperf.adapters.bridge.vlans import set_vlans
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.firewall import active_in
from pytest_nfvperf.adapters.net.namespace_cabling import Cabling
from pytest_nfvperf.adapters.net.namespaces import Namespace
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.net.topology_pairs import generator_pair, link_pair, namespace_plans, nic_pair
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology, all_ports
from pytest_nfvperf.ports.datapath import Attachment


class BuiltBridgeTopology:
    """A live topology of Linux bridges. Owns its teardown."""

    def __init__(self, journal: Journal, name: str, topology: Topology) -> None:
        """Build it in a new namespace of this name, which removes it when it goes."""
        refuse_impossible(topology)
        self.topology = topology
        self.closed = False
        self._name = name
        self.home = Namespace(journal, name)
        self._cabling = Cabling(journal, self.home, owns_home=True)
        self._devices: dict[str, str] = {}
        try:
            self._make_ports()
            inside(self.home.path, self._make_bridges)
        except OSError as error:
            self.close()
            raise TestbedError(f"cannot build topology {topology.name!r}: {error}") from error
        except BaseException:
            self.close()
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
                raise TestbedError(f"topology {self.topology.name!r}: {error}{_advice(error, filtered)}") from error
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

    def attachments(self) -> tuple[Attachment, ...]:
        return tuple(Attachment(port.name, self._devices[port.name]) for port in self.topology.ports)

    def netns(self, namespace: str) -> str:
        if namespace not in {spec.name for spec in self.topology.namespaces}:
            raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")
        return self._cabling.namespace(namespace).name

    def firewall(self) -> dict[str, list[str]]:
        return active_in([*(self.netns(spec.name) for spec in self.topology.namespaces), self.home.name])

    def not_offloaded(self) -> str | None:
        return "a Linux bridge has no flows that a NIC could take"

    def wait_ready(self, deadline_s: float) -> None:
        wait_until(
            lambda: not self._cabling.not_running(),
            f"the kernel to send on the veth pairs of topology {self.topology.name!r}",
            deadline_s,
            last_seen=lambda: "not yet on " + ", ".join(self._cabling.not_running()),
        )

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


def _advice(error: KernelRefusedError, filtered: set[str]) -> str:
    if error.code == errno.EOPNOTSUPP and filtered:
        return "; this kernel's bridge knows no VLANs (CONFIG_BRIDGE_VLAN_FILTERING): take an OVS datapath for them"
    if error.code == errno.EEXIST:
        return "; there is an interface of this name, which is left alone: use another name"
    return ""
