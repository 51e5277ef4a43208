"""S1's sweep: throughput against frame size over the path that BGP routes."""

from __future__ import annotations

from pytest_nfvperf.judging import SlaCheck
from pytest_nfvperf.model.traffic import S1_FRAME_SIZES
from pytest_nfvperf.routing import LiveBgpPath
from pytest_nfvperf.runs.search import Search
from pytest_nfvperf.sweep import sweep


@sweep("frame_size", S1_FRAME_SIZES, quick={64})
def test_ndr_pdr(frame_size: int, bgp_path: LiveBgpPath, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR between clients and the VM, both directions at once, each routed by what BGP announced.

    Steps: FRR and BIRD established with BFD; flows for both networks; search with MLRsearch; confirm.
    Verify: the SLA for this topology and frame size; the session never left Established.
    """
    before = bgp_path.path.session()
    outcome = search.ndr_pdr(bgp_path.live, bgp_path.traffic(frame_size))
    state = bgp_path.path.session()
    assert state.established, f"the session did not survive the search: {state}"
    assert state.flaps == before.flaps, f"the session flapped during the search: {state}"
    sla.check(outcome)
