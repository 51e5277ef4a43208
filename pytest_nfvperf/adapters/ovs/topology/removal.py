"""A topology taken out of OVS again, in one transaction, as fast as it was put in.

The kernel takes 10 to 20 ms for each tap and for each packet socket that goes, and vswitchd lets them go one after the
other. So the bridges' taps are removed together while it is at it, and its packet sockets are held until it has
closed them (see ``held_sockets``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing, suppress

from pytest_nfvperf.adapters.net.held_sockets import HeldSockets
from pytest_nfvperf.adapters.ovs.instance.ovsdb import Row
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.topology.port_maker import PortMaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.topology import Topology

_NOISY = ("netdev_linux", "bridge", "netdev", "dpif_netdev")
"""Modules of vswitchd (ovs-appctl vlog/list) that complain of an interface that is gone."""


def remove_from_ovs(
    instance: RunningOvs, port_maker: PortMaker, topology: Topology, interfaces: Collection[str], deadline_s: float
) -> None:
    """Take a topology's bridges and all on them out of OVS; what is not there, or whose OVS has died, is passed over.

    Args:
        instance: the OVS.
        port_maker: what the ports need outside OVS; it stays, but for the bridges' own taps.
        topology: whose bridges.
        interfaces: its ports' kernel interfaces.
        deadline_s: for all.

    Raises:
        TestbedError: OVS does not take it, or not in time.
    """
    present = _present(instance, topology.bridges)
    if not present:
        return
    userspace = instance.owned and instance.options.datapath_type == "netdev"

    def remove_taps() -> None:
        """Not before OVS begins: it would look for what became of them, bridge by bridge."""
        if userspace:
            port_maker.remove(topology.bridges)

    _log_level(instance, "off")
    with closing(HeldSockets(instance.pid, interfaces if userspace else ())):
        what = f"removal of topology {topology.name}"
        instance.db.transact(lambda _: _delete(instance, present), what, deadline_s, meanwhile=remove_taps)
    _log_level(instance, "info")
    instance.forget_bridges(topology.bridges)


def _present(instance: RunningOvs, bridges: Sequence[str]) -> Sequence[Row]:
    if not instance.running():
        return []
    instance.db.refresh()
    rows = instance.db.rows("Bridge")
    return [rows[name] for name in bridges if name in rows]


def _delete(instance: RunningOvs, bridges: Sequence[Row]) -> None:
    for row in bridges:
        instance.db.root.delvalue("bridges", row)


def _log_level(instance: RunningOvs, level: str) -> None:
    """What OVS logs while its taps go is no evidence of anything: nobody shall read it in a later error."""
    if not instance.owned:
        return
    with suppress(TestbedError):  # a vswitchd that does not answer this is removed from as well
        for module in _NOISY:
            instance.ctl.call("vlog/set", f"{module}:file:{level}", deadline_s=1.0)
