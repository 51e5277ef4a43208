"""What a study compares, its subjects, and what it can measure of them: the shape of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytest_nfvperf.measure.call_arguments import DUT, TOPOLOGY, TRAFFIC
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.arguments import NAME, Allowed, checked, optional
from pytest_nfvperf.model.measure.outcome import Outcome, Reading
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic


def _as_text(value: object) -> str:
    return f"write {str(value)!r}, a text" if isinstance(value, (int, float)) else ""


@checked(
    value=Allowed("a text, such as '4'", NAME.accepts, _as_text),
    topology=TOPOLOGY,
    dut=DUT,
    traffic=optional(TRAFFIC),
)
@dataclass(frozen=True, slots=True)
class Subject:
    """One of those compared: its value of the label that they differ in, and its place.

    ``traffic``: what it is sent; None: what the study sends.
    """

    value: str
    topology: Topology
    dut: Dut = TESTBED_DUT
    traffic: Traffic | None = None


class Figure(Protocol):
    """What a study measures of each subject."""

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
        """How long a reading usually takes, beside building its topology."""
        ...

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading of a topology that was just built; InvalidTrialsError when the rig disturbed it."""
        ...

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured there."""
        ...

    def facts(self) -> dict[str, Any]:
        """Fields of the Outcome that do not depend on the subject."""
        ...


@runtime_checkable
class ConcludingFigure(Figure, Protocol):
    """A figure that has something to add once all subjects were measured."""

    def conclude(self, per: str, outcomes: Sequence[Outcome]) -> None:
        """``per``: the label that they differ in; ``outcomes``: the baseline's first."""
        ...


@runtime_checkable
class ShortFigure(Figure, Protocol):
    """A figure whose readings are so short that those of several subjects can be taken in turns."""

    def begin(self, live: LiveTopology, remaining_s: float | None) -> None:
        """Make a topology ready for turns, once after it was built."""
        ...

    def turn(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """Take one short reading of a topology that is ready. InvalidTrialsError if the rig disturbed it."""
        ...


@runtime_checkable
class SendingFigure(Figure, Protocol):
    """A figure of a traffic; each subject of a study can have a traffic of its own."""

    def sending(self, traffic: Traffic) -> Figure:
        """The same figure of another traffic."""
        ...


@runtime_checkable
class GrowingFigure(ShortFigure, Protocol):
    """A figure whose frames can become larger, for all subjects: before the first turn, or to begin anew."""

    @property
    def grows(self) -> bool:
        """True while nothing was read, and there are larger frames."""
        ...

    @property
    def has_larger(self) -> bool:
        """True where there are larger frames, whether something was read or not."""
        ...

    @property
    def outpaced(self) -> bool:
        """True where the topology that began last is faster than the rig."""
        ...

    def grow(self) -> None:
        """Send larger frames from now on, as if nothing had been read."""
        ...


def measured_frames(traffic: Traffic) -> dict[str, Any]:
    """What all subjects of a comparison share that send these frames, as an Outcome's."""
    return {"mean_frame_size": traffic.mean_frame_size, "directions": 2 if traffic.bidirectional else 1}
