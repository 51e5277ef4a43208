"""Two classes at once, told apart by their DSCP: who loses under overload, and up to which load voice does not."""

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
def test_loss_of_classes(phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """Loss of each class, from the maximum load down in steps of 10 % to two loads without any.

    OVS without QoS promises a class nothing: its rings and queues know no DSCP, so under overload both classes lose the
    same share of their frames. A class that loses less has a queue of its own somewhere.

    Steps: build port - bridge - port; learn; warm up; frame-loss curve (RFC 2544 section 26.3), counted by class.
    Verify: the SLA's ``loss_ratio`` of a class at a load, where it has one.
    """
    sla.check(search.loss_curve(phy2phy, MIX))


@pytest.mark.nfv_not_quick
def test_voice_under_overload(phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """The highest load of both classes at which voice loses nothing, whatever bulk loses.

    With queues by DSCP it is as high as the rig goes. OVS without QoS promises no more than the NDR of all
    traffic: above it voice loses as bulk does. So the suite's SLA requires that, and a lab with QoS requires more.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch by voice's loss alone; confirm.
    Verify: the SLA's ``ndr`` and ``loss_ratio`` of class voice.
    """
    sla.check(search.ndr_pdr(phy2phy, MIX, judge_only="voice"))
