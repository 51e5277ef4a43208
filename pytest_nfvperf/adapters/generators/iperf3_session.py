"""One iperf3 server and its client (iperf3(1)): command lines, processes, and their ``--json`` reports as data.

Each end is a source for itself only: its figures for the other end are 0, or counted from another moment.
Since 3.16 an end's intervals do not add up to its total: the thread of a stream counts while another one resets the
interval's counter (seen with 3.18: 1-3 % missing). The total is exact; in 3.12 both are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.end_counters import free_port, listens
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import Deadline, ManagedProcess, describe_exit, spawn, wait_until
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.measure.streams import StreamSpec
from pytest_nfvperf.ports.generator import StreamEnd

_FINE_INTERVAL_S, _COARSE_INTERVAL_S = 0.1, 1.0
_FINE_UP_TO_S = 30
_STALL_MS = 3000
"""How long nothing may arrive, or an acknowledgement be missing, before iperf3 gives up."""
_CONNECT_MS = 3000
_LISTEN_DEADLINE_S = 15.0
_END_DEADLINE_S = 3.0
_LEFT_ALONE_S = 0.3
_TERM_DEADLINE_S = 1.0
_IN_USE = "Address already in use"


def interval_s(spec: StreamSpec) -> float:
    """How often iperf3 counts. The measured time consists of whole intervals."""
    whole = float(spec.omit_s).is_integer() and float(spec.duration_s).is_integer()
    return _COARSE_INTERVAL_S if whole and spec.run_s > _FINE_UP_TO_S else _FINE_INTERVAL_S


def stream_options(spec: StreamSpec) -> list[str]:
    """The client's options for a spec.

    ``--omit`` does not do the warm-up: it takes whole seconds only, and the ends begin to count at different moments.
    Instead the intervals of the whole run are reported, and those after the warm-up are counted.
    """
    options = ["--time", str(spec.run_s), "--parallel", str(spec.streams)]
    options += {"forward": [], "reverse": ["--reverse"], "both": ["--bidir"]}[spec.direction]
    if "reverse" in spec.directions:  # a client that only sends refuses it
        options += ["--rcv-timeout", str(_STALL_MS)]
    if spec.protocol == "udp":  # 64-bit numbers keep long runs from wrapping; a bitrate of 0 is no limit
        options += ["--udp", "--bitrate", str(spec.bitrate_bps or 0), "--udp-counters-64bit"]
    else:
        options += ["--snd-timeout", str(_STALL_MS)]
    sizes = {
        "--window": spec.window_bytes,
        "--set-mss": spec.mss_bytes,
        "--length": spec.buffer_bytes,
        "--congestion": spec.congestion,
    }
    return options + [part for option, value in sizes.items() if value is not None for part in (option, str(value))]


@dataclass(frozen=True, slots=True)
class StreamPart:
    """One stream in one interval; bytes that this end sent or received."""

    key: str
    sender: bool
    start_s: float
    end_s: float
    bytes: int
    retransmits: int | None
    packets: int | None
    lost_packets: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """One end's report.

    Attributes:
        error: iperf3's own message if the test did not end well.
        streams: each stream's intervals in order, by the client's port of the stream, which both ends know.
        cpu_percent: user and system time of this end's process, in % of one CPU; None if not reported.
        facts: congestion control, MSS and socket buffers.
        totals: bytes that this end sent or received over the whole run, by stream; TCP only.
        out_of_order: UDP: datagrams received whose number was not above all earlier ones.
    """

    error: str | None
    streams: Mapping[str, tuple[StreamPart, ...]]
    cpu_percent: float | None
    facts: Mapping[str, str]
    totals: Mapping[str, int]
    out_of_order: int

    def keys(self, *, sender: bool) -> list[str]:
        """The streams that this end sends, or receives, in the order of their opening."""
        return [key for key, parts in self.streams.items() if parts and parts[0].sender == sender]

    @property
    def elapsed_s(self) -> float:
        return max((parts[-1].end_s for parts in self.streams.values() if parts), default=0.0)


def read_report(path: Path, *, client: bool) -> Report | None:
    """One end's report; None if the process was killed before it wrote all of it."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return parse_report(text, client=client)


def parse_report(text: str, *, client: bool) -> Report | None:
    """One end's JSON; None if it is torn. The client's ports name the streams; the server has them as remote ones."""
    try:
        raw = json.loads(text)
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    field = "local_port" if client else "remote_port"
    connected: Iterable[Mapping[str, Any]] = (raw.get("start") or {}).get("connected") or ()
    ports = {int(entry["socket"]): str(entry[field]) for entry in connected}
    end = raw.get("end") or {}
    streams = _streams(raw.get("intervals") or (), ports)
    cpu = (end.get("cpu_utilization_percent") or {}).get("host_total")
    return Report(
        error=raw.get("error"),
        streams=streams,
        cpu_percent=None if cpu is None else float(cpu),
        facts=_facts(raw.get("start") or {}, end),
        totals=dict(_totals(end, ports, streams)),
        out_of_order=sum(stream.get("udp", {}).get("out_of_order") or 0 for stream in end.get("streams") or ()),
    )


def bytes_within(report: Report, key: str, span: Sequence[StreamPart]) -> int:
    """Bytes of a stream within these intervals: if there is a total, that less all other intervals."""
    total = report.totals.get(key)
    if total is None:
        return sum(part.bytes for part in span)
    return total - sum(part.bytes for part in report.streams[key] if part not in span)


def unaccounted(report: Report, key: str) -> int:
    """Bytes of a stream's total that are in none of its intervals."""
    counted = sum(part.bytes for part in report.streams[key])
    return report.totals.get(key, counted) - counted


def window(parts: Sequence[StreamPart], omit_s: float, duration_s: float) -> tuple[StreamPart, ...]:
    """The intervals between the boundaries closest to the end of the warm-up and to the end of the measured time.

    On a busy machine boundaries are late; the intervals then show the time that was really measured. Empty if the
    streams did not flow as long as the warm-up.
    """
    if not parts or parts[-1].end_s <= omit_s:
        return ()
    first = min(range(len(parts)), key=lambda number: abs(parts[number].start_s - omit_s))
    last = min(range(first, len(parts)), key=lambda number: abs(parts[number].end_s - omit_s - duration_s))
    return tuple(parts[first : last + 1])


def _streams(intervals: Iterable[Mapping[str, Any]], ports: Mapping[int, str]) -> dict[str, tuple[StreamPart, ...]]:
    streams: dict[str, list[StreamPart]] = {}
    for raw in (raw for interval in intervals for raw in interval.get("streams") or ()):
        number = int(raw["socket"])
        part = StreamPart(
            key=ports.get(number, f"socket {number}"),
            sender=bool(raw["sender"]),
            start_s=float(raw["start"]),
            end_s=float(raw["end"]),
            bytes=int(raw["bytes"]),
            retransmits=raw.get("retransmits"),
            packets=raw.get("packets"),
            lost_packets=raw.get("lost_packets"),
        )
        streams.setdefault(part.key, []).append(part)
    return {key: tuple(parts) for key, parts in streams.items()}


def _totals(
    end: Mapping[str, Any], ports: Mapping[int, str], streams: Mapping[str, Sequence[StreamPart]]
) -> Iterator[tuple[str, int]]:
    for raw in end.get("streams") or ():
        for side in ("sender", "receiver"):
            number = raw.get(side, {}).get("socket")
            key = ports.get(number, f"socket {number}")
            if key in streams and streams[key][0].sender == (side == "sender"):
                yield key, int(raw[side]["bytes"])


def _facts(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "tcp_mss": start.get("tcp_mss") or start.get("tcp_mss_default"),
        "buffer_bytes": (start.get("test_start") or {}).get("blksize"),
        "sndbuf_actual": start.get("sndbuf_actual"),
        "rcvbuf_actual": start.get("rcvbuf_actual"),
        "congestion": end.get("sender_tcp_congestion"),
    }
    return {name: str(value) for name, value in names.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Ended:
    """How one process ended.

    Attributes:
        status: as subprocess gives it.
        in_time: False if we had to end it.
        cpu_ns: user and system time of the process and its threads; None if somebody else reaped it.
        report: None if it could not write one.
        log: the end of its standard error.
    """

    status: int
    in_time: bool
    cpu_ns: tuple[int, int] | None
    report: Report | None
    log: str

    @property
    def killed(self) -> bool:
        """Whether somebody else's signal ended it."""
        return self.in_time and self.status < 0

    @property
    def error(self) -> str | None:
        """iperf3's own message, or its exit status; None if it ended well."""
        if self.report is not None and self.report.error is not None:
            return self.report.error
        if self.status == 0:
            return None
        first = next(iter(self.log.strip().splitlines()), "")
        return f"{describe_exit(self.status)}: {first}" if first else describe_exit(self.status)


class Iperf3Session:
    """One test; it starts nothing by itself.

    The server listens on the first free one of ``ports``; ``name`` is unique in the run, and names the files.
    """

    def __init__(
        self,
        journal: Journal,
        binary: Path,
        spec: StreamSpec,
        ends: Mapping[str, StreamEnd],
        ports: Sequence[int],
        name: str,
    ) -> None:
        self._journal = journal
        self._binary = binary
        self._spec = spec
        self._ends = ends
        self._ports = ports
        self._name = name
        self._port: int | None = None
        self._processes: dict[str, ManagedProcess] = {}

    def listen(self) -> None:
        """Start the server and wait until it listens; GeneratorError if no port is free, or iperf3 does not listen."""
        server = self._ends["server"]
        tried: set[int] = set()
        while True:
            found = free_port(server.namespace, [port for port in self._ports if port not in tried])
            if found is None:
                listed = ", ".join(map(str, self._ports))
                where = f"the iperf3 server in namespace {server.namespace}"
                raise GeneratorError(f"no port is free for {where}: {listed} taken")
            self._port = port = found
            stall = ["--rcv-timeout", str(_STALL_MS)]
            process = self._spawn("server", ["--server", "--one-off"], port, stall, self._spec.server_cpus)
            wait_until(
                lambda: listens(process.pid, port) or not process.running(),  # noqa: B023 - called in this round only
                f"the iperf3 server to listen on port {port} in namespace {server.namespace}",
                _LISTEN_DEADLINE_S,
                interval_s=0.002,
            )
            if process.running():
                return
            ended = self._ended("server", process.popen.returncode, None)
            if _IN_USE not in (ended.error or ""):
                where = f"{server.address} in namespace {server.namespace}"
                raise GeneratorError(
                    f"the iperf3 server did not come to listen on {where}: {ended.error}",
                    evidence={"iperf3 server": ended.log},
                )
            tried.add(port)

    def start(self) -> None:
        if self._port is None:
            raise ValueError("the server must listen before its client starts")
        mode = ["--client", self._ends["server"].address]
        options = ["--connect-timeout", str(_CONNECT_MS), *stream_options(self._spec)]
        self._spawn("client", mode, self._port, options, self._spec.client_cpus)

    def finish(self, deadline_s: float) -> tuple[Ended, Ended]:
        """Wait for the client's end (at most ``deadline_s``), then for the server's; end those that do not end."""
        client = self._finish("client", deadline_s)
        # a server whose client failed may never have heard of it
        wait_s = _END_DEADLINE_S if client.error is None else _LEFT_ALONE_S
        return client, self._finish("server", wait_s)

    def stop(self) -> None:
        for role, process in self._processes.items():
            process.kill()
            if not self._journal.keep:
                self._file(f"{role}.json").unlink(missing_ok=True)
                process.log.unlink(missing_ok=True)
        self._processes.clear()

    def pid(self, role: str) -> int:
        return self._processes[role].pid

    def _file(self, what: str) -> Path:
        return self._journal.directory / f"{self._name}-{what}"

    def _spawn(
        self, role: str, mode: Sequence[str], port: int, options: Sequence[str], cpus: tuple[int, ...]
    ) -> ManagedProcess:
        end = self._ends[role]
        # The report goes to standard output: with ``--logfile`` 3.12 crashes where it should report an error.
        command = [str(self._binary), *mode, "--bind", end.address, "--port", str(port)]
        command += ["--interval", str(interval_s(self._spec)), "--json", *options]
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
        if ended is None:  # on SIGTERM it still writes what it counted
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
    """Wait for a child's end without polling; its status and CPU time in ns. None if it still runs.

    Uses wait4(2) rather than /proc/PID/stat, whose clock ticks of 10 ms are 1 % of a second.
    """
    if process.popen.returncode is not None:
        return process.popen.returncode, None
    handle = os.pidfd_open(process.pid)
    try:
        if not Deadline(deadline_s).wait_ready(handle):
            return None
    finally:
        os.close(handle)
    _, status, usage = os.wait4(process.pid, 0)
    process.popen.returncode = os.waitstatus_to_exitcode(status)
    return process.popen.returncode, (round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9))
