"""The wire itself: a program that passes frames among the ports of each bridge.

``python forward.py READY p0,p1 [p2,p3 ...]`` runs in the namespace that has the ports, and makes the file
READY once it listens.
"""

from __future__ import annotations

import selectors
import socket
import sys
from pathlib import Path

VERSION = "1.0"
ALL_PROTOCOLS = 0x0003  # ETH_P_ALL, linux/if_ether.h
SOL_PACKET = 263  # linux/socket.h
IGNORE_OUTGOING = 23  # PACKET_IGNORE_OUTGOING, linux/if_packet.h: what we send is not read again
LONGEST_FRAME = 65536


def port(name: str) -> socket.socket:
    """A packet socket on an interface."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    opened.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    opened.bind((name, ALL_PROTOCOLS))
    return opened


def main(ready: str, bridges: list[str]) -> None:
    """Forward until somebody ends us."""
    selector = selectors.DefaultSelector()
    for bridge in bridges:
        ports = [port(name) for name in bridge.split(",")]
        for each in ports:
            selector.register(each, selectors.EVENT_READ, [other for other in ports if other is not each])
    Path(ready).touch()
    while True:
        for key, _ in selector.select():
            frame = key.fileobj.recv(LONGEST_FRAME)  # type: ignore[union-attr]
            for other in key.data:
                other.send(frame)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
