"""From the engine's answer to a trial to the model's TrialResult."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.core_speed import CoreSpeed
from pytest_nfvperf.adapters.generators.embedded.engine_health import PortFacts, StreamFacts, ValidityPolicy, judge
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.trial import (
    Arrivals,
    Direction,
    DirectionCounts,
    InvalidReason,
    MonitorCounts,
    RigHealth,
    TrialResult,
    TrialSpec,
    VnfCounts,
)
from pytest_nfvperf.model.traffic.windows import (
    ASKED_LATEST_NS,
    FULL_SPEED,
    LATEST_NS,
    LONGEST_WAIT_NS,
    MOST_ABSENT,
    ThreadWindows,
    Windows,
    WitnessWindows,
)
from pytest_nfvperf.ports.generator import GeneratorPort


def trial_result(
    spec: TrialSpec,
    answer: Mapping[str, Any],
    attached: Mapping[str, GeneratorPort],
    back_pressure: Mapping[str, bool],
    policy: ValidityPolicy,
    also_invalid: Sequence[InvalidReason] = (),
    windows: Windows | None = None,
) -> TrialResult:
    """The answer as a result, judged by the policy. ``windows``: of the same answer."""
    ports = {
        name: PortFacts(port["foreign"], back_pressure[name])
        for name, port in answer["ports"].items()
        if "foreign" in port
    }
    pairs = list(zip(spec.directions, answer["streams"], strict=True))
    counts = tuple(_counts(direction, stream, ports[direction.rx]) for direction, stream in pairs)
    facts = [StreamFacts(s["fell_behind"], s["highest_seq"], s["beyond_window"]) for s in answer["streams"]]
    health = _health(answer)
    vnfs = tuple(
        _vnf(attached[name], port["forwarded"]) for name, port in answer["ports"].items() if "forwarded" in port
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
    )
    dated = None if spec.saturating else result.dated
    reasons = judge(counts, facts, ports, attached, health, policy.of(spec, dated=dated is not None), dated)
    return replace(result, invalid=(*also_invalid, *reasons))


def trial_windows(answer: Mapping[str, Any], speed: CoreSpeed) -> Windows | None:
    """Rows of each thread and witness as columns; None where no windows were asked for.

    Args:
        answer: the engine's.
        speed: of a core of its own; the looks of this answer are added.
    """
    told = [worker["windows"] for worker in answer["workers"] if "windows" in worker]
    if not told:
        return None
    threads = tuple(ThreadWindows(**_columns(one)) for one in told)
    witnesses = tuple(
        WitnessWindows(one["cpu"], took_ns=one["took_ns"], **_columns(one)) for one in answer.get("witnesses", ())
    )
    for thread in threads:
        speed.add(thread.speed)
    for witness in witnesses:
        speed.add(witness.speed)
    return Windows(told[0]["window_ns"], threads, witnesses, speed.cycles)


def undisturbed_end(speed: int, window_ns: int) -> dict[str, int]:
    """What the engine may see at the end of an undisturbed window: Windows.states() by the same limits."""
    return {
        "most_speed": int(FULL_SPEED * speed),
        "most_late_ns": LATEST_NS,
        "most_asked_late_ns": ASKED_LATEST_NS,
        "most_absent_ns": int(MOST_ABSENT * window_ns),
        "most_waited_ns": LONGEST_WAIT_NS,
    }


def _columns(told: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    rows = told["rows"]
    columns = zip(*rows, strict=True) if rows else ((),) * len(told["columns"])
    return dict(zip(told["columns"], map(tuple, columns), strict=True))


def _monitors(spec: TrialSpec, ports: Mapping[str, Any]) -> Iterator[MonitorCounts]:
    for name, port in ports.items():
        for direction, copies in zip(spec.directions, port.get("monitored", ()), strict=False):
            yield from (_copies(name, direction, seen) for seen in copies if seen["received"])


def _copies(port: str, direction: Direction, seen: Mapping[str, Any]) -> MonitorCounts:
    return MonitorCounts(
        port=port,
        direction=direction,
        address=seen["address"],
        received=seen["received"],
        duplicated=seen["duplicated"],
        out_of_order=seen["out_of_order"],
        truncated=seen["truncated"],
        corrupted=seen["corrupted"] - seen["truncated"],
        received_bytes=seen["received_bytes"],
    )


def _vnf(port: GeneratorPort, forwarded: Mapping[str, int]) -> VnfCounts:
    return VnfCounts(
        port=port.name,
        peer=port.peer or "",
        received=forwarded["rx"],
        sent=forwarded["tx"],
        ring_full=forwarded["ring_full"],
        dropped=forwarded["dropped_as_asked"],
    )


def _counts(direction: Direction, stream: Mapping[str, Any], rx: PortFacts) -> DirectionCounts:
    return DirectionCounts(
        direction=direction,
        intended=stream["intended"],
        sent=stream["sent"],
        refused=stream["refused"],
        skipped=stream["skipped"],
        received=stream["received"],
        duplicated=stream["duplicated"],
        out_of_order=stream["out_of_order"],
        foreign=sum(rx.foreign.values()),
        corrupted=stream["corrupted"],
        sent_bytes=stream["sent_bytes"],
        received_bytes=stream["received_bytes"],
        elapsed_ns=stream["elapsed_ns"],
        latency=_histogram(stream.get("latency")),
        latency_raw=_histogram(stream.get("latency_raw")),
        arrivals=Arrivals(**stream["due"]) if "due" in stream else None,
    )


def _histogram(data: Mapping[str, Any] | None) -> Histogram | None:
    if data is None:
        return None
    counts = tuple((value, count) for value, count in data["counts"])
    return Histogram(counts, min_ns=data["min_ns"], max_ns=data["max_ns"], significant_digits=data["digits"])


def _health(answer: Mapping[str, Any]) -> RigHealth:
    workers = answer["workers"]
    streams = answer["streams"]
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
