"""Subjects of a study, and figures: what a study can measure of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytest_nfvperf.measure.call_arguments import DUT, TOPOLOGY, TRAFFIC
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.search import measured_labels
from pytest_nfvperf.model.arguments import NAME, Allowed, checked, optional
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic


@checked(
    value=Allowed(
        "a text, such as '4'",
        NAME.accepts,
        lambda value: f"write {str(value)!r}, a text" if isinstance(value, (int, float)) else "",
    ),
    topology=TOPOLOGY,
    dut=DUT,
    traffic=optional(TRAFFIC),
)
@dataclass(frozen=True, slots=True)
class Subject:
    """One of those compared.

    Attributes:
        value: of the label that subjects differ in.
        topology, dut: where it is measured.
        traffic: what is sent to it; None: the study's traffic.
    """

    value: str
    topology: Topology
    dut: Dut = TESTBED_DUT
    traffic: AnyTraffic | None = None


class Measurement(Protocol):
    """A measurement of each subject of a study."""

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        ...

    @property
    def units(self) -> Mapping[str, str]:
        """Base unit of each metric that a reading can have."""
        ...

    @property
    def reading_s(self) -> float:
        """How long a reading usually takes, without building its topology."""
        ...

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading of a topology that was just built; InvalidTrialsError when the rig disturbed it."""
        ...

    def labels(self, live: LiveTopology) -> dict[str, str]: ...

    def facts(self) -> dict[str, Any]:
        """Fields of the Outcome that do not depend on the subject."""
        ...


@runtime_checkable
class ShortMeasurement(Measurement, Protocol):
    """A figure whose readings are short enough to alternate between subjects."""

    def begin(self, live: LiveTopology, remaining_s: float | None) -> None:
        """Make a topology ready for turns, once after it was built."""
        ...

    def turn(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """Take one short reading of a topology that is ready. InvalidTrialsError if the rig disturbed it."""
        ...


@runtime_checkable
class SendingMeasurement(Measurement, Protocol):
    """A figure of a traffic; each subject of a study can have a traffic of its own."""

    def sending(self, traffic: AnyTraffic) -> Measurement: ...


@runtime_checkable
class GrowingMeasurement(ShortMeasurement, Protocol):
    """A figure whose frames can become larger, for all subjects: before the first turn, or to start over."""

    @property
    def grows(self) -> bool:
        """True while nothing was read and there are larger frames."""
        ...

    @property
    def has_larger(self) -> bool:
        """True where there are larger frames, even after readings."""
        ...

    @property
    def outpaced(self) -> bool:
        """True where the last topology to ``begin`` is faster than the rig."""
        ...

    def grow(self) -> None:
        """Send larger frames from now on, and forget earlier readings."""
        ...


class TrafficMeasurement:
    """Labels and facts of a figure that is measured with one traffic."""

    __slots__ = ()
    traffic: AnyTraffic

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return measured_labels(live, self.traffic)

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": self.traffic.mean_frame_size, "directions": 2 if self.traffic.bidirectional else 1}
