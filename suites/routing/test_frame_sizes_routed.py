"""S1's sweep: throughput against frame size over the path that BGP routes."""

from __future__ import annotations

from pytest_nfvperf import LiveBgpPath, Search, SlaCheck, sweep

FRAME_SIZES = (64, 128, 512, 1024, 1500)
"""Of the RHOSO 18 BGP evaluation, in bytes with FCS."""


@sweep("frame_size", FRAME_SIZES, quick={64})
def test_ndr_pdr(frame_size: int, bgp_path: LiveBgpPath, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR between clients and the VM, both directions at once, each routed by what BGP announced.

    Steps: FRR and BIRD established with BFD; flows for both networks; search with MLRsearch; confirm.
    The search offers more than the path forwards, and BGP and BFD share the queue that overflows then: the session is
    back before each trial, and is judged at loads up to the one confirmed.

    Verify: the SLA for this topology and frame size, and on how often the session went down.
    """
    sla.check(search.ndr_pdr(bgp_path.live, bgp_path.traffic(frame_size), sessions=bgp_path))
