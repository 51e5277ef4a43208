"""Linux's own TCP stack in the place of one side of the engine's conversations.

Between the engine's two ports stands a translator, which has a TUN device into a namespace where Linux's sockets are.
The engine knows a connection by the signature in a TCP option of each frame, and its sequence numbers follow from the
connection's number. Linux has neither, so the translator does these things, and no others:

- The side that Linux stands for is an engine's port, too. It takes part as always, but its frames go no further than
  the translator. When Linux has sent the same step of the same connection, Linux's packet goes on in place of it.
- Linux's packet gets that frame's Ethernet header and signature option, in place of Linux's options (MSS). Its sequence
  number is shifted, by what is constant for the connection: Linux's initial number less the engine's. Its window, PSH
  (Linux sets it where its own buffers end), and IPv4's identification and DF bit are set to the engine's, which
  compares frames byte by byte. Lengths and checksums are made anew. All else, flags, numbers and payload, is Linux's,
  and the engine judges it.
- Frames of the engine's side under test reach Linux as they are, except for the acknowledged number, which is shifted
  by the same constant, and the checksum, by as much: a wrong one stays wrong.
- Pure acknowledgements that the script does not have, and what Linux sends again, go no further.
"""

from __future__ import annotations

import errno
import fcntl
import os
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.threads import PROC_NET, enter, inside_netns
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames, number_bits
from tests.functional.generator_support import LOOP_CPU

_ETHERNET, _TCP, _OPTION = 14, 20, 16
_SYN, _PSH, _ACK = 2, 8, 16
_WORDS = 0xFFFF
_NUMBERS = 1 << 32
_WINDOW = 65535
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000  # linux/if_tun.h
_ETH_P_ALL, _SO_RCVBUFFORCE = 3, 33
_BUFFER_BYTES = 32 << 20
_NODAD = 2
_TURN = 64
"""Packets of one source before the others have their turn."""
TUN = "tun0"
Handler = Callable[[], None]


@dataclass
class _Connection:
    """``engine`` and ``linux``: what only one of them has sent so far, by step. ``shift``: Linux's number less ours."""

    number: int
    engine: dict[int, bytes] = field(default_factory=dict)
    linux: dict[int, bytes] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    shift: int = 0


class Translator:
    """See above. ``tested`` and ``replaced`` are wires to the engine's ports, ``opens`` is told of its clients' SYNs.

    Attributes:
        swallowed: packets that Linux sent and that went no further, by why.
        unexpected: packets of Linux that stand at no place of the script.
    """

    def __init__(self, conversation: ConversationFrames, linux_serves: bool, opens: Callable[[str, int], None]) -> None:
        self.conversation, self.linux_serves, self.opens = conversation, linux_serves, opens
        self.ip_bytes = conversation.l4_at - _ETHERNET
        self.bits = number_bits(conversation)
        self.script = {
            (step.sequence, step.acknowledged, step.payload, step.kind.strip("PA")): index
            for index, step in enumerate(conversation.steps)
            if step.from_server == linux_serves
        }
        self.connections: dict[bytes, _Connection] = {}
        self.swallowed = Counter[str]()
        self.unexpected: list[str] = []

    def from_tested(self, frame: bytes) -> bytes | None:
        """What Linux gets of a frame of the side under test."""
        connection, _ = self._of_engine(frame, not self.linux_serves)
        return None if connection is None else self._to_linux(frame, connection)

    def from_replaced(self, frame: bytes) -> bytes | None:
        """What the side under test gets now that the engine has sent this frame."""
        connection, step = self._of_engine(frame, self.linux_serves)
        if connection is None:
            return None
        connection.engine[step] = frame
        return self._joined(connection, step)

    def from_linux(self, packet: bytes) -> bytes | None:
        """What the side under test gets now that Linux has sent this packet."""
        at = self.ip_bytes
        version, protocol = packet[0] >> 4, packet[9 if at == 20 else 6]
        if (version, protocol) != (self.conversation.ip_version, socket.IPPROTO_TCP):
            return None
        connection = self.connections.get(self._client(packet, at, self.linux_serves))
        if connection is None:
            self.unexpected.append(f"of no connection: {packet[:80].hex()}")
            return None
        sequence, acknowledged = struct.unpack_from("!II", packet, at + 4)
        flags, payload = packet[at + 13], len(packet) - at - 4 * (packet[at + 12] >> 4)
        first = connection.number << self.bits
        if flags & _SYN:
            connection.shift = (sequence - first) % _NUMBERS
        kind = "".join(name for bit, name in enumerate("FSR") if flags >> bit & 1)
        place = ((sequence - connection.shift - first) % _NUMBERS, (acknowledged - first) % _NUMBERS, payload, kind)
        step = self.script.get(place if flags & _ACK else (place[0], None, *place[2:]))
        if step is None:
            if payload or kind:
                self.unexpected.append(f"connection {connection.number}: {place}")
            self.swallowed["acknowledgements"] += 1
            return None
        if step in connection.gone:
            self.swallowed["sent again"] += 1
            return None
        connection.linux[step] = packet
        return self._joined(connection, step)

    def _client(self, packet: bytes, at: int, from_server: bool) -> bytes:
        """The client's address and port."""
        size = 4 if at == 20 else 16
        address = at - size if from_server else at - 2 * size
        port = at + 2 if from_server else at
        return packet[address : address + size] + packet[port : port + 2]

    def _of_engine(self, frame: bytes, from_server: bool) -> tuple[_Connection | None, int]:
        """Its connection and step. None of a frame that is not the engine's: what the kernel says of a new link."""
        packet = frame[_ETHERNET:]
        at = self.ip_bytes
        if packet[at + _TCP : at + _TCP + 4] != b"\xfd\x10\x4e\x66":
            return None, 0
        step, number = frame[_ETHERNET + at + _TCP + 5] & 0x7F, struct.unpack_from("<I", packet, at + _TCP + 6)[0]
        client = self._client(packet, at, from_server)
        if step == 0:
            self.connections[client] = _Connection(number)
            self.opens(str(ip_address(client[:-2])), int.from_bytes(client[-2:], "big"))
        connection = self.connections[client]
        assert connection.number == number
        return connection, step

    def _to_linux(self, frame: bytes, connection: _Connection) -> bytes:
        packet, at = bytearray(frame[_ETHERNET:]), self.ip_bytes
        if packet[at + 13] & _ACK:
            (acknowledged,), (checksum,) = (
                struct.unpack_from("!I", packet, at + 8),
                struct.unpack_from("!H", packet, at + 16),
            )
            shifted = (acknowledged + connection.shift) % _NUMBERS
            struct.pack_into("!I", packet, at + 8, shifted)
            struct.pack_into("!H", packet, at + 16, _WORDS - (_WORDS - checksum - acknowledged + shifted) % _WORDS)
        return bytes(packet)

    def _joined(self, connection: _Connection, step: int) -> bytes | None:
        """Linux's packet of a step as the engine's frame, once both are there."""
        if step not in connection.engine or step not in connection.linux:
            return None
        connection.gone.add(step)
        frame, packet = connection.engine.pop(step), connection.linux.pop(step)
        at = self.ip_bytes
        ip, tcp = bytearray(packet[:at]), bytearray(packet[at : at + _TCP])
        option = frame[_ETHERNET + at + _TCP : _ETHERNET + at + _TCP + _OPTION]
        (sequence,) = struct.unpack_from("!I", tcp, 4)
        struct.pack_into("!I", tcp, 4, (sequence - connection.shift) % _NUMBERS)
        header = 4 * (tcp[12] >> 4)
        tcp[12] = (_TCP + _OPTION) << 2
        tcp[13] = tcp[13] & ~_PSH | frame[_ETHERNET + at + 13] & _PSH
        struct.pack_into("!HH", tcp, 14, _WINDOW, 0)
        tcp += option + packet[at + header :]
        if at == 20:
            struct.pack_into("!HHH", ip, 2, at + len(tcp), 0, 0)
            struct.pack_into("!H", ip, 10, 0)
            struct.pack_into("!H", ip, 10, _checksum(ip))
        else:
            struct.pack_into("!H", ip, 4, len(tcp))
        pseudo = ip[12 if at == 20 else 8 :] + struct.pack("!II", socket.IPPROTO_TCP, len(tcp))
        struct.pack_into("!H", tcp, 16, _checksum(pseudo + tcp))
        return frame[:_ETHERNET] + ip + tcp


def _checksum(data: bytes) -> int:
    return _WORDS - (int.from_bytes(data + bytes(len(data) % 2), "big") % _WORDS or _WORDS)


class Sockets:
    """Linux's server, or its clients: each connection carries the request and the response, and then a FIN each way.

    Attributes:
        finished: connections that got exactly the bytes that the other side sends, and then the end of the stream.
        faults: what went otherwise.
    """

    def __init__(self, conversation: ConversationFrames, linux_serves: bool, selector: selectors.BaseSelector) -> None:
        self.conversation, self.linux_serves, self.selector = conversation, linux_serves, selector
        payloads = {False: b"", True: b""}
        for number, step in enumerate(conversation.steps):
            if step.payload:
                (template,) = conversation.step_program(number, "02:00:00:00:00:01", "02:00:00:00:00:02").templates
                payloads[step.from_server] += template[-step.payload :]
        self.said, self.expected = payloads[linux_serves], payloads[not linux_serves]
        self.family = socket.AF_INET if conversation.ip_version == 4 else socket.AF_INET6
        self.server = (conversation.server_ip, conversation.to_port)
        self.finished = 0
        self.faults: list[str] = []
        if linux_serves:
            listening = socket.socket(self.family)
            listening.setblocking(False)
            listening.bind(self.server)
            listening.listen(4096)
            selector.register(listening, selectors.EVENT_READ, lambda: self._accept(listening))

    def open(self, address: str, port: int) -> None:
        """A client with this address and port begins to connect; a server waits for Linux to have accepted one."""
        if self.linux_serves:
            return
        made = socket.socket(self.family)
        made.setblocking(False)
        made.bind((address, port))
        began = made.connect_ex(self.server)
        if began != errno.EINPROGRESS:
            self.faults.append(f"connect from {address}:{port}: {os.strerror(began)}")
        self.selector.register(made, selectors.EVENT_WRITE, lambda: self._connected(made))

    def _connected(self, made: socket.socket) -> None:
        self.selector.unregister(made)
        self._say(made)
        self._listen(made)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                made, _ = listening.accept()
                made.setblocking(False)
                self._listen(made)

    def _listen(self, made: socket.socket) -> None:
        got = bytearray()
        self.selector.register(made, selectors.EVENT_READ, lambda: self._read(made, got))

    def _say(self, made: socket.socket) -> None:
        try:
            made.sendall(self.said)
        except OSError as error:
            self.faults.append(f"{made}: {error}")

    def _read(self, made: socket.socket, got: bytearray) -> None:
        try:
            data = made.recv(1 << 16)
        except OSError as error:
            self.faults.append(f"{made}: {error}")
            data = b""
        got += data
        if not data:
            self.selector.unregister(made)
            made.close()
            self.finished += got == self.expected
            if got != self.expected:
                self.faults.append(f"{len(got)} bytes, and not the {len(self.expected)} that were sent: {got.hex()}")
        elif len(got) == len(self.expected):
            if self.linux_serves:
                self._say(made)
            else:
                with suppress(OSError):  # what reset it is said by the next recv()
                    made.shutdown(socket.SHUT_WR)


class LinuxPeer:
    """The translator, Linux's sockets, and what drives both, in a thread inside the namespace ``space``.

    Args:
        wires: packet sockets of the client's and of the server's wire, the far ends of the engine's ports.

    Attributes:
        counters: of Linux's stack, at the end: ``Tcp.InErrs``, ``TcpExt.TCPChallengeACK`` and others.
    """

    def __init__(
        self,
        space: LiveNamespace,
        conversation: ConversationFrames,
        wires: Sequence[socket.socket],
        *,
        linux_serves: bool,
    ) -> None:
        self.space, self.conversation, self.linux_serves = space, conversation, linux_serves
        self.tested, self.replaced = wires if linux_serves else reversed(wires)
        self.selector = selectors.EpollSelector()
        self.counters: dict[str, int] = {}
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="linux")

    def __enter__(self) -> LinuxPeer:
        self._running = self._thread.submit(self._run)
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.shutdown()
        self._running.result()

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._ready.set)
            self._set_up(stack)
            self._ready.set()
            while self._turn() or not self._over.is_set():
                pass
            self.counters = _counters()

    def _set_up(self, stack: ExitStack) -> None:
        enter(self.space.path)
        os.sched_setaffinity(0, {LOOP_CPU} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
        stack.callback(self.selector.close)
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        stack.callback(os.close, self.tun)
        fcntl.ioctl(self.tun, _TUNSETIFF, struct.pack("16sH22x", TUN.encode(), _IFF_TUN | _IFF_NO_PI))
        _address(self.conversation, self.linux_serves)
        self.sockets = Sockets(self.conversation, self.linux_serves, self.selector)
        stack.callback(self._close_sockets)
        self.translator = Translator(self.conversation, self.linux_serves, self.sockets.open)
        for source, handler in ((self.tun, self._linux), (self.tested, self._tested), (self.replaced, self._replaced)):
            self.selector.register(source, selectors.EVENT_READ, handler)

    def _close_sockets(self) -> None:
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj not in {self.tested, self.replaced}:
                key.fileobj.close()

    def _turn(self) -> bool:
        """Do what is to do; False where that was nothing for a while."""
        found = self.selector.select(0.1)
        for key, _ in found:
            key.data()
        return bool(found)

    def _linux(self) -> None:
        for packet in _arrived(lambda: os.read(self.tun, 1 << 16)):
            self._send(self.tested, self.translator.from_linux(packet))

    def _tested(self) -> None:
        """The side that is replaced gets the frame, too: so the engine knows how far the connection is."""
        for frame in _arrived(lambda: self.tested.recv(1 << 16)):
            packet = self.translator.from_tested(frame)
            if packet is not None:
                self._send(self.replaced, frame)
                os.write(self.tun, packet)

    def _replaced(self) -> None:
        for frame in _arrived(lambda: self.replaced.recv(1 << 16)):
            self._send(self.tested, self.translator.from_replaced(frame))

    @staticmethod
    def _send(wire: socket.socket, frame: bytes | None) -> None:
        if frame is not None:
            wire.send(frame)


def _arrived(read: Callable[[], bytes]) -> Iterator[bytes]:
    with suppress(BlockingIOError):
        for _ in range(_TURN):
            yield read()


def _address(conversation: ConversationFrames, linux_serves: bool) -> None:
    """Give the TUN device Linux's addresses, and the way to the other side's."""
    first = ip_address(conversation.server_ip if linux_serves else conversation.client_ip)
    given: dict[str, Any] = {"prefixlen": first.max_prefixlen}
    if first.version == 6:
        given["flags"] = _NODAD
    with IPRoute() as links:
        index = links.link_lookup(ifname=TUN)[0]
        for offset in range(1 if linux_serves else conversation.clients):
            links.addr("add", index=index, address=str(first + offset), **given)
        links.link("set", index=index, mtu=1500, state="up")
        links.route("add", dst="default", oif=index, family=socket.AF_INET if first.version == 4 else socket.AF_INET6)


def _counters() -> dict[str, int]:
    """What /proc/net/snmp and netstat of the thread's namespace say."""
    found = {}
    for name in ("snmp", "netstat"):
        lines = (PROC_NET / name).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group, *keys = names.split()
            found |= {f"{group[:-1]}.{key}": int(value) for key, value in zip(keys, values.split()[1:], strict=True)}
    return found


@contextmanager
def packet_wires(namespace: str, interfaces: Sequence[str]) -> Iterator[list[socket.socket]]:
    """Packet sockets on interfaces of a namespace."""

    def opened(interface: str) -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        made.bind((interface, _ETH_P_ALL))
        return made

    with ExitStack() as stack:
        yield [
            stack.enter_context(inside_netns(namespace, lambda name=interface: opened(name)))  # type: ignore[misc]
            for interface in interfaces
        ]
