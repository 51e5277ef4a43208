"""The plateau: what a DUT forwards at overload, in windows that the machine did not disturb."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.measure.outcome import PlateauPoint
from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.model.traffic.windows import Windows, plateau

OVERLOAD = 1.4
"""Load over the generator's ceiling for readings of a plateau. What does not fit into a ring is refused, so the ring is
always full, and the DUT is the limit. The ceiling is what passes when nothing is refused."""

_MOST_UNREFUSED = 0.25
"""Share of undisturbed windows in which nothing may be refused, and the DUT still be the limit."""

TRIAL_S = 0.4
_TRIES = 3
_SERVED_BY_KERNEL = {PortKind.AF_PACKET, PortKind.AF_XDP, PortKind.TAP}


def judges_whole_trials(live: LiveTopology) -> bool:
    """True if the DUT's own work looks like a disturbance of it, so that windows cannot tell the two apart.

    Nodes that share CPUs take turns of some milliseconds. And the kernel serves a DUT's veth pairs and packet sockets
    on the PMD's CPU before any thread: a witness comes late all the time.
    """
    kernels = bool(live.topology.veths) or any(port.kind in _SERVED_BY_KERNEL for port in live.topology.ports)
    return kernels or (bool(live.datapath_info.at_least) and not live.datapath_info.short_turns)


def plateaus(
    measurer: LoadMeasurer, ceiling_fps: float | None, line_rate_fps: float | None
) -> tuple[PlateauPoint, ...]:
    """The forwarding rate at 1.4 times the rig's ceiling; none if trials have no windows, or all were disturbed.

    A search takes such a reading before, between and after the rest, and reports the median. Seen: of ten readings on
    one host eight lay within 6 %, one 8 % above and one 20 % below, because the host's memory changes speed for
    seconds.

    A reading is repeated if the CPUs were apart, or moved, or the generator was the limit. If that does not help, it
    says so. None is taken if the ceiling is unknown, or ports have a line rate.
    """
    if measurer.trials[-1].result.windows is None or line_rate_fps is not None or ceiling_fps is None:
        return ()
    bounds: list[PlateauPoint] = []
    for _ in range(_TRIES):
        point = _point(measurer.saturate(TRIAL_S, ceiling_fps * OVERLOAD))
        if point is not None and not point.at_least:
            return (point,)
        if point is not None:
            bounds.append(point)
    return median_reading(bounds)


def median_reading(readings: Sequence[PlateauPoint]) -> tuple[PlateauPoint, ...]:
    """The median of the readings that count, the lower of two; empty without any.

    A reading that the generator limited counts only if there is no other, and one with the CPUs apart only if there is
    none of those either.
    """
    near = [each for each in readings if not each.apart]
    usable = [each for each in near if not each.at_least] or near or list(readings)
    ordered = sorted(usable, key=lambda each: each.fps)
    return (ordered[(len(ordered) - 1) // 2],) if ordered else ()


def _point(trial: Trial) -> PlateauPoint | None:
    windows, duration_s = trial.result.windows, trial.result.spec.duration_s
    if windows is None or not trial.result.valid:
        return None
    found = plateau(windows, duration_s)
    if found is None:
        return None
    directions, placed = len(trial.result.counts), trial.result.placement
    apart = placed.apart if placed is not None else ""
    low_fps, fps, high_fps = (rate / directions for rate in (found.low_fps, found.fps, found.high_fps))
    limited = generator_limited(windows, duration_s)
    return PlateauPoint(trial.id, fps, low_fps, high_fps, found.windows, apart, limited)


def generator_limited(windows: Windows, duration_s: float) -> str:
    """Why the generator, and not the DUT, may have set the rate of a trial at overload; "" if it was the DUT."""
    share = windows.unrefused_share(duration_s)
    if share <= _MOST_UNREFUSED:
        return ""
    return f"generator-limited: what it offered went into the DUT's rings in {share:.0%} of the windows"
