"""A topology as rows of the OVS database, and what the rows say back."""

from __future__ import annotations

from collections.abc import Collection

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.instance.ovsdb import OWNER, Row, one
from pytest_nfvperf.adapters.ovs.topology.mirror_rows import insert_mirrors
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology

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
