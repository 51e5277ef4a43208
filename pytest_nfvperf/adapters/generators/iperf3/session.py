"""One iperf3 server and its client: two processes of the run, from the first to their ends."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.generators.iperf3.command import Binding, client_command, server_command
from pytest_nfvperf.adapters.generators.iperf3.end_counters import listening_ports, listens
from pytest_nfvperf.adapters.generators.iperf3.report_json import Report, read_report
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.inside import inside_named
from pytest_nfvperf.adapters.process.process import ManagedProcess, describe_exit, spawn, wait_until
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.ports.streams import StreamEnd

_LISTEN_DEADLINE_S = 5.0
_END_DEADLINE_S = 3.0
_LEFT_ALONE_S = 0.3
_TERM_DEADLINE_S = 1.0
_TAKEN = "Address already in use"


@dataclass(frozen=True, slots=True)
class Job:
    """What a session does.

    Attributes:
        client, server: the ends.
        options: what the client is told beyond where the server is.
        interval_s: how often both count.
        client_cpus, server_cpus: where they may run; empty: anywhere.
        ports: of which the server takes the first free one.
    """

    client: StreamEnd
    server: StreamEnd
    options: Sequence[str]
    interval_s: float
    client_cpus: tuple[int, ...]
    server_cpus: tuple[int, ...]
    ports: Sequence[int]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one process ended.

    Attributes:
        status: as subprocess gives it.
        in_time: False when it had to be ended by us.
        cpu_ns: user and system time of the process and its threads; None when somebody else saw its end.
        report: what it wrote; None when it could not.
        log: the end of its standard error.
    """

    status: int
    in_time: bool
    cpu_ns: tuple[int, int] | None
    report: Report | None
    log: str

    @property
    def killed(self) -> bool:
        """True when a signal that was not ours ended it."""
        return self.in_time and self.status < 0

    @property
    def error(self) -> str | None:
        """iperf3's own words, or how it ended; None when it ended well."""
        if self.report is not None and self.report.error is not None:
            return self.report.error
        if self.status == 0:
            return None
        said = next(iter(self.log.strip().splitlines()), "")
        return f"{describe_exit(self.status)}: {said}" if said else describe_exit(self.status)


class Session:
    """One test. ``stop()`` ends what still runs and removes its files."""

    def __init__(self, journal: Journal, binary: Path, job: Job, name: str) -> None:
        """Nothing is started yet. ``name`` is unique in the run: it names the files."""
        self._journal = journal
        self._binary = binary
        self._job = job
        self._name = name
        self._binding: Binding | None = None
        self._processes: dict[str, ManagedProcess] = {}

    def listen(self) -> None:
        """Start the server and wait until it listens.

        Raises:
            GeneratorError: no port is free, or iperf3 would not listen, with its own words.
        """
        tried: set[int] = set()
        while True:
            port = self._free_port(tried)
            self._binding = Binding(self._job.server.address, port)
            command = server_command(self._binary, self._binding, self._job.interval_s)
            process = self._spawn("server", command, self._job.server, self._job.server_cpus)
            wait_until(
                lambda: listens(process.pid, port) or not process.running(),  # noqa: B023 - called in this round only
                f"the iperf3 server to listen on port {port} in namespace {self._job.server.namespace}",
                _LISTEN_DEADLINE_S,
                interval_s=0.002,
            )
            if process.running():
                return
            self._refuse_unless_taken(self._ended("server", process.popen.returncode, None))
            tried.add(port)

    def start(self) -> None:
        """Start the client; the streams flow as soon as it has reached the server."""
        if self._binding is None:
            raise ValueError("the server must listen before its client starts")
        job = self._job
        command = client_command(self._binary, job.client.address, self._binding, job.interval_s, job.options)
        self._spawn("client", command, job.client, job.client_cpus)

    def finish(self, deadline_s: float) -> tuple[Ended, Ended]:
        """Wait for the client's end, then for the server's; whoever does not come to it is ended.

        Args:
            deadline_s: for the client, from now.

        Returns:
            How the client and the server ended.
        """
        client = self._finish("client", deadline_s)
        # a server whose client failed may never have heard of it
        patience_s = _END_DEADLINE_S if client.error is None else _LEFT_ALONE_S
        return client, self._finish("server", patience_s)

    def stop(self) -> None:
        """End what still runs. Can be called twice."""
        for role, process in self._processes.items():
            process.kill()
            if not self._journal.keep:
                self._file(f"{role}.json").unlink(missing_ok=True)
                process.log.unlink(missing_ok=True)
        self._processes.clear()

    def pid(self, role: str) -> int:
        """Of the "client" or the "server"."""
        return self._processes[role].pid

    def _file(self, what: str) -> Path:
        return self._journal.directory / f"{self._name}-{what}"

    def _free_port(self, tried: set[int]) -> int:
        namespace, ports = self._job.server.namespace, self._job.ports
        taken = inside_named(namespace, listening_ports) | tried
        for port in ports:
            if port not in taken:
                return port
        listed = ", ".join(str(port) for port in ports if port in taken)
        raise GeneratorError(f"no port is free for the iperf3 server in namespace {namespace}: {listed} taken")

    def _refuse_unless_taken(self, ended: Ended) -> None:
        if _TAKEN not in (ended.error or ""):
            where = f"{self._job.server.address} in namespace {self._job.server.namespace}"
            raise GeneratorError(
                f"the iperf3 server did not come to listen on {where}: {ended.error}",
                evidence={"iperf3 server": ended.log},
            )

    def _spawn(self, role: str, command: list[str], end: StreamEnd, cpus: tuple[int, ...]) -> ManagedProcess:
        former = self._processes.get(role)
        if former is not None:
            former.stop()
        process = spawn(
            self._journal,
            f"iperf3 {role}",
            command,
            log=self._file(f"{role}.log"),
            output=self._file(f"{role}.json"),
            cpus=cpus,
            netns=end.namespace,
        )
        self._processes[role] = process
        return process

    def _finish(self, role: str, deadline_s: float) -> Ended:
        process = self._processes[role]
        ended = _reap(process, deadline_s)
        in_time = ended is not None
        if ended is None:  # asked by SIGTERM it still writes what it counted
            process.popen.terminate()
            ended = _reap(process, _TERM_DEADLINE_S)
        if ended is None:
            process.popen.kill()
            ended = _reap(process, _END_DEADLINE_S)
        status, cpu_ns = ended if ended is not None else (process.popen.wait(), None)
        return self._ended(role, status, cpu_ns, in_time=in_time)

    def _ended(self, role: str, status: int, cpu_ns: tuple[int, int] | None, *, in_time: bool = True) -> Ended:
        report = read_report(self._file(f"{role}.json"), client=role == "client")
        return Ended(status, in_time, cpu_ns, report, self._processes[role].log_tail())


def _reap(process: ManagedProcess, deadline_s: float) -> tuple[int, tuple[int, int] | None] | None:
    """Wait for a child's end without polling; its status and CPU time in ns. None when it goes on running.

    By wait4(2) rather than /proc/PID/stat, whose clock ticks of 10 ms are 1 % of a second.
    """
    if process.popen.returncode is not None:
        return process.popen.returncode, None
    handle = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        if not poller.poll(deadline_s * 1000):
            return None
    finally:
        os.close(handle)
    _, status, usage = os.wait4(process.pid, 0)
    process.popen.returncode = os.waitstatus_to_exitcode(status)
    return process.popen.returncode, (round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9))
