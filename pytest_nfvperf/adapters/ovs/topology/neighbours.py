"""Tells a datapath the MAC address of a tunnel's other end. ARP would find it, and lose frames meanwhile."""

from __future__ import annotations

import socket

from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.model.errors import TestbedError


def tell_neighbour(ovs: RunningOvs, bridge: str, far: str, mac: str) -> None:
    """Set the MAC address of a tunnel's far end; ``bridge``: its local port sends the tunnel's frames.

    Userspace OVS takes it by ``tnl/neigh/set`` (ovs-vswitchd(8)); the kernel's datapath uses the kernel's own table.
    """
    if ovs.options.datapath_type != "system":
        ovs.ctl.call("tnl/neigh/set", bridge, far, mac)
        return

    def tell() -> None:
        with Netlink() as netlink:
            netlink.send([rtnetlink.neighbour(socket.if_nametoindex(bridge), bridge, far, mac)])

    try:
        inside(ovs.home.path, tell)
    except OSError as error:
        raise TestbedError(f"cannot tell {bridge} of a tunnel's other end: {error}") from error
