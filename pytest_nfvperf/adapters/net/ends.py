"""Interfaces where they belong: brought up, with their addresses, offloads and routes, and looked at.

All of a step is done by one thread, which enters one namespace after the other.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.link_states import read_links
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.offloads import Ethtool
from pytest_nfvperf.adapters.net.threads import enter, in_own_thread
from pytest_nfvperf.model.topology.ports import AS_IT_IS, Offloads

OURS = Path("/proc/self/ns/net")
"""The namespace that this process runs in, where generators are."""

Routes = Mapping[Path, Sequence[tuple[str, str]]]
"""(destination, gateway) pairs such as ("10.2.0.0/24", "10.1.0.254"), by the namespaces' files."""

_IPV6 = Path("/proc/sys/net/ipv6/conf")


@dataclass(frozen=True, slots=True)
class End:
    """One end of a veth pair, in the namespace of this file, with addresses such as "10.1.0.1/24"."""

    name: str
    namespace: Path
    mac: str | None = None
    addresses: tuple[str, ...] = ()
    offloads: Offloads = AS_IT_IS

    @property
    def needs_more(self) -> bool:
        """False for a local end that being up is enough for, which it is from the start."""
        return bool(self.addresses) or self.offloads != AS_IT_IS


@dataclass(frozen=True, slots=True)
class Moved:
    """An interface that a datapath made at home and that is moved to where ``end`` says, with its name there.

    ``mtu``: bytes without Ethernet header and FCS.
    """

    name: str
    end: End
    mtu: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A veth pair. ``near`` is at home. ``mtu``: bytes without Ethernet header and FCS, of both ends."""

    near: End
    far: End
    mtu: int = 1500
    queues: int = 1


def configure(ends: Sequence[End], routes: Routes | None = None, mtus: Mapping[End, int] | None = None) -> None:
    """Bring interfaces up, give them addresses and offloads, then make routes, by the namespaces' files.

    ``mtus``: of interfaces that did not get their MTU and MAC when they were made.
    """
    by_namespace: dict[Path, list[End]] = defaultdict(list)
    for end in ends:
        by_namespace[end.namespace].append(end)

    def all_of_them() -> None:
        for namespace, inside_it in by_namespace.items():
            enter(namespace)
            _configure_here(inside_it, (routes or {}).get(namespace, ()), mtus or {})

    in_own_thread(all_of_them)


def _configure_here(ends: Sequence[End], routes: Sequence[tuple[str, str]], mtus: Mapping[End, int]) -> None:
    requests = []
    for end in ends:
        # IPv6 is on only where it has an address: else the kernel's own MLD and RS frames are in the trial.
        switch = _IPV6 / end.name / "disable_ipv6"
        if switch.exists():
            switch.write_text("0" if any(":" in address for address in end.addresses) else "1", encoding="utf-8")
        index = socket.if_nametoindex(end.name)
        late: dict[str, Any] = {"mtu": mtus[end]} if end in mtus else {}
        if end in mtus and end.mac is not None:
            late["address"] = end.mac
        requests.append(rtnetlink.set_up(index=index, name=end.name, **late))
        requests += [rtnetlink.address(index, end.name, address) for address in end.addresses]
    requests += [rtnetlink.route(destination, gateway) for destination, gateway in routes]
    with Netlink() as netlink:
        netlink.send(requests)
    changed = [end for end in ends if end.offloads != AS_IT_IS]
    if changed:
        with closing(Ethtool()) as ethtool:
            for end in changed:
                ethtool.apply(end.name, end.offloads)


def exists(name: str) -> bool:
    """True when the namespace of the calling thread has an interface of this name."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def not_running(by_namespace: Mapping[Path, Sequence[str]]) -> list[str]:
    """Interfaces that the kernel still drops what is sent on. Enters namespaces: for a thread of its own."""
    waiting = []
    for namespace, names in by_namespace.items():
        enter(namespace)
        states = read_links()
        waiting += [name for name in names if name not in states or not states[name].running]
    return waiting


def offload_lines(changed: Mapping[Path, Sequence[str]]) -> list[str]:
    """Offloads as they are now, as text. Enters namespaces: for a thread of its own."""
    lines = []
    for namespace, names in changed.items():
        enter(namespace)
        with closing(Ethtool()) as ethtool:
            lines += [f"offloads of {name} in {namespace.name}: {_offload_text(ethtool.read(name))}" for name in names]
    return lines


def _offload_text(offloads: Offloads) -> str:
    values = asdict(offloads)
    return " ".join(f"{name}={'on' if on else 'off'}" for name, on in values.items() if on is not None)
