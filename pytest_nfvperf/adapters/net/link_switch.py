"""A link that is set down and up, as by somebody who pulls its cable: a fault that tests make on purpose."""

from __future__ import annotations

import socket
from functools import partial

from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import TestbedError


class LinkSwitch:
    """Of one interface of ours in a namespace. Where it was left down, ``close`` sets it up again.

    Args:
        namespace: its name under /run/netns.
        interface: its name in there; its addresses stay while it is down, but for link-local ones of IPv6.
    """

    def __init__(self, namespace: str, interface: str) -> None:
        self._namespace = namespace
        self._interface = interface
        self._is_down = False

    def down(self) -> None:
        """Set it down; its peer, if it is one of a pair, loses its carrier. TestbedError when it is not there."""
        self._is_down = True
        self._set(up=False)

    def up(self) -> None:
        """Set it up; TestbedError when it is not there."""
        self._set(up=True)
        self._is_down = False

    def close(self) -> None:
        """Leave it up. Can be called twice."""
        if self._is_down:
            self.up()

    def _set(self, *, up: bool) -> None:
        try:
            inside(NETNS_DIRECTORY / self._namespace, partial(self._set_here, up=up))
        except OSError as error:
            way = "up" if up else "down"
            raise TestbedError(
                f"cannot set {self._interface} in namespace {self._namespace} {way}: {error.strerror or error}"
            ) from error

    def _set_here(self, *, up: bool) -> None:
        index = socket.if_nametoindex(self._interface)
        change = rtnetlink.set_up if up else rtnetlink.set_down
        with Netlink() as netlink:
            netlink.send([change(index=index, name=self._interface)])
