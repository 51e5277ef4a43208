"""Parts of an OpenFlow 1.4 flow modification (7.3.4.2) that more than one kind of flow needs."""

from __future__ import annotations

import struct

ADD, DELETE_STRICT = 0, 4

_NO_BUFFER, _ANY = 0xFFFFFFFF, 0xFFFFFFFF
_FLOW_MOD = struct.Struct("!QQBBHHHIIIHH")
"""Cookie and mask, table, command, idle and hard timeout, priority, buffer, out port and group, flags, importance."""

_APPLY = struct.Struct("!HH4x")  # instruction "apply actions", its length
_OUTPUT = struct.Struct("!HHIH6x")  # action "output", its length, port, bytes to the controller


def flow_mod_head(command: int, priority: int, cookie: int = 0) -> bytes:
    """What a flow modification starts with, before its match: table 0, no timeouts, no flags."""
    return _FLOW_MOD.pack(cookie, 0, 0, command, 0, 0, priority, _NO_BUFFER, _ANY, _ANY, 0, 0)


def apply_actions(actions: bytes) -> bytes:
    """The instruction that applies these actions at once."""
    return _APPLY.pack(4, _APPLY.size + len(actions)) + actions


def output(port: int) -> bytes:
    """The action that sends the frame out of this port."""
    return _OUTPUT.pack(0, _OUTPUT.size, port, 0)
