"""Ends of virtual links: their state, their offloads, and how they were before a program changed them."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyroute2.netlink import genlmsg
from pyroute2.netlink.generic import ethtool as pyroute2_ethtool

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.netlink import (
    HEADER_BYTES,
    NETLINK_GENERIC,
    Netlink,
    Request,
    attributes,
    family_number,
)
from pytest_nfvperf.adapters.net.threads import enter, in_own_thread, open_namespaces
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.ports import AS_IT_IS, Offloads

_RUNNING, _LOWER_UP = 0x40, 0x10000  # IFF_RUNNING, IFF_LOWER_UP
_MTU, _CARRIER_DOWN = 4, 48  # IFLA_MTU, IFLA_CARRIER_DOWN_COUNT

_FEATURES: Mapping[str, tuple[str, ...]] = {
    "tx_checksum": ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-sctp"),
    "rx_checksum": ("rx-checksum",),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro",),
    "tso": ("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"),
}
"""The kernel's features (netdev_features_strings) behind each word of ethtool -K; a device has some of a group.

In the order of setting them, checksums first: without them the kernel takes segmentation away.
"""

_HW, _ACTIVE = 2, 4  # ETHTOOL_A_FEATURES_*, linux/ethtool_netlink.h
_BITSET_BITS, _BIT_NAME, _BIT_VALUE = 3, 2, 3
_BITSET_NOMASK = 1

OWN_NAMESPACE = Path("/proc/self/ns/net")
"""The namespace of this process and of generators."""

Routes = Mapping[Path, Sequence[tuple[str, str]]]
"""(destination, gateway) pairs such as ("10.2.0.0/24", "10.1.0.254"), by the files of namespaces."""

_IPV6 = Path("/proc/sys/net/ipv6/conf")


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of an interface.

    Attributes:
        index: the kernel's number.
        mtu: bytes without Ethernet header and FCS.
        carrier: its other end exists and is up.
        running: the kernel has noticed the carrier, too, and no longer drops sent frames.
        losses: how often it lost its link since it was made.
    """

    index: int
    mtu: int
    carrier: bool
    running: bool
    losses: int

    def __str__(self) -> str:
        link = "up" if self.carrier else "down"
        return f"mtu={self.mtu} link={link}" + ("" if self.running == self.carrier else " (not yet sent on)")


def read_links() -> dict[str, LinkState]:
    links = {}
    with Netlink() as netlink:
        for index, name, flags, fields in rtnetlink.list_links(netlink):
            mtu, losses = (int.from_bytes(fields.get(key, b""), "little") for key in (_MTU, _CARRIER_DOWN))
            links[name] = LinkState(index, mtu, bool(flags & _LOWER_UP), bool(flags & _RUNNING), losses)
    return links


class _FeaturesMessage(genlmsg):  # type: ignore[misc]
    nla_map = (
        ("ETHTOOL_A_FEATURES_UNSPEC", "none"),
        ("ETHTOOL_A_FEATURES_HEADER", "ethtoolheader"),
        ("ETHTOOL_A_FEATURES_HW", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_WANTED", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_ACTIVE", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_NOCHANGE", "ethtoolbitset"),
    )
    ethtoolheader = pyroute2_ethtool.ethtoolheader
    ethtoolbitset = pyroute2_ethtool.ethtoolbitset


class Ethtool:
    """Offloads of interfaces in the socket's namespace.

    By ethtool netlink (Documentation/networking/ethtool-netlink.rst, ethtool(8) -K). pyroute2 has the family's header
    and bitsets, but not its feature messages: its ``Ethtool.set_features`` is the older ioctl, which does not report
    what could not be changed.
    """

    def __init__(self, netlink: Netlink) -> None:
        """``netlink``: of the family NETLINK_GENERIC."""
        self._netlink = netlink
        self._family = family_number(netlink, pyroute2_ethtool.ETHTOOL_GENL_NAME)

    def apply(self, interface: str, wanted: Offloads) -> None:
        """Set what is not None, and check it; TestbedError names the offload that did not change, and the reason."""
        switches: dict[str, bool] = {name: on for name, on in asdict(wanted).items() if on is not None}
        if not switches:
            return
        features = self.features(interface)
        for name in _FEATURES:
            if name in switches:
                self._switch(interface, name, switches[name], features)
        now = self.read(interface)
        for name, on in switches.items():
            if getattr(now, name) is not on:
                raise TestbedError(_not_changed(interface, name, on, self.features(interface)))

    def _switch(self, interface: str, name: str, on: bool, features: Mapping[str, tuple[bool, bool]]) -> None:
        changeable = [feature for feature in _FEATURES[name] if feature in features and not features[feature][1]]
        if not changeable:
            return
        value: list[Any] = [["ETHTOOL_A_BITSET_BIT_VALUE", True]] if on else []
        bits = [
            ["ETHTOOL_A_BITSET_BITS_BIT", {"attrs": [["ETHTOOL_A_BITSET_BIT_NAME", feature], *value]}]
            for feature in changeable
        ]
        request = self._message(pyroute2_ethtool.ETHTOOL_MSG_FEATURES_SET, interface)
        request["attrs"].append(["ETHTOOL_A_FEATURES_WANTED", {"attrs": [["ETHTOOL_A_BITSET_BITS", {"attrs": bits}]]}])
        self._netlink.ask(Request(f"switch {name} of {interface} {_on_off(on)}", request))

    def read(self, interface: str) -> Offloads:
        """The active offloads; None for one that the interface does not know."""
        features = self.features(interface)
        offloads: dict[str, bool | None] = {}
        for offload, names in _FEATURES.items():
            present = [features[name][0] for name in names if name in features]
            # as ethtool -k shows it: on if any of a group is on
            offloads[offload] = any(present) if present else None
        return Offloads(**offloads)

    def features(self, interface: str) -> dict[str, tuple[bool, bool]]:
        """By name whether each is active, and whether it is fixed: its driver does not let it be changed."""
        request = Request(
            f"read the offloads of {interface}", self._message(pyroute2_ethtool.ETHTOOL_MSG_FEATURES_GET, interface)
        )
        (answer,) = self._netlink.ask(request)
        bitsets = dict(attributes(answer[HEADER_BYTES:]))
        changeable, active = _names(bitsets[_HW]), _names(bitsets[_ACTIVE])
        every = _names(bitsets[_HW], unset_too=True) | active
        return {name: (name in active, name not in changeable) for name in every}

    def _message(self, command: int, interface: str) -> Any:
        message = _FeaturesMessage()
        message["header"]["type"] = self._family
        message["cmd"], message["version"] = command, pyroute2_ethtool.ETHTOOL_GENL_VERSION
        message["attrs"] = [["ETHTOOL_A_FEATURES_HEADER", {"attrs": [["ETHTOOL_A_HEADER_DEV_NAME", interface]]}]]
        return message


def _names(bitset: bytes, *, unset_too: bool = False) -> set[str]:
    """Names of the bits that are set. A bitset without a mask lists only these; one with a mask marks them."""
    parts = dict(attributes(bitset))
    bits = [dict(attributes(bit)) for _, bit in attributes(parts.get(_BITSET_BITS, b""))]
    every = unset_too or _BITSET_NOMASK in parts
    return {bit[_BIT_NAME].rstrip(b"\0").decode() for bit in bits if every or _BIT_VALUE in bit}


def _not_changed(interface: str, offload: str, on: bool, features: Mapping[str, tuple[bool, bool]]) -> str:
    members = {name: features[name] for name in _FEATURES[offload] if name in features}
    states = ", ".join(
        f"{name}: {_on_off(active)}{' [fixed]' if fixed else ''}" for name, (active, fixed) in members.items()
    )
    fixed = all(fixed for _, fixed in members.values())
    why = "its driver does not let it be changed" if fixed else "its driver, or an offload that it needs, forbids it"
    return (
        f"{offload} of interface {interface!r} cannot be switched {_on_off(on)}: {why}; "
        f"the kernel says {states or 'nothing of it'}"
    )


def _on_off(on: bool) -> str:
    return "on" if on else "off"


@dataclass(frozen=True, slots=True)
class End:
    """One end of a veth pair, in the namespace of this file; addresses such as "10.1.0.1/24"."""

    name: str
    namespace: Path
    mac: str | None = None
    addresses: tuple[str, ...] = ()
    offloads: Offloads = AS_IT_IS


@dataclass(frozen=True, slots=True)
class MovedInterface:
    """An interface ``name`` made by a datapath that moves to ``end``. ``mtu``: without Ethernet header and FCS."""

    name: str
    end: End
    mtu: int


@dataclass(frozen=True, slots=True)
class VethPair:
    """A veth pair; ``local`` is in the datapath's namespace. ``mtu``: without Ethernet header and FCS, of both ends."""

    local: End
    peer: End
    mtu: int = 1500
    queues: int = 1


def configure(ends: Sequence[End], routes: Routes | None = None, mtus: Mapping[End, int] | None = None) -> None:
    """Bring interfaces up, set their addresses and offloads, then add routes.

    ``mtus``: of interfaces that were made without their MTU and MAC.
    """

    def configure_all() -> None:
        for namespace, own in _inside_each_namespace(ends):
            _configure_here(own, (routes or {}).get(namespace, ()), mtus or {})

    in_own_thread(configure_all)


def _inside_each_namespace(ends: Iterable[End]) -> Iterator[tuple[Path, list[End]]]:
    """Enter one namespace of the ends after the other; gives its ends. For a thread of its own."""
    by_namespace: dict[Path, list[End]] = defaultdict(list)
    for end in ends:
        by_namespace[end.namespace].append(end)
    for namespace, own in by_namespace.items():
        enter(namespace)
        yield namespace, own


def _configure_here(ends: Sequence[End], routes: Sequence[tuple[str, str]], mtus: Mapping[End, int]) -> None:
    requests = []
    for end in ends:
        # IPv6 is on only for an address: otherwise the kernel's own MLD and RS frames would be in the trial.
        write_disable_ipv6(end.name, "0" if any(":" in address for address in end.addresses) else "1")
        index = socket.if_nametoindex(end.name)
        late: dict[str, Any] = {"mtu": mtus[end]} if end in mtus else {}
        if end in mtus and end.mac is not None:
            late["address"] = end.mac
        requests.append(rtnetlink.set_up(index=index, name=end.name, **late))
        requests += [rtnetlink.address(index, end.name, address) for address in end.addresses]
    requests += [rtnetlink.route(destination, gateway) for destination, gateway in routes]
    rtnetlink.send(*requests)
    changed = [end for end in ends if end.offloads != AS_IT_IS]
    if changed:
        with Netlink(NETLINK_GENERIC) as netlink:
            ethtool = Ethtool(netlink)
            for end in changed:
                ethtool.apply(end.name, end.offloads)


def read_disable_ipv6(interface: str) -> str | None:
    """The interface's disable_ipv6, "0" or "1"; None on a kernel without IPv6."""
    switch = _IPV6 / interface / "disable_ipv6"
    return switch.read_text(encoding="ascii").strip() if switch.exists() else None


def write_disable_ipv6(interface: str, value: str) -> None:
    """Does nothing on a kernel without IPv6."""
    switch = _IPV6 / interface / "disable_ipv6"
    if switch.exists():
        switch.write_text(value, encoding="utf-8")


def interface_exists(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def set_admin_state(name: str, *, up: bool) -> None:
    """Set an interface of the calling thread's namespace up or down, as ip-link(8) does; OSError if it is missing."""
    change = rtnetlink.set_up if up else rtnetlink.set_down
    rtnetlink.send(change(index=socket.if_nametoindex(name), name=name))


def not_running(ends: Iterable[End]) -> list[str]:
    """Interfaces on which the kernel still drops sent frames."""

    def look() -> list[str]:
        waiting = []
        for _, own in _inside_each_namespace(ends):
            states = read_links()
            waiting += [end.name for end in own if end.name not in states or not states[end.name].running]
        return waiting

    return in_own_thread(look)


def offload_lines(ends: Iterable[End]) -> list[str]:
    """The current offloads of every end for which some were set, as text."""

    def look() -> list[str]:
        lines = []
        for namespace, own in _inside_each_namespace(end for end in ends if end.offloads != AS_IT_IS):
            with Netlink(NETLINK_GENERIC) as netlink:
                ethtool = Ethtool(netlink)
                for end in own:
                    values = {key: on for key, on in asdict(ethtool.read(end.name)).items() if on is not None}
                    text = " ".join(f"{key}={_on_off(on)}" for key, on in values.items())
                    lines.append(f"offloads of {end.name} in {namespace.name}: {text}")
        return lines

    return in_own_thread(look)


def move_links(moves: Iterable[tuple[str, Path, str]]) -> None:
    """Move interfaces of the calling thread's namespace: each one's name, its new namespace, and its name there."""
    with open_namespaces() as handle, Netlink() as netlink:
        netlink.send(
            [rtnetlink.move(socket.if_nametoindex(name), name, handle(target), new) for name, target, new in moves]
        )
