"""Subjects of a study, and figures: what a study can measure of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pytest_nfvperf.measure.call_arguments import TOPOLOGY, Sent
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.search import measured_labels
from pytest_nfvperf.model.arguments import NAME, Allowed, checked
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic

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
