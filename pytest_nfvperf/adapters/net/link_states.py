"""Link of the interfaces of a namespace, in one request: is it there, has it link, how often did it lose it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.netlink import Netlink, attributes

_INTERFACE = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
_RUNNING, _LOWER_UP = 0x40, 0x10000  # IFF_RUNNING, IFF_LOWER_UP
_NAME, _MTU, _CARRIER_DOWN = 3, 4, 48  # IFLA_IFNAME, IFLA_MTU, IFLA_CARRIER_DOWN_COUNT


@dataclass(frozen=True, slots=True)
class LinkState:
    """An interface.

    Attributes:
        carrier: its other end is there and up.
        running: the kernel has noticed the carrier too, so it no longer drops what is sent.
        losses: how often its link went away since it was made.
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
    """All interfaces of the calling thread's namespace, by name.

    pyroute2's decoder takes a millisecond for each; this one a few microseconds.
    """
    with Netlink() as netlink:
        answers = netlink.ask(rtnetlink.list_links(), dump=True)
    return dict(_parse(answer) for answer in answers)


def _parse(answer: bytes) -> tuple[str, LinkState]:
    _, _, index, flags, _ = _INTERFACE.unpack_from(answer)
    found = dict(attributes(answer[_INTERFACE.size :]))
    name = found[_NAME].rstrip(b"\0").decode()
    mtu, losses = (int.from_bytes(found.get(key, b""), "little") for key in (_MTU, _CARRIER_DOWN))
    return name, LinkState(index, mtu, bool(flags & _LOWER_UP), bool(flags & _RUNNING), losses)
