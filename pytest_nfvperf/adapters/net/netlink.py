"""Netlink, as pyroute2 does not offer it: requests with deadlines, routes and links, generic families."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, ctrlmsg
from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWROUTE
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from pytest_nfvperf.model.errors import TestbedError

# Netlink requests in batches, each with the kernel's own words when it is refused.
#
# pyroute2 encodes the messages. They are sent from here, because its sockets enter another namespace by a
# forked child and ask one request at a time: two hundred namespaces take seconds so. A socket belongs to the
# namespace that its *thread* is in when it is opened (see ``threads``).

NETLINK_ROUTE, NETLINK_GENERIC = 0, 16  # linux/netlink.h
REQUEST, ACK, EXCL, CREATE, DUMP = 0x1, 0x4, 0x200, 0x400, 0x300

_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
_ERROR_CODE = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR, _DONE = 2, 3
_ACK_ATTRIBUTES = 0x200  # NLM_F_ACK_TLVS
_MESSAGE_ATTRIBUTE = 1  # NLMSGERR_ATTR_MSG
_AT_ONCE = 64
"""Requests in one send: their answers together must fit into the socket's receive buffer (netlink(7))."""

_ANSWER_WITHIN_S = 30.0
_RECEIVE_BYTES = 1 << 16


class KernelRefusedError(TestbedError):
    """The kernel refused a request. ``code``: its errno. ``index``: which of the requests."""

    def __init__(self, message: str, code: int, index: int) -> None:
        super().__init__(message)
        self.code = code
        self.index = index


@dataclass(frozen=True, slots=True)
class Request:
    """A message: pyroute2's with type and flags set, or raw. ``what``, as a person says it: "make veth a - b"."""

    what: str
    message: Any


@dataclass(slots=True)
class RawMessage:
    """A message that pyroute2 has no class for: its type and what follows the header."""

    kind: int
    data: bytes


class Netlink:
    """A netlink socket of the namespace that the opening thread is in."""

    def __init__(self, family: int = NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.settimeout(_ANSWER_WITHIN_S)
        for option in (_CAP_ACK, _EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> None:
        """Send all and await each answer. A refused request does not stop the others; the first refusal is raised."""
        for start in range(0, len(requests), _AT_ONCE):
            self._send_some(requests[start : start + _AT_ONCE], start)

    def _send_some(self, requests: Sequence[Request], start: int) -> None:
        first = self._sequence + 1
        self._socket.send(b"".join(self._encoded(request.message, ACK) for request in requests))
        refused: KernelRefusedError | None = None
        answered = 0
        while answered < len(requests):
            for kind, flags, sequence, payload in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if kind != _ERROR or sequence < first:
                    continue
                answered += 1
                index = sequence - first
                problem = _refusal(requests[index].what, flags, payload, start + index)
                refused = refused or problem
        if refused is not None:
            raise refused

    def ask(self, request: Request, *, dump: bool = False) -> list[bytes]:
        """Send one request and return the payloads of its answers, without netlink headers."""
        self._socket.send(self._encoded(request.message, DUMP if dump else ACK))
        answers: list[bytes] = []
        while True:
            for kind, flags, sequence, payload in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                if kind == _DONE:
                    return answers
                if kind != _ERROR:
                    answers.append(payload)
                    continue
                refused = _refusal(request.what, flags, payload, 0)
                if refused is not None:
                    raise refused
                return answers

    def _encoded(self, message: Any, flags: int) -> bytes:
        self._sequence += 1
        if isinstance(message, RawMessage):
            length = _HEADER.size + len(message.data)
            return _HEADER.pack(length, message.kind, REQUEST | flags, self._sequence, 0) + message.data
        header = message["header"]
        header["flags"] = header.get("flags", 0) | REQUEST | flags
        header["sequence_number"] = self._sequence
        message.encode()
        data = bytes(message.data)
        return data + b"\0" * (-len(data) % 4)


def _messages(received: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags, sequence number and payload of each message."""
    while received:
        length, kind, flags, sequence, _ = _HEADER.unpack_from(received)
        yield kind, flags, sequence, received[_HEADER.size : length]
        received = received[(length + 3) & ~3 :]


def _refusal(what: str, flags: int, payload: bytes, index: int) -> KernelRefusedError | None:
    (code,) = _ERROR_CODE.unpack_from(payload)
    if code == 0:
        return None
    text = _kernel_text(flags, payload)
    said = f"{os.strerror(-code)}: {text}" if text else os.strerror(-code)
    return KernelRefusedError(f"the kernel refused to {what}: {said}", -code, index)


def _kernel_text(flags: int, payload: bytes) -> str:
    """What the kernel adds to an errno, if it does ("extended ack", netlink(7))."""
    if not flags & _ACK_ATTRIBUTES:
        return ""
    found = dict(attributes(payload[_ERROR_CODE.size + _HEADER.size :]))
    return found.get(_MESSAGE_ATTRIBUTE, b"").rstrip(b"\0").decode(errors="replace")


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Netlink attributes as (type, payload)."""
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]


# The rtnetlink requests that we make (rtnetlink(7)), encoded by pyroute2.

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


# Generic netlink families (genetlink): what the kernel, or a module that it loads for it, can be asked.

HEADER_BYTES = 4
"""Of a generic netlink message, before its attributes."""

_FAMILY_ID = 1  # CTRL_ATTR_FAMILY_ID


def family_number(netlink: Netlink, name: str) -> int:
    """The number of a family; KernelRefusedError with ENOENT when the kernel has none of this name."""
    message = ctrlmsg()
    message["header"]["type"] = GENL_ID_CTRL
    message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, 1
    message["attrs"] = [["CTRL_ATTR_FAMILY_NAME", name]]
    (answer,) = netlink.ask(Request(f"find the netlink family {name}", message))
    return int.from_bytes(dict(attributes(answer[HEADER_BYTES:]))[_FAMILY_ID], sys.byteorder)


def has_family(name: str) -> bool:
    """True when the kernel has the family, or a module for it that it could load."""
    with Netlink(NETLINK_GENERIC) as netlink:
        try:
            family_number(netlink, name)
        except KernelRefusedError as error:
            if error.code != errno.ENOENT:
                raise
            return False
    return True
