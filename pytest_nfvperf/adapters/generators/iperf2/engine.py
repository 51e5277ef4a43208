"""iperf 2 as a connect engine: its client, which connects again and again (``--connect-only``), and our listener."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from pytest_nfvperf.adapters.generators.iperf2.connect_report import read_report
from pytest_nfvperf.adapters.generators.iperf2.listener import Listener, listening
from pytest_nfvperf.adapters.generators.iperf3.end_counters import read_end
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.inside import namespace_id
from pytest_nfvperf.adapters.process.process import ManagedProcess, describe_exit, spawn
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.adapters.process.wait import wait_until
from pytest_nfvperf.model.errors import GeneratorError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.ports.stream_engine import StreamEnd

PROGRAM = "iperf"
_STALL_S = 16.0
"""Without any connect. SYNs are sent again after 1, 3, 7 and 15 s."""
_LOOK_S = 0.1
_VERSION_DEADLINE_S = 5.0
_ACCEPT_DEADLINE_S = 2.0
_OVERFLOWS = "TcpExt.ListenOverflows"


class Iperf2Engine:
    """Fulfils ports.connect_engine.ConnectEngine."""

    def __init__(self, journal: Journal, binary: str = PROGRAM) -> None:
        """Find iperf.

        Raises:
            UnavailableError: it is not installed; names the package.
        """
        path = shutil.which(binary)
        if path is None:
            raise UnavailableError(not_installed(binary))
        self._binary = path
        self._journal = journal
        self._runs = 0
        self._version = f"iperf {_version(path)}"

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:
        """Connect from one end to the other; see the port."""
        self._runs += 1
        log = self._journal.directory / f"iperf-{self._runs}-connects"
        namespaces = {end.namespace: namespace_id(end.namespace) for end in (client, server)}
        overflows = _overflows(server)
        try:
            with listening(server, spec.server_cpus) as listener:
                text = self._client(spec, client, server, listener.port, log)
                _check_namespaces(namespaces)
                report = read_report(text)
                _await_accepted(listener, report.times.total)
            _check_overflows(server, overflows)
        finally:
            log.unlink(missing_ok=True)
        return ConnectResult(
            spec, report.times, report.mean_ns, report.failed, listener.accepted, listener.elapsed_ns, self._version
        )

    def _client(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd, port: int, log: Path) -> str:
        command = [self._binary, *_options(spec, server, port)]
        process = spawn(self._journal, "iperf client", command, log=log, cpus=spec.client_cpus, netns=client.namespace)
        try:
            _await_end(process, f"iperf from {client.namespace} to {server.address} in {server.namespace}")
            return log.read_text(encoding="utf-8", errors="replace")
        finally:
            process.kill()  # one whose connects get no answer does not hear SIGTERM


def _version(path: str) -> str:
    """``2.1.8``. That version prints it to standard error, and exits with status 1."""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_VERSION_DEADLINE_S, check=False)
    found = re.search(r"version (\S+)", said.stdout + said.stderr)
    if found is None:
        raise TestbedError(f"{path} --version does not say its version", evidence={"stderr": said.stderr})
    return found[1]


def _options(spec: ConnectSpec, server: StreamEnd, port: int) -> list[str]:
    """Both a number and a time: 2.1.8 (Debian 12) ends after the number, 2.2.1 (Debian 13) after the time."""
    until = [f"--connect-only={spec.connects}", "-t", str(spec.duration_s)]
    family = ["-V"] if ":" in server.address else []
    return ["-c", server.address, "-p", str(port), *family, *until, "--enhanced"]


def _await_end(process: ManagedProcess, what: str) -> None:
    """As long as it connects: each connect is a line, and how many a second is what is measured."""
    written, stalled_at = 0, time.monotonic() + _STALL_S
    while (status := _ended(process)) is None:
        if (now_written := process.log.stat().st_size) > written:
            written, stalled_at = now_written, time.monotonic() + _STALL_S
        elif time.monotonic() > stalled_at:
            evidence = {"iperf client": process.log_tail()}
            raise GeneratorError(f"{what} made no connect for {_STALL_S:g} s", evidence=evidence)
    if status != 0:
        evidence = {"iperf client": process.log_tail()}
        raise GeneratorError(f"{what} failed: it {describe_exit(status)}", evidence=evidence)


def _ended(process: ManagedProcess) -> int | None:
    try:
        return process.popen.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _await_accepted(listener: Listener, connected: int) -> None:
    """The listener may be behind the client by its queue."""
    wait_until(
        lambda: listener.accepted >= connected,
        f"the listener to take over {connected} connections",
        _ACCEPT_DEADLINE_S,
        last_seen=lambda: str(listener.accepted),
    )


def _overflows(server: StreamEnd) -> int | None:
    return read_end(server.namespace).protocols.get(_OVERFLOWS)


def _check_overflows(server: StreamEnd, before: int | None) -> None:
    """A full queue drops SYNs, which then looks like the datapath's loss."""
    after = _overflows(server)
    if before is not None and after is not None and after > before:
        raise GeneratorError(
            f"the listener in {server.namespace} was too slow: its queue overflowed {after - before} times, so the "
            "times of the connects are not those of the datapath; give it a CPU of its own (streams.server_cpus)"
        )


def _check_namespaces(before: Mapping[str, int | None]) -> None:
    """A process keeps its namespace alive though its name was removed: it went on, but where, nobody can say."""
    for name, number in before.items():
        if namespace_id(name) != number:
            raise TestbedError(f"network namespace {name} was deleted during the connects")
