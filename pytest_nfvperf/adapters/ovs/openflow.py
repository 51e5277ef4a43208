"""OpenFlow 1.4 to one bridge: connection, multipart answers, flow changes, and the flows that a topology needs.

It speaks on the bridge's management socket, because long chains of bridges need it to be fast: PyPI ``ovs`` has no
OpenFlow, and ovs-ofctl takes 10 ms a bridge to start, 100 ms if a PMD polls on the same CPU.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.errors import ArgumentError, DeadlineError, TestbedError
from pytest_nfvperf.model.topology.bridges import BridgeRules
from pytest_nfvperf.model.topology.links import Tunnel
from pytest_nfvperf.model.topology.topology import Topology

_XID = 1
_ERROR, _FLOW_MOD, _MULTIPART_REQUEST, _MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 1, 14, 18, 19, 20, 21

_VERSION = 0x05
_HEADER = struct.Struct("!BBHI")  # version, type, length, xid
_HELLO, _ECHO_REQUEST, _ECHO_REPLY = 0, 2, 3

_MULTIPART = struct.Struct("!HH4x")  # type, flags
_MORE = 1
_ADD, _DELETE_STRICT = 0, 4
_NO_BUFFER, _ANY = 0xFFFFFFFF, 0xFFFFFFFF

_FLOW_MOD_HEAD = struct.Struct("!QQBBHHHIIIHH")
"""Cookie and mask, table, command, idle and hard timeout, priority, buffer, out port and group, flags, importance."""

_APPLY = struct.Struct("!HH4x")  # instruction "apply actions", its length
_OUTPUT = struct.Struct("!HHIH6x")  # action "output", its length, port, bytes to the controller
_CLOSED = re.compile(r"connecting to .*\((Broken pipe|Connection reset by peer)\)")
_STATISTICS_DEADLINE_S = 2.0
_DEADLINE_S = 10.0

_FLOW_S = 0.0005
"""A flow takes some 20 us on a CPU without other load."""

_CROSSING_PRIORITY = 100
_MATCH = struct.Struct("!HHII4x")  # type OXM, length without padding, header of OXM in_port, port
_IN_PORT = 0x80000004

_UNUSED_ADDRESSES = int(ipaddress.IPv4Address("100.64.0.0"))
"""RFC 6598, shared address space: neither the generator nor a namespace of ours sends to it."""

_ACL = "table=0,priority=100,udp,nw_dst="

_READS_ADDRESSES = (
    "table=0,priority=1,ip,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG1[],move:NXM_OF_IP_DST[]->NXM_NX_REG2[],goto_table:1",
    (
        "table=0,priority=1,ipv6,actions=move:NXM_NX_IPV6_SRC[]->NXM_NX_XXREG1[],"
        "move:NXM_NX_IPV6_DST[]->NXM_NX_XXREG2[],goto_table:1"
    ),
)
"""What an action reads is in the match of each flow that OVS gives to the datapath."""

_ROUTE_COOKIE = 0x4E465650
"""Marks routes' flows."""

_ROUTE_PRIORITY = 1000
"""Of the shortest prefix; each bit more adds one, so the longest prefix wins."""

_MOST_AT_ONCE = 2000
_MATCH_HEAD = struct.Struct("!HH")
_ETH_TYPE = struct.Struct("!IH")  # OXM header, value
_DEC_TTL = struct.pack("!HH4x", 24, 8)
_SET_FIELD = struct.Struct("!HHI6s2x")  # type, length, OXM header, address
_OXM_ETH_TYPE, _OXM_ETH_DST, _OXM_ETH_SRC = 0x80000A02, 0x80000606, 0x80000806
_OXM_DST = {4: 0x80001908, 6: 0x80003720}  # ipv4_dst and ipv6_dst, with mask
_ETHERTYPE = {4: 0x0800, 6: 0x86DD}


_NAMED_PORT = re.compile(
    r"(\b(?:in_port|port|actions)=|\b(?:output|watch_port|slaves|members):|[,(])([^\s,:()=]+)(?=[,)\s]|$)"
)
"""Where a line of ovs-ofctl(8) names a port, and the name."""

_SHOWN = 400
_PORT_STATS, _PORT_DESCRIPTIONS = 4, 13  # OFPMP_*
_PORT = struct.Struct("!IH30xI")  # struct ofp_port: number, length, addresses, name and config left out, state
_LINK_DOWN = 1  # OFPPS_LINK_DOWN


class OpenFlowRefusedError(TestbedError):
    """vswitchd refused a request: it, or this bridge's datapath, does not support it."""


class OpenFlowConnection:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._greeted = False

    def send(self, *messages: tuple[int, bytes]) -> None:
        """Send messages of these types and bodies. A hello goes before the first one."""
        parts = [] if self._greeted else [_HEADER.pack(_VERSION, _HELLO, _HEADER.size, 0)]
        self._greeted = True
        parts += [_HEADER.pack(_VERSION, kind, _HEADER.size + len(body), _XID) + body for kind, body in messages]
        self._socket.sendall(b"".join(parts))

    def answers(self, what: str) -> Iterator[tuple[int, bytes]]:
        """Yield type and body of each answer, without end; OpenFlowRefusedError if ``what`` is refused."""
        while True:
            _, kind, length, xid = _HEADER.unpack(self._exactly(_HEADER.size))
            body = self._exactly(length - _HEADER.size)
            if kind == _ERROR:
                raise OpenFlowRefusedError(f"vswitchd refused {what}: OpenFlow error {body[:4].hex()}")
            if kind == _ECHO_REQUEST:
                self._socket.sendall(_HEADER.pack(_VERSION, _ECHO_REPLY, length, xid) + body)
            elif xid == _XID:
                yield kind, body

    def ask(self, request: int, body: bytes = b"") -> bytes:
        """Return the joined bodies of a multipart answer; OpenFlowRefusedError if the bridge refuses.

        ``request``: OFPMP_* (OpenFlow 1.4, 7.3.5). ``body``: without header.
        """
        self.send((_MULTIPART_REQUEST, _MULTIPART.pack(request, 0) + body))
        parts = []
        for kind, payload in self.answers("a statistics request"):
            if kind == _MULTIPART_REPLY:
                parts.append(payload[_MULTIPART.size :])
                _, flags = _MULTIPART.unpack_from(payload)
                if not flags & _MORE:
                    break
        return b"".join(parts)

    def _exactly(self, length: int) -> bytes:
        received = b""
        while len(received) < length:
            part = self._socket.recv(length - len(received))
            if not part:
                raise ConnectionResetError("vswitchd closed the connection")
            received += part
        return received


@contextmanager
def connected(
    management_socket: Path, what: str = "statistics", deadline_s: float = _STATISTICS_DEADLINE_S
) -> Iterator[OpenFlowConnection]:
    """Connect to a bridge. ``what``: to ask for, in messages.

    Raises:
        DeadlineError: vswitchd did not answer in time.
        TestbedError: nobody listens.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(deadline_s)
            connection.connect(str(management_socket))
            yield OpenFlowConnection(connection)
    except TimeoutError as error:
        raise DeadlineError(f"waited {deadline_s:g} s for {what} from {management_socket}") from error
    except OSError as error:
        raise TestbedError(f"no {what} from {management_socket}: {error}") from error


def links_up(bridge: OpenFlowConnection, ports: Iterable[int]) -> dict[int, bool]:
    """Whether these ports of a bridge have link, by OpenFlow port number.

    OVS looks at the link of a DPDK port every 5 s (DPDK_PORT_WATCHDOG_INTERVAL), and when its statistics are read. So
    they are read first; a change shows in the next answer.
    """
    wanted = set(ports)
    for port in wanted:
        bridge.ask(_PORT_STATS, struct.pack("!I4x", port))
    body, found = bridge.ask(_PORT_DESCRIPTIONS), {}
    while body:
        number, length, state = _PORT.unpack_from(body)
        if number in wanted:
            found[number] = not state & _LINK_DOWN
        body = body[length:]
    return found


def _flow_mod_head(command: int, priority: int, cookie: int = 0) -> bytes:
    """The head of a flow modification (OpenFlow 1.4, 7.3.4.2), before its match: table 0, no timeouts, no flags."""
    return _FLOW_MOD_HEAD.pack(cookie, 0, 0, command, 0, 0, priority, _NO_BUFFER, _ANY, _ANY, 0, 0)


def _apply_actions(actions: bytes) -> bytes:
    return _APPLY.pack(4, _APPLY.size + len(actions)) + actions


def _output(port: int) -> bytes:
    return _OUTPUT.pack(0, _OUTPUT.size, port, 0)


def with_numbers(line: str, ofports: Mapping[str, int]) -> str:
    """A line of ovs-ofctl(8) with numbers for the topology's names of ports, which OVS may call otherwise."""
    return _NAMED_PORT.sub(lambda found: f"{found[1]}{ofports.get(found[2], found[2])}", line)


class OpenFlow:
    """Flows in ovs-ofctl(8)'s words, over the management sockets of one OVS."""

    def __init__(self, ofctl: Sequence[str | Path], run_directory: Path) -> None:
        self._ofctl = ofctl
        self._directory = run_directory

    def socket(self, bridge: str) -> Path:
        return self._directory / f"{bridge}.mgmt"

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Replace the bridge's flows, all at once (an OpenFlow 1.4 bundle); TestbedError with ovs-ofctl's message."""
        self._run_ofctl(["--bundle", "replace-flows", f"unix:{self.socket(bridge)}", "-"], flows)

    def command(
        self, name: str, bridge: str, *arguments: str, lines: Sequence[str] = (), ports: Mapping[str, int] | None = None
    ) -> str:
        """Run a command of ovs-ofctl; ArgumentError with its message where it refuses.

        ``lines``: of a file "-", with the topology's names of ports; ``ports``: their numbers.
        """
        numbered = [with_numbers(line, ports or {}) for line in lines]
        try:
            return self._run_ofctl([name, f"unix:{self.socket(bridge)}", *arguments], numbered)
        except TestbedError as error:
            said = error.evidence.get("stderr", "").strip()
            if not said or "onnect" in said:
                raise  # it did not answer
            number = re.search(r"-:(\d+): ", said)
            line = lines[int(number[1]) - 1] if number and lines else shorten("; ".join(lines or arguments), _SHOWN)
            raise ArgumentError(f"ovs-ofctl {name} {bridge} refuses {line!r}: {said}") from error

    def _run_ofctl(self, arguments: Sequence[str], lines: Sequence[str]) -> str:
        """Run ovs-ofctl with these lines as its input, and once more if OVS closes the connection at once.

        Seen once, with OVS 3.1 on a busy machine just after a build; why is not known. No request had been sent yet.
        """
        command = [*self._ofctl, "-O", "OpenFlow14", *arguments]
        stdin = "".join(f"{line}\n" for line in lines)
        ofctl = partial(run, command, stdin=stdin, deadline_s=_DEADLINE_S + len(lines) * _FLOW_S)
        try:
            return ofctl()
        except TestbedError as error:
            if not _CLOSED.search(error.evidence.get("stderr", "")):
                raise
        return ofctl()

    def add_own(self, rules: BridgeRules, ofports: Mapping[str, int]) -> None:
        """Add the author's meters, groups and flows, in this order; errors as of ``command``."""
        meters, groups = ([line for line in rules.flows if line.startswith(kind)] for kind in ("meter=", "group_id="))
        for meter in meters:
            self.command("add-meter", rules.bridge, meter)
        flows = [line for line in rules.flows if line not in meters + groups]
        for name, own in (("add-groups", groups), ("add-flows", flows)):
            if own:
                self.command(name, rules.bridge, "--bundle", "-", lines=own, ports=ofports)


def add_crossings(management_socket: Path, crossings: Iterable[tuple[int, Sequence[int]]]) -> None:
    """Send frames from each port out of the ports named with it. The flows are active on return (a barrier).

    Errors as of ``connected``; TestbedError, too, if vswitchd refuses.
    """
    head = _flow_mod_head(_ADD, _CROSSING_PRIORITY)
    bodies = [
        head + _MATCH.pack(1, 12, _IN_PORT, in_port) + _apply_actions(b"".join(map(_output, out_ports)))
        for in_port, out_ports in crossings
    ]
    with connected(management_socket, "an answer about flows", _DEADLINE_S) as bridge:
        _modify_flows(bridge, bodies, "a flow")


def _modify_flows(bridge: OpenFlowConnection, bodies: Iterable[bytes], what: str) -> None:
    bridge.send(*((_FLOW_MOD, body) for body in bodies), (BARRIER_REQUEST, b""))
    for kind, _ in bridge.answers(what):
        if kind == BARRIER_REPLY:
            return


def pipeline(topology: Topology, bridge: str, ofports: Mapping[str, int]) -> list[str]:
    """The flows of a bridge that checks frames before it learns their MAC addresses; none for other bridges.

    Its tables, in ovs-ofctl(8)'s words; NORMAL forwards at the end:

        0      the access list; answers to ARP and ND; what reads both addresses
        1, 2   connection tracking: the lookup, and its result
        3      of a tunnel with many keys: accepts its own, drops others; distributes outgoing flows to the keys
        4      sets the key
        5      turns neighbour solicitations into advertisements
    """
    rules = next((one for one in topology.rules if one.bridge == bridge and one.learns), None)
    many_keys = [tunnel for tunnel in topology.tunnels if tunnel.bridge == bridge and tunnel.keys > 1]
    if rules is None and not many_keys:
        return []
    rules = rules or BridgeRules(bridge)
    denied = [f"{_ACL}{ipaddress.IPv4Address(_UNUSED_ADDRESSES + number)},actions=drop" for number in range(rules.acl)]
    allowed = "table=0,priority=0,actions=goto_table:1"
    read = _READS_ADDRESSES if rules.by_address else ()
    answers = _answers(ofports[rules.answers], topology.port(rules.answers).mac) if rules.answers else ()
    return [*denied, *answers, *read, allowed, *_tracking(rules.zone), *_keys(many_keys, ofports)]


def _answers(ofport: int, mac: str) -> Iterator[str]:
    """Turn requests for any address into answers with this MAC (RFC 826; RFC 4861, 7.2.4), but not the port's own."""
    swapped = f"move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src"
    yield f"table=0,priority=60,in_port={ofport},actions=goto_table:1"
    yield (
        f"table=0,priority=50,arp,arp_op=1,actions={swapped},set_field:2->arp_op,"
        f"move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,move:NXM_OF_ARP_TPA[]->NXM_NX_REG3[],"
        "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],move:NXM_NX_REG3[]->NXM_OF_ARP_SPA[],in_port"
    )
    # One without a source asks whether its own address is free (RFC 4862, 5.4.2).
    solicitation = "icmp6,icmpv6_type=135"
    yield f"table=0,priority=55,{solicitation},ipv6_src=::,actions=goto_table:1"
    yield (
        f"table=0,priority=50,{solicitation},actions={swapped},move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],"
        "move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[],set_field:136->icmpv6_type,goto_table:5"
    )
    # Solicited, override; the option with the source's address becomes one with the target's.
    yield (
        "table=5,icmp6,icmpv6_type=136,actions=set_field:0x60000000->nd_reserved,set_field:2->nd_options_type,"
        f"set_field:{mac}->nd_tll,in_port"
    )


def without_access_list(flows: list[str]) -> str:
    others = [flow for flow in flows if not flow.startswith(_ACL)]
    rules = len(flows) - len(others)
    summary = [f"{_ACL}...,actions=drop  ({rules} rules of the access list)"] if rules else []
    return "\n".join([*summary, *others])


def _tracking(zone: int | None) -> Iterator[str]:
    """Commit new connections, drop invalid frames, and leave frames without IP untracked."""
    if zone is not None:
        for version in ("ip", "ipv6"):
            yield f"table=1,priority=10,{version},actions=ct(zone={zone},table=2)"
            yield f"table=2,priority=10,ct_state=+trk+new,{version},actions=ct(commit,zone={zone}),goto_table:3"
        yield "table=2,priority=20,ct_state=+trk+inv,actions=drop"
        yield "table=2,priority=0,actions=goto_table:3"
    yield "table=1,priority=0,actions=goto_table:3"


def _keys(tunnels: list[Tunnel], ofports: Mapping[str, int]) -> Iterator[str]:
    """Choose each flow's key (a VNI) by its addresses and ports; the other end has the same keys."""
    for tunnel in tunnels:
        port = ofports[tunnel.port]
        for key in range(tunnel.key, tunnel.key + tunnel.keys):
            yield f"table=3,priority=10,in_port={port},tun_id={key},actions=NORMAL"
        yield f"table=3,priority=5,in_port={port},actions=drop"
    if not tunnels:
        yield "table=3,priority=0,actions=NORMAL"
        return
    first = tunnels[0]
    yield (
        f"table=3,priority=0,actions=multipath(symmetric_l4,1024,modulo_n,{first.keys},0,NXM_NX_REG0[]),goto_table:4"
    )
    for number in range(first.keys):
        yield f"table=4,priority=0,reg0={number},actions=set_field:{first.key + number}->tun_id,NORMAL"


@dataclass(frozen=True, slots=True)
class NextHop:
    """The OpenFlow port by which frames to a prefix leave, and the MAC addresses that they get."""

    ofport: int
    destination: str
    source: str


def change_route_flows(management_socket: Path, added: Iterable[tuple[str, NextHop]], removed: Iterable[str]) -> None:
    """Add or replace flows for routes on one bridge, and remove others. They are active on return.

    Frames to a prefix get new MAC addresses and one TTL less, and leave by a port. Each change has a new connection,
    because vswitchd closes one that is long silent. Errors as of ``add_crossings``.
    """
    bodies = [_route_flow(prefix, _DELETE_STRICT, b"") for prefix in removed]
    for prefix, hop in added:
        actions = _set_field(_OXM_ETH_SRC, hop.source) + _set_field(_OXM_ETH_DST, hop.destination)
        instructions = _apply_actions(actions + _DEC_TTL + _output(hop.ofport))
        bodies.append(_route_flow(prefix, _ADD, instructions))
    with connected(management_socket, "answers about routes' flows", _DEADLINE_S) as bridge:
        for start in range(0, len(bodies), _MOST_AT_ONCE):
            _modify_flows(bridge, bodies[start : start + _MOST_AT_ONCE], "a route's flow")


def _route_flow(prefix: str, command: int, instructions: bytes) -> bytes:
    network = ipaddress.ip_network(prefix)
    fields = _ETH_TYPE.pack(_OXM_ETH_TYPE, _ETHERTYPE[network.version])
    if network.prefixlen:
        fields += struct.pack("!I", _OXM_DST[network.version]) + network.network_address.packed + network.netmask.packed
    length = _MATCH_HEAD.size + len(fields)
    match = _MATCH_HEAD.pack(1, length) + fields + bytes(-length % 8)
    return _flow_mod_head(command, _ROUTE_PRIORITY + network.prefixlen, _ROUTE_COOKIE) + match + instructions


def _set_field(field: int, mac: str) -> bytes:
    packed = _SET_FIELD.pack(25, 16, field, bytes.fromhex(mac.replace(":", "")))
    return packed + bytes(-len(packed) % 8)
