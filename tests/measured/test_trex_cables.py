"""The cabling check with a real TRex: its frames, counted by nobody but the DUT's bridge, say where cables lead.

Needs an installed TRex, whose directory NFV_TREX_DIR names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.measure.cable_check import check_cabling
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import CableSpec, Testbed
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.lab_support import lab_testbed, veth_cables
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import needs_trex, trex_in

pytestmark = [needs_root, needs_trex]


def move_into(space: LiveNamespace, *names: str) -> None:
    """Plug the generator's ends into TRex's machine."""
    with IPRoute() as host, Path(space.path).open("rb") as target:
        for name in names:
            host.link("set", index=host.link_lookup(ifname=name)[0], net_ns_fd=target.fileno())
    with IPRoute(netns=space.name) as there:
        for name in names:
            there.link("set", index=there.link_lookup(ifname=name)[0], state="up")


@contextmanager
def dut_of(testbed: Testbed, journal: Journal) -> Iterator[OvsDatapath]:
    ovs = OvsDatapath.start(testbed, journal, name="lab")
    try:
        yield ovs
    finally:
        ovs.close()


def test_right_cables_pass_and_swapped_ones_are_named() -> None:
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        space = LiveNamespace(journal, "trex")
        move_into(space, *peer)
        with trex_in(journal, space, peer) as lab, closing(lab.generator()) as generator:
            written = dataclasses.replace(lab_testbed(local, peer), generator=lab.spec)
            swapped = dataclasses.replace(written, links=(CableSpec("0", "dpdk1"), CableSpec("1", "dpdk0")))
            with dut_of(swapped, journal) as ovs, pytest.raises(TestbedError) as told:
                check_cabling(swapped, ovs, generator)
            with dut_of(written, journal) as ovs:
                check_cabling(written, ovs, generator)
                built = ovs.build(phy2phy())
                generator.attach(generator_ports(built.topology, built))
                directions = built.topology.directions
                generator.learn(Traffic(), directions)
                # The check let go of TRex's ports, and left nothing running: frames come through as ever.
                result = generator.run_trial(TrialSpec(Traffic(), 1000, 0.5, directions))
                assert [counts.received for counts in result.counts] == [500, 500]
    assert told.value.message == (
        "the cabling differs from the testbed file: port 0 of the generator is not connected to dpdk1 but to dpdk0; "
        "port 1 of the generator is not connected to dpdk0 but to dpdk1; change the cables, or write in the testbed "
        "file: links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]"
    )
