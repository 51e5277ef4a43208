"""Rows of OVSDB for a topology: bridges, ports, mirrors, and hardware offload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.nics import OvsPort
from pytest_nfvperf.adapters.ovs.ovsdb import OWNER, Ovsdb, Row, Unixctl, UnixctlError, one
from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorCounts, MirrorMethod
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology

# Mirrors on a bridge: rows of the Mirror table, output actions more in flows, and what OVS counted of copies.

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


# A topology as rows of the OVS database, and what the rows say back.

_PROTOCOLS = ["OpenFlow10", "OpenFlow13", "OpenFlow14"]


def insert(
    transaction: ovs.db.idl.Transaction,
    root: Row,
    topology: Topology,
    wired: Collection[OvsPort],
    *,
    datapath_type: str,
    crossed: Collection[str],
    tag: str,
) -> None:
    """All bridges of a topology with their ports and mirrors, in this transaction.

    ``crossed``: bridges that forward by flows of ours. ``tag``: of the run, by which its bridges are known.
    """
    bridges = {name: _new_bridge(transaction, name, datapath_type, secure=name in crossed) for name in topology.bridges}
    ports = {port.port: _new_port(transaction, port) for port in wired}
    for bridge in bridges.values():
        bridge.external_ids = {OWNER: tag}
    for port in wired:
        bridges[port.bridge].addvalue("ports", ports[port.port])
    for name, bridge in bridges.items():
        insert_mirrors(transaction, bridge, topology.bridge_mirrors(name), ports)
        root.addvalue("bridges", bridge)


def _new_bridge(transaction: ovs.db.idl.Transaction, name: str, datapath_type: str, *, secure: bool) -> Row:
    bridge = transaction.insert(transaction.idl.tables["Bridge"])
    bridge.name = name
    bridge.datapath_type = datapath_type
    # Secure: nothing passes but by our flows, so nothing does before they are there.
    # Standalone: OVS itself puts in the flow that does MAC learning (NORMAL).
    bridge.fail_mode = "secure" if secure else "standalone"
    bridge.protocols = _PROTOCOLS
    bridge.addvalue("ports", _new_port(transaction, OvsPort(name, name, name, "internal")))
    return bridge


def _new_port(transaction: ovs.db.idl.Transaction, wired: OvsPort) -> Row:
    port = transaction.insert(transaction.idl.tables["Port"])
    port.name = wired.interface
    port.interfaces = [_new_interface(transaction, one) for one in wired.interfaces]
    for column, value in wired.bond.items():
        setattr(port, column, value)
    vlan = wired.vlan
    if vlan is not None:
        # An access port has a tag, a trunk a list of VLANs, or both: then the tag is the VLAN of untagged frames.
        if vlan.tag is not None:
            port.tag = vlan.tag
        if vlan.trunks:
            port.trunks = list(vlan.trunks)
        port.vlan_mode = vlan_mode(vlan)
    return port


def _new_interface(transaction: ovs.db.idl.Transaction, wired: OvsPort) -> Row:
    interface = transaction.insert(transaction.idl.tables["Interface"])
    interface.name, interface.type = wired.interface, wired.type
    if wired.options:
        interface.options = dict(wired.options)
    if wired.other_config:
        interface.other_config = dict(wired.other_config)
    if wired.mtu_request is not None:
        interface.mtu_request = wired.mtu_request
    return interface


def vlan_mode(vlan: Vlan) -> str:
    """ovs-vswitchd.conf.db(5), Port, vlan_mode."""
    if vlan.tag is None:
        return "trunk"
    return "native-untagged" if vlan.trunks else "access"


def interface_error(row: Row | None) -> str | None:
    """Why an interface is not usable; None when it is."""
    if row is None:
        return "not in the database"
    error = one(row.error)
    if error:
        return str(error)
    return "OVS gave it no port number (ofport -1)" if one(row.ofport) in {None, -1} else None


def port_text(port: Row) -> list[str]:
    """A port's interfaces and VLANs as text, a line each."""
    tag = one(port.tag)
    vlan = "" if tag is None and not port.trunks else f" vlan_mode={one(port.vlan_mode)}"
    vlan += "" if tag is None else f" tag={tag}"
    vlan += f" trunks={','.join(str(number) for number in sorted(port.trunks))}" if port.trunks else ""
    return [f"{_interface_text(row)}{vlan}" for row in port.interfaces]


def _interface_text(row: Row) -> str:
    options = " ".join(f"{key}={value}" for key, value in sorted(row.options.items()))
    affinity = "".join(f" {key}={value}" for key, value in sorted(row.other_config.items()))
    return (
        f"port {row.name}: type={row.type or 'system'} ofport={one(row.ofport)} mtu={one(row.mtu)} "
        f"link={one(row.link_state)} {options}{affinity}".rstrip()
    )


def mirror_text(mirror: Row) -> str:
    """A mirror in one line."""
    selects = ["select_all"] if mirror.select_all else []
    for column in ("select_src_port", "select_dst_port"):
        names = sorted(port.name for port in getattr(mirror, column))
        selects += [f"{column}={','.join(names)}"] if names else []
    selects += [f"select_vlan={','.join(map(str, sorted(mirror.select_vlan)))}"] if mirror.select_vlan else []
    output, vlan, snaplen = one(mirror.output_port), one(mirror.output_vlan), one(mirror.snaplen)
    selects += [f"output_port={output.name}"] if output is not None else [f"output_vlan={vlan}"]
    return " ".join([f"mirror {mirror.name}:", *selects, *([] if snaplen is None else [f"snaplen={snaplen}"])])


# Hardware offload: the switch, and whether flows really are in hardware.
#
# ``other_config:hw-offload`` (ovs-vswitchd.conf.db(5)) only allows OVS to try; a NIC, a driver or an action
# that cannot leaves the flow in software without a word. So the flows are asked: ``dpctl/dump-flows type=...``
# (ovs-dpctl(8)).

_EXAMPLES = 3
_TYPES = {"full": "offloaded", "partial": "partially-offloaded", "none": "non-offloaded"}


@dataclass(frozen=True, slots=True)
class OffloadedFlows:
    """Flows of one kind: how many, and a few of them as OVS writes them."""

    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffloadState:
    """Where the flows of the datapath are handled.

    Attributes:
        full: in hardware, actions and all.
        partial: matched in hardware, acted on in software.
        none: in software.
    """

    full: OffloadedFlows
    partial: OffloadedFlows
    none: OffloadedFlows

    @property
    def total(self) -> int:
        return self.full.count + self.partial.count + self.none.count

    def __str__(self) -> str:
        counts = f"{self.full.count} of {self.total} flows offloaded, {self.partial.count} partially"
        left = self.none.examples or self.partial.examples
        return f"{counts}; not offloaded: {left[0]}" if left else counts


def offloaded_flows(ctl: Unixctl) -> OffloadState:
    """The datapath's flows by where they are handled now; a flow appears with its first frame."""
    return OffloadState(**{kind: _flows(ctl, text) for kind, text in _TYPES.items()})


def offload_share(state: OffloadState, problems: str) -> OffloadShare:
    """The result of a measurement; ``problems``: vswitchd's warnings, of which those about offload are kept."""
    complaints = [line for line in problems.splitlines() if "offload" in line or "flow api" in line.lower()]
    return OffloadShare(
        state.full.count,
        state.partial.count,
        state.none.count,
        (*state.none.examples, *state.partial.examples),
        tuple(complaints[-_EXAMPLES:]),
    )


def _flows(ctl: Unixctl, kind: str) -> OffloadedFlows:
    try:
        text = ctl.call("dpctl/dump-flows", f"type={kind}")
    except UnixctlError:  # there is no datapath, or several of which none is named: no flows of ours
        return OffloadedFlows(0)
    flows = [line for line in text.splitlines() if "actions:" in line]
    return OffloadedFlows(len(flows), tuple(flows[:_EXAMPLES]))
