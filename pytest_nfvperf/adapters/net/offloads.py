"""Offloads of interfaces by ethtool netlink (Documentation/networking/ethtool-netlink.rst, ethtool(8) -K).

pyroute2 has the family's header and bitsets, not its feature messages: its ``Ethtool.set_features`` is the
older ioctl, which does not say what did not take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pyroute2.netlink import genlmsg
from pyroute2.netlink.generic.ethtool import (
    ETHTOOL_GENL_NAME,
    ETHTOOL_GENL_VERSION,
    ETHTOOL_MSG_FEATURES_GET,
    ETHTOOL_MSG_FEATURES_SET,
    ethtoolbitset,
    ethtoolheader,
)

from pytest_nfvperf.adapters.net.families import HEADER_BYTES, family_number
from pytest_nfvperf.adapters.net.netlink import NETLINK_GENERIC, Netlink, Request, attributes
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.ports import Offloads

FEATURES: Mapping[str, tuple[str, ...]] = {
    "tso": (
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp-mangleid-segmentation",
    ),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro",),
    "tx_checksum": (
        "tx-checksum-ip-generic",
        "tx-checksum-ipv4",
        "tx-checksum-ipv6",
        "tx-checksum-sctp",
    ),
    "rx_checksum": ("rx-checksum",),
}
"""The kernel's features (netdev_features_strings) behind each word of ethtool -K; a device has some of a group."""

_ORDER = ("tx_checksum", "rx_checksum", "gso", "gro", "tso")
"""Checksums first: without them the kernel takes segmentation away."""

_HW, _ACTIVE = 2, 4  # ETHTOOL_A_FEATURES_*, linux/ethtool_netlink.h
_BITSET_BITS, _BIT_NAME, _BIT_VALUE = 3, 2, 3
_BITSET_NOMASK = 1


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of an interface. ``fixed``: its driver does not let it be changed."""

    active: bool
    fixed: bool


class _FeaturesMessage(genlmsg):  # type: ignore[misc]
    nla_map = (
        ("ETHTOOL_A_FEATURES_UNSPEC", "none"),
        ("ETHTOOL_A_FEATURES_HEADER", "ethtoolheader"),
        ("ETHTOOL_A_FEATURES_HW", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_WANTED", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_ACTIVE", "ethtoolbitset"),
        ("ETHTOOL_A_FEATURES_NOCHANGE", "ethtoolbitset"),
    )
    ethtoolheader = ethtoolheader
    ethtoolbitset = ethtoolbitset


class Ethtool:
    """Features of the interfaces of the namespace that the opening thread is in."""

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_GENERIC)
        try:
            self._family = family_number(self._netlink, ETHTOOL_GENL_NAME)
        except BaseException:
            self._netlink.close()
            raise

    def close(self) -> None:
        self._netlink.close()

    def apply(self, interface: str, wanted: Offloads) -> None:
        """Set what is not None, and check it; TestbedError names the offload that did not change, and why."""
        switches = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
        switches = {name: on for name, on in switches.items() if on is not None}
        if not switches:
            return
        known = self.features(interface)
        for name in sorted(switches, key=_ORDER.index):
            self._switch(interface, name, switches[name], known)
        now = self.read(interface)
        for name, on in switches.items():
            if getattr(now, name) is not on:
                raise TestbedError(_did_not_change(interface, name, on, self.features(interface)))

    def _switch(self, interface: str, name: str, on: bool, known: Mapping[str, Feature]) -> None:
        changeable = [feature for feature in FEATURES[name] if feature in known and not known[feature].fixed]
        if not changeable:
            return
        request = self._message(ETHTOOL_MSG_FEATURES_SET, interface)
        bits = [_bit(feature, on) for feature in changeable]
        request["attrs"].append(["ETHTOOL_A_FEATURES_WANTED", {"attrs": [["ETHTOOL_A_BITSET_BITS", {"attrs": bits}]]}])
        self._netlink.ask(Request(f"switch {name} of {interface} {_on_off(on)}", request))

    def read(self, interface: str) -> Offloads:
        """What is active now; None for an offload that the interface does not know."""
        known = self.features(interface)
        return Offloads(**{name: _active(known, names) for name, names in FEATURES.items()})

    def features(self, interface: str) -> dict[str, Feature]:
        """Every feature of an interface by the kernel's name."""
        request = Request(f"read the offloads of {interface}", self._message(ETHTOOL_MSG_FEATURES_GET, interface))
        (answer,) = self._netlink.ask(request)
        bitsets = dict(attributes(answer[HEADER_BYTES:]))
        changeable, active = _names(bitsets[_HW]), _names(bitsets[_ACTIVE])
        known = _names(bitsets[_HW], unset_too=True) | active
        return {name: Feature(active=name in active, fixed=name not in changeable) for name in known}

    def _message(self, command: int, interface: str) -> Any:
        message = _FeaturesMessage()
        message["header"]["type"] = self._family
        message["cmd"], message["version"] = command, ETHTOOL_GENL_VERSION
        message["attrs"] = [["ETHTOOL_A_FEATURES_HEADER", {"attrs": [["ETHTOOL_A_HEADER_DEV_NAME", interface]]}]]
        return message


def _bit(feature: str, on: bool) -> list[Any]:
    attrs: list[Any] = [["ETHTOOL_A_BITSET_BIT_NAME", feature]]
    if on:
        attrs.append(["ETHTOOL_A_BITSET_BIT_VALUE", True])
    return ["ETHTOOL_A_BITSET_BITS_BIT", {"attrs": attrs}]


def _names(bitset: bytes, *, unset_too: bool = False) -> set[str]:
    """Names of the bits that are set. A bitset without a mask lists these alone, one with a mask marks them."""
    parts = dict(attributes(bitset))
    names = set()
    for _, bit in attributes(parts.get(_BITSET_BITS, b"")):
        inside = dict(attributes(bit))
        if _BITSET_NOMASK in parts or _BIT_VALUE in inside or unset_too:
            names.add(inside[_BIT_NAME].rstrip(b"\0").decode())
    return names


def _active(known: Mapping[str, Feature], names: Sequence[str]) -> bool | None:
    """On when any of a group is on, as ethtool -k shows it; None when there is none."""
    present = [known[name].active for name in names if name in known]
    return any(present) if present else None


def _did_not_change(interface: str, offload: str, on: bool, known: Mapping[str, Feature]) -> str:
    members = [name for name in FEATURES[offload] if name in known]
    seen = ", ".join(
        f"{name}: {_on_off(known[name].active)}{' [fixed]' if known[name].fixed else ''}" for name in members
    )
    fixed = all(known[name].fixed for name in members)
    why = "its driver does not let it be changed" if fixed else "its driver, or an offload that it needs, forbids it"
    return (
        f"{offload} of interface {interface!r} cannot be switched {_on_off(on)}: {why}; "
        f"the kernel says {seen or 'nothing of it'}"
    )


def _on_off(on: bool) -> str:
    return "on" if on else "off"
