"""Mirrors on a bridge: rows of the Mirror table, output actions more in flows, and what OVS counted of copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.instance.ovsdb import Ovsdb, Row
from pytest_nfvperf.adapters.ovs.instance.unixctl import Unixctl
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorCounts, MirrorMethod
from pytest_nfvperf.model.topology.topology import Topology

OFPP_NORMAL = 0xFFFFFFFA
"""OpenFlow 1.4, 7.2.1: forward as an Ethernet switch that learns MAC addresses."""

_INTERVAL = "stats-update-interval"
_MIRROR_DEADLINE_S = 10.0

FlowOutputs = tuple[int, tuple[int, ...]]
"""Frames of this OpenFlow port leave by these."""


def insert_mirrors(
    transaction: ovs.db.idl.Transaction, bridge: Row, mirrors: Iterable[Mirror], ports: Mapping[str, Row]
) -> None:
    """Rows for a bridge's mirrors by OVSDB, in this transaction; ``ports``: rows by the topology's names."""
    for mirror in mirrors:
        if mirror.by is MirrorMethod.OVSDB:
            bridge.addvalue("mirrors", _new_mirror(transaction, mirror, ports))


def _new_mirror(transaction: ovs.db.idl.Transaction, mirror: Mirror, ports: Mapping[str, Row]) -> Row:
    row = transaction.insert(transaction.idl.tables["Mirror"])
    row.name = mirror.name
    # A VLAN narrows down what is selected: alone it would select nothing.
    row.select_all = mirror.select_all or not (mirror.select_src or mirror.select_dst)
    row.select_src_port = [ports[name] for name in mirror.select_src]
    row.select_dst_port = [ports[name] for name in mirror.select_dst]
    row.select_vlan = list(mirror.select_vlan)
    if mirror.output is not None:
        row.output_port = ports[mirror.output]
    if mirror.output_vlan is not None:
        row.output_vlan = mirror.output_vlan
    if mirror.snaplen is not None:
        row.snaplen = mirror.snaplen
    return row


def replace_mirrors(db: Ovsdb, ctl: Unixctl, topology: Topology, interfaces: Mapping[str, str]) -> None:
    """Replace the mirrors of running bridges, and drop the megaflows.

    OVS 3.1 keeps using megaflows that it made before there was a mirror, so they are purged.

    ``interfaces``: OVS's interface names by the topology's port names.
    """

    def change(transaction: ovs.db.idl.Transaction) -> None:
        rows, bridges = db.rows("Port"), db.rows("Bridge")
        ports = {name: rows[interface] for name, interface in interfaces.items()}
        for name in topology.bridges:
            bridges[name].mirrors = []
            insert_mirrors(transaction, bridges[name], topology.bridge_mirrors(name), ports)

    db.transact(change, f"mirrors of topology {topology.name}", _MIRROR_DEADLINE_S)
    ctl.call("revalidator/purge")


def flow_outputs(topology: Topology, bridge: str, ofports: Mapping[str, int]) -> Iterator[FlowOutputs]:
    """The flows of a bridge: its crossings, or NORMAL where mirrors by flows copy on a bridge without crossings."""
    mirrors = [mirror for mirror in topology.bridge_mirrors(bridge) if mirror.by is MirrorMethod.FLOW]
    crossings = [crossing for crossing in topology.crossings if crossing.bridge == bridge]
    for crossing in crossings:
        copies = (m.output for m in mirrors if m.copies(crossing.in_port, crossing.out_port))
        yield ofports[crossing.in_port], (ofports[crossing.out_port], *_numbers(copies, ofports))
    if crossings or not mirrors:
        return
    for port in topology.bridge_ports(bridge):
        copies = (m.output for m in mirrors if m.copies(port, ""))
        if port not in {mirror.output for mirror in mirrors}:
            yield ofports[port], (OFPP_NORMAL, *_numbers(copies, ofports))


def _numbers(names: Iterable[str | None], ofports: Mapping[str, int]) -> Iterator[int]:
    return (ofports[name] for name in names if name is not None)


def mirror_counts(db: Ovsdb, ctl: Unixctl, mirrors: Iterable[Mirror]) -> dict[str, MirrorCounts]:
    """Copies that OVS counted so far, by mirror; mirrors by flows have no counters.

    OVS reads the datapath's counts twice a second and writes them into the database once per
    ``stats-update-interval``. Both are forced to happen now, which takes up to a second.
    """
    names = [mirror.name for mirror in mirrors if mirror.by is MirrorMethod.OVSDB]
    if not names:
        return {}
    ctl.call("revalidator/wait")

    def change_interval(_: ovs.db.idl.Transaction) -> None:
        known = int(db.root.other_config.get(_INTERVAL, "5000"))
        db.root.setkey("other_config", _INTERVAL, str(known + 1 if known % 2 == 0 else known - 1))

    # A changed interval begins at once; what it writes is there when a second change was taken, on the same connection.
    for _ in range(2):
        db.transact(change_interval, "a reading of mirrors' statistics", _MIRROR_DEADLINE_S)
    rows = db.rows("Mirror")
    return {
        name: MirrorCounts(rows[name].statistics["tx_packets"], rows[name].statistics["tx_bytes"])
        for name in names
        if {"tx_packets", "tx_bytes"} <= rows[name].statistics.keys()
    }
