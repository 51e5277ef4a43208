"""What changes of a running switch cost the frames that flow through it."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_nfvperf import Deployer, Outages, SlaCheck, Traffic, events, phy2phy

LOAD_FPS = 100_000


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="phy2phy")
def test_reconnect(deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long frames are lost when the far end of a vhost-user port restarts, as a VM does.

    Steps: build NIC - bridge - NIC; send 100 kpps each way; hang up at one end, and listen again at once; repeat.
    Verify: the SLA's ``outage``. DPDK tries again at once, and then each second.
    """
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, partial(events.reconnect, port="p1")))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize("fail_mode", ["secure", "standalone"])
def test_controller_lost(fail_mode: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """What the loss of the controller does: in fail mode secure nothing, in standalone OVS removes the flows.

    Steps: build NIC - bridge - NIC with a controller of the run; send 100 kpps each way; end the controller; repeat.
    Verify: the SLA's ``outage``.
    """
    event = partial(events.lose_controller, fail_mode=fail_mode)
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, event, patience_s=5.0))
