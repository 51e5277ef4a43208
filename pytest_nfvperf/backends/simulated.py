"""A simulated testbed in virtual time: what plans run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
from pytest_nfvperf.backends.base import Daemons, T
from pytest_nfvperf.backends.endpoints_only import lacks_roles
from pytest_nfvperf.backends.simulated_dut import EndSpec, SimulatedDut
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.testbed.node_spec import nodes_words, unknown_node
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.runs.clocks import VirtualClock
from pytest_nfvperf.runs.rig_parts import RigParts

ASSUMED_FPS = 4e6
"""Frames/s per direction that the simulated DUT forwards."""

ASSUMED_CEILING_FPS = 9e6

_NOISE = 0.003
_BUFFER_FRAMES = 1024
_CEILING_S = 4.0
_ROOM = 1000


class SimulatedCeilings:
    """Takes the time of a measurement once for each traffic."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._known: set[tuple[str, int]] = set()

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """Known after the first measurement."""
        return ASSUMED_CEILING_FPS if (traffic.shape_label, directions) in self._known else None

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Let the time pass."""
        self._clock.sleep(_CEILING_S)
        self._known.add((traffic.shape_label, directions))
        return ASSUMED_CEILING_FPS


class SimulatedBackend:
    """Makes a simulated rig of any testbed; touches nothing.

    Args:
        testbed: what would be wired.
        make_generator: another simulated DUT than a steady one of ASSUMED_FPS.
    """

    def __init__(self, testbed: Testbed, make_generator: Callable[[], FakeGenerator] | None = None) -> None:
        self.testbed = testbed
        self.clock = VirtualClock()
        self._make = make_generator or _assumed_dut
        self._generators: list[FakeGenerator] = []
        self._dut = SimulatedDut(self.clock)

    @property
    def specs(self) -> list[TrialSpec]:
        """Every trial that was asked for so far."""
        return [spec for generator in self._generators for spec in generator.specs]

    @property
    def end_specs(self) -> tuple[Sequence[EndSpec], ...]:
        """Every run of streams, of requests and of connects that was asked for so far: each sort in its order."""
        return self._dut.end_specs

    def check(self) -> None:
        """Nothing can be missing."""

    def lacks(self, dut: Dut) -> str | None:
        """A node that the testbed file does not name; else a simulated DUT can be all of them."""
        return unknown_node(self.testbed, dut)

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        """As the real testbed: what is skipped there is no part of a plan."""
        return lacks_roles(self.testbed.generator.engine, self.testbed, topology, dut)

    def lacks_streams(self) -> str | None:
        """Nothing."""
        return None

    def labels(self) -> dict[str, str]:
        """As the real testbed's."""
        return {"datapath": self.testbed.ovs.datapath, "engine": self.testbed.generator.engine}

    def describe(self) -> list[str]:
        """One line, and one for each node that the testbed file names."""
        return ["planned on a simulated DUT in virtual time", *nodes_words(self.testbed)]

    def parts(self) -> RigParts:
        """A simulated rig."""
        return RigParts(
            make_datapath=lambda dut: self._dut.datapath(dut.kind or "dpdk"),
            make_generator=self._make_generator,
            make_ledger=None,
            ceilings=SimulatedCeilings(self.clock),
            pmd_cpus=len(self.testbed.cpus.pmd),
            make_streams=self._dut.streams,
            make_requests=lambda: self._dut.requests,
            make_connects=lambda: self._dut.connects,
        )

    @property
    def can_share(self) -> bool:
        """Always: nothing is used up."""
        return True

    def room(self) -> int:
        """As many as anyone asks for."""
        return _ROOM

    def parts_beside(self) -> RigParts:
        return self.parts()

    def daemons(self, of: Daemons[T]) -> T:
        """Nothing is started."""
        return of.simulated()

    def fingerprint(self) -> Mapping[str, Any]:
        """None: nothing was measured."""
        return {}

    def line_rate_bps(self) -> float | None:
        """The slowest port's."""
        return min((port.line_rate_bps for port in self.testbed.ports if port.line_rate_bps), default=None)

    def estimate_search_s(self, profile: Profile) -> float:  # noqa: ARG002 - the plan finds out itself
        """Unknown."""
        return 0.0

    def leftovers(self) -> list[str]:
        """Nothing."""
        return []

    def close(self) -> None:
        """Nothing to close."""

    def _make_generator(self) -> FakeGenerator:
        generator = self._make()
        generator.clock = self.clock
        self._generators.append(generator)
        return generator


def _assumed_dut() -> FakeGenerator:
    return FakeGenerator(
        ASSUMED_FPS, noise=_NOISE, ceiling_fps=ASSUMED_CEILING_FPS * 1.01, buffer_frames=_BUFFER_FRAMES
    )
