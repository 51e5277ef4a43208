"""A flow that the DUT drops weighs what its share of the flows is: a real TRex, a private OVS, a drop flow.

Needs an installed TRex, whose directory NFV_TREX_DIR names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from tests.functional.lab_support import lab_testbed, veth_cables
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import needs_trex, trex_in
from tests.measured.test_trex_cables import move_into

pytestmark = [needs_root, needs_trex]

FLOWS = 100
FRAMES = 10_000


@dataclass
class Stood:
    """TRex at both ends of a bridge."""

    ovs: OvsDatapath
    generator: TrexGenerator
    directions: tuple[Direction, ...]
    first_port: int

    def ofctl(self, command: str, *arguments: str) -> None:
        target = f"unix:{self.ovs.instance.directory}/br0.mgmt"
        run([*self.ovs.instance.ofctl, "-O", "OpenFlow14", command, target, *arguments])
        self.ovs.instance.ctl.call("revalidator/purge")


@pytest.fixture(scope="module")
def deployed() -> Iterator[Stood]:
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        space = LiveNamespace(journal, "trex")
        move_into(space, *peer)
        with trex_in(journal, space, peer) as lab, closing(lab.generator()) as generator:
            testbed = dataclasses.replace(lab_testbed(local, peer), generator=lab.spec)
            with (
                closing(OvsDatapath.start(testbed, journal, name="lab")) as ovs,
                closing(ovs.build(phy2phy())) as built,
            ):
                generator.attach(generator_ports(built.topology, built))
                generator.wait_links_up(5.0)
                directions = built.topology.directions
                generator.learn(Traffic(flows=FLOWS), directions)
                yield Stood(ovs, generator, directions, built.ofports()[directions[0].tx])


def valid(deployed: Stood) -> TrialResult:
    spec = TrialSpec(Traffic(flows=FLOWS), 5000, FRAMES / 5000, deployed.directions)
    for _ in range(5):
        result = deployed.generator.run_trial(spec)
        if result.valid and result.counts[1].lost == 0:
            return result
    pytest.fail(f"no valid trial on this machine: {result}")


@pytest.mark.parametrize("flow", [0, 1, 57, 99])
def test_one_flow_of_a_hundred_is_one_percent_whichever_it_is(deployed: Stood, flow: int) -> None:
    """Latency frames are a tenth of the load: of every flow a tenth, and not of the first alone."""
    match = f"ip,in_port={deployed.first_port},nw_src=198.18.0.{flow + 1}"
    deployed.ofctl("add-flow", f"priority=200,{match},actions=drop")
    try:
        dropped, _ = valid(deployed).counts
    finally:
        deployed.ofctl("del-flows", match)
    assert (dropped.sent, dropped.lost) == (FRAMES, FRAMES // FLOWS)
    assert dropped.latency is not None
    assert dropped.latency.total == FRAMES // 10 - FRAMES // 10 // FLOWS
