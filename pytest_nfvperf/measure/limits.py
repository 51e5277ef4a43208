"""Limits of the rig: the generator's ceiling, the load that it sustains, and the plateau that may raise the ceiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pytest_nfvperf.measure.measurer import WARM_UP, LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import TrialResult, load_too_high
from pytest_nfvperf.model.disturbance.windows import Windows, plateau
from pytest_nfvperf.model.errors import InconclusiveError
from pytest_nfvperf.model.measure.bounds import PlateauPoint
from pytest_nfvperf.model.measure.outcome import GoalOutcome, SearchStatus
from pytest_nfvperf.model.measure.profile import MINIMUM_SHARE
from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.model.traffic.mix import AnyTraffic, least_load_fps
from pytest_nfvperf.ports.generator import Ceilings
from pytest_nfvperf.ports.machine import StoredValue

HELD_AGAIN = 0.98
"""Share of what the generator offered when it was asked for more: it is to sustain that for a whole search."""

LOWER = 0.9
"""Share of a load that it did not sustain, if nobody knows what it offered undisturbed."""

UNBOUNDED_FPS = 200e6
"""Maximum load if neither a line rate nor a ceiling is known."""

OVERLOAD = 1.4
"""Load over the generator's ceiling for readings of a plateau. What does not fit into a ring is refused, so the ring is
always full, and the DUT is the limit. The ceiling is what passes when nothing is refused."""

ABOVE_PLATEAU = 1.5
"""Maximum load of a search over the plateau: a DUT that forwards its plateau loses a third of it. The generator's
ceiling may be three times the plateau, and on a shared CPU it does not sustain that: seen in 6 of 6 first trials."""

TRIAL_S = 0.4
_WARM_UPS = 6
_SERVED_BY_KERNEL = {PortKind.AF_PACKET, PortKind.AF_XDP, PortKind.TAP}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured ceiling, frames/s per direction. ``lasting``: False if the host kept the CPUs apart meanwhile."""

    fps: float
    lasting: bool = True


Meter = Callable[[AnyTraffic, int], Ceiling]


class CachedCeilings(Ceilings):
    """The rig's own ceilings, measured once and kept (How we measure, rule 3).

    The cache is that of one fingerprint of machine and generator. It is keyed by the port kind, the shape of the frames
    and the number of directions: ``{"vhost-user 64 x2": frames_per_second}``. A ceiling does not depend on the flows.
    """

    def __init__(self, stored: StoredValue, port_kind: str, meter: Meter) -> None:
        self._stored = stored
        self._port_kind = port_kind
        self._meter = meter

    def cached(self, traffic: AnyTraffic, directions: int) -> float | None:
        return self._known().get(self._key(traffic, directions))

    def measure(self, traffic: AnyTraffic, directions: int) -> float | None:
        """Measure, and keep the highest lasting one: what a disturbed machine reaches today is no limit tomorrow."""
        ceiling, key = self._meter(traffic, directions), self._key(traffic, directions)
        if ceiling.lasting and ceiling.fps > self._known().get(key, 0.0):
            self._stored.write(self._known() | {key: ceiling.fps})
        return ceiling.fps

    def _key(self, traffic: AnyTraffic, directions: int) -> str:
        return f"{self._port_kind} {traffic.shape_label} x{directions}"

    def _known(self) -> dict[str, float]:
        known = self._stored.read()
        return dict(known) if isinstance(known, dict) else {}


def sustainable_load(result: TrialResult) -> float:
    """The load that a generator can sustain, from a trial in which it fell behind; frames/s per direction.

    It is a little less than what the generator offered in undisturbed windows. What the machine took from it says
    nothing about the load: seen in ten warm-ups at 8.4 Mpps, the generator offered 7.45 to 7.66 Mpps in those windows,
    and 6.9 to 7.4 in all, and each search ended at what it had offered.
    """
    load, alone = result.spec.load_fps, result.judgement.undisturbed
    if alone is not None and alone.enough:
        return load * (1 - alone.skipped_ratio) * HELD_AGAIN
    # An overloaded tester may have offered far less than it was asked for: at that load it begins to be usable.
    return min(load * LOWER, result.offered_fps or load)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds any load for one traffic, frames/s per direction; None if unknown."""

    ceiling_fps: float | None
    line_rate_fps: float | None

    @property
    def maximum_fps(self) -> float:
        known = [limit for limit in (self.ceiling_fps, self.line_rate_fps) if limit is not None]
        return min(known, default=UNBOUNDED_FPS)


LimitsOf = Callable[[LiveTopology, AnyTraffic], Limits]


def raised_by_plateau(limits: Limits, plateau: Sequence[PlateauPoint], trials: Sequence[Trial]) -> Limits | None:
    """Limits with a higher ceiling: what the generator offered in a plateau at the known one; None if that one stands.

    A ceiling is measured by looping frames, but DUTs can be faster: seen with 1518 bytes, OVS forwarded 3.15 Mpps
    where the ceiling was 2.42, and a search that ended there reported *at least*.
    """
    ceiling = limits.ceiling_fps
    read = [point for point in plateau if not point.at_least]
    if ceiling is None or not read or read[0].fps < POLICY.at_ceiling * ceiling:
        return None
    offered = next(sustainable_load(trial.result) for trial in trials if trial.id == read[0].trial_id)
    return replace(limits, ceiling_fps=offered) if offered >= POLICY.higher_ceiling * ceiling else None


@dataclass
class LoadRange:
    """The loads that the rig sustains for one traffic on one topology. Here alone a ceiling is raised.

    Attributes:
        remeasured: the limits, with a ceiling that is measured now.
        maximum_fps: the load that the generator sustained in the last warm-up, per direction.
        readings: of the plateau.
        bounded: the plateau bounds a search; a search that reached that bound ends it.
        shortest_s: the shortest trial of a search, in which each class of a mix must send a frame.
    """

    live: LiveTopology
    traffic: AnyTraffic
    measurer: LoadMeasurer
    limits: Limits
    remeasured: LimitsOf
    warmup_s: float
    maximum_fps: float = 0.0
    readings: list[PlateauPoint] = field(default_factory=list)
    bounded: bool = True
    shortest_s: float = TRIAL_S

    @property
    def least_fps(self) -> int:
        return least_load_fps(self.traffic, self.shortest_s)

    @property
    def searched(self) -> LoadLimits:
        """Up to what the generator sustains, or what the DUT loses a third of, as far as that is known."""
        # A class may lose nothing far beyond what all classes together lose.
        bounded = self.bounded and not self.measurer.judge_only
        exact = [point.fps for point in self.readings if bounded and not point.at_least]
        # A DUT that forwards less than the fixed loads of a mix fails at the least load.
        least_fps = self.least_fps
        maximum_fps = min([self.maximum_fps, *(max(ABOVE_PLATEAU * fps, ABOVE_PLATEAU * least_fps) for fps in exact)])
        return LoadLimits(max(maximum_fps * MINIMUM_SHARE, least_fps), maximum_fps)

    def raised_above_plateau(self, found: Sequence[GoalOutcome]) -> bool:
        """True if the plateau bounded a search that met a goal there: a DUT that forwards less when overloaded."""
        bounded = self.searched.maximum_fps < self.maximum_fps
        raised = bounded and any(goal.status is SearchStatus.AT_MAXIMUM for goal in found)
        self.bounded = self.bounded and not raised
        return raised

    def warm_up(self) -> float:
        """Warm up at full load. If the generator does not sustain that, lower it until it does; the maximum.

        InconclusiveError if that leaves a class of a mix no frame.
        """
        self.maximum_fps = self.limits.maximum_fps
        for _ in range(_WARM_UPS):
            result = self.measurer.attempt(self.warmup_s, self.maximum_fps, WARM_UP).result
            if not load_too_high(result.invalid):
                break
            if result.placement is not None and result.placement.far_reason:
                continue  # far from the DUT's CPU the generator is slower, which says nothing about the load
            self.maximum_fps = sustainable_load(result)
        if self.least_fps >= self.maximum_fps:
            raise InconclusiveError(
                f"each class of a mix must send: {format_fps(self.least_fps)} per direction are the least with the "
                f"fixed loads, and the rig sustains {format_fps(self.maximum_fps)}; lower the fixed loads"
            )
        return self.maximum_fps

    def begin(self) -> None:
        """Warm up and read the plateau; once more each time that the DUT exceeds the known ceiling."""
        self.warm_up()
        plateau = plateaus(self.measurer, self.limits)
        for _ in range(POLICY.most_raises):
            raised = raised_by_plateau(self.limits, plateau, self.measurer.trials)
            if raised is None:
                break
            self.limits = raised
            self.warm_up()
            plateau = self._plateau_again() or plateau
        self.readings = [*plateau]

    def read_again(self) -> None:
        self.readings += self._plateau_again()

    def _plateau_again(self) -> tuple[PlateauPoint, ...]:
        """None if routing sessions are on the path: the overload may end them."""
        return plateaus(self.measurer, self.limits) if self.measurer.watch is None else ()

    def remeasure(self) -> Limits:
        """The limits, with a ceiling measured now; a topology that cannot be frozen is rebuilt meanwhile."""
        limits = self.remeasured(self.live, self.traffic)
        self.live.learn(self.traffic)
        self.measurer.runner = self.live.runner
        return limits

    def raised_by_remeasuring(self) -> bool:
        """Measure the ceiling again. If it is clearly higher than the known one, warm up for another search."""
        limits = self.remeasure()
        if (limits.ceiling_fps or 0.0) < POLICY.higher_ceiling * (self.limits.ceiling_fps or 0.0):
            return False
        self.limits = limits
        self.warm_up()
        return True


# The plateau: what a DUT forwards at overload, in windows that the machine did not disturb.


def judges_whole_trials(live: LiveTopology) -> bool:
    """True if the DUT's own work looks like a disturbance of it, so that windows cannot tell the two apart.

    Nodes that share CPUs take turns of some milliseconds. And the kernel serves a DUT's veth pairs and packet sockets
    on the PMD's CPU before any thread: a witness comes late all the time.
    """
    kernels = bool(live.topology.veths) or any(port.kind in _SERVED_BY_KERNEL for port in live.topology.ports)
    return kernels or (bool(live.datapath_info.at_least) and not live.datapath_info.short_turns)


def plateaus(measurer: LoadMeasurer, limits: Limits) -> tuple[PlateauPoint, ...]:
    """The forwarding rate at 1.4 times the rig's ceiling; none if trials have no windows, or all were disturbed.

    A search takes such a reading before, between and after the rest, and reports the median. Seen: of ten readings on
    one host eight lay within 6 %, one 8 % above and one 20 % below, because the host's memory changes speed for
    seconds.

    A reading is repeated if the CPUs were apart, or moved, or the generator was the limit. If that does not help, it
    says so. None is taken if the ceiling is unknown, or ports have a line rate, or the run is out of time.
    """
    ceiling_fps = limits.ceiling_fps
    if measurer.runner.context.time_limit.is_over:
        return ()
    if measurer.trials[-1].result.windows is None or limits.line_rate_fps is not None or ceiling_fps is None:
        return ()
    if measurer.traffic.hold_s:
        return ()  # what is received at first was opened earlier
    bounds: list[PlateauPoint] = []
    for _ in range(POLICY.rate_tries):
        point = _point(measurer.attempt(TRIAL_S, ceiling_fps * OVERLOAD, "plateau", saturating=True))
        if point is not None and not point.at_least:
            return (point,)
        if point is not None:
            bounds.append(point)
        if measurer.out_of_time():
            break
    return median_reading(bounds)


def median_reading(readings: Sequence[PlateauPoint]) -> tuple[PlateauPoint, ...]:
    """The median of the readings that count, the lower of two; empty without any.

    A reading that the generator limited counts only if there is no other, and one with the CPUs apart only if there is
    none of those either.
    """
    near = [each for each in readings if not each.far_reason]
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
    rate, count = found
    directions, distance = len(trial.result.counts), trial.result.placement
    far_reason = distance.far_reason if distance is not None else ""
    low_fps, fps, high_fps = (fps / directions for fps in (rate.low, rate.value, rate.high))
    limited = generator_limited(windows, duration_s)
    return PlateauPoint(trial.id, fps, low_fps, high_fps, count, far_reason, limited)


def generator_limited(windows: Windows, duration_s: float) -> str:
    """Why the generator, and not the DUT, may have set the rate of a trial at overload; "" if it was the DUT."""
    share = windows.unrefused_share(duration_s)
    if share <= POLICY.most_unrefused_of_a_rate:
        return ""
    return f"generator-limited: what it offered went into the DUT's rings in {share:.0%} of the windows"
