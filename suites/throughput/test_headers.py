"""Throughput of IPv6 and of frames in a VXLAN: longer headers to parse, flows that only the outer ports tell apart."""

from __future__ import annotations

import pytest

from pytest_nfvperf import LiveTopology, Search, SlaCheck, Traffic, Vxlan

FLOWS = 1000
KINDS = {
    "ipv6": Traffic(frame_size=128, flows=FLOWS).over_ipv6(),
    "vxlan": Traffic(frame_size=128, flows=FLOWS, vxlan=Vxlan()),
    "vxlan-ipv6": Traffic(frame_size=256, flows=FLOWS, vxlan=Vxlan()).over_ipv6(),
}


@pytest.mark.nfv_not_quick
@pytest.mark.parametrize("headers", KINDS)
def test_ndr_pdr_headers(headers: str, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR of a thousand flows of other frames than plain IPv4; sizes are those of the outer frame.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for these headers.
    """
    sla.check(search.ndr_pdr(phy2phy, KINDS[headers]))
