"""BGP for plans: speakers without daemons, and nothing that follows their routes."""

from __future__ import annotations

from pytest_nfvperf.adapters.routing.speakers.fake_speaker import (
    FakeSpeaker,
    FakeWire,
    NoSteps,
    SimulatedAgent,
    SimulatedLink,
)
from pytest_nfvperf.model.scenarios.bgp_path import BgpPathPlan
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.routing import BgpParts, BgpSpeaker


class SimulatedBgp:
    """Fulfils ports.routing.BgpDaemons. Nothing is started."""

    def lacks(self) -> str | None:
        return None

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:  # noqa: ARG002 - nothing is deployed
        """Two speakers that know of each other."""
        wire = FakeWire()
        dut = FakeSpeaker(wire, plan.frr_address, plan.frr_config())
        neighbor = FakeSpeaker(wire, plan.bird_address, plan.bird_config())
        for speaker in (dut, neighbor):
            speaker.start()
        return BgpParts(dut, neighbor, SimulatedAgent(), SimulatedLink(), SimulatedLink(), NoSteps)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:  # noqa: ARG002 - none is there
        """One that replaces any of a lab's."""
        plan = BgpPathPlan()
        speaker = FakeSpeaker(FakeWire(), plan.frr_address, plan.frr_config())
        speaker.start()
        return speaker
