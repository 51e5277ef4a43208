"""What the engine's child needs of TRex's client library to connect and to hold ports: a stand-in where none is.

It speaks the wire that was recorded with the real library, as far as the errors of a connection go. It sends nothing.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import zmq

VERSION_VARIABLE = "STAND_IN_STL"
"""The STL version that it says it has; 5.1 otherwise."""

_HEADER = struct.Struct(">II")
_MAGIC = 0xABE85CEA


class TRexError(Exception):
    """As the library's: what it says is in ``msg``, and ``str()`` of it is not to be relied on."""

    def __init__(self, msg: str) -> None:
        self.msg = msg

    def __str__(self) -> str:
        raise TypeError("__str__ returned non-string")  # as that of 2019 does on Python 3


class STLClient:
    """One connection."""

    def __init__(
        self,
        *,
        username: str = "stand-in",
        server: str = "127.0.0.1",
        sync_port: int = 4501,
        async_port: int = 4500,
        sync_timeout: int = 3,
    ) -> None:
        major, minor = map(int, os.environ.get(VERSION_VARIABLE, "5.1").split("."))
        self.ctx = SimpleNamespace(api_ver={"name": "STL", "major": major, "minor": minor})
        self._user = username
        self._address = f"tcp://{server}:{sync_port}"
        self._timeout_ms = sync_timeout * 1000
        self._context = zmq.Context()
        self._socket: Any = None
        self._api_h: str | None = None
        self._handlers: dict[int, str] = {}
        self._number = 0

    def connect(self) -> None:
        """Shake hands."""
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.RCVTIMEO, self._timeout_ms)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(self._address)
        self._api_h = self._ask("api_sync_v2", **self.ctx.api_ver)["api_h"]

    def is_connected(self) -> bool:
        """True between connect and disconnect."""
        return self._api_h is not None

    def disconnect(self, *, stop_traffic: bool, release_ports: bool) -> None:
        """End it."""
        self._api_h = None
        self._context.destroy(linger=0)

    def get_server_version(self) -> Any:
        """As the server says."""
        return self._ask("get_version")

    def get_server_system_info(self) -> Any:
        """As the server says."""
        return self._ask("get_system_info")

    def get_all_ports(self) -> list[int]:
        """Numbers."""
        return [port["index"] for port in self._ask("get_system_info")["ports"]]

    def acquire(self, ports: Sequence[int], *, force: bool) -> None:
        """Take ports."""
        for port in ports:
            try:
                self._handlers[port] = self._ask("acquire", port_id=port, user=self._user, session_id=7, force=force)
            except TRexError as error:
                raise TRexError(f"Port {port} : *** {error.msg}") from error

    def get_acquired_ports(self) -> list[int]:
        """Those held."""
        return sorted(self._handlers)

    def get_active_ports(self) -> list[int]:
        """It never sends."""
        return []

    def get_service_enabled_ports(self) -> list[int]:
        """It never asks for service mode."""
        return []

    def stop(self, ports: Sequence[int], *, rx_delay_ms: int) -> None:
        """As the library does."""
        for port in ports:
            self._ask("stop_traffic", port_id=port, profile_id="*", handler=self._handlers[port])

    def remove_all_streams(self, ports: Sequence[int]) -> None:
        """As the library does."""
        for port in ports:
            self._ask("remove_all_streams", port_id=port, profile_id="*", handler=self._handlers[port])

    def set_port_attr(self, ports: Sequence[int], *, promiscuous: bool) -> None:
        """As the library does."""
        for port in ports:
            attributes = {"promiscuous": {"enabled": promiscuous}}
            self._ask("set_port_attr", port_id=port, attr=attributes, handler=self._handlers[port])

    def get_port_attr(self, port: int) -> dict[str, Any]:
        """The part of it that the child reads."""
        attributes = self._ask("get_port_status", port_id=port, profile_id="*", block=False)["attr"]
        (about,) = [one for one in self._ask("get_system_info")["ports"] if one["index"] == port]
        return {
            "driver": about["driver"],
            "hw_mac": about["hw_mac"],
            "is_virtual": "yes" if about["is_virtual"] else "no",
            "speed": attributes["speed"],
            "prom": "on" if attributes["promiscuous"]["enabled"] else "off",
            "link": "UP" if attributes["link"]["up"] else "DOWN",
            "rx": about["rx"],
        }

    def release(self, ports: Sequence[int]) -> None:
        """Give ports back."""
        for port in ports:
            self._ask("release", port_id=port, handler=self._handlers.pop(port))

    def _ask(self, method: str, **params: Any) -> Any:
        if self._api_h is not None:
            params["api_h"] = self._api_h
        self._number += 1
        text = json.dumps({"jsonrpc": "2.0", "method": method, "id": f"s{self._number}", "params": params}).encode()
        try:
            self._socket.send(_HEADER.pack(_MAGIC, len(text)) + zlib.compress(text))
            answer = json.loads(zlib.decompress(self._socket.recv()[_HEADER.size :]))
        except zmq.Again as error:
            raise TRexError("*** [RPC] - Failed to get server response from " + self._address) from error
        if "error" in answer:
            raise TRexError(answer["error"]["specific_err"])
        return answer["result"]
