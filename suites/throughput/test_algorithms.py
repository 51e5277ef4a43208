"""The same throughput by the classic algorithms, for reports that must name RFC 2544 or TST 009."""

from __future__ import annotations

from pytest_nfvperf import RFC2544_FRAME_SIZES, LiveTopology, Search, SlaCheck, Traffic, sweep


@sweep("algorithm", ["rfc2544", "tst009"], quick={"rfc2544"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_throughput(algorithm: str, frame_size: int, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """Throughput by binary search: RFC 2544 section 26.1, or ETSI TST 009 with loss verification.

    Steps: build port - bridge - port; learn; warm up; bisect the load; confirm.
    Verify: the SLA's ``throughput`` for this topology and frame size.
    """
    sla.check(search.throughput(phy2phy, Traffic(frame_size=frame_size), algorithm))
