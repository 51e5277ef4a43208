"""Throughput against the number of flows: exact-match cache, signature-match cache, classifier."""

from __future__ import annotations

from pytest_nfvperf import LiveTopology, Search, SlaCheck, Traffic, sweep

FLOWS = (1, 1_000, 10_000, 100_000, 1_000_000)


@sweep("flows", FLOWS, quick={10_000})
def test_ndr_pdr_flows(flows: int, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR at 64 bytes with many flows per direction.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for this number of flows.
    """
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64, flows=flows)))
