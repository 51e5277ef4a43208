"""The child process that holds TRex's client library: JSON lines in, JSON lines out. Run by ``python -m``."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import queue
import re
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

PROTOCOL = 1
RELEASE_DEADLINE_S = 12.0
"""How long a worker may take to stop its traffic and release its ports; then it ends anyway."""
_CONNECT_S = 3.0
_POLL_S = 0.01
_RPC_TIMEOUT_S = 2
"""Timeout of a request. The library tries four times, so a server counts as lost after four times this."""
_MAC_OF_PACKET = 1
"""STLStreamDstMAC_PKT: frames keep their own MAC addresses, whatever the port has learnt."""
_PORT_COUNTERS = ("opackets", "ipackets", "obytes", "ibytes", "oerrors", "ierrors")
_LIBRARIES = (
    ("", "trex.stl.api"),
    ("automation/trex_control_plane/interactive", "trex.stl.api"),
    ("interactive", "trex.stl.api"),
    ("trex_client/interactive", "trex.stl.api"),
    ("automation/trex_control_plane/stl", "trex_stl_lib.api"),
    ("stl", "trex_stl_lib.api"),
    ("trex_client/stl", "trex_stl_lib.api"),
)
"""Where a distribution may have its client library, and what to import there; those of 2019 last."""
_PR_SET_PDEATHSIG = 1  # prctl(2)
_GAVE_UP_STATUS = 3
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_IN_USE = re.compile(r"already (?:taken by|owned by another session of) '(?P<owner>[^']*)'")
_LOST = (
    "connection to the server had been lost",
    "Failed to get server response",
    "Failed to send message",
    "Not connected to server",
    "not valid while disconnected",
    "no data flow from server",
    "reconnect",
)
_MISMATCH = ("version mismatch", "configuration mismatch", "Mismatch between client and server versions")


class Failure(Exception):  # noqa: N818 - an answer, not an accident
    """A refused request. ``code`` is stable, for the parent's decisions; ``message`` is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Stopped(BaseException):
    """The parent is gone, or wants this process to end."""


def text_of(error: BaseException) -> str:
    """The text of a client library's exception; some raise when they are converted by ``str``."""
    message = getattr(error, "msg", None)
    if message is None:
        message = ": ".join(str(argument) for argument in error.args) or type(error).__name__
    return _COLOURS.sub("", str(message)).strip()


def refusal(error: BaseException) -> dict[str, Any]:
    """The answer to a request that failed: a code for the parent, and the library's words."""
    if isinstance(error, Failure):
        return {"ok": False, "code": error.code, "error": error.message}
    text = text_of(error)
    answer: dict[str, Any] = {"ok": False, "code": "refused", "error": text}
    if in_use := _IN_USE.search(text):
        answer |= {"code": "port_taken", "owner": in_use["owner"]}
    elif isinstance(error, KeyboardInterrupt) or any(part in text for part in _LOST):
        answer["code"] = "server_lost"
    elif any(part.lower() in text.lower() for part in _MISMATCH):
        answer["code"] = "version_mismatch"
    elif "Could not resolve following ports" in text or "dest MAC is invalid" in text:
        answer["code"] = "unresolved"
    return answer


def stream_of(api: Any, plan: Mapping[str, Any]) -> Any:
    """One stream: a burst of exactly ``frames``, at ``fps``, counted under ``id``.

    A burst, because a duration gives frames x duration or one more.
    """
    count = api.STLFlowLatencyStats if plan["latency"] else api.STLFlowStats
    instructions = _instructions(api, plan["fields"])
    # A server of several cores would give each of them the whole sequence; of latency frames it makes one anyway.
    pinned = {"core_id": 0} if plan["fields"].get("one_core") and not plan["latency"] else {}
    return api.STLStream(
        packet=api.STLPktBuilder(
            pkt_buffer=bytes.fromhex(plan["frame"]),
            vm=api.STLScVmRaw(instructions) if instructions else None,
            remove_fcs=False,
        ),
        mode=api.STLTXSingleBurst(pps=plan["fps"], total_pkts=plan["frames"]),
        isg=plan["start_after_us"],
        flow_stats=count(pg_id=plan["id"]) if plan["id"] is not None else None,
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=_MAC_OF_PACKET,
        **pinned,
    )


def _instructions(api: Any, fields: Mapping[str, Any]) -> list[Any]:
    """How the server changes a stream's template from frame to frame."""
    made: list[Any] = []
    if "pairs" in fields:
        # The address counts up; when it starts over, the port counts up.
        pairs = fields["pairs"]
        made += [
            api.STLVmTupleGen(
                name="flow",
                ip_min=pairs["first_address"],
                ip_max=pairs["last_address"],
                port_min=pairs["first_port"],
                port_max=pairs["last_port"],
                limit_flows=pairs["flows"],
            ),
            api.STLVmWrFlowVar(fv_name="flow.ip", pkt_offset=pairs["address_at"]),
            api.STLVmWrFlowVar(fv_name="flow.port", pkt_offset=pairs["port_at"]),
        ]
    for at, counter in enumerate(fields.get("counters", ())):
        name, first, last, begin = f"counter{at}", counter["first"], counter["last"], counter["begin"]
        made += [
            api.STLVmFlowVar(
                name=name,
                init_value=last - begin if counter["down"] else first + begin,
                min_value=first,
                max_value=last,
                size=counter["bytes"],
                step=1,
                op="dec" if counter["down"] else "inc",
            ),
            api.STLVmWrFlowVar(fv_name=name, pkt_offset=counter["offset"]),
        ]
    sizes = {variable["name"]: variable["bytes"] for variable in fields.get("variables", ())}
    split = not fields.get("one_core")
    made += [_variable(api, variable, split=split) for variable in fields.get("variables", ())]
    made += [_write(api, write, sizes[write["variable"]]) for write in fields.get("writes", ())]
    return made + [api.STLVmFixIpv4(offset=offset) for offset in fields.get("ipv4", ())]


def _variable(api: Any, variable: Mapping[str, Any], *, split: bool) -> Any:
    """``split``: each of the server's cores sends every nth value. Client libraries of 2019 know nothing of it."""
    known = {"name": variable["name"], "size": variable["bytes"]}
    if not split:
        known |= {"split_to_cores": False, "next_var": variable["next"]}
    if "values" in variable:
        return api.STLVmFlowVar(value_list=list(variable["values"]), step=1, op="inc", **known)
    return api.STLVmFlowVar(
        init_value=variable["begin"],
        min_value=variable["min"],
        max_value=variable["max"],
        step=variable["step"],
        op="dec" if variable["down"] else "inc",
        **known,
    )


def _write(api: Any, write: Mapping[str, Any], size: int) -> Any:
    """``size``: of the variable, in bytes. The server's plain write is of all of it; with a mask it takes longer."""
    name, offset, width = write["variable"], write["offset"], write["bytes"]
    if size == width and write["mask"] == (1 << width * 8) - 1:
        return api.STLVmWrFlowVar(fv_name=name, pkt_offset=offset)
    return api.STLVmWrMaskFlowVar(
        fv_name=name, pkt_offset=offset, pkt_cast_size=width, mask=write["mask"], shift=write["shift"]
    )


def stream_counts(stats: Mapping[Any, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """One stream's own counters. ``elsewhere``: frames that arrived at a port they were not sent to."""
    found = _entry(stats.get("flow_stats") or {}, plan["id"])
    if found is None:
        raise ValueError(f"the server has no counters of stream {plan['id']}")
    received = _by_port(found["rx_pkts"])
    latency = None
    if plan["latency"]:
        samples = _entry(stats.get("latency") or {}, plan["id"])
        if samples is None:
            raise ValueError(f"the server has no latency of stream {plan['id']}")
        times = samples["latency"]
        latency = {
            "errors": dict(samples["err_cntrs"]),
            "min_us": times["total_min"],
            "max_us": times["total_max"],
            "histogram": {str(bucket): int(count) for bucket, count in times["histogram"].items()},
        }
    return {
        "id": plan["id"],
        "rx_port": plan["rx_port"],
        "sent": _by_port(found["tx_pkts"]).get(plan["port"], 0),
        "sent_bytes": _by_port(found["tx_bytes"]).get(plan["port"], 0),
        "received": received.get(plan["rx_port"], 0),
        "received_bytes": _by_port(found["rx_bytes"]).get(plan["rx_port"], 0),
        "elsewhere": {str(port): frames for port, frames in received.items() if frames and port != plan["rx_port"]},
        "latency": latency,
    }


def port_counts(stats: Mapping[Any, Any], ports: Iterable[int]) -> dict[str, dict[str, int]]:
    return {str(port): {key: int(_entry(stats, port)[key]) for key in _PORT_COUNTERS} for port in ports}


def all_received(stats: Mapping[Any, Any], plans: Iterable[Mapping[str, Any]]) -> bool:
    """True if no sent frame is missing."""
    return all(count["received"] >= count["sent"] > 0 for count in (stream_counts(stats, plan) for plan in plans))


def _entry(stats: Mapping[Any, Any], key: int) -> Any:
    """An entry of the library's statistics, whose keys are numbers or texts."""
    return stats.get(key, stats.get(str(key)))


def _by_port(counter: Mapping[Any, int]) -> dict[int, int]:
    return {int(port): int(frames) for port, frames in counter.items() if str(port).isdigit()}


# The commands, one method each. docs/reference/trex.md describes the protocol.
#
# Importing a client library of TRex puts old copies of yaml, scapy and zmq at the front of ``sys.path``. So a process
# can hold only one such library, and nothing else that needs those. The parent names the library.


def load(path: str) -> tuple[Any, str]:
    """Import the library under ``path``; "" means PyPI's. Returns it, and where it was found."""
    warnings.simplefilter("ignore")  # they are the library's own, of its age
    module, where = "trex_stl_lib.api", "PyPI trex-stl-lib"
    if path:
        for directory, module in _LIBRARIES:
            if Path(path, directory, *module.split(".")).with_suffix(".py").is_file():
                where = str(Path(path, directory))
                sys.path.insert(0, where)
                break
        else:
            raise Failure("no_client", f"there is no TRex client library under {path}")
    try:
        return importlib.import_module(module), where
    except ImportError as error:
        raise Failure("no_client", f"{where} cannot be imported: {error}") from error


class TrexSession:
    def __init__(self) -> None:
        self._api: Any = None
        self._client: Any = None
        self._ours: dict[str, int] = {}
        self._made_promiscuous: set[int] = set()

    def hello(self, *, path: str, server: str, rpc_port: int, event_port: int, user: str) -> dict[str, Any]:
        try:  # the library does not distinguish an absent server from one that does not answer
            socket.create_connection((server, rpc_port), _CONNECT_S).close()
        except OSError as error:
            raise Failure("unreachable", f"nothing listens on {server}:{rpc_port}: {error}") from error
        self._api, library = load(path)
        where = {"username": user, "server": server, "sync_port": rpc_port, "async_port": event_port}
        try:
            self._client = self._api.STLClient(**where, sync_timeout=_RPC_TIMEOUT_S)
        except TypeError:  # libraries of 2019 have no such setting
            self._client = self._api.STLClient(**where)
        self._client.connect()
        version = self._client.get_server_version()
        system = self._client.get_server_system_info()
        return {
            "protocol": PROTOCOL,
            "library": library,
            "server": {"version": version.get("version", "?"), "mode": version.get("mode", "STL")},
            "cores": system.get("dp_core_count", 0),
            "ports": [{"port": info["index"], "driver": info.get("driver", "?")} for info in system.get("ports", ())],
        }

    def attach(self, *, name: str, port: int, force: bool, route: Mapping[str, Any] | None) -> dict[str, Any]:
        """Take a port, stop its traffic, and make it receive everything."""
        client = self._connected()
        known = client.get_all_ports()
        if port not in known:
            raise Failure("bad_port", f"the server has ports {', '.join(map(str, sorted(known)))}, but no {port}")
        client.acquire([port], force=force)
        self._ours[name] = port
        try:
            self._stop_traffic([port])
            gateway = self._resolve(port, route) if route else None
            # Last: taking a port again turns promiscuous mode off.
            if client.get_port_attr(port).get("prom") == "off":
                self._made_promiscuous.add(port)
            client.set_port_attr([port], promiscuous=True)
        except BaseException:
            self.detach(name=name)
            raise
        info = client.get_port_attr(port)
        return {
            "driver": info.get("driver", "?"),
            "mac": info.get("hw_mac"),
            "virtual": info.get("is_virtual") in {"yes", True},
            "speed_gbps": info.get("speed"),
            "counters": (info.get("rx") or {}).get("counters"),
            "gateway_mac": gateway,
        }

    def detach(self, *, name: str) -> dict[str, Any]:
        port = self._ours.pop(name, None)
        if port is not None:
            client = self._connected()
            if port in client.get_acquired_ports():
                self._stop_traffic([port])
                self._end_promiscuous(client, [port])
                client.release([port])
        return {}

    def links(self) -> dict[str, Any]:
        client = self._connected()
        return {"links": {name: client.get_port_attr(port).get("link") != "DOWN" for name, port in self._ours.items()}}

    def trial(
        self, *, streams: Sequence[Mapping[str, Any]], duration_s: float, longest_s: float, rx_delay_s: float
    ) -> dict[str, Any]:
        """Send every stream's frames and count those that come back.

        Args:
            streams: arguments of :func:`stream_of`.
            duration_s: how long they are due.
            longest_s: when to stop a server that is slower.
            rx_delay_s: how long the last frames may take to arrive.
        """
        client, ports = self._connected(), sorted(self._ours.values())
        senders = sorted({plan["port"] for plan in streams})
        client.remove_all_streams(ports)
        for port in senders:
            client.add_streams([stream_of(self._api, plan) for plan in streams if plan["port"] == port], ports=[port])
        client.clear_stats(ports, clear_xstats=False)
        elapsed = self._send(senders, longest_s)
        until = time.monotonic() + rx_delay_s
        while not all_received(client.get_stats(ports), streams) and time.monotonic() <= until:
            time.sleep(_POLL_S)
        # Once more: the last frame may have been counted then, and been in no histogram yet.
        stats = client.get_stats(ports)
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
        client, self._client = self._client, None
        if client is None:
            return
        ports = [port for port in self._ours.values() if client.is_connected() and port in client.get_acquired_ports()]
        self._ours.clear()
        if ports:
            client.stop(ports, rx_delay_ms=0)
            client.remove_all_streams(ports)
            self._end_promiscuous(client, ports)
            client.release(ports)
        client.disconnect(stop_traffic=False, release_ports=False)

    def _connected(self) -> Any:
        if self._client is None:
            raise Failure("not_connected", "no server: hello comes first")
        return self._client

    def _stop_traffic(self, ports: list[int]) -> None:
        client = self._connected()
        if set(client.get_active_ports()) & set(ports):
            client.stop(ports, rx_delay_ms=0)
        client.remove_all_streams(ports)
        if set(client.get_service_enabled_ports()) & set(ports):
            client.set_service_mode(ports, False)

    def _end_promiscuous(self, client: Any, ports: list[int]) -> None:
        """Turn promiscuous mode off on ports where we turned it on."""
        ours = sorted(self._made_promiscuous & set(ports))
        if ours:
            client.set_port_attr(ours, promiscuous=False)
        self._made_promiscuous -= set(ours)

    def _resolve(self, port: int, route: Mapping[str, Any]) -> str:
        """The gateway's MAC. ARP works in service mode only, which would disturb a trial."""
        client = self._connected()
        client.set_service_mode([port], True)
        try:
            client.set_l3_mode(port, route["source"], route["gateway"], vlan=route["vlan"])
        finally:
            client.set_service_mode([port], False)
        mac: str = client.get_port_attr(port)["arp"]
        return mac

    def _send(self, senders: list[int], longest_s: float) -> dict[str, float]:
        """Start, and wait for the end; returns the shortest and longest possible duration."""
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


# The entry point. It releases the ports and ends when the parent is gone.
#
# The process that the parent starts only waits, and a worker below it does the work: PyPI's client library reacts to a
# fault of its subscriber with SIGTERM to its parent's process group, which must not be pytest's.


def fork_worker() -> None:
    """Fork: the parent waits for the child, which returns from here as the worker."""
    leader = os.getpid()
    die_with_parent(signal.SIGKILL)
    worker = os.fork()
    if worker:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for stream in (sys.stdin, sys.stdout):
            os.close(stream.fileno())  # otherwise nobody would notice that the worker closes its own
        _, status = os.waitpid(worker, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _stop)
    if os.getppid() != leader:  # it ended before prctl took hold
        os._exit(_GAVE_UP_STATUS)


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this signal when the thread that made this process ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def give_up_later() -> None:
    timer = threading.Timer(RELEASE_DEADLINE_S, os._exit, (_GAVE_UP_STATUS,))
    timer.daemon = True
    timer.start()


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows must not be interrupted again
    raise Stopped


def main() -> None:
    """Serve until ``quit``, the end of input, or the end of the parent."""
    fork_worker()
    # The library prints to stdout, so that becomes the log; the answers get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    session = TrexSession()
    try:
        _serve(session, _requests(), answers)
    except Stopped:
        give_up_later()
    finally:
        _close(session)


def _requests() -> queue.SimpleQueue[str]:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        # The parent is gone: interrupt the main thread so that it releases its ports; end by force if it hangs.
        give_up_later()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines


def _serve(session: TrexSession, requests: queue.SimpleQueue[str], answers: TextIO) -> None:
    commands: Mapping[str, Callable[..., dict[str, Any]]] = {
        "hello": session.hello,
        "attach": session.attach,
        "detach": session.detach,
        "links": session.links,
        "learn": session.trial,
        "trial": session.trial,
    }
    name = ""
    while name != "quit":
        request = json.loads(requests.get())
        number, name = request.pop("id"), request.pop("cmd")
        if name == "quit":
            _close(session)
        result = {"ok": True} if name == "quit" else _result(commands, name, request)
        print(json.dumps({"id": number, **result}), file=answers, flush=True)


def _result(commands: Mapping[str, Callable[..., dict[str, Any]]], name: str, request: Mapping[str, Any]) -> Any:
    try:
        if name not in commands:
            raise Failure("unknown_command", f"there is no command {name!r}")
        return {"ok": True, **commands[name](**request)}
    except Stopped:
        raise
    # A library of any age may raise anything: the answer names it, and its trace is in the log.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        traceback.print_exc()
        return refusal(error)


def _close(session: TrexSession) -> None:
    """A server that refuses the release has lost our session anyway; the trace is in the log."""
    try:
        session.close()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - see _result
        traceback.print_exc()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
        # The library's threads and sockets have no end of their own.
        sys.stderr.flush()
        os._exit(0)
