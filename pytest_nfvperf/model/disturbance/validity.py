"""What makes a trial invalid: by its generator's own account, by the DUT's counters, and by what the machine did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.disturbance.windows import SelectedWindows
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.trial import DirectionCounts, NicCounts, RigHealth, TrialSpec, sum_of_classes

LINK_LOSSES = ".link_losses"
"""Counter of a port: how often it lost its link. It rises during a trial if somebody pulls the cable."""

_WAITED = "pmd-sched.kept_off_ns"
_OWN = "pmd-sched.beside_run_ns"
"""CPU time that the DUT's own main thread took from a PMD. The DUT caused it, so it does not count."""

_THROTTLED = "pmd-sched.throttled_ns"

_OWN_SOCKET = ("socket_drops", "ring_drops", "xdp_drops")
"""Counters of the far end of a port, where the generator receives by the kernel: it had no room for a frame."""

_NO_REASON = ("arp", "ipv6", "lldp", "stp", "misdirected")
"""Kinds of foreign frames that are no reason: what a healthy switch or host sends on its own, and frames of the trial
that the DUT sent to a port at which they do not end. Its SLA fails for those (``misdirected_ratio``)."""

_COUNTS = {each.name: each.type == "int" for each in fields(DirectionCounts) if each.type in {"int", "int | None"}}
_COUNTS["misdirected"] = False
"""Counts of a direction, and whether each engine must have them."""


@dataclass(frozen=True, slots=True)
class RingPort:
    """A port of the generator: foreign frames by kind, its rings, and whether its peer waits when it is full."""

    foreign: Mapping[str, int]
    back_pressure: bool
    tx_descriptors: int
    rx_descriptors: int


def most_skipped(spec: TrialSpec, share: float, *, by_windows: bool = False) -> float:
    """Share of a direction's intended frames that may be skipped; ``share``: of a trial that is judged as a whole.

    ``by_windows``: only its undisturbed windows are judged, and they are enough.
    """
    if by_windows or (spec.saturating and spec.window_s is not None):
        return max(share, POLICY.most_skipped_windowed)
    return max(share, POLICY.most_skipped_saturating) if spec.saturating else share


def engine_reasons(
    spec: TrialSpec,
    streams: Sequence[tuple[DirectionCounts, Mapping[str, Any]]],
    ports: Mapping[str, RingPort],
    health: RigHealth,
    judged: SelectedWindows | None = None,
    nics: Sequence[NicCounts] = (),
    *,
    skipped_share: float = POLICY.most_skipped,
    cpus: Sequence[int] = (),
) -> tuple[InvalidReason, ...]:
    """All reasons, in the order of the directions.

    ``streams``: counts, those of a direction one after the other, and the engine's own rows of them. ``fell_behind`` is
    part of the skipped frames; ``highest_seq`` is one above the highest sequence number received; ``beyond_window``
    frames came too late to be distinguished from duplicates. ``judged``: the windows that count; None: the whole trial
    does. ``skipped_share``: as ``share`` of ``most_skipped``. ``cpus``: of the polling threads, for messages.
    """
    by_port, windowed = {nic.port: nic for nic in nics}, judged is not None
    limit = most_skipped(spec, skipped_share, by_windows=windowed)
    # At overload windows show whether the generator was the limit. A loss of a trial with too few undisturbed ones is
    # inconclusive, which the search learns: a generator that fell behind, too, in a shared core, makes it no worse.
    lossy = not windowed and any(count.lost > 0 for count, _ in streams)
    may_fall_behind = spec.window_s is not None and (spec.saturating or lossy)
    reasons: list[InvalidReason] = []
    for direction in dict.fromkeys(count.direction for count, _ in streams):
        own = [pair for pair in streams if pair[0].direction == direction]
        count = sum_of_classes([count for count, _ in own])
        behind = sum(row["fell_behind"] for _, row in own)
        reasons += _skipped(count, count.skipped - behind, 0 if may_fall_behind else behind, limit, cpus)
        reasons += [reason for pair in own for reason in _miscounted(*pair)]
        reasons += tester_drop_reasons(count, by_port)
        if not windowed:
            reasons += _late_poll(count, ports, health)
    if judged is not None:
        reasons += _skipped_undisturbed(judged)
    for name, port in ports.items():
        if any(frames for kind, frames in port.foreign.items() if kind not in _NO_REASON):
            kinds = ", ".join(f"{frames} {kind}" for kind, frames in port.foreign.items() if frames)
            reasons.append(InvalidReason(Reason.FOREIGN_FRAMES, f"{name}: received frames not of this trial: {kinds}"))
    gap_ns = health.longest_poll_gap_ns
    if gap_ns is not None and gap_ns > POLICY.longest_poll_gap_ns:
        limit_ms = f"limit {POLICY.longest_poll_gap_ns / 1e6:.0f} ms"
        detail = f"the generator did not run for {gap_ns / 1e6:.1f} ms, {limit_ms}"
        reasons.append(InvalidReason(Reason.LATE_POLL, detail))
    return tuple(reasons)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} frames ({part / whole:.2%})"


def _skipped(
    count: DirectionCounts, absent: int, behind: int, most: float, cpus: Sequence[int]
) -> Iterator[InvalidReason]:
    allowed, limit = most * count.intended, f"limit {most:.2%}"
    if absent + behind <= allowed:
        return
    if absent >= behind:
        detail = f"{count.direction}: {_share(absent, count.intended)} were due while the generator was not running"
        if cpus:
            named = f"CPU{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"
            limit += (
                f"; other work took {named} from it: let nothing else run there, "
                "or give the generator CPUs of its own ('cpus: {generator: [...]}' in the testbed file)"
            )
        yield InvalidReason(Reason.SKIPPED_FRAMES, f"{detail}, {limit}")
    if behind > allowed or behind > absent:
        detail = f"{count.direction}: {_share(behind, count.intended)} were due faster than it could send"
        yield InvalidReason(Reason.FELL_BEHIND, f"{detail}, limit {most:.2%}")


def _skipped_undisturbed(windows: SelectedWindows) -> Iterator[InvalidReason]:
    """A load that the undisturbed generator does not sustain is too high for it.

    If the DUT lost more than the generator skipped, the load is too high for the DUT in any case.
    """
    skipped, most = windows.due - windows.offered, POLICY.most_skipped_undisturbed
    if windows.skipped_ratio > most and windows.lost <= skipped:
        behind = f"in undisturbed windows {_share(skipped, windows.due)} were due faster than it could send"
        yield InvalidReason(Reason.FELL_BEHIND, f"{behind}, limit {most:.2%}")


def _miscounted(count: DirectionCounts, row: Mapping[str, Any]) -> Iterator[InvalidReason]:
    highest = row["highest_seq"]
    if count.received > count.sent or highest > count.sent:
        detail = f"{count.direction}: sent {count.sent}, received {count.received}, highest number {highest}"
        yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, detail)
    if row["beyond_window"]:
        detail = f"{count.direction}: {row['beyond_window']} frames came over a million frames late"
        yield InvalidReason(Reason.FOREIGN_FRAMES, detail)


def _late_poll(count: DirectionCounts, ports: Mapping[str, RingPort], health: RigHealth) -> Iterator[InvalidReason]:
    """A loss that a gap in our own polling may have caused is not the DUT's."""
    gap_ns, rx = health.longest_poll_gap_ns, ports[count.direction.rx]
    if gap_ns is None or count.sent <= count.received or count.elapsed_ns <= 0:
        return
    if rx.back_pressure and 2 * ports[count.direction.tx].tx_descriptors <= rx.rx_descriptors:
        return  # what is in flight fits while nobody polls
    arriving = count.sent * gap_ns // count.elapsed_ns
    if arriving > rx.rx_descriptors:
        gap = f"not polled for {gap_ns / 1e6:.1f} ms, {arriving} frames"
        yield InvalidReason(Reason.LATE_POLL, f"{count.direction}: {gap}; the ring holds {rx.rx_descriptors}")


def tester_drop_reasons(counts: DirectionCounts, nics: Mapping[str, NicCounts]) -> Iterator[InvalidReason]:
    """Reasons against a trial in which frames are missing that the generator's own NICs may have lost.

    ``nics``: by port; those without counters are not among them. Frames that a NIC lost while none of the trial's is
    missing were others'.
    """
    tx, rx = counts.direction.tx, counts.direction.rx
    counters = {f"{tx} tx_errors": nics[tx].tx_errors or 0} if tx in nics else {}
    if rx in nics:
        counters |= {f"{rx} {name}": count for name, count in nics[rx].counted.items() if name != "tx_errors"}
    lost = [f"{name} {count}" for name, count in counters.items() if count > 0]
    fell = [f"{name} by {-count}" for name, count in counters.items() if count < 0]
    if fell:
        yield InvalidReason(Reason.COUNTER_WENT_BACK, f"the generator's own counters fell: {', '.join(fell)}")
    missing = counts.sent - counts.received
    if lost and missing > 0:
        yield InvalidReason(
            Reason.TESTER_DROPS,
            f"{counts.direction}: the generator's own NIC lost frames ({', '.join(lost)}), {missing} are missing: "
            "send less, or give the generator more descriptors or CPUs of its own",
        )


def generator_reasons(result: TrialResult) -> tuple[InvalidReason, ...]:
    """Reasons by any generator's own counts; GeneratorError for a count that is no whole number.

    Engines add reasons that only they know. This check covers all of them, third parties' too.
    """
    codes = {reason.code for reason in result.invalid}
    reasons = [reason for counts in result.counts for reason in _impossible(counts) if reason.code not in codes]
    if result.windows is None and not result.sustained_load and not codes:
        share = format_ratio(result.offered_share)
        detail = f"{share} of the frames due were offered, limit {format_ratio(1 - POLICY.most_not_offered)}"
        reasons.append(InvalidReason(Reason.UNSENT, detail))
    return tuple(reasons)


def _impossible(counts: DirectionCounts) -> Iterator[InvalidReason]:
    named = {name: getattr(counts, name) for name in _COUNTS}
    found = {name: count for name, count in named.items() if count is not None or _COUNTS[name]}
    for name, count in found.items():
        if type(count) is not int:
            raise GeneratorError(
                f"{counts.direction}: the generator says {name} = {count!r}: a whole number belongs there"
            )
    negative = [f"{name} {count}" for name, count in found.items() if count < 0]
    if negative:
        yield InvalidReason(Reason.IMPOSSIBLE_COUNTS, f"{counts.direction}: below 0: {', '.join(negative)}")
    elif counts.received > counts.sent:
        detail = f"{counts.direction}: sent {counts.sent}, received {counts.received}"
        yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, detail)


def unreceived(ends: Iterable[tuple[str, int, int, int]]) -> tuple[InvalidReason, ...]:
    """Directions in which the generator received nothing, although the DUT's last port sent half of the frames.

    A DUT does not lose frames behind its own port: the cable, a filter or the generator's receiving side does.
    ``ends``: each direction, the frames offered, those that the DUT's last port sent, and those received.
    """
    return tuple(
        InvalidReason(
            Reason.IMPOSSIBLE_COUNTS,
            f"{direction}: the DUT's last port sent {sent} frames of {offered} offered, and the "
            "generator received none: look at the cable and at what filters frames there (nfvperf doctor)",
        )
        for direction, offered, sent, received in ends
        if received == 0 and sent * 2 >= offered > 0
    )


def testbed_reasons(
    result: TrialResult, moved: Mapping[str, int], fell: Mapping[str, int]
) -> tuple[InvalidReason, ...]:
    """Reasons by the DUT's counters: what they ``moved`` by during the trial, and which ``fell`` by how much."""
    reasons = [InvalidReason(Reason.COUNTER_WENT_BACK, f"{name} fell by {by}") for name, by in fell.items()]
    for name, delta in moved.items():
        if name.endswith(LINK_LOSSES) and delta > 0:
            port = name.removesuffix(LINK_LOSSES)
            reasons.append(InvalidReason(Reason.LINK_DOWN, f"{port} lost its link {delta}x meanwhile"))
    reasons += [reason for count in result.counts for reason in _unread(count, moved)]
    waited_ns = max(0, moved.get(_WAITED, 0) - moved.get(_OWN, 0))
    explains = _why_rate_understated if result.spec.saturating else _loss_explained
    why = _throttled(result, moved.get(_THROTTLED, 0)) or explains(result, waited_ns)
    return (*reasons, InvalidReason(Reason.DUT_CPU_STOLEN, why)) if why else tuple(reasons)


def _unread(count: DirectionCounts, moved: Mapping[str, int]) -> Iterator[InvalidReason]:
    """Yield a reason for a direction with missing frames, where the kernel dropped frames that we did not read."""
    rx, missing = count.direction.rx, count.sent - count.received
    dropped = [f"{name} {frames}" for name in _OWN_SOCKET if (frames := moved.get(f"{rx}.far.{name}", 0)) > 0]
    if dropped and missing > 0:
        yield InvalidReason(
            Reason.TESTER_DROPS,
            f"{count.direction}: the generator did not read its socket on {rx} in time ({', '.join(dropped)}), "
            f"{missing} frames are missing: send less, or give the generator CPUs of its own",
        )


def _throttled(result: TrialResult, throttled_ns: int) -> str:
    """Why a trial says nothing: a CPU quota kept the DUT off its CPUs, which no window shows; "" if it did no harm."""
    saturating = result.spec.saturating
    harmless_ns = POLICY.most_off_cpu * result.spec.duration_s * 1e9 if saturating else POLICY.least_wait_ns
    most_lost = math.inf if saturating else _explained(result, throttled_ns)
    if throttled_ns < harmless_ns or not (saturating or 0 < result.lost <= most_lost):
        return ""
    return (
        f"the CPU quota of a control group kept the DUT off its CPUs for {throttled_ns / 1e6:.2f} ms: take the limit "
        "away (docker --cpus, cpu.max), or give it CPUs of its own"
    )


def _why_rate_understated(result: TrialResult, waited_ns: int) -> str:
    """Why a trial at overload received less than the DUT can forward; "" if its PMDs had their CPUs.

    ``waited_ns``: how long they waited for them, all together. Disturbed windows do not count towards a rate that is
    read from windows, so such a trial may have waited longer.
    """
    waited_s = waited_ns / 1e9
    most = POLICY.most_off_cpu if result.windows is None else POLICY.most_off_cpu_windowed
    if waited_s <= most * result.spec.duration_s:
        return ""
    return (
        f"the host kept PMD threads off their CPU for {waited_s * 1e3:.2f} ms, "
        f"above {most:.0%} of the trial, so its rate is too low"
    )


def _loss_explained(result: TrialResult, waited_ns: int) -> str:
    """Why a loss says nothing about the DUT: all of it fits into the time that PMDs waited for their CPU; or "".

    On shared cores a PMD that is preempted for 4 ms at 4 Mpps leaves 16,000 frames undrained. Neither OVS nor a NIC
    causes that.
    """
    judgement, goal, ratio = result.judgement, result.spec.give_up_loss, result.judgement.counted.loss_ratio
    witnesses = result.windows.witnesses if result.windows is not None else ()
    if judgement.windows is not None and all(witness.waited_ns for witness in witnesses):
        return ""  # windows in which a PMD waited are not judged anyway
    # Our own witnesses use the PMDs' CPUs for some microseconds a window. Rings hold the frames that come meanwhile.
    waited_ns -= sum(witness.took_ns for witness in witnesses)
    lost, explained = result.lost, _explained(result, waited_ns)
    if not 0 < lost <= explained or waited_ns < POLICY.least_wait_ns:
        return ""
    if goal is not None and ratio is not None and ratio <= goal:
        return ""  # the goal is met although PMDs waited
    return (
        f"the host kept PMD threads off their CPU for {waited_ns / 1e6:.2f} ms, "
        f"which explains up to {explained:.0f} lost frames; {lost} were lost"
    )


def _explained(result: TrialResult, off_ns: int) -> float:
    """Most frames that a DUT loses because it was off its CPUs for so long."""
    return (result.offered_fps or 0.0) * len(result.counts) * off_ns / 1e9 * POLICY.wait_slack


def moved_reasons(result: TrialResult) -> tuple[InvalidReason, ...]:
    """Why a trial is invalid during which the host moved a CPU from band to band: no window knows its band."""
    distance = result.placement
    if distance is None:
        return ()
    detail = (
        f"the host moved a CPU during the trial: a cache line's round trip between generator and DUT took "
        f"{distance.before_ns} ns before it and {distance.after_ns} ns after"
    )
    return (InvalidReason(Reason.CPU_MOVED, detail),)


def suspend_reasons(asleep_ns: int) -> tuple[InvalidReason, ...]:
    """Why a trial is invalid during which the machine was suspended for so long; empty if it was awake."""
    if asleep_ns < POLICY.most_asleep_ns:
        return ()
    return (InvalidReason(Reason.SUSPENDED, f"the machine was suspended for {asleep_ns / 1e9:.1f} s meanwhile"),)
