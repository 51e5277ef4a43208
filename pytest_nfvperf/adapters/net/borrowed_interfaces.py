"""Interfaces of the machine that a run borrows or changes, and gives back as they were."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.ends import (
    OWN_NAMESPACE,
    interface_exists,
    move_links,
    read_disable_ipv6,
    write_disable_ipv6,
)
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind
from pytest_nfvperf.model.errors import ConfigError, TestbedError, run_all

_FLAGS = 0x1 | 0x100  # IFF_UP, IFF_PROMISC, linux/if.h
_LINK_LOCAL = 253  # RT_SCOPE_LINK, linux/rtnetlink.h


def remove_link(name: str) -> bool:
    """Remove an interface of our own namespace; False if it is missing, or goes with its peer's namespace meanwhile."""
    with IPRoute() as host:
        for index in host.link_lookup(ifname=name):
            try:
                host.link("del", index=index)
            except NetlinkError as error:
                if error.code != errno.ENODEV:
                    raise
                return False
            return True
    return False


@dataclass(frozen=True, slots=True)
class InterfaceUse:
    """The original state of an interface. ``ipv6``: its disable_ipv6; None without IPv6. ``users``: who needs it."""

    flags: int
    mtu: int
    ipv6: str | None
    users: tuple[str, ...]


class BorrowedInterfaces:
    """Interfaces of the host that a run borrows: a lab's ports, and the generator's. ``close()`` restores them.

    The namespace, up or down, promiscuous mode, MTU and IPv6 are journaled before they change, and restored at the end
    of the run, or by the reaper if it was killed. An interface in use is refused: one with an address may be the one by
    which the machine is reached.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: dict[str, Entry] = {}

    def take(
        self, interface: str, who: str, *, key: str, namespace: Path = OWN_NAMESPACE, mtu: int | None = None
    ) -> None:
        """Move an interface into this namespace and bring it up without IPv6. A borrowed one stays as it is.

        ``who``: the user, for messages: "port 'dpdk0'". ``key``: of the testbed file: "dut.ports".
        ``mtu``: bytes without Ethernet header and FCS; None leaves it.

        Raises:
            ConfigError: there is none of this name, or somebody needs it.
            TestbedError: the kernel refused.
        """
        if interface in self._entries:
            return
        use = check_free(interface, who, key)
        if namespace != OWN_NAMESPACE and inside(namespace, partial(interface_exists, interface)):
            raise TestbedError(f"{who}: there is another interface {interface!r} in {namespace}")
        details = {"flags": use.flags, "mtu": use.mtu, "ipv6": use.ipv6, "namespace": str(namespace)}
        self._entries[interface] = self._journal.note(Kind.BORROWED, interface, **details)
        try:
            if namespace != OWN_NAMESPACE:
                inside(OWN_NAMESPACE, partial(move_links, [(interface, namespace, interface)]))
            inside(namespace, partial(_prepare, interface, mtu))
        except OSError as error:
            raise TestbedError(f"{who}: cannot take interface {interface!r}: {error}") from error

    def close(self) -> None:
        """Restore every one. TestbedError names the first interface that could not be restored."""
        run_all(partial(self._restore, name) for name in reversed(tuple(self._entries)))

    def _restore(self, name: str) -> None:
        entry = self._entries[name]
        try:
            restore_borrowed(entry)
        except (OSError, TestbedError) as error:
            raise TestbedError(f"interface {entry.name!r} could not be restored: {error}") from error
        self._journal.forget(entry)
        del self._entries[name]

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(self._entries)


def restore_borrowed(entry: Entry) -> bool:
    """Restore an interface as journaled; False if it is gone. TestbedError if another one has its name now."""
    namespace = Path(entry.details["namespace"])
    if namespace != OWN_NAMESPACE and namespace.exists() and inside(namespace, partial(interface_exists, entry.name)):
        if interface_exists(entry.name):
            raise TestbedError(
                f"there is another interface of this name by now; the borrowed one is in {namespace}: rename or remove "
                "the new one, then run `nfvperf clean`"
            )
        inside(namespace, partial(move_links, [(entry.name, OWN_NAMESPACE, entry.name)]))
    if not interface_exists(entry.name):
        return False
    index, flags, mtu = socket.if_nametoindex(entry.name), int(entry.details["flags"]), int(entry.details["mtu"])
    rtnetlink.send(rtnetlink.set_flags(index, entry.name, flags, _FLAGS, mtu=mtu))
    if entry.details["ipv6"] is not None:
        write_disable_ipv6(entry.name, str(entry.details["ipv6"]))
    return True


def check_free(interface: str, who: str, key: str) -> InterfaceUse:
    """The state of an interface; TestbedError if there is none of this name, ConfigError if somebody needs it."""
    if not interface_exists(interface):
        names = ", ".join(name for _, name in socket.if_nameindex() if name != "lo")
        absent = f"{who}: this machine has no interface {interface!r} (there are: {names or 'none'})"
        raise TestbedError(f"{key and f'{key}: '}{absent}")
    use = read_interface_use(interface)
    if use.users:
        raise ConfigError(
            f"{who}: interface {interface!r} is in use: {', '.join(use.users)}; a measurement would cut it off. "
            "Name another one, or free it first",
            key=key,
        )
    return use


def read_interface_use(interface: str) -> InterfaceUse:
    """The state of an interface of our own namespace; OSError if it is missing."""
    index = socket.if_nametoindex(interface)
    with IPRoute() as host:
        (link,) = host.get_links(index)
        master = link.get_attr("IFLA_MASTER")
        users = [f"it has the address {address}" for address in _addresses(host, index)]
        users += [f"it is a port of {socket.if_indextoname(master)}"] if master else []
        users += ["the default route leads by it"] if _has_default_route(host, index) else []
        for upper in _uppers(host, index):
            name = upper.get_attr("IFLA_IFNAME")
            users += [f"{name} on it has the address {address}" for address in _addresses(host, upper["index"])]
        return InterfaceUse(
            int(link["flags"]) & _FLAGS, int(link.get_attr("IFLA_MTU")), read_disable_ipv6(interface), tuple(users)
        )


def _addresses(host: IPRoute, index: int) -> list[str]:
    addresses = host.get_addr(index=index)
    return [str(address.get_attr("IFA_ADDRESS")) for address in addresses if address["scope"] != _LINK_LOCAL]


def _has_default_route(host: IPRoute, index: int) -> bool:
    """Whether a default route of any table and family leaves by an interface, alone or as one of several hops."""
    for route in host.get_routes():
        hops = [route.get_attr("RTA_OIF"), *(hop["oif"] for hop in route.get_attr("RTA_MULTIPATH") or ())]
        if route["dst_len"] == 0 and index in hops:
            return True
    return False


def _uppers(host: IPRoute, index: int) -> list[Any]:
    """Interfaces on top of one, such as VLANs. The link of a veth pair is its peer, which needs nobody."""
    above = (link for link in host.get_links() if link.get_attr("IFLA_LINK") == index)
    return [link for link in above if (link.get_attr("IFLA_LINKINFO") or {}).get("IFLA_INFO_KIND") != "veth"]


def _prepare(interface: str, mtu: int | None) -> None:
    # IPv6's solicitations and reports would be foreign frames in a trial.
    write_disable_ipv6(interface, "1")
    changes: dict[str, Any] = {} if mtu is None else {"mtu": mtu}
    rtnetlink.send(rtnetlink.set_up(index=socket.if_nametoindex(interface), name=interface, **changes))
