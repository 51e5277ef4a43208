"""Forwarding rate by the number of distinct destinations, where each needs a flow of its own in the datapath.

A rule of the bridge reads both addresses. So what one wildcarded flow does for ``test_flows.py`` takes here as many
flows as there are destinations, in a random order that no cache can guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, Traffic, Tuning, Vary, compares, compose, sweep
from pytest_nfvperf.parts import endpoint, rules

BY_ADDRESS = compose("by-address", endpoint("p0", "br0"), endpoint("p1", "br0"), rules("br0", by_address=True))
CACHES = (Tuning(), Tuning(emc_insert_inv_prob=0), Tuning(smc=True), Tuning(emc_insert_inv_prob=0, smc=True))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="by-address", frame_size="64")
@sweep("destinations", (100, 1_000, 10_000, 100_000))
@compares("tuning", CACHES)
def test_destinations(tuning: Sequence[Tuning], destinations: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate of 64-byte frames to many random addresses, with and without the EMC and the SMC.

    Steps: in interleaved rounds start OVS so tuned; build port - bridge - port; warm up; offer more than it forwards.
    Verify: the SLA for each tuning; its rate as a ratio to OVS's default is told.
    """
    addresses = Vary("IP.dst", destinations, first="198.19.0.1", order="random")
    traffic = Traffic(packet=Ether() / IP() / UDP(chksum=0), vary=[addresses], bidirectional=False)
    subjects = [Subject(str(each), BY_ADDRESS, Dut(tuning=each)) for each in tuning]
    sla.check_each(study.forwarding_rate("tuning", subjects, traffic))
