"""sockperf as a request engine: a server and a client, a process each (sockperf(3), ping-pong and under-load)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pytest_nfvperf.adapters.generators.iperf3.end_counters import listening_ports
from pytest_nfvperf.adapters.generators.sockperf.full_log import read_log
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.inside import inside_named, namespace_id
from pytest_nfvperf.adapters.process.process import ManagedProcess, describe_exit, run, spawn, wait_until
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import GeneratorError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.request_response import RequestResult, RequestSpec
from pytest_nfvperf.ports.streams import StreamEnd

PROGRAM = "sockperf"
_FIRST_WITH_IPV6 = (3, 8)
_PORTS = range(11111, 11175)
_LISTEN_DEADLINE_S = 5.0
_MARGIN_S = 8.0
"""It warms up for some tenths of a second, and writes its log at the end."""


class SockperfEngine:
    """Fulfils ports.streams.RequestEngine."""

    def __init__(self, journal: Journal, binary: str = PROGRAM) -> None:
        """Find sockperf.

        Raises:
            UnavailableError: it is not installed; names the package.
        """
        path = shutil.which(binary)
        if path is None:
            raise UnavailableError(not_installed(binary))
        self._binary = path
        self._journal = journal
        self._runs = 0
        self._version = f"sockperf {run([path, '--version']).split('version')[-1].split()[0]}"

    def run(self, spec: RequestSpec, client: StreamEnd, server: StreamEnd) -> RequestResult:
        """Send requests between two ends; see the port.

        Raises:
            UnavailableError: the ends have IPv6 addresses, and this sockperf is too old for them.
        """
        check_family(self._version, server.address)
        self._runs += 1
        files = {
            what: self._journal.directory / f"sockperf-{self._runs}-{what}" for what in ("server", "client", "csv")
        }
        port = self._free_port(server)
        namespaces = {end.namespace: namespace_id(end.namespace) for end in (client, server)}
        started: list[ManagedProcess] = []
        try:
            command = [self._binary, "server", *_address(server, port)]
            started.append(self._spawn("server", command, files["server"], server, spec.server_cpus))
            self._await_server(started[0], server, port)
            command = [self._binary, *_client_options(spec, client, server, port), "--full-log", str(files["csv"])]
            started.append(self._spawn("client", command, files["client"], client, spec.client_cpus))
            self._await_client(spec, started[1], client, server)
            _check_namespaces(namespaces)
            times, unanswered, elapsed_ns = read_log(files["csv"])
            if not times.total:
                raise GeneratorError(f"{_between(client, server)}: no request was answered")
            return RequestResult(spec, times, unanswered, elapsed_ns, self._version)
        finally:
            for process in reversed(started):
                process.stop()
            for file in files.values():
                file.unlink(missing_ok=True)

    def _spawn(self, role: str, command: list[str], log: Path, end: StreamEnd, cpus: tuple[int, ...]) -> ManagedProcess:
        return spawn(self._journal, f"sockperf {role}", command, log=log, cpus=cpus, netns=end.namespace)

    @staticmethod
    def _free_port(server: StreamEnd) -> int:
        taken = inside_named(server.namespace, listening_ports)
        port = next((port for port in _PORTS if port not in taken), None)
        if port is None:
            raise GeneratorError(f"no port of {_PORTS[0]}..{_PORTS[-1]} is free in namespace {server.namespace}")
        return port

    @staticmethod
    def _await_server(process: ManagedProcess, server: StreamEnd, port: int) -> None:
        wait_until(
            lambda: not process.running() or port in inside_named(server.namespace, listening_ports),
            f"the sockperf server to listen on port {port} in namespace {server.namespace}",
            _LISTEN_DEADLINE_S,
            interval_s=0.005,
        )
        process.check()

    @staticmethod
    def _await_client(spec: RequestSpec, process: ManagedProcess, client: StreamEnd, server: StreamEnd) -> None:
        deadline_s = spec.duration_s + _MARGIN_S
        try:
            status = process.popen.wait(deadline_s)
        except subprocess.TimeoutExpired as error:
            evidence = {"sockperf client": process.log_tail()}
            raise GeneratorError(
                f"{_between(client, server)} did not end within {deadline_s:g} s", evidence=evidence
            ) from error
        if status != 0:
            evidence = {"sockperf client": process.log_tail()}
            raise GeneratorError(f"{_between(client, server)} failed: it {describe_exit(status)}", evidence=evidence)


def check_family(version: str, address: str) -> None:
    """UnavailableError for IPv6 where sockperf knows IPv4 only: it would print its usage, and exit with status 0.

    ``version``: "sockperf 3.7-no.git", as it names itself.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if ":" in address and numbers < _FIRST_WITH_IPV6:
        first = ".".join(map(str, _FIRST_WITH_IPV6))
        raise UnavailableError(
            f"{version} knows no IPv6, and {address} is such an address: requests over IPv6 need sockperf {first} "
            "or newer, which Debian 12 and 13 do not have; streams and TCP connects work over IPv6 without it"
        )


def _check_namespaces(before: Mapping[str, int | None]) -> None:
    """A process keeps its namespace alive though its name was removed: the run went on, but where, nobody can say."""
    for name, number in before.items():
        if namespace_id(name) != number:
            raise TestbedError(f"network namespace {name} was deleted during the requests")


def _between(client: StreamEnd, server: StreamEnd) -> str:
    return f"sockperf from {client.namespace} to {server.address} in {server.namespace}"


def _address(end: StreamEnd, port: int) -> list[str]:
    return ["-i", end.address, "-p", str(port), "--tcp"]


def _client_options(spec: RequestSpec, client: StreamEnd, server: StreamEnd, port: int) -> list[str]:
    mode = (
        ["ping-pong"]
        if spec.load_per_s is None
        else ["under-load", "--mps", str(spec.load_per_s), "--reply-every", "1"]
    )
    sizes = ["-m", str(spec.message_bytes), "-t", str(spec.duration_s)]
    return [*mode, *_address(server, port), "--client_ip", client.address, *sizes, "--full-rtt"]
