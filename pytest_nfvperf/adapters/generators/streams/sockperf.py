"""sockperf as a request engine: a server and a client, a process each (sockperf(3), ping-pong and under-load).

Its log of all messages (``--full-log``) says when each was sent, and when its response came.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.generators.end_counters import free_port, listening_ports
from pytest_nfvperf.adapters.generators.streams.program_pair import ProgramPair
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import GeneratorError, UnavailableError
from pytest_nfvperf.model.measure.streams import RequestResult, RequestSpec
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram
from pytest_nfvperf.ports.streams import StreamEnd

PROGRAM = "sockperf"
_FIRST_WITH_IPV6 = (3, 8)
_PORTS = range(11111, 11175)
_LISTEN_DEADLINE_S = 15.0
_MARGIN_S = 8.0
"""It warms up for some tenths of a second, and writes its log at the end."""
_NAMES = ("txTime", "rxTime")
_EXACT_DIGITS = 9
"""Times are whole nanoseconds."""
_KEPT_DIGITS = 3


class SockperfEngine:
    """Fulfils ports.request_engine.RequestEngine; errors of ProgramPair."""

    def __init__(self, journal: Journal) -> None:
        self._pair = ProgramPair(journal, PROGRAM, "requests")

    def run(self, spec: RequestSpec, client: StreamEnd, server: StreamEnd) -> RequestResult:
        """See the port. UnavailableError if the ends have IPv6 addresses, and this sockperf is too old for them."""
        pair = self._pair
        check_family(pair.version, server.address)
        port = free_port(server.namespace, _PORTS)
        if port is None:
            raise GeneratorError(f"no port of {_PORTS[0]}..{_PORTS[-1]} is free in namespace {server.namespace}")
        with pair.between(client, server):
            address = ["-i", server.address, "-p", str(port), "--tcp"]
            serving = pair.start("server", ["server", *address], spec.server_cpus)
            wait_until(
                lambda: not serving.running() or port in inside_netns(server.namespace, listening_ports),
                f"the sockperf server to listen on port {port} in namespace {server.namespace}",
                _LISTEN_DEADLINE_S,
                interval_s=0.005,
            )
            serving.check()
            log = pair.file("csv")
            load = ["under-load", "--mps", str(spec.load_per_s), "--reply-every", "1"]
            mode = ["ping-pong"] if spec.load_per_s is None else load
            sizes = ["-m", str(spec.message_bytes), "-t", str(spec.duration_s)]
            logged = ["--full-rtt", "--full-log", str(log)]
            options = [*mode, *address, "--client_ip", client.address, *sizes, *logged]
            deadline_s = spec.duration_s + _MARGIN_S
            until, late = time.monotonic() + deadline_s, f"did not end within {deadline_s:g} s"
            asking = pair.start("client", options, spec.client_cpus)
            pair.wait_client(asking, lambda _: late if time.monotonic() > until else None)
            times, unanswered, elapsed_ns = read_log(log)
            if not times.total:
                raise GeneratorError(f"{pair}: no request was answered")
            return RequestResult(spec, times, unanswered, elapsed_ns, pair.version)


def check_family(version: str, address: str) -> None:
    """UnavailableError for IPv6 if sockperf supports IPv4 only: it would print its usage and exit with status 0.

    ``version``: its own name, "sockperf 3.7-no.git".
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if ":" in address and numbers < _FIRST_WITH_IPV6:
        first = ".".join(map(str, _FIRST_WITH_IPV6))
        raise UnavailableError(
            f"{version} knows no IPv6, and {address} is such an address: requests over IPv6 need sockperf {first} "
            "or newer, which Debian 12 and 13 do not have; streams and TCP connects work over IPv6 without it"
        )


def read_log(path: Path) -> tuple[Histogram, int, int]:
    """Response times, requests without a response, and ns from the first request to the last.

    GeneratorError if there is no log, or no message in it.
    """
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError as error:
        raise GeneratorError("sockperf ended without having written its log of messages") from error
    messages = list(_messages(lines))
    if not messages:
        raise GeneratorError("sockperf logged no message", evidence={"its log": "\n".join(lines[:20])})
    answered = [rx - tx for tx, rx in messages if rx >= tx]
    counts = Counter(answered)
    exact = Histogram(tuple(sorted(counts.items())), min(counts, default=0), max(counts, default=0), _EXACT_DIGITS)
    sent = [tx for tx, _ in messages]
    return coarse_histogram(exact, _KEPT_DIGITS), len(messages) - len(answered), max(sent) - min(sent)


def _messages(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Send and receive times, ns. Versions differ in their columns; a line names them: "txTime(sec)"."""
    columns: tuple[int, int] | None = None
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        named = [next((n for n, field in enumerate(fields) if field.startswith(name)), None) for name in _NAMES]
        if named[0] is not None and named[1] is not None:
            columns = named[0], named[1]
        elif columns is not None and len(fields) > max(columns):
            yield _ns(fields[columns[0]]), _ns(fields[columns[1]])


def _ns(text: str) -> int:
    """Seconds with up to nine decimals, exactly."""
    whole, _, fraction = text.strip().partition(".")
    try:
        return int(whole) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
    except ValueError as error:
        raise GeneratorError(f"sockperf logged {text!r} as a time") from error
