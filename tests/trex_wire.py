"""A TRex server that answers with the wire of a real one, as it was recorded (tests/data/trex/session*.jsonl).

It speaks ZeroMQ as TRex does: requests of JSON-RPC 2.0, mostly zipped, on one port, and on the other a notice that
there are events to fetch. The same question gets the answer that it got then, the nth time the nth, and the last one
from then on; what differs from session to session (ids, handles, users) does not make it another question. Events
follow the request that caused them.
"""

from __future__ import annotations

import copy
import json
import struct
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

DATA = Path(__file__).parent / "data" / "trex"
SESSION, ERRORS = DATA / "session.jsonl", DATA / "session-errors.jsonl"

_MAGIC = 0xABE85CEA
_HEADER = struct.Struct(">II")  # magic, length when unzipped
_OF_A_SESSION = {"api_h", "handler", "session_id", "user", "key"}
_CAUSES = {"acquire": (5,), "start_traffic": (10, 0, 14, 4), "stop_traffic": (11, 1), "release": (6,)}
"""Types of the events that follow a request: port taken, started and done, stopped, released."""
_POLL_MS = 20


class RecordedServer:
    """Serves from a thread of its own until it is closed.

    Args:
        recordings: what was recorded.
        instead: by method, the id of a recorded request whose answer is given to each one of that method.
    """

    def __init__(self, *recordings: Path, instead: Mapping[str, str] | None = None) -> None:
        self._exchanges: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = defaultdict(list)
        self._by_id: dict[str, dict[str, Any]] = {}
        self._recorded_events: list[dict[str, Any]] = []
        for path in recordings:
            self._read(path)
        self._instead = {method: self._by_id[number] for method, number in (instead or {}).items()}
        self._times: Counter[str] = Counter()
        self._events: list[dict[str, Any]] = []
        self._sequence = 0
        self._session = 0
        self.asked: list[dict[str, Any]] = []
        self._context = zmq.Context()
        self._requests = self._context.socket(zmq.REP)
        self._notices = self._context.socket(zmq.PUB)
        self.rpc_port = self._requests.bind_to_random_port("tcp://127.0.0.1")
        self.event_port = self._notices.bind_to_random_port("tcp://127.0.0.1")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="recorded TRex", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, and give back the ports."""
        self._ended.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def methods(self) -> list[str]:
        """What it was asked, in order."""
        return [request["method"] for request in self.asked]

    def _read(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["chan"] != "rpc" or entry.get("response") is None:
                continue
            requests, responses = (x if isinstance(x, list) else [x] for x in (entry["request"], entry["response"]))
            for request, response in zip(requests, responses, strict=False):
                self._keep(request, response)

    def _keep(self, request: Any, response: dict[str, Any]) -> None:
        if not isinstance(request, dict) or "method" not in request:
            return  # what was malformed on purpose
        self._by_id[request["id"]] = response
        if request["method"] == "get_async_events":
            self._recorded_events += response["result"]["data"]
        self._exchanges[request["method"]].append((_lasting(request), response))

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._requests, zmq.POLLIN)
        while not self._ended.is_set():
            if not poller.poll(_POLL_MS):
                continue
            text, zipped = _unzipped(self._requests.recv())
            request = json.loads(text)
            answer = [self._answer(one) for one in request] if isinstance(request, list) else self._answer(request)
            self._requests.send(_zipped(json.dumps(answer).encode()) if zipped else json.dumps(answer).encode())
            self._notices.send(b"{}")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        method = request["method"]
        self.asked.append(request)
        self._session = request.get("params", {}).get("session_id", self._session)
        if method == "get_async_events":
            events, self._events = self._events, []
            return {"id": request["id"], "jsonrpc": "2.0", "result": {"data": events}}
        answer = copy.deepcopy(self._instead.get(method) or self._recorded(request))
        if "error" not in answer:
            self._happened(request)
        return {**answer, "id": request["id"]}

    def _recorded(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to the recorded request that has most in common with this one."""
        method, asked = request["method"], _lasting(request)
        known = self._exchanges.get(method)
        if not known:
            text = f"Method {method} not registered"
            return {"jsonrpc": "2.0", "error": {"code": -32601, "message": text, "specific_err": text}}
        scores = [sum(params.get(name) == value for name, value in asked.items()) for params, _ in known]
        best = [response for score, (_, response) in zip(scores, known, strict=True) if score == max(scores)]
        key = json.dumps([method, asked], sort_keys=True)
        self._times[key] += 1
        return best[min(self._times[key], len(best)) - 1]

    def _happened(self, request: dict[str, Any]) -> None:
        """Make the events ready that a request was followed by, as the client's own session would see them."""
        port = request.get("params", {}).get("port_id")
        for kind in _CAUSES.get(request["method"], ()):
            for recorded in self._recorded_events:
                if recorded["type"] == kind and recorded["data"]["port_id"] == port:
                    event = copy.deepcopy(recorded)
                    if "session_id" in event["data"]:
                        event["data"]["session_id"] = self._session
                    self._events.append({**event, "seq": self._sequence})
                    self._sequence += 1
                    break


@contextmanager
def recorded_server(*recordings: Path, instead: Mapping[str, str] | None = None) -> Iterator[RecordedServer]:
    """A server on free ports of this machine."""
    server = RecordedServer(*recordings, instead=instead)
    try:
        yield server
    finally:
        server.close()


def request_id(path: Path, method: str, case: str) -> str:
    """The id of the first request of a method after the note that a case begins."""
    begun = False
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["chan"] == "note":
            begun = begun or case in entry["note"]
        elif begun and entry["chan"] == "rpc" and entry["request"]["method"] == method:
            return str(entry["request"]["id"])
    raise LookupError(f"{path.name} has no {method} in a case {case!r}")


def _lasting(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.get("params", {}).items() if name not in _OF_A_SESSION}


def _zipped(data: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(data)) + zlib.compress(data)


def _unzipped(data: bytes) -> tuple[bytes, bool]:
    if len(data) < _HEADER.size or _HEADER.unpack_from(data)[0] != _MAGIC:
        return data, False
    return zlib.decompress(data[_HEADER.size :]), True
