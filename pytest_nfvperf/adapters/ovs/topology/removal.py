"""A topology taken out of OVS again, in one transaction, as fast as it was put in.

The kernel takes 10 to 20 ms for each tap and for each packet socket that goes, and vswitchd lets them go one after the
other. So the bridges' taps are removed together while it is at it, and its packet sockets are held until it has
closed them (see ``held_sockets``).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress

import ovs.db.idl

from pytest_nfvperf.adapters.net.held_sockets import HeldSockets
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.topology.port_maker import PortMaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.topology import Topology

_NOISY = ("netdev_linux", "bridge", "netdev", "dpif_netdev")
"""Modules of vswitchd (ovs-appctl vlog/list) that complain of an interface that is gone."""


def remove_from_ovs(
    instance: RunningOvs, port_maker: PortMaker, topology: Topology, interfaces: Collection[str], deadline_s: float
) -> None:
    """Remove a topology's bridges, with all on them, from OVS. Nothing to do where OVS has died.

    ``port_maker``: removes the bridges' own taps, nothing else. ``interfaces``: the ports' kernel interfaces.

    Raises:
        TestbedError: OVS does not take it, or not in time.
    """
    if not instance.running():
        return
    instance.db.refresh()
    rows = instance.db.rows("Bridge")
    present = [rows[name] for name in topology.bridges if name in rows]
    if not present:
        return
    userspace = instance.owned and instance.options.datapath_type == "netdev"

    def remove_taps() -> None:
        """Not before OVS begins: it would look for what became of them, bridge by bridge."""
        if userspace:
            port_maker.remove(topology.bridges)

    def delete(_: ovs.db.idl.Transaction) -> None:
        for row in present:
            instance.db.root.delvalue("bridges", row)

    _log_level(instance, "off")
    with closing(HeldSockets(instance.pid, interfaces if userspace else ())):
        what = f"removal of topology {topology.name}"
        instance.db.transact(delete, what, deadline_s, meanwhile=remove_taps)
    _log_level(instance, "info")
    instance.forget_bridges(topology.bridges)


def _log_level(instance: RunningOvs, level: str) -> None:
    """What OVS logs while its taps go is no evidence, and must not appear in a later error."""
    if not instance.owned:
        return
    with suppress(TestbedError):  # a vswitchd that does not answer this is removed from as well
        for module in _NOISY:
            instance.ctl.call("vlog/set", f"{module}:file:{level}", deadline_s=1.0)
