"""Netlink requests in batches, with a deadline and the kernel's own words for a refusal.

pyroute2 encodes the messages (rtnetlink(7)). They are sent from here, because pyroute2's sockets enter another
namespace by a forked child and send one request at a time: two hundred namespaces would take seconds. A socket belongs
to the namespace of its opening *thread* (see ``threads``).
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, ctrlmsg
from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWROUTE
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from pytest_nfvperf.model.errors import TestbedError

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
"""Requests in one send: all their answers must fit into the socket's receive buffer (netlink(7))."""

_ANSWER_WITHIN_S = 30.0
_RECEIVE_BYTES = 1 << 16

_INTERFACE = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
_NAME = 3  # IFLA_IFNAME
_UP = 0x1  # IFF_UP
_NO_STATISTICS = 8  # RTEXT_FILTER_SKIP_STATS
_NODAD = 0x2  # IFA_F_NODAD
_REPLACE, _PERMANENT = 0x100, 0x80  # NLM_F_REPLACE, NUD_PERMANENT
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_UNIVERSE, _UNICAST = 254, 4, 0, 1

HEADER_BYTES = 4
"""Of a generic netlink message, before its attributes."""

_FAMILY_ID = 1  # CTRL_ATTR_FAMILY_ID


class KernelRefusedError(TestbedError):
    """The kernel refused a request. ``code``: errno. ``index``: of the request in its batch."""

    def __init__(self, message: str, code: int, index: int) -> None:
        super().__init__(message)
        self.code = code
        self.index = index


@dataclass(frozen=True, slots=True)
class Request:
    """A message of pyroute2's with type and flags, or its type and the data after the header.

    ``what``: for messages: "make the veth pair a - b".
    """

    what: str
    message: Any


class Netlink:
    """A netlink socket of the opening thread's namespace."""

    def __init__(self, family: int = NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.settimeout(_ANSWER_WITHIN_S)
        for option in (_CAP_ACK, _EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> None:
        """Send all and wait for each answer. After a refusal the rest of a batch goes on; the first one is raised."""
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
        if isinstance(message, tuple):
            kind, body = message
            return _HEADER.pack(_HEADER.size + len(body), kind, REQUEST | flags, self._sequence, 0) + bytes(body)
        header = message["header"]
        header["flags"] = header.get("flags", 0) | REQUEST | flags
        header["sequence_number"] = self._sequence
        message.encode()
        data = bytes(message.data)
        return data + b"\0" * (-len(data) % 4)


def send(*requests: Request) -> None:
    """Send requests of the calling thread's namespace; errors as of ``Netlink.send``."""
    with Netlink() as netlink:
        netlink.send(requests)


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
    text = os.strerror(-code)
    if flags & _ACK_ATTRIBUTES:  # the kernel may explain its errno ("extended ack", netlink(7))
        details = dict(attributes(payload[_ERROR_CODE.size + _HEADER.size :]))
        explanation = details.get(_MESSAGE_ATTRIBUTE, b"").rstrip(b"\0").decode(errors="replace")
        text += f": {explanation}" if explanation else ""
    return KernelRefusedError(f"the kernel refused to {what}: {text}", -code, index)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]


_End = tuple[str, int, str | None]
"""One end of a veth pair: its name, an open handle of its namespace, and its MAC address if it is to have one."""


def veth(
    local_end: _End, peer_end: _End, *, mtu: int, queues: int, group: int, indices: tuple[int, int] | None
) -> Request:
    """Make a pair, each end in its namespace; the local end is up at once and in an interface group.

    ``indices``: numbers of the two interfaces; None: the kernel chooses.
    """
    local_index, peer_index = indices or (0, 0)
    peer = ["VETH_INFO_PEER", {"index": peer_index, "attrs": _end(peer_end, mtu, queues)}]
    attrs = [*_end(local_end, mtu, queues), ["IFLA_GROUP", group], _link_info("veth", [peer])]
    what = f"make the veth pair {local_end[0]} - {peer_end[0]}"
    return _link(what, attrs, header_flags=CREATE | EXCL, index=local_index, flags=_UP, change=_UP)


def _end(end: _End, mtu: int, queues: int) -> list[list[Any]]:
    name, namespace, mac = end
    attrs: list[list[Any]] = [["IFLA_IFNAME", name], ["IFLA_MTU", mtu], ["IFLA_NET_NS_FD", namespace]]
    if mac is not None:
        attrs.append(["IFLA_ADDRESS", mac])
    if queues > 1:
        attrs += [["IFLA_NUM_TX_QUEUES", queues], ["IFLA_NUM_RX_QUEUES", queues]]
    return attrs


def set_up(*, index: int, name: str, **changes: Any) -> Request:
    """Bring an interface up, and change it: ``mtu``, ``address``, ``ifname``, ``master``."""
    return _link(f"bring {name} up", _attrs(changes), index=index, flags=_UP, change=_UP)


def set_down(*, index: int, name: str) -> Request:
    return _link(f"take {name} down", [], index=index, flags=0, change=_UP)


def set_flags(index: int, name: str, flags: int, mask: int, **changes: Any) -> Request:
    """Set those flags of an interface that are in the mask (netdevice(7)), and change it as ``set_up`` does."""
    return _link(f"put {name} back as it was", _attrs(changes), index=index, flags=flags & mask, change=mask)


def move(index: int, name: str, namespace: int, new_name: str) -> Request:
    """Move an interface into the namespace of this open handle, under another name there."""
    attrs = [["IFLA_NET_NS_FD", namespace], ["IFLA_IFNAME", new_name]]
    return _link(f"move {name} into its namespace as {new_name}", attrs, index=index)


def bridge(name: str, *, vlan_filtering: bool) -> Request:
    """A kernel bridge without spanning tree and multicast snooping, which send and delay frames by themselves."""
    data = [["IFLA_BR_STP_STATE", 0], ["IFLA_BR_FORWARD_DELAY", 0], ["IFLA_BR_MCAST_SNOOPING", 0]]
    if vlan_filtering:  # a kernel without it refuses even the attribute
        data.append(["IFLA_BR_VLAN_FILTERING", 1])
    attrs = [["IFLA_IFNAME", name], _link_info("bridge", data)]
    return _link(f"make the bridge {name}", attrs, header_flags=CREATE | EXCL, flags=_UP, change=_UP)


def join_group(index: int, name: str, group: int) -> Request:
    return _link(f"put {name} into group {group}", [["IFLA_GROUP", group]], index=index)


def delete_group(group: int) -> Request:
    return _link(f"delete the interfaces of group {group}", [["IFLA_GROUP", group]], kind=RTM_DELLINK)


def list_links(netlink: Netlink, *, statistics: bool = False) -> Iterator[tuple[int, str, int, dict[int, bytes]]]:
    """Number, name, flags (IFF_*) and attributes (IFLA_*) of all interfaces of the socket's namespace.

    pyroute2's decoder takes a millisecond for each interface; this one a few microseconds.
    """
    mask = ["IFLA_EXT_MASK", 0 if statistics else _NO_STATISTICS]
    for answer in netlink.ask(_link("list the interfaces", [mask], kind=RTM_GETLINK), dump=True):
        _, _, index, flags, _ = _INTERFACE.unpack_from(answer)
        fields = dict(attributes(answer[_INTERFACE.size :]))
        yield index, fields[_NAME].rstrip(b"\0").decode(), flags, fields


def _attrs(changes: dict[str, Any]) -> list[list[Any]]:
    return [[f"IFLA_{key.upper()}", value] for key, value in changes.items()]


def _link_info(kind: str, data: list[list[Any]]) -> list[Any]:
    return ["IFLA_LINKINFO", {"attrs": [["IFLA_INFO_KIND", kind], ["IFLA_INFO_DATA", {"attrs": data}]]}]


def _link(what: str, attrs: list[Any], kind: int = RTM_NEWLINK, *, header_flags: int = 0, **fields: int) -> Request:
    """A request about an interface. ``fields``: its index; its flags, and which of them change (netdevice(7))."""
    return _request(what, ifinfmsg(), kind, header_flags, attrs, **fields)


def _request(what: str, message: Any, kind: int, header_flags: int, attrs: list[Any], **fields: int) -> Request:
    message["header"]["type"], message["header"]["flags"] = kind, header_flags
    for field, value in fields.items():
        message[field] = value
    message["attrs"] = attrs
    return Request(what, message)


def address(index: int, name: str, text: str) -> Request:
    interface = ipaddress.ip_interface(text)
    attrs: list[list[Any]] = [["IFA_LOCAL", str(interface.ip)], ["IFA_ADDRESS", str(interface.ip)]]
    if interface.version == 6:
        attrs.append(["IFA_FLAGS", _NODAD])
    fields = {"family": _family(interface), "prefixlen": interface.network.prefixlen, "index": index}
    return _request(f"give {name} the address {text}", ifaddrmsg(), RTM_NEWADDR, CREATE | EXCL, attrs, **fields)


def route(destination: str, gateway: str) -> Request:
    """A route such as "10.2.0.0/24" by "10.1.0.254"; the default route is "0.0.0.0/0" or "::/0"."""
    via, network = ipaddress.ip_address(gateway), ipaddress.ip_network(destination)
    attrs = [["RTA_GATEWAY", gateway]]
    if network.prefixlen:
        attrs.append(["RTA_DST", str(network.network_address)])
    fields = {
        "family": _family(via),
        "dst_len": network.prefixlen,
        "table": _TABLE_MAIN,
        "proto": _PROTOCOL_STATIC,
        "scope": _SCOPE_UNIVERSE,
        "type": _UNICAST,
    }
    what = f"make the route to {destination} by {gateway}"
    return _request(what, rtmsg(), RTM_NEWROUTE, CREATE | EXCL, attrs, **fields)


def neighbour(index: int, name: str, address: str, mac: str) -> Request:
    """Set the MAC address for an IP address; it stays until the interface is removed."""
    fields = {"family": _family(ipaddress.ip_address(address)), "ifindex": index, "state": _PERMANENT}
    attrs = [["NDA_DST", address], ["NDA_LLADDR", mac]]
    return _request(
        f"tell {name} that {address} is at {mac}", ndmsg(), RTM_NEWNEIGH, CREATE | _REPLACE, attrs, **fields
    )


def _family(of: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(socket.AF_INET if of.version == 4 else socket.AF_INET6)


def family_number(netlink: Netlink, name: str) -> int:
    """The number of a generic family; KernelRefusedError with ENOENT if the kernel has none of this name."""
    message = ctrlmsg()
    message["header"]["type"] = GENL_ID_CTRL
    message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, 1
    message["attrs"] = [["CTRL_ATTR_FAMILY_NAME", name]]
    (answer,) = netlink.ask(Request(f"find the netlink family {name}", message))
    return int.from_bytes(dict(attributes(answer[HEADER_BYTES:]))[_FAMILY_ID], sys.byteorder)


def has_family(name: str) -> bool:
    """True if the kernel has the generic family, or a module for it that it can load."""
    with Netlink(NETLINK_GENERIC) as netlink:
        try:
            family_number(netlink, name)
        except KernelRefusedError as error:
            if error.code != errno.ENOENT:
                raise
            return False
    return True
