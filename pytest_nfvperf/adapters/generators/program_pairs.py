"""A client in one namespace and a server in another: iperf 2 for connects, our own datagrams, sockperf for requests."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.generators.end_counters import free_port, listening_ports, read_end
from pytest_nfvperf.adapters.net.threads import inside_netns, namespace_id
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import (
    ManagedProcess,
    completed,
    describe_exit,
    spawn,
    wait_until,
    wall_offset_ns,
)
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import DeadlineError, GeneratorError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.streams import ConnectResult, ConnectSpec, RequestResult, RequestSpec
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram
from pytest_nfvperf.ports.generator import StreamEnd, Watch

_VERSION_DEADLINE_S = 5.0
_LOOK_S = 0.1

GivesUp = Callable[[ManagedProcess], str | None]
"""Called while a client runs: returns what it did wrong, as "did not end within 8 s", or None to let it continue."""


class ProgramPair:
    """An installed program and its runs, one at a time; UnavailableError, with the package, if it is not installed.

    Its text names the program and both ends of the run, for messages.

    Attributes:
        what: the program exchanges, for messages: "requests".
        version: the program and its version, "iperf 2.1.8".
    """

    def __init__(self, journal: Journal, program: str, what: str) -> None:
        path = shutil.which(program)
        if path is None:
            raise UnavailableError(not_installed(program))
        self._path, self._name, self._what, self._journal = path, program, what, journal
        self.version = f"{program} {_version(path)}"
        self._runs = 0
        self._ends: Mapping[str, StreamEnd] = {}
        self._namespaces: Mapping[str, int | None] = {}
        self._files: list[Path] = []
        self._processes: list[ManagedProcess] = []

    @contextmanager
    def between(self, client: StreamEnd, server: StreamEnd) -> Iterator[None]:
        """One run. At its end its processes are killed and its files removed."""
        self._runs += 1
        self._ends = {"client": client, "server": server}
        self._namespaces = {end.namespace: namespace_id(end.namespace) for end in (client, server)}
        try:
            yield
        finally:
            while self._processes:
                self._processes.pop().kill()  # a client whose connects get no answer does not hear SIGTERM
            while self._files:
                self._files.pop().unlink(missing_ok=True)

    def __str__(self) -> str:
        client, server = self._ends["client"], self._ends["server"]
        return f"{self._name} from {client.namespace} to {server.address} in {server.namespace}"

    def file(self, what: str) -> Path:
        """A file in the run directory, removed at the run's end."""
        path = self._journal.directory / f"{self._name}-{self._runs}-{what}"
        self._files.append(path)
        return path

    def start(self, role: str, options: Sequence[str], cpus: tuple[int, ...]) -> ManagedProcess:
        process = spawn(
            self._journal,
            f"{self._name} {role}",
            [self._path, *options],
            log=self.file(role),
            cpus=cpus,
            netns=self._ends[role].namespace,
        )
        self._processes.append(process)
        return process

    def wait_client(self, process: ManagedProcess, gives_up: GivesUp) -> None:
        """Wait for the client's end; errors of ``await_end``, and TestbedError if a namespace was deleted meanwhile."""
        await_end(process, str(self), gives_up)
        # A process keeps its namespace alive though its name was removed: nobody knows where the run went on.
        for name, number in self._namespaces.items():
            if namespace_id(name) != number:
                raise TestbedError(f"network namespace {name} was deleted during the {self._what}")


def _version(path: str) -> str:
    """Such as ``2.1.8``. iperf prints it to standard error and exits with status 1."""
    done = completed([path, "--version"], _VERSION_DEADLINE_S)
    found = re.search(r"version (\S+)", done.stdout + done.stderr)
    if found is None:
        raise TestbedError(f"{path} --version does not say its version", evidence={"stderr": done.stderr})
    return found[1]


def await_end(process: ManagedProcess, what: str, gives_up: GivesUp) -> None:
    """Wait for a client's end; GeneratorError with the end of its log if it failed, or ``gives_up`` says why."""
    wrong, status = None, None
    while wrong is None and status is None:
        try:
            status = process.popen.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            wrong = gives_up(process)
    if status:
        wrong = f"failed: it {describe_exit(status)}"
    if wrong is not None:
        raise GeneratorError(f"{what} {wrong}", evidence={process.name: process.log_tail()})


# iperf 2: its client connects again and again (``--connect-only``) to our own listener.
#
# iperf's own server makes a thread for each connection. Beyond some thousand a second its queue overflows, SYNs are
# dropped, and connects wait a second for the next one. The kernel answers a SYN as long as the queue has room, so a
# connect to our listener measures the datapath and two kernels.

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
    """``run`` is a ports.generator.MakeConnects; errors of ProgramPair."""

    def __init__(self, journal: Journal) -> None:
        self._pair = ProgramPair(journal, "iperf", "connects")

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:
        for _ in range(_TRIES):
            set_by_s = _watch_clock()
            try:
                result = self._run_once(spec, client, server)
            except GeneratorError:  # a report with times below 0 cannot be read
                if not set_by_s():
                    raise
            else:
                if not set_by_s():
                    return result
        raise GeneratorError(
            f"the machine's clock was set while iperf timed connects by it, {_TRIES} times in a row, last by "
            f"{set_by_s():+,.1f} s: let NTP finish, or correct the clock, and run it again"
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
                times, mean_ns, failed = read_report(process.log.read_text(encoding="utf-8", errors="replace"))
                wait_until(  # the listener may be behind the client by its queue
                    lambda: listener.accepted >= times.total,
                    f"the listener to take over {times.total} connections",
                    _ACCEPT_DEADLINE_S,
                    last_seen=lambda: str(listener.accepted),
                )
            _check_overflows(server, overflows)
        counted = listener.accepted, listener.elapsed_ns
        return ConnectResult(spec, times, mean_ns, failed, *counted, self._pair.version)


def _stalls() -> GivesUp:
    """Let a client continue while it connects. Each connect is a line of its log."""
    written, stalled_at = 0, time.monotonic() + _STALL_S

    def look(process: ManagedProcess) -> str | None:
        nonlocal written, stalled_at
        if (now_written := process.log.stat().st_size) > written:
            written, stalled_at = now_written, time.monotonic() + _STALL_S
        return f"made no connect for {_STALL_S:g} s" if time.monotonic() > stalled_at else None

    return look


def _watch_clock() -> Callable[[], float]:
    """Returns a function that gives the seconds by which somebody has set the wall clock since; 0 if nobody did."""
    began_ns, before_ns = time.monotonic_ns(), wall_offset_ns()

    def set_by_s() -> float:
        stepped_s = (wall_offset_ns() - before_ns) / 1e9
        slewed_s = _SLEWED_S + _SLEWED_SHARE * (time.monotonic_ns() - began_ns) / 1e9
        return stepped_s if abs(stepped_s) > slewed_s else 0.0

    return set_by_s


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


def read_report(text: str) -> tuple[Histogram, float, int]:
    """What a client with ``--connect-only --enhanced`` reports; GeneratorError without a connection or a summary.

    Returns:
        Times of connects that succeeded, their mean in ns, and how many failed.
    """
    steps = Counter(int(whole) * 100 + int(hundredths) for whole, hundredths in _TIME.findall(text))
    summary = _SUMMARY.search(text)
    if not steps or summary is None:
        why = "connected to nothing" if not steps else "printed no summary of its connects"
        raise GeneratorError(f"iperf {why}", evidence={"iperf": "\n".join(text.splitlines()[-_SHOWN_LINES:])})
    low, mean, high = (float(ms) * 1e6 for ms in summary.groups()[:3])
    counts = tuple((step * _STEP_NS, count) for step, count in sorted(steps.items()))
    return Histogram(counts, round(low), round(high), _EXACT_DIGITS), mean, len(_FAILED.findall(text))


class Listener:
    """Counts connections. ``first_ns`` and ``last_ns``: when it accepted the first and the last; None before."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self.stop = threading.Event()
        self.port: int = listening.getsockname()[1]
        self.accepted = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    @property
    def elapsed_ns(self) -> int:
        return 0 if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def work(self, cpus: tuple[int, ...]) -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)  # of this thread alone
        held: socket.socket | None = None
        while not self.stop.is_set():
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
        listener = Listener(made)
        with _in_threads(listener.stop, partial(listener.work, cpus)):
            yield listener


@contextmanager
def _in_threads(stop: threading.Event, *works: Callable[[], None]) -> Iterator[None]:
    """Do each work in a thread until this context ends, which sets ``stop``."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


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


# Datagrams at a steady pace, by two threads of this process.
#
# They show when two namespaces reach each other, to about a millisecond. They are no load and measure no figure.

_INTERVAL_NS = 1_000_000
_SEND_TIME = struct.Struct("=q")
_ARRIVAL_S = 0.1


@contextmanager
def watch_datagrams(client: StreamEnd, server: StreamEnd) -> Iterator[_Watch]:
    """A ports.generator.WatchPath."""
    with _datagram_socket(server) as receiver, _datagram_socket(client) as sender:
        receiver.settimeout(_ARRIVAL_S)
        with _explained(client, address := receiver.getsockname()):
            sender.connect(address)
        watch = _Watch(sender, receiver)
        with _in_threads(watch.stop, watch.send, watch.receive):
            yield watch


class _Watch(Watch):
    """The work of the two threads, and when datagrams arrived."""

    interval_ns = _INTERVAL_NS

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender, self._receiver = sender, receiver
        self.stop = threading.Event()
        self._arrived: list[int] = []
        self._last_sent_ns = 0
        self.sent = 0

    def arrived(self) -> Sequence[int]:
        return tuple(self._arrived)

    def await_one(self, deadline_s: float) -> bool:
        now = time.monotonic_ns()
        try:
            wait_until(lambda: self._last_sent_ns > now, "a datagram", deadline_s)
        except DeadlineError:
            return False
        return True

    def send(self) -> None:
        while not self.stop.wait(_INTERVAL_NS / 1e9):
            with suppress(OSError):  # the other namespace is unreachable now, which this watch shows
                self._sender.send(_SEND_TIME.pack(time.monotonic_ns()))
            self.sent += 1

    def receive(self) -> None:
        while not self.stop.is_set():
            with suppress(TimeoutError):
                (sent_ns,) = _SEND_TIME.unpack(self._receiver.recv(_SEND_TIME.size))
                self._arrived.append(time.monotonic_ns())
                self._last_sent_ns = sent_ns


@contextmanager
def _datagram_socket(end: StreamEnd) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in end.address else socket.AF_INET
    with inside_netns(end.namespace, partial(socket.socket, family, socket.SOCK_DGRAM)) as bound:
        with _explained(end, address := (end.address, 0)):
            bound.bind(address)
        yield bound


@contextmanager
def _explained(end: StreamEnd, address: tuple[object, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TestbedError(
            f"no datagrams to {address[0]}: {error.strerror}, seen from {end.address} in namespace {end.namespace}"
        ) from error


# sockperf: a server and a client, a process each (sockperf(3), ping-pong and under-load).
#
# Its log of all messages (``--full-log``) says when each was sent, and when its response came.

_FIRST_WITH_IPV6 = (3, 8)
_PORTS = range(11111, 11175)
_LISTEN_DEADLINE_S = 15.0
_MARGIN_S = 8.0
"""It warms up for some tenths of a second, and writes its log at the end."""
_NAMES = ("txTime", "rxTime")
_HISTOGRAM_DIGITS = 3


class SockperfEngine:
    """``run`` is a ports.generator.SendRequests; errors of ProgramPair."""

    def __init__(self, journal: Journal) -> None:
        self._pair = ProgramPair(journal, "sockperf", "requests")

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
    return coarse_histogram(exact, _HISTOGRAM_DIGITS), len(messages) - len(answered), max(sent) - min(sent)


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
