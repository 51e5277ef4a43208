"""The model's TrialResult from the child's answer, and the reasons that invalidate it.

The streams' counters count a direction's frames. The ports' counters show the tester's own losses: frames that the
server counted as sent and did not put on the wire, or dropped on arrival without processing them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_nfvperf.adapters.generators.checks import link_reasons
from pytest_nfvperf.adapters.generators.frames import frames_of
from pytest_nfvperf.features.trex.stream_plan import TrexPort
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.disturbance.validity import tester_drop_reasons
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.mix import ClassStream, shares
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES
from pytest_nfvperf.model.traffic.trial import (
    Direction,
    DirectionCounts,
    NicCounts,
    RigHealth,
    TrialSpec,
    counts_by_class,
)

_NS_PER_US = 1000
_SHORTEST = "0"
SIGNIFICANT_DIGITS = 1
"""Of the buckets in TRex's latency histograms, which are in microseconds."""
_STRETCH = 1.25
_STRETCH_S = 1.0
_STREAM = ("sent", "received", "sent_bytes", "received_bytes")
_MAX_UNSENT_RATIO = 0.005
"""Share of a direction's frames that may be missing from the load."""
_MAX_UNSENT_RATIO_SATURATING = 0.05
"""The same for a trial whose load only has to exceed what the DUT takes."""
_MAX_STRETCH_RATIO = 0.01
"""How much longer than requested a trial may take. An overloaded server sends all frames, but slower: its loss says
nothing about the requested load."""
_END_NOTICE_S = 0.03
"""How late the client may learn that the last frame was sent."""


def bucket_ends_ns(bucket: int) -> tuple[int, int]:
    """Lowest and highest latency of a TRex bucket, which is named by its lowest, in microseconds.

    20 is 20 to under 30 us, 300 is 300 to under 400 us; below 10 us there is one bucket, 0.
    """
    width = 10 ** max(1, len(str(bucket)) - 1)
    return bucket * _NS_PER_US, (bucket + width) * _NS_PER_US - 1


def complete_latency(latency: Mapping[str, Any], received: int) -> dict[str, Any]:
    """A stream's latency with as many frames in it as were received.

    For under 10 us the server reports the largest difference of two counters that it ever observed, across trials (too
    many), and none before it has added those counters up (too few). The other buckets are counts, and so is the number
    received: the server counts a frame and puts it into a bucket at once. The rest was under 10 us.
    """
    above = {bucket: frames for bucket, frames in latency["histogram"].items() if bucket != _SHORTEST}
    rest = received - sum(above.values())
    return {**latency, "histogram": {**above, _SHORTEST: rest} if rest > 0 else above}


def merge_latencies(latencies: Sequence[Mapping[str, Any]]) -> Histogram:
    """The histograms of a direction's latency streams as one; empty when no frame came back.

    The time stamp is that of the actual sending: the server has no other. A server that fell behind stretched the
    trial, which makes it invalid.
    """
    parts = [_histogram(latency) for latency in latencies if any(latency["histogram"].values())]
    empty = Histogram(counts=(), min_ns=0, max_ns=0, significant_digits=SIGNIFICANT_DIGITS)
    return Histogram.merged(parts) or empty


def _histogram(latency: Mapping[str, Any]) -> Histogram:
    filled = sorted((int(bucket), frames) for bucket, frames in latency["histogram"].items() if frames)
    ends = [bucket_ends_ns(bucket) for bucket, _ in filled]
    # The server's smallest and largest values are at times seconds old, and not in their buckets.
    low_ns, high_ns = (round(latency[key] * _NS_PER_US) for key in ("min_us", "max_us"))
    return Histogram(
        counts=tuple((end[1], frames) for end, (_, frames) in zip(ends, filled, strict=True)),
        min_ns=low_ns if ends[0][0] <= low_ns <= ends[0][1] else ends[0][0],
        max_ns=high_ns if ends[-1][0] <= high_ns <= ends[-1][1] else ends[-1][1],
        significant_digits=SIGNIFICANT_DIGITS,
    )


def trial_result(
    spec: TrialSpec,
    answer: Mapping[str, Any],
    plan: Sequence[Mapping[str, Any]],
    ports: Mapping[str, TrexPort],
) -> TrialResult:
    """The child's answer to ``trial`` as a result, with the reasons against it.

    ``plan``: the streams in the answer's order.
    """
    elapsed_s = sending_time(spec.duration_s, answer["elapsed"])
    sent = spec.streams(frames_of(spec))
    by_sent = [_counted(index, plan, answer) for index in range(len(sent))]
    dropped = _dropped(spec, sent, by_sent, answer, ports)
    by_class = [
        _counts(spec, stream, counted, lost, answer, ports, elapsed_s)
        for stream, counted, lost in zip(sent, by_sent, dropped, strict=True)
    ]
    counts, classes = counts_by_class(sent, by_class)
    reasons = link_reasons([name for name, up in answer["links"].items() if not up])
    if not answer["complete"] or elapsed_s > spec.duration_s * (1 + _MAX_STRETCH_RATIO):
        detail = (
            f"a trial of {spec.duration_s:g} s {_how_long(spec.duration_s, elapsed_s, answer)}: the TRex server (CPU "
            f"{answer['cpu_percent']:.0f} %) cannot send that fast"
        )
        reasons.append(InvalidReason(Reason.STRETCHED_TIME, detail))
    # Frames that a port never sent are among its skipped ones already.
    nics = {
        name: NicCounts(name, rx_errors=answer["ports"][str(port.number)]["ierrors"]) for name, port in ports.items()
    }
    max_unsent_ratio = _MAX_UNSENT_RATIO_SATURATING if spec.saturating else _MAX_UNSENT_RATIO
    for number, count in enumerate(counts):
        own = [index for index, stream in enumerate(sent) if stream.direction == number]
        lost = sum(dropped[index] for index in own)
        fell = _fallen(count.direction, [pair for index in own for pair in by_sent[index]], answer, ports)
        rx = answer["ports"][str(ports[count.direction.rx].number)]
        reasons += _reasons(count, max_unsent_ratio, lost, rx, fell)
        if not fell:
            reasons += tester_drop_reasons(count, nics)
    return TrialResult(
        spec=spec,
        counts=counts,
        health=RigHealth(busy_ratio=answer["cpu_percent"] / 100),
        invalid=tuple(reasons),
        classes=classes,
        nics=tuple(nics.values()),
    )


def longest_trial(duration_s: float) -> float:
    """Seconds after which a trial that still runs is stopped: its result cannot count."""
    return duration_s * _STRETCH + _STRETCH_S


def sending_time(requested_s: float, measured: Mapping[str, float]) -> float:
    """How long frames were sent, in seconds: as requested, or longer.

    A trial is a number of frames at a rate, so it cannot end sooner; the server's own clock paces it more exactly than
    our polling could measure. A longer trial shows by the wall clock: the server was observed sending, less the time by
    which the notice of its end may have been late.
    """
    return max(requested_s, measured["shortest_s"] - _END_NOTICE_S)


_Streams = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Streams as they were asked for, each with what the server counted."""


def _counted(index: int, plan: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> _Streams:
    """The server's streams of one class in one direction."""
    pairs = zip(plan, answer["streams"], strict=True)
    streams = [(wanted, seen) for wanted, seen in pairs if wanted["sent"] == index]
    for wanted, seen in streams:
        if (seen["id"], seen["rx_port"]) != (wanted["id"], wanted["rx_port"]):
            requested = f"stream {wanted['id']} to port {wanted['rx_port']}"
            raise ValueError(f"asked for {requested}, it counted stream {seen['id']!r} to port {seen['rx_port']!r}")
    return streams


def _written(streams: _Streams) -> int:
    return sum(seen["sent"] for _, seen in streams)


def _dropped(
    spec: TrialSpec,
    sent: Sequence[ClassStream],
    by_sent: Sequence[_Streams],
    answer: Mapping[str, Any],
    ports: Mapping[str, TrexPort],
) -> list[int]:
    """Frames that streams count as sent, and the port never sent. Among classes they are divided by what each sent."""
    dropped = [0] * len(sent)
    for number, direction in enumerate(spec.directions):
        own = [index for index, stream in enumerate(sent) if stream.direction == number]
        written = [_written(by_sent[index]) for index in own]
        lost = sum(written) - answer["ports"][str(ports[direction.tx].number)]["opackets"]
        if lost > 0:
            for index, share in zip(own, shares(lost, [max(0, frames) for frames in written]), strict=True):
                dropped[index] = share
    return dropped


def _counts(
    spec: TrialSpec,
    sent: ClassStream,
    streams: _Streams,
    dropped: int,
    answer: Mapping[str, Any],
    ports: Mapping[str, TrexPort],
    elapsed_s: float,
) -> DirectionCounts:
    """The counts of one class in one direction."""
    direction = spec.directions[sent.direction]
    rx_port = ports[direction.rx].number
    # Frames that no stream claims are foreign: the DUT's own, such as LLDP, or another trial's.
    claimed = sum(counted["received"] for counted in answer["streams"] if counted["rx_port"] == rx_port)
    claimed += sum(counted["elsewhere"].get(str(rx_port), 0) for counted in answer["streams"])
    errors = [counted["latency"]["errors"] for _, counted in streams if counted["latency"]]
    wrong: dict[str, int | None] = {
        kind: sum(stream_errors.get(kind, 0) for stream_errors in errors) for kind in ("dup", "out_of_order")
    }
    if len(errors) < len(streams):  # it did not look at all
        wrong = {kind: count or None for kind, count in wrong.items()}
    sampled = [
        complete_latency(counted["latency"], counted["received"]) for _, counted in streams if counted["latency"]
    ]
    latency = merge_latencies(sampled) if spec.latency else None
    sent_bytes = sum(counted["sent_bytes"] for _, counted in streams)
    elsewhere = {
        name: sum(counted["elsewhere"].get(str(port.number), 0) for _, counted in streams)
        for name, port in ports.items()
    }
    return DirectionCounts(
        direction=direction,
        intended=sent.frames,
        sent=_written(streams) - dropped,
        refused=0,
        skipped=max(0, sent.frames - _written(streams) + dropped),
        received=sum(counted["received"] for _, counted in streams),
        duplicated=wrong["dup"],
        out_of_order=wrong["out_of_order"],
        foreign=max(0, answer["ports"][str(rx_port)]["ipackets"] - claimed),
        corrupted=None,
        sent_bytes=sent_bytes - round(dropped * sent.sent.traffic.mean_frame_size),
        # Some NICs count a flow's frames and not its bytes; all frames of a stream have one size.
        received_bytes=sum(
            counted["received_bytes"] or (len(wanted["frame"]) // 2 + FCS_BYTES) * int(counted["received"])
            for wanted, counted in streams
        ),
        elapsed_ns=round(elapsed_s * 1e9),
        latency=latency,
        latency_raw=latency,
        elsewhere=tuple((name, frames) for name, frames in elsewhere.items() if frames),
    )


def _fallen(
    direction: Direction, streams: _Streams, answer: Mapping[str, Any], ports: Mapping[str, TrexPort]
) -> tuple[str, ...]:
    """Counters of a direction that are below 0, for a person."""
    numbers = [ports[end].number for end in (direction.tx, direction.rx)]
    counted_by = [(f"port {number}", answer["ports"][str(number)]) for number in numbers]
    counted_by += [(f"stream {counted['id']}", {key: counted[key] for key in _STREAM}) for _, counted in streams]
    return tuple(
        f"{key} {count} of {who}" for who, counters in counted_by for key, count in counters.items() if count < 0
    )


def _how_long(duration_s: float, elapsed_s: float, answer: Mapping[str, Any]) -> str:
    measured = answer["elapsed"]
    if answer["complete"]:
        return f"took {elapsed_s:.3g} s"
    if measured["shortest_s"] > longest_trial(duration_s):
        return f"was stopped after {measured['shortest_s']:.3g} s"
    # A server that started late was not observed sending.
    return f"was over {measured['longest_s']:.3g} s after the server was told to start"


def _reasons(
    counts: DirectionCounts, max_unsent_ratio: float, dropped: int, rx: Mapping[str, int], fell: Sequence[str]
) -> Iterator[InvalidReason]:
    """``dropped``: by the server on transmit. ``rx``: counters of the receiving port. ``fell``: counters below 0."""
    if counts.skipped > max_unsent_ratio * counts.intended:
        why = f", {dropped} of them dropped by the server on transmit" if dropped else ""
        yield InvalidReason(
            Reason.UNSENT,
            f"{counts.direction}: {counts.skipped} of {counts.intended} frames "
            f"({counts.skipped / counts.intended:.2%}) were not sent{why}, limit {max_unsent_ratio:.2%}",
        )
    arrived = rx["ipackets"]
    if fell or min(counts.sent, counts.received) < 0:
        detail = f"{counts.direction}: a counter of the TRex server fell: {', '.join(fell) or 'sent or received'}"
        yield InvalidReason(Reason.COUNTER_WENT_BACK, detail)
    # One of the two counters stands at 0, and a few frames of somebody else's cannot be the reason.
    elif (counts.received == 0) != (arrived == 0) and max(counts.received, arrived) * 2 >= counts.sent > 0:
        detail = (
            f"{counts.direction}: the streams' counters say {counts.received} received, the port's own {arrived}: "
            "flow statistics do not count here (see `nfvperf doctor`)"
        )
        yield InvalidReason(Reason.IMPOSSIBLE_COUNTS, detail)
