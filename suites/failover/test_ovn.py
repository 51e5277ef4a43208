"""What changes of OVN cost the frames that flow through a logical switch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_nfvperf import LogicalPort, LogicalSwitch, Outages, SlaCheck, Traffic, compose, events
from pytest_nfvperf.parts import endpoint

MACS = {"p0": "02:00:00:00:00:10", "p1": "02:00:00:00:00:11"}

EVENTS = {
    "controller restarted": events.restart_ovn_controller,
    "controller restarted, ports released": partial(events.restart_ovn_controller, release=True),
    "1,000 ACLs added": partial(events.change_northbound, switch="ls0", for_s=0.2),
}


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="logical-switch")
@pytest.mark.parametrize("event", EVENTS)
def test_ovn(event: str, private_ovn: Callable[..., Any], outage: Outages, sla: SlaCheck) -> None:
    """For how long frames through a logical switch are blocked by a restart of ovn-controller, and by new ACLs.

    Steps: build two ports on br-int, with OVN over it; send 10 kpps each way; cause the event; repeat.
    Verify: the SLA's ``outage``.
    """
    topology = compose("logical-switch", *(endpoint(name, "br-int", mac=mac) for name, mac in MACS.items()))
    ports = tuple(LogicalPort(f"lp-{name}", name, mac) for name, mac in MACS.items())
    made = private_ovn(topology, LogicalSwitch("ls0", ports))
    sla.check(outage(made.live, Traffic(frame_size=64), 10_000, EVENTS[event], repeats=3))
