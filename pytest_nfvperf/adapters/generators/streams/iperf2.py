"""iperf 2 as a connect engine: its client connects again and again (``--connect-only``) to our own listener.

iperf's own server makes a thread for each connection. Beyond some thousand a second its queue overflows, SYNs are
dropped, and connects wait a second for the next one. The kernel answers a SYN as long as the queue has room, so a
connect to our listener measures the datapath and two kernels.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from pytest_nfvperf.adapters.generators.end_counters import read_end
from pytest_nfvperf.adapters.generators.streams.program_pair import GivesUp, ProgramPair
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, wait_until
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.measure.streams import ConnectResult, ConnectSpec
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.ports.streams import StreamEnd

PROGRAM = "iperf"
_STALL_S = 16.0
"""Longest time without any connect. SYNs are sent again after 1, 3, 7 and 15 s."""
_ACCEPT_DEADLINE_S = 2.0
_TRIES = 3
"""iperf times connects by the wall clock. If somebody sets it meanwhile, they are made again."""
_SLEWED_S, _SLEWED_SHARE = 0.01, 0.001
"""How far the wall clock may drift without being set: NTP corrects it by up to 500 ppm (adjtimex(2))."""
_OVERFLOWS = "TcpExt.ListenOverflows"
_TIME = re.compile(r"\(ct=(\d+)\.(\d\d) ms\)")
_MS = r"(\d+\.\d+)"
_SUMMARY = re.compile(rf"final connect times \(min/avg/max/stdev\) = {_MS}/{_MS}/{_MS}/\S+ ms \(tot/err\)")
_FAILED = re.compile(r"^(?:\[.*\] )?tcp connect (?:to \S+ port \d+ )?failed(?! \(Bad file descriptor\))", re.MULTILINE)
"""A line for each. The summary's own count is right in 2.1.8, and always 0 in 2.2.1. That version keeps its closed
socket after the first failure: the bad descriptors that follow are no connects."""
_STEP_NS = 10_000
"""A line has milliseconds with two decimals; the summary has three."""
_EXACT_DIGITS = 9
_SHOWN_LINES = 20
_BACKLOG = 4096
"""What the kernel allows by default (net.core.somaxconn)."""
_ACCEPT_LOOK_S = 0.1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s (socket(7)). A client that closes first would keep its port for a minute (TIME_WAIT)."""


class Iperf2Engine:
    """Fulfils ports.connect_engine.ConnectEngine; errors of ProgramPair."""

    def __init__(self, journal: Journal) -> None:
        self._pair = ProgramPair(journal, PROGRAM, "connects")

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:
        for _ in range(_TRIES):
            steps = _ClockSteps()
            try:
                result = self._run_once(spec, client, server)
            except GeneratorError:  # a report with times below 0 cannot be read
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
        overflows = _overflows(server)
        with self._pair.between(client, server):
            with listening(server, spec.server_cpus) as listener:
                # Both a number and a time: 2.1.8 (Debian 12) ends after the number, 2.2.1 (Debian 13) after the time.
                until = [f"--connect-only={spec.connects}", "-t", str(spec.duration_s)]
                family = ["-V"] if ":" in server.address else []
                options = ["-c", server.address, "-p", str(listener.port), *family, *until, "--enhanced"]
                process = self._pair.start("client", options, spec.client_cpus)
                self._pair.wait_client(process, _stalls())
                report = read_report(process.log.read_text(encoding="utf-8", errors="replace"))
                wait_until(  # the listener may be behind the client by its queue
                    lambda: listener.accepted >= report.times.total,
                    f"the listener to take over {report.times.total} connections",
                    _ACCEPT_DEADLINE_S,
                    last_seen=lambda: str(listener.accepted),
                )
            _check_overflows(server, overflows)
        return ConnectResult(
            spec,
            report.times,
            report.mean_ns,
            report.failed,
            listener.accepted,
            listener.elapsed_ns,
            self._pair.version,
        )


def _stalls() -> GivesUp:
    """Let a client continue while it connects. Each connect is a line of its log."""
    written, stalled_at = 0, time.monotonic() + _STALL_S

    def look(process: ManagedProcess) -> str | None:
        nonlocal written, stalled_at
        if (now_written := process.log.stat().st_size) > written:
            written, stalled_at = now_written, time.monotonic() + _STALL_S
        return f"made no connect for {_STALL_S:g} s" if time.monotonic() > stalled_at else None

    return look


class _ClockSteps:
    """Whether somebody set the wall clock since this object was made."""

    def __init__(self) -> None:
        self._began_ns, self._before_ns = time.monotonic_ns(), _wall_offset_ns()

    def by_s(self) -> float:
        """Seconds by which it was set; 0 if it was not."""
        stepped_s = (_wall_offset_ns() - self._before_ns) / 1e9
        slewed_s = _SLEWED_S + _SLEWED_SHARE * (time.monotonic_ns() - self._began_ns) / 1e9
        return stepped_s if abs(stepped_s) > slewed_s else 0.0


def _wall_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _overflows(server: StreamEnd) -> int | None:
    return read_end(server.namespace).protocols.get(_OVERFLOWS)


def _check_overflows(server: StreamEnd, before: int | None) -> None:
    """A full queue drops SYNs, which would look like the datapath's loss."""
    after = _overflows(server)
    if before is not None and after is not None and after > before:
        raise GeneratorError(
            f"the listener in {server.namespace} was too slow: its queue overflowed {after - before} times, so the "
            "times of the connects are not those of the datapath; give it a CPU of its own (streams.server_cpus)"
        )


@dataclass(frozen=True, slots=True)
class ConnectReport:
    """Times of connects that succeeded, their mean, and how many failed."""

    times: Histogram
    mean_ns: float
    failed: int


def read_report(text: str) -> ConnectReport:
    """The report of a client with ``--connect-only --enhanced``; GeneratorError without a connection or a summary."""
    steps = Counter(int(whole) * 100 + int(hundredths) for whole, hundredths in _TIME.findall(text))
    summary = _SUMMARY.search(text)
    if not steps or summary is None:
        why = "connected to nothing" if not steps else "printed no summary of its connects"
        raise GeneratorError(f"iperf {why}", evidence={"iperf": "\n".join(text.splitlines()[-_SHOWN_LINES:])})
    low, mean, high = (float(ms) * 1e6 for ms in summary.groups()[:3])
    counts = tuple((step * _STEP_NS, count) for step, count in sorted(steps.items()))
    return ConnectReport(Histogram(counts, round(low), round(high), _EXACT_DIGITS), mean, len(_FAILED.findall(text)))


class Listener:
    """Counts connections. ``first_ns`` and ``last_ns``: when it accepted the first and the last; None before."""

    def __init__(self, listening: socket.socket, cpus: tuple[int, ...]) -> None:
        self._socket = listening
        self._cpus = cpus
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.port: int = listening.getsockname()[1]
        self.accepted = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    @property
    def elapsed_ns(self) -> int:
        return 0 if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        if self._cpus:
            os.sched_setaffinity(0, self._cpus)  # of this thread alone
        held: socket.socket | None = None
        while not self._stop.is_set():
            with suppress(TimeoutError):
                connection, _ = self._socket.accept()
                self.last_ns = time.monotonic_ns()
                self.first_ns = self.first_ns or self.last_ns
                self.accepted += 1
                # Only now: once the next one has come, the client is done with this one, and a reset is no failure.
                if held is not None:
                    held.close()
                held = connection
        if held is not None:
            held.close()


@contextmanager
def listening(end: StreamEnd, cpus: tuple[int, ...] = ()) -> Iterator[Listener]:
    """Listen at an end, on a port that the kernel picks; on these CPUs, or any.

    GeneratorError if the end's namespace does not have its address.
    """
    with inside_netns(end.namespace, partial(_listening_socket, end)) as made:
        listener = Listener(made, cpus)
        listener.start()
        try:
            yield listener
        finally:
            listener.stop()


def _listening_socket(end: StreamEnd) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in end.address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind((end.address, 0))
    except OSError as error:
        made.close()
        why = f"{error.strerror}, seen from namespace {end.namespace}"
        raise GeneratorError(f"cannot listen at {end.address}: {why}") from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)  # connections inherit it
    made.listen(_BACKLOG)
    made.settimeout(_ACCEPT_LOOK_S)
    return made
