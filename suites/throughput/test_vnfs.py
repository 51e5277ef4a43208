"""Throughput through one and two VNFs: every VNF adds a crossing of the bridge and two vhost copies."""

from __future__ import annotations

from pytest_nfvperf import RFC2544_FRAME_SIZES, LiveTopology, Search, SlaCheck, Traffic, sweep


@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_ndr_pdr_pvp(frame_size: int, pvp: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR through one VNF, both directions at once.

    Steps: build port - bridge - VNF - bridge - port; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for this topology and frame size.
    """
    sla.check(search.ndr_pdr(pvp, Traffic(frame_size=frame_size)))


@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_ndr_pdr_pvvp(frame_size: int, pvvp: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR through two VNFs in a row, both directions at once.

    Steps: build port - bridge - VNF - bridge - VNF - bridge - port; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for this topology and frame size.
    """
    sla.check(search.ndr_pdr(pvvp, Traffic(frame_size=frame_size)))
