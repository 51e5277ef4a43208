"""Throughput against frame size: RFC 2544's and S1's sizes and an IMIX, through one bridge."""

from __future__ import annotations

import pytest

from pytest_nfvperf import (
    IMIXES,
    RFC2544_FRAME_SIZES,
    Imix,
    LiveTopology,
    Search,
    SlaCheck,
    Traffic,
    sweep,
)

OF_RHOSO = (64, 128, 512, 1024, 1500)
"""Of the RHOSO 18 BGP evaluation (S1), in bytes with FCS."""
FRAME_SIZES = sorted({*RFC2544_FRAME_SIZES, *OF_RHOSO})
IMIX = IMIXES["simple"]


@pytest.mark.nfv_smoke
@sweep("frame_size", [*FRAME_SIZES, IMIX], quick={64, 1518})
def test_ndr_pdr(frame_size: int | Imix, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR through one bridge, both directions at once, and latency below them.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch; confirm; latency at 10, 50, 90 % of PDR.
    Verify: the SLA for this topology and frame size.
    """
    outcome = search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size), latency=True)
    sla.check(outcome)


@pytest.mark.nfv(direction="unidirectional")
@pytest.mark.nfv_not_quick
@sweep("frame_size", [64, 512, 1518])
def test_ndr_pdr_one_way(frame_size: int, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR in one direction only.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch from p0 to p1; confirm.
    Verify: the SLA for this topology, frame size and direction.
    """
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size, bidirectional=False)))
