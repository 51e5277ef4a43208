"""What iperf3 reports with ``--json``, as data.

Each end is believed about itself only: what it says of the other end is 0, or counted from another moment.

Since 3.16 an end's intervals do not add up to its total: the thread of a stream counts while another one resets the
interval's counter (seen with 3.18: 1-3 % missing). The total is exact, and so is 3.12 in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        error: iperf3's own words when the test did not end well.
        streams: each stream's intervals in order, by the client's port of the stream, which both ends know.
        cpu_percent: user and system time of this end's process, in % of one CPU; None when not said.
        facts: congestion control, MSS and socket buffers as found.
        totals: bytes that this end sent or received over the whole run, by stream; TCP only.
        out_of_order: UDP: datagrams received whose number was not above all before.
    """

    error: str | None
    streams: Mapping[str, tuple[StreamPart, ...]]
    cpu_percent: float | None
    facts: Mapping[str, str]
    totals: Mapping[str, int]
    out_of_order: int

    def keys(self, *, sender: bool) -> list[str]:
        """The streams that this end sends, or receives, in the order they were opened."""
        return [key for key, parts in self.streams.items() if parts and parts[0].sender == sender]

    @property
    def elapsed_s(self) -> float:
        """For how long this end saw streams flow."""
        return max((parts[-1].end_s for parts in self.streams.values() if parts), default=0.0)


def read_report(path: Path, *, client: bool) -> Report | None:
    """One end's report file; None when it was not, or not wholly, written: the process was killed."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return parse_report(text, client=client)


def parse_report(text: str, *, client: bool) -> Report | None:
    """One end's JSON; None when it is torn.

    Args:
        text: all that it wrote.
        client: it is the client's: its own ports name the streams; the server knows them as remote ones.
    """
    try:
        raw = json.loads(text)
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    ports = _ports(raw, "local_port" if client else "remote_port")
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
    """Bytes of a stream within some of its intervals: its total without the other intervals', where there is one."""
    total = report.totals.get(key)
    if total is None:
        return sum(part.bytes for part in span)
    return total - sum(part.bytes for part in report.streams[key] if part not in span)


def unaccounted(report: Report, key: str) -> int:
    """Bytes of a stream's total that its intervals do not show."""
    counted = sum(part.bytes for part in report.streams[key])
    return report.totals.get(key, counted) - counted


def window(parts: Sequence[StreamPart], omit_s: float, duration_s: float) -> tuple[StreamPart, ...]:
    """The intervals between the boundaries nearest to the end of the warm-up and to the end of the measured time.

    On a busy machine boundaries are late: the time that is then measured is another one, and is said by the intervals.
    Empty when the streams did not flow as long as the warm-up.
    """
    if not parts or parts[-1].end_s <= omit_s:
        return ()
    first = min(range(len(parts)), key=lambda number: abs(parts[number].start_s - omit_s))
    last = min(range(first, len(parts)), key=lambda number: abs(parts[number].end_s - omit_s - duration_s))
    return tuple(parts[first : last + 1])


def _ports(raw: Mapping[str, Any], field: str) -> dict[int, str]:
    """Socket number to the client's port."""
    connected: Iterable[Mapping[str, Any]] = (raw.get("start") or {}).get("connected") or ()
    return {int(entry["socket"]): str(entry[field]) for entry in connected}


def _streams(intervals: Iterable[Mapping[str, Any]], ports: Mapping[int, str]) -> dict[str, tuple[StreamPart, ...]]:
    found: dict[str, list[StreamPart]] = {}
    for interval in intervals:
        for raw in interval.get("streams") or ():
            part = _part(raw, ports)
            found.setdefault(part.key, []).append(part)
    return {key: tuple(parts) for key, parts in found.items()}


def _part(raw: Mapping[str, Any], ports: Mapping[int, str]) -> StreamPart:
    number = int(raw["socket"])
    return StreamPart(
        key=ports.get(number, f"socket {number}"),
        sender=bool(raw["sender"]),
        start_s=float(raw["start"]),
        end_s=float(raw["end"]),
        bytes=int(raw["bytes"]),
        retransmits=raw.get("retransmits"),
        packets=raw.get("packets"),
        lost_packets=raw.get("lost_packets"),
    )


def _totals(
    end: Mapping[str, Any], ports: Mapping[int, str], streams: Mapping[str, Sequence[StreamPart]]
) -> Iterator[tuple[str, int]]:
    """This end's own side of each stream."""
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
