"""Namespaces and veth pairs of a topology, with addresses and routes, and a check for firewall rules in them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.main import NFTables

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link
from pytest_nfvperf.adapters.net.ends import (
    OWN_NAMESPACE,
    End,
    LinkState,
    MovedInterface,
    Routes,
    VethPair,
    configure,
    interface_exists,
    move_links,
    not_running,
    offload_lines,
    read_links,
)
from pytest_nfvperf.adapters.net.namespaces import Home, LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink, Request
from pytest_nfvperf.adapters.net.threads import (
    PROC_NET,
    enter_new,
    in_own_thread,
    inside,
    inside_netns,
    open_namespaces,
)
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.topology.links import VethLink
from pytest_nfvperf.model.topology.ports import AS_IT_IS, LONGEST_KERNEL_NAME, Nic, Offloads, Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology

MONITOR_RING = 4096
"""Frames that can wait at the far end of a monitor: 7 ms of 580,000 copies/s. The default of DPDK's af_packet driver is
512 (DPDK NIC guide, "AF_PACKET Poll Mode Driver", framecnt)."""

_LEGACY = {"ip_tables_names": "iptables", "ip6_tables_names": "ip6tables", "arp_tables_names": "arptables"}
_WITHOUT_NFTABLES = {errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.ENOENT}
_EVERY_FAMILY = 0  # NFPROTO_UNSPEC

_PAIRS_AT_ONCE = 100  # each needs two open files while it is made
_INDICES = 0x10000
"""Interface numbers for each topology of a run, far above those that the kernel gives."""


def namespace_plans(topology: Topology, prefix: str) -> dict[str, NamespacePlan]:
    ipv6 = {nic.namespace for nic in topology.interfaces if any(":" in address for address in nic.addresses)}
    return {
        spec.name: NamespacePlan(f"{prefix}-{spec.name}", spec.routing, spec.name in ipv6)
        for spec in topology.namespaces
    }


def nic_pair(nic: Nic, home: Path, namespace: Path, offloads: Offloads) -> VethPair:
    peer = End(nic.name, namespace, nic.mac, nic.addresses, offloads)
    return VethPair(End(nic.port, home), peer, nic.mtu, nic.queues)


def link_pair(link: VethLink, home: Path) -> VethPair:
    local, peer = (End(name, home, offloads=link.offloads) for name in (link.port_a, link.port_b))
    return VethPair(local, peer, link.mtu)


def packet_device(port: Port, peer: str) -> str:
    """The DPDK device for the generator on a kernel interface."""
    room = f",framecnt={MONITOR_RING}" if port.role is PortRole.MONITOR else ""
    return f"net_af_packet,iface={peer}{room}"


def interface_of(device: str) -> str:
    return device.partition("iface=")[2].partition(",")[0]


def generator_pair(port: Port, home: Path, peer: str) -> tuple[VethPair, str]:
    """A veth pair for a generator's port, and the DPDK device for the generator on its far end."""
    if len(port.name.encode()) > LONGEST_KERNEL_NAME:
        raise ConfigError(f"port name {port.name!r} is longer than {LONGEST_KERNEL_NAME} bytes; shorten it")
    pair = VethPair(End(port.name, home), End(peer, OWN_NAMESPACE, mac=port.mac), port.mtu, port.queues)
    return pair, packet_device(port, peer)


# Firewall rules: with veth between bridges no iptables rule may be active (S2), because each veth end is a device whose
# frames the kernel would run through it. We ask the kernel itself, without nft or iptables:
#
# - nftables (and iptables-nft, which is nftables): every rule, and every chain on a hook, by netlink;
# - legacy iptables, ip6tables, arptables: tables that exist in the namespace (``/proc/net/ip_tables_names``, ...). A
#   table exists after its first use, and then frames pass its hooks even without rules.


def active_firewall(namespace: str) -> list[str]:
    return inside_netns(namespace, _active_here)


def active_firewalls(namespaces: Iterable[str]) -> dict[str, list[str]]:
    """The same for several namespaces, without those where nothing filters."""
    return {namespace: active for namespace in namespaces if (active := active_firewall(namespace))}


def _active_here() -> list[str]:
    active = []
    for file, program in _LEGACY.items():
        path = PROC_NET / file
        tables = path.read_text(encoding="utf-8").split() if path.exists() else []
        active += [f"{program} table {table} is in use" for table in tables]
    try:
        with NFTables(nfgen_family=_EVERY_FAMILY) as kernel:
            for chain in kernel.get_chains():
                if chain.get_attr("NFTA_CHAIN_HOOK") is not None:
                    name, table = chain.get_attr("NFTA_CHAIN_NAME"), chain.get_attr("NFTA_CHAIN_TABLE")
                    active.append(f"nftables chain {name} of table {table} is on a hook")
            for rule in kernel.get_rules():
                where = f"chain {rule.get_attr('NFTA_RULE_CHAIN')} of table {rule.get_attr('NFTA_RULE_TABLE')}"
                active.append(f"nftables rule {rule.get_attr('NFTA_RULE_HANDLE')} in {where}")
    except NetlinkError as error:
        if error.code not in _WITHOUT_NFTABLES:  # a kernel without nf_tables has no rule of it
            raise
    return active


class Cabling:
    """A topology's namespaces and veth pairs, each pair with one end in *home*. ``close()`` removes them.

    Home is the namespace of the private datapath. An interface group marks the ends there, so that one request removes
    them all. Pairs are made from a temporary namespace without a name: kernels before 6.14 look for a new interface's
    name in the namespace of the requester, and would find another's ``eth0`` there.
    """

    def __init__(self, journal: Journal, home: Home, *, owns_home: bool = False) -> None:
        """``owns_home``: ``close`` removes home, too, and all in it."""
        self._journal = journal
        self._home = home
        self._owns_home = owns_home
        self.group = journal.link_group()
        self._index = _INDICES * (self.group & 0x3FF) + _INDICES
        self._namespaces: dict[str, LiveNamespace] = {}
        self._ours: list[Entry] = []  # interfaces in our own namespace
        self._local: list[Entry] = []  # in home, if that is not ours to remove
        self._pairs: list[VethPair] = []
        self._links: dict[str, LinkState] = {}

    def make_namespaces(self, plans: Mapping[str, NamespacePlan]) -> None:
        namespaces = LiveNamespace.several(self._journal, list(plans.values()))
        self._namespaces.update(zip(plans, namespaces, strict=True))

    def namespace(self, name: str) -> LiveNamespace:
        return self._namespaces[name]

    def name_in_ours(self) -> str:
        """A free name for an interface in our own namespace. It is journaled already, so make it next."""
        name = self._journal.link_name()
        while interface_exists(name):
            name = self._journal.link_name()
        self._ours.append(self._journal.note(Kind.LINK, name))
        return name

    def join(self, pairs: Sequence[VethPair], routes: Routes | None = None) -> None:
        try:
            if self._home.journaled:  # in a namespace that stays, a killed run's pairs would stay
                names = [pair.local.name for pair in pairs]
                self._local += self._journal.note_all(Kind.LINK, names, namespace=str(self._home.path))
            in_own_thread(partial(self._make, pairs))
            self._pairs += pairs
            ends = []
            for pair in pairs:
                local = pair.local
                ends.append(pair.peer)
                # A local end is up from the start, which is enough unless it has addresses or offloads.
                if self._home.journaled or local.addresses or local.offloads != AS_IT_IS:
                    ends.append(local)
            configure(ends, routes)
        except OSError as error:
            raise TestbedError(f"cannot join veth pairs to {self._home.name}: {error}") from error
        self._links.update(self.states())

    def move_out(
        self, moved: Sequence[MovedInterface], ours: Sequence[MovedInterface] = (), routes: Routes | None = None
    ) -> None:
        try:
            for namespace, interfaces in ((self._home.path, moved), (OWN_NAMESPACE, ours)):
                if interfaces:
                    moves = [(each.name, each.end.namespace, each.end.name) for each in interfaces]
                    inside(namespace, partial(move_links, moves))
            every = (*moved, *ours)
            configure([each.end for each in every], routes, {each.end: each.mtu for each in every})
        except OSError as error:
            raise TestbedError(f"cannot move an interface out of {self._home.name}: {error}") from error

    def _make(self, pairs: Sequence[VethPair]) -> None:
        enter_new()
        with Netlink() as netlink:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                batch = pairs[start : start + _PAIRS_AT_ONCE]
                try:
                    with open_namespaces() as handle:
                        netlink.send([self._request(pair, handle) for pair in batch])
                except KernelRefusedError as error:
                    if error.code != errno.EEXIST:
                        raise
                    raise TestbedError(_collision(batch[error.index])) from error

    def _request(self, pair: VethPair, handle: Callable[[Path], int]) -> Request:
        # The kernel gives two interfaces the same number if each is its namespace's first. It takes an interface whose
        # number equals its peer's for one without a peer (dev_get_iflink), and then lets it wait up to a second before
        # it sends (linkwatch_urgent_event). So we number them, but not in our own namespace.
        indices = None
        if pair.peer.namespace != OWN_NAMESPACE:
            self._index += 2
            indices = self._index, self._index + 1
        local, peer = ((end.name, handle(end.namespace), end.mac) for end in (pair.local, pair.peer))
        return rtnetlink.veth(local, peer, mtu=pair.mtu, queues=pair.queues, group=self.group, indices=indices)

    def check(self) -> None:
        """TestbedError names a missing namespace or interface, or an interface without link or with another MTU."""
        for name, namespace in self._namespaces.items():
            if not namespace.is_there():
                raise TestbedError(
                    f"namespace {name!r} ({namespace.name}) is gone: somebody removed it during the test"
                )
        if not self._links:
            return
        now = self.states()
        for name, original in self._links.items():
            current, wrong = now.get(name), ""
            if current is None or current.index != original.index:
                wrong = "is gone: somebody removed it, or its other end,"
            elif not current.carrier:
                wrong = "has no link: it, or its other end, was set down"
            elif current.mtu != original.mtu:  # frames that are too large are lost then, and nobody counts them
                wrong = f"has MTU {current.mtu}, and was made with {original.mtu}: somebody changed it"
            if wrong:
                raise TestbedError(f"interface {name!r} {wrong} during the test")

    def _ends(self) -> list[End]:
        return [end for pair in self._pairs for end in (pair.local, pair.peer)]

    def not_running(self) -> list[str]:
        """Local and peer ends on which the kernel still drops sent frames: it notices a link a little later."""
        return not_running(self._ends())

    def wait_running(self, topology: str, deadline_s: float) -> None:
        wait_until(
            lambda: not self.not_running(),
            f"the kernel to send on the veth pairs of topology {topology!r}",
            deadline_s,
            last_seen=lambda: "not yet on " + ", ".join(self.not_running()),
        )

    def firewall(self) -> dict[str, list[str]]:
        """Active rules in the topology's namespaces, and in home unless that is somebody else's."""
        names = [namespace.name for namespace in self._namespaces.values()]
        return active_firewalls(names if self._home.journaled else [*names, self._home.name])

    def states(self) -> dict[str, LinkState]:
        names = {end.name for end in self._ends() if end.namespace == self._home.path}
        if not names:
            return {}
        try:
            now = inside(self._home.path, read_links)
        except OSError as error:
            raise TestbedError(f"namespace {self._home.name} is gone: somebody removed it during the test") from error
        return {name: now[name] for name in now if name in names}

    def losses(self) -> dict[str, int]:
        return {name: state.losses for name, state in self.states().items()}

    def offload_lines(self) -> list[str]:
        return offload_lines(self._ends())

    def close(self) -> None:
        if self._owns_home:
            # Two hundred bridges' ports would go one after the other, each waiting for RCU; a namespace goes at once.
            self._delete_ours()
            self._home.close()
        else:
            with suppress(FileNotFoundError):  # somebody removed home; its interfaces go a little later
                inside(self._home.path, partial(_send_unless_gone, [rtnetlink.delete_group(self.group)]))
            if any(interface_exists(entry.name) for entry in self._ours):  # a moved one is not in the group
                self._delete_ours()
        self._links.clear()
        self._pairs.clear()
        self._journal.forget_all([*self._ours, *self._local])
        self._ours.clear()
        self._local.clear()
        LiveNamespace.close_all(self._journal, list(self._namespaces.values()))
        self._namespaces.clear()

    def remove(self, interfaces: Sequence[str]) -> None:
        """Remove interfaces at home, whoever made them, with one request that waits for RCU once."""
        group = self._journal.link_group()

        def remove_here() -> None:
            present = [(index, name) for index, name in socket.if_nameindex() if name in interfaces]
            _send_unless_gone([rtnetlink.join_group(index, name, group) for index, name in present])
            _send_unless_gone([rtnetlink.delete_group(group)])

        try:
            inside(self._home.path, remove_here)
        except OSError as error:
            raise TestbedError(f"cannot remove interfaces of {self._home.name}: {error}") from error

    def _delete_ours(self) -> None:
        for entry in self._ours:
            remove_link(entry.name)


def _send_unless_gone(requests: Sequence[Request]) -> None:
    """Send requests about interfaces that may go meanwhile, with their other end or by their maker."""
    try:
        rtnetlink.send(*requests)
    except KernelRefusedError as error:
        if error.code != errno.ENODEV:
            raise


def _collision(pair: VethPair) -> str:
    for end in (pair.local, pair.peer):
        if inside(end.namespace, partial(interface_exists, end.name)):
            return (
                f"cannot make interface {end.name!r}: there is one of this name in {end.namespace.name}, "
                "which is left alone; use another name"
            )
    return f"cannot make the veth pair {pair.local.name} - {pair.peer.name}: one of the names is in use"
