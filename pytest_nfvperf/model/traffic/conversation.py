"""What a user writes of conversations: connections, datagrams and echoes, whose load is connections a second."""

from __future__ import annotations

from typing import Annotated, TypedDict, Unpack

from pytest_nfvperf.model.arguments import Allowed, Ip, checked, number, whole
from pytest_nfvperf.model.traffic.conversation_frames import (
    LEAST_DATAGRAM,
    MOST_PAYLOAD,
    Close,
    ConversationFrames,
    Nat,
)
from pytest_nfvperf.model.traffic.traffic import Traffic

_PORTS = Allowed(
    "a range of numbers up to 65535 without gaps, such as range(1024, 65536)",
    lambda value: isinstance(value, range) and value.step == 1 and 0 <= value.start < value.stop <= 1 << 16,
)


Payload = Annotated[int, whole(0, 1 << 20, "bytes")]
Datagram = Annotated[int, whole(LEAST_DATAGRAM, MOST_PAYLOAD, "bytes, of which the signature is 14")]


class ConversationEnds(TypedDict, total=False):
    """Who converses: attributes of ConversationFrames."""

    clients: Annotated[int, whole(1, 1 << 16)]
    ports: Annotated[range, _PORTS]
    server_port: Annotated[int, whole(0, 65535)] | None
    client_ip: Ip
    server_ip: Ip
    vlan: Annotated[int, whole(1, 4094)] | None
    nat: Nat | None


class Conversation:
    """A script of frames between a client and a server, each of which makes the next one be sent.

    ``tcp``, ``udp`` and ``icmp`` return a Traffic, whose load is connections a second: its trials count connections,
    and lost ones are those that failed.
    """

    @staticmethod
    @checked("Conversation.tcp")
    def tcp(
        *,
        request: Payload = 64,
        response: Payload = 512,
        mss: Annotated[int, whole(1, MOST_PAYLOAD, "bytes")] = 1400,
        close: Close = "fin",
        hold_s: Annotated[float, number(0, 600, "seconds")] = 0.0,
        **ends: Unpack[ConversationEnds],
    ) -> Traffic:
        """A Traffic of TCP connections, one after the other; its load is connections a second.

        Each opens by a handshake, sends a request of one frame, gets a response, and is closed.

        Args:
            request: bytes of payload; with ``response`` 0 for connections without data.
            response: bytes of payload, in as many frames as they need.
            mss: most bytes of payload in one frame.
            close: ``fin``: both sides; ``rst``: the client resets it; ``none``: it stays open.
            hold_s: time from when a connection was due until it is closed; 0: closed when it was answered. As many are
                open at once as are opened in that time.
            ends: ``clients``, ``ports``, ``server_port``, ``client_ip``, ``server_ip``, ``vlan`` and ``nat``, as the
                attributes.

        Raises ArgumentError for what does not go together.
        """
        return _sent(ConversationFrames("tcp", request, response, mss, close, hold_s=hold_s, **ends))

    @staticmethod
    @checked("Conversation.udp")
    def udp(*, request: Datagram = 64, response: Datagram = 512, **ends: Unpack[ConversationEnds]) -> Traffic:
        """A Traffic of UDP datagrams, each with its answer; arguments as of :meth:`tcp`."""
        return _sent(ConversationFrames("udp", request, response, MOST_PAYLOAD, "none", **ends))

    @staticmethod
    @checked("Conversation.icmp")
    def icmp(*, payload: Datagram = 56, **ends: Unpack[ConversationEnds]) -> Traffic:
        """A Traffic of echo requests, each with its reply; arguments as of :meth:`tcp`, without a ``server_port``."""
        return _sent(ConversationFrames("icmp", payload, payload, MOST_PAYLOAD, "none", **ends))


def _sent(frames: ConversationFrames) -> Traffic:
    return Traffic(packet=frames, bidirectional=False)
