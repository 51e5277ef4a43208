"""VLANs of a Linux bridge's ports (bridge-vlan(8)), in the terms of OVS's Port table."""

from __future__ import annotations

from collections.abc import Mapping

from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_SETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from pytest_nfvperf.adapters.net.netlink import Netlink, Request
from pytest_nfvperf.model.topology.ports import Vlan

_AF_BRIDGE = 7
_PVID, _UNTAGGED, _RANGE_BEGIN, _RANGE_END = 0x2, 0x4, 0x8, 0x10  # BRIDGE_VLAN_INFO_*, linux/if_bridge.h
_DEFAULT = 1
_FIRST, _LAST = 1, 4094


def set_vlans(ports: Mapping[int, Vlan]) -> None:
    """Set the VLANs of ports, by their interface numbers, in the namespace of the calling thread.

    A port has VLAN 1 untagged when it becomes one of a bridge. An access port has its tag instead, a trunk
    also carries its list, or every VLAN when that is empty.
    """
    with Netlink() as netlink:
        netlink.send([_request(RTM_DELLINK, index, [(_DEFAULT, 0)]) for index in ports])
        netlink.send([_request(RTM_SETLINK, index, vlan_entries(vlan)) for index, vlan in ports.items()])


def vlan_entries(vlan: Vlan) -> list[tuple[int, int]]:
    """VLANs of a port with the kernel's flags for each."""
    entries = [(number, 0) for number in vlan.trunks]
    if not vlan.trunks and vlan.tag is None:
        entries = [(_FIRST, _RANGE_BEGIN), (_LAST, _RANGE_END)]
    if vlan.tag is not None:
        entries.append((vlan.tag, _PVID | _UNTAGGED))
    return entries


def _request(kind: int, index: int, entries: list[tuple[int, int]]) -> Request:
    message = ifinfmsg()
    message["header"]["type"] = kind
    message["family"], message["index"] = _AF_BRIDGE, index
    infos = [["IFLA_BRIDGE_VLAN_INFO", {"vid": number, "flags": flags}] for number, flags in entries]
    message["attrs"] = [["IFLA_AF_SPEC", {"attrs": infos}]]
    return Request(f"set the VLANs of interface {index}", message)
