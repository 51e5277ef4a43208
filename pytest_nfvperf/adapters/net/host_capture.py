"""A packet socket (packet(7)) on an interface of a namespace, read by a thread of its own."""

from __future__ import annotations

import select
import socket
import struct
import threading
from pathlib import Path

from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.ports.generator import Captured

_ETH_P_ALL = 0x0003  # linux/if_ether.h
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_STATISTICS = struct.Struct("=II")  # struct tpacket_stats: packets, drops
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
_BUFFER_BYTES = 32 << 20
_LONGEST_FRAME = 1 << 16
_POLL_MS = 20
_DRAINED_MS = 50


class HostCapture:
    """Receives frames on an interface and counts them. ``keep``: how many to store whole."""

    def __init__(self, namespace: str, interface: str, *, keep: int = 100_000) -> None:
        self._namespace = Path("/run/netns") / namespace
        self._interface = interface
        self._keep = keep
        self._socket: socket.socket | None = None
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._frames = 0
        self._samples: list[bytes] = []
        self._failure: OSError | None = None

    def start(self) -> None:
        self.close()
        self._frames, self._samples, self._failure = 0, [], None
        self._stopping.clear()
        try:
            self._socket = inside(self._namespace, self._listen)
        except OSError as error:
            raise TestbedError(f"cannot receive on {self._interface} in {self._namespace}: {error}") from error
        self._reader = threading.Thread(target=self._read, args=(self._socket,), name="capture", daemon=True)
        self._reader.start()

    def stop(self) -> Captured:
        if self._socket is None:
            raise TestbedError(f"the capture on {self._interface} was not started")
        self._join()
        _, lost = _STATISTICS.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        self.close()
        if self._failure is not None:
            raise TestbedError(
                f"the capture on {self._interface} in {self._namespace} ended: {self._failure}"
            ) from self._failure
        return Captured(self._frames, lost, tuple(self._samples))

    def close(self) -> None:
        self._join()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _join(self) -> None:
        self._stopping.set()
        if self._reader is not None:
            self._reader.join()
            self._reader = None

    def _listen(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        try:
            opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            opened.bind((self._interface, _ETH_P_ALL))
            opened.setblocking(False)
        except OSError:
            opened.close()
            raise
        return opened

    def _read(self, opened: socket.socket) -> None:
        poller = select.poll()
        poller.register(opened, select.POLLIN)
        try:
            while True:
                stopping = self._stopping.is_set()
                if not poller.poll(_DRAINED_MS if stopping else _POLL_MS):
                    if stopping:
                        return
                    continue
                frame, (_, _, kind, *_) = opened.recvfrom(_LONGEST_FRAME)
                if kind == socket.PACKET_OUTGOING:
                    continue  # sent by the host itself
                self._frames += 1
                if len(self._samples) < self._keep:
                    self._samples.append(frame)
        except OSError as error:
            self._failure = error
