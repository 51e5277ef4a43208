"""Crossings as OpenFlow 1.4 flow modifications (OpenFlow 1.4, 7.3.4.2), a connection a bridge."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.ovs.openflow.connection import BARRIER_REPLY, BARRIER_REQUEST, FLOW_MOD, connected
from pytest_nfvperf.adapters.ovs.openflow.flow_mod import ADD, apply_actions, flow_mod_head, output

_PRIORITY = 100
_MATCH = struct.Struct("!HHII4x")  # type OXM, length without padding, header of OXM in_port, port
_IN_PORT = 0x80000004
_DEADLINE_S = 10.0


def add_crossings(management_socket: Path, crossings: Iterable[tuple[int, Sequence[int]]]) -> None:
    """Frames from each port leave by the others named with it; on the bridge when this returns (a barrier).

    Raises:
        DeadlineError: vswitchd did not answer in time.
        TestbedError: nobody listens, or vswitchd refused.
    """
    flows = [(FLOW_MOD, _flow(in_port, out_ports)) for in_port, out_ports in crossings]
    with connected(management_socket, "an answer about flows", _DEADLINE_S) as bridge:
        bridge.send(*flows, (BARRIER_REQUEST, b""))
        for kind, _ in bridge.answers("a flow"):
            if kind == BARRIER_REPLY:
                return


def _flow(in_port: int, out_ports: Sequence[int]) -> bytes:
    match = _MATCH.pack(1, 12, _IN_PORT, in_port)
    return flow_mod_head(ADD, _PRIORITY) + match + apply_actions(b"".join(map(output, out_ports)))
