"""The rtnetlink requests that we make (rtnetlink(7)), encoded by pyroute2."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWROUTE
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from pytest_nfvperf.adapters.net.netlink import CREATE, EXCL, Request

_UP = 0x1  # IFF_UP
_NO_STATISTICS = 8  # RTEXT_FILTER_SKIP_STATS
_NODAD = 0x2  # IFA_F_NODAD
_REPLACE, _PERMANENT = 0x100, 0x80  # NLM_F_REPLACE, NUD_PERMANENT
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_UNIVERSE, _UNICAST = 254, 4, 0, 1


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth pair. ``namespace``: an open handle of the namespace that it shall be in."""

    name: str
    namespace: int
    mac: str | None = None


def veth(near: VethEnd, far: VethEnd, *, mtu: int, queues: int, group: int, indices: tuple[int, int] | None) -> Request:
    """Make a pair, each end where it belongs; the near end is up at once and in an interface group.

    ``indices``: numbers of the two interfaces; None: the kernel's.
    """
    of_near, of_far = indices or (0, 0)
    message = _link(RTM_NEWLINK, CREATE | EXCL, of_near)
    message["flags"] = message["change"] = _UP
    message["attrs"] = [
        *_end(near, mtu, queues),
        ["IFLA_GROUP", group],
        [
            "IFLA_LINKINFO",
            {
                "attrs": [
                    ["IFLA_INFO_KIND", "veth"],
                    [
                        "IFLA_INFO_DATA",
                        {"attrs": [["VETH_INFO_PEER", {"index": of_far, "attrs": _end(far, mtu, queues)}]]},
                    ],
                ]
            },
        ],
    ]
    return Request(f"make the veth pair {near.name} - {far.name}", message)


def _end(end: VethEnd, mtu: int, queues: int) -> list[list[Any]]:
    attributes: list[list[Any]] = [["IFLA_IFNAME", end.name], ["IFLA_MTU", mtu], ["IFLA_NET_NS_FD", end.namespace]]
    if end.mac is not None:
        attributes.append(["IFLA_ADDRESS", end.mac])
    if queues > 1:
        attributes += [["IFLA_NUM_TX_QUEUES", queues], ["IFLA_NUM_RX_QUEUES", queues]]
    return attributes


def set_up(*, index: int, name: str, **changes: Any) -> Request:
    """Bring an interface up, and change it: ``mtu``, ``address``, ``ifname``, ``master``."""
    message = _link(RTM_NEWLINK, 0, index)
    message["flags"] = message["change"] = _UP
    message["attrs"] = [[f"IFLA_{key.upper()}", value] for key, value in changes.items()]
    return Request(f"bring {name} up", message)


def set_down(*, index: int, name: str) -> Request:
    """Take an interface down."""
    message = _link(RTM_NEWLINK, 0, index)
    message["flags"], message["change"] = 0, _UP
    return Request(f"take {name} down", message)


def set_flags(index: int, name: str, flags: int, mask: int, **changes: Any) -> Request:
    """Set those flags of an interface that are in the mask (netdevice(7)), and change it as ``set_up`` does."""
    message = _link(RTM_NEWLINK, 0, index)
    message["flags"], message["change"] = flags & mask, mask
    message["attrs"] = [[f"IFLA_{key.upper()}", value] for key, value in changes.items()]
    return Request(f"put {name} back as it was", message)


def move(*, index: int, name: str, namespace: int, new_name: str) -> Request:
    """Move an interface into the namespace of this open handle, under another name there."""
    message = _link(RTM_NEWLINK, 0, index)
    message["attrs"] = [["IFLA_NET_NS_FD", namespace], ["IFLA_IFNAME", new_name]]
    return Request(f"move {name} into its namespace as {new_name}", message)


def bridge(name: str, *, vlan_filtering: bool) -> Request:
    """A kernel bridge without spanning tree and multicast snooping, which send and hold back frames of their own."""
    message = _link(RTM_NEWLINK, CREATE | EXCL)
    message["flags"] = message["change"] = _UP
    data = [
        ["IFLA_BR_STP_STATE", 0],
        ["IFLA_BR_FORWARD_DELAY", 0],
        ["IFLA_BR_MCAST_SNOOPING", 0],
    ]
    if vlan_filtering:  # a kernel without it refuses the very word
        data.append(["IFLA_BR_VLAN_FILTERING", 1])
    kind = [["IFLA_INFO_KIND", "bridge"], ["IFLA_INFO_DATA", {"attrs": data}]]
    message["attrs"] = [["IFLA_IFNAME", name], ["IFLA_LINKINFO", {"attrs": kind}]]
    return Request(f"make the bridge {name}", message)


def join_group(index: int, name: str, group: int) -> Request:
    """Put an interface into a group."""
    message = _link(RTM_NEWLINK, 0, index)
    message["attrs"] = [["IFLA_GROUP", group]]
    return Request(f"put {name} into group {group}", message)


def delete_group(group: int) -> Request:
    """Delete all interfaces of a group in one go; the kernel takes them apart together."""
    message = _link(RTM_DELLINK, 0)
    message["attrs"] = [["IFLA_GROUP", group]]
    return Request(f"delete the interfaces of group {group}", message)


def list_links(*, statistics: bool = False) -> Request:
    """All interfaces, as a dump."""
    message = _link(RTM_GETLINK, 0)
    message["attrs"] = [["IFLA_EXT_MASK", 0 if statistics else _NO_STATISTICS]]
    return Request("list the interfaces", message)


def address(index: int, name: str, text: str) -> Request:
    """Give an interface an address such as "10.1.0.1/24"."""
    interface = ipaddress.ip_interface(text)
    message = ifaddrmsg()
    message["header"]["type"] = RTM_NEWADDR
    message["header"]["flags"] = CREATE | EXCL
    message["family"] = _family(interface)
    message["prefixlen"] = interface.network.prefixlen
    message["index"] = index
    message["attrs"] = [["IFA_LOCAL", str(interface.ip)], ["IFA_ADDRESS", str(interface.ip)]]
    if interface.version == 6:
        message["attrs"].append(["IFA_FLAGS", _NODAD])
    return Request(f"give {name} the address {text}", message)


def route(destination: str, gateway: str) -> Request:
    """A route such as "10.2.0.0/24" by "10.1.0.254"; "0.0.0.0/0" or "::/0" is one to everywhere."""
    via, network = ipaddress.ip_address(gateway), ipaddress.ip_network(destination)
    message = rtmsg()
    message["header"]["type"] = RTM_NEWROUTE
    message["header"]["flags"] = CREATE | EXCL
    message["family"] = _family(via)
    message["dst_len"] = network.prefixlen
    message["table"], message["proto"] = _TABLE_MAIN, _PROTOCOL_STATIC
    message["scope"], message["type"] = _SCOPE_UNIVERSE, _UNICAST
    message["attrs"] = [["RTA_GATEWAY", gateway]]
    if network.prefixlen:
        message["attrs"].append(["RTA_DST", str(network.network_address)])
    return Request(f"make the route to {destination} by {gateway}", message)


def neighbour(index: int, name: str, far: str, mac: str) -> Request:
    """The MAC address of what has this address, as if it had been asked for; it stays until the interface goes."""
    message = ndmsg()
    message["header"]["type"] = RTM_NEWNEIGH
    message["header"]["flags"] = CREATE | _REPLACE
    message["family"] = _family(ipaddress.ip_address(far))
    message["ifindex"] = index
    message["state"] = _PERMANENT
    message["attrs"] = [["NDA_DST", far], ["NDA_LLADDR", mac]]
    return Request(f"tell {name} that {far} is at {mac}", message)


def _family(of: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(socket.AF_INET if of.version == 4 else socket.AF_INET6)


def _link(kind: int, flags: int, index: int = 0) -> Any:
    message = ifinfmsg()
    message["header"]["type"] = kind
    message["header"]["flags"] = flags
    message["index"] = index
    return message
