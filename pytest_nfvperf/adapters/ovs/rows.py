"""Rows of OVSDB for a topology: bridges, ports, mirrors and limiters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.nics import OvsPort
from pytest_nfvperf.adapters.ovs.ovsdb import OWNER, Ovsdb, Row, Unixctl, value_of
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.limiters import OF_DPDK, OF_KERNEL, Limiter, qos_settings
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology

T = TypeVar("T")
OFPP_NORMAL = 0xFFFFFFFA
"""OpenFlow 1.4, 7.2.1: forward as an Ethernet switch that learns MAC addresses."""

_MIRROR_DEADLINE_S = 10.0

_PROTOCOLS = ["OpenFlow10", "OpenFlow13", "OpenFlow14"]


def _optional(value: T | None) -> list[T]:
    """The value of an optional column, as ``value_of`` reads it."""
    return [] if value is None else [value]


def _insert_mirrors(
    transaction: ovs.db.idl.Transaction, bridge: Row, mirrors: Iterable[Mirror], ports: Mapping[str, Row]
) -> None:
    """Insert a bridge's mirrors by OVSDB, in this transaction; ``ports``: rows by the topology's names."""
    for mirror in mirrors:
        if mirror.by is not MirrorMethod.OVSDB:
            continue
        row = transaction.insert(transaction.idl.tables["Mirror"])
        row.name = mirror.name
        # A VLAN only narrows the selection: alone it would select nothing.
        row.select_all = mirror.select_all or not (mirror.select_src or mirror.select_dst)
        row.select_src_port = [ports[name] for name in mirror.select_src]
        row.select_dst_port = [ports[name] for name in mirror.select_dst]
        row.select_vlan = list(mirror.select_vlan)
        row.output_port = [ports[name] for name in _optional(mirror.output)]
        row.output_vlan, row.snaplen = _optional(mirror.output_vlan), _optional(mirror.snaplen)
        bridge.addvalue("mirrors", row)


def replace_mirrors(db: Ovsdb, ctl: Unixctl, topology: Topology, interfaces: Mapping[str, str]) -> None:
    """Replace the mirrors of running bridges. ``interfaces``: OVS's interface names by the topology's port names."""

    def change(transaction: ovs.db.idl.Transaction) -> None:
        rows, bridges = db.rows("Port"), db.rows("Bridge")
        ports = {name: rows[interface] for name, interface in interfaces.items()}
        for name in topology.bridges:
            bridges[name].mirrors = []
            _insert_mirrors(transaction, bridges[name], topology.bridge_mirrors(name), ports)

    db.transact(change, f"mirrors of topology {topology.name}", _MIRROR_DEADLINE_S)
    ctl.call("revalidator/purge")  # OVS 3.1 keeps using megaflows from before there was a mirror


def flow_outputs(topology: Topology, bridge: str, ofports: Mapping[str, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a bridge's flows: a port, and the ports by which its frames leave.

    These are its crossings, or NORMAL if mirrors by flows copy on a bridge without crossings.
    """
    mirrors = [mirror for mirror in topology.bridge_mirrors(bridge) if mirror.by is MirrorMethod.FLOW]

    def copies(in_port: str, out_port: str) -> list[int]:
        outputs = [mirror.output for mirror in mirrors if mirror.copies(in_port, out_port)]
        return [ofports[name] for name in outputs if name is not None]

    crossings = [crossing for crossing in topology.crossings if crossing.bridge == bridge]
    for crossing in crossings:
        outputs = (ofports[crossing.out_port], *copies(crossing.in_port, crossing.out_port))
        yield ofports[crossing.in_port], outputs
    if crossings or not mirrors:
        return
    for port in topology.bridge_ports(bridge):
        if port not in {mirror.output for mirror in mirrors}:
            yield ofports[port], (OFPP_NORMAL, *copies(port, ""))


def insert_bridges(
    transaction: ovs.db.idl.Transaction,
    instance: RunningOvs,
    topology: Topology,
    wired: Collection[OvsPort],
    crossed: Collection[str],
) -> None:
    """Insert all bridges of a topology with their ports and mirrors, in this transaction.

    ``crossed``: bridges that forward by our flows.
    """
    ports = {port.port: _new_port(transaction, port) for port in wired}
    bridges: dict[str, Row] = {}
    for name in topology.bridges:
        bridge = bridges[name] = transaction.insert(transaction.idl.tables["Bridge"])
        bridge.name = name
        bridge.datapath_type = instance.options.datapath_type
        # Secure: frames pass only by our flows, so none passes before these are there.
        # Standalone: OVS itself adds the flow for MAC learning (NORMAL).
        bridge.fail_mode = "secure" if name in crossed else "standalone"
        bridge.protocols = _PROTOCOLS
        bridge.external_ids = {OWNER: instance.tag}
        bridge.addvalue("ports", _new_port(transaction, OvsPort(name, name, name, "internal")))
        _insert_mirrors(transaction, bridge, topology.bridge_mirrors(name), ports)
        instance.db.root.addvalue("bridges", bridge)
    for port in wired:
        bridges[port.bridge].addvalue("ports", ports[port.port])
    for limiter in topology.limiters:
        if limiter.kind != "meter":
            _insert_limiter(transaction, limiter, ports[limiter.at], instance.tag)


def refuse_powerless(limiters: Iterable[Limiter], wired: Mapping[str, OvsPort], datapath_type: str) -> None:
    """UnavailableError for a limiter that OVS would take, and that no frame would meet on this datapath."""
    for limiter in limiters:
        if limiter.kind == "meter":
            continue
        types = sorted({each.type for each in wired[limiter.at].interfaces})
        by_dpdk = all(kind.startswith("dpdk") for kind in types) and limiter.kind not in OF_KERNEL
        if not by_dpdk and (datapath_type != "system" or limiter.kind in OF_DPDK):
            needs = "the kernel's datapath" if limiter.kind in OF_KERNEL else "a port that DPDK drives"
            raise UnavailableError(
                f"{limiter}: it has no effect on a port of type {', '.join(types)} of the datapath {datapath_type}: it "
                f"needs {needs}; or limit by meter(...)"
            )


def _insert_limiter(transaction: ovs.db.idl.Transaction, limiter: Limiter, port: Row, tag: str) -> None:
    """Insert a policer, or the QoS of a port and its queues."""
    if limiter.kind == "policer":
        ((rate, burst),) = limiter.bands
        for interface in port.interfaces:
            interface.ingress_policing_rate, interface.ingress_policing_burst = rate, burst or 0
        return

    def insert(table: str, config: Mapping[str, str]) -> Row:
        row = transaction.insert(transaction.idl.tables[table])
        row.other_config, row.external_ids = config, {OWNER: tag}
        return row

    config, queues = qos_settings(limiter)
    port.qos = qos = insert("QoS", config)
    qos.type, qos.queues = limiter.kind, {number: insert("Queue", own) for number, own in queues.items()}


def delete_qos(bridges: Collection[Row], tag: str) -> None:
    """Delete the QoS of ours on these bridges; OVSDB keeps it when its port goes."""
    for port in (port for bridge in bridges for port in bridge.ports):
        for qos in port.qos:
            port.qos = []
            for row in (*qos.queues.values(), qos) if qos.external_ids.get(OWNER) == tag else ():
                row.delete()


def _new_port(transaction: ovs.db.idl.Transaction, wired: OvsPort) -> Row:
    port = transaction.insert(transaction.idl.tables["Port"])
    port.name = wired.interface
    port.interfaces = interfaces = [transaction.insert(transaction.idl.tables["Interface"]) for _ in wired.interfaces]
    for own, interface in zip(wired.interfaces, interfaces, strict=True):
        interface.name, interface.type, interface.mtu_request = own.interface, own.type, _optional(own.mtu_request)
        interface.options, interface.other_config = dict(own.options), dict(own.other_config)
    for column, value in wired.bond.items():
        setattr(port, column, value)
    if (vlan := wired.vlan) is not None:
        # An access port has a tag, a trunk a list of VLANs. With both, the tag is the VLAN of untagged frames.
        port.tag, port.trunks, port.vlan_mode = _optional(vlan.tag), list(vlan.trunks), vlan_mode(vlan)
    return port


def vlan_mode(vlan: Vlan) -> str:
    # ovs-vswitchd.conf.db(5), Port, vlan_mode
    if vlan.tag is None:
        return "trunk"
    return "native-untagged" if vlan.trunks else "access"


def ofport_of(row: Row) -> int:
    return int(value_of(row.ofport) or -1)


def interface_error(row: Row | None) -> str | None:
    if row is None:
        return "not in the database"
    if error := value_of(row.error):
        return str(error)
    return "OVS gave it no port number (ofport -1)" if ofport_of(row) == -1 else None


_GRANTED = {
    "n_rxq": ("receive queues", "rxq", ("configured_rx_queues",)),
    "n_rxq_desc": ("receive descriptors", "rx_descriptors", ("configured_rxq_descriptors", "n_rxq_desc")),
    "n_txq_desc": ("transmit descriptors", "tx_descriptors", ("configured_txq_descriptors", "n_txq_desc")),
}
"""Options of a DPDK port: what they ask for, the testbed file's key, and what ``dpif/show`` calls what OVS has.

Up to OVS 3.2 it lists ``configured_...``, since 3.3 ``n_rxq_desc`` as it is, and ``n_rxq`` as it was asked for; then
the Interface's status has the number of queues (netdev_dpdk_get_config() and _get_status(), branches 2.15 to 4.0).
"""


def not_granted(asked: OvsPort, row: Row, listing: str) -> list[str]:
    """What OVS did not give a DPDK port of what was asked for: it takes fewer queues without an error.

    ``listing``: of ``dpif/show``. What a version does not say is not compared.
    """
    match = re.search(rf"^\s+{re.escape(asked.interface)} \S+: \(\w+: (?P<config>.*)\)$", listing, re.MULTILINE)
    config = dict(part.split("=", 1) for part in match["config"].split(", ") if "=" in part) if match else {}
    status = dict(row.status)
    found = []
    for option, (what, key, names) in _GRANTED.items():
        of_queues = status if option == "n_rxq" else {}
        granted = next((config[name] for name in names if name in config), of_queues.get(option))
        wanted = asked.options.get(option)
        if wanted is None or granted is None or int(granted) == int(wanted):
            continue
        most = f", which has {of_queues['max_rx_queues']} at most" if "max_rx_queues" in of_queues else ""
        found.append(
            f"port {asked.interface!r}: {wanted} {what} were asked for, and OVS has {granted}: the driver is "
            f"{status.get('driver_name', 'unknown')}{most}. Write '{key}: {granted}', or take another device"
        )
    return found


def port_text(port: Row) -> list[str]:
    tag = value_of(port.tag)
    vlan = "" if tag is None and not port.trunks else f" vlan_mode={value_of(port.vlan_mode)}"
    vlan += "" if tag is None else f" tag={tag}"
    vlan += f" trunks={','.join(map(str, sorted(port.trunks)))}" if port.trunks else ""
    lines = []
    for row in port.interfaces:
        options = " ".join(f"{key}={value}" for key, value in sorted(row.options.items()))
        affinity = "".join(f" {key}={value}" for key, value in sorted(row.other_config.items()))
        line = (
            f"port {row.name}: type={row.type or 'system'} ofport={value_of(row.ofport)} mtu={value_of(row.mtu)} "
            f"link={value_of(row.link_state)} {options}{affinity}"
        )
        lines.append(line.rstrip() + vlan)
    return lines


def mirror_text(mirror: Row) -> str:
    selects = ["select_all"] if mirror.select_all else []
    for column in ("select_src_port", "select_dst_port"):
        names = sorted(port.name for port in getattr(mirror, column))
        selects += [f"{column}={','.join(names)}"] if names else []
    selects += [f"select_vlan={','.join(map(str, sorted(mirror.select_vlan)))}"] if mirror.select_vlan else []
    output, vlan, snaplen = value_of(mirror.output_port), value_of(mirror.output_vlan), value_of(mirror.snaplen)
    selects += [f"output_port={output.name}"] if output is not None else [f"output_vlan={vlan}"]
    return " ".join([f"mirror {mirror.name}:", *selects, *([] if snaplen is None else [f"snaplen={snaplen}"])])
