"""What a study can measure of its subjects: forwarding rates at overload, the cost of a load, instructions a packet.

Mirrors (measure/mirror_cost.py) and streams (measure/streams.py) have files of their own.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Annotated, Any, ClassVar

from pytest_nfvperf.measure.call_arguments import TOPOLOGY, Sent, WholeLoad, check_load, check_sendable
from pytest_nfvperf.measure.limits import OVERLOAD, Limits, LimitsOf, generator_limited, judges_whole_trials
from pytest_nfvperf.measure.measurer import measured_labels
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.arguments import NAME, Allowed, checked, one
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import TrialResult, load_too_high
from pytest_nfvperf.model.disturbance.windows import WindowRate, plateau
from pytest_nfvperf.model.errors import DutFailure, UnavailableError
from pytest_nfvperf.model.measure.cpu_profile import INSTRUCTIONS, INSTRUCTIONS_PER_PACKET, VIRTUAL, WALL, why_not_in
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.profile import TRIAL_OVERHEAD_S, Profile
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.traffic import Traffic, check_mtu
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import Burst

_VALUE = Allowed(
    "a text, such as '4'",
    NAME.accepts,
    lambda value: f"write {str(value)!r}, a text" if isinstance(value, (int, float)) else "",
)


@checked()
@dataclass(frozen=True, slots=True)
class Subject:
    """One of those compared.

    Attributes:
        value: of the label that subjects differ in.
        topology, dut: where it is measured.
        traffic: what is sent to it; None: the study's traffic.
    """

    value: Annotated[str, _VALUE]
    topology: Annotated[Topology, TOPOLOGY]
    dut: Dut = TESTBED_DUT
    traffic: Sent | None = None


class Measurement(ABC):
    """A measurement of each subject of a study.

    What a measurement cannot do keeps its default.

    Attributes:
        name: the outcome's algorithm.
        units: base unit of each metric that a reading can have.
        own_traffic: each subject can have a traffic of its own, by ``sending``.
        takes_turns: readings are short enough to alternate between subjects, by ``begin`` and ``turn``.
        outpaced: the last topology to ``begin`` is faster than the rig.
    """

    name: str
    units: Mapping[str, str]
    own_traffic: ClassVar[bool] = False
    takes_turns: ClassVar[bool] = False
    outpaced: bool = False

    @property
    @abstractmethod
    def reading_s(self) -> float:
        """How long a reading usually takes, without building its topology."""

    @abstractmethod
    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading of a topology that was just built; InvalidTrialsError when the rig disturbed it."""

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What an SLA knows the subject by."""
        return {"topology": live.name, "datapath": live.datapath_kind}

    def facts(self) -> dict[str, Any]:
        """Fields of the Outcome that do not depend on the subject."""
        return {"mean_frame_size": 0.0, "directions": 1}

    @property
    def sent(self) -> AnyTraffic | None:
        """The generator's traffic; None if it sends none."""
        return None

    @property
    def grows(self) -> bool:
        """True while nothing was read, and there are larger frames."""
        return False

    @property
    def has_larger(self) -> bool:
        """True where there are larger frames, even after readings."""
        return False

    def sending(self, traffic: AnyTraffic) -> Measurement:  # noqa: ARG002 - see own_traffic
        """The same of another traffic."""
        return self

    def begin(self, live: LiveTopology, remaining_s: float | None) -> None:  # noqa: B027 - see takes_turns
        """Make a topology ready for turns, once after it was built."""

    def turn(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """Take one short reading of a topology that is ready. InvalidTrialsError if the rig disturbed it."""
        return self.read(live, remaining_s)

    def grow(self) -> None:  # noqa: B027 - see has_larger
        """Send larger frames from now on, for all subjects, and forget earlier readings."""


class TrafficMeasurement(Measurement):
    """A measurement of one traffic that the generator sends."""

    traffic: AnyTraffic

    @property
    def sent(self) -> AnyTraffic:
        return self.traffic

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return measured_labels(live, self.traffic)

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": self.traffic.mean_frame_size, "directions": 2 if self.traffic.bidirectional else 1}


# The forwarding rate at overload, and the cost of a load.

_LOAD_COST_UNITS = units_of("pmd_cores", "load_latency_*")
"""Metrics of a reading of a load's cost, and their units."""

_SOURCE, _RAN = "pmd-sched", "pmd-sched.run_ns"

UNITS = units_of("forwarding_rate", "packet_time", "cycles_per_packet")
"""Metrics of a reading; forwarding_rate per direction, the others over all directions."""

CLEARLY_MORE = 1.02
"""Offered over received, above which the DUT, and not the generator, set the rate."""

LARGER = (256, 512)
"""Frame sizes to go up to, in bytes, where the generator is the limit: DPDK's driver sends, or a DUT is very fast."""

WINDOW_S = 0.005
"""Long enough for a rate within a percent, short enough to lie between two disturbances."""

_LOWER = 0.9
_LOWEST_TRIES = 8
_WARM_UP_S = 0.15
_EMPTYING_S = 0.02
"""Waited after a trial whose losses nobody reads: rings of 4096 frames are empty after a fifth of it at 1 Mpps."""

_OF_WINDOWS = ("forwarding_rate", "packet_time")
_ALL_DISTURBED = "the machine disturbed every window of every reading; measure again when it is quieter"


@checked()
@dataclass(frozen=True, slots=True)
class LoadCost(TrafficMeasurement):
    """Reads what a load costs: CPUs of polling threads, and latency. A sleeping PMD saves the one and adds the other.

    Works on any topology with generator ports. ``load_fps``: frames/s per direction.
    """

    traffic: Sent
    profile: Annotated[Profile, one(Profile, "the fixture `profile`")]
    load_fps: WholeLoad
    name = "load_cost"
    units = _LOAD_COST_UNITS

    def __post_init__(self) -> None:
        check_load("LoadCost", self.traffic, self.load_fps, self.profile.comparison_trial_s)

    @property
    def reading_s(self) -> float:
        return self.profile.comparison_trial_s + self.profile.search_residual_s + 2 * TRIAL_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        live.learn(self.traffic)
        duration_s, residual_s = self.profile.comparison_trial_s, self.profile.search_residual_s
        spec = trial_spec(live, self.traffic, self.load_fps, duration_s, "cost of a load", residual_s=residual_s)
        before = live.counters()
        trial = live.runner.run(spec, remaining_s)
        values = {"pmd_cores": _pmd_cores(before, live.counters())}
        if trial.result.latency is not None:
            values |= trial.result.latency.percentiles_ns(_LOAD_COST_UNITS)
        return Reading({name: value for name, value in values.items() if value is not None}, trial.id)


def _pmd_cores(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> float | None:
    """CPUs that PMD threads used between two snapshots; None without PMD threads."""
    early, late = (
        next((snapshot for snapshot in snapshots if snapshot.source == _SOURCE), None) for snapshots in (before, after)
    )
    if early is None or late is None or _RAN not in early.as_dict() or _RAN not in late.as_dict():
        return None
    return (late.as_dict()[_RAN] - early.as_dict()[_RAN]) / (late.time_ns - early.time_ns)


@dataclass
class ForwardingRate(TrafficMeasurement):
    """Reads the forwarding rate at maximum offered load (RFC 2285 section 3.6.2, FRMOL) on any topology.

    The generator offers more than the DUT takes, and the rate received is read. That takes half a second, a search ten.
    A trial counts if the generator was absent for at most 5 % of the time (which is subtracted), and at most 1 % of the
    PMDs' CPU time was stolen. Within 5 % of the rig's own ceiling the DUT forwards *at least* as much.

    The load is the same on all topologies. It falls to what the engine sustains. With an engine whose windows show
    refusals, it rises until the DUT refuses some frames.

    Attributes:
        larger: frame sizes in bytes to grow to while the generator is the limit on one of the topologies that begin
            before the first reading: a datapath copies all of a frame, the embedded generator its head only.
        before: called before each trial.
        outpaced: the DUT that began last forwards more than the generator can send.
    """

    traffic: AnyTraffic
    profile: Profile
    limits_of: LimitsOf
    limits: Limits | None = None
    load_fps: float = 0.0
    larger: Sequence[int] = ()
    before: Callable[[LiveTopology], None] = lambda _: None
    _requested: AnyTraffic = field(init=False)
    _mtu: int = field(default=sys.maxsize, init=False)
    outpaced: bool = field(default=False, init=False)
    _was_read: bool = field(default=False, init=False)
    name = "frmol"
    own_traffic: ClassVar[bool] = True
    takes_turns: ClassVar[bool] = True
    units = UNITS

    def __post_init__(self) -> None:
        self._requested = self.traffic

    @property
    def grows(self) -> bool:
        return not self._was_read and self.has_larger

    @property
    def has_larger(self) -> bool:
        return bool(self._larger())

    def sending(self, traffic: AnyTraffic) -> ForwardingRate:
        return ForwardingRate(traffic, self.profile, self.limits_of, larger=self.larger, before=self.before)

    @property
    def reading_s(self) -> float:
        waits_s = _EMPTYING_S + self.profile.search_residual_s
        return _WARM_UP_S + self.profile.comparison_trial_s + waits_s + 2 * TRIAL_OVERHEAD_S

    def facts(self) -> dict[str, Any]:
        requested, sent = self._requested.frame_label, self.traffic.frame_label
        grown = f"frames have {sent} bytes: with {requested} a DUT forwards more than the generator can send"
        return {
            **super().facts(),
            "ceiling_fps": self.limits.ceiling_fps if self.limits else None,
            "line_rate_fps": self.limits.line_rate_fps if self.limits else None,
            "notes": () if self.traffic == self._requested else (grown,),
        }

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """InvalidTrialsError if no trial within the budget is valid; ValueError for a frame above a port's MTU."""
        return self.measure(live, remaining_s)[1]

    def begin(self, live: LiveTopology, remaining_s: float | None) -> None:
        self._prepare(live)
        self._warm_up(live, remaining_s)

    def turn(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        return self.turn_trial(live, remaining_s)[1]

    def turn_trial(self, live: LiveTopology, remaining_s: float | None) -> tuple[Trial, Reading]:
        self._was_read = True
        whole = judges_whole_trials(live)
        residual_s = self.profile.search_residual_s if whole else _EMPTYING_S
        spec = self._spec(live, self.profile.comparison_turn_s, residual_s, "forwarding rate, in turns")
        self.before(live)
        trial = live.runner.run_once(spec, remaining_s)
        if not trial.result.valid:
            raise InvalidTrialsError([trial])
        return trial, _reading(trial, self._prepare(live), whole=whole)

    def measure(self, live: LiveTopology, remaining_s: float | None) -> tuple[Trial, Reading]:
        self.begin(live, remaining_s)
        while self.outpaced and self.grows:
            self.grow()
            self.begin(live, remaining_s)
        self._was_read = True
        profile, limits = self.profile, self._prepare(live)
        spec = self._spec(live, profile.comparison_trial_s, profile.search_residual_s, "forwarding rate")
        trial = live.runner.run(spec, remaining_s, before=partial(self.before, live))
        return trial, _reading(trial, limits, whole=judges_whole_trials(live))

    def _prepare(self, live: LiveTopology) -> Limits:
        if self.limits is None:
            check_sendable("forwarding rate", live.topology, self.traffic)
            self.limits = self.limits_of(live, self.traffic)
            self.load_fps = self.limits.maximum_fps
        self._mtu = min(self._mtu, *(port.mtu for port in live.topology.ports))
        return self.limits

    def grow(self) -> None:
        assert isinstance(self.traffic, Traffic)
        self.traffic, self.limits = replace(self.traffic, frame_size=self._larger()[0]), None
        self._was_read = False

    def _larger(self) -> list[int]:
        traffic = self.traffic
        if not isinstance(traffic, Traffic):
            return []  # a mix keeps its sizes
        if traffic.frame_source is not None and traffic.frame_source.frame_sizes:
            return []  # and so does a capture

        def fits(frame_size: int) -> bool:
            try:
                check_mtu(replace(traffic, frame_size=frame_size), self._mtu)
            except ValueError:
                return False
            return True

        own = traffic.largest_frame_size
        return [size for size in sorted(self.larger) if size > own and fits(size)]

    def _warm_up(self, live: LiveTopology, remaining_s: float | None) -> None:
        live.learn(self.traffic)

        def warm_up() -> Trial:
            self.before(live)
            return live.runner.run_once(self._spec(live, _WARM_UP_S, _EMPTYING_S, "warm-up"), remaining_s)

        for _ in range(_LOWEST_TRIES):
            trial = warm_up()
            if self._shows_refusals(trial):
                if not self._raised(trial):
                    break
                continue
            if not load_too_high(trial.result.invalid):
                break
            self.load_fps *= _LOWER
        self.outpaced = self._shows_refusals(trial) and _generator_is_the_limit(trial)
        if self.outpaced and self.grows:  # not for a moment's disturbance
            self.outpaced = _generator_is_the_limit(warm_up())

    def _shows_refusals(self, trial: Trial) -> bool:
        """True for an engine that accepts a load above what it can send."""
        return trial.result.windows is not None and self.limits is not None and self.limits.line_rate_fps is None

    def _raised(self, trial: Trial) -> bool:
        """Raise the load while the engine sends all of it and the DUT takes all; False once it is high enough.

        The load comes from a ceiling that may have been measured in a slower hour.
        """
        limits = self.limits
        assert limits is not None
        least = limits.maximum_fps * OVERLOAD
        if self.load_fps < least:
            self.load_fps = least
            return True
        if not _took_all(trial) or _outpaced(trial) or self.load_fps > least * OVERLOAD**POLICY.most_raises:
            return False
        self.load_fps *= OVERLOAD
        return True

    def _spec(self, live: LiveTopology, duration_s: float, residual_s: float, purpose: str) -> TrialSpec:
        return trial_spec(
            live,
            self.traffic,
            self.load_fps,
            duration_s,
            purpose,
            latency=False,  # under overload it is the length of the queue
            residual_s=residual_s,
            saturating=True,
            window_s=WINDOW_S,
        )


class ConnectionRate(ForwardingRate):
    """Reads the connections a second that come to their end, while more are opened than the subject takes."""

    name = "connections"
    units = units_of("connection_rate", "cycles_per_packet")

    def sending(self, traffic: AnyTraffic) -> ConnectionRate:
        return ConnectionRate(traffic, self.profile, self.limits_of)

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"mean_frame_size": 0.0}

    def turn_trial(self, live: LiveTopology, remaining_s: float | None) -> tuple[Trial, Reading]:
        trial, reading = super().turn_trial(live, remaining_s)
        return trial, _of_connections(reading)

    def measure(self, live: LiveTopology, remaining_s: float | None) -> tuple[Trial, Reading]:
        trial, reading = super().measure(live, remaining_s)
        return trial, _of_connections(reading)


def _of_connections(reading: Reading) -> Reading:
    """A reading whose frames received are connections."""

    def renamed(by_metric: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in by_metric.items() if name != "packet_time"}
        return {"connection_rate" if name == "forwarding_rate" else name: value for name, value in known.items()}

    return replace(
        reading,
        values=renamed(reading.values),
        bounds=renamed(reading.bounds),
        window_rates=renamed(reading.window_rates),
        whole=renamed(reading.whole),
        missing=renamed(reading.missing),
    )


def _took_all(trial: Trial) -> bool:
    """True if the DUT refused nothing in many windows of a trial at overload."""
    windows = trial.result.windows
    return windows is not None and bool(generator_limited(windows, trial.result.spec.duration_s))


def _generator_is_the_limit(trial: Trial) -> bool:
    return _outpaced(trial) or _took_all(trial)


def _outpaced(trial: Trial) -> bool:
    """True if the generator was too slow for more of an overload than the DUT's rings were.

    Of 1000 flows the rings refused 1 % and the generator left out 78 % with 64 bytes, 13 and 33 % with 128, 47 and 6 %
    with 256: there the DUT is the limit all the time, with 128 in most windows for a part of each.
    """
    counts = trial.result.counts
    return sum(each.skipped for each in counts) > sum(each.refused for each in counts)


def _reading(trial: Trial, limits: Limits, *, whole: bool) -> Reading:
    """A reading of a trial; ``whole``: by its counts, not by its windows.

    A rate that the rig limited is a lower bound. If all windows were disturbed, there is no rate.
    """
    result = trial.result
    whole_rate = _whole_rate(result)
    rate, window_rates = (whole_rate, {}) if whole else (_undisturbed_rate(result), _window_rates(result, limits))
    values = _rate_and_time(rate, len(result.counts))
    if trial.cost.pmd_cycles_per_packet is not None:
        values["cycles_per_packet"] = trial.cost.pmd_cycles_per_packet
    why = _limited(result, rate or 0.0, limits)
    # Below saturation a PMD counts its idle time to the packets: it needs no more for them than this.
    bounds = dict.fromkeys(("packet_time", "cycles_per_packet"), (Bound.AT_MOST, why)) if why else {}
    bounds |= {"forwarding_rate": (Bound.AT_LEAST, why)} if why else {}
    missing = {} if rate is not None else dict.fromkeys(_OF_WINDOWS, _ALL_DISTURBED)
    of_whole = _rate_and_time(whole_rate, len(result.counts))
    slowdown = None if result.windows is None else result.windows.slowdown(result.spec.duration_s)
    return Reading(values, trial.id, bounds, window_rates, of_whole, missing, slowdown)


def _rate_and_time(rate: float | None, directions: int) -> dict[str, float]:
    found = {} if rate is None else {"forwarding_rate": rate}
    return {**found, "packet_time": 1e9 / (rate * directions)} if rate else found


def _whole_rate(result: TrialResult) -> float:
    """Frames/s per direction, over the time in which the generator was there."""
    return (result.received_fps or 0.0) / _present(result)


def _undisturbed_rate(result: TrialResult) -> float | None:
    """Frames/s per direction of the undisturbed windows, None without any. Without windows: of the whole trial."""
    if result.windows is None:
        return _whole_rate(result)
    found = plateau(result.windows, result.spec.duration_s)
    return None if found is None else found[0].value / len(result.counts)


def _window_rates(result: TrialResult, limits: Limits) -> dict[str, tuple[WindowRate, ...]]:
    """Rates per direction, and times a packet, by window. At line rate nothing need be refused."""
    if result.windows is None:
        return {}
    directions, line = len(result.counts), limits.line_rate_fps is not None
    window_rates = result.windows.window_rates(result.spec.duration_s)
    total = [replace(each, unrefused=each.unrefused and not line) for each in window_rates if each.value > 0]
    return {
        "forwarding_rate": tuple(replace(each, value=each.value / directions) for each in total),
        "packet_time": tuple(replace(each, value=1e9 / each.value) for each in total),
    }


def _present(result: TrialResult) -> float:
    """Share of the trial in which the generator was running."""
    skipped = sum(count.skipped for count in result.counts)
    return 1 - skipped / result.intended if result.intended > skipped else 1.0


def _limited(result: TrialResult, rate: float, limits: Limits) -> str:
    if result.windows is not None and limits.line_rate_fps is None:
        return generator_limited(result.windows, result.spec.duration_s)
    if limits.line_rate_fps is not None and result.spec.load_fps >= math.floor(limits.line_rate_fps):
        return ""
    if limits.ceiling_fps is not None and rate >= limits.ceiling_fps * POLICY.at_ceiling:
        return f"generator-limited: within 5 % of its own ceiling of {format_fps(limits.ceiling_fps)} per direction"
    if (result.offered_fps or 0.0) / _present(result) < CLEARLY_MORE * rate:
        return f"generator-limited: hardly more was offered than the {format_fps(rate)} received"
    return ""


# Instructions a packet, in virtual time: what a DUT spends on a frame, whatever the host does meanwhile.
#
# A reading sends frames in bursts, each forwarded before the next begins; the median over bursts ignores OVS's timers.
# It counts the instructions of ovs-vswitchd's main thread and of its PMD threads in rounds with frames (DPDK), or of
# sending (kernel).

FRAMES = 1024
"""Of a reading, in each direction."""

_WARM_UP_FRAMES, _MOST_WARM_UP_FRAMES = 1024, 16_384
"""Of each flow, and of all. OVS puts a flow into its exact-match cache at one frame in 100 (emc-insert-inv-prob): after
so many a flow is in it, but for one time in 30,000."""
_RESIDUAL_S = 0.2


@dataclass(frozen=True, slots=True)
class CountedInstructions(TrafficMeasurement):
    """Reads the instructions a packet of one traffic, on any topology with generator ports.

    The kernel's work on system calls counts for ovs-vswitchd's main thread, not for the sender. Several nodes are
    summed. The kernel's forwarding is part of sending.
    """

    traffic: AnyTraffic
    name = "instructions"
    own_traffic: ClassVar[bool] = True
    units = units_of(INSTRUCTIONS_PER_PACKET)
    reading_s: ClassVar[float] = 1.0

    def sending(self, traffic: AnyTraffic) -> CountedInstructions:
        return CountedInstructions(traffic)

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """As of a Measurement.

        Raises:
            UnavailableError: time is not virtual.
            DutFailure: frames were lost, so that the number sent is not the number forwarded.
            InvalidTrialsError: frames were not sent.
            ValueError: a frame exceeds a port's MTU.
        """
        generator = live.deployment.generator
        _ = live.runner  # says what is wrong with a topology that has no generator port
        if generator is None or not generator.instruction_ns:
            raise UnavailableError(why_not_in(WALL, INSTRUCTIONS_PER_PACKET))
        check_sendable("instructions", live.topology, self.traffic)
        live.learn(self.traffic)
        generator.run_trial(self._spec(live, min(_WARM_UP_FRAMES * self.traffic.combinations, _MOST_WARM_UP_FRAMES)))
        bursts: list[Burst] = []

        def counted(spec: TrialSpec) -> TrialResult:
            result, found = generator.run_counted(spec, forwarding_clock(live))
            bursts.extend(found)
            return result

        trial = live.runner.run_once(self._spec(live, FRAMES), remaining_s, execute=counted)
        if not trial.result.valid:
            raise InvalidTrialsError([trial])
        if trial.result.lost:
            raise DutFailure(
                f"{trial.result.lost} of {trial.result.offered} frames were lost in bursts of {bursts[0].frames} that "
                "waited for one another: instructions are counted of forwarded frames"
            )
        return Reading({INSTRUCTIONS_PER_PACKET: per_packet(bursts, generator.instruction_ns)}, trial.id)

    def _spec(self, live: LiveTopology, frames: int) -> TrialSpec:
        """So many frames in each direction: load times duration. Virtual time has no rates."""
        return trial_spec(live, self.traffic, frames, 1.0, INSTRUCTIONS, latency=False, residual_s=_RESIDUAL_S)


def per_packet(bursts: list[Burst], instruction_ns: int) -> float:
    """Median over bursts of full length, in instructions a frame; the last bursts may be shorter.

    ``instruction_ns``: virtual time of one instruction, ns. ValueError where no frame was sent.
    """
    longest = max((burst.frames for burst in bursts), default=0)
    if longest < 1:
        raise ValueError("no frame was sent, so none cost anything")
    return median(burst.busy_ns / burst.frames for burst in bursts if burst.frames == longest) / instruction_ns


def forwarding_clock(live: LiveTopology) -> Callable[[], int] | None:
    """A clock of the time that the DUT's own threads have run, one of each node; None where it has none."""
    running = [each for each in live.deployment.collectors if each.forwarding_ns() is not None]
    return (lambda: sum(each.forwarding_ns() or 0 for each in running)) if running else None


def check_time(what: str, *, virtual: bool) -> None:
    """Raise UnavailableError where a metric, or "a search", cannot be measured in this kind of time."""
    why = why_not_in(VIRTUAL if virtual else WALL, what)
    if why:
        raise UnavailableError(why)
