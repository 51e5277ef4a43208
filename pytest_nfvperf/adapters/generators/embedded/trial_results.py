"""From the engine's answer to a trial to the model's TrialResult.

``CoreSpeed`` knows the speed of a core that nobody shares. If somebody uses the other hardware thread for the whole
run, the run's own looks show nothing faster than a shared core, which then passes for an undisturbed one. Looks of an
earlier run since the machine's start are a better reference.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import index
from typing import Any

from pytest_nfvperf.adapters.generators.engine import EngineLink, check_answer
from pytest_nfvperf.adapters.generators.frames import frames_of
from pytest_nfvperf.adapters.process.wakeups import RaisedPriority
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.validity import RingPort, engine_reasons
from pytest_nfvperf.model.disturbance.windows import (
    ASKED_LATEST_NS,
    FULL_SPEED,
    LATEST_NS,
    LONGEST_WAIT_NS,
    MOST_ABSENT,
    ThreadWindows,
    Windows,
    WitnessWindows,
    full_speed,
)
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.conversation_frames import ScriptStep
from pytest_nfvperf.model.traffic.histogram import Histogram, IntervalCounts, IntervalLatency, TrialProgress
from pytest_nfvperf.model.traffic.mix import ClassStream, shares
from pytest_nfvperf.model.traffic.trial import (
    ArrivalGap,
    Arrivals,
    Direction,
    DirectionCounts,
    MonitorCounts,
    NicCounts,
    RigHealth,
    StepCounts,
    TrialSpec,
    VnfCounts,
    counts_by_class,
)
from pytest_nfvperf.ports.generator import GeneratorPort, RunningTrial
from pytest_nfvperf.ports.machine import StoredValue

FEWEST_LOOKS = 200
"""Fewest looks of a run whose speed is stored: among so many, some see a core alone if it ever is."""
_GRACE_S = 10.0
_WHOLE = 0.9
"""Share of its length that the last interval, or one that is cut short, does not have."""
_FRAMES = ("sent", "refused", "skipped", "received", "duplicated", "out_of_order", "corrupted")
_STREAM_COUNTS = ("intended", *_FRAMES, "sent_bytes", "received_bytes", "elapsed_ns")
_INTERVAL_COUNTS = (*_FRAMES, "highest_seq")
_MONITOR_COUNTS = ("received", "duplicated", "out_of_order", "truncated", "received_bytes")


class CoreSpeed:
    """Cycles that the speed probe takes on a core of its own.

    ``stored``: the speed that earlier runs observed on this machine since its start; None: nothing is stored.
    """

    def __init__(self, stored: StoredValue | None = None) -> None:
        self._looks: Counter[int] = Counter()
        self._stored = stored
        known = None if stored is None else stored.read()
        self._known = known if isinstance(known, int) and known > 0 else 0

    def add(self, looks: Iterable[int]) -> None:
        self._looks.update(looks)

    @property
    def cycles(self) -> int:
        """The fewest cycles, outliers left out; 0 before the first look.

        It is an earlier run's if this one has observed only shared cores; between runs a core varies by 1 %.
        """
        own = full_speed(self._looks)
        return self._known if self._known and (not own or own > FULL_SPEED * self._known) else own

    def keep(self) -> None:
        """Store the speed for later runs, if there were enough looks."""
        if self._stored is not None and self._looks.total() >= FEWEST_LOOKS and self.cycles != self._known:
            self._stored.write(self.cycles)


def trial_result(
    spec: TrialSpec,
    answer: Mapping[str, Any],
    attached: Mapping[str, GeneratorPort],
    back_pressure: Mapping[str, bool],
    windows: Windows | None = None,
    skipped_share: float = POLICY.most_skipped,
    cpus: Sequence[int] = (),
) -> TrialResult:
    """The answer as a result, with the reasons against it (``engine_reasons``). ``windows``: of the same answer."""
    receivers = {direction.rx for direction in spec.directions}
    ports = {}
    for name, port in attached.items():
        own = [answer["ports"][one] for one in port.members or (name,) if name in receivers or one in answer["ports"]]
        known = (one["foreign"] if name in receivers else one.get("foreign", {}) for one in own)
        foreign = sum(map(Counter, known), Counter[str]())
        ports[name] = RingPort(foreign, back_pressure[name], port.tx_descriptors, port.rx_descriptors)
    sent = spec.streams(frames_of(spec))
    rows = _row_of_each(sent, answer["streams"])
    arriving, streams = _by_receiver(spec, sent, rows)
    directions = [spec.directions[stream_class.direction] for stream_class in arriving]
    by_class = [_counts(to, stream, ports[to.rx]) for to, stream in zip(directions, streams, strict=True)]
    counts, classes = counts_by_class(arriving, by_class)
    if len(arriving) > len(sent):
        windows = None  # their counts are of frames sent, and each is received by several
    if classes and windows is not None:
        ended_s = dict([spec.ends] if spec.ends else [])
        lengths_s = [ended_s.get(each.sent.name, spec.duration_s) for each in arriving]
        windows = with_unfollowed(windows, streams, lengths_s)
    health = _health(answer, rows)
    vnfs = tuple(
        VnfCounts(
            port=name,
            peer=attached[name].peer or "",
            received=forwarded["rx"],
            sent=forwarded["tx"],
            ring_full=forwarded["ring_full"],
            dropped=forwarded["dropped_as_asked"],
        )
        for name, port in answer["ports"].items()
        if (forwarded := port.get("forwarded")) is not None
    )
    result = TrialResult(
        spec=spec,
        counts=counts,
        health=health,
        vnfs=vnfs,
        monitors=tuple(_monitors(spec, answer["ports"])),
        started_ns=answer.get("started_ns"),
        given_up=answer.get("given_up", False),
        windows=windows,
        classes=classes,
        nics=tuple(NicCounts(name, **port["nic"]) for name, port in answer["ports"].items() if port.get("nic")),
    )
    judged = None if spec.saturating else result.judgement.windows
    own = list(zip(by_class, streams, strict=True))
    reasons = engine_reasons(spec, own, ports, health, judged, result.nics, skipped_share=skipped_share, cpus=cpus)
    return replace(result, invalid=reasons)


_OF_OPENING = (
    *("intended", "sent", "refused", "skipped", "sent_bytes", "elapsed_ns", "fell_behind"),
    *("longest_lateness_ns", "largest_burst"),
)
_OF_ALL_STEPS = ("duplicated", "out_of_order", "corrupted", "beyond_window")


def _rows_by_stream(
    sent: Sequence[ClassStream], rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[ClassStream, Sequence[Mapping[str, Any]]]]:
    """Yield each stream with its rows: one for each step of a conversation. LACP's own come last."""
    at = 0
    for stream in sent:
        count = max(1, len(stream.steps))
        if len(rows) < at + count:
            raise IndexError(f"{len(rows)} rows of streams")
        yield stream, rows[at : at + count]
        at += count


def _row_of_each(sent: Sequence[ClassStream], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One row a stream. That of a conversation counts connections: what opened them, and what came of them."""
    return [_of_connections(stream, own) if stream.steps else own[0] for stream, own in _rows_by_stream(sent, rows)]


def _of_connections(stream: ClassStream, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    opening, last = rows[0], rows[-1]
    merged = {**last, **{name: opening[name] for name in _OF_OPENING if name in opening}}
    merged |= {name: sum(row[name] for row in rows) for name in _OF_ALL_STEPS if name in last}
    if all("misdirected" in row for row in rows):
        merged["misdirected"] = sum((Counter(row["misdirected"]) for row in rows), Counter[str]())
    return merged | ({"steps": _step_counts(stream.steps, rows)} if "intended" in opening else {})  # none of intervals


def _step_counts(steps: Sequence[ScriptStep], rows: Sequence[Mapping[str, Any]]) -> tuple[StepCounts, ...]:
    """What each step counted. A connection fails at one of the frames that the next ones wait for."""
    made: list[StepCounts] = []
    pairs = zip(steps, rows, strict=True)
    groups = [list(group) for _, group in groupby(pairs, key=lambda pair: pair[0].answers or (pair[0].after,))]
    for number, group in enumerate(groups):
        first = group[0][1]
        due = first["intended"] if number else first["sent"] + first["refused"]
        came = groups[number + 1][0][1]["intended"] if number + 1 < len(groups) else group[-1][1]["received"]
        left = max(0, due - came)
        for step, row in group:
            failed = left if step is group[-1][0] else min(left, max(0, due - row["received"]))
            left -= failed
            counts = (row["sent"], row["refused"], row["received"])
            made.append(StepCounts(step.name, step.from_server, due, *counts, failed))
    return tuple(made)


def _by_receiver(
    spec: TrialSpec, sent: Sequence[ClassStream], rows: Sequence[Mapping[str, Any]]
) -> tuple[list[ClassStream], list[Mapping[str, Any]]]:
    """Streams and their rows of the answer, once for each receiver of a stream, with what arrived there."""
    arriving: list[ClassStream] = []
    arrived_rows: list[Mapping[str, Any]] = []
    for stream, row in zip(sent, rows, strict=True):
        for number, received in enumerate(stream.by_receiver()):
            arriving.append(received)
            there = row.get("receivers", {}).get(spec.directions[received.direction].rx, {})
            arrived_rows.append({**row, **there, **({"misdirected": {}} if number else {})})
    return arriving, arrived_rows


def trial_windows(answer: Mapping[str, Any], speed: CoreSpeed) -> Windows | None:
    """Each thread's and witness's rows as columns; None if no windows were requested. Adds their looks to ``speed``."""
    tables = [worker["windows"] for worker in answer["workers"] if "windows" in worker]
    if not tables:
        return None
    threads = tuple(ThreadWindows(**_columns(table)) for table in tables)
    witnesses = tuple(
        WitnessWindows(one["cpu"], took_ns=one["took_ns"], **_columns(one)) for one in answer.get("witnesses", ())
    )
    for looks in (*(thread.speed for thread in threads), *(witness.speed for witness in witnesses)):
        speed.add(looks)
    return Windows(tables[0]["window_ns"], threads, witnesses, speed.cycles)


def with_unfollowed(windows: Windows, streams: Sequence[Mapping[str, Any]], lengths_s: Sequence[float]) -> Windows:
    """Date the lost frames of classes that no later frame of their class followed.

    A window knows a lost frame when a later one of its stream arrives. Of a class that a DUT drops altogether none
    does; its frames were lost when they were sent, evenly over the time that it was sent, and not all at the trial's
    end. ``lengths_s``: those times.
    """
    sent = [1 + sum(frames) for frames in zip(*(thread.sent for thread in windows.threads), strict=False)]
    missing = list(windows.threads[0].missing)
    for stream, length_s in zip(streams, lengths_s, strict=True):
        unfollowed, count = stream["sent"] - stream["highest_seq"], windows.within(length_s)
        if unfollowed > 0 and count:
            first = min(count - 1, count * stream["highest_seq"] // stream["sent"])
            for at, frames in enumerate(shares(unfollowed, sent[first:count]), first):
                missing[at] += frames
    return replace(windows, threads=(replace(windows.threads[0], missing=tuple(missing)), *windows.threads[1:]))


def undisturbed_limits(speed: int, window_ns: int) -> dict[str, int]:
    """Limits for the end of an undisturbed window, the same as those of Windows.states()."""
    return {
        "most_speed": int(FULL_SPEED * speed),
        "most_late_ns": LATEST_NS,
        "most_asked_late_ns": ASKED_LATEST_NS,
        "most_absent_ns": int(MOST_ABSENT * window_ns),
        "most_waited_ns": LONGEST_WAIT_NS,
    }


def _columns(table: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    rows = table["rows"]
    columns = zip(*rows, strict=True) if rows else ((),) * len(table["columns"])
    return dict(zip(table["columns"], map(tuple, columns), strict=True))


def _monitors(spec: TrialSpec, ports: Mapping[str, Any]) -> Iterator[MonitorCounts]:
    sent_in: list[Direction] = []
    for stream in spec.streams(frames_of(spec)):
        there = spec.directions[stream.direction]
        back = Direction(there.rx, there.tx)
        sent_in += [back if step.from_server else there for step in stream.steps] or [there]
    for name, port in ports.items():
        seen: dict[tuple[Direction, str], Counter[str]] = {}
        for direction, addresses in zip(sent_in, port.get("monitored", ()), strict=False):
            for copies in addresses:
                if copies["received"]:  # classes have the same addresses
                    counts = seen.setdefault((direction, copies["address"]), Counter())
                    counts.update({key: copies[key] for key in _MONITOR_COUNTS})
                    counts["corrupted"] += copies["corrupted"] - copies["truncated"]
        for (direction, address), counts in seen.items():
            yield MonitorCounts(port=name, direction=direction, address=address, **counts)


def _counts(direction: Direction, stream: Mapping[str, Any], rx: RingPort) -> DirectionCounts:
    return DirectionCounts(
        direction=direction,
        **{name: index(stream[name]) for name in _STREAM_COUNTS},
        foreign=sum(rx.foreign.values()),
        latency=_histogram(stream.get("latency")),
        latency_raw=_histogram(stream.get("latency_raw")),
        arrivals=_arrivals(stream["due"]) if "due" in stream else None,
        elsewhere=tuple(stream["misdirected"].items()) if "misdirected" in stream else None,
        steps=stream.get("steps", ()),
    )


def _arrivals(due: Mapping[str, Any]) -> Arrivals:
    return Arrivals(**{**due, "gaps": tuple(ArrivalGap(*row) for row in due.get("gaps", ()))})


def _histogram(data: Mapping[str, Any] | None) -> Histogram | None:
    if data is None:
        return None
    counts = tuple((value, count) for value, count in data["counts"])
    return Histogram(counts, min_ns=data["min_ns"], max_ns=data["max_ns"], significant_digits=data["digits"])


def _health(answer: Mapping[str, Any], streams: Sequence[Mapping[str, Any]]) -> RigHealth:
    workers = answer["workers"]
    delays = [worker["run_delay_ns"] for worker in workers if "run_delay_ns" in worker]
    elapsed = sum(worker["elapsed_ns"] for worker in workers)
    return RigHealth(
        longest_poll_gap_ns=max(worker["longest_poll_gap_ns"] for worker in workers),
        longest_lateness_ns=max(stream["longest_lateness_ns"] for stream in streams),
        largest_burst=max(stream["largest_burst"] for stream in streams),
        preemptions=sum(worker["preemptions"] for worker in workers),
        run_delay_ns=sum(delays) if len(delays) == len(workers) else None,
        busy_ratio=sum(worker["busy_ns"] for worker in workers) / elapsed if elapsed else None,
    )


class EngineTrial(RunningTrial):
    """A running trial of the embedded generator."""

    def __init__(
        self,
        engine: EngineLink,
        request_id: int,
        interval_s: float,
        most_skipped: float,
        sent: Sequence[ClassStream],
        finish: Callable[[Mapping[str, Any]], TrialResult],
    ) -> None:
        """``engine`` has received the trial's request, of these streams; ``finish`` converts its answer."""
        self.most_skipped = most_skipped
        self._engine = engine
        self._request = request_id
        self._interval_s = interval_s
        self._sent = sent
        self._finish = finish
        # Who reads intervals, and what the DUT did in each, does so at once. To wait for the share of a CPU that
        # polling threads and the host leave would cost no less of it, and samples came 5 s late where a host took half.
        self._priority = RaisedPriority()
        self._stopped = False
        self._unanswered = 0
        self._answered = threading.Condition()
        self._ended: dict[str, Any] | None = None
        self._result: TrialResult | None = None
        self._before_ns = 0
        self._before = [TrialProgress()] * len(sent)

    def next_interval(self) -> IntervalCounts | None:
        interval = None
        try:
            interval = self._read_interval()
        finally:
            if interval is None:
                self._priority.end()
        return interval

    def _read_interval(self) -> IntervalCounts | None:
        while self._ended is None or self._unanswered:
            line = self._engine.read("the next interval", self._interval_s + _GRACE_S)
            if "interval" in line:
                return self._interval_counts(line["interval"])
            if line.get("id") == self._request:
                with self._answered:
                    self._ended = line
            elif self._unanswered and (line.get("id") or 0) > self._request:
                # A refusal does no harm: a trial that had just ended had nothing to stop, and no link to set.
                with self._answered:
                    self._unanswered -= 1
                    self._answered.notify_all()
            else:
                raise GeneratorError(f"the generator answered {str(line)[:200]} in the middle of a trial")
        if self._result is None:  # to convert it asks the engine, so all other answers come first
            self._result = self._finish(check_answer(self._engine, "trial", self._ended))
        return None

    def stop(self) -> None:
        if not self._stopped and self._ended is None:
            self._stopped = True
            self._send("stop")

    def set_link(self, port: str, *, up: bool) -> None:
        self._ask("link", name=port, up=up)

    def watch(self, pollers: Sequence[Poller]) -> None:
        for one in pollers:
            self._ask("watch", cpu=one.cpu, process=one.process, thread=one.thread)

    def _ask(self, command: str, **arguments: Any) -> None:
        """Send a command, and wait until the thread that reads intervals has its answer: one at a time."""
        with self._answered:
            if self._ended is None:
                self._send(command, **arguments)
                self._answered.wait_for(lambda: self._unanswered == 0, _GRACE_S)

    def _send(self, command: str, **arguments: Any) -> None:
        self._unanswered += 1  # first: another thread may read the answer at once
        self._engine.send(command, _GRACE_S, **arguments)

    def result(self) -> TrialResult:
        if self._result is None:
            raise GeneratorError("the trial has not ended: read its intervals to the last")
        return self._result

    def _interval_counts(self, data: Mapping[str, Any]) -> IntervalCounts:
        """A line's ``interval`` (docs/reference/engine-protocol.md)."""
        silent = data["at_ns"] - self._before_ns >= _WHOLE * self._interval_s * 1e9
        pairs = zip(self._before, _row_of_each(self._sent, data["streams"]), strict=True)
        self._before = [_progress(before, stream, silent=silent) for before, stream in pairs]
        self._before_ns = data["at_ns"]
        by_direction = groupby(zip(self._sent, self._before, strict=True), key=lambda pair: pair[0].direction)
        by_class: dict[str, list[TrialProgress]] = {}
        for stream, progress in zip(self._sent, self._before, strict=True):
            by_class.setdefault(stream.sent.name, []).append(progress)
        return IntervalCounts(
            at_ns=data["at_ns"],
            directions=tuple(TrialProgress.summed([each for _, each in pairs]) for _, pairs in by_direction),
            absent_ns=sum(worker["absent_ns"] for worker in data["workers"]),
            longest_poll_gap_ns=max(worker["longest_poll_gap_ns"] for worker in data["workers"]),
            classes={name: TrialProgress.summed(each) for name, each in by_class.items() if name},
        )


def _progress(before: TrialProgress, stream: Mapping[str, Any], *, silent: bool) -> TrialProgress:
    """A stream's counts at the end of an interval; ``silent``: the interval is long enough for a frame's way.

    A lost frame is known when a later one of its stream arrives. Of a class that the DUT drops altogether none does:
    what was sent before an interval in which nothing arrived is lost.
    """
    now = TrialProgress(
        **{name: stream[name] for name in _INTERVAL_COUNTS},
        latency=IntervalLatency(**stream["latency"]) if stream.get("latency") is not None else None,
    )
    known = before.sent if silent and now.received == before.received else before.highest_seq
    return replace(now, highest_seq=max(now.highest_seq, known))
