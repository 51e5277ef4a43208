"""Interfaces of the machine that a run borrows, and gives back as they were."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.ends import OURS, exists
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import Handles, inside
from pytest_nfvperf.model.errors import ConfigError, TestbedError

# Interfaces in the namespace that we run in.


def remove_link(name: str) -> bool:
    """Remove an interface; False when it is not there, or goes away with its peer's namespace meanwhile."""
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


# Kernel interfaces of the host that a run borrows: a lab's ports, and the generator's.
#
# What is changed on one (namespace, up or down, promiscuous mode, MTU, IPv6) is journaled before it is changed,
# and put back when the run ends, by the reaper when it was killed. An interface in use is refused: one that has
# an address may be the one by which the machine is reached.

_IPV6 = Path("/proc/sys/net/ipv6/conf")
_KEPT_FLAGS = 0x1 | 0x100  # IFF_UP, IFF_PROMISC, linux/if.h
_LINK_LOCAL = 253  # RT_SCOPE_LINK, linux/rtnetlink.h


@dataclass(frozen=True, slots=True)
class Usage:
    """An interface as it was found. ``ipv6``: what disable_ipv6 says; None without IPv6. ``users``: who needs it."""

    flags: int
    mtu: int
    ipv6: str | None
    users: tuple[str, ...]


class Borrowed:
    """The interfaces that a run has borrowed. ``close()`` gives them back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: dict[str, Entry] = {}

    def take(self, interface: str, who: str, *, key: str, namespace: Path = OURS, mtu: int | None = None) -> None:
        """Bring an interface up, quiet, and in this namespace. One that is borrowed already is left as it is.

        ``who``: wants it, for messages: "port 'dpdk0'". ``key``: where the testbed file names it: "dut.ports".
        ``mtu``: bytes without Ethernet header and FCS; None leaves it.

        Raises:
            ConfigError: there is none of this name, or somebody needs it.
            TestbedError: the kernel refused.
        """
        if interface in self._entries:
            return
        found = check_free(interface, who, key)
        if namespace != OURS and inside(namespace, partial(exists, interface)):
            raise TestbedError(f"{who}: there is another interface {interface!r} in {namespace}")
        details = {"flags": found.flags, "mtu": found.mtu, "ipv6": found.ipv6, "namespace": str(namespace)}
        self._entries[interface] = self._journal.note(Kind.BORROWED, interface, **details)
        try:
            if namespace != OURS:
                _move(interface, OURS, namespace)
            inside(namespace, partial(_prepare, interface, mtu))
        except OSError as error:
            raise TestbedError(f"{who}: cannot take interface {interface!r}: {error}") from error

    def close(self) -> None:
        """Give all back; TestbedError names an interface that could not be restored."""
        for name, entry in reversed(tuple(self._entries.items())):
            try:
                give_back(entry)
            except (OSError, TestbedError) as error:
                raise TestbedError(f"interface {entry.name!r} could not be restored: {error}") from error
            self._journal.forget(entry)
            del self._entries[name]

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(self._entries)


def give_back(entry: Entry) -> bool:
    """Restore an interface as journaled; False when it is gone, or was not changed yet.

    TestbedError when another interface has its name by now.
    """
    namespace = Path(entry.details["namespace"])
    if namespace != OURS and namespace.exists() and inside(namespace, partial(exists, entry.name)):
        if exists(entry.name):
            raise TestbedError(
                f"there is another interface of this name by now; the borrowed one is in {namespace}: rename or remove "
                "the new one, then run `nfvperf clean`"
            )
        _move(entry.name, namespace, OURS)
    if not exists(entry.name):
        return False
    details = entry.details
    with Netlink() as netlink:
        index = socket.if_nametoindex(entry.name)
        flags, mtu = int(details["flags"]), int(details["mtu"])
        netlink.send([rtnetlink.set_flags(index, entry.name, flags, _KEPT_FLAGS, mtu=mtu)])
    if details["ipv6"] is not None:
        _write_ipv6(entry.name, str(details["ipv6"]))
    return True


def check_free(interface: str, who: str, key: str) -> Usage:
    """An interface as it is; ConfigError when there is none of this name, or somebody needs it."""
    if not exists(interface):
        names = ", ".join(name for _, name in socket.if_nameindex() if name != "lo")
        raise ConfigError(f"{who}: this machine has no interface {interface!r} (there are: {names or 'none'})", key=key)
    found = read_usage(interface)
    if found.users:
        raise ConfigError(
            f"{who}: interface {interface!r} is in use: {', '.join(found.users)}; a measurement would cut it off. "
            "Name another one, or free it first",
            key=key,
        )
    return found


def read_usage(interface: str) -> Usage:
    """An interface of the namespace that we run in; OSError when it is not there."""
    index = socket.if_nametoindex(interface)
    switch = _IPV6 / interface / "disable_ipv6"
    with IPRoute() as host:
        (link,) = host.get_links(index)
        addresses = [
            str(address.get_attr("IFA_ADDRESS"))
            for address in host.get_addr(index=index)
            if address["scope"] != _LINK_LOCAL
        ]
        master = link.get_attr("IFLA_MASTER")
        users = [f"it has the address {address}" for address in addresses]
        users += [f"it is a port of {socket.if_indextoname(master)}"] if master else []
        return Usage(
            int(link["flags"]) & _KEPT_FLAGS,
            int(link.get_attr("IFLA_MTU")),
            switch.read_text(encoding="ascii").strip() if switch.exists() else None,
            tuple(users),
        )


def _prepare(interface: str, mtu: int | None) -> None:
    """Up, and without IPv6, whose solicitations and reports would turn up as foreign frames in a trial."""
    _write_ipv6(interface, "1")
    changes: dict[str, Any] = {} if mtu is None else {"mtu": mtu}
    with Netlink() as netlink:
        netlink.send([rtnetlink.set_up(index=socket.if_nametoindex(interface), name=interface, **changes)])


def _write_ipv6(interface: str, value: str) -> None:
    switch = _IPV6 / interface / "disable_ipv6"
    if switch.exists():
        switch.write_text(value, encoding="utf-8")


def _move(interface: str, source: Path, target: Path) -> None:
    handles = Handles()
    try:
        handle = handles.of(target)
        inside(source, partial(_move_here, interface, handle))
    finally:
        handles.close()


def _move_here(interface: str, handle: int) -> None:
    index = socket.if_nametoindex(interface)
    with Netlink() as netlink:
        netlink.send([rtnetlink.move(index=index, name=interface, namespace=handle, new_name=interface)])
