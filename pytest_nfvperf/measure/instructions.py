"""Instructions a packet, in virtual time: what a DUT spends on a frame, whatever the host does meanwhile.

A reading sends frames in bursts, each forwarded before the next begins; the median over bursts ignores OVS's timers.
It counts the instructions of ovs-vswitchd's main thread and of its PMD threads in rounds with frames (DPDK), or of
sending (kernel).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from pytest_nfvperf.measure.call_arguments import check_sendable
from pytest_nfvperf.measure.measurements import TrafficMeasurement
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import DutFailure, UnavailableError
from pytest_nfvperf.model.measure.cpu_profile import (
    INSTRUCTIONS,
    INSTRUCTIONS_PER_PACKET,
    VIRTUAL,
    WALL,
    why_not_in,
)
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import Burst

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
