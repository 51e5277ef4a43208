"""Two classes at once, told apart by their DSCP, from the maximum load down: who loses under overload."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf import LiveTopology, Search, SlaCheck, Traffic, TrafficMix, Vary

EXPEDITED, BEST_EFFORT = 46 << 2, 0
"""DSCP 46 (RFC 3246) and 0, as in the IPv4 header's second byte."""


def _marked(tos: int, frame_size: int) -> Traffic:
    packet = Ether() / IP(tos=tos) / UDP(chksum=0)
    return Traffic(packet=packet, vary=[Vary("IP.src", 100)], frame_size=frame_size)


MIX = TrafficMix(voice=(_marked(EXPEDITED, 128), "10 %"), bulk=(_marked(BEST_EFFORT, 64), "90 %"))


@pytest.mark.nfv_not_quick
def test_classes_under_overload(phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """Loss of each class, from the maximum load down in steps of 10 % to two loads without any.

    Steps: build port - bridge - port; learn; warm up; frame-loss curve (RFC 2544 section 26.3), counted by class.
    Verify: the SLA's ``loss_ratio`` of a class where it has one; a switch without queues treats both alike.
    """
    sla.check(search.loss_curve(phy2phy, MIX))
