"""Interfaces that a program of ours changes where they are, such as TRex, which makes its own promiscuous.

How they were is journaled before the program starts, and put back after it: at the end of the run, or by the
reaper when it was killed. They stay in their namespace, and up or down as they are.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.ends import OURS, exists
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside

_KEPT_FLAGS = 0x100 | 0x200  # IFF_PROMISC, IFF_ALLMULTI, linux/if.h


def keep(journal: Journal, interfaces: Sequence[str], namespace: Path = OURS) -> list[Entry]:
    """Journal how interfaces are. OSError when one is not there."""
    settings = inside(namespace, lambda: {name: _read(name) for name in interfaces})
    return [
        journal.note(Kind.SETTINGS, name, namespace=str(namespace), flags=flags, mtu=mtu)
        for name, (flags, mtu) in settings.items()
    ]


def put_back(entry: Entry) -> bool:
    """Restore an interface as journaled; False when nothing differs, or it is gone."""
    namespace = Path(entry.details["namespace"])
    return namespace.exists() and inside(namespace, partial(_restore, entry))


def _read(interface: str) -> tuple[int, int]:
    """The flags that we keep, and the MTU."""
    with IPRoute() as links:
        (link,) = links.get_links(socket.if_nametoindex(interface))
        return int(link["flags"]) & _KEPT_FLAGS, int(link.get_attr("IFLA_MTU"))


def _restore(entry: Entry) -> bool:
    flags, mtu = int(entry.details["flags"]), int(entry.details["mtu"])
    if not exists(entry.name) or _read(entry.name) == (flags, mtu):
        return False
    with Netlink() as netlink:
        index = socket.if_nametoindex(entry.name)
        netlink.send([rtnetlink.set_flags(index, entry.name, flags, _KEPT_FLAGS, mtu=mtu)])
    return True
