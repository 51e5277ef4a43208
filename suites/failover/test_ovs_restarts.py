"""What a restart, a crash and an upgrade of Open vSwitch cost the frames that flow through it (RFC 6201)."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_nfvperf import Deployer, Dut, Outages, SlaCheck, Traffic, compose, events, phy2phy
from pytest_nfvperf.parts import endpoint, path, rules

LOAD_FPS = 100_000
"""Frames/s per direction: one each 10 us, and no DUT is loaded by it."""

RESTARTS = {
    "restart": events.restart,
    "restart, flows restored": partial(events.restart, flows="restored"),
    "kill": events.kill,
    "restart of the database": events.restart_database,
}


@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize(
    "event",
    [pytest.param(name, marks=[] if name == "restart" else [pytest.mark.nfv_not_quick]) for name in RESTARTS],
)
def test_restart(event: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long a restart of Open vSwitch blocks frames.

    Steps: build NIC - bridge - NIC; send 100 kpps each way; cause the event; send until all arrives again; repeat.
    Verify: the SLA's ``outage`` (blocked in the worst direction, by time stamps) and ``outage_frames``.
    """
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, RESTARTS[event]))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize(("version", "to"), [("old", "new"), ("new", "old")])
def test_upgrade(version: str, to: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """An upgrade in place from one version to another, and the way back, under the same ports and flows.

    Steps: start the one version (``--nfv-ovs old=... --nfv-ovs new=...``); build NIC - bridge - NIC; send 100 kpps each
    way; save the flows, convert the database, start the other version, restore the flows; repeat.
    Verify: the SLA's ``outage``. Skipped where the run names no two versions.
    """
    live = deploy(phy2phy(), dut=Dut(version=version))
    sla.check(outage(live, Traffic(frame_size=64), LOAD_FPS, partial(events.upgrade, to=to)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="phy2phy")
def test_restore_with_a_meter(deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """What a restart with restored flows does to a bridge that has one flow with a meter: ovs-save saves no meters.

    Steps: build NIC - bridge - NIC with flows, and a flow with a meter that no frame passes; restart as above.
    Verify: nothing by itself: one flow with a meter makes the whole restore fail, and the outage does not end.
    """
    flows = ("meter=7,kbps,band=type=drop,rate=1000000", "priority=200,udp,tp_dst=1,actions=meter:7,normal")
    topology = compose(
        "phy2phy", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), rules("br0", flows=flows)
    )
    event = partial(events.restart, flows="restored")
    sla.check(outage(deploy(topology), Traffic(frame_size=64), LOAD_FPS, event, repeats=1))
