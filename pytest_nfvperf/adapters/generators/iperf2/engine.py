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
from pytest_nfvperf.adapters.process.process import ManagedProcess, describe_exit, plain_environment, spawn, wait_until
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import GeneratorError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.ports.streams import StreamEnd

PROGRAM = "iperf"
_STALL_S = 16.0
"""Without any connect. SYNs are sent again after 1, 3, 7 and 15 s."""
_LOOK_S = 0.1
_VERSION_DEADLINE_S = 5.0
_ACCEPT_DEADLINE_S = 2.0
_TRIES = 3
"""iperf times connects by the wall clock, which somebody may set meanwhile: then they are made again."""
_SLEWED_S, _SLEWED_SHARE = 0.01, 0.001
"""By so much the wall clock may be off without being set: NTP corrects it by up to 500 ppm (adjtimex(2))."""
_OVERFLOWS = "TcpExt.ListenOverflows"


class Iperf2Engine:
    """Fulfils ports.streams.ConnectEngine."""

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
        for _ in range(_TRIES):
            steps = _ClockSteps()
            try:
                result = self._run_once(spec, client, server)
            except GeneratorError:  # with times below 0 there is no report that can be read
                if not steps.by_s():
                    raise
            else:
                if not steps.by_s():
                    return result
        raise GeneratorError(
            f"the machine's clock was set while iperf timed connects by it, {_TRIES} times in a row, last by "
            f"{steps.by_s():+,.1f} s: let NTP finish, or correct the clock, and run it again"
        )

    def _run_once(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:
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
    said = subprocess.run(
        [path, "--version"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=plain_environment(),
        timeout=_VERSION_DEADLINE_S,
        check=False,
    )
    found = re.search(r"version (\S+)", said.stdout + said.stderr)
    if found is None:
        raise TestbedError(f"{path} --version does not say its version", evidence={"stderr": said.stderr})
    return found[1]


class _ClockSteps:
    """Whether somebody set the wall clock since this was made."""

    def __init__(self) -> None:
        self._began_ns, self._before_ns = time.monotonic_ns(), _wall_offset_ns()

    def by_s(self) -> float:
        """By how much, s; 0 where it was not set."""
        stepped_s = (_wall_offset_ns() - self._before_ns) / 1e9
        slewed_s = _SLEWED_S + _SLEWED_SHARE * (time.monotonic_ns() - self._began_ns) / 1e9
        return stepped_s if abs(stepped_s) > slewed_s else 0.0


def _wall_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


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
