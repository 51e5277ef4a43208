"""Interfaces in the namespace that we run in."""

from __future__ import annotations

import errno

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError


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
