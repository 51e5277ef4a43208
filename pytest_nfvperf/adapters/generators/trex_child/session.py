"""What the child can do with a TRex server: one method a command. docs/trex.md describes the protocol.

Finds and imports one of TRex's client libraries; which one, the parent says.

Importing one puts old copies of yaml, scapy and zmq at the front of ``sys.path``, so a process can hold
one library only, and nothing else that needs those.
"""

from __future__ import annotations

import importlib
import socket
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.trex_child.failures import Failure, failure_of
from pytest_nfvperf.adapters.generators.trex_child.streams import port_counts, settled, stream_counts, stream_of

_PLACES = ("", "automation/trex_control_plane/interactive", "interactive", "trex_client/interactive")
_OLD_PLACES = ("automation/trex_control_plane/stl", "stl", "trex_client/stl")


@dataclass(frozen=True)
class Library:
    """An imported client library. ``api``: the module with STLClient and the classes of streams."""

    api: Any
    module: str
    where: str


def load(path: str) -> Library:
    """Import the library found under ``path``; "" means PyPI's, from the environment."""
    warnings.simplefilter("ignore")  # they are the library's own, of its age
    if not path:
        return _imported("trex_stl_lib.api", "PyPI trex-stl-lib")
    for places, module, file in (
        (_PLACES, "trex.stl.api", "trex/stl/api.py"),
        (_OLD_PLACES, "trex_stl_lib.api", "trex_stl_lib/api.py"),
    ):
        for place in places:
            directory = Path(path) / place
            if (directory / file).is_file():
                sys.path.insert(0, str(directory))
                return _imported(module, str(directory))
    raise Failure("no_client", f"there is no TRex client library under {path}")


def spoken(library: Library) -> str:
    """The version of the protocol that it tells servers, as its client object has it."""
    client = library.api.STLClient()
    # Where it is since v2.31, and where it was in 2019.
    version = client.ctx.api_ver if hasattr(client, "ctx") else client.conn.api_vers[0]
    return f"{version['major']}.{version['minor']}"


def _imported(module: str, where: str) -> Library:
    try:
        return Library(importlib.import_module(module), module, where)
    except ImportError as error:
        raise Failure("no_client", f"{where} cannot be imported: {error}") from error


PROTOCOL = 1
_CONNECT_S = 3.0
_POLL_S = 0.01
_RPC_TIMEOUT_S = 2
"""Of one request; the library tries four times, so that a server is lost after four times this."""


class TrexSession:
    """One server, and the ports of it that are ours."""

    def __init__(self) -> None:
        self._library: Library | None = None
        self._client: Any = None
        self._ours: dict[str, int] = {}
        self._made_promiscuous: set[int] = set()

    def hello(self, *, path: str, server: str, rpc_port: int, event_port: int, user: str) -> dict[str, Any]:
        _check_listens(server, rpc_port)
        self._library = load(path)
        self._client = _client(self._library, server, rpc_port, event_port, user)
        self._client.connect()
        version = self._client.get_server_version()
        system = self._client.get_server_system_info()
        return {
            "protocol": PROTOCOL,
            "library": self._library.where,
            "server": {"version": version.get("version", "?"), "mode": version.get("mode", "STL")},
            "cores": system.get("dp_core_count", 0),
            "ports": [{"port": info["index"], "driver": info.get("driver", "?")} for info in system.get("ports", ())],
        }

    def attach(self, *, name: str, port: int, force: bool, route: Mapping[str, Any] | None) -> dict[str, Any]:
        """Take a port, quiet it and make it receive everything."""
        client = self._connected()
        known = client.get_all_ports()
        if port not in known:
            raise Failure("bad_port", f"the server has ports {', '.join(map(str, sorted(known)))}, but no {port}")
        client.acquire([port], force=force)
        self._ours[name] = port
        try:
            self._quiet([port])
            gateway = self._resolve(port, route) if route else None
            # After all else: taking a port anew turns it off.
            self._make_promiscuous(port)
        except BaseException:
            self.detach(name=name)
            raise
        return {**_port_facts(client.get_port_attr(port)), "gateway_mac": gateway}

    def detach(self, *, name: str) -> dict[str, Any]:
        port = self._ours.pop(name, None)
        if port is not None:
            client = self._connected()
            if port in client.get_acquired_ports():
                self._quiet([port])
                self._put_back(client, [port])
                client.release([port])
        return {}

    def links(self) -> dict[str, Any]:
        client = self._connected()
        return {"links": {name: client.get_port_attr(port).get("link") != "DOWN" for name, port in self._ours.items()}}

    def trial(
        self, *, streams: Sequence[Mapping[str, Any]], duration_s: float, longest_s: float, rx_delay_s: float
    ) -> dict[str, Any]:
        """Send every stream's frames and count what comes back.

        Args:
            streams: as :func:`stream_of` takes them.
            duration_s: how long they are due.
            longest_s: when to stop a server that is slower than that.
            rx_delay_s: how long the last frames may be under way.
        """
        client, ports = self._connected(), sorted(self._ours.values())
        senders = sorted({plan["port"] for plan in streams})
        self._load(streams, ports, senders)
        elapsed = self._send(senders, longest_s)
        stats = self._settled(ports, streams, rx_delay_s)
        client.wait_on_traffic(ports=ports, timeout=_CONNECT_S, rx_delay_ms=0)
        return {
            "streams": [stream_counts(stats, plan) for plan in streams],
            "ports": port_counts(stats, ports),
            "elapsed": elapsed,
            "complete": elapsed["longest_s"] <= longest_s,
            "cpu_percent": float(stats["global"].get("cpu_util") or 0.0),
            "queue_full": int(stats["global"].get("queue_full") or 0),
            "links": self.links()["links"],
            "duration_s": duration_s,
        }

    def close(self) -> None:
        """Stop, release, disconnect. A server that is gone has nothing of ours any more."""
        client, self._client = self._client, None
        if client is None:
            return
        ports = [port for port in self._ours.values() if client.is_connected() and port in client.get_acquired_ports()]
        self._ours.clear()
        if ports:
            client.stop(ports, rx_delay_ms=0)
            client.remove_all_streams(ports)
            self._put_back(client, ports)
            client.release(ports)
        client.disconnect(stop_traffic=False, release_ports=False)

    def _connected(self) -> Any:
        if self._client is None:
            raise Failure("not_connected", "no server: hello comes first")
        return self._client

    def _quiet(self, ports: list[int]) -> None:
        client = self._connected()
        if set(client.get_active_ports()) & set(ports):
            client.stop(ports, rx_delay_ms=0)
        client.remove_all_streams(ports)
        if set(client.get_service_enabled_ports()) & set(ports):
            client.set_service_mode(ports, False)

    def _make_promiscuous(self, port: int) -> None:
        client = self._connected()
        if client.get_port_attr(port).get("prom") == "off":
            self._made_promiscuous.add(port)
        client.set_port_attr([port], promiscuous=True)

    def _put_back(self, client: Any, ports: list[int]) -> None:
        """Those that were not promiscuous before us are not after us."""
        ours = sorted(self._made_promiscuous & set(ports))
        if ours:
            client.set_port_attr(ours, promiscuous=False)
        self._made_promiscuous -= set(ours)

    def _resolve(self, port: int, route: Mapping[str, Any]) -> str:
        """Ask for the gateway's MAC; ARP is answered in service mode only, which would spoil a trial."""
        client = self._connected()
        client.set_service_mode([port], True)
        try:
            client.set_l3_mode(port, route["source"], route["gateway"], vlan=route["vlan"])
        finally:
            client.set_service_mode([port], False)
        mac: str = client.get_port_attr(port)["arp"]
        return mac

    def _load(self, streams: Sequence[Mapping[str, Any]], ports: list[int], senders: list[int]) -> None:
        client, library = self._connected(), self._library
        assert library is not None
        client.remove_all_streams(ports)
        for port in senders:
            made = [stream_of(library.api, plan) for plan in streams if plan["port"] == port]
            client.add_streams(made, ports=[port])
        client.clear_stats(ports, clear_xstats=False)

    def _send(self, senders: list[int], longest_s: float) -> dict[str, float]:
        """Start, and wait for the end; returns how long it took, at least and at most."""
        client = self._connected()
        began = time.monotonic()
        client.start(ports=senders, mult="1")
        started = seen = time.monotonic()
        while set(client.get_active_ports()) & set(senders):
            seen = time.monotonic()
            if seen - started > longest_s:
                client.stop(senders, rx_delay_ms=0)
                break
            time.sleep(_POLL_S)
        return {"shortest_s": max(0.0, seen - started), "longest_s": time.monotonic() - began}

    def _settled(self, ports: list[int], streams: Sequence[Mapping[str, Any]], rx_delay_s: float) -> Any:
        """The statistics, as soon as everything arrived, or after the delay."""
        client = self._connected()
        until = time.monotonic() + rx_delay_s
        while True:
            if settled(client.get_stats(ports), streams) or time.monotonic() > until:
                # Anew: those may be of a moment when the last frame was counted, and was in no histogram yet.
                return client.get_stats(ports)
            time.sleep(_POLL_S)


def about(*, path: str) -> dict[str, Any]:
    """Import the library, connect to nothing."""
    library = load(path)
    return {"library": library.where, "stl": spoken(library)}


def _check_listens(server: str, port: int) -> None:
    """Tell a server that is not there from one that does not answer."""
    try:
        socket.create_connection((server, port), _CONNECT_S).close()
    except OSError as error:
        raise Failure("unreachable", f"nothing listens on {server}:{port}: {error}") from error


def _client(library: Library, server: str, rpc_port: int, event_port: int, user: str) -> Any:
    made = {"username": user, "server": server, "sync_port": rpc_port, "async_port": event_port}
    try:
        return library.api.STLClient(**made, sync_timeout=_RPC_TIMEOUT_S)
    except TypeError:  # those of 2019 have no such setting
        return library.api.STLClient(**made)


def _port_facts(info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "driver": info.get("driver", "?"),
        "mac": info.get("hw_mac"),
        "virtual": info.get("is_virtual") in {"yes", True},
        "speed_gbps": info.get("speed"),
        "counters": (info.get("rx") or {}).get("counters"),
    }


def refused(error: BaseException) -> dict[str, Any]:
    """An error as the protocol tells it."""
    failure = failure_of(error)
    return {"ok": False, "code": failure.code, "error": failure.message, **failure.facts}
