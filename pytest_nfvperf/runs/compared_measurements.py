"""``search`` and ``study`` of a run that compares: each measurement is one of all sides.

An NDR or a loss curve is replaced by the forwarding rate at maximum offered load, which alternates between sides in a
tenth of a second, where a search takes ten. Tests get back the baseline's outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.compare_sides import SideComparison
from pytest_nfvperf.runs.figures import Figure, Subject
from pytest_nfvperf.runs.forwarding import LARGER, ForwardingRate
from pytest_nfvperf.runs.instructions import CountedInstructions, check_time
from pytest_nfvperf.runs.limits import LimitsOf
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import EstimateOf, Search
from pytest_nfvperf.runs.session_watch import Sessions
from pytest_nfvperf.runs.study import Study, figure_of


class ComparedSearch(Search):
    """Measurements of one test: the forwarding rate of every side with that topology and traffic.

    Arguments as of a Search. ``virtual``: measure instructions a packet instead.
    """

    def __init__(
        self,
        profile: Profile,
        labels: Mapping[str, str],
        limits_of: LimitsOf,
        estimate_of: EstimateOf,
        sides: SideComparison,
        *,
        virtual: bool = False,
    ) -> None:
        super().__init__(profile, labels, limits_of, estimate_of)
        self._sides, self._limits, self._virtual = sides, limits_of, virtual
        self._known: dict[tuple[Topology, Dut, Traffic], Outcome] = {}

    def ndr_pdr(
        self,
        live: LiveTopology,
        traffic: Traffic,
        *,
        latency: bool = False,  # noqa: ARG002 - as of a Search, here and below
        sessions: Sessions | None = None,  # noqa: ARG002
    ) -> Outcome:
        return self._compared(live, traffic)

    def throughput(
        self,
        live: LiveTopology,
        traffic: Traffic,
        algorithm: str = "rfc2544",  # noqa: ARG002
    ) -> Outcome:
        return self._compared(live, traffic)

    def loss_curve(self, live: LiveTopology, traffic: Traffic) -> Outcome:
        return self._compared(live, traffic)

    def back_to_back(
        self,
        live: LiveTopology,
        traffic: Traffic,
        throughput_fps: float | None = None,  # noqa: ARG002
    ) -> Outcome:
        return self._compared(live, traffic)

    def loss_at(
        self,
        live: LiveTopology,
        traffic: Traffic,
        load_fps: float,  # noqa: ARG002
        duration_s: float,  # noqa: ARG002
    ) -> Outcome:
        return self._compared(live, traffic)

    def _compared(self, live: LiveTopology, traffic: Traffic) -> Outcome:
        if live.service_starters:
            raise UnavailableError("not compared: daemons run on its topology, and each side would need its own")
        key = (live.topology, live.dut, traffic)
        if key not in self._known:
            rate = ForwardingRate(traffic, self.profile, self._limits, larger=LARGER)
            figure = CountedInstructions(traffic) if self._virtual else rate
            self._known[key] = self._sides.of(live.topology, live.dut, figure, {})
        return self._known[key]


class ComparedStudy(Study):
    """Studies of one test: each of their subjects on every side, one after the other. ``args``: as of a Study."""

    def __init__(self, *args: Any, sides: SideComparison) -> None:
        super().__init__(*args)
        self._sides = sides

    def compare(self, per: str, subjects: Sequence[Subject], figure: Figure) -> tuple[Outcome, ...]:
        """The baseline's outcome of each subject. In virtual time a rate is replaced by instructions a packet."""
        if self._context.virtual and isinstance(figure, ForwardingRate):
            figure = CountedInstructions(figure.traffic)
        check_time(next(iter(figure.units)), virtual=self._context.virtual)
        return tuple(
            self._sides.of(each.topology, each.dut, _growing(figure_of(each, figure)), {per: each.value})
            for each in subjects
        )


def _growing(figure: Figure) -> Figure:
    """The figure with larger frames to grow to, for each comparison anew, where a side outpaces the generator."""
    if not isinstance(figure, ForwardingRate):
        return figure
    return ForwardingRate(figure.traffic, figure.profile, figure.limits_of, larger=LARGER)
